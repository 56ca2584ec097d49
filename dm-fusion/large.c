// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large writes: whole blocks straight to a fresh RAID stripe.
 *
 * The data is copied to private pages, so that what parity is computed from
 * is what is written.  Data and parity go to a stripe that nothing refers to.
 * When all of it is written, the map in core is switched for all blocks in
 * one epoch and the write is acknowledged.  Until that epoch's commit, which
 * flushes the members first, a power cut leaves the old mappings; after it
 * the new ones, data and parity durable.  The stripe is never written again.
 *
 * Slots that the write does not fill are not written; they count as zeros in
 * parity.
 *
 * A large write is one object with all of its memory, from a pool that always
 * has some: it is got first, in a workqueue that nothing else waits for, so
 * that those which have theirs can always finish.
 */
#include <linux/mempool.h>
#include <linux/raid/xor.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "commit.h"
#include "io.h"
#include "mode.h"
#include "waiters.h"

#define LARGE_POOL_MIN	2

/*
 * Objects that have been used are kept, up to this many bytes for a class:
 * many kernels clear each page they hand out, which costs a quarter of a full
 * stripe's write.
 */
#define LARGE_KEPT_BYTES	SZ_8M

/* One slot's buffer: @data is block_sectors long. */
struct large_slot {
	void *data;
	struct fusion_hold hold;	/* of the block; data slots only */
	struct fusion_update update;
	struct fusion_member *member;
	struct bio bio;
	struct bio_vec vec;
	struct large *large;
};

struct large {
	struct list_head list;		/* while it is kept */
	struct fusion_io *io;
	unsigned int blocks;		/* data slots in use */
	unsigned int held;		/* holds taken */
	u64 stripe;
	blk_status_t status;
	atomic_t pending;
	struct work_struct work;
	struct fusion_waiter waiter;
	struct large_slot slot[];	/* k, data first */
};

static struct fusion_pool *large_pool(struct large *large)
{
	return large->io->volume->pool;
}

/* ---- memory ---- */

static void large_free(void *element, void *context)
{
	struct fusion_large_pool *lp = context;
	struct large *large = element;
	unsigned int i;

	for (i = 0; i < lp->width; i++)
		free_pages((unsigned long)large->slot[i].data, lp->order);
	kvfree(large);
}

static void *large_alloc(gfp_t gfp, void *context)
{
	struct fusion_large_pool *lp = context;
	struct large *large;
	unsigned int i;

	gfp |= __GFP_NOWARN;
	large = kvzalloc(struct_size(large, slot, lp->width), gfp);
	if (!large)
		return NULL;
	for (i = 0; i < lp->width; i++) {
		large->slot[i].large = large;
		large->slot[i].data = (void *)__get_free_pages(gfp, lp->order);
		if (!large->slot[i].data) {
			/* free_pages() takes the empty ones */
			large_free(large, context);
			return NULL;
		}
	}
	return large;
}

int fusion_large_init(struct fusion_pool *pool, struct fusion_class *class)
{
	struct fusion_large_pool *lp = &pool->large_pool[class->index];

	if (mempool_initialized(&lp->pool))
		return 0;
	lp->width = class->k;
	lp->order = get_order(pool->block_sectors << SECTOR_SHIFT);
	lp->kept_max = LARGE_KEPT_BYTES / (lp->width * PAGE_SIZE << lp->order);
	spin_lock_init(&lp->lock);
	INIT_LIST_HEAD(&lp->kept);
	return mempool_init(&lp->pool, LARGE_POOL_MIN, large_alloc, large_free,
			    lp);
}

void fusion_large_exit(struct fusion_pool *pool)
{
	struct large *large, *next;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES; i++) {
		struct fusion_large_pool *lp = &pool->large_pool[i];

		if (!mempool_initialized(&lp->pool))
			continue;
		list_for_each_entry_safe(large, next, &lp->kept, list)
			large_free(large, lp);
		mempool_exit(&lp->pool);
	}
}

static struct fusion_large_pool *large_class_pool(struct fusion_io *io)
{
	return &io->volume->pool->large_pool[io->volume->class->index];
}

/* Sleeps until there is one. */
static struct large *large_get(struct fusion_large_pool *lp)
{
	struct large *large;
	unsigned long flags;

	spin_lock_irqsave(&lp->lock, flags);
	large = list_first_entry_or_null(&lp->kept, struct large, list);
	if (large) {
		list_del(&large->list);
		lp->kept_count--;
	}
	spin_unlock_irqrestore(&lp->lock, flags);
	return large ? large : mempool_alloc(&lp->pool, GFP_NOIO);
}

/* Any context. */
static void large_give_back(struct fusion_large_pool *lp, struct large *large)
{
	unsigned long flags;

	/* somebody may sleep until the reserve is whole again */
	if (READ_ONCE(lp->pool.curr_nr) == lp->pool.min_nr) {
		spin_lock_irqsave(&lp->lock, flags);
		if (lp->kept_count < lp->kept_max) {
			list_add(&large->list, &lp->kept);
			lp->kept_count++;
			large = NULL;
		}
		spin_unlock_irqrestore(&lp->lock, flags);
	}
	if (large)
		mempool_free(large, &lp->pool);
}

/* ---- the end ---- */

static void large_unhold(struct large *large)
{
	while (large->held)
		fusion_hold_drop(&large_pool(large)->locks,
				 &large->slot[--large->held].hold);
}

/* Everything that was got for the write, given back; answers it. */
static void large_finish(struct large *large, blk_status_t status)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_io *io = large->io;
	unsigned int i;

	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&pool->map, &large->slot[i].update);
	large_unhold(large);
	large_give_back(large_class_pool(io), large);
	if (io->commit && !status)
		fusion_commit_then_end(pool, io->bio);
	else
		fusion_end(io->bio, status);
}

static void large_record(struct large *large)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;

	/* all blocks of the stripe in one epoch: its written mask is theirs */
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	for (i = 0; i < large->blocks; i++)
		fusion_update_base(&pool->map, shard, &large->slot[i].update,
				   fusion_place(large->stripe, i));
	fusion_space_unhold(&pool->space, large->stripe, true);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
}

static void large_put(struct large *large)
{
	if (!atomic_dec_and_test(&large->pending))
		return;
	if (!large->status)
		large_record(large);
	else
		fusion_space_unhold(&large_pool(large)->space, large->stripe,
				    false);
	large_finish(large, large->status);
}

static void large_slot_end(struct bio *bio)
{
	struct large_slot *slot = container_of(bio, struct large_slot, bio);
	struct large *large = slot->large;

	fusion_member_end_write(slot->member);
	if (bio->bi_status)
		WRITE_ONCE(large->status, bio->bi_status);
	bio_uninit(bio);
	large_put(large);
}

/* ---- sending ---- */

static void large_send_slot(struct large *large, struct large_slot *slot,
			    u64 place)
{
	struct fusion_pool *pool = large_pool(large);
	size_t bytes = pool->block_sectors << SECTOR_SHIFT;
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, place, &member);
	slot->member = &pool->member[member];
	bio_init(&slot->bio, slot->member->bdev, &slot->vec, 1,
		 REQ_OP_WRITE | (large->io->bio->bi_opf & REQ_SYNC));
	slot->bio.bi_iter.bi_sector = sector;
	slot->bio.bi_end_io = large_slot_end;
	__bio_add_page(&slot->bio, virt_to_page(slot->data), bytes, 0);
	fusion_member_start(slot->member);
	submit_bio_noacct(&slot->bio);
}

static void large_send(struct large *large)
{
	struct fusion_class *class = large->io->volume->class;
	unsigned int i;

	large->status = BLK_STS_OK;
	atomic_set(&large->pending, large->blocks + class->p + 1);
	for (i = 0; i < large->blocks; i++)
		large_send_slot(large, &large->slot[i],
				fusion_place(large->stripe, i));
	for (i = class->d; i < class->k; i++)
		large_send_slot(large, &large->slot[i],
				fusion_place(large->stripe, i));
	fusion_count(large_pool(large), large);
	large_put(large);
}

/* Copy the data and compute the parity. */
static void large_fill(struct large *large)
{
	struct fusion_pool *pool = large_pool(large);
	size_t bytes = pool->block_sectors << SECTOR_SHIFT;
	struct bio *bio = large->io->bio;
	void *parity = large->slot[large->io->volume->class->d].data;
	void *src[MAX_XOR_BLOCKS];
	struct bvec_iter iter;
	struct bio_vec bv;
	size_t done = 0;
	unsigned int i, n;

	bio_for_each_segment(bv, bio, iter) {
		size_t left = bv.bv_len, from = 0;

		while (left) {
			size_t n = min(left, bytes - done % bytes);

			memcpy_from_page(large->slot[done / bytes].data +
					 done % bytes, bv.bv_page,
					 bv.bv_offset + from, n);
			done += n;
			from += n;
			left -= n;
		}
	}

	memcpy(parity, large->slot[0].data, bytes);
	for (i = 1; i < large->blocks; i += n) {
		for (n = 0; n < MAX_XOR_BLOCKS && i + n < large->blocks; n++)
			src[n] = large->slot[i + n].data;
		xor_blocks(n, bytes, parity, src);
	}
}

/* ---- the path ---- */

static void large_step(struct work_struct *work);

static void large_defer(struct large *large)
{
	INIT_WORK(&large->work, large_step);
	queue_work(large_pool(large)->io_wq, &large->work);
}

static void large_granted(struct fusion_hold *hold)
{
	struct large_slot *slot = container_of(hold, struct large_slot, hold);

	slot->large->held++;
	large_defer(slot->large);
}

/* Hold all blocks, in order.  False: large_granted() goes on. */
static bool large_hold(struct large *large)
{
	struct fusion_io *io = large->io;

	while (large->held < large->blocks) {
		if (!fusion_hold_take(&large_pool(large)->locks,
				      &large->slot[large->held].hold,
				      fusion_block_key(io->volume->id,
						       io->block + large->held),
				      FUSION_HOLD_EXCLUSIVE, large_granted))
			return false;
		large->held++;
	}
	return true;
}

static int large_prepare(struct large *large)
{
	struct fusion_io *io = large->io;
	unsigned int i;
	int r;

	for (i = 0; i < large->blocks; i++) {
		struct fusion_update *u = &large->slot[i].update;

		if (u->chunk)
			continue;
		r = fusion_volume_prepare(io->volume, io->block + i, u);
		if (r)
			return r;
	}
	return 0;
}

static void large_retry(struct fusion_waiter *w)
{
	large_defer(container_of(w, struct large, waiter));
}

static void large_wait_failed(struct fusion_waiter *w, blk_status_t status)
{
	large_finish(container_of(w, struct large, waiter), status);
}

static void large_wait(struct large *large)
{
	struct fusion_pool *pool = large_pool(large);
	unsigned int i;

	/* pins and holds would be in the way of others */
	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&pool->map, &large->slot[i].update);
	large_unhold(large);
	large->waiter.retry = large_retry;
	large->waiter.fail = large_wait_failed;
	fusion_wait_for_space(pool, &large->waiter, large->io->volume);
}

static void large_step(struct work_struct *work)
{
	struct large *large = container_of(work, struct large, work);
	struct fusion_pool *pool = large_pool(large);
	struct fusion_class *class = large->io->volume->class;
	int r;

	if (!fusion_pool_writable(pool)) {
		large_finish(large, BLK_STS_IOERR);
		return;
	}
	if (!large_hold(large))
		return;
	if (fusion_commit_crowded(pool)) {
		large->waiter.judged = false;
		large_wait(large);
		return;
	}
	if (READ_ONCE(pool->metadata_low)) {
		large_wait(large);
		return;
	}
	r = large_prepare(large);
	fusion_waiter_look(pool, &large->waiter);
	while (!r) {
		r = fusion_space_draw_stripe(&pool->space, class,
					     &large->stripe);
		if (!r) {
			large_send(large);
			return;
		}
		r = fusion_space_refill(&pool->space, class, 1,
					&pool->commit_lock);
	}
	if (r == -ENOSPC)
		large_wait(large);
	else
		large_finish(large, errno_to_blk_status(r));
}

static void large_begin(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_pool *pool = io->volume->pool;
	struct large *large;

	large = large_get(large_class_pool(io));
	large->io = io;
	large->blocks = bio_sectors(io->bio) >> pool->block_shift;
	large->held = 0;
	large->waiter.judged = false;
	large_fill(large);
	large_step(&large->work);
}

int fusion_large_map(struct fusion_io *io)
{
	struct bio *bio = io->bio;

	if (bio->bi_opf & REQ_FUA) {
		bio->bi_opf &= ~REQ_FUA;
		io->commit = true;
	}
	fusion_defer(io, io->volume->pool->large_wq, large_begin);
	return DM_MAPIO_SUBMITTED;
}
