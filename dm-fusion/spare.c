// SPDX-License-Identifier: GPL-2.0-only
/*
 * Distributed spares.  See spare.h.
 */
#include "region.h"
#include "spare.h"

/* That are looked at without letting the space's lock go. */
#define LOOK_STRIPES	4096

u8 fusion_spare_free(const struct fusion_space *s)
{
	const struct fusion_md_super *super = fusion_md_super(s->md);
	u32 used = 0, i;

	for (i = 0; i < s->layout->n; i++)
		if (super->spare[i])
			used |= 1U << (super->spare[i] - 1);
	for (i = 0; i < FUSION_MAX_AREAS; i++)
		if (!(used >> i & 1))
			return i + 1;
	return 0;
}

void fusion_spare_use(struct fusion_space *s, unsigned int i, u8 number)
{
	s->spares.member[number - 1] = i;
	WRITE_ONCE(s->member[i].spared, true);
	/* who draws a stripe with a slot there locates it there: see fusion_spares_draw() */
	smp_wmb();
	WRITE_ONCE(s->spares.numbers, s->spares.numbers | 1U << (number - 1));
}

void fusion_spare_unuse(struct fusion_space *s, u8 number)
{
	WRITE_ONCE(s->spares.numbers, s->spares.numbers & ~(1U << (number - 1)));
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

/* Numbers of members that a stripe has slots at home on. */
struct numbers {
	u8 all;
	u8 out;				/* they are out */
	u8 good;			/* and have an area, with the address on one that is not */
};

static struct numbers stripe_numbers(const struct fusion_space *s,
				     const struct fusion_band *b, u32 index)
{
	unsigned int k = b->class->k;
	struct numbers numbers = { 0 };
	u32 left = READ_ONCE(s->spares.numbers);
	u8 members[FUSION_MAX_MEMBERS];

	if (likely(!left))
		return numbers;
	/* pairs with fusion_spare_use() */
	smp_rmb();
	fusion_layout_members(b->layout, k, index, members);
	for (; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left);
		int i = slot_of(members, k, s->spares.member[a]);
		struct fusion_spot spot;

		if (i < 0)
			continue;
		numbers.all |= 1U << a;
		if (!fusion_member_out(&s->member[members[i]]))
			continue;
		numbers.out |= 1U << a;
		if (!fusion_spare_area(s, a + 1))
			continue;
		spot = fusion_layout_spare(b->layout, k, index, i, a + 1);
		if (!fusion_member_out(&s->member[spot.member]))
			numbers.good |= 1U << a;
	}
	return numbers;
}

u8 fusion_spares_draw(const struct fusion_space *s, const struct fusion_band *b,
		      u32 index)
{
	struct numbers numbers = stripe_numbers(s, b, index);

	return numbers.good | numbers.out << FUSION_MAX_AREAS;
}

u8 fusion_spares_stale(const struct fusion_space *s, u64 stripe, u8 spared)
{
	const struct fusion_md_super *super = fusion_md_super(s->md);
	struct numbers numbers;
	u8 stale = 0, left;

	if (likely(!READ_ONCE(s->spares.numbers)))
		return 0;
	numbers = stripe_numbers(s, fusion_space_band(s, stripe), fusion_stripe_index(stripe));
	for (left = numbers.all; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left);

		if (FUSION_SPARED(spared) >> a & 1 ||
		    super->member[s->spares.member[a]] != FUSION_MEMBER_RETURNING)
			stale |= 1U << a;
	}
	return stale << FUSION_MAX_AREAS;
}

void fusion_stripe_spare(struct fusion_space *s, u64 stripe, u8 set, u8 clear)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	unsigned long flags;
	u8 *spared;

	/* its record says so when it is loaded, which is under the commit mutex, too */
	if (!fusion_band_loaded(b))
		return;
	spared = &b->spared[fusion_stripe_index(stripe)];
	spin_lock_irqsave(&b->class->lock, flags);
	WRITE_ONCE(*spared, (*spared | set) & ~clear);
	spin_unlock_irqrestore(&b->class->lock, flags);
}

/* ---- looking through all stripes ---- */

/* Is stripe @i of @b, which is loaded, in use, or was just now? */
static bool stripe_in_use(const struct fusion_band *b, u32 i)
{
	return test_bit(i, b->used_bits) &&
		!test_bit(i / fusion_template_stripes(b->layout), b->emptied_bits);
}

/* What is found of stripe @i of @b, in use: true to stop at it. */
struct look {
	bool (*found)(struct look *look, struct fusion_space *s, struct fusion_band *b,
		      u32 i);
	struct fusion_lost *lost;
	struct fusion_epochs *epochs;
	struct fusion_spared *mark;
	u8 number;
	bool all;
};

static bool look_lost(struct look *look, struct fusion_space *s, struct fusion_band *b,
		      u32 i)
{
	struct numbers numbers = stripe_numbers(s, b, i);
	struct fusion_lost *lost = look->lost;
	u8 spared = READ_ONCE(b->spared[i]);

	lost->nowhere = numbers.out & ~(FUSION_SPARED(spared) & numbers.good);
	lost->home = numbers.all & ~numbers.out &
		(FUSION_SPARED(spared) | FUSION_STALE(spared));
	if (!lost->nowhere && !lost->home)
		return false;
	lost->class = b->class;
	lost->areas = lost->nowhere & numbers.good;
	lost->held = test_bit(i, b->held_bits);
	return true;
}

/* Numbers of areas that slots of stripe @i of @b are in, with their addresses on @member. */
static u8 areas_on(const struct fusion_space *s, const struct fusion_band *b, u32 i,
		   unsigned int member)
{
	u8 left, areas = FUSION_SPARED(READ_ONCE(b->spared[i])), members[FUSION_MAX_MEMBERS];
	unsigned int k = b->class->k;

	fusion_layout_members(b->layout, k, i, members);
	for (left = areas; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left);
		int slot = slot_of(members, k, s->spares.member[a]);

		if (slot < 0 ||
		    fusion_layout_spare(b->layout, k, i, slot, a + 1).member != member)
			areas &= ~(1U << a);
	}
	return areas;
}

/* In a RAID stripe that is neither spared nor stale home counts. */
static bool look_mark(struct look *look, struct fusion_space *s, struct fusion_band *b,
		      u32 i)
{
	u8 bit = 1U << (look->number - 1), spared = READ_ONCE(b->spared[i]);
	struct numbers numbers = stripe_numbers(s, b, i);
	struct fusion_spared *mark = look->mark;

	*mark = (struct fusion_spared) { .stripe = fusion_stripe_id(b->number, i) };
	mark->stale = numbers.all & bit & ~FUSION_STALE(spared);
	/* of one that is held rows may be being written, some not on the member */
	if (!look->all && b->live[i] <= FUSION_LIVE_MASK && !test_bit(i, b->held_bits))
		mark->stale = 0;
	mark->gone = areas_on(s, b, i, s->spares.member[look->number - 1]);
	if (!mark->stale && !mark->gone)
		return false;
	fusion_stripe_spare(s, mark->stripe, mark->stale << FUSION_MAX_AREAS, mark->gone);
	/* it is free, and can be drawn anew, only under the lock that we hold */
	fusion_spared_enter(look->epochs, mark);
	return true;
}

/* Of @b, from *@index on, some are looked at; *@index: where it stopped, or where to go on. */
static bool band_look(struct fusion_space *s, struct fusion_band *b, u32 *index,
		      struct look *look)
{
	u32 end = min(b->stripes, *index + LOOK_STRIPES), i;

	for (i = *index; i < end; i++) {
		i = find_next_bit(b->used_bits, end, i);
		if (i >= end)
			break;
		if (!stripe_in_use(b, i) || !look->found(look, s, b, i))
			continue;
		*index = i;
		return true;
	}
	*index = end;
	return false;
}

/* The next stripe from *@id on that @look stops at. */
static bool look_next(struct fusion_space *s, u64 *id, struct look *look)
{
	u32 number = fusion_stripe_band(*id), index = fusion_stripe_index(*id);
	struct fusion_band *b;
	bool found = false, more;

	while (!found && (b = fusion_band_from(s, number))) {
		if (b->number != number)
			index = 0;
		number = b->number;
		/* so that it stays loaded */
		mutex_lock(&s->lock);
		more = b->class && fusion_band_loaded(b) && index < b->stripes;
		if (more)
			found = band_look(s, b, &index, look);
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

bool fusion_spare_next(struct fusion_space *s, u64 *id, struct fusion_lost *lost)
{
	struct look look = { .found = look_lost, .lost = lost };

	return look_next(s, id, &look);
}

bool fusion_spare_mark_next(struct fusion_space *s, struct fusion_epochs *epochs, u64 *id,
			    u8 number, bool all, struct fusion_spared *mark)
{
	struct look look = {
		.found = look_mark,
		.epochs = epochs,
		.mark = mark,
		.number = number,
		.all = all,
	};

	return look_next(s, id, &look);
}

/* ---- where a slot is ---- */

/* Which of @numbers @member has: from 1 on, or 0. */
static u8 number_of(const struct fusion_space *s, u32 numbers, unsigned int member)
{
	for (; numbers; numbers &= numbers - 1)
		if (s->spares.member[fusion_ctz64(numbers)] == member)
			return fusion_ctz64(numbers) + 1;
	return 0;
}

static bool place_missed(const struct fusion_space *s, u64 place)
{
	u64 stripe = fusion_place_stripe(place);
	const struct fusion_band *b = fusion_space_band(s, stripe);
	u32 index = fusion_stripe_index(stripe), slot = fusion_place_slot(place);
	u8 spared = fusion_stripe_spared(s, stripe), number;
	struct fusion_spot home, spot;
	u32 numbers;

	home = fusion_layout_home(b->layout, b->class->k, index, slot);
	if (!READ_ONCE(s->member[home.member].spared))
		return false;
	numbers = READ_ONCE(s->spares.numbers) & ~FUSION_SPARED(spared);
	/* pairs with fusion_spare_use() */
	smp_rmb();
	number = number_of(s, numbers, home.member);
	if (!number)
		return false;
	if (!fusion_member_out(&s->member[home.member]))
		return FUSION_STALE(spared) >> (number - 1) & 1;
	if (!fusion_spare_area(s, number))
		return false;
	spot = fusion_layout_spare(b->layout, b->class->k, index, slot, number);
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

unsigned int fusion_spare_slot(const struct fusion_space *s, u64 stripe, unsigned int a,
			       bool home, u32 *member, sector_t *sector)
{
	const struct fusion_band *b = fusion_space_band(s, stripe);
	u32 index = fusion_stripe_index(stripe), k = b->class->k;
	u8 members[FUSION_MAX_MEMBERS];
	struct fusion_spot spot;
	int i;

	fusion_layout_members(b->layout, k, index, members);
	i = slot_of(members, k, s->spares.member[a]);
	spot = home ? fusion_layout_home(b->layout, k, index, i) :
		fusion_layout_spare(b->layout, k, index, i, a + 1);
	*member = spot.member;
	*sector = fusion_space_sector(s, b, spot);
	return i;
}

u8 fusion_stripe_spared(const struct fusion_space *s, u64 stripe)
{
	const struct fusion_band *b = fusion_space_band(s, stripe);

	return fusion_band_loaded(b) ?
		READ_ONCE(b->spared[fusion_stripe_index(stripe)]) : 0;
}

struct fusion_spot fusion_space_spot(const struct fusion_space *s, u64 place,
				     struct fusion_spot home)
{
	u64 stripe = fusion_place_stripe(place);
	const struct fusion_band *b = fusion_space_band(s, stripe);
	u8 spared = fusion_stripe_spared(s, stripe), number;

	number = number_of(s, FUSION_SPARED(spared), home.member);
	if (number)
		return fusion_layout_spare(b->layout, b->class->k, fusion_stripe_index(stripe),
					   fusion_place_slot(place), number);
	if (number_of(s, FUSION_STALE(spared), home.member))
		home.member = FUSION_NOWHERE;
	return home;
}

u64 fusion_space_members(const struct fusion_space *s, u64 stripe, u8 *members)
{
	const struct fusion_band *b = fusion_space_band(s, stripe);
	u32 index = fusion_stripe_index(stripe), k = b->class->k;
	u64 mask = fusion_layout_members(b->layout, k, index, members);
	u32 left = READ_ONCE(s->spares.numbers) ?
		FUSION_SPARED(fusion_stripe_spared(s, stripe)) : 0;

	for (; left; left &= left - 1) {
		unsigned int a = fusion_ctz64(left), m = s->spares.member[a];
		int i = slot_of(members, k, m);

		if (i < 0)
			continue;
		members[i] = fusion_layout_spare(b->layout, k, index, i, a + 1).member;
		mask = (mask & ~(1ULL << m)) | 1ULL << members[i];
	}
	return mask;
}
