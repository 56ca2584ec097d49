// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies.  See copy.h.
 */
#include <linux/completion.h>
#include <linux/sched/mm.h>

#include "copy.h"
#include "private.h"

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

struct copy_io {
	struct completion done;
	blk_status_t status;
	bool abandoned;
};

static void copy_io_end(void *owner, blk_status_t status, bool abandoned)
{
	struct copy_io *c = owner;

	c->status = status;
	c->abandoned = abandoned;
	complete(&c->done);
}

/* A member may still read into the buffer, which it keeps: another for us. */
static void copy_replace_buffer(struct fusion_copy *copy)
{
	fusion_copy_end(copy);
	while (fusion_copy_begin(copy, copy->pool))
		memalloc_retry_wait(GFP_NOIO);
}

/* Read or write @pages pages of a place, from page @first on; waits. */
static int copy_submit(struct fusion_copy *copy, u64 place, unsigned int first,
		       unsigned int pages, blk_opf_t opf)
{
	struct fusion_pool *pool = copy->pool;
	struct fusion_private *io;
	unsigned int grace;
	struct copy_io c;
	sector_t sector;
	u32 member;

	init_completion(&c.done);
	/* an area may serve another member once who has found a place there has left */
	grace = fusion_grace_enter(&pool->grace);
	sector = fusion_space_locate(&pool->space, place, &member);
	io = fusion_private_get(pool, opf, copy_io_end, &c);
	io->bio.bi_iter.bi_sector = sector + first * FUSION_PAGE_SECTORS;
	__bio_add_page(&io->bio, virt_to_page(copy->buffer),
		       pages << FUSION_PAGE_SHIFT, offset_in_page(copy->buffer));
	fusion_private_submit(io, &pool->member[member]);
	wait_for_completion_io(&c.done);
	fusion_grace_leave(&pool->grace, grace);
	if (c.abandoned && c.status)
		copy_replace_buffer(copy);
	return c.status ? -EIO : 0;
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
