/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a round of reclaim: no job has found anything more to do.  It is tried
 * whether there is more, by closing sets and by emptying bands of other classes;
 * if there is not, those who wait for space are told.
 */
#ifndef DM_FUSION_ROUND_H
#define DM_FUSION_ROUND_H

#include "pool.h"

/* Somebody waits for space, or for the replicated area; parked or not. */
static inline bool fusion_round_wanted(struct fusion_pool *pool)
{
	return !list_empty_careful(&pool->waiters) ||
		!list_empty_careful(&pool->parked);
}

/* What others than @job do while its step runs is not in it. */
void fusion_round_note(struct fusion_reclaim_job *job);

/*
 * Nothing more could be gained, as of @job's last step, or it failed.  Then who
 * waits for space need not wait for us; unless there was news meanwhile.  The
 * last job that ends says so.  Commits, and waits for grace periods.
 */
void fusion_round_end(struct fusion_reclaim_job *job, bool failed);

/* The first class that is short and has somebody waiting for space; or NULL. */
struct fusion_class *fusion_round_short(struct fusion_pool *pool);

/*
 * Begin to empty a band for a class that is short, before the round ends.  Commits,
 * and waits for grace periods.
 */
void fusion_round_evacuate(struct fusion_pool *pool);

/*
 * Sets that are open could be converted, too: close those that nobody writes
 * to.  Were there any?
 */
bool fusion_round_close_sets(struct fusion_space *s);
/* Those for patches alone. */
bool fusion_round_close_patches(struct fusion_space *s);

#endif /* DM_FUSION_ROUND_H */
