/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scrub: can every RAID stripe be read, and does its parity fit its written slots?  And are
 * all replicas the same?  Replicas come first (scrub-replicas.h), then the stripes in the order
 * of their addresses.  Who was interrupted among these goes on there the next time, also
 * after a start: at the last of them that a commit has.
 *
 * Sealed stripes are immutable until they are freed, so neither writes nor commits disturb
 * it: a grace reference keeps the stripe that it reads from being reused, and its gate keeps
 * destage out.  Stripes with slots on members that have failed are left out, and not counted;
 * and so are those that a member fails under, as nothing is wrong with them.
 *
 * What cannot be read is computed from the rest and written again, page by page.  Parity
 * that does not fit may be wrong, or what it was computed from: which, nobody knows.  If
 * asked, it is written again, from the data: then at least a failure does not change what
 * is read.  What a power cut can tear is what was wrong, or could not be read, before.
 */
#ifndef DM_FUSION_SCRUB_H
#define DM_FUSION_SCRUB_H

#include "pool.h"

void fusion_scrub_init(struct fusion_pool *pool);

/*
 * Commit, look at every replica and RAID stripe that no interrupted scrub has looked at, and
 * wait; with @repair, also write parity that does not fit again, and replicas that differ from
 * the first.  0, -EINTR, -EIO if not all can be read, or -EILSEQ if some do not fit still.
 */
int fusion_scrub_all(struct fusion_pool *pool, bool repair);

/* The next one looks at everything. */
void fusion_scrub_restart(struct fusion_pool *pool);

#endif /* DM_FUSION_SCRUB_H */
