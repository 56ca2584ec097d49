/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets: the pairs of stripes that new tops go to.
 *
 * A set is a primary stripe A and its mirror B.  Its data slots are drawn one
 * by one; when all are drawn and the writes to them have ended, it closes.
 * Several sets are open for each class, and a draw takes the less busy of two.
 */
#ifndef DM_FUSION_SET_H
#define DM_FUSION_SET_H

#include "space.h"

struct fusion_set {
	struct list_head list;		/* of closed sets, in an epoch */
	struct fusion_class *class;
	u64 stripe[2];			/* A, B */
	u64 members[2];			/* masks */
	u8 drawn;
	u16 in_flight;
	u8 slot_of[FUSION_MAX_MEMBERS];	/* B's slot for A's */
};

/*
 * Draw a place for a new top: a data slot of an open set and its mirror's.
 * The set is held until fusion_set_put().  Fills in @top->place.
 * -EAGAIN: call fusion_set_refill() and try again.  Any context.
 */
struct fusion_set *fusion_set_draw(struct fusion_space *s,
				   struct fusion_class *class,
				   struct fusion_top *top);

/* The write to a drawn place has ended, its change, if any, is recorded. */
void fusion_set_put(struct fusion_space *s, struct fusion_set *set);

/*
 * Close the open sets of @class that nothing is being written to, drawn or
 * not: it has no volumes any more.  The next commit frees what is not live.
 */
void fusion_sets_close_idle(struct fusion_space *s, struct fusion_class *class);

/*
 * Get what a draw needs: stripes, as fusion_space_refill() does, and memory.
 * Sleeps.
 */
int fusion_set_refill(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock);

/* A recorded set's epoch ends: its stripes are not held any more.  Frees it. */
void fusion_set_close(struct fusion_space *s, struct fusion_set *set);

/* Before fusion_space_exit(): the open sets go. */
void fusion_sets_exit(struct fusion_space *s);

#endif /* DM_FUSION_SET_H */
