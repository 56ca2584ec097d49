/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Distributed spares: where slots are whose home is on a member that is not OK.
 *
 * Such a member has a number, from the commit on that records its failure.  The space for
 * spares has areas (layout.h): that of this number, if there is one, serves the member.  The
 * stripes' records say, with two bits for each number (format.h), where a slot is that is at
 * home on the member:
 *
 *	spared		in the area
 *	stale		nowhere
 *	neither		at home
 *
 * and, if the member is out, what is at home is nowhere, too.  Stale and spared is a slot in
 * the area that is not what is at home; if it is spared alone home has the same.  In core the
 * bits are with the bands, all of which are loaded from the start on if a number is in use
 * then: in bands that were not, when the first member failed, no bit is set.
 *
 * While a member is out
 *  - a stripe that is drawn has its slot in the area, for all of its life, unless the member
 *    that the address is on is out, too.  It is stale.  The bits are stored when the stripe
 *    is: a power cut leaves a stripe that is not in use, or all of it.
 *  - what is in the area of a stripe that was in use before, only rebuilding brings there.
 *  - a stripe becomes stale that goes live, is sealed, or of which rows are merged: some of
 *    it may have been written, but not on the member.  So what is neither spared nor stale is
 *    as it was when the member was flushed last, and counts again when it is back
 *    (return.h): in a RAID stripe; replicas may have been written since.
 *  - what is in the area of another, with its address on the member, is nowhere.  It is not
 *    spared any more when the member is back.
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
 * A number for a member that is to be out, from 1 on: one of an area, if one is free; 0: all
 * are in use.  It is the caller's to store in the superblock, and in use from
 * fusion_spare_use() to fusion_spare_unuse().  Under the commit mutex.
 */
u8 fusion_spare_free(const struct fusion_space *s);

/* Does an area have this number? */
static inline bool fusion_spare_area(const struct fusion_space *s, u8 number)
{
	return number && number <= s->layout->spares;
}

/* @number is in use for member @i.  Any context. */
void fusion_spare_use(struct fusion_space *s, unsigned int i, u8 number);
/* @number is not any more: no stripe has its bits. */
void fusion_spare_unuse(struct fusion_space *s, u8 number);

/* The bits of stripe @index of @b, which is drawn now. */
u8 fusion_spares_draw(const struct fusion_space *s, const struct fusion_band *b,
		      u32 index);

/* Those of @stripe, as they are in core; its band is loaded, or it has none. */
u8 fusion_stripe_spared(const struct fusion_space *s, u64 stripe);

/*
 * What is written of @stripe, which has the bits @spared, is not at home everywhere: the bits
 * that it is to have, too.  Under the commit mutex.
 */
u8 fusion_spares_stale(const struct fusion_space *s, u64 stripe, u8 spared);

/* Slots of a stripe that are not where they are to be.  Bits of numbers. */
struct fusion_lost {
	struct fusion_class *class;	/* the stripe's then */
	u8 nowhere;			/* of a member that is out, and not in its area */
	u8 areas;			/* of these: it could be there */
	u8 home;			/* of a member that is back, and not there */
	bool held;			/* by who will make it live, or writes to it in place */
};

/*
 * The next stripe from *@id on that is in use, or was just now, and of which something is
 * not where it is to be.  False: there is none.  Every band is loaded.  Sleeps.
 */
bool fusion_spare_next(struct fusion_space *s, u64 *id, struct fusion_lost *lost);

/*
 * The next stripe from *@id on that is in use, or was just now, and has something on the
 * member with @number that does not count: at home, if @all, or as it may have been
 * written since; and in the areas of others.  It is marked in core, and by @mark, which is the
 * current epoch's then.  False: there is none, and @mark is the caller's.  As above.
 */
bool fusion_spare_mark_next(struct fusion_space *s, struct fusion_epochs *epochs, u64 *id,
			    u8 number, bool all, struct fusion_spared *mark);

/*
 * Are any of the replicas at @place, unused ones are 0, nowhere though they would not be, were
 * their stripes drawn now?  Any context.
 */
bool fusion_spare_missed(const struct fusion_space *s, const u64 *place);

/*
 * The slot of @stripe that is at home on the member with number @a + 1, and where that is; or
 * where it goes in the area.  A sector of *@member.
 */
unsigned int fusion_spare_slot(const struct fusion_space *s, u64 stripe, unsigned int a,
			       bool home, u32 *member, sector_t *sector);

/* @stripe has the bits @set in core, and not those in @clear. */
void fusion_stripe_spare(struct fusion_space *s, u64 stripe, u8 set, u8 clear);

/* Could a stripe's record say so? */
static inline bool fusion_spared_ok(const struct fusion_space *s, u8 spared)
{
	return !((FUSION_SPARED(spared) | FUSION_STALE(spared)) &
		 ~READ_ONCE(s->spares.numbers));
}

#endif /* DM_FUSION_SPARE_H */
