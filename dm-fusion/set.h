/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets: the stripes that new tops go to, two or three together.
 *
 * A set is a primary stripe A and its mirrors: B, and C in a class of two
 * parities.  Its data slots are drawn one by one; when all are drawn and the
 * writes to them have ended, it is recorded in an epoch, whose commit closes it.
 * Several sets are open for each class, and a draw takes the less busy of two.
 *
 * Closed sets go to the table of sets (set-table.h).  What they take, until they
 * leave it, is the replicated area.  When it is at its limit no more sets are
 * opened.
 */
#ifndef DM_FUSION_SET_H
#define DM_FUSION_SET_H

#include "space.h"

struct fusion_set {
	struct list_head list;		/* of closed sets, in an epoch */
	struct fusion_class *class;
	u64 stripe[FUSION_MAX_REPLICAS];	/* A, B, C: p + 1 of them */
	bool patches;			/* drawn page by page: patch-set.h */
	bool parity;			/* such, for parity */
	u16 units;			/* that there are to draw: slots or pages */
	u16 drawn;
	u16 in_flight;
	u64 epoch;			/* current at the last fusion_set_put() */
	/* closed; under sets_lock */
	struct list_head age;		/* in the table, unless busy */
	u64 number;			/* grows along the table */
	unsigned long since;		/* jiffies: in its place since */
	u8 given_up;			/* attempts to convert it */
	u8 waited;			/* times, for what it takes to read a base */
	bool busy;			/* taken: not to be freed */
	bool gone;			/* out of the table, while busy */
	/* B's, and C's, slot for A's */
	u8 slot_of[FUSION_MAX_PARITY][FUSION_MAX_MEMBERS];
	u64 owner[];			/* of units: fusion_block_key(); NO_OWNER */
};

#define FUSION_NO_OWNER		(~0ULL)

/* The stripes of a set, and the replicas of a block in it. */
static inline unsigned int fusion_set_stripes(const struct fusion_class *class)
{
	return class->p + 1;
}

/*
 * Draw a place for a new top of the block with @key: a data slot of an open set
 * and its mirrors'.
 * The set is held until fusion_set_put().  Fills in @top->place.
 * NULL: call fusion_set_refill() and try again; if all that can be drawn is on unresponsive members,
 * with @any, which takes that.  Any context.
 */
struct fusion_set *fusion_set_draw(struct fusion_space *s,
				   struct fusion_class *class, u64 key, bool any,
				   struct fusion_top *top);

/*
 * The write to a drawn place has ended, its change, if any, is recorded.  True:
 * with it the set has closed, and the caller has a commit come soon.
 */
bool fusion_set_put(struct fusion_space *s, struct fusion_set *set);

/*
 * Close the sets of @class in @open, one of its three, that nothing is being written
 * to, drawn or not.  The next commit frees what is not live.  False: there are none.
 */
bool fusion_sets_close_idle(struct fusion_space *s, struct fusion_class *class,
			    struct fusion_open *open);

/* Draw no more from those that are open.  Those that are being written to close when that ends. */
void fusion_sets_retire_all(struct fusion_space *s);

/*
 * Get what a draw needs: stripes, as fusion_space_refill() does, and memory.
 * Sleeps.
 */
int fusion_set_refill(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock);

/* Free the open sets.  Before fusion_space_exit(). */
void fusion_sets_exit(struct fusion_space *s);

/* A set has joined its area, if it has one (@sign 1), or has left it (-1). */
static inline void fusion_set_count(struct fusion_space *s,
				    const struct fusion_set *set, int sign)
{
	int blocks = fusion_set_stripes(set->class) * set->class->k;

	if (set->parity)
		return;
	atomic64_add(sign * blocks,
		     set->patches ? &s->patch_blocks : &s->replica_blocks);
}

/* ---- what patch-set.c shares ---- */

/*
 * Stripes for @set, whose memory has room for @units owners, drawn and paired.  @over:
 * for background work, also of the reserve.  False, and the memory is freed: there are
 * none.  Under class->lock.
 */
bool fusion_set_begin(struct fusion_space *s, struct fusion_class *class,
		      struct fusion_set *set, unsigned int units, bool over);

/* Memory for a set, of so many bytes, for when a draw from @open finds none.  Sleeps. */
int fusion_open_spare(struct fusion_class *class, struct fusion_open *open,
		      size_t bytes);

/* The epoch's commit will let @set, which nobody holds or draws from, go. */
void fusion_set_record(struct fusion_space *s, struct fusion_set *set);

/* Take set number @i out of those that are open. */
static inline void fusion_open_remove(struct fusion_open *open, unsigned int i)
{
	open->set[i] = open->set[--open->count];
}

/* The place of @slot of A in stripe number @i of @set. */
static inline u64 fusion_set_place(const struct fusion_set *set, unsigned int slot,
				   unsigned int i)
{
	return fusion_place(set->stripe[i], i ? set->slot_of[i - 1][slot] : slot);
}

/* What speaks against the members of @slot: see fusion_member_burden(). */
int fusion_set_burden(struct fusion_space *s, const struct fusion_set *set,
		      unsigned int slot);

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

#endif /* DM_FUSION_SET_H */
