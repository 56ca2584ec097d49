/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of a scrub that compares replicas.  See scrub.h.
 */
#ifndef DM_FUSION_SCRUB_REPLICAS_H
#define DM_FUSION_SCRUB_REPLICAS_H

#include "pool.h"

/*
 * All tops and patches of the last commit, of all volumes.  Sleeps; 0, -EINTR, -EIO if
 * nothing of some can be read, -EILSEQ if those of some differ still, or -ENOMEM.
 */
int fusion_scrub_replicas(struct fusion_scrub *scrub, struct fusion_pool *pool);

#endif /* DM_FUSION_SCRUB_REPLICAS_H */
