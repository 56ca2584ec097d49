/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels this module builds for.  compat-probe.sh
 * finds them out by compiling and writes compat-generated.h.
 */
#ifndef DM_FUSION_COMPAT_H
#define DM_FUSION_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>

#include "compat-generated.h"

/* Pages under write must not change: replicas and parity would differ. */
static inline void fusion_compat_stable_writes(struct dm_target *ti)
{
#ifdef FUSION_HAVE_TI_NEEDS_STABLE_WRITES
	ti->needs_stable_writes = true;
#endif
}

static inline void fusion_compat_limits(struct queue_limits *limits)
{
#ifdef FUSION_HAVE_BLK_FEAT_STABLE_WRITES
	limits->features |= BLK_FEAT_STABLE_WRITES;
#endif
}

static inline void fusion_compat_discard(struct queue_limits *limits,
					 u32 bytes, u32 max_sectors)
{
	limits->discard_granularity = bytes;
	/* where the block layer computes one from the other it does no harm */
	limits->max_hw_discard_sectors = max_sectors;
	limits->max_discard_sectors = max_sectors;
}

#endif /* DM_FUSION_COMPAT_H */
