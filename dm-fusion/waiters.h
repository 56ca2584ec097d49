/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiters: writes that found no space, or no room in the epoch.
 *
 * Who wants room in the epoch goes on after a commit of it.
 *
 * Who wants company waits on its volume's own list, for ends of large writes.
 *
 * Who wants room in the patch area waits until patches have been merged and their
 * space is free; or it is said that none can be: then it takes a top.
 *
 * Who wants space first waits for a commit that covers the epoch it came in:
 * changes already made may free what it needs; and as long as reclaim may make
 * some.  If then there is still no space and none on its way, it fails or, with
 * queue_if_no_space, is parked until space is freed or no_space_timeout ends.
 */
#ifndef DM_FUSION_WAITERS_H
#define DM_FUSION_WAITERS_H

#include "pool.h"

void fusion_waiters_init(struct fusion_pool *pool);
void fusion_waiters_exit(struct fusion_pool *pool);

/* For an I/O that has not waited yet. */
static inline void fusion_waiter_init(struct fusion_waiter *w)
{
	w->judged = false;
	w->unmerged = false;
	w->alone = false;
	w->since = 0;
	w->freed = 0;
}

/* A look for space begins: to be said before it. */
static inline void fusion_waiter_look(struct fusion_pool *pool,
				      struct fusion_waiter *w)
{
	w->freed = READ_ONCE(pool->freed);
}

/* Wait for room in the epoch; @w's callbacks are set. */
void fusion_wait_for_room(struct fusion_pool *pool, struct fusion_waiter *w);

/*
 * Wait for space; @w's callbacks, block and grows are set.  @w says what it has
 * seen: it is kept as it is when the retry finds no space again.
 */
void fusion_wait_for_space(struct fusion_pool *pool, struct fusion_waiter *w,
			   struct fusion_volume *volume);

/*
 * Wait for room in the patch area; @w's callbacks are set.  False: nothing can be
 * merged, and @w->unmerged says so.
 */
bool fusion_wait_for_patches(struct fusion_pool *pool, struct fusion_waiter *w);
/* Nothing can be merged: nobody waits for it.  Any context. */
void fusion_waiters_unmerged(struct fusion_pool *pool);

/*
 * Wait, once, for other whole blocks of @volume to go to a stripe with: until no large
 * write of it is under way, or as many have ended as are now.  @w's callbacks and
 * block are set; fusion_large_group() is to be called then.  False: there is nothing
 * to wait for, or @w has asked before.
 */
bool fusion_wait_for_company(struct fusion_waiter *w,
			     struct fusion_volume *volume);

/* Who has waited for company for long enough goes on.  Any context. */
void fusion_waiters_alone(struct fusion_volume *volume);

/*
 * Take @most of @volume who wait, for company or for space, with different blocks
 * (w->block): into @list, in the order of these.  Or at least @few, if nobody should
 * wait for more.  How many; not so many: 0.  Any context.
 */
unsigned int fusion_waiters_take(struct fusion_volume *volume,
				 unsigned int few, unsigned int most,
				 struct list_head *list);

/* The classes, by index, of those who wait for space, parked or not. */
u32 fusion_waiters_classes(struct fusion_pool *pool);

/*
 * Room for new blocks of @class has been looked for in vain, everywhere.  Who has
 * waited for some and seen this twice waits no longer than till the next commit,
 * whatever is still to be gained for others.
 */
static inline void fusion_waiters_vain(struct fusion_class *class)
{
	WRITE_ONCE(class->fruitless, class->fruitless + 1);
}

/* Epoch @number is committed; @freeing: stripes are on their way. */
void fusion_waiters_committed(struct fusion_pool *pool, u64 number,
			      bool freeing);
/* Space has become free. */
void fusion_waiters_freed(struct fusion_pool *pool);
/*
 * So many emptied templates (space.h) have been returned, and are not on their
 * way any more.
 */
void fusion_waiters_returned(struct fusion_pool *pool, unsigned int templates);

/*
 * Nobody of @volume may be parked: @status for those who are or would be.
 * Who waits for a commit only goes on.  Undone by fusion_waiters_allow().
 */
void fusion_waiters_forbid(struct fusion_volume *volume, blk_status_t status);
void fusion_waiters_allow(struct fusion_volume *volume);

#endif /* DM_FUSION_WAITERS_H */
