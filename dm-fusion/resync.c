// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resync: after an unclean stop the replicas of a top may differ in pages
 * that were being written.  The tops themselves are the write-intent log: each
 * carries the generation (activation) in which its replicas were last known to
 * be equal, and those older than the pool's unsynced_generation are copied,
 * primary to mirrors, under the block's hold: before a read of them is
 * answered, and by a walk in the background.
 *
 * A power cut in the middle of a copy leaves the generation as it was: the
 * copy is done again.  When the walk has seen every top, the superblock's
 * unsynced_generation goes back to 1: nothing is older.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "volume-table.h"

#define DM_MSG_PREFIX "fusion"

/* Read or write @pages pages of a place, from page @first on; waits. */
static int resync_io(struct fusion_pool *pool, u64 place, unsigned int first,
		     unsigned int pages, void *data, blk_opf_t opf)
{
	struct fusion_member *m;
	struct bio_vec vec;
	struct bio bio;
	int r;

	bio_init(&bio, pool->member[0].bdev, &vec, 1, opf);
	m = fusion_aim(pool, &bio, place, first);
	__bio_add_page(&bio, virt_to_page(data), pages << FUSION_PAGE_SHIFT,
		       offset_in_page(data));
	fusion_member_start(m);
	r = submit_bio_wait(&bio);
	if (op_is_write(opf))
		fusion_member_end_write(m);
	else
		fusion_member_end_read(m);
	bio_uninit(&bio);
	return r;
}

/* Copy the pages that @top holds from its primary to its mirrors. */
static int resync_copy(struct fusion_pool *pool, const struct fusion_top *top)
{
	size_t bytes = pool->block_sectors << SECTOR_SHIFT;
	unsigned int page, run, i;
	void *data;
	int r = 0;

	data = alloc_pages_exact(bytes, GFP_NOIO);
	if (!data)
		return -ENOMEM;
	for (page = 0; !r && page < pool->block_pages; page += run) {
		run = fusion_mask_run(top->mask, page,
				      pool->block_pages - page);
		if (!(top->mask & (1ULL << page)))
			continue;
		r = resync_io(pool, top->place[0], page, run, data,
			      REQ_OP_READ);
		for (i = 1; !r && i < fusion_top_replicas(top); i++)
			r = resync_io(pool, top->place[i], page, run, data,
				      REQ_OP_WRITE);
	}
	free_pages_exact(data, bytes);
	return r;
}

int fusion_resync_block(struct fusion_volume *v, u64 block)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_epoch_shard *shard;
	struct fusion_overlay *ov;
	struct fusion_update u;
	struct fusion_top top;
	unsigned long flags;
	u64 entry;
	int r;

	if (!fusion_pool_writable(pool))
		return -EROFS;
	r = fusion_volume_prepare(v, block, &u);
	if (r)
		return r;

	/* the chunk is pinned and the block held: the overlay stays */
	rcu_read_lock();
	entry = fusion_map_entry(&pool->map, v->id, block);
	ov = fusion_entry_overlay(entry);
	if (ov)
		top = ov->top;
	rcu_read_unlock();
	if (!ov || !fusion_unsynced(pool, top.generation)) {
		fusion_update_cancel(&pool->map, &u);
		return 0;
	}
	r = resync_copy(pool, &top);
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

/* The next top of the last commit that needs resync, from (*id, *block) on. */
static int resync_next(struct fusion_pool *pool, u32 *id, u64 *block)
{
	struct fusion_disk_top disk;
	int r;

	r = fusion_md_read_begin(pool->md, true);
	if (r)
		return r;
	for (;; ++*block) {
		r = fusion_md_read_next_top(pool->md, true, *id, block,
					    FUSION_MAX_BLOCKS, &disk);
		if (r || fusion_unsynced(pool, le32_to_cpu(disk.generation)))
			break;
		cond_resched();
	}
	fusion_md_read_end(pool->md);
	return r;
}

/* All tops of one volume, of which the caller has a reference. */
static int resync_one_volume(struct fusion_pool *pool, struct fusion_volume *v)
{
	struct fusion_hold hold;
	u64 block = 0;
	u32 id = v->id;
	int r;

	for (;; block++) {
		if (READ_ONCE(pool->resync_stop))
			return -EINTR;
		if (READ_ONCE(v->deleting))
			return 0;
		r = resync_next(pool, &id, &block);
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

/* Every top has been seen: no generation counts as unsynced any more. */
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
		r = resync_one_volume(pool, v);
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
