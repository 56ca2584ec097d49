// SPDX-License-Identifier: GPL-2.0-only
/*
 * Volumes.  See volumes.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "failure.h"
#include "mode.h"
#include "patch-set.h"
#include "volume-table.h"
#include "volumes.h"

#define DM_MSG_PREFIX "fusion"

/* Tops and base groups that one step of a deletion takes. */
#define DELETE_STEP	512

static struct fusion_volume *volume_by_name(struct fusion_pool *pool,
					    const char *name)
{
	struct fusion_volume *v;

	list_for_each_entry(v, &pool->volumes, list)
		if (!v->deleting && !strcmp(v->name, name))
			return v;
	return NULL;
}

static int volume_commit(struct fusion_pool *pool, struct fusion_volume *v)
{
	int r = fusion_volume_store(pool, v);

	if (!r)
		r = fusion_commit_transaction(pool);
	if (r)
		fusion_pool_set_mode(pool, FUSION_RO);
	return r;
}

/* Size in sectors to blocks; 0: not a size a volume can have. */
static u64 size_blocks(struct fusion_pool *pool, u64 sectors)
{
	if (!sectors || (sectors & (pool->block_sectors - 1)) ||
	    sectors >> pool->block_shift > FUSION_MAX_BLOCKS ||
	    sectors > (u64)LLONG_MAX >> SECTOR_SHIFT)
		return 0;
	return sectors >> pool->block_shift;
}

static int create_locked(struct fusion_pool *pool, struct fusion_volume *v,
			 unsigned int data, unsigned int parity)
{
	const char *pool_name = fusion_pool_name(pool);
	int r;

	if (fusion_volume_find(pool, v->id)) {
		DMERR("%s: volume id %u is in use already", pool_name, v->id);
		return -EEXIST;
	}
	if (volume_by_name(pool, v->name)) {
		DMERR("%s: a volume named %s exists already", pool_name,
		      v->name);
		return -EEXIST;
	}
	if (parity < fusion_failures_count(pool)) {
		DMERR("%s: volume %s: as members have failed, %u slots of a stripe may be missing, more than %u parity slots can replace",
		      pool_name, v->name, fusion_failures_count(pool), parity);
		return -EINVAL;
	}
	v->class = fusion_space_class(&pool->space, data, parity);
	if (!v->class) {
		DMERR("%s: no more than %u different widths fit in a pool",
		      pool_name, FUSION_MAX_CLASSES);
		return -ENOSPC;
	}
	r = volume_commit(pool, v);
	if (!r)
		fusion_volume_add(v);
	return r;
}

int fusion_volume_create(struct fusion_pool *pool, u32 id, const char *name,
			 u64 sectors, unsigned int data, unsigned int parity)
{
	unsigned int widest = fusion_layout_max_width(pool->layout);
	u64 blocks = size_blocks(pool, sectors);
	struct fusion_volume *v;
	int r;

	if (id > FUSION_MAX_VOLUME_ID) {
		DMERR("%s: a volume's id is at most %u",
		      fusion_pool_name(pool), FUSION_MAX_VOLUME_ID);
		return -EINVAL;
	}
	if (!fusion_volume_name_ok(name)) {
		DMERR("%s: a volume's name has 1 to %u of A-Z a-z 0-9 _ . + - and does not begin with - or .",
		      fusion_pool_name(pool), FUSION_NAME_BYTES - 1);
		return -EINVAL;
	}
	if (!blocks) {
		DMERR("%s: size of volume %s must be a multiple of %u sectors and not too large",
		      fusion_pool_name(pool), name, pool->block_sectors);
		return -EINVAL;
	}
	if (!parity || parity > FUSION_MAX_PARITY) {
		DMERR("%s: volume %s: parity slots are 1 to %u",
		      fusion_pool_name(pool), name, FUSION_MAX_PARITY);
		return -EINVAL;
	}
	if (widest < FUSION_MIN_DATA + parity) {
		DMERR("%s: volume %s: with %u members and %u spares, stripes are at most %u wide, too narrow for %u data and %u parity slots",
		      fusion_pool_name(pool), name, pool->layout->n,
		      pool->layout->spares, widest, FUSION_MIN_DATA, parity);
		return -EINVAL;
	}
	if (data < FUSION_MIN_DATA || data > widest - parity) {
		DMERR("%s: volume %s: with %u members and %u spares, data slots are 2 to %u",
		      fusion_pool_name(pool), name, pool->layout->n,
		      pool->layout->spares, widest - parity);
		return -EINVAL;
	}
	v = kzalloc(sizeof(*v), GFP_KERNEL);
	if (!v)
		return -ENOMEM;
	v->pool = pool;
	INIT_LIST_HEAD(&v->company);
	v->id = id;
	v->blocks = blocks;
	strscpy(v->name, name, sizeof(v->name));
	mutex_lock(&pool->commit_lock);
	r = create_locked(pool, v, data, parity);
	mutex_unlock(&pool->commit_lock);
	if (r)
		kfree(v);
	return r;
}

int fusion_volume_resize(struct fusion_pool *pool, u32 id, u64 sectors)
{
	u64 blocks = size_blocks(pool, sectors), before;
	struct fusion_volume *v;
	int r = -EINVAL;

	mutex_lock(&pool->commit_lock);
	v = fusion_volume_find(pool, id);
	if (!v || v->deleting) {
		DMERR("%s: there is no volume with id %u",
		      fusion_pool_name(pool), id);
		r = -ENODEV;
	} else if (!blocks) {
		DMERR("%s: size of volume %s must be a multiple of %u sectors and not too large",
		      fusion_pool_name(pool), v->name, pool->block_sectors);
	} else if (blocks < v->blocks) {
		DMERR("%s: volume %s cannot be made smaller than its %llu sectors",
		      fusion_pool_name(pool), v->name,
		      v->blocks << pool->block_shift);
	} else {
		before = v->blocks;
		v->blocks = blocks;
		r = volume_commit(pool, v);
		if (r)
			v->blocks = before;
	}
	mutex_unlock(&pool->commit_lock);
	return r;
}

int fusion_volume_mark_deleted(struct fusion_pool *pool, u32 id)
{
	struct fusion_volume *v;
	int r;

	mutex_lock(&pool->commit_lock);
	v = fusion_volume_find(pool, id);
	if (!v || v->deleting) {
		DMERR("%s: there is no volume with id %u",
		      fusion_pool_name(pool), id);
		r = -ENODEV;
	} else {
		fusion_volume_set_deleting(v, true);
		r = volume_commit(pool, v);
	}
	mutex_unlock(&pool->commit_lock);
	return r;
}

/* ---- deletion ---- */

/* An error makes the pool read-only: see delete_step(). */
static int delete_place(struct fusion_pool *pool, struct fusion_volume *v, u64 place)
{
	if (!fusion_space_base_ok(&pool->space, v->class, place)) {
		fusion_md_damaged(pool->md, "volume %u has an impossible place", v->id);
		return -EIO;
	}
	return fusion_ledger_dead(&pool->ledger, place);
}

static int delete_tops(struct fusion_pool *pool, struct fusion_volume *v,
		       unsigned int *budget)
{
	struct fusion_disk_top disk;
	struct fusion_top top;
	unsigned int i;
	u64 block = 0;
	int r;

	while (*budget) {
		r = fusion_md_next_top(pool->md, v->id, &block, &disk);
		if (r)
			return r == -ENODATA ? 0 : r;
		if (fusion_space_decode_top(&pool->space, v->class, &disk, &top)) {
			fusion_md_damaged(pool->md, "volume %u block %llu has an impossible top",
					  v->id, block);
			return -EIO;
		}
		for (i = 0; !r && i < fusion_top_replicas(&top); i++)
			r = fusion_ledger_dead(&pool->ledger, top.place[i]);
		if (!r)
			r = fusion_md_put_top(pool->md, v->id, block, NULL);
		if (r)
			return r;
		--*budget;
	}
	return 0;
}

static int delete_patches(struct fusion_pool *pool, struct fusion_volume *v,
			  unsigned int *budget)
{
	union fusion_patches_room room;
	unsigned int i;
	u64 block = 0;
	int r;

	while (*budget) {
		r = fusion_space_next_patches(&pool->space, v->id, v->class, &block,
					      &room.patches);
		if (r)
			return r == -ENODATA ? 0 : r;
		for (i = 0; !r && i < hweight64(room.patches.mask); i++)
			r = fusion_ledger_patch_dead(&pool->ledger,
						     &room.patches.patch[i]);
		if (!r)
			r = fusion_md_put_patches(pool->md, v->id, block, NULL);
		if (r)
			return r;
		--*budget;
	}
	return 0;
}

static int delete_bases(struct fusion_pool *pool, struct fusion_volume *v,
			unsigned int *budget)
{
	struct fusion_disk_base *base;
	unsigned int i;
	u64 group = 0;
	int r = 0;

	base = kmalloc(sizeof(*base), GFP_NOIO);
	if (!base)
		return -ENOMEM;
	while (*budget) {
		r = fusion_md_next_base(pool->md, v->id, &group, base);
		for (i = 0; !r && i < FUSION_GROUP_BLOCKS; i++)
			if (base->place[i])
				r = delete_place(pool, v,
						 le64_to_cpu(base->place[i]));
		if (r)
			break;
		memset(base, 0, sizeof(*base));
		r = fusion_md_put_base(pool->md, v->id, group, base);
		if (r)
			break;
		--*budget;
	}
	kfree(base);
	return r == -ENODATA ? 0 : r;
}

/* One step; *@done: nothing of the volume is left, @v is freed. */
static int delete_step(struct fusion_pool *pool, struct fusion_volume *v,
		       bool *done)
{
	unsigned int budget = DELETE_STEP;
	int r;

	r = delete_tops(pool, v, &budget);
	if (!r)
		r = delete_patches(pool, v, &budget);
	if (!r)
		r = delete_bases(pool, v, &budget);
	if (!r)
		r = fusion_ledger_finish(&pool->ledger);
	*done = budget;
	if (!r && *done)
		r = fusion_md_put_volume(pool->md, v->id, NULL);
	if (!r)
		r = fusion_commit_transaction(pool);
	if (r) {
		/* half a step must not be committed by anybody else */
		fusion_pool_set_mode(pool, FUSION_RO);
	} else if (*done) {
		fusion_volume_remove(v);
	}
	return r;
}

/* Under commit_lock. */
static struct fusion_volume *next_marked(struct fusion_pool *pool)
{
	struct fusion_volume *v;

	list_for_each_entry(v, &pool->volumes, list)
		if (v->deleting)
			return v;
	return NULL;
}

/* Under commit_lock. */
static void close_unused_classes(struct fusion_pool *pool)
{
	struct fusion_volume *v;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++) {
		bool used = false;

		list_for_each_entry(v, &pool->volumes, list)
			used |= v->class->index == i;
		if (!used) {
			struct fusion_class *class = pool->space.class[i];

			fusion_sets_close_idle(&pool->space, class, &class->tops);
			fusion_patches_close_idle(&pool->space, class);
		}
	}
}

int fusion_volumes_delete_marked(struct fusion_pool *pool)
{
	struct fusion_volume *v;
	bool done;
	int r = 0;

	mutex_lock(&pool->delete_lock);
	mutex_lock(&pool->commit_lock);
	while (!r && (v = next_marked(pool))) {
		mutex_unlock(&pool->commit_lock);
		/* it stays: deletions are one at a time */
		fusion_volume_wait_unused(v);
		/* the last changes of the volume must be in the trees */
		r = fusion_commit(pool);
		mutex_lock(&pool->commit_lock);
		if (r)
			break;
		fusion_map_drop_volume(&pool->map, v->id);
		do {
			/* the mark is durable: the next activation goes on */
			if (!READ_ONCE(pool->active))
				r = -EINTR;
			else if (!fusion_pool_writable(pool))
				r = -EIO;
			else
				r = delete_step(pool, v, &done);
			/* let others commit between the steps */
			mutex_unlock(&pool->commit_lock);
			cond_resched();
			mutex_lock(&pool->commit_lock);
		} while (!r && !done);
	}
	close_unused_classes(pool);
	mutex_unlock(&pool->commit_lock);
	if (!r)
		r = fusion_commit_and_free(pool);
	mutex_unlock(&pool->delete_lock);
	return r;
}
