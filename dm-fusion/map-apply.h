/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Applying changes: what the records of an epoch do to the metadata.
 */
#ifndef DM_FUSION_MAP_APPLY_H
#define DM_FUSION_MAP_APPLY_H

#include "ledger.h"
#include "map.h"

/* By how much a volume's counts change, in blocks. */
struct fusion_map_counts {
	s64 mapped;
	s64 tops;
	s64 patched;
};

/* Called for each volume with changes. */
typedef void (*fusion_map_count_fn)(void *context, u32 volume,
				    const struct fusion_map_counts *counts);

/* The order of changes by blocks, and of those of a block: for list_sort(). */
int fusion_change_cmp(void *priv, const struct list_head *a, const struct list_head *b);

/*
 * Write @changes to the open transaction and to the ledger.  Sorts the list.
 * Under the commit mutex.
 */
int fusion_map_apply(struct fusion_map *map, struct fusion_ledger *ledger,
		     struct list_head *changes, fusion_map_count_fn count,
		     void *context);

#endif /* DM_FUSION_MAP_APPLY_H */
