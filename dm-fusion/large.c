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
 * A large write gets all of its memory at once (stripe.h), in a workqueue that
 * nothing else waits for, so that those which have theirs can always finish.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "stripe.h"
#include "waiters.h"

struct large {
	struct fusion_io *io;
	unsigned int blocks;		/* data slots in use */
	unsigned int held;		/* holds taken */
	u64 id;				/* of the stripe it goes to */
	struct work_struct work;
	struct fusion_waiter waiter;
	struct fusion_stripe stripe;	/* last: has the slots */
};

static struct large *large_of(struct fusion_stripe *stripe)
{
	return container_of(stripe, struct large, stripe);
}

static struct fusion_pool *large_pool(struct large *large)
{
	return large->stripe.pool;
}

static struct fusion_stripe_pool *large_class_pool(struct fusion_io *io)
{
	return &io->volume->pool->large_pool[io->volume->class->index];
}

int fusion_large_init(struct fusion_pool *pool, struct fusion_class *class)
{
	return fusion_stripe_pool_init(&pool->large_pool[class->index], pool,
				       class, offsetof(struct large, stripe));
}

void fusion_large_exit(struct fusion_pool *pool)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES; i++)
		fusion_stripe_pool_exit(&pool->large_pool[i]);
}

/* ---- the end ---- */

static void large_unhold(struct large *large)
{
	while (large->held)
		fusion_hold_drop(&large_pool(large)->locks,
				 &large->stripe.slot[--large->held].hold);
}

/* Everything that was got for the write, given back; answers it. */
static void large_finish(struct large *large, blk_status_t status)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_io *io = large->io;
	unsigned int i;

	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&pool->map, &large->stripe.slot[i].update);
	large_unhold(large);
	fusion_stripe_put(large_class_pool(io), &large->stripe);
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
		fusion_update_base(&pool->map, shard,
				   &large->stripe.slot[i].update,
				   fusion_place(large->id, i));
	fusion_space_unhold(&pool->space, large->id, true);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
}

static void large_done(struct fusion_stripe *stripe)
{
	struct large *large = large_of(stripe);

	if (!stripe->status)
		large_record(large);
	else
		fusion_space_unhold(&stripe->pool->space, large->id, false);
	large_finish(large, stripe->status);
}

/* ---- sending ---- */

static void large_send_slot(struct large *large, unsigned int i)
{
	fusion_stripe_submit(&large->stripe, i, fusion_place(large->id, i), 0,
			     large_pool(large)->block_pages,
			     REQ_OP_WRITE | (large->io->bio->bi_opf & REQ_SYNC));
}

static void large_send(struct large *large)
{
	struct fusion_class *class = large->stripe.class;
	unsigned int i;

	fusion_count(large_pool(large), large);
	fusion_stripe_begin(&large->stripe, large_done);
	for (i = 0; i < large->blocks; i++)
		large_send_slot(large, i);
	for (i = class->d; i < class->k; i++)
		large_send_slot(large, i);
	fusion_stripe_end(&large->stripe);
}

/* Copy the data and compute the parity. */
static void large_fill(struct large *large)
{
	size_t bytes = large_pool(large)->block_sectors << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;
	size_t done = 0;

	bio_for_each_segment(bv, large->io->bio, iter) {
		size_t left = bv.bv_len, from = 0;

		while (left) {
			size_t n = min(left, bytes - done % bytes);

			memcpy_from_page(large->stripe.slot[done / bytes].data +
					 done % bytes, bv.bv_page,
					 bv.bv_offset + from, n);
			done += n;
			from += n;
			left -= n;
		}
	}
	fusion_stripe_parity(&large->stripe, fusion_mask(0, large->blocks));
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
	struct fusion_slot *slot = container_of(hold, struct fusion_slot, hold);
	struct large *large = large_of(slot->stripe);

	large->held++;
	large_defer(large);
}

/* Hold all blocks, in order.  False: large_granted() goes on. */
static bool large_hold(struct large *large)
{
	struct fusion_io *io = large->io;

	while (large->held < large->blocks) {
		if (!fusion_hold_take(&large_pool(large)->locks,
				      &large->stripe.slot[large->held].hold,
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
		struct fusion_update *u = &large->stripe.slot[i].update;

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

/* Pins and holds would be in the way of others. */
static void large_let_go(struct large *large)
{
	struct fusion_pool *pool = large_pool(large);
	unsigned int i;

	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&pool->map, &large->stripe.slot[i].update);
	large_unhold(large);
	large->waiter.retry = large_retry;
	large->waiter.fail = large_wait_failed;
}

static void large_wait(struct large *large)
{
	large_let_go(large);
	fusion_wait_for_space(large_pool(large), &large->waiter,
			      large->io->volume);
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
		large_let_go(large);
		fusion_wait_for_room(pool, &large->waiter);
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
					     &large->id);
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

	large = large_of(fusion_stripe_get(large_class_pool(io)));
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
