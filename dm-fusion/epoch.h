/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Epochs: all map changes between two commits.
 *
 * A change is a record with the block's mapping before and after it, so what
 * a commit writes is frozen by construction: a change made while an epoch is
 * being committed is a record of the next one.  Records are allocated before
 * the I/O they belong to is submitted and enter the epoch in its completion,
 * after all of its data is on the members.
 *
 * Records are collected in shards, one for each CPU up to FUSION_EPOCH_SHARDS.
 * Changes that must be in one epoch are made between one fusion_epoch_enter()
 * and fusion_epoch_exit(), which hold the shard's lock and never sleep.
 * Closing takes all shards' locks at once, so that it falls between such
 * groups on every CPU, and no change can be in an older epoch than one it
 * follows.
 *
 * The grace period: readers of places (not of metadata) enter one of two
 * reference counts.  A stripe that a commit freed becomes allocatable when
 * the counts that were entered before the commit have drained.
 *
 * Lock order: shard -> chunk (map.h) -> class (space.h).
 */
#ifndef DM_FUSION_EPOCH_H
#define DM_FUSION_EPOCH_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "row.h"

struct fusion_chunk;
struct fusion_patch_list;
struct fusion_set;

#define FUSION_EPOCH_SHARDS	64

/* Where a block is: no top if top.place[0] is 0; a top or patches or neither. */
struct fusion_mapping {
	u64 base;
	struct fusion_top top;
	struct fusion_patch_list *patches;	/* a reference; or NULL */
};

struct fusion_change {
	struct list_head list;
	u64 key;			/* fusion_block_key() */
	u32 seq;			/* orders the changes of one chunk */
	struct fusion_chunk *chunk;	/* pinned until the commit */
	struct fusion_mapping old;
	struct fusion_mapping new;
};

/*
 * A stripe is RAID after the epoch: its parity covers the slots in @written.
 * Comes with the changes that make its blocks' bases refer to it.
 */
struct fusion_seal {
	struct list_head list;
	u64 stripe;
	u64 written;
	struct fusion_set *set;		/* of which it was the primary, or NULL */
};

/* A row of a RAID stripe is being written in place from here on, or has been. */
struct fusion_row_change {
	struct list_head list;
	struct fusion_row row;
	bool written;
};

/*
 * Slots of a stripe are elsewhere now: rebuild.h, return.h.  It enters the epoch while nobody
 * can draw the stripe anew.
 */
struct fusion_spared {
	struct list_head list;
	u64 stripe;
	u64 generation;			/* of the states, from before areas or home were written */
	/* of numbers of members, see spare.h: slots that are */
	u8 areas;			/* in their areas, too */
	u8 gone;			/* not in their areas any more */
	u8 home;			/* at home again */
	u8 stale;			/* not at home, whatever is there */
};

struct fusion_epoch_shard {
	spinlock_t lock;
	unsigned int changes_count;
	struct list_head changes;	/* of fusion_change */
	struct list_head closed_sets;	/* of fusion_set: to be closed */
	struct list_head seals;		/* of fusion_seal */
	struct list_head rows;		/* of fusion_row_change */
	struct list_head spared;	/* of fusion_spared */
} ____cacheline_aligned_in_smp;

struct fusion_epochs {
	u64 current_number;		/* changed with all shards locked */
	u64 committed;			/* the last one that the btrees have on disk */
	u64 durable;			/* the last durable one: it may be in the journal only */
	unsigned int mask;		/* shards - 1 */
	struct mutex close_lock;	/* one close at a time */
	struct fusion_epoch_shard *shard;
};

int fusion_epochs_init(struct fusion_epochs *e);
void fusion_epochs_exit(struct fusion_epochs *e);

/* Any context; nothing may sleep until fusion_epoch_exit(). */
struct fusion_epoch_shard *fusion_epoch_enter(struct fusion_epochs *e,
					      unsigned long *flags);
void fusion_epoch_exit(struct fusion_epoch_shard *shard, unsigned long flags);

/* @spared is of the current epoch.  Any context. */
void fusion_spared_enter(struct fusion_epochs *e, struct fusion_spared *spared);

/* The records of a closed epoch, in the order of each shard. */
struct fusion_epoch_records {
	struct list_head changes;	/* of fusion_change */
	struct list_head closed_sets;
	struct list_head seals;
	struct list_head rows;
	struct list_head spared;
};

/*
 * Close the current epoch, moving its records to @records, and open the next.
 * Returns the number of the closed one.
 */
u64 fusion_epoch_close(struct fusion_epochs *e,
		       struct fusion_epoch_records *records);

/* Nothing of it has to be known to a start: what sets are closed is not, as that goes by what they hold. */
static inline bool
fusion_epoch_records_silent(const struct fusion_epoch_records *records)
{
	/* a seal comes with changes */
	return list_empty(&records->changes) && list_empty(&records->rows) &&
		list_empty(&records->spared);
}

static inline bool
fusion_epoch_records_empty(const struct fusion_epoch_records *records)
{
	return fusion_epoch_records_silent(records) && list_empty(&records->closed_sets);
}

void fusion_epoch_records_init(struct fusion_epoch_records *records);
/* @records get those of @later, a later epoch, too, which has none then. */
void fusion_epoch_records_append(struct fusion_epoch_records *records,
				 struct fusion_epoch_records *later);

/* Records in the current epoch; a snapshot. */
unsigned int fusion_epoch_changes(struct fusion_epochs *e);

/* ---- grace period ---- */

struct fusion_grace;

struct fusion_grace_ref {
	struct percpu_ref ref;
	struct fusion_grace *grace;
};

struct fusion_grace {
	struct fusion_grace_ref ref[2];
	unsigned int current_ref;
	bool draining;			/* ref[!current_ref] is */
	bool hurried;			/* see fusion_grace_hurry() */
	void (*drained)(struct fusion_grace *grace);
	void (*ready)(struct fusion_grace *grace);
	struct workqueue_struct *wq;
	struct work_struct work;
	wait_queue_head_t idle;
};

/*
 * For each fusion_grace_start(), two calls in a worker: @drained when the
 * readers have left, and @ready when another period can be started.
 */
int fusion_grace_init(struct fusion_grace *g,
		      void (*drained)(struct fusion_grace *grace),
		      void (*ready)(struct fusion_grace *grace));
/* No reader may be left. */
void fusion_grace_exit(struct fusion_grace *g);

/* Any context.  Give the result to fusion_grace_leave(). */
static inline unsigned int fusion_grace_enter(struct fusion_grace *g)
{
	unsigned int i;

	/*
	 * The count of the index that was read cannot drain and be made live
	 * again before this section ends.  If it is killed in between, the
	 * other one is live.  What is looked up after this is no older than
	 * the index: who finds the new one does not find what left the map
	 * before the period that waits for the old one.
	 */
	rcu_read_lock();
	/* pairs with fusion_grace_start() */
	i = smp_load_acquire(&g->current_ref);
	while (unlikely(!percpu_ref_tryget_live_rcu(&g->ref[i].ref)))
		i = !i;
	rcu_read_unlock();
	return i;
}

static inline void fusion_grace_leave(struct fusion_grace *g, unsigned int i)
{
	percpu_ref_put(&g->ref[i].ref);
}

/* For so many who do not do it themselves. */
static inline void fusion_grace_leave_many(struct fusion_grace *g, unsigned int i,
					   unsigned int count)
{
	percpu_ref_put_many(&g->ref[i].ref, count);
}

/* Is a period under way?  Then another cannot be started. */
static inline bool fusion_grace_busy(struct fusion_grace *g)
{
	return READ_ONCE(g->draining);
}

/* Start a period for the readers that are in now.  One caller at a time. */
void fusion_grace_start(struct fusion_grace *g);

/* Wait until no period is under way. */
void fusion_grace_wait(struct fusion_grace *g);

/*
 * A reader waits for something that takes the commit mutex: who waits for the period with
 * that must let it go, until fusion_grace_calm().  Any context.
 */
void fusion_grace_hurry(struct fusion_grace *g);
void fusion_grace_calm(struct fusion_grace *g);
/* As fusion_grace_wait(), with the commit mutex; false: let it go, and wait for the calm. */
bool fusion_grace_wait_hurried(struct fusion_grace *g);
void fusion_grace_wait_calm(struct fusion_grace *g);

#endif /* DM_FUSION_EPOCH_H */
