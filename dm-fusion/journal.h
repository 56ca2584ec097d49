/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The map's journal: what an epoch changes is durable before the btrees have it.
 *
 * A commit (commit.h) writes btree blocks and a superblock, one after the other, to the metadata
 * device, and waits for its slowest leg.  Who waits for a flush does not: the epoch is closed,
 * the members are flushed, and a record of its changes (format.h) is written to the ring of p + 2
 * members at once.  It is durable when p + 1 have it, so one that is slow is not waited for.  The
 * btrees have it with the next commit, once a second, or when half of the ring is in use; from
 * then on the superblock says that a later record comes next.
 *
 * What a power cut leaves:
 *
 *  - before the record is on any member: the last commit and the records before, as if the epoch
 *    had not closed: nobody was told that it is durable;
 *  - when some members have it: with it or without it, as that start finds it on a member that is
 *    there or not.  All that it refers to was flushed before.  Either is committed by the start,
 *    under a new activation's number, so that what was not found never counts later;
 *  - when p + 1 members have it: one of them is there as long as no more than p are lost;
 *  - in the middle of a commit: the superblock before, with all records since, or the one after.
 *
 * A start replays (journal-replay.c) the records that come next, in their order, by the same code
 * as a commit, and commits.  One is that which the superblock says comes next, or comes after
 * one that was found, of the pool's last activation, and whole.  It also says which transaction
 * had been committed before it: metadata without that has lost a commit, or is from a dump that
 * was made earlier, and is not started, as what it calls free may be in use.  That is seen as long as
 * the ring has all that came since, in one activation; later it is for the members' records to say.
 *
 * Records know nothing of members that are not OK, nor of rows that are being written in place:
 * while there are any, a flush waits for a commit, as it does without a journal, or if there is
 * no room, or a record cannot be written to p + 1 members.  Then nothing is written behind what
 * is there of the epoch, and that does not count, until the commit has said what comes next.
 */
#ifndef DM_FUSION_JOURNAL_H
#define DM_FUSION_JOURNAL_H

#include "pool.h"

/* Memory for it, if the superblock says that there is one. */
int fusion_journal_init(struct fusion_pool *pool);
/* Nothing of it is under way. */
void fusion_journal_exit(struct fusion_pool *pool);

/*
 * Write what @records change, of an epoch whose data is durable, and which may be in it
 * (fusion_journal_fits()).  0: so is that.  Otherwise only
 * a commit makes it so, and nothing may be written behind it before: -EOPNOTSUPP, -ENOSPC: there
 * is something else, or no room; -EIO: it has failed, or too many members hang.  Under
 * close_lock; sleeps.
 */
int fusion_journal_write(struct fusion_pool *pool, const struct fusion_epoch_records *records);

/* May an epoch be in it, as far as members are concerned?  After it has been closed. */
bool fusion_journal_fits(struct fusion_pool *pool);

/* How much of it there is at some time: what comes next, and what is in use. */
struct fusion_journal_state {
	u64 sequence;
	u32 at, used;			/* bytes */
	unsigned int changes;
};

/* All that is there now is going to be applied.  Under close_lock. */
void fusion_journal_take(struct fusion_pool *pool, struct fusion_journal_state *state);
/* It is in the open transaction, which is about to be committed.  Under the commit mutex. */
void fusion_journal_applied(struct fusion_pool *pool, const struct fusion_journal_state *state);
/* A transaction has been: no record that comes is for metadata before it.  Under the commit mutex. */
void fusion_journal_advance(struct fusion_pool *pool);
/* That has been committed: the room is free. */
void fusion_journal_committed(struct fusion_pool *pool, const struct fusion_journal_state *state);

/*
 * Is so much of the ring in use, or of what an epoch may have, that the btrees should have it?
 */
bool fusion_journal_crowded(struct fusion_pool *pool);

/*
 * A pool is being made, of which nothing but the metadata, the geometry and the devices is known:
 * replay the records that are not in the btrees yet, and commit.  On error *@error is a sentence
 * for ti->error.  Sleeps.
 */
int fusion_journal_replay(struct fusion_pool *pool, char **error);

#endif /* DM_FUSION_JOURNAL_H */
