/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of sets: closed sets that hold something live, oldest first, until
 * nothing in A is live any more or A has become a RAID stripe.
 *
 * It has a mutex of its own, inside the commit mutex; everything sleeps.  After a
 * start it is made again from the tops in the metadata.  A slot's owner, the block
 * that it was drawn for, is a hint: what the map says counts.
 */
#ifndef DM_FUSION_SET_TABLE_H
#define DM_FUSION_SET_TABLE_H

#include "set.h"

/* Around fusion_space_init() and _exit(). */
void fusion_set_table_init(struct fusion_space *s);
void fusion_set_table_exit(struct fusion_space *s);

/*
 * A recorded set's epoch ends: its stripes are not held any more.  @live: it
 * goes to the table; else it is freed.  Under the commit mutex.
 */
void fusion_set_close(struct fusion_space *s, struct fusion_set *set,
		      bool live);

/*
 * The top of the block with @key is at slot fusion_place_slot(top->place[0])
 * of the set of its stripes: it is in the table unless it is not closed.  -ENOMEM;
 * -EINVAL: there are patches in that set.  Under the commit mutex.
 */
int fusion_sets_found(struct fusion_space *s, u64 key,
		      const struct fusion_top *top);

/* The same for a patch of that block, and the set that it is in. */
int fusion_sets_found_patch(struct fusion_space *s, u64 key,
			    const struct fusion_patch *patch);

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
/* The oldest set for patches up to @number, likewise; of @class, unless NULL. */
struct fusion_set *fusion_sets_take_patches(struct fusion_space *s, u64 number,
					    const struct fusion_class *class);
/* A taken set stays in the table, as the youngest.  May free it. */
void fusion_sets_give_back(struct fusion_space *s, struct fusion_set *set);
/* As above, as old as it was: it is somebody else's to try. */
void fusion_sets_put_back(struct fusion_space *s, struct fusion_set *set);
/* A taken set was sealed, and is gone. */
void fusion_sets_sealed(struct fusion_space *s, struct fusion_set *set);
/* The number of the youngest. */
u64 fusion_sets_youngest(struct fusion_space *s);
/*
 * How long the oldest, for tops or for patches, has been in its place, in ms; 0: there
 * is none.
 */
u64 fusion_sets_oldest_ms(struct fusion_space *s, bool patches);

#endif /* DM_FUSION_SET_TABLE_H */
