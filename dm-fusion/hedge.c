// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hedging.  See hedge.h.
 */
#include "bounce.h"
#include "hedge.h"
#include "monitor.h"

/* What cannot be had yet, a place or what it costs, may be before the member answers. */
#define LOOK_AGAIN	1		/* jiffies */

static void hedge_make(struct fusion_pool *pool, struct fusion_bounce *b)
{
	int r = fusion_bounce_again(b);

	if (!r)
		fusion_count(pool, hedged_writes);
	else if (r == -EAGAIN)
		b->seen = false;
}

static void hedge_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool, hedge_work.work);
	u64 members = fusion_monitor_stuck(&pool->monitor);
	struct fusion_bounce *b, *next;
	LIST_HEAD(bounces);

	if (!READ_ONCE(pool->reclaim.tunables.hedge))
		return;
	for (; members; members &= members - 1)
		fusion_bounce_collect(&pool->member[fusion_ctz64(members)], &bounces);
	/* more may have been on their way there */
	if (!list_empty(&bounces))
		queue_delayed_work(pool->io_wq, &pool->hedge_work, LOOK_AGAIN);
	list_for_each_entry_safe(b, next, &bounces, list) {
		hedge_make(pool, b);
		fusion_bounce_put(b);
		cond_resched();
	}
}

void fusion_hedge_init(struct fusion_pool *pool)
{
	INIT_DELAYED_WORK(&pool->hedge_work, hedge_work);
	fusion_monitor_tell(&pool->monitor, pool->io_wq, &pool->hedge_work);
}

void fusion_hedge_stop(struct fusion_pool *pool)
{
	cancel_delayed_work_sync(&pool->hedge_work);
	fusion_bounces_drain(pool);
}
