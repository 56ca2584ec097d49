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
	int r;

	r = fusion_volume_prepare(v, block, FUSION_UPDATE_ENTRY, &u);
	if (r)
		return r;
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_base(&pool->map, shard, &u, 0);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
	return 0;
}

static int discard_blocks(struct fusion_io *io, u64 block, u64 end)
{
	struct fusion_volume *v = io->volume;
	struct fusion_pool *pool = v->pool;
	int r;

	for (;; block++) {
		if (!fusion_pool_writable(pool))
			return -EIO;
		r = discard_next(v, &block, end);
		if (r || block == end)
			return r;
		if (fusion_commit_crowded(pool)) {
			r = fusion_commit(pool);
			if (r)
				return r;
		}
		fusion_hold_take_wait(&pool->locks, &io->hold,
				      fusion_block_key(v->id, block),
				      FUSION_HOLD_EXCLUSIVE);
		r = discard_block(v, block);
		fusion_hold_drop(&pool->locks, &io->hold);
		if (r)
			return r;
		cond_resched();
	}
}

static void discard_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_pool *pool = io->volume->pool;
	sector_t sector = io->bio->bi_iter.bi_sector;
	u64 block = fusion_sector_block(pool, sector + pool->block_sectors - 1);
	u64 end = fusion_sector_block(pool, sector + bio_sectors(io->bio));
	int r = 0;

	if (block < end)
		r = discard_blocks(io, block, end);
	fusion_end(io->bio, errno_to_blk_status(r));
}

int fusion_discard_map(struct fusion_io *io)
{
	fusion_count(io->volume->pool, discards);
	fusion_defer(io, io->volume->pool->slow_wq, discard_work);
	return DM_MAPIO_SUBMITTED;
}
