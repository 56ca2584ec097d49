/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What hedging may cost: I/Os to members that there would not be without it (hedge.h; around.c has reads).
 * It is one for each FUSION_BUDGET_EVERY that users' own are, in the long run, so that a pool all of which
 * is slow is not made slower.
 */
#ifndef DM_FUSION_BUDGET_H
#define DM_FUSION_BUDGET_H

#include "pool.h"

/* At most 5 % more; and what has been saved up is not for more than so many at once. */
#define FUSION_BUDGET_EVERY	20
#define FUSION_BUDGET_BURST	512

void fusion_budget_init(struct fusion_pool *pool);

/* Take that for @ios of them.  False: it has not been saved up.  Any context. */
bool fusion_budget_take(struct fusion_pool *pool, unsigned int ios);
/* They were not needed. */
void fusion_budget_refund(struct fusion_pool *pool, unsigned int ios);

#endif /* DM_FUSION_BUDGET_H */
