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
	u8 copies[FUSION_MAX_PARITY];	/* replicas that hold the parity */
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

/* All parts of @row, into @disk, which has room for FUSION_MAX_PARTS; how many. */
unsigned int fusion_row_encode(const struct fusion_row *row,
			       struct fusion_disk_row *disk);

/* How many parts the record has of which @first is the first; 0: it cannot be one. */
unsigned int fusion_row_parts(const struct fusion_disk_row *first);

/*
 * The row with @key, of which @disk is all parts, in a class of @d data and @p parity
 * slots, and blocks of @pages pages.  -EINVAL if it cannot be one: no slots, or too many,
 * or none of the class; patches that are malformed, or of another number of replicas than
 * the class has; parity in none of them, or in others; something behind the last.
 * Whether the pool has their places, and the stripe, is not known here.
 */
int fusion_row_decode(const struct fusion_disk_row *disk, u64 key, unsigned int d,
		      unsigned int p, unsigned int pages, struct fusion_row *row);

#endif /* DM_FUSION_ROW_H */
