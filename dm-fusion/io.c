// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the paths share.  See io.h.
 */
#include "io.h"
#include "mode.h"

/*
 * A volume whose committed counts of tops and of patched blocks are 0 has none on
 * disk.  They drop while a commit that removes the last ones is applied; until its roots
 * are visible the chunks of those blocks are pinned, so that they are not
 * loaded.  If that commit fails, the pool is read-only before they are
 * unpinned, and the counts say nothing.
 */
int fusion_volume_load(struct fusion_volume *v, u64 block, bool may_block)
{
	bool known = fusion_pool_writable(v->pool);

	return fusion_map_load(&v->pool->map, v->id, v->class, block,
			       known ? &v->tops : NULL,
			       known ? &v->patched : NULL, may_block);
}

static void io_granted(struct fusion_hold *hold)
{
	struct fusion_io *io = container_of(hold, struct fusion_io, hold);

	io->held = true;
	queue_work(io->volume->pool->slow_wq, &io->work);
}

bool fusion_hold_or_defer(struct fusion_io *io, work_func_t fn)
{
	INIT_WORK(&io->work, fn);
	if (!fusion_hold_take(&io->volume->pool->locks, &io->hold,
			      fusion_block_key(io->volume->id, io->block),
			      FUSION_HOLD_EXCLUSIVE, io_granted))
		return false;
	io->held = true;
	return true;
}

void fusion_defer_held(struct fusion_io *io, work_func_t fn)
{
	if (fusion_hold_or_defer(io, fn))
		queue_work(io->volume->pool->slow_wq, &io->work);
}

int fusion_volume_prepare(struct fusion_volume *v, u64 block,
			  enum fusion_update_kind kind, struct fusion_update *u)
{
	int r;

	do {
		r = fusion_update_prepare(&v->pool->map, u, v->id, block, kind,
					  GFP_NOIO);
		if (r != -EAGAIN)
			return r;
		r = fusion_volume_load(v, block, true);
	} while (!r);
	return r;
}
