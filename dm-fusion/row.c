// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rows.  See row.h.
 */
#include "row.h"

static_assert(sizeof(struct fusion_disk_row) == 112, "row");
static_assert(FUSION_MAX_PARTS * FUSION_PART_PATCHES >=
	      FUSION_MAX_PARITY + FUSION_ROW_PATCHES, "parts");
static_assert(FUSION_MAX_PARTS <= 1 << FUSION_PART_BITS, "part bits");

static unsigned int parts_of(unsigned int patches)
{
	return (patches + FUSION_PART_PATCHES - 1) / FUSION_PART_PATCHES;
}

unsigned int fusion_row_encode(const struct fusion_row *row,
			       struct fusion_disk_row *disk)
{
	unsigned int p = row->parity[1].at[0] ? 2 : 1, i;
	unsigned int patches = p + fusion_popcount64(row->changed);

	memset(disk, 0, parts_of(patches) * sizeof(*disk));
	disk->changed = cpu_to_le64(row->changed);
	memcpy(disk->copies, row->copies, sizeof(disk->copies));
	for (i = 0; i < patches; i++)
		fusion_patch_encode(i < p ? &row->parity[i] : &row->patch[i - p],
				    &disk[i / FUSION_PART_PATCHES]
				    .patch[i % FUSION_PART_PATCHES]);
	return parts_of(patches);
}

unsigned int fusion_row_parts(const struct fusion_disk_row *first)
{
	unsigned int count = fusion_popcount64(le64_to_cpu(first->changed));

	if (!count || count > FUSION_ROW_PATCHES)
		return 0;
	/* of the parity, as many as its patch has replicas but one */
	return parts_of((first->patch[0].at[2] ? 2 : 1) + count);
}

/* Part @part has nothing that only the first may have, nor what no part has. */
static bool part_ok(const struct fusion_disk_row *disk, unsigned int part)
{
	static const u8 none[sizeof(disk->reserved)];

	return !memcmp(disk->reserved, none, sizeof(none)) &&
		(!part || (!disk->changed &&
			   !memcmp(disk->copies, none, sizeof(disk->copies))));
}

/* Parity @i of a class with @p of them. */
static bool copies_ok(u8 copies, unsigned int i, unsigned int p)
{
	return i < p ? copies && !(copies >> (p + 1)) : !copies;
}

int fusion_row_decode(const struct fusion_disk_row *disk, u64 key, unsigned int d,
		      unsigned int p, unsigned int pages, struct fusion_row *row)
{
	unsigned int i, patches, parts;

	memset(row, 0, sizeof(*row));
	row->stripe = key >> (FUSION_PAGE_BITS + FUSION_PART_BITS);
	row->page = (key >> FUSION_PART_BITS) & ((1U << FUSION_PAGE_BITS) - 1);
	row->changed = le64_to_cpu(disk->changed);
	memcpy(row->copies, disk->copies, sizeof(row->copies));
	patches = p + fusion_popcount64(row->changed);
	parts = fusion_row_parts(disk);
	if (!parts || parts != parts_of(patches) || key & ((1U << FUSION_PART_BITS) - 1))
		return -EINVAL;
	if (row->stripe >= 1ULL << FUSION_STRIPE_BITS || row->page >= pages ||
	    row->changed & ~fusion_mask(0, d))
		return -EINVAL;
	for (i = 0; i < FUSION_MAX_PARITY; i++)
		if (!copies_ok(row->copies[i], i, p))
			return -EINVAL;
	for (i = 0; i < parts; i++)
		if (!part_ok(&disk[i], i))
			return -EINVAL;
	for (i = 0; i < parts * FUSION_PART_PATCHES; i++) {
		const struct fusion_disk_patch *at =
			&disk[i / FUSION_PART_PATCHES].patch[i % FUSION_PART_PATCHES];
		struct fusion_patch *patch;

		if (i >= patches) {
			if (!fusion_patch_blank(at))
				return -EINVAL;
			continue;
		}
		patch = i < p ? &row->parity[i] : &row->patch[i - p];
		if (fusion_patch_decode(at, pages, patch) ||
		    fusion_patch_replicas(patch) != p + 1)
			return -EINVAL;
	}
	return 0;
}
