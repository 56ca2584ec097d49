/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions: the bands of one layout; and how a pool comes from one to the next, with more
 * members.
 *
 * A band is so many chunks of each member of its layout, one behind the other from the first
 * chunk on.  So the bands of two layouts overlap: an old one and a new one that have chunks in
 * common must not both be in use.  While a pool grows
 *
 *  - an old band that has no class gets none any more, and nothing is drawn from one that has;
 *  - a new band is free when no old band that it overlaps has a class; these are counted in
 *    band->below.  An old band loses its class as any other does, when nothing that is durable
 *    refers to it, nobody reads or writes it, and it has been passed down (bury.c): so what is
 *    written to a new one overwrites nothing, whenever the power fails;
 *  - what is in old bands is moved by compaction, in their order, so that whole new bands become
 *    free (victims.c); what is replicated there is converted before, what is patched merged;
 *  - each class with old bands in use keeps stripes from those who write: what these are moved
 *    into, until another new band is free (fusion_region_moving()).  As there are more members
 *    than there were, the new bands that become free are worth more than what has been moved, but
 *    for what is below the next of them.
 *
 * When no old band has a class the pool has grown (grow.h).
 */
#ifndef DM_FUSION_REGION_H
#define DM_FUSION_REGION_H

#include "band.h"

/*
 * Make @count bands of @units of @l, which is of @generation and stays the caller's.
 * Sleeps.  -ENOMEM.
 */
int fusion_region_make(struct fusion_region *g, const struct fusion_layout *l,
		       unsigned int generation, u32 units, u32 count);
void fusion_region_free(struct fusion_region *g);

/*
 * What is moved so that the next band of @g becomes free is not more than so many of them take:
 * in order, that is from where the one before it ends to the end of the last band of @old that it
 * overlaps.
 */
static inline u32 fusion_region_moving(const struct fusion_region *g,
				       const struct fusion_region *old)
{
	return 1 + DIV_ROUND_UP(old->chunks, g->chunks);
}

/* Stripes of a band of @class. */
static inline u32 fusion_region_stripes(const struct fusion_region *g,
					const struct fusion_class *class)
{
	/* a class that is younger than the newest layout may be too wide for the old one */
	return class->k > fusion_layout_max_width(g->layout) ? 0 :
		fusion_band_stripes(g->layout, g->units, class->k);
}

/* Home slots of a band, of whatever class. */
static inline u64 fusion_region_band_blocks(const struct fusion_region *g)
{
	return (u64)g->units * fusion_template_stripes(g->layout);
}

static inline u64 fusion_region_blocks(const struct fusion_region *g)
{
	return g->count * fusion_region_band_blocks(g);
}

static inline struct fusion_region *fusion_band_region(struct fusion_space *s,
						       const struct fusion_band *b)
{
	return &s->region[b->number >> FUSION_BAND_BITS];
}

/* Is there a band of this number? */
static inline bool fusion_band_exists(const struct fusion_space *s, u32 number)
{
	return number >> FUSION_BAND_BITS < ARRAY_SIZE(s->region) &&
		(number & (FUSION_MAX_BANDS - 1)) <
		READ_ONCE(s->region[number >> FUSION_BAND_BITS].count);
}

/* Chunks of each member that bands are in, of either layout. */
static inline u64 fusion_space_chunks(const struct fusion_space *s)
{
	return max((u64)s->region[0].count * s->region[0].chunks,
		   (u64)s->region[1].count * s->region[1].chunks);
}

/* The first band from @number on; NULL: there is none. */
struct fusion_band *fusion_band_from(struct fusion_space *s, u32 number);

#define fusion_for_each_band(s, b) \
	for (b = fusion_band_from(s, 0); b; b = fusion_band_from(s, (b)->number + 1))

/* How many bands come before that with @number, of which the upper bits may be set; for progress. */
u32 fusion_band_rank(const struct fusion_space *s, u32 number);

/* The region of the layout before the newest; without bands, if the pool does not grow. */
static inline struct fusion_region *fusion_space_old(struct fusion_space *s)
{
	return s->newest == s->region ? s->region + 1 : s->region;
}

static inline bool fusion_space_growing(struct fusion_space *s)
{
	return READ_ONCE(fusion_space_old(s)->count);
}

static inline bool fusion_band_old(struct fusion_space *s, const struct fusion_band *b)
{
	return fusion_band_region(s, b) != s->newest;
}

/* That of the layout of @b. */
static inline u16 fusion_band_generation(struct fusion_space *s, const struct fusion_band *b)
{
	return fusion_md_super(s->md)->layout_generation - fusion_band_old(s, b);
}

/* ---- under space->lock ---- */

/* @b, of the newest layout, is free. */
static inline void fusion_band_offer(struct fusion_space *s, struct fusion_band *b)
{
	list_add_tail(&b->list, &s->free_bands);
	s->free_band_count++;
}

/*
 * The bands have been read from the metadata: which of the newest are free?  -EINVAL: one is in
 * use, and so is an old one that it overlaps.
 */
int fusion_region_find_free(struct fusion_space *s);

/* Old band @b, of @class, has lost its class: how many new ones are free now? */
u32 fusion_region_close(struct fusion_space *s, const struct fusion_band *b,
			struct fusion_class *class);

/* ---- growing ---- */

/* How many bands of @g, which is not the pool's yet, would be free if it were?  Sleeps. */
u32 fusion_region_would_free(struct fusion_space *s, struct fusion_region *g);

/*
 * @g is the newest from now on, and is @s's; what was the newest is the old one.  Under the
 * commit mutex, with no I/O under way, and everything committed.  Sleeps.
 */
void fusion_region_grow(struct fusion_space *s, struct fusion_region *g);

/* The old layout has no bands any more.  Under the commit mutex. */
void fusion_region_grown(struct fusion_space *s);

#endif /* DM_FUSION_REGION_H */
