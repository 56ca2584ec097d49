/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reclaim: makes space of replicas and of dead slots, by itself and on request.
 *
 * A tick looks, while there is anything to look at, how much space there is and
 * how busy the members are.  Policy (policy.h) says whether to work, and
 * whether to yield to the members' load; up to FUSION_RECLAIM_JOBS workers then
 * merge patches (destage.h), convert sets (convert.h) and compact stripes
 * (compact.h), one at a time each, until policy has them rest or there is nothing
 * to gain.  The latter decides over those who wait for space: see
 * fusion_space.reclaimable.
 *
 * It is the tick, too, that says when space falls below the low water.
 *
 * It works while volumes are suspended, too, so that those whose writes wait
 * for space can be; it stops when the pool is suspended after them.
 */
#ifndef DM_FUSION_RECLAIM_H
#define DM_FUSION_RECLAIM_H

#include "pool.h"

int fusion_reclaim_init(struct fusion_pool *pool);
void fusion_reclaim_exit(struct fusion_pool *pool);

void fusion_reclaim_start(struct fusion_pool *pool);
/* Waits until no job is under way. */
void fusion_reclaim_stop(struct fusion_pool *pool);

/*
 * Merge patches and convert, once, of every set that nobody is writing to now;
 * compact until next to nothing is dead; and wait until what became free is free.
 * 0, -EINTR, or -EIO.
 */
int fusion_reclaim_all(struct fusion_pool *pool);

#endif /* DM_FUSION_RECLAIM_H */
