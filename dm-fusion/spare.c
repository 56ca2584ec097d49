// SPDX-License-Identifier: GPL-2.0-only
/*
 * Distributed spares.  See spare.h.
 */
#include "band.h"
#include "spare.h"

/* That are looked at without letting the space's lock go. */
#define LOOK_STRIPES	4096

u8 fusion_spare_free(const struct fusion_space *s)
{
	const struct fusion_md_super *super = fusion_md_super(s->md);
	u32 areas = min_t(u32, s->layout->spares, FUSION_MAX_AREAS), used = 0, i;

	for (i = 0; i < s->layout->n; i++)
		if (super->spare[i])
			used |= 1U << (super->spare[i] - 1);
	for (i = 0; i < areas; i++)
		if (!(used >> i & 1))
			return i + 1;
	return 0;
}

void fusion_spare_use(struct fusion_space *s, unsigned int i, u8 area)
{
	s->spares.member[area - 1] = i;
	WRITE_ONCE(s->member[i].spared, true);
	/* who draws a stripe with a slot there locates it there: see fusion_spares_draw() */
	smp_wmb();
	WRITE_ONCE(s->spares.areas, s->spares.areas | 1U << (area - 1));
}

/* The slot of a stripe whose home is on @member, or -1. */
static int slot_of(const u8 *members, unsigned int k, unsigned int member)
{
	unsigned int i;

	for (i = 0; i < k; i++)
		if (members[i] == member)
			return i;
	return -1;
}

/*
 * The areas that slots of stripe @index of @class are for; *@good: those in which a member
 * that is not out has their address.
 */
static u8 stripe_areas(const struct fusion_space *s, const struct fusion_class *class,
		       u32 index, u8 *good)
{
	u8 members[FUSION_MAX_MEMBERS], areas = 0;
	u32 left = READ_ONCE(s->spares.areas);

	*good = 0;
	if (likely(!left))
		return 0;
	/* pairs with fusion_spare_use() */
	smp_rmb();
	fusion_layout_members(s->layout, class->k, index, members);
	for (; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left);
		int i = slot_of(members, class->k, s->spares.member[a]);
		struct fusion_spot spot;

		if (i < 0)
			continue;
		areas |= 1U << a;
		spot = fusion_layout_spare(s->layout, class->k, index, i, a + 1);
		if (!fusion_member_out(&s->member[spot.member]))
			*good |= 1U << a;
	}
	return areas;
}

u8 fusion_spares_draw(const struct fusion_space *s, const struct fusion_class *class,
		      u32 index)
{
	u8 good;

	stripe_areas(s, class, index, &good);
	return good;
}

void fusion_stripe_spare(struct fusion_space *s, u64 stripe, u8 areas)
{
	struct fusion_band *b = &s->band[fusion_stripe_band(stripe)];
	u8 *spared = &b->spared[fusion_stripe_index(stripe)];
	unsigned long flags;

	spin_lock_irqsave(&b->class->lock, flags);
	WRITE_ONCE(*spared, *spared | areas);
	spin_unlock_irqrestore(&b->class->lock, flags);
}

/* Of @b, from *@index on, some are looked at; *@index: the one, or where to go on. */
static bool band_look_lost(const struct fusion_space *s, const struct fusion_band *b,
			   u32 *index, struct fusion_lost *lost)
{
	u32 end = min(b->stripes, *index + LOOK_STRIPES), i;
	u8 good;

	for (i = *index; i < end; i++) {
		i = find_next_bit(b->used_bits, end, i);
		if (i >= end)
			break;
		lost->areas = stripe_areas(s, b->class, i, &good) &
			~(READ_ONCE(b->spared[i]) & good);
		if (!lost->areas ||
		    test_bit(i / fusion_template_stripes(s->layout), b->emptied_bits))
			continue;
		lost->class = b->class;
		lost->placeable = lost->areas & good;
		lost->held = test_bit(i, b->held_bits);
		*index = i;
		return true;
	}
	*index = end;
	return false;
}

bool fusion_spare_next(struct fusion_space *s, u64 *id, struct fusion_lost *lost)
{
	u32 number = fusion_stripe_band(*id), index = fusion_stripe_index(*id);
	bool found = false, more;

	while (!found && number < s->band_count) {
		struct fusion_band *b = &s->band[number];

		/* so that it stays loaded */
		mutex_lock(&s->lock);
		more = b->class && fusion_band_loaded(b) && index < b->stripes;
		if (more)
			found = band_look_lost(s, b, &index, lost);
		mutex_unlock(&s->lock);
		if (found) {
			*id = fusion_stripe_id(number, index);
		} else if (!more) {
			number++;
			index = 0;
		}
		cond_resched();
	}
	return found;
}

/* Which of @areas serves @member: a number from 1 on, or 0. */
static u8 area_for(const struct fusion_space *s, u32 areas, unsigned int member)
{
	for (; areas; areas &= areas - 1)
		if (s->spares.member[fusion_ctz64(areas)] == member)
			return fusion_ctz64(areas) + 1;
	return 0;
}

static bool place_missed(const struct fusion_space *s, u64 place)
{
	u64 stripe = fusion_place_stripe(place);
	struct fusion_class *class = fusion_space_class_of(s, stripe);
	u32 index = fusion_stripe_index(stripe), slot = fusion_place_slot(place);
	struct fusion_spot home, spot;
	u32 areas;
	u8 area;

	home = fusion_layout_home(s->layout, class->k, index, slot);
	if (!READ_ONCE(s->member[home.member].spared))
		return false;
	areas = READ_ONCE(s->spares.areas) & ~fusion_stripe_spared(s, stripe);
	/* pairs with fusion_spare_use() */
	smp_rmb();
	area = area_for(s, areas, home.member);
	if (!area)
		return false;
	spot = fusion_layout_spare(s->layout, class->k, index, slot, area);
	return !fusion_member_out(&s->member[spot.member]);
}

bool fusion_spare_missed(const struct fusion_space *s, const u64 *place)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS && place[i]; i++)
		if (place_missed(s, place[i]))
			return true;
	return false;
}

unsigned int fusion_spare_slot(const struct fusion_space *s, u64 stripe, unsigned int area,
			       u32 *member, sector_t *sector)
{
	const struct fusion_class *class = fusion_space_class_of(s, stripe);
	u32 index = fusion_stripe_index(stripe);
	u8 members[FUSION_MAX_MEMBERS];
	struct fusion_spot spot;
	int i;

	fusion_layout_members(s->layout, class->k, index, members);
	i = slot_of(members, class->k, s->spares.member[area]);
	spot = fusion_layout_spare(s->layout, class->k, index, i, area + 1);
	*member = spot.member;
	*sector = fusion_space_sector(s, fusion_stripe_band(stripe), spot);
	return i;
}

u8 fusion_stripe_spared(const struct fusion_space *s, u64 stripe)
{
	const struct fusion_band *b = &s->band[fusion_stripe_band(stripe)];

	return fusion_band_loaded(b) ?
		READ_ONCE(b->spared[fusion_stripe_index(stripe)]) : 0;
}

struct fusion_spot fusion_space_spot(const struct fusion_space *s, u64 place,
				     struct fusion_spot home)
{
	u64 stripe = fusion_place_stripe(place);
	u8 area = area_for(s, fusion_stripe_spared(s, stripe), home.member);

	if (!area)
		return home;
	return fusion_layout_spare(s->layout, fusion_space_class_of(s, stripe)->k,
				   fusion_stripe_index(stripe), fusion_place_slot(place),
				   area);
}

u64 fusion_space_members(const struct fusion_space *s, const struct fusion_class *class,
			 u64 stripe, u8 *members)
{
	u64 mask = fusion_layout_members(s->layout, class->k, fusion_stripe_index(stripe),
					 members);
	u32 left = READ_ONCE(s->spares.areas) ? fusion_stripe_spared(s, stripe) : 0;

	for (; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left), m = s->spares.member[a];
		int i = slot_of(members, class->k, m);

		if (i < 0)
			continue;
		members[i] = fusion_layout_spare(s->layout, class->k,
						 fusion_stripe_index(stripe), i,
						 a + 1).member;
		mask = (mask & ~(1ULL << m)) | 1ULL << members[i];
	}
	return mask;
}
