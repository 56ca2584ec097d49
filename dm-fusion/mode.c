// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modes.  See mode.h.
 */
#include "mode.h"

#define DM_MSG_PREFIX "fusion"

const char *fusion_pool_name(const struct fusion_pool *pool)
{
	return dm_device_name(pool->md_owner);
}

void fusion_pool_event(struct fusion_pool *pool)
{
	struct dm_target *ti = READ_ONCE(pool->ti);

	if (ti)
		dm_table_event(ti->table);
}

void fusion_pool_set_mode(struct fusion_pool *pool, enum fusion_mode mode)
{
	static const char * const name[] = {
		[FUSION_RW] = "read-write",
		[FUSION_OUT_OF_SPACE] = "out of space",
		[FUSION_RO] = "read-only",
		[FUSION_FAIL] = "failed",
	};
	enum fusion_mode old = READ_ONCE(pool->mode);

	/* first: a commit that then finds the pool read-only lets nothing go */
	if (mode >= FUSION_RO)
		WRITE_ONCE(pool->space.frozen, true);
	do {
		if (old == mode || (old >= FUSION_RO && mode < old))
			return;
	} while (!try_cmpxchg(&pool->mode, &old, mode));
	if (mode == FUSION_RW)
		DMINFO("%s: the pool is %s again", fusion_pool_name(pool),
		       name[mode]);
	else
		DMWARN("%s: the pool is %s", fusion_pool_name(pool),
		       name[mode]);
	/* who waits for what will not come is answered, by the commit or by itself */
	if (mode >= FUSION_RO) {
		fusion_commit_kick(pool);
		fusion_gates_break(&pool->gates);
	}
	fusion_pool_event(pool);
}
