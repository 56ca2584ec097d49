// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which stripes are worth emptying.  See space.h.
 */
#include "band.h"

void fusion_space_note(struct fusion_space *s, u64 stripe,
		       const struct fusion_disk_stripe *disk)
{
	struct fusion_band *b = &s->band[fusion_stripe_band(stripe)];

	/* a band is loaded under the commit mutex */
	if (fusion_band_loaded(b))
		WRITE_ONCE(b->live[fusion_stripe_index(stripe)],
			   disk ? fusion_stripe_live(disk) : FUSION_LIVE_OTHER);
}

unsigned int fusion_space_live(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = &s->band[fusion_stripe_band(stripe)];
	unsigned int live;

	/* the stripe is in use, so its band stays */
	if (!fusion_band_loaded(b))
		return FUSION_LIVE_MASK;
	live = READ_ONCE(b->live[fusion_stripe_index(stripe)]);
	return live & FUSION_LIVE_MASK;
}

/* Stripes of the bands of @class that are loaded, by their live slots. */
static void victims_count(struct fusion_space *s, struct fusion_class *class,
			  u32 *count)
{
	u32 n, i;

	for (n = 0; n < s->band_count; n++) {
		struct fusion_band *b = &s->band[n];

		if (b->class != class || !fusion_band_loaded(b))
			continue;
		for (i = 0; i < b->stripes; i++) {
			u8 live = READ_ONCE(b->live[i]);

			if (live < class->d)
				count[live]++;
		}
		cond_resched();
	}
}

/*
 * How many to take with each number of live slots: with the fewest first, until
 * packing gives back @gain stripes.  Returns their sum, at most @max.
 */
static u32 victims_choose(const struct fusion_class *class,
			  unsigned int max_live, unsigned int gain,
			  unsigned int max, u32 *count)
{
	u64 slots = (u64)gain * class->d, dead = 0;
	u32 sum = 0, live;

	count[0] = 0;
	for (live = 1; live < class->d; live++) {
		u32 want = max - sum, gives = class->d - live;

		if (live > max_live || dead >= slots)
			want = 0;
		else
			want = min_t(u64, want,
				     (slots - dead + gives - 1) / gives);
		count[live] = min(count[live], want);
		dead += (u64)count[live] * gives;
		sum += count[live];
	}
	return dead >= class->d ? sum : 0;
}

unsigned int fusion_space_victims(struct fusion_space *s,
				  struct fusion_class *class,
				  unsigned int max_live, unsigned int gain,
				  u64 *stripe, unsigned int max)
{
	u32 count[FUSION_MAX_MEMBERS] = { 0 }, at[FUSION_MAX_MEMBERS];
	u32 sum, n, i;

	mutex_lock(&s->lock);
	victims_count(s, class, count);
	sum = victims_choose(class, max_live, gain, max, count);
	at[0] = 0;
	for (i = 1; i < class->d; i++)
		at[i] = at[i - 1] + count[i - 1];
	for (n = 0; sum && n < s->band_count; n++) {
		struct fusion_band *b = &s->band[n];

		if (b->class != class || !fusion_band_loaded(b))
			continue;
		for (i = 0; i < b->stripes; i++) {
			u8 live = READ_ONCE(b->live[i]);

			if (live >= class->d || !count[live])
				continue;
			count[live]--;
			stripe[at[live]++] = fusion_stripe_id(n, i);
		}
		cond_resched();
	}
	mutex_unlock(&s->lock);
	return sum;
}
