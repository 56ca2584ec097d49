// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walks of what is replicated.  See overlays.h.
 */
#include "io.h"
#include "overlays.h"

static int next_top(struct fusion_pool *pool, u32 id, u64 *block, u32 *generation)
{
	struct fusion_disk_top disk;
	int r;

	r = fusion_md_read_next_top(pool->md, true, id, block,
				    FUSION_MAX_BLOCKS, &disk);
	*generation = le32_to_cpu(disk.generation);
	return r;
}

static int next_patches(struct fusion_pool *pool, u32 id, u64 *block,
			u32 *generation)
{
	union fusion_disk_patches_room disk;
	int r;

	r = fusion_md_read_next_patches(pool->md, true, id, block,
					FUSION_MAX_BLOCKS, &disk.patches);
	*generation = le32_to_cpu(disk.patches.generation);
	return r;
}

int fusion_overlays_next(struct fusion_pool *pool, u32 volume, enum fusion_overlays kind,
			 bool unsynced, u64 *block)
{
	u32 generation;
	int r;

	r = fusion_md_read_begin(pool->md, true);
	if (r)
		return r;
	for (;; ++*block) {
		r = (kind == FUSION_TOPS ? next_top : next_patches)(pool, volume, block,
								    &generation);
		if (r || !unsynced || fusion_unsynced(pool, generation))
			break;
		cond_resched();
	}
	fusion_md_read_end(pool->md);
	return r;
}
