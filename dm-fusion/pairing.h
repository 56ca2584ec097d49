/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pairing: which slots of a mirror stripe hold the replicas of a primary
 * stripe's data slots.  Pure; any context.
 *
 * FusionRAID (FAST'21, section 3.2) draws candidate stripes at random, pairs
 * those with the fewest common members and rotates over the common ones.  The
 * rotation does not always exist (one common data member would be paired with
 * itself), so this is a bipartite matching in fixed order: a function of the
 * two stripes' members alone.
 */
#ifndef DM_FUSION_PAIRING_H
#define DM_FUSION_PAIRING_H

#include "layout.h"

/* Candidate stripes drawn for a set: two for each of its replicas. */
#define FUSION_PAIR_DRAW(replicas)	(2 * (replicas))
#define FUSION_PAIR_DRAW_MAX	FUSION_PAIR_DRAW(FUSION_MAX_REPLICAS)

/* How many members two stripes share; masks as from fusion_layout_members(). */
static inline unsigned int fusion_pair_common(u64 a, u64 b)
{
	return fusion_popcount64(a & b);
}

/*
 * The two of @count (2 .. FUSION_PAIR_DRAW_MAX) member masks that share the fewest
 * members, the first such in order: their indexes into @a and @b, a < b.
 */
void fusion_pair_choose(const u64 *masks, unsigned int count, unsigned int *a,
			unsigned int *b);

/*
 * For a third replica: the one of @count (3 .. FUSION_PAIR_DRAW_MAX) member
 * masks, neither @a nor @b, that shares the fewest members with these two, a
 * member of both counting twice; the first such.
 */
unsigned int fusion_pair_choose_third(const u64 *masks, unsigned int count,
				      unsigned int a, unsigned int b);

/*
 * Match the @d data slots of the primary to slots of a mirror, 0 < @d <= @k.
 *
 * @avoid[x] is the mask of members that already hold slot x's data (its
 * primary's member; for a third replica also its second's).  @mirror[0..k-1]
 * are the mirror's members by slot.  On success @slot_of[x] is the mirror slot
 * of data slot x: all different, each on a member outside @avoid[x].  Data
 * slots of the mirror (below @d) are preferred to its parity slots.  The
 * result depends on nothing but the arguments.  -ENOENT if there is no
 * complete matching; @slot_of is then undefined.
 *
 * Between stripes of one width, @d at least 2, there always is one, for a second
 * replica (p at least 1) and for a third (p = 2), by Hall's theorem: a data slot
 * shuns at most p slots of the mirror, so any has @d at least to choose from,
 * which is enough for up to p of them; and a member is in @avoid of at most p
 * data slots, since a stripe has it once, so more than p of them have all @k
 * slots to choose from.
 */
int fusion_pair_match(const u64 *avoid, unsigned int d, const u8 *mirror,
		      unsigned int k, u8 *slot_of);

#endif /* DM_FUSION_PAIRING_H */
