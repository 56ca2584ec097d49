/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Conversion, the second phase of a replicated write (FusionRAID, FAST'21,
 * section 3.3): the primary stripe of a closed set gets its parity in position
 * and becomes a RAID stripe; the mirror is dropped.  No data is moved.
 *
 * It is optimistic.  For each set, oldest first:
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
 * until a later time.  A slot that dies in between stays in the parity: its
 * data is there as long as the stripe is.
 *
 * What can be lost: until the commit of that epoch a power cut leaves the top
 * and both replicas; what 1 and 2 wrote is in pages that nothing refers to.
 * The commit flushes the members first, so after it data, filled pages and
 * parity are durable.  The mirror is free after the commit, and after those
 * who read it.
 *
 * A grace reference keeps both stripes from being reused meanwhile.  Therefore
 * nothing in between may wait for the commit mutex, nor for a block, whose
 * holder may wait for that mutex.
 */
#ifndef DM_FUSION_CONVERT_H
#define DM_FUSION_CONVERT_H

#include "pool.h"

void fusion_convert_init(struct fusion_pool *pool);

/*
 * Convert, once, every set that nobody is writing to now, and wait until that
 * is done and what became free is free.  0, -EINTR, or -EIO.
 */
int fusion_convert_all(struct fusion_pool *pool);

#endif /* DM_FUSION_CONVERT_H */
