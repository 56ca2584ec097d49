// SPDX-License-Identifier: GPL-2.0-only
/*
 * The new parity of a row.  See parity.h.
 */
#include <linux/mm.h>
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>

#include "io.h"
#include "parity.h"

static void *page_alloc(void)
{
	return (void *)__get_free_page(GFP_NOIO);
}

/* ---- reading ---- */

static void read_slots(struct fusion_pages *io, struct fusion_parity_row *p,
		       const struct fusion_row *row, u64 slots)
{
	for (; slots; slots &= slots - 1) {
		unsigned int i = fusion_ctz64(slots);

		p->old[i] = page_alloc();
		fusion_pages_submit(io, fusion_place(row->stripe, i), row->page,
				    p->old[i], REQ_OP_READ);
	}
}

void fusion_parity_read(struct fusion_pages *io, struct fusion_parity_row *p,
			const struct fusion_class *class,
			const struct fusion_row *row,
			const struct fusion_selection *selection)
{
	u64 parity = fusion_mask(class->d, class->p), left;

	for (left = row->changed; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		const struct fusion_patch *patch = fusion_row_patch(row, i);

		p->new[i] = page_alloc();
		fusion_pages_submit(io, fusion_patch_slot(patch->at[0]),
				    fusion_patch_at(patch), p->new[i],
				    REQ_OP_READ);
	}
	for (left = parity; left; left &= left - 1) {
		p->new[fusion_ctz64(left)] = page_alloc();
		if (!p->new[fusion_ctz64(left)])
			fusion_pages_fail(io, -ENOMEM);
	}
	p->rmw = fusion_select_rmw(selection, p->written, row->changed, class->p);
	read_slots(io, p, row, p->rmw ? row->changed | parity :
		   p->written & ~row->changed);
}

/* ---- computing ---- */

static void page_xor(void *to, void *from)
{
	xor_blocks(1, PAGE_SIZE, to, &from);
}

/* What is summed up in the place of slot @i; NULL: zeros. */
static void *summand(const struct fusion_parity_row *p, unsigned int i, u64 changed)
{
	if (p->rmw)
		return changed >> i & 1 ? p->old[i] : NULL;
	return changed >> i & 1 ? p->new[i] : p->old[i];
}

void fusion_parity_compute(struct fusion_parity_row *p,
			   const struct fusion_class *class, u64 changed)
{
	void *ptrs[FUSION_MAX_MEMBERS];
	unsigned int i, d = class->d;
	u64 left;

	/* by rmw: what changes, of which the parity is the change of parity */
	if (p->rmw)
		for (left = changed; left; left &= left - 1)
			page_xor(p->old[fusion_ctz64(left)],
				 p->new[fusion_ctz64(left)]);
	for (i = 0; i < class->k; i++)
		ptrs[i] = i < d ? summand(p, i, changed) : p->new[i];
	if (class->p > 1) {
		for (i = 0; i < d; i++)
			if (!ptrs[i])
				ptrs[i] = page_address(ZERO_PAGE(0));
		raid6_call.gen_syndrome(class->k, PAGE_SIZE, ptrs);
	} else {
		memset(ptrs[d], 0, PAGE_SIZE);
		for (i = 0; i < d; i++)
			if (ptrs[i])
				page_xor(ptrs[d], ptrs[i]);
	}
	if (p->rmw)
		for (i = d; i < class->k; i++)
			page_xor(p->new[i], p->old[i]);
}

/* ---- writing ---- */

void fusion_parity_write(struct fusion_pages *io,
			 const struct fusion_parity_row *p,
			 const struct fusion_class *class,
			 const struct fusion_row *row)
{
	u64 left = row->changed | fusion_mask(class->d, class->p);

	for (; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		fusion_pages_submit(io, fusion_place(row->stripe, i), row->page,
				    p->new[i], REQ_OP_WRITE);
	}
}

void fusion_parity_free(struct fusion_parity_row *p)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_MEMBERS; i++) {
		free_page((unsigned long)p->new[i]);
		free_page((unsigned long)p->old[i]);
	}
}
