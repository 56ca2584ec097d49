/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Conversion, the second phase of a replicated write (FusionRAID, FAST'21,
 * section 3.3): the primary stripe of a closed set gets its parity in position
 * and becomes a RAID stripe; the mirror is dropped.  No data is moved.
 *
 * It is optimistic (move.h):
 *
 *  1. for each live slot, holding its block: pages that the top does not have
 *     are copied from the base into the primary's slot, and the overlay is
 *     marked as converting; a write in place takes the mark away
 *  2. the live slots are read, the parity is computed and written
 *  3. holding all blocks: if every mark is still there, the blocks are switched
 *     to a base in the primary's slot, in one epoch with the seal that makes
 *     the primary a RAID stripe
 *
 * Whoever holds a block is not waited for: the set is hot, and is given up
 * until a later time.  So it is if a slot dies in between: it may have been
 * written before, and is in the parity.
 *
 * Space must come back even if everything is hot.  A set that was given up
 * twice, or any when writers wait for space, is frozen: its blocks are held from
 * the first step to the last, and writes to them wait for this one conversion.
 * They are waited for before the grace reference is taken.
 *
 * What can be lost: until the commit of that epoch a power cut leaves the top
 * and both replicas; what 1 and 2 wrote is in pages that nothing refers to.
 * The commit flushes the members first, so after it data, filled pages and
 * parity are durable.  The mirror is free after the commit, and after those
 * who read it.
 */
#ifndef DM_FUSION_CONVERT_H
#define DM_FUSION_CONVERT_H

#include "move.h"

/*
 * Convert the oldest set up to @number that has no member in @busy; @m is
 * memory to work with.  @freeze: whoever writes to it waits.  0 also if it had
 * to be given up; -ENOENT: there is none; or -ENOMEM, or the error of I/O.
 */
int fusion_convert_next(struct fusion_pool *pool, struct fusion_move *m,
			u64 number, u64 busy, bool freeze);

/*
 * Make the table of sets from the tops that were there at the start.  Sleeps.
 * -EINTR when *@stop.
 */
int fusion_convert_load(struct fusion_pool *pool, const bool *stop);

#endif /* DM_FUSION_CONVERT_H */
