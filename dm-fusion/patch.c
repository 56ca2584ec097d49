// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patches.  See patch.h.
 */
#include "patch.h"

static_assert(sizeof(struct fusion_disk_patches) == 16, "patches");
static_assert(sizeof(struct fusion_disk_patch) == 24, "patch");

/* Is @b @pages pages behind @a, in the same slots? */
static bool patch_follows(const struct fusion_patch *a, const struct fusion_patch *b,
			  unsigned int pages)
{
	struct fusion_patch behind = fusion_patch_behind(a, pages);

	return !memcmp(&behind, b, sizeof(behind)) &&
		fusion_patch_slot(a->at[0]) == fusion_patch_slot(b->at[0]);
}

unsigned int fusion_patches_run(const struct fusion_patches *patches,
				unsigned int page, unsigned int limit)
{
	const struct fusion_patch *patch = fusion_patch_of(patches, page);
	unsigned int run;

	for (run = 1; run < limit; run++)
		if (!patch_follows(patch, &patch[run], run))
			break;
	return run;
}

u64 fusion_patches_same(const struct fusion_patches *a,
			const struct fusion_patches *b, u64 pages)
{
	u64 left, same = 0;

	for (left = a->mask & b->mask & pages; left; left &= left - 1) {
		unsigned int page = fusion_ctz64(left);

		if (fusion_patch_of(a, page)->at[0] ==
		    fusion_patch_of(b, page)->at[0])
			same |= 1ULL << page;
	}
	return same;
}

void fusion_patches_add(struct fusion_patches *patches,
			const struct fusion_patches *old, u64 pages,
			const struct fusion_patch *first)
{
	u64 kept = old ? old->mask & ~pages : 0, left;
	unsigned int n = 0, added = 0;

	patches->mask = kept | pages;
	for (left = patches->mask; left; left &= left - 1) {
		unsigned int page = fusion_ctz64(left);

		patches->patch[n++] = kept & (1ULL << page) ?
			*fusion_patch_of(old, page) :
			fusion_patch_behind(first, added++);
	}
}

/* ---- on disk ---- */

#define PATCH_BITS (FUSION_PLACE_VALID | \
		    ((1ULL << (FUSION_STRIPE_BITS + FUSION_SLOT_BITS + \
			       FUSION_PAGE_BITS)) - 1))

/* Could any pool with blocks of @pages pages have this patch place? */
static bool patch_formed(u64 patch, unsigned int pages)
{
	return (patch & FUSION_PLACE_VALID) && !(patch & ~PATCH_BITS) &&
		fusion_patch_page(patch) < pages;
}

void fusion_patch_encode(const struct fusion_patch *patch,
			 struct fusion_disk_patch *disk)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS; i++)
		disk->at[i] = cpu_to_le64(patch->at[i]);
}

int fusion_patch_decode(const struct fusion_disk_patch *disk, unsigned int pages,
			struct fusion_patch *patch)
{
	u64 *at = patch->at;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS; i++)
		at[i] = le64_to_cpu(disk->at[i]);
	if (!patch_formed(at[0], pages) || !patch_formed(at[1], pages) ||
	    at[0] == at[1] ||
	    fusion_patch_page(at[0]) != fusion_patch_page(at[1]))
		return -EINVAL;
	if (at[2] && (!patch_formed(at[2], pages) || at[2] == at[0] ||
		      at[2] == at[1] ||
		      fusion_patch_page(at[2]) != fusion_patch_page(at[0])))
		return -EINVAL;
	return 0;
}

bool fusion_patch_blank(const struct fusion_disk_patch *disk)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS; i++)
		if (disk->at[i])
			return false;
	return true;
}

void fusion_patches_encode(const struct fusion_patches *patches,
			   unsigned int pages, struct fusion_disk_patches *disk)
{
	unsigned int i;

	memset(disk, 0, fusion_patches_bytes(pages));
	disk->mask = cpu_to_le64(patches->mask);
	disk->generation = cpu_to_le32(patches->generation);
	for (i = 0; i < fusion_popcount64(patches->mask); i++)
		fusion_patch_encode(&patches->patch[i], &disk->patch[i]);
}

int fusion_patches_decode(const struct fusion_disk_patches *disk,
			  unsigned int pages, struct fusion_patches *patches)
{
	unsigned int i, count, max = fusion_max_patches(pages);
	u64 mask = le64_to_cpu(disk->mask);

	count = fusion_popcount64(mask);
	if (!count || count > max || (mask & ~fusion_mask(0, pages)))
		return -EINVAL;
	patches->mask = mask;
	patches->generation = le32_to_cpu(disk->generation);
	for (i = 0; i < count; i++)
		if (fusion_patch_decode(&disk->patch[i], pages,
					&patches->patch[i]))
			return -EINVAL;
	for (; i < max; i++)
		if (!fusion_patch_blank(&disk->patch[i]))
			return -EINVAL;
	return 0;
}
