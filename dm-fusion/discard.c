// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discards: whole blocks leave the map; parts of blocks are left alone.
 *
 * Like any change the discard of a block enters the epoch: until its commit a
 * power cut leaves the block as it was, and its space is not reused before.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"

/* The first block from @block on, below @end, that is mapped, or @end. */
static int discard_next(struct fusion_volume *v, u64 *block, u64 end)
{
	struct fusion_map *map = &v->pool->map;
	u64 entry;
	int r;

	for (; *block < end; ++*block) {
		rcu_read_lock();
		while ((entry = fusion_map_entry(map, v->id, *block)) ==
		       FUSION_ENTRY_MISS) {
			rcu_read_unlock();
			r = fusion_volume_load(v, *block, true);
			if (r)
				return r;
			cond_resched();
			rcu_read_lock();
		}
		rcu_read_unlock();
		if (entry)
			break;
	}
	return 0;
}

/* Under the block's exclusive hold. */
static int discard_block(struct fusion_volume *v, u64 block)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_epoch_shard *shard;
	struct fusion_update u;
	unsigned long flags;
	int r = 0;

	if (!fusion_pool_writable(pool))
		return -EIO;
	if (fusion_commit_crowded(pool))
		r = fusion_commit(pool);
	if (!r)
		r = fusion_volume_prepare(v, block, FUSION_UPDATE_ENTRY, &u);
	if (r)
		return r;
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_base(&pool->map, shard, &u, 0);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
	return 0;
}

static void discard_work(struct work_struct *work);

/*
 * To the next block that is mapped, and its hold, or to @end.  -EINPROGRESS: another worker goes
 * on, as those that are here are needed by who has the hold.
 */
static int discard_advance(struct fusion_io *io, u64 end)
{
	int r = discard_next(io->volume, &io->block, end);

	if (r || io->block == end)
		return r;
	return fusion_hold_or_defer(io, discard_work) ? 0 : -EINPROGRESS;
}

/* From io->block on, which is held, or not. */
static void discard_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	u64 end = fusion_sector_block(io->volume->pool, bio_end_sector(io->bio));
	int r = 0;

	while (io->block < end && !r) {
		if (!io->held)
			r = discard_advance(io, end);
		if (r == -EINPROGRESS)
			return;
		if (r || !io->held)
			break;
		r = discard_block(io->volume, io->block);
		fusion_unhold(io);
		io->block++;
		cond_resched();
	}
	fusion_end(io->bio, errno_to_blk_status(r));
}

int fusion_discard_map(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;

	fusion_count(pool, discards);
	io->held = false;
	/* the first whole one */
	io->block = fusion_sector_block(pool, io->bio->bi_iter.bi_sector +
					pool->block_sectors - 1);
	fusion_defer(io, pool->slow_wq, discard_work);
	return DM_MAPIO_SUBMITTED;
}
