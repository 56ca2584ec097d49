/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The block lock: orders the changes of one block of a volume.
 *
 * A hold is exclusive (a change of the block's top or base, resync, discard)
 * or shared with the mask of pages it writes: shared holds of one block stand
 * side by side only if their pages do not overlap, else two replicas could
 * take the same two writes in different order.  Reads take no hold.
 *
 * Holds live in their owners' memory, in the lists of a sharded hash; the lock
 * of a bucket is held for a few instructions only.  Waiters of one block are
 * granted in order, and a new hold never overtakes a waiter it conflicts with.
 * Who takes several holds takes them in (volume, block) order.
 */
#ifndef DM_FUSION_BLOCK_LOCK_H
#define DM_FUSION_BLOCK_LOCK_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct completion;

struct fusion_hold {
	struct list_head list;
	u64 key;			/* fusion_block_key() */
	u64 pages;			/* 0: exclusive */
	bool waiting;
	struct fusion_hold *next_granted;
	struct completion *sleeper;	/* of fusion_hold_take_wait() */
	/* Called once, by whoever makes room; any context, no locks held. */
	void (*granted)(struct fusion_hold *hold);
};

#define FUSION_HOLD_EXCLUSIVE	0

struct fusion_hold_bucket {
	spinlock_t lock;
	struct list_head holds;		/* held ones first, then waiters */
};

struct fusion_block_lock {
	unsigned int shift;
	struct fusion_hold_bucket *buckets;
};

int fusion_block_lock_init(struct fusion_block_lock *locks);
void fusion_block_lock_exit(struct fusion_block_lock *locks);

/*
 * Take @hold on @key with @pages (FUSION_HOLD_EXCLUSIVE or a page mask).  True
 * if it is held now; otherwise @granted will be called when it is.  With
 * @granted NULL it does not wait: false means that it is not held.
 * Any context.
 */
bool fusion_hold_take(struct fusion_block_lock *locks, struct fusion_hold *hold,
		      u64 key, u64 pages,
		      void (*granted)(struct fusion_hold *hold));

/* As above, sleeping until @hold is held. */
void fusion_hold_take_wait(struct fusion_block_lock *locks,
			   struct fusion_hold *hold, u64 key, u64 pages);

/* The same for as many jiffies at most.  False: it is not held. */
bool fusion_hold_take_timeout(struct fusion_block_lock *locks, struct fusion_hold *hold,
			      u64 key, u64 pages, unsigned long timeout);

/*
 * Make @hold, which is held, exclusive; who waits for it waits on.  False: others are held beside it.
 * Any context.
 */
bool fusion_hold_upgrade(struct fusion_block_lock *locks, struct fusion_hold *hold);

/* Give @hold back; grants those that waited for it.  Any context. */
void fusion_hold_drop(struct fusion_block_lock *locks,
		      struct fusion_hold *hold);

#endif /* DM_FUSION_BLOCK_LOCK_H */
