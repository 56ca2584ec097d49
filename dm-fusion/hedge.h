/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hedging: writes to new places that a member which is unresponsive, or stuck, holds up are sent once
 * more, elsewhere, and what ends first answers (design: stragglers; FusionRAID only suggests it).
 * These are small ones (bounce.h) and large ones (large-again.c).
 *
 * The monitor says when a member becomes unresponsive, as some of its I/Os have outlived its window,
 * which is some times what one takes else; or when it has answered nothing for half a window.  All that
 * is under way there is hedged; what comes after goes elsewhere at once.
 *
 * It costs of what budget.h allows one I/O for each replica, or slot, and one if there is something to be
 * read for it.
 *
 * Not hedged are writes of 4 KiB in place, which are not copied, unless a member of theirs is unresponsive
 * already; those of a part of a top of which it is not known whether its replicas are the same
 * (resync.c); and replicated ones of more than 64 KiB.
 */
#ifndef DM_FUSION_HEDGE_H
#define DM_FUSION_HEDGE_H

#include <linux/wait_bit.h>

#include "pool.h"

/* The pool's workqueues and counters are there; its monitor is not started. */
void fusion_hedge_init(struct fusion_pool *pool);
/* No I/O of users is under way: no hedge is then, either.  Sleeps. */
void fusion_hedge_stop(struct fusion_pool *pool);

/*
 * A write has two attempts, of which one may outlive its answer, until both have ended.  Any context;
 * the pool may be gone after the end.
 */
static inline void fusion_hedged_begin(struct fusion_pool *pool)
{
	atomic_inc(&pool->hedged);
}

static inline void fusion_hedged_end(struct fusion_pool *pool)
{
	if (atomic_dec_and_test(&pool->hedged))
		wake_up_var(&pool->hedged);
}

/*
 * Before such an end: a stripe is free that nothing has died for.  Who waits for space is told.
 * Any context.
 */
void fusion_hedge_freed(struct fusion_pool *pool);

#endif /* DM_FUSION_HEDGE_H */
