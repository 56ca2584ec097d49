// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resync: after an unclean stop the replicas of a top, or of a patch, may differ in
 * pages that were being written.  They themselves are the write-intent log: each
 * carries the generation (activation) in which its replicas were last known to
 * be equal, and those older than the pool's unsynced_generation are copied,
 * primary to mirrors, under the block's hold: before a read of them is
 * answered, and by a walk in the background.  Of pages that the primary cannot read
 * the first mirror that can is copied, to the primary, too.
 *
 * A power cut in the middle of a copy leaves the generation as it was: the
 * copy is done again.  When the walk has seen every top, the superblock's
 * unsynced_generation goes back to 1: nothing is older.
 */
#include "commit.h"
#include "copy.h"
#include "io.h"
#include "mode.h"
#include "overlays.h"
#include "volume-table.h"

#define DM_MSG_PREFIX "fusion"

/* What of a block may differ.  The block is held: its overlay stays. */
struct resync_source {
	struct fusion_top top;		/* unless there are patches */
	const struct fusion_patches *patches;
};

/* Copy it from the primary, if that can be read, to the mirrors. */
static int resync_copy(struct fusion_pool *pool, const struct resync_source *src)
{
	const struct fusion_copy_place at = {
		.count = src->patches ? fusion_patch_replicas(src->patches->patch) :
			fusion_top_replicas(&src->top),
		.place = src->top.place,
		.patches = src->patches,
	};
	u64 mask = src->patches ? src->patches->mask : src->top.mask;
	struct fusion_copy copy;
	int r;

	r = fusion_copy_begin(&copy, pool, mask);
	if (r)
		return r;
	r = fusion_copy_spread(&copy, &at, mask);
	fusion_copy_end(&copy);
	return r;
}

/* False: nothing may. */
static bool resync_look(struct fusion_volume *v, u64 block,
			struct resync_source *src)
{
	struct fusion_overlay *ov;
	bool unsynced = false;

	rcu_read_lock();
	ov = fusion_entry_overlay(fusion_map_entry(&v->pool->map, v->id, block));
	if (ov) {
		src->top = ov->top;
		src->patches = ov->patches ? &ov->patches->patches : NULL;
		unsynced = fusion_unsynced(v->pool, src->patches ?
					   src->patches->generation :
					   src->top.generation);
		/* the primary may be written, too */
		if (unsynced)
			fusion_overlay_touch(ov);
	}
	rcu_read_unlock();
	return unsynced;
}

int fusion_resync_block(struct fusion_volume *v, u64 block)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_epoch_shard *shard;
	struct resync_source src;
	struct fusion_update u;
	unsigned long flags;
	int r;

	if (!fusion_pool_writable(pool))
		return -EROFS;
	/* for patches, which need the most; then the chunk is pinned */
	r = fusion_volume_prepare(v, block, FUSION_UPDATE_PATCHES, &u);
	if (r)
		return r;
	if (!resync_look(v, block, &src)) {
		fusion_update_cancel(&pool->map, &u);
		return 0;
	}
	r = resync_copy(pool, &src);
	if (r) {
		fusion_update_cancel(&pool->map, &u);
		return r;
	}
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_generation(&pool->map, shard, &u, pool->generation);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
	WRITE_ONCE(pool->resynced, pool->resynced + 1);
	return 0;
}

/* All tops, or all patches, of one volume, of which the caller has a reference. */
static int resync_overlays(struct fusion_pool *pool, struct fusion_volume *v,
			   enum fusion_overlays kind)
{
	struct fusion_hold hold;
	u64 block = 0;
	int r;

	for (;; block++) {
		if (READ_ONCE(pool->resync_stop))
			return -EINTR;
		if (READ_ONCE(v->deleting))
			return 0;
		r = fusion_overlays_next(pool, v->id, kind, true, &block);
		if (r)
			return r == -ENODATA ? 0 : r;
		if (fusion_commit_crowded(pool)) {
			r = fusion_commit(pool);
			if (r)
				return r;
		}
		fusion_hold_take_wait(&pool->locks, &hold,
				      fusion_block_key(v->id, block),
				      FUSION_HOLD_EXCLUSIVE);
		r = fusion_resync_block(v, block);
		fusion_hold_drop(&pool->locks, &hold);
		if (r)
			return r;
	}
}

/* All have been seen: no generation counts as unsynced any more. */
static int resync_done(struct fusion_pool *pool)
{
	int r;

	r = fusion_commit(pool);
	if (r)
		return r;
	mutex_lock(&pool->commit_lock);
	fusion_md_super(pool->md)->unsynced_generation = 1;
	r = fusion_commit_transaction(pool);
	if (!r)
		WRITE_ONCE(pool->unsynced_generation, 1);
	mutex_unlock(&pool->commit_lock);
	return r;
}

static void resync_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool,
						resync_work);
	struct fusion_volume *v;
	u32 id = 0;
	int r = 0;

	while (!r) {
		v = fusion_volume_get_from(pool, id);
		if (!v)
			break;
		r = resync_overlays(pool, v, FUSION_TOPS);
		if (!r)
			r = resync_overlays(pool, v, FUSION_PATCHES);
		id = v->id + 1;
		fusion_volume_put(v);
	}
	if (!r)
		r = resync_done(pool);
	if (!r)
		DMINFO("%s: all replicas are in sync", fusion_pool_name(pool));
	else if (r != -EINTR)
		DMERR("%s: resync ended with error %d; it goes on at the next start",
		      fusion_pool_name(pool), r);
	WRITE_ONCE(pool->resync_error, r);
	wake_up_all(&pool->resync_wait);
	fusion_pool_event(pool);
}

void fusion_resync_start(struct fusion_pool *pool)
{
	WRITE_ONCE(pool->resync_stop, false);
	WRITE_ONCE(pool->resync_error, 0);
	if (pool->unsynced_generation == 1 || !fusion_pool_writable(pool))
		return;
	queue_work(pool->slow_wq, &pool->resync_work);
}

void fusion_resync_stop(struct fusion_pool *pool)
{
	WRITE_ONCE(pool->resync_stop, true);
	wake_up_all(&pool->resync_wait);
	cancel_work_sync(&pool->resync_work);
}

int fusion_resync_wait(struct fusion_pool *pool)
{
	int r;

	r = wait_event_interruptible(pool->resync_wait,
				     READ_ONCE(pool->unsynced_generation) == 1 ||
				     READ_ONCE(pool->resync_error) ||
				     READ_ONCE(pool->resync_stop) ||
				     !fusion_pool_writable(pool));
	if (r || READ_ONCE(pool->resync_stop))
		return -EINTR;
	return READ_ONCE(pool->unsynced_generation) == 1 ? 0 : -EIO;
}

void fusion_resync_init(struct fusion_pool *pool)
{
	INIT_WORK(&pool->resync_work, resync_work);
	init_waitqueue_head(&pool->resync_wait);
}
