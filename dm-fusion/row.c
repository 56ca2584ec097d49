// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rows.  See row.h.
 */
#include "row.h"

static_assert(sizeof(struct fusion_disk_row) == 448, "row");

/* What is used of @patch comes first, the rest is zeros. */
void fusion_row_encode(const struct fusion_row *row, struct fusion_disk_row *disk)
{
	unsigned int i;

	memset(disk, 0, sizeof(*disk));
	disk->changed = cpu_to_le64(row->changed);
	for (i = 0; i < FUSION_MAX_PARITY; i++)
		fusion_patch_encode(&row->parity[i], &disk->parity[i]);
	for (i = 0; i < fusion_popcount64(row->changed); i++)
		fusion_patch_encode(&row->patch[i], &disk->patch[i]);
}

/* @replicas: how many it has to have; 0: it has to be none. */
static bool row_patch(const struct fusion_disk_patch *disk, unsigned int replicas,
		      unsigned int pages, struct fusion_patch *patch)
{
	if (!replicas)
		return fusion_patch_blank(disk);
	return !fusion_patch_decode(disk, pages, patch) &&
		fusion_patch_replicas(patch) == replicas;
}

int fusion_row_decode(const struct fusion_disk_row *disk, u64 key, unsigned int d,
		      unsigned int p, unsigned int pages, struct fusion_row *row)
{
	unsigned int i, count;

	memset(row, 0, sizeof(*row));
	row->stripe = key >> FUSION_PAGE_BITS;
	row->page = key & ((1U << FUSION_PAGE_BITS) - 1);
	row->changed = le64_to_cpu(disk->changed);
	count = fusion_popcount64(row->changed);
	if (row->stripe >= 1ULL << FUSION_STRIPE_BITS || row->page >= pages)
		return -EINVAL;
	if (!count || count > FUSION_ROW_PATCHES || row->changed & ~fusion_mask(0, d))
		return -EINVAL;
	for (i = 0; i < FUSION_MAX_PARITY; i++)
		if (!row_patch(&disk->parity[i], i < p ? p + 1 : 0, pages,
			       &row->parity[i]))
			return -EINVAL;
	for (i = 0; i < FUSION_ROW_PATCHES; i++)
		if (!row_patch(&disk->patch[i], i < count ? p + 1 : 0, pages,
			       &row->patch[i]))
			return -EINVAL;
	return 0;
}
