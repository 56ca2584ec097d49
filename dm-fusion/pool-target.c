// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool target: a table's life, from constructor to destructor.  The line
 * is in pool-table.h.
 */
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "grow.h"
#include "mode.h"
#include "pool-status.h"
#include "pools.h"
#include "region.h"

#define DM_MSG_PREFIX "fusion"

struct pool_target {
	struct fusion_pool *pool;
	struct fusion_pool_table table;
	u64 recorded[FUSION_MAX_MEMBERS];	/* see struct fusion_pool */
	u8 uuid[FUSION_MAX_MEMBERS][FUSION_UUID_BYTES];	/* members' */
};

/* ---- constructor ---- */

/* A reload: the table must describe the pool that is there, or one with more members. */
static int check_same_pool(struct dm_target *ti, struct fusion_pool *pool,
			   const struct fusion_pool_config *config)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (pool->metadata_bdev != config->metadata_bdev)
		ti->error = "Pool has another metadata device";
	else if (pool->block_sectors != config->block_sectors ||
		 pool->layout->n > config->members ||
		 pool->layout->spares != config->spares)
		ti->error = "Pool has another geometry";
	else if (config->journal_sectors != super->journal_sectors ||
		 config->journal_offset != super->journal_offset)
		ti->error = "Pool has another journal";
	else if (!!(super->compat & FUSION_COMPAT_LABELLED) !=
		 config->labelled)
		ti->error = "Feature unlabelled does not fit the pool";
	else if (config->labelled && !fusion_md_same_members(pool->md, config->pool_uuid,
							     config->member_uuid))
		ti->error = "Members are not those of the pool";
	else if (config->states_generation > super->states_generation)
		ti->error = "Members have recorded what the pool does not know";
	else if (fusion_space_chunks(&pool->space) > config->member_chunks)
		ti->error = "A member is too small for the pool";
	else if (pool->layout->n < config->members)
		ti->error = fusion_grow_wrong(pool, config);
	else
		ti->error = NULL;
	return ti->error ? -EINVAL : 0;
}

static int get_pool(struct dm_target *ti, struct pool_target *pt,
		    const struct fusion_pool_config *config)
{
	struct mapped_device *owner = dm_table_get_md(ti->table);
	struct fusion_pool *pool = fusion_pool_of_device(owner);
	int r;

	if (fusion_pool_devices_in_use(pool, config, &ti->error))
		return -EBUSY;
	if (pool) {
		r = check_same_pool(ti, pool, config);
		if (r)
			return r;
		fusion_pool_get(pool);
	} else {
		pool = fusion_pool_create(owner, config, &ti->error);
		if (IS_ERR(pool))
			return PTR_ERR(pool);
		ti->error = NULL;
	}
	pt->pool = pool;
	return 0;
}

static int pool_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	struct fusion_pool_config *config;
	struct pool_target *pt;
	unsigned int noio;
	int r;

	pt = kzalloc(sizeof(*pt), GFP_KERNEL);
	config = kzalloc(sizeof(*config), GFP_KERNEL);
	if (!pt || !config) {
		ti->error = "Out of memory";
		r = -ENOMEM;
		goto bad;
	}
	r = fusion_pool_table_parse(&pt->table, ti, &as);
	if (!r)
		r = fusion_pool_table_config(&pt->table, ti, config);
	if (r)
		goto bad_devices;
	mutex_lock(&fusion_pools_lock);
	/* a suspended pool's resume waits for this lock */
	noio = memalloc_noio_save();
	r = get_pool(ti, pt, config);
	memalloc_noio_restore(noio);
	mutex_unlock(&fusion_pools_lock);
	if (r)
		goto bad_devices;
	memcpy(pt->recorded, config->recorded, sizeof(pt->recorded));
	memcpy(pt->uuid, config->member_uuid, sizeof(pt->uuid));
	kfree(config);
	ti->private = pt;
	ti->num_flush_bios = 0;
	return 0;

bad_devices:
	fusion_pool_table_put(&pt->table, ti);
bad:
	kfree(config);
	kfree(pt);
	return r;
}

static void pool_dtr(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;

	mutex_lock(&fusion_pools_lock);
	if (pt->pool->ti == ti)
		WRITE_ONCE(pt->pool->ti, NULL);
	fusion_pool_put(pt->pool);
	mutex_unlock(&fusion_pools_lock);
	fusion_pool_table_put(&pt->table, ti);
	kfree(pt);
}

/* ---- the rest of the target ---- */

static int pool_map(struct dm_target *ti, struct bio *bio)
{
	return DM_MAPIO_KILL;
}

/* The devices of this table are the pool's from now on; no I/O runs. */
static int pool_preresume(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;
	struct fusion_pool *pool = pt->pool;
	struct dm_dev *dev;
	unsigned int i;
	u64 missing = 0;
	int r;

	if (pool->serving)
		return 0;
	for (i = 0; i < pt->table.n; i++) {
		dev = pt->table.member[i].dev;
		if (!dev)
			missing |= 1ULL << i;
		/* the pool's own device answers all I/O with errors */
		pool->member[i].bdev = dev ? dev->bdev :
			dm_disk(dm_table_get_md(ti->table))->part0;
		pool->member[i].offset_sectors = pt->table.member[i].offset_sectors;
	}
	pool->member[FUSION_NOWHERE].bdev = dm_disk(dm_table_get_md(ti->table))->part0;
	memcpy(pool->recorded, pt->recorded, sizeof(pool->recorded));
	pool->error_if_no_space = pt->table.error_if_no_space;
	pool->space.passdown = !pt->table.no_discard_passdown;
	WRITE_ONCE(pool->ti, ti);
	r = pt->table.n > pool->layout->n ? fusion_grow(pool, pt->table.n, pt->uuid) : 0;
	if (!r)
		r = fusion_pool_activate(pool, missing);
	else
		for (i = pool->layout->n; i < pt->table.n; i++)
			pool->member[i].bdev = NULL;
	if (r)
		DMERR("%s: the pool could not be activated (%d)",
		      fusion_pool_name(pool), r);
	return r;
}

static void pool_resume(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;

	fusion_volumes_internal_resume(pt->pool);
}

static void pool_presuspend(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;

	fusion_pool_begin_stop(pt->pool);
	fusion_volumes_internal_suspend(pt->pool);
}

static void pool_presuspend_undo(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;

	fusion_pool_continue(pt->pool);
	fusion_volumes_internal_resume(pt->pool);
}

static void pool_postsuspend(struct dm_target *ti)
{
	struct pool_target *pt = ti->private;

	fusion_pool_deactivate(pt->pool);
}

static int pool_message(struct dm_target *ti, unsigned int argc, char **argv,
			char *result, unsigned int maxlen)
{
	struct pool_target *pt = ti->private;

	return fusion_pool_message(pt->pool, argc, argv, result, maxlen);
}

static void pool_status(struct dm_target *ti, status_type_t type,
			unsigned int flags, char *result, unsigned int maxlen)
{
	struct pool_target *pt = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		fusion_pool_status(pt->pool, &pt->table, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		fusion_pool_table_emit(&pt->table, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static int pool_iterate_devices(struct dm_target *ti,
				iterate_devices_callout_fn fn, void *data)
{
	struct pool_target *pt = ti->private;
	unsigned int i;
	int r = 0;

	for (i = 0; i < pt->table.n && !r; i++) {
		struct dm_dev *dev = pt->table.member[i].dev;
		u64 offset = pt->table.member[i].offset_sectors;

		if (dev)
			r = fn(ti, dev, offset, bdev_nr_sectors(dev->bdev) - offset,
			       data);
	}
	return r;
}

static void pool_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct pool_target *pt = ti->private;

	limits->logical_block_size = 1 << FUSION_PAGE_SHIFT;
	limits->physical_block_size = 1 << FUSION_PAGE_SHIFT;
	limits->io_min = 1 << FUSION_PAGE_SHIFT;
	limits->io_opt = pt->table.block_sectors << SECTOR_SHIFT;
}

struct target_type fusion_pool_target = {
	.name = "fusion-pool",
	.features = DM_TARGET_SINGLETON | DM_TARGET_ALWAYS_WRITEABLE |
		    DM_TARGET_IMMUTABLE,
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = pool_ctr,
	.dtr = pool_dtr,
	.map = pool_map,
	.presuspend = pool_presuspend,
	.presuspend_undo = pool_presuspend_undo,
	.postsuspend = pool_postsuspend,
	.preresume = pool_preresume,
	.resume = pool_resume,
	.message = pool_message,
	.status = pool_status,
	.iterate_devices = pool_iterate_devices,
	.io_hints = pool_io_hints,
};

static int __init fusion_init(void)
{
	int r;

	r = fusion_map_module_init();
	if (r)
		return r;
	r = dm_register_target(&fusion_metadata_target);
	if (r)
		goto bad_metadata;
	r = dm_register_target(&fusion_pool_target);
	if (r)
		goto bad_pool;
	r = dm_register_target(&fusion_volume_target);
	if (r)
		goto bad_volume;
	return 0;

bad_volume:
	dm_unregister_target(&fusion_pool_target);
bad_pool:
	dm_unregister_target(&fusion_metadata_target);
bad_metadata:
	fusion_map_module_exit();
	return r;
}

static void __exit fusion_exit(void)
{
	dm_unregister_target(&fusion_volume_target);
	dm_unregister_target(&fusion_pool_target);
	dm_unregister_target(&fusion_metadata_target);
	fusion_map_module_exit();
}

module_init(fusion_init);
module_exit(fusion_exit);

MODULE_DESCRIPTION("device-mapper fusion: declustered two-phase RAID pools");
MODULE_AUTHOR("The dm-fusion authors");
MODULE_LICENSE("GPL");
MODULE_ALIAS("dm-fusion-pool");
MODULE_ALIAS("dm-fusion-metadata");
