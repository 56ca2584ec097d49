// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies.  See copy.h.
 */
#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/highmem.h>

#include "copy.h"
#include "io.h"
#include "private.h"

static bool copy_get_row(struct fusion_copy *copy, unsigned int pages)
{
	void *row = alloc_pages_exact(pages << FUSION_PAGE_SHIFT,
				      GFP_NOIO | __GFP_NOWARN | __GFP_NORETRY);
	unsigned int i;

	for (i = 0; row && i < pages; i++)
		copy->page[i] = virt_to_page(row + (i << FUSION_PAGE_SHIFT));
	return row;
}

int fusion_copy_begin(struct fusion_copy *copy, struct fusion_pool *pool, u64 mask)
{
	unsigned int page;
	u64 left;

	copy->pool = pool;
	copy->apart = false;
	copy->mask = fusion_mask(0, pool->block_pages);
	copy->row = copy_get_row(copy, pool->block_pages);
	if (copy->row)
		return 0;
	/* single pages are to be had where so many in a row are not; but no more than are needed */
	copy->mask = 0;
	for (left = mask; left; left &= left - 1) {
		page = fusion_ctz64(left);
		copy->page[page] = alloc_page(GFP_NOIO);
		if (!copy->page[page]) {
			fusion_copy_end(copy);
			return -ENOMEM;
		}
		copy->mask |= 1ULL << page;
	}
	return 0;
}

void fusion_copy_end(struct fusion_copy *copy)
{
	u64 left;

	for (left = copy->mask; left; left &= left - 1)
		__free_page(copy->page[fusion_ctz64(left)]);
}

/* ---- I/O of which all is waited for together ---- */

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

/* True: all is done. */
static bool copy_wait_end(struct fusion_copy *copy, struct copy_wait *wait)
{
	if (!atomic_dec_and_test(&wait->left))
		wait_for_completion_io(&wait->done);
	fusion_grace_leave(&copy->pool->grace, wait->grace);
	return !wait->failed;
}

/* ---- runs ---- */

/* Pages of the block that are in a row at all places. */
struct copy_run {
	unsigned int page, pages;
	unsigned int first;		/* of the places' pages */
	u64 place[FUSION_MAX_REPLICAS];
};

/* The first run of the pages @left; then these are without it. */
static void copy_next(const struct fusion_copy_place *at, u64 *left, struct copy_run *run)
{
	const struct fusion_patch *patch;

	run->page = fusion_ctz64(*left);
	run->pages = fusion_mask_run(*left, run->page, FUSION_MAX_BLOCK_PAGES - run->page);
	if (at->patches) {
		patch = fusion_patch_of(at->patches, run->page);
		run->pages = fusion_patches_run(at->patches, run->page, run->pages);
		run->first = fusion_patch_at(patch);
		fusion_patch_slots(patch, run->place);
	} else {
		run->first = run->page;
		memcpy(run->place, at->place, at->count * sizeof(*at->place));
	}
	*left &= ~fusion_mask(run->page, run->pages);
}

static void copy_send(struct fusion_copy *copy, struct copy_wait *wait, const struct copy_run *run,
		      unsigned int replica, blk_opf_t opf)
{
	unsigned int i, pages = copy->row ? run->pages : 1;
	struct fusion_pool *pool = copy->pool;
	struct fusion_private *io;
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, run->place[replica], &member);
	for (i = 0; i < run->pages; i += pages) {
		io = fusion_private_get(pool, opf, copy_io_end, wait);
		io->bio.bi_iter.bi_sector = sector + (run->first + i) * FUSION_PAGE_SECTORS;
		__bio_add_page(&io->bio, copy->page[run->page + i], pages << FUSION_PAGE_SHIFT, 0);
		atomic_inc(&wait->left);
		fusion_private_submit(io, &pool->member[member]);
	}
}

/* ---- what others call ---- */

/* An abandoned read may still change the pages: they are its own, and others are used instead. */
static int copy_replace(struct fusion_copy *copy)
{
	struct fusion_copy fresh;
	u64 left;
	int r;

	r = fusion_copy_begin(&fresh, copy->pool, copy->mask);
	if (r)
		return r;
	for (left = copy->mask; left; left &= left - 1)
		copy_highpage(fresh.page[fusion_ctz64(left)], copy->page[fusion_ctz64(left)]);
	fusion_copy_end(copy);
	fresh.apart = copy->apart;
	*copy = fresh;
	return 0;
}

/* Read one page, of the first replica that can be read. */
static int copy_read_page(struct fusion_copy *copy, const struct fusion_copy_place *from,
			  unsigned int page)
{
	u64 left = 1ULL << page;
	struct copy_wait wait;
	struct copy_run run;
	unsigned int i;
	int r;

	copy_next(from, &left, &run);
	for (i = 0; i < from->count; i++) {
		copy_wait_begin(copy, &wait);
		copy_send(copy, &wait, &run, i, REQ_OP_READ);
		if (copy_wait_end(copy, &wait))
			return 0;
		r = wait.abandoned ? copy_replace(copy) : 0;
		if (r)
			return r;
	}
	return -EIO;
}

/* The first replica of @run that is on a member which is not out, or the first. */
static unsigned int copy_replica(struct fusion_copy *copy, const struct fusion_copy_place *from,
				 const struct copy_run *run)
{
	struct fusion_pool *pool = copy->pool;
	unsigned int i;

	if (likely(!fusion_members_lacking(pool)))
		return 0;
	for (i = 0; i < from->count; i++)
		if (!fusion_member_out(fusion_member_at(pool, run->place[i])))
			return i;
	return 0;
}

int fusion_copy_read(struct fusion_copy *copy, const struct fusion_copy_place *from, u64 mask)
{
	struct copy_wait wait;
	struct copy_run run;
	unsigned int replica;
	u64 left;
	int r;

	copy_wait_begin(copy, &wait);
	for (left = mask; left; ) {
		copy_next(from, &left, &run);
		replica = copy_replica(copy, from, &run);
		if (unlikely(replica))
			copy->apart = true;
		copy_send(copy, &wait, &run, replica, REQ_OP_READ);
	}
	if (copy_wait_end(copy, &wait))
		return 0;
	r = wait.abandoned ? copy_replace(copy) : 0;
	copy->apart = true;
	for (left = mask; !r && left; left &= left - 1)
		r = copy_read_page(copy, from, fusion_ctz64(left));
	return r;
}

void fusion_copy_bio(struct fusion_copy *copy, struct bio *bio, unsigned int page)
{
	unsigned int done = 0, part, offset;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		for (offset = 0; offset < bv.bv_len; offset += part) {
			part = min_t(unsigned int, bv.bv_len - offset,
				     PAGE_SIZE - offset_in_page(done));
			memcpy_page(copy->page[page + (done >> PAGE_SHIFT)], offset_in_page(done),
				    bv.bv_page, bv.bv_offset + offset, part);
			done += part;
		}
	}
}

/* Write to the replicas from @first on. */
static int copy_write(struct fusion_copy *copy, const struct fusion_copy_place *to,
		      unsigned int first, u64 mask, blk_opf_t flags)
{
	struct copy_wait wait;
	struct copy_run run;
	unsigned int i;

	copy_wait_begin(copy, &wait);
	while (mask) {
		copy_next(to, &mask, &run);
		for (i = first; i < to->count; i++)
			copy_send(copy, &wait, &run, i, REQ_OP_WRITE | flags);
	}
	return copy_wait_end(copy, &wait) ? 0 : -EIO;
}

int fusion_copy_write(struct fusion_copy *copy, const struct fusion_copy_place *to, u64 mask)
{
	/* somebody waits for them, and no more come behind */
	return copy_write(copy, to, 0, mask, REQ_SYNC | REQ_IDLE);
}

int fusion_copy_spread(struct fusion_copy *copy, const struct fusion_copy_place *at, u64 mask)
{
	int r = fusion_copy_read(copy, at, mask);

	return r ? r : copy_write(copy, at, copy->apart ? 0 : 1, mask, 0);
}
