// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiters.  See waiters.h.
 */
#include <linux/module.h>

#include "mode.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

static unsigned int no_space_timeout = 60;
module_param(no_space_timeout, uint, 0644);
MODULE_PARM_DESC(no_space_timeout,
		 "Seconds that writes wait for space before they fail (0: for ever)");

static void waiters_fail(struct list_head *list, blk_status_t status)
{
	struct fusion_waiter *w, *next;

	list_for_each_entry_safe(w, next, list, list)
		w->fail(w, status);
}

/* What has become free is not for @w. */
static bool waiter_stays(struct fusion_pool *pool, const struct fusion_waiter *w)
{
	return w->grows &&
		!fusion_space_may_grow(&pool->space, w->volume->class);
}

/* Is there room for new blocks of some class? */
static bool pool_may_grow(struct fusion_pool *pool)
{
	struct fusion_space *s = &pool->space;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		if (fusion_space_may_grow(s, s->class[i]))
			return true;
	return false;
}

static bool waiter_in_vain(struct fusion_pool *pool,
			   const struct fusion_waiter *w)
{
	return waiter_stays(pool, w) &&
		READ_ONCE(w->volume->class->fruitless) - w->since >= 2;
}

static void waiters_retry(struct list_head *list)
{
	struct fusion_waiter *w, *next;

	list_for_each_entry_safe(w, next, list, list)
		w->retry(w);
}

static void parked_timeout(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(to_delayed_work(work),
						struct fusion_pool,
						parked_timeout);
	LIST_HEAD(list);

	spin_lock_irq(&pool->waiters_lock);
	list_splice_init(&pool->parked, &list);
	spin_unlock_irq(&pool->waiters_lock);
	if (list_empty(&list))
		return;
	DMWARN("%s: no space was freed for %u seconds: writes that waited fail",
	       fusion_pool_name(pool), no_space_timeout);
	waiters_fail(&list, BLK_STS_NOSPC);
}

void fusion_waiters_init(struct fusion_pool *pool)
{
	spin_lock_init(&pool->waiters_lock);
	INIT_LIST_HEAD(&pool->waiters);
	INIT_LIST_HEAD(&pool->crowd);
	INIT_LIST_HEAD(&pool->unpatched);
	INIT_LIST_HEAD(&pool->parked);
	INIT_DELAYED_WORK(&pool->parked_timeout, parked_timeout);
}

void fusion_waiters_exit(struct fusion_pool *pool)
{
	cancel_delayed_work_sync(&pool->parked_timeout);
}

/* Add @w to @list, and have a commit begin. */
static void waiter_add(struct fusion_pool *pool, struct fusion_waiter *w,
		       struct list_head *list)
{
	blk_status_t status = BLK_STS_OK;
	unsigned long flags;

	spin_lock_irqsave(&pool->waiters_lock, flags);
	/* after this, changes that free space are in this epoch or earlier */
	w->epoch = READ_ONCE(pool->epochs.current_number);
	/* a look for space before the last freeing says nothing */
	if (w->freed != pool->freed)
		w->judged = false;
	if (!fusion_pool_writable(pool))
		status = BLK_STS_IOERR;
	else
		list_add_tail(&w->list, list);
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	if (status)
		w->fail(w, status);
	else
		fusion_commit_kick(pool);
}

void fusion_wait_for_room(struct fusion_pool *pool, struct fusion_waiter *w)
{
	w->judged = false;
	waiter_add(pool, w, &pool->crowd);
}

void fusion_wait_for_space(struct fusion_pool *pool, struct fusion_waiter *w,
			   struct fusion_volume *volume)
{
	w->volume = volume;
	if (!w->grows)
		w->since = 0;
	else if (!w->since)
		w->since = READ_ONCE(volume->class->fruitless);
	waiter_add(pool, w, &pool->waiters);
	/* pairs with fusion_round_end(): who waits, before the mark is seen */
	smp_mb();
	if (READ_ONCE(pool->reclaim.untried))
		WRITE_ONCE(pool->space.reclaimable,
			   !READ_ONCE(pool->reclaim.stop));
	fusion_reclaim_kick(pool);
}

bool fusion_wait_for_patches(struct fusion_pool *pool, struct fusion_waiter *w)
{
	unsigned long flags;
	bool waits, first;

	spin_lock_irqsave(&pool->waiters_lock, flags);
	/* under the lock: who frees the last ones has yet to look at the list */
	waits = atomic64_read(&pool->space.patch_blocks) &&
		!READ_ONCE(pool->reclaim.stop) && fusion_pool_writable(pool);
	first = waits && list_empty(&pool->unpatched);
	if (waits)
		list_add_tail(&w->list, &pool->unpatched);
	else
		w->unmerged = true;
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	/* for the others it has been done */
	if (first) {
		/* pairs with fusion_round_end(): who waits, before the mark */
		smp_mb();
		WRITE_ONCE(pool->space.reclaimable,
			   !READ_ONCE(pool->reclaim.stop));
		fusion_reclaim_kick(pool);
	}
	return waits;
}

void fusion_waiters_unmerged(struct fusion_pool *pool)
{
	struct fusion_waiter *w;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&pool->waiters_lock, flags);
	list_splice_init(&pool->unpatched, &list);
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	list_for_each_entry(w, &list, list)
		w->unmerged = true;
	waiters_retry(&list);
}

bool fusion_wait_for_company(struct fusion_waiter *w,
			     struct fusion_volume *volume)
{
	struct fusion_pool *pool = volume->pool;
	unsigned long flags;
	int large;

	spin_lock_irqsave(&pool->waiters_lock, flags);
	large = atomic_read(&volume->large);
	/* one of the large writes may be parked: who knows how long */
	if (w->alone || !list_empty(&pool->parked))
		large = 0;
	w->alone = true;
	if (large) {
		w->volume = volume;
		w->until = atomic_read(&volume->large_ended) + large;
		list_add_tail(&w->list, &volume->company);
	}
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	/* pairs with large_leave(): it sees @w, or who groups then sees its end */
	smp_mb();
	return large;
}

/* Has @w waited for long enough?  Under waiters_lock. */
static bool waiter_due(const struct fusion_waiter *w)
{
	struct fusion_volume *v = w->volume;

	return !atomic_read(&v->large) ||
		(s32)(atomic_read(&v->large_ended) - w->until) >= 0;
}

void fusion_waiters_alone(struct fusion_volume *volume)
{
	struct fusion_pool *pool = volume->pool;
	struct fusion_waiter *w, *next;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&pool->waiters_lock, flags);
	list_for_each_entry_safe(w, next, &volume->company, list) {
		if (!waiter_due(w))
			break;
		list_move_tail(&w->list, &list);
	}
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	waiters_retry(&list);
}

/* Add @w to @sorted, in the order of blocks, unless its block is there. */
static bool waiter_sort(struct fusion_waiter *w, struct list_head *sorted)
{
	struct fusion_waiter *before;

	list_for_each_entry_reverse(before, sorted, sorted) {
		if (before->block == w->block)
			return false;
		if (before->block < w->block)
			break;
	}
	list_add(&w->sorted, &before->sorted);
	return true;
}

/* Sort those of @volume with a block who wait on @from, until there are @most. */
static unsigned int waiters_sort(struct fusion_volume *volume,
				 struct list_head *from, unsigned int most,
				 struct list_head *sorted)
{
	struct fusion_waiter *w;
	unsigned int count = 0;

	list_for_each_entry(w, from, list) {
		if (count == most)
			break;
		if (w->volume == volume && w->block != FUSION_NO_BLOCK)
			count += waiter_sort(w, sorted);
	}
	return count;
}

/* The fewest who go together now.  Under waiters_lock. */
static unsigned int waiters_least(struct fusion_volume *volume,
				  unsigned int few, unsigned int most)
{
	struct fusion_waiter *oldest;

	oldest = list_first_entry_or_null(&volume->company,
					  struct fusion_waiter, list);
	return !atomic_read(&volume->large) || (oldest && waiter_due(oldest)) ?
		few : most;
}

unsigned int fusion_waiters_take(struct fusion_volume *volume,
				 unsigned int few, unsigned int most,
				 struct list_head *list)
{
	struct fusion_pool *pool = volume->pool;
	struct fusion_waiter *w;
	unsigned long flags;
	unsigned int count;
	LIST_HEAD(sorted);

	/* who looks at the lists without the lock must not find them empty before */
	spin_lock_irqsave(&pool->waiters_lock, flags);
	count = waiters_sort(volume, &volume->company, most, &sorted);
	count += waiters_sort(volume, &pool->waiters, most - count, &sorted);
	if (count < waiters_least(volume, few, most))
		count = 0;
	else
		list_for_each_entry(w, &sorted, sorted)
			list_move_tail(&w->list, list);
	spin_unlock_irqrestore(&pool->waiters_lock, flags);
	return count;
}

u32 fusion_waiters_classes(struct fusion_pool *pool)
{
	struct fusion_waiter *w;
	u32 classes = 0;

	spin_lock_irq(&pool->waiters_lock);
	list_for_each_entry(w, &pool->waiters, list)
		classes |= 1U << w->volume->class->index;
	list_for_each_entry(w, &pool->parked, list)
		classes |= 1U << w->volume->class->index;
	spin_unlock_irq(&pool->waiters_lock);
	return classes;
}

/* Say so, and how long the parked wait; unless space came in between. */
static void waiters_out_of_space(struct fusion_pool *pool)
{
	bool none;

	fusion_pool_set_mode(pool, FUSION_OUT_OF_SPACE);
	if (no_space_timeout)
		queue_delayed_work(pool->io_wq, &pool->parked_timeout,
				   no_space_timeout * HZ);
	spin_lock_irq(&pool->waiters_lock);
	none = list_empty(&pool->parked) && !pool->error_if_no_space;
	spin_unlock_irq(&pool->waiters_lock);
	if (none)
		fusion_pool_set_mode(pool, FUSION_RW);
}

void fusion_waiters_committed(struct fusion_pool *pool, u64 number,
			      bool freeing)
{
	struct fusion_waiter *w, *next;
	bool ro = !fusion_pool_writable(pool);
	bool again = false, park = false;
	LIST_HEAD(retry);
	LIST_HEAD(fail);

	spin_lock_irq(&pool->waiters_lock);
	list_for_each_entry_safe(w, next, &pool->crowd, list) {
		if (w->epoch > number) {
			again = true;
			continue;
		}
		w->status = BLK_STS_IOERR;
		list_move_tail(&w->list, ro ? &fail : &retry);
	}
	list_for_each_entry_safe(w, next, &pool->waiters, list) {
		bool in_vain = waiter_in_vain(pool, w);

		if (w->epoch > number) {
			again = true;
		} else if (ro) {
			w->status = BLK_STS_IOERR;
			list_move_tail(&w->list, &fail);
		} else if (!in_vain &&
			   (freeing || atomic_read(&pool->space.emptied) ||
			    READ_ONCE(pool->space.reclaimable))) {
			/* one of the two below, or another commit, follows */
			continue;
		} else if (w->judged || in_vain) {
			park = true;
			/* nobody waits for who is parked */
			list_splice_tail_init(&w->volume->company, &retry);
			w->status = pool->error_if_no_space ? BLK_STS_NOSPC :
				w->volume->wait_forbidden;
			list_move_tail(&w->list, w->status ? &fail :
				       &pool->parked);
		} else {
			/* the commit may have been all that was missing */
			w->judged = true;
			list_move_tail(&w->list, &retry);
		}
	}
	if (ro) {
		list_splice_tail_init(&pool->parked, &pool->unpatched);
		list_for_each_entry_safe(w, next, &pool->unpatched, list) {
			w->status = BLK_STS_IOERR;
			list_move_tail(&w->list, &fail);
		}
	}
	spin_unlock_irq(&pool->waiters_lock);

	waiters_retry(&retry);
	if (park)
		waiters_out_of_space(pool);
	list_for_each_entry_safe(w, next, &fail, list)
		w->fail(w, w->status);
	if (again)
		fusion_commit_kick(pool);
}

static void waiters_freed(struct fusion_pool *pool, unsigned int returned)
{
	struct fusion_waiter *w, *next;
	LIST_HEAD(list);
	bool none;

	spin_lock_irq(&pool->waiters_lock);
	/* under the lock: nobody is left to wait for what has returned */
	atomic_sub(returned, &pool->space.emptied);
	pool->freed++;
	list_for_each_entry_safe(w, next, &pool->parked, list) {
		if (waiter_stays(pool, w))
			continue;
		/* if others are faster, it has to see for itself again */
		w->since = 0;
		list_move_tail(&w->list, &list);
	}
	none = list_empty(&pool->parked);
	if (none)
		cancel_delayed_work(&pool->parked_timeout);
	list_splice_tail_init(&pool->waiters, &list);
	list_splice_tail_init(&pool->unpatched, &list);
	spin_unlock_irq(&pool->waiters_lock);
	if (none && fusion_pool_mode(pool) == FUSION_OUT_OF_SPACE &&
	    pool_may_grow(pool))
		fusion_pool_set_mode(pool, FUSION_RW);
	list_for_each_entry(w, &list, list)
		w->judged = false;
	waiters_retry(&list);
	/* the low water may be behind us */
	fusion_reclaim_soon(pool);
}

void fusion_waiters_freed(struct fusion_pool *pool)
{
	waiters_freed(pool, 0);
}

void fusion_waiters_returned(struct fusion_pool *pool, unsigned int templates)
{
	waiters_freed(pool, templates);
}

void fusion_waiters_forbid(struct fusion_volume *volume, blk_status_t status)
{
	struct fusion_pool *pool = volume->pool;
	struct fusion_waiter *w, *next;
	LIST_HEAD(list);

	spin_lock_irq(&pool->waiters_lock);
	volume->wait_forbidden = status;
	list_for_each_entry_safe(w, next, &pool->parked, list)
		if (w->volume == volume)
			list_move_tail(&w->list, &list);
	spin_unlock_irq(&pool->waiters_lock);
	waiters_fail(&list, status);
}

void fusion_waiters_allow(struct fusion_volume *volume)
{
	spin_lock_irq(&volume->pool->waiters_lock);
	volume->wait_forbidden = BLK_STS_OK;
	spin_unlock_irq(&volume->pool->waiters_lock);
}
