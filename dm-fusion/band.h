/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bands, as the files of space.h know them.
 */
#ifndef DM_FUSION_BAND_H
#define DM_FUSION_BAND_H

#include "space.h"

/* Is it known which stripes of @b are in use, and not only how many? */
static inline bool fusion_band_loaded(const struct fusion_band *b)
{
	/* acquire: and then all of it, see band_publish() */
	return smp_load_acquire(&b->used_bits);
}

/*
 * Has all of @b been emptied while it was not loaded?  Then it is passed down
 * as one and freed: it must not be loaded before.  Under the commit mutex and
 * space->lock, with no stripe dying.
 */
static inline bool fusion_band_emptied(const struct fusion_band *b)
{
	return !fusion_band_loaded(b) && b->used && !b->stored;
}

/* The count of the template that stripe @i of @b is in. */
static inline u16 *fusion_band_template(struct fusion_band *b, u32 i)
{
	return &b->template_used[i / fusion_template_stripes(b->layout)];
}

/*
 * @more of @b's stripes are in use, or fewer: what its class can draw changes
 * with it.  Under class->lock.
 */
static inline void fusion_band_use(struct fusion_band *b, s32 more)
{
	struct fusion_class *class = b->class;
	bool full = b->used == b->stripes;

	b->used += more;
	if (unlikely(b->evacuated))
		return;
	class->free -= more;
	if (full != (b->used == b->stripes))
		list_move_tail(&b->list, full ? &class->bands : &class->full);
}

/*
 * Stripes of @class beyond its reserve that are for blocks which are there
 * already, and those of one set more.
 */
static inline u32 fusion_class_margin(const struct fusion_class *class)
{
	return fusion_margin_stripes(READ_ONCE(class->stripes)) + class->p + 1;
}

/* What the record of a stripe says: FUSION_LIVE_. */
static inline u8 fusion_stripe_live(const struct fusion_disk_stripe *disk)
{
	u8 live = fusion_popcount64(le64_to_cpu(disk->live));

	if (disk->state == FUSION_STRIPE_RAID)
		return live;
	return disk->state == FUSION_STRIPE_PRIMARY ?
		live | FUSION_LIVE_PRIMARY : FUSION_LIVE_OTHER;
}

/* Forget which stripes of @b are in use. */
void fusion_band_unload(struct fusion_band *b);

/*
 * If nothing of @b, which is loaded, is in use: it is of no class any more, and
 * free, for @to in the first place.  Under space->lock, with class->lock not held.
 */
bool fusion_band_give_back(struct fusion_space *s, struct fusion_band *b,
			   struct fusion_class *to);

#endif /* DM_FUSION_BAND_H */
