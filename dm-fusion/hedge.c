// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hedging.  See hedge.h.
 */
#include "bounce.h"
#include "hedge.h"
#include "large.h"
#include "monitor.h"
#include "waiters.h"

/* What cannot be had yet, a place or what it costs, may be before the member answers. */
#define LOOK_AGAIN	1		/* jiffies */

/* @error: what came of a second attempt of a write, which is @seen again if it can be tried again. */
static void hedge_made(struct fusion_pool *pool, int error, bool *seen)
{
	if (!error)
		fusion_count(pool, hedged_writes);
	else if (error == -EAGAIN)
		*seen = false;
}

static void hedge_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool, hedge_work.work);
	u64 members = fusion_monitor_stuck(&pool->monitor);
	struct fusion_large *large, *next_large;
	struct fusion_bounce *b, *next;
	LIST_HEAD(bounces);
	LIST_HEAD(larges);

	if (atomic_xchg(&pool->hedge_freed, 0))
		fusion_waiters_freed(pool);
	if (!READ_ONCE(pool->reclaim.tunables.hedge))
		return;
	for (; members; members &= members - 1) {
		struct fusion_member *m = &pool->member[fusion_ctz64(members)];

		fusion_bounce_collect(m, &bounces);
		fusion_large_collect(m, &larges);
	}
	/* more may have been on their way there */
	if (!list_empty(&bounces) || !list_empty(&larges))
		queue_delayed_work(pool->io_wq, &pool->hedge_work, LOOK_AGAIN);
	list_for_each_entry_safe(b, next, &bounces, list) {
		hedge_made(pool, fusion_bounce_again(b), &b->seen);
		fusion_bounce_put(b);
		cond_resched();
	}
	list_for_each_entry_safe(large, next_large, &larges, list) {
		hedge_made(pool, fusion_large_again(large), &large->seen);
		fusion_large_put(large);
		cond_resched();
	}
}

void fusion_hedge_init(struct fusion_pool *pool)
{
	INIT_DELAYED_WORK(&pool->hedge_work, hedge_work);
	fusion_monitor_tell(&pool->monitor, pool->io_wq, &pool->hedge_work);
}

void fusion_hedge_freed(struct fusion_pool *pool)
{
	atomic_set(&pool->hedge_freed, 1);
	mod_delayed_work(pool->io_wq, &pool->hedge_work, 0);
}

void fusion_hedge_stop(struct fusion_pool *pool)
{
	cancel_delayed_work_sync(&pool->hedge_work);
	/* none begins any more, but what ends may queue the work again */
	wait_var_event(&pool->hedged, !atomic_read(&pool->hedged));
	cancel_delayed_work_sync(&pool->hedge_work);
}
