// SPDX-License-Identifier: GPL-2.0-only
/*
 * How stripes that have left the disk become free: after a grace period, and
 * after they have been passed down.  See space.h.
 */
#include <linux/bitmap.h>

#include "region.h"

void fusion_space_release(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	u32 i = fusion_stripe_index(stripe);
	unsigned long flags;

	if (fusion_band_loaded(b)) {
		bool held;

		spin_lock_irqsave(&b->class->lock, flags);
		held = test_bit(i, b->held_bits);
		if (!held)
			__set_bit(i, b->dying_bits);
		spin_unlock_irqrestore(&b->class->lock, flags);
		if (held)
			return;
	}
	b->has_dying = true;
	s->has_dying = true;
}

/* @blocks have become free for @class: what of it may be drawn for writes. */
static void space_give(struct fusion_space *s, struct fusion_class *class,
		       u64 blocks)
{
	u32 share = fusion_writers_share(fusion_space_available_blocks(s, class),
					 s->slow_zone);

	/* no more than a zone: what was not drawn does not add up */
	if (atomic64_read(&s->budget) < (s64)s->slow_zone)
		atomic64_add(blocks * share / 256, &s->budget);
}

void fusion_space_begin_bury(struct fusion_space *s)
{
	struct fusion_band *b;
	unsigned long flags;

	s->has_dying = false;
	fusion_for_each_band(s, b) {
		if (!b->has_dying)
			continue;
		b->has_dying = false;
		if (fusion_band_loaded(b)) {
			spin_lock_irqsave(&b->class->lock, flags);
			swap(b->dying_bits, b->burying_bits);
			spin_unlock_irqrestore(&b->class->lock, flags);
		}
		b->burying_used = b->stored;
		WRITE_ONCE(b->burying, true);
	}
}

/*
 * If nothing of @b is in use, no class draws from it any more, and the band is
 * to be freed.  Under class->lock.
 */
static bool band_withdraw(struct fusion_band *b)
{
	if (b->used)
		return false;
	list_del(&b->list);
	if (!b->evacuated)
		b->class->free -= b->stripes;
	b->class->stripes -= b->stripes;
	return true;
}

/* @b, of which nothing is in use, is of no class any more. */
static void band_free(struct fusion_space *s, struct fusion_band *b)
{
	struct fusion_class *class = b->class;
	u32 bands;

	lockdep_assert_held(&s->lock);
	fusion_band_unload(b);
	b->class = NULL;
	b->evacuated = false;
	if (s->evacuated == b)
		WRITE_ONCE(s->evacuated, NULL);
	if (fusion_band_old(s, b)) {
		bands = fusion_region_close(s, b, class);
		space_give(s, class, bands * fusion_region_band_blocks(s->newest));
	} else {
		fusion_band_offer(s, b);
	}
}

bool fusion_band_give_back(struct fusion_space *s, struct fusion_band *b,
			   struct fusion_class *to)
{
	struct fusion_class *class = b->class;
	u64 blocks = (u64)b->stripes * class->k;
	unsigned long flags;
	bool empty;

	spin_lock_irqsave(&class->lock, flags);
	empty = band_withdraw(b);
	spin_unlock_irqrestore(&class->lock, flags);
	if (empty) {
		band_free(s, b);
		space_give(s, to, blocks);
	}
	return empty;
}

/* Nothing is drawn from @b's template @t until it returns.  Under class->lock. */
static void template_empty(struct fusion_band *b, u32 t)
{
	u32 stripes = fusion_template_stripes(b->layout);

	bitmap_set(b->used_bits, t * stripes, stripes);
	fusion_band_use(b, stripes);
	__set_bit(t, b->emptied_bits);
}

/*
 * The burying stripes are free.  A template that this empties has been drawn
 * from, and in all likelihood been written, since it was last passed down.
 * Returns the number of templates emptied.
 */
static u32 band_bury_stripes(struct fusion_space *s, struct fusion_band *b)
{
	u32 i, emptied = 0;

	for_each_set_bit(i, b->burying_bits, b->stripes) {
		fusion_space_free_locked(s, fusion_stripe_id(b->number, i));
		if (s->passdown && !*fusion_band_template(b, i)) {
			template_empty(b, i / fusion_template_stripes(b->layout));
			emptied++;
		}
	}
	bitmap_zero(b->burying_bits, b->stripes);
	return emptied;
}

/*
 * The same for a band that is not loaded: all of it is emptied, or nothing.
 * *@empty: the band is to be freed.
 */
static u32 band_bury_unloaded(struct fusion_space *s, struct fusion_band *b,
			      bool *empty)
{
	struct fusion_class *class = b->class;

	if (!b->evacuated)
		class->unloaded += b->used - b->burying_used;
	b->used = b->burying_used;
	*empty = !b->used;
	if (b->used)
		return 0;
	if (!b->evacuated)
		class->unloaded -= b->stripes;
	if (!s->passdown) {
		class->stripes -= b->stripes;
		return 0;
	}
	b->used = b->stripes;
	*empty = false;
	return b->stripes / fusion_template_stripes(b->layout);
}

/* The dying stripes of one band are free, and the band if it is empty. */
static void band_bury(struct fusion_space *s, struct fusion_band *b)
{
	struct fusion_class *class = b->class;
	u32 emptied, stripes;
	unsigned long flags;
	bool empty;

	lockdep_assert_held(&s->lock);
	b->burying = false;
	spin_lock_irqsave(&class->lock, flags);
	if (fusion_band_loaded(b)) {
		stripes = bitmap_weight(b->burying_bits, b->stripes);
		emptied = band_bury_stripes(s, b);
		empty = band_withdraw(b);
	} else {
		stripes = b->used - b->burying_used;
		emptied = band_bury_unloaded(s, b, &empty);
	}
	spin_unlock_irqrestore(&class->lock, flags);
	if (!b->evacuated)
		space_give(s, class, (u64)stripes * class->k);
	if (empty)
		band_free(s, b);
	if (!emptied)
		return;
	atomic_add(emptied, &s->emptied);
	if (list_empty(&b->emptied_list))
		list_add_tail(&b->emptied_list, &s->emptied_bands);
}

bool fusion_space_bury(struct fusion_space *s)
{
	struct fusion_band *b;
	bool emptied;

	mutex_lock(&s->lock);
	fusion_for_each_band(s, b)
		if (READ_ONCE(b->burying))
			band_bury(s, b);
	emptied = !list_empty(&s->emptied_bands);
	mutex_unlock(&s->lock);
	return emptied;
}

/* ---- passing down ---- */

/* Under space->lock; @b has emptied templates. */
static void band_take_emptied(struct fusion_space *s, struct fusion_band *b,
			      struct fusion_emptied *e)
{
	u32 templates = b->stripes / fusion_template_stripes(b->layout);
	u32 chunks = fusion_template_chunks(b->layout, b->class->k);
	u32 end = templates;

	e->band = b;
	e->first = 0;
	if (fusion_band_loaded(b)) {
		e->first = find_first_bit(b->emptied_bits, templates);
		end = find_next_zero_bit(b->emptied_bits, templates, e->first);
		bitmap_clear(b->emptied_bits, e->first, end - e->first);
	}
	if (!fusion_band_loaded(b) || bitmap_empty(b->emptied_bits, templates))
		list_del_init(&b->emptied_list);
	e->templates = end - e->first;
	e->blocks = (u64)e->templates * chunks;
	e->sectors = e->blocks * s->block_sectors;
	e->sector = (b->chunk + (u64)e->first * chunks) * s->block_sectors;
}

bool fusion_space_take_emptied(struct fusion_space *s, struct fusion_emptied *e)
{
	struct fusion_band *b;

	mutex_lock(&s->lock);
	b = list_first_entry_or_null(&s->emptied_bands, struct fusion_band,
				     emptied_list);
	if (b)
		band_take_emptied(s, b, e);
	mutex_unlock(&s->lock);
	return b;
}

void fusion_space_return_emptied(struct fusion_space *s,
				 const struct fusion_emptied *e)
{
	struct fusion_band *b = e->band;
	u32 stripes = e->templates * fusion_template_stripes(b->layout);
	struct fusion_class *class;
	unsigned long flags;
	bool empty = true;

	mutex_lock(&s->lock);
	class = b->class;
	if (fusion_band_loaded(b)) {
		spin_lock_irqsave(&class->lock, flags);
		bitmap_clear(b->used_bits, e->first *
			     fusion_template_stripes(b->layout), stripes);
		fusion_band_use(b, -stripes);
		empty = band_withdraw(b);
		spin_unlock_irqrestore(&class->lock, flags);
	} else {
		b->used = 0;
		spin_lock_irqsave(&class->lock, flags);
		class->stripes -= b->stripes;
		spin_unlock_irqrestore(&class->lock, flags);
	}
	if (empty)
		band_free(s, b);
	mutex_unlock(&s->lock);
}
