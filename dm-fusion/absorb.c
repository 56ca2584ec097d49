// SPDX-License-Identifier: GPL-2.0-only
/*
 * Absorbing.  See absorb.h.
 *
 * What can be lost: the pages are copied to places that nothing refers to, and the
 * map is switched when all of them are there.  Until the commit a power cut leaves
 * the patches, or the top, whose places are not used again before.  They are copied from the
 * first replica that can be read, which is what counts if they differ; those of the top
 * do not.
 */
#include "absorb.h"
#include "commit.h"
#include "copy.h"
#include "io.h"
#include "set.h"
#include "spare.h"

/* @patches to the places of @top. */
static int absorb_copy(struct fusion_pool *pool,
		       const struct fusion_patches *patches,
		       const struct fusion_top *top)
{
	struct fusion_copy copy;
	int r;

	r = fusion_copy_begin(&copy, pool);
	if (r)
		return r;
	r = fusion_copy_patches(&copy, patches, top->place);
	fusion_copy_end(&copy);
	return r;
}

/* The pages of @old to the places of @top. */
static int absorb_copy_top(struct fusion_pool *pool, const struct fusion_top *old,
			   const struct fusion_top *top)
{
	unsigned int count = fusion_top_replicas(top), first = 0, i;
	u64 from[FUSION_MAX_REPLICAS];
	struct fusion_copy copy;
	int r;

	/* what is nowhere need not be tried first */
	while (first < count - 1 &&
	       fusion_member_out(fusion_member_at(pool, old->place[first])))
		first++;
	for (i = 0; i < count; i++)
		from[i] = old->place[(first + i) % count];
	r = fusion_copy_begin(&copy, pool);
	if (r)
		return r;
	r = fusion_copy_mask(&copy, from, top->place, count, old->mask);
	fusion_copy_end(&copy);
	return r;
}

/* Draw a place for a top.  An error pointer of fusion_set_refill(). */
static struct fusion_set *absorb_draw(struct fusion_volume *v, u64 block,
				      struct fusion_top *top)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_set *set;
	int r;

	for (;;) {
		set = fusion_set_draw(&pool->space, v->class,
				      fusion_block_key(v->id, block), true, top);
		if (set)
			return set;
		r = fusion_set_refill(&pool->space, v->class,
				      &pool->commit_lock);
		if (r)
			return ERR_PTR(r);
	}
}

static int absorb_overlay(struct fusion_volume *v, u64 block,
			  const struct fusion_overlay *ov, struct fusion_update *u)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_epoch_shard *shard;
	struct fusion_set *set;
	struct fusion_top top;
	unsigned long flags;
	int r;

	set = absorb_draw(v, block, &top);
	if (IS_ERR(set))
		return PTR_ERR(set);
	top.mask = ov->patches ? ov->patches->patches.mask : ov->top.mask;
	top.generation = pool->generation;
	r = ov->patches ? absorb_copy(pool, &ov->patches->patches, &top) :
		absorb_copy_top(pool, &ov->top, &top);
	if (!r) {
		shard = fusion_epoch_enter(&pool->epochs, &flags);
		fusion_update_top(&pool->map, shard, u, &top, false);
		fusion_epoch_exit(shard, flags);
	}
	fusion_set_put(&pool->space, set);
	fusion_commit_soon(pool);
	return r;
}

int fusion_absorb(struct fusion_volume *v, u64 block)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_overlay *ov;
	struct fusion_update u;
	int r;

	if (READ_ONCE(pool->metadata_low))
		return -ENOSPC;
	r = fusion_volume_prepare(v, block, FUSION_UPDATE_TOP, &u);
	if (r)
		return r;
	/* the chunk is pinned and the block held: the overlay stays */
	rcu_read_lock();
	ov = fusion_entry_overlay(fusion_map_entry(&pool->map, v->id, block));
	rcu_read_unlock();
	if (ov && ov->patches)
		r = absorb_overlay(v, block, ov, &u);
	else if (ov && fusion_spare_missed(&pool->space, ov->top.place))
		absorb_overlay(v, block, ov, &u);
	if (u.chunk)
		fusion_update_cancel(&pool->map, &u);
	return r;
}
