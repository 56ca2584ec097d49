// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings.  See settings.h.
 */
#include "hang.h"
#include "rebuild.h"
#include "reclaim.h"
#include "selection.h"
#include "settings.h"
#include "set-table.h"

static const struct {
	const char *name;
	size_t offset;
	u32 max;
} tunables[] = {
#define TUNABLE(field, max) { #field, offsetof(struct fusion_tunables, field), max }
	TUNABLE(paused, 1),
	TUNABLE(age_s, 7 * 24 * 3600),
	TUNABLE(idle_ms, 3600 * 1000),
	TUNABLE(limit_percent, 100),
	TUNABLE(soft_percent, 100),
	TUNABLE(load_kib, U32_MAX),
	TUNABLE(rate_kib, U32_MAX),
	TUNABLE(rebuild_kib, U32_MAX),
	/* a fifth more is less than all */
	TUNABLE(low_water_percent, 80),
	TUNABLE(patch_percent, 100),
	TUNABLE(write_select, FUSION_SELECTS - 1),
	TUNABLE(rmw_bias, FUSION_MAX_MEMBERS),
	TUNABLE(hang_ms, 3600 * 1000),
	TUNABLE(monitor, 1),
	TUNABLE(window_us, 1000 * 1000),
	TUNABLE(window_slots, FUSION_WINDOW_SLOTS_MAX),
	TUNABLE(straggler_enter, FUSION_CELL_MAX),
	TUNABLE(straggler_exit, FUSION_CELL_MAX),
	TUNABLE(hedge, 1),
	TUNABLE(window_min_us, 1000 * 1000),
	TUNABLE(window_max_us, 1000 * 1000),
#undef TUNABLE
};

static u32 *tunable(struct fusion_pool *pool, unsigned int i)
{
	return (void *)&pool->reclaim.tunables + tunables[i].offset;
}

int fusion_set_setting(struct fusion_pool *pool, const char *name, u64 value,
		       u32 *max)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tunables); i++) {
		if (strcmp(name, tunables[i].name))
			continue;
		*max = tunables[i].max;
		if (value > *max)
			return -ERANGE;
		WRITE_ONCE(*tunable(pool, i), value);
		fusion_sets_limit(&pool->space, &pool->reclaim.tunables);
		fusion_reclaim_kick(pool);
		fusion_rebuild_kick(pool);
		fusion_hang_kick(pool);
		fusion_monitor_kick(&pool->monitor);
		return 0;
	}
	return -ENOENT;
}

const char *fusion_setting(struct fusion_pool *pool, unsigned int i, u32 *value)
{
	if (i >= ARRAY_SIZE(tunables))
		return NULL;
	*value = READ_ONCE(*tunable(pool, i));
	return tunables[i].name;
}
