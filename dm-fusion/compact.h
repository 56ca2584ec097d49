/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compaction: live blocks of stripes that have few move to a fresh stripe, with
 * parity, and the stripes that they leave are free.
 *
 * Two kinds of stripes are worth it: RAID stripes with dead slots, those with
 * the most first (what they give back for what must be moved is best), and
 * replicated sets of which little is live.
 *
 * Who owns the slots of a RAID stripe is found by a walk of the last commit's
 * map for many stripes at a time; a set knows its owners.  Either is a hint:
 * nothing moves that is not where the map in core says (move.h).
 *
 * What can be lost: until the commit of the epoch in which the blocks are
 * switched, a power cut leaves them where they were, in stripes that are not
 * reused before; the commit flushes the members first, so after it data and
 * parity of the new stripe are durable.
 */
#ifndef DM_FUSION_COMPACT_H
#define DM_FUSION_COMPACT_H

#include "move.h"

void fusion_compact_init(struct fusion_pool *pool);
void fusion_compact_exit(struct fusion_pool *pool);

/*
 * Fill one fresh stripe of @class from RAID stripes of which no more than
 * @max_live slots are live, or, if there are none, from those in bands of the old
 * layout.  0; -ENOENT: nothing is to be gained; -EBUSY: nothing now, as others are in
 * the way; -ENOSPC: the reserve waits for a commit, or there is no room for what is in
 * old bands; or -ENOMEM, or the error of I/O or of the map.
 * Sleeps, and commits.
 */
int fusion_compact_stripe(struct fusion_pool *pool, struct fusion_move *m,
			  struct fusion_class *class, unsigned int max_live);

/* As above, from replicated sets, of any class. */
int fusion_compact_sets(struct fusion_pool *pool, struct fusion_move *m);

#endif /* DM_FUSION_COMPACT_H */
