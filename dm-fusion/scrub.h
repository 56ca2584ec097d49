/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scrub: does the parity of every RAID stripe fit its written slots?
 *
 * It only looks and counts.  Sealed stripes are immutable until they are freed,
 * so neither writes nor commits disturb it: a grace reference keeps the stripe
 * that it reads from being reused.
 */
#ifndef DM_FUSION_SCRUB_H
#define DM_FUSION_SCRUB_H

#include "pool.h"

void fusion_scrub_init(struct fusion_pool *pool);

/*
 * Look at every RAID stripe of the last commit, and wait.  0, -EINTR, -EIO if
 * not all could be read, or -EILSEQ if the parity of one does not fit.
 */
int fusion_scrub_all(struct fusion_pool *pool);

#endif /* DM_FUSION_SCRUB_H */
