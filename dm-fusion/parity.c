// SPDX-License-Identifier: GPL-2.0-only
/*
 * The new parity of a row.  See parity.h.
 */
#include <linux/mm.h>
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>

#include "io.h"
#include "parity.h"
#include "stripe.h"

/* ---- reading ---- */

/* The slots of which the old pages are needed. */
static u64 old_slots(const struct fusion_parity_row *p,
		     const struct fusion_class *class, u64 changed)
{
	return p->rmw ? changed | fusion_mask(class->d, class->p) :
		p->written & ~changed;
}

void fusion_parity_read_old(struct fusion_pages *io, struct fusion_parity_row *p,
			    const struct fusion_class *class,
			    const struct fusion_row *row)
{
	u64 slots = old_slots(p, class, row->changed);
	unsigned int j;

	for (j = class->d; j < class->k; j++) {
		if (!p->new[j])
			p->new[j] = (void *)__get_free_page(GFP_NOIO);
		if (!p->new[j])
			fusion_pages_fail(io, -ENOMEM);
	}
	for (; slots; slots &= slots - 1) {
		unsigned int i = fusion_ctz64(slots);

		if (!p->old[i])
			fusion_pages_read(io, fusion_place(row->stripe, i), row->page,
					  &p->old[i]);
	}
}

void fusion_parity_read(struct fusion_pages *io, struct fusion_parity_row *p,
			const struct fusion_class *class,
			const struct fusion_row *row,
			const struct fusion_selection *selection)
{
	u64 left;

	for (left = row->changed; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		const struct fusion_patch *patch = fusion_row_patch(row, i);

		fusion_pages_read(io, fusion_patch_slot(patch->at[0]),
				  fusion_patch_at(patch), &p->new[i]);
	}
	p->rmw = fusion_select_rmw(selection, p->written, row->changed, class->p);
	fusion_parity_read_old(io, p, class, row);
}

int fusion_parity_read_patch(struct fusion_pool *pool, const struct fusion_patch *patch,
			     unsigned int copies, void **data)
{
	struct fusion_pages io;
	int r = -EIO;

	for (; r == -EIO && copies; copies &= copies - 1) {
		fusion_pages_begin(&io, pool);
		fusion_pages_read(&io, fusion_patch_slot(patch->at[__ffs(copies)]),
				  fusion_patch_at(patch), data);
		r = fusion_pages_end(&io);
	}
	return r;
}

/* Is everything there that the parity is computed from? */
static bool old_complete(const struct fusion_parity_row *p,
			 const struct fusion_class *class, u64 changed)
{
	u64 slots = old_slots(p, class, changed);

	for (; slots; slots &= slots - 1)
		if (!p->old[fusion_ctz64(slots)])
			return false;
	return true;
}

/* Read what is not there of the old pages of @slots; those that cannot be, or -ENOMEM. */
static int old_read(struct fusion_pool *pool, struct fusion_parity_row *p,
		    const struct fusion_row *row, u64 slots, u64 *lost)
{
	struct fusion_pages io;
	int r;
	u64 left;

	fusion_pages_begin(&io, pool);
	for (left = slots; left; left &= left - 1)
		if (!p->old[fusion_ctz64(left)])
			fusion_pages_read(&io, fusion_place(row->stripe, fusion_ctz64(left)),
					  row->page, &p->old[fusion_ctz64(left)]);
	r = fusion_pages_end(&io);
	for (left = slots; left; left &= left - 1)
		if (!p->old[fusion_ctz64(left)])
			*lost |= left & -left;
	return r == -ENOMEM ? r : 0;
}

/* A page of slot @i; of what changes, and of parities, in @from. */
static void **row_page(struct fusion_parity_row *p, u64 unchanged, unsigned int i,
		       void **from)
{
	return unchanged >> i & 1 ? &p->old[i] : &from[i];
}

/*
 * Compute the pages of @lost from those of @sources.  @from has what changes and the
 * parities, both from before or both new.
 */
static int row_recover(struct fusion_parity_row *p, const struct fusion_class *class,
		       u64 changed, u64 lost, u64 sources, void **from)
{
	u64 parities = fusion_mask(class->d, class->p), left;
	u64 unchanged = p->written & ~changed;
	void *ptrs[FUSION_MAX_MEMBERS];
	unsigned int i;

	for (left = lost | parities; left; left &= left - 1) {
		void **page = row_page(p, unchanged, fusion_ctz64(left), from);

		if (!*page)
			*page = (void *)__get_free_page(GFP_NOIO);
		if (!*page)
			return -ENOMEM;
	}
	for (i = 0; i < class->k; i++)
		ptrs[i] = (p->written | parities) >> i & 1 ?
			*row_page(p, unchanged, i, from) :
			page_address(ZERO_PAGE(0));
	fusion_page_recover(class, ptrs, lost, sources);
	return 0;
}

/* For rcw: what does not change and cannot be read is computed from the rest of the row. */
static int old_recover(struct fusion_pool *pool, struct fusion_parity_row *p,
		       const struct fusion_class *class,
		       const struct fusion_row *row)
{
	u64 sources = p->written & ~row->changed, lost = 0, before;
	int r;

	p->rmw = false;
	do {
		before = lost;
		r = old_read(pool, p, row, sources, &lost);
		if (r)
			return r;
		sources = fusion_recover_sources(p->written, lost, class->d, class->p);
		if (!sources)
			return -EIO;
	} while (lost != before);
	lost &= p->written;
	/* none, if what failed before could be read now */
	return lost ? row_recover(p, class, row->changed, lost, sources, p->old) : 0;
}

int fusion_parity_redo(struct fusion_pool *pool, struct fusion_parity_row *p,
		       const struct fusion_class *class, const struct fusion_row *row)
{
	u64 lost = 0, sources;
	unsigned int i;
	int r;

	p->rmw = false;
	for (i = class->d; i < class->k; i++)
		if (!p->new[i])
			lost |= 1ULL << i;
	r = old_read(pool, p, row, p->written & ~row->changed, &lost);
	if (!r && lost & p->written) {
		sources = fusion_recover_sources(p->written, lost, class->d, class->p);
		r = sources ? row_recover(p, class, row->changed, lost & p->written,
					  sources, p->new) : -EIO;
	}
	for (i = class->d; !r && i < class->k; i++) {
		if (!p->new[i])
			p->new[i] = (void *)__get_free_page(GFP_NOIO);
		if (!p->new[i])
			r = -ENOMEM;
	}
	if (!r)
		fusion_parity_compute(p, class, row->changed);
	return r;
}

int fusion_parity_reread(struct fusion_pool *pool, struct fusion_parity_row *p,
			 const struct fusion_class *class,
			 const struct fusion_row *row)
{
	struct fusion_pages io;
	u64 left;
	int r;

	for (left = row->changed; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		r = p->new[i] ? 0 :
			fusion_parity_read_patch(pool, fusion_row_patch(row, i),
						 fusion_mask(1, class->p),
						 &p->new[i]);
		if (r)
			return r;
	}
	if (!old_complete(p, class, row->changed))
		p->rmw = !p->rmw;
	fusion_pages_begin(&io, pool);
	fusion_parity_read_old(&io, p, class, row);
	r = fusion_pages_end(&io);
	return r == -EIO ? old_recover(pool, p, class, row) : r;
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

		fusion_pages_write(io, fusion_place(row->stripe, i), row->page,
				   p->new[i]);
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
