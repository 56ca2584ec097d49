// SPDX-License-Identifier: GPL-2.0-only
/*
 * Distributed spares.  See spare.h.
 */
#include "band.h"
#include "spare.h"

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

u8 fusion_spares_draw(const struct fusion_space *s, const struct fusion_class *class,
		      u32 index)
{
	u32 areas = READ_ONCE(s->spares.areas), left;
	u8 members[FUSION_MAX_MEMBERS], spared = 0;
	struct fusion_spot spot;

	if (likely(!areas))
		return 0;
	smp_rmb();
	fusion_layout_members(s->layout, class->k, index, members);
	for (left = areas; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left);
		int i = slot_of(members, class->k, s->spares.member[a]);

		if (i < 0)
			continue;
		spot = fusion_layout_spare(s->layout, class->k, index, i, a + 1);
		if (!fusion_member_out(&s->member[spot.member]))
			spared |= 1U << a;
	}
	return spared;
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
	u32 left = fusion_stripe_spared(s, stripe);

	for (; left; left &= left - 1)
		if (s->spares.member[fusion_ctz64(left)] == home.member)
			return fusion_layout_spare(s->layout,
						   fusion_space_class_of(s, stripe)->k,
						   fusion_stripe_index(stripe),
						   fusion_place_slot(place),
						   fusion_ctz64(left) + 1);
	return home;
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
