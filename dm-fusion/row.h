/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows: page so and so of each slot of a RAID stripe, some of which are written in
 * place, with their parity.  Pure; any context.
 */
#ifndef DM_FUSION_ROW_H
#define DM_FUSION_ROW_H

#include "patch.h"

/* The record of a row that is being written: see fusion_disk_row. */
struct fusion_row {
	u64 stripe;
	u32 page;			/* of each slot */
	u64 changed;
	struct fusion_patch parity[FUSION_MAX_PARITY];
	struct fusion_patch patch[FUSION_ROW_PATCHES];
};

/* The patch of @slot, which is in @changed. */
static inline const struct fusion_patch *
fusion_row_patch(const struct fusion_row *row, unsigned int slot)
{
	return &row->patch[fusion_popcount64(row->changed &
					     fusion_mask(0, slot))];
}

void fusion_row_encode(const struct fusion_row *row, struct fusion_disk_row *disk);

/*
 * The row with @key in a class of @d data and @p parity slots, and blocks of @pages
 * pages.  -EINVAL if it cannot be one: no slots, or too many, or none of the class;
 * patches that are malformed, or of another number of replicas than the class has;
 * something behind the last.  Whether the pool has their places, and the stripe, is
 * not known here.
 */
int fusion_row_decode(const struct fusion_disk_row *disk, u64 key, unsigned int d,
		      unsigned int p, unsigned int pages, struct fusion_row *row);

#endif /* DM_FUSION_ROW_H */
