/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scrub: can every RAID stripe be read, and does its parity fit its written slots?
 *
 * Sealed stripes are immutable until they are freed, so neither writes nor commits disturb
 * it: a grace reference keeps the stripe that it reads from being reused, and its gate keeps
 * destage out.  Stripes with slots on members that have failed are left out.
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
 * Look at every RAID stripe of the last commit, and wait; with @repair, also write parity
 * that does not fit again.  0, -EINTR, -EIO if not all can be read, or -EILSEQ if the
 * parity of one does not fit still.
 */
int fusion_scrub_all(struct fusion_pool *pool, bool repair);

#endif /* DM_FUSION_SCRUB_H */
