/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commits: make epochs durable, and answer FLUSH and FUA.
 *
 * The order, and what a power cut leaves after each step:
 *
 *  1. close the epoch		the last commit, and in-place writes since
 *  2. flush the dirty members	the same; all data of the epoch is durable
 *  3. btree blocks, flush	the same: nothing refers to these blocks yet
 *  4. superblock, with FUA	the new commit: its data is durable since 2
 *  5. answer FLUSH and FUA	what they asked for is durable
 *  6. freed stripes are free after a grace period, never before 4: until
 *     then the last commit still refers to them
 *
 * Commits run in one worker, so waiters share them; a timer commits once a
 * second.  Only FLUSH and FUA wait for a commit, and writers whose changes
 * would outgrow the epoch's limit.
 *
 * In a pool with a journal (journal.h) FLUSH and FUA are answered after 2 and a record of the
 * epoch's changes, which the next commit then brings to the btrees with its own.
 */
#ifndef DM_FUSION_COMMIT_H
#define DM_FUSION_COMMIT_H

#include "pool.h"

int fusion_commit_init(struct fusion_pool *pool);
void fusion_commit_exit(struct fusion_pool *pool);

/*
 * End @bio when everything that was acknowledged, or recorded in an epoch,
 * before this call is durable.  Any context.
 */
void fusion_commit_then_end(struct fusion_pool *pool, struct bio *bio);

/* A change was recorded: let it be committed in time.  Any context. */
void fusion_commit_soon(struct fusion_pool *pool);

/*
 * Commit what is recorded up to now, and wait.  Sleeps.
 */
int fusion_commit(struct fusion_pool *pool);
/* The same of what is recorded up to epoch @number: nothing, if it has been meanwhile. */
int fusion_commit_epoch(struct fusion_pool *pool, u64 number);

/*
 * As above, and wait until what has died by then is free.  It may still be being
 * passed down when the pool begins to stop.
 */
int fusion_commit_and_free(struct fusion_pool *pool);

/* Wait until all have left who have a grace reference now.  Sleeps. */
void fusion_commit_quiesce(struct fusion_pool *pool);

/* Is something that has died on its way to be free?  A hint. */
bool fusion_commit_freeing(struct fusion_pool *pool);

/*
 * Commit the open transaction as it is, after changes made to it directly
 * under commit_lock (held).  Freed stripes go their way.  A failure makes the
 * pool read-only.  Whoever leaves such changes half made must do the same:
 * the transaction is not committed then.
 */
int fusion_commit_transaction(struct fusion_pool *pool);

/* Is there room in the epoch for another change?  Any context. */
static inline bool fusion_commit_crowded(struct fusion_pool *pool)
{
	struct fusion_epochs *e = &pool->epochs;
	unsigned int cpu = raw_smp_processor_id();

	return READ_ONCE(e->shard[cpu & e->mask].changes_count) >=
		READ_ONCE(pool->shard_limit);
}

#endif /* DM_FUSION_COMMIT_H */
