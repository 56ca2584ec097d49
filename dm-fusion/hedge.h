/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hedging: small writes to new places that a member which has become unresponsive holds up are sent
 * once more, elsewhere (bounce.h), and what ends first answers (design: stragglers; FusionRAID only
 * suggests it).
 *
 * The monitor says when a member becomes unresponsive: then something on it has outlived its window,
 * which is some times what it takes else.  All that is under way there is hedged; what comes after
 * goes elsewhere at once.
 *
 * It costs of what budget.h allows one I/O for each replica.
 *
 * Not hedged are writes in place, which could only go to where the data already is, and larger ones.
 */
#ifndef DM_FUSION_HEDGE_H
#define DM_FUSION_HEDGE_H

#include "pool.h"

/* The pool's workqueues and counters are there; its monitor is not started. */
void fusion_hedge_init(struct fusion_pool *pool);
/* No I/O of users is under way: no hedge is then, either.  Sleeps. */
void fusion_hedge_stop(struct fusion_pool *pool);

#endif /* DM_FUSION_HEDGE_H */
