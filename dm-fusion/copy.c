// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies.  See copy.h.
 */
#include "copy.h"
#include "io.h"

int fusion_copy_begin(struct fusion_copy *copy, struct fusion_pool *pool)
{
	copy->pool = pool;
	copy->pages = pool->block_pages;
	copy->buffer = alloc_pages_exact(copy->pages << FUSION_PAGE_SHIFT,
					 GFP_NOIO | __GFP_NOWARN | __GFP_NORETRY);
	if (copy->buffer)
		return 0;
	/* a page is to be had where so many in a row are not */
	copy->pages = 1;
	copy->buffer = alloc_pages_exact(PAGE_SIZE, GFP_NOIO);
	return copy->buffer ? 0 : -ENOMEM;
}

void fusion_copy_end(struct fusion_copy *copy)
{
	free_pages_exact(copy->buffer, copy->pages << FUSION_PAGE_SHIFT);
}

/* Read or write @pages pages of a place, from page @first on; waits. */
static int copy_submit(struct fusion_copy *copy, u64 place, unsigned int first,
		       unsigned int pages, blk_opf_t opf)
{
	struct fusion_pool *pool = copy->pool;
	struct fusion_member *m;
	struct bio_vec vec;
	unsigned int grace;
	struct bio bio;
	int r;

	/* an area may serve another member once who has found a place there has left */
	grace = fusion_grace_enter(&pool->grace);
	bio_init(&bio, pool->member[0].bdev, &vec, 1, opf);
	m = fusion_aim(pool, &bio, place, first);
	__bio_add_page(&bio, virt_to_page(copy->buffer),
		       pages << FUSION_PAGE_SHIFT, offset_in_page(copy->buffer));
	if (fusion_member_out(m)) {
		r = op_is_write(opf) ? 0 : -EIO;
	} else {
		fusion_member_start(m);
		r = submit_bio_wait(&bio);
		if (op_is_write(opf))
			fusion_member_end_write(m);
		else
			fusion_member_end_read(m);
	}
	fusion_grace_leave(&pool->grace, grace);
	bio_uninit(&bio);
	if (r && op_is_write(opf))
		return fusion_failure_wait(pool, m, bio.bi_status);
	return r ? -EIO : 0;
}

/* The first of the @count places @from that can be read; -1: none. */
static int copy_read(struct fusion_copy *copy, const u64 *from, unsigned int count,
		     unsigned int first, unsigned int pages)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!copy_submit(copy, from[i], first, pages, REQ_OP_READ))
			return i;
	return -1;
}

int fusion_copy_pages(struct fusion_copy *copy, const u64 *from, unsigned int first,
		      const u64 *to, unsigned int at, unsigned int count,
		      unsigned int pages)
{
	unsigned int done, run, i;
	int r = 0, source;

	for (done = 0; !r && done < pages; done += run) {
		run = min(pages - done, copy->pages);
		source = copy_read(copy, from, run > 1 ? 1 : count, first + done, run);
		if (source < 0 && run > 1) {
			/* of the first, those pages that can be read */
			run = 1;
			source = copy_read(copy, from, count, first + done, run);
		}
		if (source < 0)
			return -EIO;
		for (i = 0; !r && i < count; i++)
			if (to[i] != from[source])
				r = copy_submit(copy, to[i], at + done, run,
						REQ_OP_WRITE);
	}
	return r;
}

int fusion_copy_mask(struct fusion_copy *copy, const u64 *from, const u64 *to,
		     unsigned int count, u64 mask)
{
	unsigned int pages = copy->pool->block_pages, page, run;
	int r = 0;

	for (page = 0; !r && page < pages; page += run) {
		run = fusion_mask_run(mask, page, pages - page);
		if (mask & (1ULL << page))
			r = fusion_copy_pages(copy, from, page, to, page, count, run);
	}
	return r;
}
