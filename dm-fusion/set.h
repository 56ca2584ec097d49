/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets: the stripes that new tops go to, two or three together.
 *
 * A set is a primary stripe A and its mirrors: B, and C in a class of two
 * parities.  Its data slots are drawn one by one; when all are drawn and the
 * writes to them have ended, it is recorded in an epoch, whose commit closes it.
 * Several sets are open for each class, and a draw takes the less busy of two.
 *
 * Closed sets that hold something live are in the table of sets, oldest first,
 * until nothing in A is live any more or A has become a RAID stripe.  The table
 * has a mutex of its own, inside the commit mutex.  After a start it is made
 * again from the tops in the metadata.  A slot's owner, the block that it was
 * drawn for, is a hint: what the map says counts.
 *
 * What closed sets take, until they leave the table, is the replicated area.
 * When it is at its limit no more sets are opened.
 */
#ifndef DM_FUSION_SET_H
#define DM_FUSION_SET_H

#include "space.h"

struct fusion_set {
	struct list_head list;		/* of closed sets, in an epoch */
	struct fusion_class *class;
	u64 stripe[FUSION_MAX_REPLICAS];	/* A, B, C: p + 1 of them */
	u8 drawn;
	u16 in_flight;
	/* closed; under sets_lock */
	struct list_head age;		/* in the table, unless busy */
	u64 number;			/* grows along the table */
	unsigned long since;		/* jiffies: in its place since */
	u8 given_up;			/* attempts to convert it */
	bool busy;			/* taken: not to be freed */
	bool gone;			/* out of the table, while busy */
	/* B's, and C's, slot for A's */
	u8 slot_of[FUSION_MAX_PARITY][FUSION_MAX_MEMBERS];
	u64 owner[];			/* d: fusion_block_key(); NO_OWNER */
};

#define FUSION_NO_OWNER		(~0ULL)

/*
 * Draw a place for a new top of the block with @key: a data slot of an open set
 * and its mirrors'.
 * The set is held until fusion_set_put().  Fills in @top->place.
 * -EAGAIN: call fusion_set_refill() and try again.  Any context.
 */
struct fusion_set *fusion_set_draw(struct fusion_space *s,
				   struct fusion_class *class, u64 key,
				   struct fusion_top *top);

/*
 * The write to a drawn place has ended, its change, if any, is recorded.  True:
 * with it the set has closed, and the caller has a commit come soon.
 */
bool fusion_set_put(struct fusion_space *s, struct fusion_set *set);

/*
 * Close the open sets of @class that nothing is being written to, drawn or
 * not.  The next commit frees what is not live.  False: there are none.
 */
bool fusion_sets_close_idle(struct fusion_space *s, struct fusion_class *class);

/*
 * Get what a draw needs: stripes, as fusion_space_refill() does, and memory.
 * Sleeps.
 */
int fusion_set_refill(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock);

/*
 * A recorded set's epoch ends: its stripes are not held any more.  @live: it
 * goes to the table; else it is freed.  Under the commit mutex; sleeps.
 */
void fusion_set_close(struct fusion_space *s, struct fusion_set *set,
		      bool live);

/* Around fusion_space_init() and _exit(). */
void fusion_sets_init(struct fusion_space *s);
void fusion_sets_exit(struct fusion_space *s);

/* How large the replicated area may be, as of what is free now.  Any context. */
void fusion_sets_limit(struct fusion_space *s, const struct fusion_tunables *t);

/*
 * Is the replicated area larger?  Sets that are open are not counted: with a
 * limit of nothing each is converted when it is closed.  Any context.
 */
static inline bool fusion_sets_limited(const struct fusion_space *s)
{
	return atomic64_read(&s->replica_blocks) > READ_ONCE(s->replica_limit);
}

/* ---- the table; everything sleeps ---- */

/*
 * The top of the block with @key is at slot fusion_place_slot(top->place[0])
 * of the set of its stripes: it is in the table unless it is not closed.  0 or
 * -ENOMEM.  Under the commit mutex.
 */
int fusion_sets_found(struct fusion_space *s, u64 key,
		      const struct fusion_top *top);

/* Nothing of A is live, says a commit: the set of stripe @a is gone. */
void fusion_sets_forget(struct fusion_space *s, u64 a);

/*
 * The oldest set up to @number that nobody has taken and that has no member in
 * @busy; it stays until it is given back.  NULL: none.
 */
struct fusion_set *fusion_sets_take(struct fusion_space *s, u64 number,
				    u64 busy);
/*
 * Take up to @max of the oldest sets of one class that have few live slots
 * each, so that all together fill at least half a stripe.  How many; 0 if there
 * are no two.
 */
unsigned int fusion_sets_take_sparse(struct fusion_space *s,
				     struct fusion_set **sets,
				     unsigned int max);
/*
 * A grace reference that keeps the stripes of a taken set what they are.
 * False: nothing of it is live any more.
 */
bool fusion_sets_enter(struct fusion_space *s, struct fusion_set *set,
		       unsigned int *grace);
/* A taken set stays in the table, as the youngest.  May free it. */
void fusion_sets_give_back(struct fusion_space *s, struct fusion_set *set);
/* As above, as old as it was: it is somebody else's to try. */
void fusion_sets_put_back(struct fusion_space *s, struct fusion_set *set);
/* A taken set was sealed, and is gone. */
void fusion_sets_sealed(struct fusion_space *s, struct fusion_set *set);
/* The number of the youngest. */
u64 fusion_sets_youngest(struct fusion_space *s);
/* How long the oldest has been in its place, in ms; 0: there is none. */
u64 fusion_sets_oldest_ms(struct fusion_space *s);

#endif /* DM_FUSION_SET_H */
