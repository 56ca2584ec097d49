/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks of what is replicated: the tops, and the patches, of a volume.
 */
#ifndef DM_FUSION_OVERLAYS_H
#define DM_FUSION_OVERLAYS_H

#include "pool.h"

enum fusion_overlays { FUSION_TOPS, FUSION_PATCHES };

/*
 * The next block of @volume from *@block on that has some in the last commit; with @unsynced,
 * whose replicas may differ.  Sleeps; -ENODATA: there is none.
 */
int fusion_overlays_next(struct fusion_pool *pool, u32 volume, enum fusion_overlays kind,
			 bool unsynced, u64 *block);

#endif /* DM_FUSION_OVERLAYS_H */
