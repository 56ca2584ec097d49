/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batches of stripes that are rebuilt: several at once, so that all members have something to
 * do, and one commit for all of them.  See rebuild.h.
 *
 * One thread adds stripes, and enters their gates; jobs on the pool's rebuild.wq compute and
 * write what is nowhere, and record it; when all have ended the thread commits, and leaves the
 * gates.  Who waits for a gate, or for a rate, is in no other.
 */
#ifndef DM_FUSION_REBUILD_BATCH_H
#define DM_FUSION_REBUILD_BATCH_H

#include "pool.h"
#include "spare.h"

/* Stripes to a commit. */
#define FUSION_REBUILD_BATCH	256

struct fusion_rebuild_item {
	u64 id;				/* whose gate we are in */
	struct fusion_class *class;
	struct fusion_stripe_pool *sp;	/* of the class */
	struct fusion_spared *spared;	/* the change: if r is 0 the epochs' */
	unsigned long begin;		/* not before this, in jiffies */
	u64 kib;			/* read and written */
	int r;				/* of fusion_rebuild_stripe(), or -EINTR */
};

struct fusion_rebuild_job {
	struct work_struct work;
	struct fusion_rebuild_batch *batch;
};

/* What became of stripes. */
struct fusion_rebuild_found {
	/* something is still nowhere: */
	u64 sets;			/* in sets, or they have died */
	u64 held;			/* by who will make them live, or writes to them */
	u64 stuck;			/* it has no place */
	u64 home;			/* stripes that a member which is returning lacks something of */
	u64 done;			/* and those that were rebuilt */
	int error;			/* of the first that could not be computed */
};

struct fusion_rebuild_batch {
	struct fusion_pool *pool;
	u64 generation;			/* of the states, for which all is added */
	struct fusion_rebuild_item item[FUSION_REBUILD_BATCH];
	unsigned int count;
	unsigned int piece;		/* pages that are read or written at once */
	atomic_t next;			/* item that no job has */
	struct fusion_rebuild_job job[FUSION_REBUILD_JOBS];
	u64 kib, stripe_kib;		/* of what was added, and the last of it, about */
	u64 unpaid_kib;			/* read and written, and not waited for */
	u64 io;				/* of users, when it was */
	unsigned long looked;		/* at that, in jiffies */
	unsigned long loaded;		/* and it was seen to be more */
	struct fusion_rebuild_found found;	/* added to */
};

/* Sleeps for a moment, to see whether there is load. */
void fusion_rebuild_batch_init(struct fusion_rebuild_batch *b,
			       struct fusion_pool *pool);

/* Is nobody there any more who wants it?  Paused, it goes on for those who have asked. */
bool fusion_rebuild_stopping(struct fusion_pool *pool);

/*
 * Stripe @id, of which @lost says what is nowhere, is to be rebuilt by the next
 * fusion_rebuild_flush().  What was added before may be now.  Sleeps; an error of that, of a
 * gate that may be closed for ever, or -ENOMEM.
 */
int fusion_rebuild_add(struct fusion_rebuild_batch *b, u64 id,
		       const struct fusion_lost *lost);

/* Rebuild what was added, and commit.  Sleeps; an error of the commit, or -EINTR. */
int fusion_rebuild_flush(struct fusion_rebuild_batch *b);

#endif /* DM_FUSION_REBUILD_BATCH_H */
