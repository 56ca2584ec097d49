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

/* I/O of which all is waited for together. */
struct copy_wait {
	struct completion done;
	atomic_t left;
	bool failed, abandoned;
	unsigned int grace;
};

static void copy_wait_begin(struct fusion_copy *copy, struct copy_wait *wait)
{
	init_completion(&wait->done);
	atomic_set(&wait->left, 1);
	wait->failed = false;
	wait->abandoned = false;
	/* an area may serve another member once who has found a place there has left */
	wait->grace = fusion_grace_enter(&copy->pool->grace);
}

static void copy_io_end(void *owner, blk_status_t status, bool abandoned)
{
	struct copy_wait *wait = owner;

	if (status) {
		WRITE_ONCE(wait->failed, true);
		if (abandoned)
			WRITE_ONCE(wait->abandoned, true);
	}
	if (atomic_dec_and_test(&wait->left))
		complete(&wait->done);
}

/* A member may still read into the buffer, which it keeps: another for us. */
static void copy_replace_buffer(struct fusion_copy *copy)
{
	fusion_copy_end(copy);
	while (fusion_copy_begin(copy, copy->pool))
		memalloc_retry_wait(GFP_NOIO);
}

static int copy_wait_end(struct fusion_copy *copy, struct copy_wait *wait)
{
	if (!atomic_dec_and_test(&wait->left))
		wait_for_completion_io(&wait->done);
	fusion_grace_leave(&copy->pool->grace, wait->grace);
	if (wait->abandoned)
		copy_replace_buffer(copy);
	return wait->failed ? -EIO : 0;
}

/* Read or write pages of a place, from its page @first on: those of the buffer from @page on. */
static void copy_send(struct fusion_copy *copy, struct copy_wait *wait, u64 place,
		      unsigned int first, unsigned int page, unsigned int pages, blk_opf_t opf)
{
	struct fusion_pool *pool = copy->pool;
	void *from = copy->buffer + (page << FUSION_PAGE_SHIFT);
	struct fusion_private *io;
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, place, &member);
	io = fusion_private_get(pool, opf, copy_io_end, wait);
	io->bio.bi_iter.bi_sector = sector + first * FUSION_PAGE_SECTORS;
	__bio_add_page(&io->bio, virt_to_page(from), pages << FUSION_PAGE_SHIFT,
		       offset_in_page(from));
	atomic_inc(&wait->left);
	fusion_private_submit(io, &pool->member[member]);
}

/* The same with the buffer's first pages; waits. */
static int copy_submit(struct fusion_copy *copy, u64 place, unsigned int first,
		       unsigned int pages, blk_opf_t opf)
{
	struct copy_wait wait;

	copy_wait_begin(copy, &wait);
	copy_send(copy, &wait, place, first, 0, pages, opf);
	return copy_wait_end(copy, &wait);
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

/* What is to be copied. */
struct copy_plan {
	u64 mask;			/* pages of the block */
	unsigned int count;		/* replicas */
	const struct fusion_patches *patches; /* that these are; NULL: a top's pages */
	const u64 *from;		/* its places */
	const u64 *to;			/* a top's; NULL: the other replicas */
};

/* Pages in a row, in all replicas. */
struct copy_run {
	u64 from[FUSION_MAX_REPLICAS];
	u64 to[FUSION_MAX_REPLICAS];
	unsigned int page;		/* of the block */
	unsigned int first, at;		/* of the places, those read and those written */
	unsigned int pages;
};

/* The first run of the pages @left; then these are without it. */
static void copy_next(const struct copy_plan *plan, u64 *left, struct copy_run *run)
{
	const struct fusion_patch *patch;

	run->page = fusion_ctz64(*left);
	run->pages = fusion_mask_run(*left, run->page, 64 - run->page);
	if (plan->patches) {
		patch = fusion_patch_of(plan->patches, run->page);
		run->pages = fusion_patches_run(plan->patches, run->page, run->pages);
		run->first = fusion_patch_at(patch);
		fusion_patch_slots(patch, run->from);
	} else {
		run->first = run->page;
		memcpy(run->from, plan->from, plan->count * sizeof(*plan->from));
	}
	run->at = plan->to ? run->page : run->first;
	memcpy(run->to, plan->to ?: run->from, plan->count * sizeof(*plan->to));
	*left &= ~fusion_mask(run->page, run->pages);
}

/* All reads, of the first replicas, and then all writes; -EIO: of one of them. */
static int copy_at_once(struct fusion_copy *copy, const struct copy_plan *plan)
{
	struct copy_wait wait;
	struct copy_run run;
	unsigned int i;
	u64 left;
	int r;

	copy_wait_begin(copy, &wait);
	for (left = plan->mask; left; ) {
		copy_next(plan, &left, &run);
		copy_send(copy, &wait, run.from[0], run.first, run.page, run.pages, REQ_OP_READ);
	}
	r = copy_wait_end(copy, &wait);
	if (r)
		return r;
	copy_wait_begin(copy, &wait);
	for (left = plan->mask; left; ) {
		copy_next(plan, &left, &run);
		for (i = 0; i < plan->count; i++)
			if (run.to[i] != run.from[0])
				copy_send(copy, &wait, run.to[i], run.at, run.page, run.pages,
					  REQ_OP_WRITE);
	}
	return copy_wait_end(copy, &wait);
}

/* One after the other, of the first replica that can be read. */
static int copy_pages(struct fusion_copy *copy, const struct copy_run *run, unsigned int count)
{
	unsigned int done, pages, i;
	int r = 0, source;

	for (done = 0; !r && done < run->pages; done += pages) {
		pages = min(run->pages - done, copy->pages);
		source = copy_read(copy, run->from, pages > 1 ? 1 : count, run->first + done,
				   pages);
		if (source < 0 && pages > 1) {
			/* of the first, those pages that can be read */
			pages = 1;
			source = copy_read(copy, run->from, count, run->first + done, pages);
		}
		if (source < 0)
			return -EIO;
		for (i = 0; !r && i < count; i++)
			if (run->to[i] != run->from[source])
				r = copy_submit(copy, run->to[i], run->at + done, pages,
						REQ_OP_WRITE);
	}
	return r;
}

static int copy_all(struct fusion_copy *copy, const struct copy_plan *plan)
{
	struct copy_run run;
	u64 left;
	int r = 0;

	if (copy->pages == copy->pool->block_pages && !copy_at_once(copy, plan))
		return 0;
	for (left = plan->mask; !r && left; ) {
		copy_next(plan, &left, &run);
		r = copy_pages(copy, &run, plan->count);
	}
	return r;
}

int fusion_copy_mask(struct fusion_copy *copy, const u64 *from, const u64 *to,
		     unsigned int count, u64 mask)
{
	const struct copy_plan plan = {
		.mask = mask, .count = count, .from = from, .to = to,
	};

	return copy_all(copy, &plan);
}

int fusion_copy_patches(struct fusion_copy *copy, const struct fusion_patches *patches,
			const u64 *to)
{
	const struct copy_plan plan = {
		.mask = patches->mask, .count = fusion_patch_replicas(patches->patch),
		.patches = patches, .to = to,
	};

	return copy_all(copy, &plan);
}
