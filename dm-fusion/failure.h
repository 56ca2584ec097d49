/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members that fail.
 *
 * A member fails when a write to it, or a flush of it, ends with an error.  From then on
 * what is on it is not what it should be: the write that failed, and what its cache may
 * have lost.  So that is recorded, in the metadata's superblock and by the other members
 * (record.h), before anybody is told that such a write has ended:
 *
 *	OK -> FAILING		an error: the write that had it is put aside
 *	FAILING -> FAILED	the commit with its state, and the records: such writes
 *				count as done
 *	FAILING -> KEPT		it cannot be recorded, or more members would be failed than
 *				each class has parities: such writes end with their error
 *	KEPT -> OK		it can be done without again: what it fails next is recorded
 *	FAILED -> RETURNING	somebody says that it is good again, or another: return.h
 *	RETURNING -> OK		it has got all that is at home on it: likewise
 *
 * A failed member is sent nothing (member.h): writes to it count as done, reads as
 * failed.  It is the same for everybody who writes: the data has the other replicas, or
 * its parity.
 *
 * What can be lost: a power cut before the commit leaves a member that is not known to
 * have failed, and writes that nobody was told have ended.  After it nothing on the member
 * is read any more, now or after any start.
 *
 * A kept member is written to and read as before, and what it fails is answered with an
 * error.
 *
 * Who waits for a write to end may have holds, grace references and stripes, but not the
 * commit mutex: the failure is recorded under it.  Nor may who has that wait for any of
 * these, but for a grace period with fusion_grace_wait_hurried().
 */
#ifndef DM_FUSION_FAILURE_H
#define DM_FUSION_FAILURE_H

#include "pool.h"

void fusion_failures_init(struct fusion_pool *pool);

/* The members that are out. */
static inline u64 fusion_members_out(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->failures.out);
}

/* And those that are back, but have not got all: something may be nowhere. */
static inline u64 fusion_members_lacking(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->failures.lacking);
}

/* What the metadata says, as the pool is loaded. */
void fusion_failures_load(struct fusion_pool *pool);

/*
 * The pool's activation: members in @missing have no devices.  They are recorded with its
 * commit; where that are more than can be done without the pool becomes read-only.  Under the commit
 * mutex.
 */
void fusion_failures_missing(struct fusion_pool *pool, u64 missing);

/* Some member may hang: see whether the pool can do without it.  Any context. */
void fusion_failures_kick(struct fusion_pool *pool);

/* Can the pool do without @members, too?  Under the commit mutex. */
bool fusion_failures_bear(struct fusion_pool *pool, u64 members);
/*
 * The members whose failure is not recorded yet.  Who chooses to do without another, that need
 * not fail, counts them, too: they will be out.  Any context.
 */
u64 fusion_failures_failing(const struct fusion_pool *pool);

/* Of member @i, for status. */
const char *fusion_failure_state(const struct fusion_pool *pool, unsigned int i);

/*
 * @bio, a write to @m, has ended with *@status, an error.  True: it is put aside, to be
 * ended again by bio_endio() with what became of the member.  False: it ends with *@status.
 * Any context.
 */
bool fusion_failure_aside(struct fusion_pool *pool, struct fusion_member *m,
			  struct bio *bio, blk_status_t *status);

/*
 * Fail member @i.  -EINVAL: it has failed already; -EBUSY: it cannot be done
 * without.  Sleeps.
 */
int fusion_failure_make(struct fusion_pool *pool, unsigned int i);

/*
 * How many slots of a stripe may be nowhere (spare.h): as many as members that are not OK and
 * not rebuilt, and as half of those that are.  Under the commit mutex.
 */
unsigned int fusion_failures_count(struct fusion_pool *pool);

/* Members that are out and have areas of spares; that are returning.  Under the commit mutex. */
u64 fusion_failures_spared(struct fusion_pool *pool);
u64 fusion_failures_returning(struct fusion_pool *pool);

/*
 * As long as the states of the members have this @generation: what was on those that have
 * areas of spares is there.  -EAGAIN: they have changed; -ENOSPC: one has none.  Sleeps.
 */
int fusion_failures_rebuilt(struct fusion_pool *pool, u64 generation);

/*
 * The members in @members could not be flushed.  0: those that failed are recorded with the
 * transaction, whose end, with @r, is fusion_failures_end(), and what the transaction says of
 * stripes is stale on them; -EIO.  Under the commit mutex, before anything is applied.
 */
int fusion_failures_flush(struct fusion_pool *pool, u64 members);
/*
 * The transaction is committed: have the members that are used record the states, if they
 * have not.  Those that cannot have failed, too.  -EIO: one cannot be done without, and the
 * pool is read-only.  Under the commit mutex; sleeps.
 */
int fusion_failures_record(struct fusion_pool *pool);
void fusion_failures_end(struct fusion_pool *pool, int r);

/*
 * The states in the superblock have changed: commit, and have them recorded.  0: they may be
 * acted upon, as far as they are as they were to be: who could not record that has failed.
 * Under the commit mutex; sleeps.
 */
int fusion_failures_commit(struct fusion_pool *pool);

/*
 * Have a number in use for member @i, which is out: that it has, or one that is committed.  -EBUSY:
 * none is free.  Under the commit mutex; sleeps.
 */
int fusion_failure_number(struct fusion_pool *pool, unsigned int i);

/*
 * What there is to know of member @i, which is returning, has been recorded: it is used from
 * now on.  Under the commit mutex.
 */
void fusion_failure_in(struct fusion_pool *pool, unsigned int i);
/* Its @number is not in use any more; if it is OK, it lacks nothing.  Likewise. */
void fusion_failure_over(struct fusion_pool *pool, unsigned int i, u8 number);

#endif /* DM_FUSION_FAILURE_H */
