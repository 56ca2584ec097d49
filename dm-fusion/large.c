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
 * Where the replicated area is at its limit, small writes of whole blocks that
 * wait together are taken from the waiters and go to a stripe as one large
 * write: a full stripe's at any time, fewer when no other large write of
 * the volume is under way, whose end would be the next occasion.  Where space is
 * scarce they wait for that before the limit is reached, but for nothing else: who
 * is not taken when no large write is under way any more, or as many have ended as
 * there were, is replicated.
 *
 * When a member holds it up, all of it may be written to another stripe, too (hedge.h): then its
 * memory, and the stripe that is not recorded, outlive its answer.
 *
 * A large write gets all of its memory at once (stripe.h), in a workqueue that
 * nothing else waits for, so that those which have theirs can always finish.
 */
#include "commit.h"
#include "hedge.h"
#include "io.h"
#include "large.h"
#include "mode.h"

static struct fusion_pool *large_pool(struct fusion_large *large)
{
	return large->stripe.pool;
}

static struct fusion_stripe_pool *large_class_pool(struct fusion_volume *v)
{
	return &v->pool->large_pool[v->class->index];
}

int fusion_large_init(struct fusion_pool *pool, struct fusion_class *class)
{
	return fusion_stripe_pool_init(&pool->large_pool[class->index], pool,
				       class, offsetof(struct fusion_large, stripe));
}

void fusion_large_exit(struct fusion_pool *pool)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES; i++)
		fusion_stripe_pool_exit(&pool->large_pool[i]);
}

/* ---- the end ---- */

/* A large write of @v has ended, or is not one that others should wait for. */
static void large_leave(struct fusion_volume *v)
{
	atomic_inc(&v->large_ended);
	atomic_dec(&v->large);
	/*
	 * pairs with fusion_wait_for_company(), and with waiters_lock, under which
	 * those who wait for space were added
	 */
	smp_mb__after_atomic();
	if (unlikely(!list_empty_careful(&v->company) ||
		     !list_empty_careful(&v->pool->waiters)))
		fusion_large_group(v);
}

static void large_unhold(struct fusion_large *large)
{
	while (large->held)
		fusion_hold_drop(&large_pool(large)->locks,
				 &large->stripe.slot[--large->held].hold);
}

static void large_answer(struct fusion_io *io, blk_status_t status)
{
	if (io->commit && !status)
		fusion_commit_then_end(io->volume->pool, io->bio);
	else
		fusion_end(io->bio, status);
}

/* Give back everything that was got for the write, but its memory; its I/Os go to @ios. */
static void large_release(struct fusion_large *large, struct list_head *ios)
{
	unsigned int i;

	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&large_pool(large)->map, &large->stripe.slot[i].update);
	large_unhold(large);
	list_splice(&large->ios, ios);
}

static void large_end(struct fusion_volume *v, struct list_head *ios, blk_status_t status)
{
	struct fusion_io *io, *next;

	large_leave(v);
	/* the last answer may be the end of the volume's device */
	list_for_each_entry_safe(io, next, ios, waiter.list)
		large_answer(io, status);
}

void fusion_large_put(struct fusion_large *large)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_volume *v = large->volume;
	blk_status_t status;
	bool recorded, again;
	LIST_HEAD(ios);

	if (!atomic_dec_and_test(&large->refs))
		return;
	recorded = atomic_read(&large->recorded);
	again = large->again;
	status = large->status;
	if (!recorded)
		large_release(large, &ios);
	fusion_stripe_put(&pool->large_pool[large->stripe.class->index], &large->stripe);
	/* from here on the pool may be gone, unless there is something to be answered */
	if (unlikely(again)) {
		fusion_hedge_freed(pool);
		fusion_hedged_end(pool);
	}
	if (!recorded)
		large_end(v, &ios, status);
}

/* It has not been sent. */
static void large_fail(struct fusion_large *large, blk_status_t status)
{
	large->status = status;
	fusion_large_put(large);
}

/* The blocks of @large are in stripe @id. */
static void large_record(struct fusion_large *large, u64 id)
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
				   fusion_place(id, i));
	fusion_space_unhold(&pool->space, id, true);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
}

void fusion_large_attempt_end(struct fusion_large *large, u64 id, blk_status_t status)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_volume *v = large->volume;
	bool record;
	LIST_HEAD(ios);

	record = !status && !atomic_xchg(&large->recorded, 1);
	if (record) {
		if (unlikely(id != large->id))
			fusion_count(pool, hedges_won);
		large_record(large, id);
		large_release(large, &ios);
	} else {
		if (status)
			WRITE_ONCE(large->status, status);
		fusion_space_unhold(&pool->space, id, false);
	}
	fusion_large_put(large);
	if (record)
		large_end(v, &ios, BLK_STS_OK);
}

void fusion_large_done(struct fusion_stripe *stripe)
{
	struct fusion_large *large = fusion_large_of(stripe);

	fusion_large_attempt_end(large, large->id, stripe->status);
}

/* ---- sending ---- */

static void large_send_slot(struct fusion_large *large, unsigned int i)
{
	fusion_stripe_submit(&large->stripe, i, fusion_place(large->id, i), 0,
			     large_pool(large)->block_pages,
			     large->opf);
}

static void large_send(struct fusion_large *large)
{
	struct fusion_class *class = large->stripe.class;
	unsigned int i;

	fusion_count(large_pool(large), large);
	this_cpu_add(large_pool(large)->counters->large_slots, large->blocks + class->p);
	fusion_stripe_begin(&large->stripe, fusion_large_done);
	for (i = 0; i < large->blocks; i++)
		large_send_slot(large, i);
	for (i = class->d; i < class->k; i++)
		large_send_slot(large, i);
	fusion_stripe_end(&large->stripe);
}

/* Copy the data of @bio to the next slots. */
static void large_copy(struct fusion_large *large, struct bio *bio)
{
	size_t bytes = large_pool(large)->block_sectors << SECTOR_SHIFT;
	size_t done = large->blocks * bytes;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
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
}

/* Copy the data and compute the parity. */
static void large_fill(struct fusion_large *large)
{
	struct fusion_pool *pool = large_pool(large);
	struct fusion_io *io;
	unsigned int i, n;

	list_for_each_entry(io, &large->ios, waiter.list) {
		large_copy(large, io->bio);
		large->opf |= io->bio->bi_opf & REQ_SYNC;
		n = bio_sectors(io->bio) >> pool->block_shift;
		for (i = 0; i < n; i++)
			large->block[large->blocks++] = io->block + i;
	}
	fusion_stripe_parity(&large->stripe, fusion_mask(0, large->blocks));
}

/* ---- the path ---- */

static void large_step(struct work_struct *work);

static void large_defer(struct fusion_large *large)
{
	INIT_WORK(&large->work, large_step);
	queue_work(large_pool(large)->io_wq, &large->work);
}

static void large_granted(struct fusion_hold *hold)
{
	struct fusion_slot *slot = container_of(hold, struct fusion_slot, hold);
	struct fusion_large *large = fusion_large_of(slot->stripe);

	large->held++;
	large_defer(large);
}

/* Hold all blocks, in order.  False: large_granted() goes on. */
static bool large_hold(struct fusion_large *large)
{
	while (large->held < large->blocks) {
		if (!fusion_hold_take(&large_pool(large)->locks,
				      &large->stripe.slot[large->held].hold,
				      fusion_block_key(large->volume->id,
						       large->block[large->held]),
				      FUSION_HOLD_EXCLUSIVE, large_granted))
			return false;
		large->held++;
	}
	return true;
}

static int large_prepare(struct fusion_large *large)
{
	unsigned int i;
	int r;

	for (i = 0; i < large->blocks; i++) {
		struct fusion_update *u = &large->stripe.slot[i].update;

		if (u->chunk)
			continue;
		r = fusion_volume_prepare(large->volume, large->block[i],
					  FUSION_UPDATE_ENTRY, u);
		if (r)
			return r;
	}
	return 0;
}

/* Is one of the blocks, which are prepared, not there yet? */
static bool large_grows(struct fusion_large *large)
{
	struct fusion_map *map = &large_pool(large)->map;
	unsigned int i;
	bool grows = false;

	rcu_read_lock();
	for (i = 0; i < large->blocks; i++)
		grows |= !fusion_map_entry(map, large->volume->id,
					   large->block[i]);
	rcu_read_unlock();
	return grows;
}

/* It is under way again. */
static struct fusion_large *large_return(struct fusion_waiter *w)
{
	struct fusion_large *large = container_of(w, struct fusion_large, waiter);

	if (w->grows)
		atomic_inc(&large->volume->large);
	return large;
}

static void large_retry(struct fusion_waiter *w)
{
	large_defer(large_return(w));
}

static void large_wait_failed(struct fusion_waiter *w, blk_status_t status)
{
	large_fail(large_return(w), status);
}

/* Pins and holds would be in the way of others. */
static void large_let_go(struct fusion_large *large)
{
	struct fusion_pool *pool = large_pool(large);
	unsigned int i;

	for (i = 0; i < large->blocks; i++)
		fusion_update_cancel(&pool->map, &large->stripe.slot[i].update);
	large_unhold(large);
	large->waiter.grows = false;
	large->waiter.retry = large_retry;
	large->waiter.fail = large_wait_failed;
}

/*
 * @grows: for blocks that are not there yet.  There may never be room for these,
 * though there is for who waits for company.
 */
static void large_wait(struct fusion_large *large, bool grows)
{
	large_let_go(large);
	large->waiter.grows = grows;
	if (grows)
		large_leave(large->volume);
	fusion_wait_for_space(large_pool(large), &large->waiter, large->volume);
}

static void large_step(struct work_struct *work)
{
	struct fusion_large *large = container_of(work, struct fusion_large, work);
	struct fusion_pool *pool = large_pool(large);
	struct fusion_class *class = large->volume->class;
	int r;

	if (!fusion_pool_writable(pool)) {
		large_fail(large, BLK_STS_IOERR);
		return;
	}
	if (!large_hold(large))
		return;
	if (fusion_commit_crowded(pool)) {
		large_let_go(large);
		fusion_wait_for_room(pool, &large->waiter);
		return;
	}
	fusion_waiter_look(pool, &large->waiter);
	if (READ_ONCE(pool->metadata_low)) {
		large_wait(large, false);
		return;
	}
	r = large_prepare(large);
	if (!r && unlikely(!fusion_space_may_grow(&pool->space, class)) &&
	    large_grows(large)) {
		large_wait(large, true);
		return;
	}
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
		large_wait(large, false);
	else
		large_fail(large, errno_to_blk_status(r));
}

/* Of one write, or of several that were taken together. */
static void large_begin(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_large *large;

	large = fusion_large_of(fusion_stripe_get(large_class_pool(io->volume)));
	large->volume = io->volume;
	list_add_tail(&large->ios, &io->waiter.list);
	large->blocks = 0;
	large->opf = REQ_OP_WRITE;
	large->held = 0;
	atomic_set(&large->refs, 1);
	atomic_set(&large->recorded, 0);
	large->again = false;
	large->seen = false;
	fusion_waiter_init(&large->waiter);
	large->waiter.block = FUSION_NO_BLOCK;
	large_fill(large);
	large_step(&large->work);
}

/* @io and those that it is in a ring with. */
static void large_start(struct fusion_io *io)
{
	atomic_inc(&io->volume->large);
	fusion_defer(io, io->volume->pool->large_wq, large_begin);
}

static void large_needs_commit(struct fusion_io *io)
{
	if (io->bio->bi_opf & REQ_FUA) {
		io->bio->bi_opf &= ~REQ_FUA;
		io->commit = true;
	}
}

int fusion_large_map(struct fusion_io *io)
{
	large_needs_commit(io);
	INIT_LIST_HEAD(&io->waiter.list);
	large_start(io);
	return DM_MAPIO_SUBMITTED;
}

void fusion_large_group(struct fusion_volume *v)
{
	struct fusion_io *io;
	unsigned int n;

	for (;;) {
		LIST_HEAD(ios);

		n = fusion_waiters_take(v, fusion_large_threshold(v->class) + 1,
					v->class->d, &ios);
		if (!n)
			break;
		this_cpu_add(v->pool->counters->grouped, n);
		list_for_each_entry(io, &ios, waiter.list)
			large_needs_commit(io);
		io = list_first_entry(&ios, struct fusion_io, waiter.list);
		list_del(&ios);
		large_start(io);
	}
	fusion_waiters_alone(v);
}
