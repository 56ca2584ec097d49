// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which stripes are worth emptying.  See space.h.
 */
#include "region.h"

void fusion_space_note(struct fusion_space *s, u64 stripe,
		       const struct fusion_disk_stripe *disk)
{
	struct fusion_band *b = fusion_space_band(s, stripe);

	/* a band is loaded under the commit mutex */
	if (fusion_band_loaded(b))
		WRITE_ONCE(b->live[fusion_stripe_index(stripe)],
			   disk ? fusion_stripe_live(disk) : FUSION_LIVE_OTHER);
}

unsigned int fusion_space_live(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	unsigned int live;

	/* the stripe is in use, so its band stays */
	if (!fusion_band_loaded(b))
		return FUSION_LIVE_MASK;
	live = READ_ONCE(b->live[fusion_stripe_index(stripe)]);
	return live & FUSION_LIVE_MASK;
}

/* Could stripes of @b be worth emptying for @class?  Not those that nothing is drawn from any more. */
static bool band_counts(const struct fusion_band *b, const struct fusion_class *class)
{
	return b->class == class && fusion_band_loaded(b) && !b->evacuated;
}

/* Stripes of the bands of @class that are loaded, by their live slots. */
static void victims_count(struct fusion_space *s, struct fusion_class *class,
			  u32 *count)
{
	struct fusion_band *b;
	u32 i;

	fusion_for_each_band(s, b) {
		if (!band_counts(b, class))
			continue;
		for (i = 0; i < b->stripes; i++) {
			u8 live = READ_ONCE(b->live[i]);

			if (live < class->d)
				count[live]++;
		}
		cond_resched();
	}
}

/* Of those with i slots live @count[i], those with the fewest first. */
static void victims_take(struct fusion_space *s, struct fusion_class *class,
			 u32 *count, u64 *stripe)
{
	u32 at[FUSION_MAX_MEMBERS], i;
	struct fusion_band *b;

	at[0] = 0;
	for (i = 1; i < class->d; i++)
		at[i] = at[i - 1] + count[i - 1];
	fusion_for_each_band(s, b) {
		if (!band_counts(b, class))
			continue;
		for (i = 0; i < b->stripes; i++) {
			u8 live = READ_ONCE(b->live[i]);

			if (live >= class->d || !count[live])
				continue;
			count[live]--;
			stripe[at[live]++] = fusion_stripe_id(b->number, i);
		}
		cond_resched();
	}
}

/* Of a band that is being emptied, all RAID stripes that are live. */
static u32 victims_evacuated(const struct fusion_band *b, u64 *stripe, u32 max)
{
	u32 i, n = 0;

	for (i = 0; i < b->stripes && n < max; i++) {
		u8 live = READ_ONCE(b->live[i]);

		if (live && live <= b->class->d)
			stripe[n++] = fusion_stripe_id(b->number, i);
	}
	return n;
}

/* The same of the old layout's, one band after the other: so whole new ones become free. */
static u32 victims_old(struct fusion_space *s, const struct fusion_class *class,
		       u64 *stripe, u32 max)
{
	struct fusion_region *old = fusion_space_old(s);
	u32 i, n = 0;

	for (i = 0; i < old->count && n < max; i++) {
		struct fusion_band *b = &old->band[i];

		if (b->class != class || !fusion_band_loaded(b))
			continue;
		n += victims_evacuated(b, stripe + n, max - n);
		cond_resched();
	}
	return n;
}

unsigned int fusion_space_victims(struct fusion_space *s,
				  struct fusion_class *class,
				  unsigned int max_live, unsigned int gain,
				  u64 *stripe, unsigned int max,
				  enum fusion_victims_of *of)
{
	u32 count[FUSION_MAX_MEMBERS] = { 0 }, sum = 0;

	mutex_lock(&s->lock);
	*of = FUSION_OF_SPARSE;
	if (fusion_space_evacuates(s, class)) {
		*of = FUSION_OF_EVACUATED;
		sum = victims_evacuated(s->evacuated, stripe, max);
	} else if (max_live) {
		victims_count(s, class, count);
		sum = fusion_victims_choose(class->d, max_live, gain, max, count);
		if (sum)
			victims_take(s, class, count, stripe);
	}
	if (!sum && class->old_bands && fusion_space_may_move(s, class)) {
		*of = FUSION_OF_OLD;
		sum = victims_old(s, class, stripe, max);
	}
	mutex_unlock(&s->lock);
	return sum;
}

/* ---- bands that are emptied for another class ---- */

/* Has @b's class room elsewhere for what is in it, and enough besides? */
static bool band_can_go(struct fusion_space *s, const struct fusion_band *b)
{
	struct fusion_class *class = b->class;
	u64 free = READ_ONCE(class->free) + READ_ONCE(class->unloaded);

	return free >= b->stripes +
		fusion_reserve_stripes(READ_ONCE(class->stripes)) +
		max_t(u64, s->slow_zone / class->k, fusion_class_margin(class));
}

/* Is it all that @b's class has, with nothing in it and nobody to want it? */
static bool band_idle(const struct fusion_band *b, u32 waiting)
{
	const struct fusion_class *class = b->class;

	return READ_ONCE(class->free) + READ_ONCE(class->unloaded) ==
		READ_ONCE(class->stripes) && !(waiting & 1U << class->index);
}

static struct fusion_band *evacuate_choose(struct fusion_space *s,
					   struct fusion_class *to)
{
	struct fusion_band *best = NULL, *b;

	fusion_for_each_band(s, b) {
		if (!b->class || b->class == to || !fusion_band_loaded(b) || b->evacuated ||
		    (best && b->used >= best->used) || !band_can_go(s, b))
			continue;
		best = b;
	}
	return best;
}

u32 fusion_space_give_unused(struct fusion_space *s, struct fusion_class *to,
			     u32 waiting)
{
	struct fusion_band *b;
	u32 bands = 0;

	mutex_lock(&s->lock);
	fusion_for_each_band(s, b) {
		if (b->class && b->class != to && fusion_band_loaded(b) &&
		    !fusion_band_old(s, b) &&
		    (band_can_go(s, b) || band_idle(b, waiting)))
			bands += fusion_band_give_back(s, b, to);
	}
	mutex_unlock(&s->lock);
	return bands;
}

bool fusion_space_evacuate(struct fusion_space *s, struct fusion_class *to)
{
	struct fusion_band *b = NULL;
	unsigned long flags;

	mutex_lock(&s->lock);
	if (!s->evacuated)
		b = evacuate_choose(s, to);
	if (b) {
		spin_lock_irqsave(&b->class->lock, flags);
		b->class->free -= b->stripes - b->used;
		b->evacuated = true;
		list_move_tail(&b->list, &b->class->full);
		spin_unlock_irqrestore(&b->class->lock, flags);
		WRITE_ONCE(s->evacuated, b);
	}
	mutex_unlock(&s->lock);
	return b;
}

void fusion_space_keep(struct fusion_space *s)
{
	struct fusion_class *class;
	struct fusion_band *b;
	unsigned long flags;

	mutex_lock(&s->lock);
	b = s->evacuated;
	if (b) {
		class = b->class;
		spin_lock_irqsave(&class->lock, flags);
		b->evacuated = false;
		class->free += b->stripes - b->used;
		if (b->used < b->stripes)
			list_move_tail(&b->list, &class->bands);
		spin_unlock_irqrestore(&class->lock, flags);
		WRITE_ONCE(s->evacuated, NULL);
	}
	mutex_unlock(&s->lock);
}
