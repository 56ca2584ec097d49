// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions.  See region.h.
 */
#include <linux/mm.h>

#include "region.h"

int fusion_region_make(struct fusion_region *g, const struct fusion_layout *l,
		       unsigned int generation, u32 units, u32 count)
{
	u32 i;

	g->band = kvcalloc(count, sizeof(*g->band), GFP_KERNEL);
	if (!g->band)
		return -ENOMEM;
	g->layout = l;
	g->units = units;
	g->chunks = fusion_band_chunks(l, units);
	g->count = count;
	for (i = 0; i < count; i++) {
		struct fusion_band *b = &g->band[i];

		b->layout = l;
		b->number = (generation & 1) << FUSION_BAND_BITS | i;
		b->chunk = (u64)i * g->chunks;
		INIT_LIST_HEAD(&b->list);
		INIT_LIST_HEAD(&b->emptied_list);
	}
	return 0;
}

void fusion_region_free(struct fusion_region *g)
{
	u32 i;

	for (i = 0; i < g->count; i++)
		fusion_band_unload(&g->band[i]);
	kvfree(g->band);
	memset(g, 0, sizeof(*g));
}

struct fusion_band *fusion_band_from(struct fusion_space *s, u32 number)
{
	unsigned int r = number >> FUSION_BAND_BITS;
	u32 i = number & (FUSION_MAX_BANDS - 1);

	for (; r < ARRAY_SIZE(s->region); r++, i = 0) {
		/* pairs with fusion_region_grow() */
		if (i < smp_load_acquire(&s->region[r].count))
			return &s->region[r].band[i];
	}
	return NULL;
}

u32 fusion_band_rank(const struct fusion_space *s, u32 number)
{
	u32 i = number & (FUSION_MAX_BANDS - 1);

	return number >> FUSION_BAND_BITS ?
		READ_ONCE(s->region[0].count) + min(i, READ_ONCE(s->region[1].count)) :
		min(i, READ_ONCE(s->region[0].count));
}

/* Bands of @g that old band @b, which is @chunks long, overlaps: from *@first to before what is returned. */
static u32 region_overlap(const struct fusion_region *g, const struct fusion_band *b, u32 chunks,
			  u32 *first)
{
	*first = min_t(u64, div_u64(b->chunk, g->chunks), g->count);
	return min_t(u64, div_u64(b->chunk + chunks - 1, g->chunks) + 1, g->count);
}

static void region_count_below(struct fusion_region *g, const struct fusion_band *b, u32 chunks)
{
	u32 i, end = region_overlap(g, b, chunks, &i);

	for (; i < end; i++)
		g->band[i].below++;
}

/* Nothing is drawn any more from old band @b, which has a class. */
static void band_close(struct fusion_space *s, struct fusion_band *b)
{
	struct fusion_class *class = b->class;
	unsigned long flags;

	s->old_bands++;
	class->old_bands++;
	if (b->evacuated)
		return;
	spin_lock_irqsave(&class->lock, flags);
	b->evacuated = true;
	if (fusion_band_loaded(b)) {
		class->free -= b->stripes - b->used;
		list_move_tail(&b->list, &class->full);
	} else {
		class->unloaded -= b->stripes - b->used;
	}
	spin_unlock_irqrestore(&class->lock, flags);
}

int fusion_region_find_free(struct fusion_space *s)
{
	struct fusion_region *g = s->newest, *old = fusion_space_old(s);
	u32 i;

	if (old->count)
		s->moving_bands = fusion_region_moving(g, old);
	for (i = 0; i < old->count; i++) {
		if (!old->band[i].class)
			continue;
		band_close(s, &old->band[i]);
		region_count_below(g, &old->band[i], old->chunks);
	}
	for (i = 0; i < g->count; i++) {
		struct fusion_band *b = &g->band[i];

		if (b->class && b->below) {
			fusion_md_damaged(s->md, "band %u is where old ones are that are in use",
					  b->number);
			return -EINVAL;
		}
		if (!b->class && !b->below)
			fusion_band_offer(s, b);
	}
	return 0;
}

u32 fusion_region_close(struct fusion_space *s, const struct fusion_band *b,
			struct fusion_class *class)
{
	u32 i, end, found = 0;

	lockdep_assert_held(&s->lock);
	class->old_bands--;
	end = region_overlap(s->newest, b, fusion_space_old(s)->chunks, &i);
	for (; i < end; i++) {
		if (--s->newest->band[i].below)
			continue;
		fusion_band_offer(s, &s->newest->band[i]);
		found++;
	}
	/* whoever sees that there is none sees all that has become of the last one */
	smp_store_release(&s->old_bands, s->old_bands - 1);
	return found;
}

/* Is nothing of @b, which has a class, in use? */
static bool band_unused(const struct fusion_band *b)
{
	return fusion_band_loaded(b) && !b->used;
}

u32 fusion_region_would_free(struct fusion_space *s, struct fusion_region *g)
{
	struct fusion_region *now = s->newest;
	u32 i, found = 0;

	mutex_lock(&s->lock);
	for (i = 0; i < now->count; i++)
		if (now->band[i].class && !band_unused(&now->band[i]))
			region_count_below(g, &now->band[i], now->chunks);
	mutex_unlock(&s->lock);
	for (i = 0; i < g->count; i++) {
		found += !g->band[i].below;
		g->band[i].below = 0;
	}
	return found;
}

void fusion_region_grow(struct fusion_space *s, struct fusion_region *g)
{
	struct fusion_region *old = s->newest, *new = fusion_space_old(s);
	u32 count = g->count, i;

	mutex_lock(&s->lock);
	for (i = 0; i < old->count; i++) {
		struct fusion_band *b = &old->band[i];

		if (b->class && band_unused(b))
			fusion_band_give_back(s, b, b->class);
		if (!b->class)
			list_del_init(&b->list);
	}
	WRITE_ONCE(s->free_band_count, 0);
	WRITE_ONCE(s->evacuated, NULL);
	/* what the growth before has left */
	fusion_region_free(new);
	g->count = 0;
	*new = *g;
	/* whoever goes over all bands meanwhile finds none, or all of them */
	smp_store_release(&new->count, count);
	s->old_layout = s->layout;
	s->layout = new->layout;
	s->newest = new;
	/* no new one has a class, so none can be where it must not be */
	WARN_ON(fusion_region_find_free(s));
	s->slow_zone = fusion_slow_zone(fusion_region_blocks(new));
	mutex_unlock(&s->lock);
}

void fusion_region_grown(struct fusion_space *s)
{
	/* the bands stay, until the next time: whoever goes over all of them may be at one */
	mutex_lock(&s->lock);
	WRITE_ONCE(fusion_space_old(s)->count, 0);
	mutex_unlock(&s->lock);
}
