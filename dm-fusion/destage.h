/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Destage: patches are merged into the RAID stripes that their blocks are in.
 *
 * The one change of sealed stripes.  A batch is what is live in the oldest sets for
 * patches, and whatever else is patched in the same blocks:
 *
 *	1. The pages are frozen: writes to them take fresh places from now on.  The
 *	   stripes are held, and nobody else is in their gates (gate.h).
 *	2. The new parity is computed, row by row (selection.h), and written to patches
 *	   of its own; a commit stores a record of each row (row.h) with the patches of
 *	   data and parity.  The parity is in one copy, where no page of the row is that
 *	   does not change; or in all replicas, if there is no such place.
 *	3. Data and parity are written in place.
 *	4. The patches leave the map, unless they were overwritten or have gone with
 *	   their blocks; the next commit, which flushes what 3 has written, removes the
 *	   records.
 *
 * What a power cut leaves: before 2's commit nothing has changed.  Between the
 * commits a row may be torn in any way, but its record has all that is to be there,
 * and the blocks are read from their patches; the next start writes it once more,
 * before anything else (fusion_destage_redo()).  There is no write hole: with p members
 * lost as well, what changes is read from its replicas, and what does not is computed
 * from the rest of it, the parity's patches and what changes.  If one of these patches
 * is lost, so are at most p - 1 of the others that are on a member each.
 */
#ifndef DM_FUSION_DESTAGE_H
#define DM_FUSION_DESTAGE_H

#include "pool.h"

/* Batches at a time. */
#define FUSION_DESTAGES		4

static inline int fusion_destage_batches(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->metadata_short) ? 1 : FUSION_DESTAGES;
}

/*
 * Merge what can be of the oldest sets for patches up to @number, one batch, and wait;
 * *@pages: how many were read and written for it.  -ENOENT: there are none that
 * nobody has taken; -EAGAIN: none that can be now: they are the youngest then; -EBUSY:
 * other batches were in the way; -ENOSPC, -ENOMEM; errors of I/O, of the map, of a
 * commit.
 */
int fusion_destage_next(struct fusion_pool *pool, u64 number, u64 *pages);

/*
 * Write the rows that have records in place, and remove these.  Before any I/O;
 * sleeps.
 */
int fusion_destage_redo(struct fusion_pool *pool);

#endif /* DM_FUSION_DESTAGE_H */
