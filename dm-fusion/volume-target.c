// SPDX-License-Identifier: GPL-2.0-only
/*
 * The volume target:
 *
 *	<start> <len> fusion <pool dev> <volume id>
 */
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "dm.h"

#include "commit.h"
#include "compat.h"
#include "io.h"
#include "mode.h"
#include "pools.h"
#include "stripe.h"
#include "volume-table.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

struct volume_target {
	struct list_head list;		/* of the pool; under fusion_pools_lock */
	struct fusion_volume *volume;
	struct dm_dev *pool_dev;
	struct mapped_device *md;
	bool suspended;			/* by the pool */
};

static struct fusion_pool *volume_find_pool(struct dm_dev *dev)
{
	struct mapped_device *md = dm_get_md(dev->bdev->bd_dev);
	struct fusion_pool *pool;

	if (!md)
		return NULL;
	pool = fusion_pool_of_device(md);
	dm_put(md);
	return pool;
}

static int volume_bind(struct volume_target *vt, struct dm_target *ti, u32 id)
{
	struct fusion_pool *pool = volume_find_pool(vt->pool_dev);
	struct volume_target *other;
	struct fusion_volume *v;

	if (!pool) {
		ti->error = "Not the device of a fusion-pool";
		return -EINVAL;
	}
	if (!READ_ONCE(pool->active)) {
		ti->error = "Pool is suspended";
		return -EINVAL;
	}
	mutex_lock(&pool->commit_lock);
	v = fusion_volume_find(pool, id);
	if (v && v->deleting)
		v = NULL;
	mutex_unlock(&pool->commit_lock);
	if (!v) {
		ti->error = "No volume with this id in the pool";
		return -ENODEV;
	}
	if (ti->len > v->blocks << pool->block_shift) {
		ti->error = "Device would be larger than the volume";
		return -EINVAL;
	}
	if (ti->begin) {
		ti->error = "Target must begin at sector 0";
		return -EINVAL;
	}
	list_for_each_entry(other, &pool->targets, list)
		if (other->volume == v && other->md != vt->md) {
			ti->error = "Volume is in use by another device";
			return -EBUSY;
		}
	if (fusion_large_init(pool, v->class) ||
	    !fusion_stripe_background(pool, v->class)) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	vt->volume = v;
	v->users++;
	fusion_pool_get(pool);
	list_add_tail(&vt->list, &pool->targets);
	return 0;
}

static int volume_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct volume_target *vt;
	unsigned int noio;
	u32 id;
	int r;

	if (argc != 2) {
		ti->error = "Arguments must be <pool dev> <volume id>";
		return -EINVAL;
	}
	if (kstrtou32(argv[1], 10, &id)) {
		ti->error = "Volume id must be a number";
		return -EINVAL;
	}
	vt = kzalloc(sizeof(*vt), GFP_KERNEL);
	if (!vt) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	vt->md = dm_table_get_md(ti->table);
	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table),
			  &vt->pool_dev);
	if (r) {
		ti->error = "Could not open the pool's device";
		goto bad_dev;
	}
	mutex_lock(&fusion_pools_lock);
	/* a suspended pool's resume waits for this lock */
	noio = memalloc_noio_save();
	r = volume_bind(vt, ti, id);
	memalloc_noio_restore(noio);
	mutex_unlock(&fusion_pools_lock);
	if (r)
		goto bad_bind;

	ti->private = vt;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->num_discard_bios = 1;
	ti->discards_supported = true;
	ti->per_io_data_size = fusion_io_bytes(vt->volume->class);
	fusion_compat_stable_writes(ti);
	return 0;

bad_bind:
	dm_put_device(ti, vt->pool_dev);
bad_dev:
	kfree(vt);
	return r;
}

static void volume_dtr(struct dm_target *ti)
{
	struct volume_target *vt = ti->private;
	struct volume_target *other;

	mutex_lock(&fusion_pools_lock);
	list_del(&vt->list);
	/* a suspension by the pool is of the device, not of this table */
	list_for_each_entry(other, &vt->volume->pool->targets, list)
		if (vt->suspended && other->md == vt->md) {
			other->suspended = true;
			break;
		}
	vt->volume->users--;
	fusion_pool_put(vt->volume->pool);
	mutex_unlock(&fusion_pools_lock);
	dm_put_device(ti, vt->pool_dev);
	kfree(vt);
}

static int volume_map(struct dm_target *ti, struct bio *bio)
{
	struct volume_target *vt = ti->private;
	struct fusion_io *io = fusion_io_of(ti, bio);

	io->volume = vt->volume;
	io->bio = bio;
	io->kind = FUSION_IO_OTHER;
	io->member = NULL;
	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return fusion_read_map(io);
	case REQ_OP_WRITE:
		if (unlikely(bio->bi_opf & REQ_PREFLUSH)) {
			/* dm sends the data of such a bio separately */
			fusion_count(io->volume->pool, flushes);
			fusion_commit_then_end(io->volume->pool, bio);
			return DM_MAPIO_SUBMITTED;
		}
		return fusion_write_map(io);
	case REQ_OP_DISCARD:
		return fusion_discard_map(io);
	default:
		return DM_MAPIO_KILL;
	}
}

static int volume_end_io(struct dm_target *ti, struct bio *bio,
			 blk_status_t *status)
{
	struct fusion_io *io = fusion_io_of(ti, bio);

	switch (io->kind) {
	case FUSION_IO_READ:
	case FUSION_IO_PARTS:
		return fusion_read_end(io, status);
	case FUSION_IO_WRITE:
		return fusion_write_end(io, status);
	case FUSION_IO_OTHER:
		break;
	}
	return DM_ENDIO_DONE;
}

/* Those who wait for space must not keep the device from being suspended. */
static void volume_presuspend(struct dm_target *ti)
{
	struct volume_target *vt = ti->private;

	fusion_waiters_forbid(vt->volume, dm_noflush_suspending(ti) ?
			      BLK_STS_DM_REQUEUE : BLK_STS_NOSPC);
}

static void volume_presuspend_undo(struct dm_target *ti)
{
	struct volume_target *vt = ti->private;

	fusion_waiters_allow(vt->volume);
}

static int volume_preresume(struct dm_target *ti)
{
	struct volume_target *vt = ti->private;
	struct fusion_pool *pool = vt->volume->pool;

	if (!READ_ONCE(pool->active)) {
		DMERR("%s: volume %s cannot be resumed while the pool is suspended",
		      fusion_pool_name(pool), vt->volume->name);
		return -EINVAL;
	}
	return 0;
}

static void volume_resume(struct dm_target *ti)
{
	volume_presuspend_undo(ti);
}

static void volume_status(struct dm_target *ti, status_type_t type,
			  unsigned int flags, char *result,
			  unsigned int maxlen)
{
	struct volume_target *vt = ti->private;
	struct fusion_volume *v = vt->volume;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		if (fusion_pool_mode(v->pool) == FUSION_FAIL)
			DMEMIT("Fail");
		else
			DMEMIT("%llu %llu %u %u %s", READ_ONCE(v->mapped),
			       READ_ONCE(v->tops), v->class->d, v->class->p,
			       v->name);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %u", vt->pool_dev->name, v->id);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static int volume_iterate_devices(struct dm_target *ti,
				  iterate_devices_callout_fn fn, void *data)
{
	struct volume_target *vt = ti->private;

	/* its limits are those of the members; it may be shorter than we are */
	return fn(ti, vt->pool_dev, 0, FUSION_PAGE_SECTORS, data);
}

static void volume_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct volume_target *vt = ti->private;
	struct fusion_pool *pool = vt->volume->pool;
	u32 block_bytes = pool->block_sectors << SECTOR_SHIFT;

	limits->logical_block_size = 1 << FUSION_PAGE_SHIFT;
	limits->physical_block_size = 1 << FUSION_PAGE_SHIFT;
	limits->io_min = 1 << FUSION_PAGE_SHIFT;
	limits->io_opt = vt->volume->class->d * block_bytes;
	fusion_compat_discard(limits, block_bytes, UINT_MAX >> SECTOR_SHIFT);
	fusion_compat_limits(limits);
}

/*
 * The devices are suspended and resumed without fusion_pools_lock: that waits for I/O, and
 * for who suspends or loads a table by himself.  One that cannot be held is being removed:
 * nobody has it open.
 */

/* Is the device of @vt suspended by the pool, whichever of its tables is active? */
static bool volume_suspended(struct fusion_pool *pool, const struct volume_target *vt)
{
	struct volume_target *other;

	list_for_each_entry(other, &pool->targets, list)
		if (other->md == vt->md && other->suspended)
			return true;
	return false;
}

/* Say of one more device, which is held, that it is @suspended by the pool; or NULL. */
static struct mapped_device *volume_next(struct fusion_pool *pool, bool suspended)
{
	struct mapped_device *md = NULL;
	struct volume_target *vt;

	mutex_lock(&fusion_pools_lock);
	list_for_each_entry(vt, &pool->targets, list) {
		if (suspended ? volume_suspended(pool, vt) : !vt->suspended)
			continue;
		if (dm_hold(vt->md))
			continue;
		vt->suspended = suspended;
		md = vt->md;
		break;
	}
	mutex_unlock(&fusion_pools_lock);
	return md;
}

void fusion_volumes_internal_suspend(struct fusion_pool *pool)
{
	struct mapped_device *md;

	while ((md = volume_next(pool, true))) {
		dm_internal_suspend_noflush(md);
		dm_put(md);
	}
}

void fusion_volumes_internal_resume(struct fusion_pool *pool)
{
	struct mapped_device *md;

	while ((md = volume_next(pool, false))) {
		dm_internal_resume(md);
		dm_put(md);
	}
}

struct target_type fusion_volume_target = {
	.name = "fusion",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = volume_ctr,
	.dtr = volume_dtr,
	.map = volume_map,
	.end_io = volume_end_io,
	.presuspend = volume_presuspend,
	.presuspend_undo = volume_presuspend_undo,
	.preresume = volume_preresume,
	.resume = volume_resume,
	.status = volume_status,
	.iterate_devices = volume_iterate_devices,
	.io_hints = volume_io_hints,
};
