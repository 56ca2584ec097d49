/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Patches: single pages of a block, each replicated at places of its own, over the
 * block's base.  Pure; any context.
 */
#ifndef DM_FUSION_PATCH_H
#define DM_FUSION_PATCH_H

#include "codec.h"

struct fusion_patch {
	u64 at[FUSION_MAX_REPLICAS];	/* patch places; beyond the replicas 0 */
};

/* The page of its slots that all replicas of a patch are at. */
static inline u32 fusion_patch_at(const struct fusion_patch *patch)
{
	return fusion_patch_page(patch->at[0]);
}

/* The patches of a block in core: one for each page in @mask, in their order. */
struct fusion_patches {
	u64 mask;
	u32 generation;			/* as that of a top */
	struct fusion_patch patch[];
};

/* With room for the patches of any block, in core and on disk. */
union fusion_patches_room {
	struct fusion_patches patches;
	u8 bytes[sizeof(struct fusion_patches) +
		 FUSION_MAX_PATCHES * sizeof(struct fusion_patch)];
};

union fusion_disk_patches_room {
	struct fusion_disk_patches patches;
	u8 bytes[sizeof(struct fusion_disk_patches) +
		 FUSION_MAX_PATCHES * sizeof(struct fusion_disk_patch)];
};

/* The patch of @page, which is in the mask. */
static inline const struct fusion_patch *
fusion_patch_of(const struct fusion_patches *patches, unsigned int page)
{
	return &patches->patch[fusion_popcount64(patches->mask &
						 fusion_mask(0, page))];
}

/* The patch @pages pages behind @patch, in the same slots. */
static inline struct fusion_patch
fusion_patch_behind(const struct fusion_patch *patch, unsigned int pages)
{
	struct fusion_patch behind = *patch;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS && behind.at[i]; i++)
		behind.at[i] += pages;
	return behind;
}

/* The slots that the replicas of @patch are in, into @place; how many.  The rest: 0. */
static inline unsigned int fusion_patch_slots(const struct fusion_patch *patch,
					      u64 *place)
{
	unsigned int i, replicas = 0;

	for (i = 0; i < FUSION_MAX_REPLICAS; i++) {
		place[i] = patch->at[i] ? fusion_patch_slot(patch->at[i]) : 0;
		replicas += !!place[i];
	}
	return replicas;
}

/*
 * How many of the pages from @page on, at most @limit and all in the mask, are one
 * behind the other in the same slots?  @limit > 0.
 */
unsigned int fusion_patches_run(const struct fusion_patches *patches,
				unsigned int page, unsigned int limit);

/* Those pages in @pages of which @a and @b have the same patch. */
u64 fusion_patches_same(const struct fusion_patches *a,
			const struct fusion_patches *b, u64 pages);

/*
 * Into @patches, whose generation is left to the caller: those that @old, which may
 * be NULL, has of other pages than those in @pages, and of these, one behind the
 * other, @first and what is behind it.  Without @pages that is a copy.
 */
void fusion_patches_add(struct fusion_patches *patches,
			const struct fusion_patches *old, u64 pages,
			const struct fusion_patch *first);

static inline unsigned int fusion_patch_replicas(const struct fusion_patch *patch)
{
	return patch->at[2] ? 3 : 2;
}

/* ---- on disk ---- */

void fusion_patch_encode(const struct fusion_patch *patch,
			 struct fusion_disk_patch *disk);
/*
 * -EINVAL if @disk cannot be a patch in blocks of @pages pages: a place that is
 * malformed, or beyond such a block; the same one twice; different pages.
 */
int fusion_patch_decode(const struct fusion_disk_patch *disk, unsigned int pages,
			struct fusion_patch *patch);
/* Is it all zeros: none? */
bool fusion_patch_blank(const struct fusion_disk_patch *disk);

/* @pages is a block's; @disk is fusion_patches_bytes() long. */
void fusion_patches_encode(const struct fusion_patches *patches,
			   unsigned int pages, struct fusion_disk_patches *disk);

/*
 * Into @patches, which has room for fusion_max_patches().  -EINVAL if @disk cannot
 * be patches of a block of @pages pages: none or too many, patch places that are
 * malformed, or beyond such a block, or the same for two replicas, or different
 * pages; something behind the last.  As with tops, whether the pool has such places is not known
 * here.
 */
int fusion_patches_decode(const struct fusion_disk_patches *disk,
			  unsigned int pages, struct fusion_patches *patches);

#endif /* DM_FUSION_PATCH_H */
