/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Distributed spares: where slots are whose home is on a member that is out.
 *
 * The space for spares has areas (layout.h).  Each serves at most one member that is out,
 * from the commit on that records its failure.  Of the slots that are at home on it, some
 * are at their addresses in the area, and the others are nowhere.  Which of them, the
 * stripes' records say, with a bit for each area (format.h), and in core the bands, all of
 * which are loaded from the start on if an area is in use then: in bands that were not, when
 * the first member failed, nothing is in any area.
 *
 * A stripe that is drawn while an area is in use has its slot there, for all of its life,
 * unless the member that the address is on is out, too.  The bit is stored when the stripe
 * is: a power cut leaves a stripe that is not in use, or all of it.  What is in the area of
 * one that was in use before, only rebuilding brings there.
 *
 * How much can be nowhere: the homes and addresses of a stripe are on different members.  A
 * slot that has an area and is nowhere takes two members that are out, that of its home and
 * that of its address.  So of a stripe that is drawn, or rebuilt, no more slots are nowhere
 * than there are members out that no area serves, and half of those that one does: see
 * fusion_failures_count().  Of the replicas of a slot no more than one is nowhere when they
 * are drawn (set.c), and no set has anything nowhere when members are marked as rebuilt.
 */
#ifndef DM_FUSION_SPARE_H
#define DM_FUSION_SPARE_H

#include "space.h"

/*
 * An area for a member that is to be out: a number from 1 on; 0: all are in use.  It is the
 * caller's to store in the superblock, and in use from fusion_spare_use() on.  Under the
 * commit mutex.
 */
u8 fusion_spare_free(const struct fusion_space *s);

/* @area is in use for member @i, which is out.  Any context. */
void fusion_spare_use(struct fusion_space *s, unsigned int i, u8 area);

/* The areas that the slots of stripe @index of @class, which is drawn now, are in, a bit each. */
u8 fusion_spares_draw(const struct fusion_space *s, const struct fusion_class *class,
		      u32 index);

/* The same of @stripe, as it is in core; its band is loaded, or no area is in use for it. */
u8 fusion_stripe_spared(const struct fusion_space *s, u64 stripe);

/*
 * Slots that are nowhere: with their home on a member that is out, and not in an area, or
 * there on a member that is out, too.  Bits of areas.
 */
struct fusion_lost {
	struct fusion_class *class;	/* the stripe's then */
	u8 areas;			/* of which a slot is nowhere */
	u8 placeable;			/* of these: it could be in its area */
	bool held;			/* by who will make it live, or writes to it in place */
};

/*
 * The next stripe from *@id on that is in use, or was just now, and of which something is
 * nowhere.  False: there is none.  Every band is loaded.  Sleeps.
 */
bool fusion_spare_next(struct fusion_space *s, u64 *id, struct fusion_lost *lost);

/*
 * Are any of the replicas at @place, unused ones are 0, nowhere though they would not be, were
 * their stripes drawn now?  Any context.
 */
bool fusion_spare_missed(const struct fusion_space *s, const u64 *place);

/* The slot of @stripe that @area is for, and where it goes: a sector of *@member. */
unsigned int fusion_spare_slot(const struct fusion_space *s, u64 stripe, unsigned int area,
			       u32 *member, sector_t *sector);

/* The slots of @stripe, which is live, are in @areas, too, now. */
void fusion_stripe_spare(struct fusion_space *s, u64 stripe, u8 areas);

/* Could a stripe's record say so? */
static inline bool fusion_spared_ok(const struct fusion_space *s, u8 spared)
{
	return !(spared & ~READ_ONCE(s->spares.areas));
}

#endif /* DM_FUSION_SPARE_H */
