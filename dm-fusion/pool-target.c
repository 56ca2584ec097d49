// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool target:
 *
 *	<start> <len> fusion-pool <metadata dev> <block sectors> <layout>
 *		<spares> <n> { <member dev> <data offset> } x n
 *		[<#feature args> [<feature arg>]*]
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "commit.h"
#include "compat.h"
#include "io.h"
#include "mode.h"
#include "pools.h"

#define DM_MSG_PREFIX "fusion"

struct pool_target {
	struct fusion_pool *pool;
	struct dm_dev *metadata_dev;
	u32 block_sectors;
	unsigned int spares;
	unsigned int n;
	bool error_if_no_space;
	bool unlabelled;
	bool no_discard_passdown;
	struct {
		struct dm_dev *dev;
		u64 offset_sectors;
	} member[FUSION_MAX_MEMBERS];
};

/* ---- constructor ---- */

static int parse_member(struct dm_target *ti, struct dm_arg_set *as,
			struct pool_target *pt, unsigned int i)
{
	const char *path = dm_shift_arg(as);
	const char *offset = dm_shift_arg(as);
	struct block_device *bdev;
	unsigned int j;
	int r;

	if (!path || !offset) {
		ti->error = "Fewer members than their number says";
		return -EINVAL;
	}
	if (!strcmp(path, "-")) {
		ti->error = "Pool cannot be started with a member missing";
		return -EINVAL;
	}
	if (kstrtou64(offset, 10, &pt->member[i].offset_sectors) ||
	    pt->member[i].offset_sectors & (FUSION_PAGE_SECTORS - 1)) {
		ti->error = "Data offset must be a number of sectors, a multiple of 8";
		return -EINVAL;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table),
			  &pt->member[i].dev);
	if (r) {
		ti->error = "Could not open a member device";
		return r;
	}
	bdev = pt->member[i].dev->bdev;
	if (bdev_logical_block_size(bdev) > 1 << FUSION_PAGE_SHIFT) {
		ti->error = "A member's logical blocks are larger than 4 KiB";
		return -EINVAL;
	}
	if (bdev == pt->metadata_dev->bdev) {
		ti->error = "Metadata device is a member, too";
		return -EINVAL;
	}
	for (j = 0; j < i; j++)
		if (pt->member[j].dev->bdev == bdev) {
			ti->error = "The same device is a member twice";
			return -EINVAL;
		}
	return 0;
}

static int parse_features(struct dm_target *ti, struct dm_arg_set *as,
			  struct pool_target *pt)
{
	static const struct dm_arg count_arg = {
		0, 3, "Invalid number of feature arguments"
	};
	unsigned int count;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(&count_arg, as, &count, &ti->error);
	while (!r && count--) {
		const char *arg = dm_shift_arg(as);

		if (!strcasecmp(arg, "error_if_no_space")) {
			pt->error_if_no_space = true;
		} else if (!strcasecmp(arg, "unlabelled")) {
			pt->unlabelled = true;
		} else if (!strcasecmp(arg, "no_discard_passdown")) {
			pt->no_discard_passdown = true;
		} else {
			ti->error = "Unknown feature argument";
			r = -EINVAL;
		}
	}
	if (!r && as->argc) {
		ti->error = "Too many arguments";
		r = -EINVAL;
	}
	return r;
}

static int parse_u32(struct dm_target *ti, struct dm_arg_set *as, u32 *value,
		     char *error)
{
	const char *arg = dm_shift_arg(as);

	if (!arg || kstrtou32(arg, 10, value)) {
		ti->error = error;
		return -EINVAL;
	}
	return 0;
}

static int parse_table(struct dm_target *ti, struct dm_arg_set *as,
		       struct pool_target *pt)
{
	const char *layout;
	unsigned int i;
	int r;

	if (as->argc < 5) {
		ti->error = "Fewer arguments than <metadata dev> <block sectors> <layout> <spares> <n>";
		return -EINVAL;
	}
	if (ti->len < FUSION_PAGE_SECTORS) {
		ti->error = "Pool device must be at least 8 sectors long";
		return -EINVAL;
	}
	r = dm_get_device(ti, dm_shift_arg(as), dm_table_get_mode(ti->table),
			  &pt->metadata_dev);
	if (r) {
		ti->error = "Could not open the metadata device";
		return r;
	}
	r = parse_u32(ti, as, &pt->block_sectors,
		      "Block size must be a number of sectors");
	if (r)
		return r;
	if (pt->block_sectors < FUSION_MIN_BLOCK_SECTORS ||
	    pt->block_sectors > FUSION_MAX_BLOCK_SECTORS ||
	    !is_power_of_2(pt->block_sectors)) {
		ti->error = "Block size must be a power of two from 8 to 512 sectors";
		return -EINVAL;
	}
	layout = dm_shift_arg(as);
	if (strcasecmp(layout, "mols")) {
		ti->error = "Layout must be mols";
		return -EINVAL;
	}
	r = parse_u32(ti, as, &pt->spares, "Number of spares must be a number");
	if (!r)
		r = parse_u32(ti, as, &pt->n,
			      "Number of members must be a number");
	if (r)
		return r;
	if (!fusion_layout_valid_order(pt->n)) {
		ti->error = "Number of members must be a prime power from 4 to 64";
		return -EINVAL;
	}
	if (pt->spares > pt->n - 1 - FUSION_MIN_WIDTH) {
		ti->error = "Too many spares for the number of members";
		return -EINVAL;
	}
	for (i = 0; i < pt->n; i++) {
		r = parse_member(ti, as, pt, i);
		if (r)
			return r;
	}
	return parse_features(ti, as, pt);
}

/* The labels of all members, against the table line and each other. */
static int check_labels(struct dm_target *ti, struct pool_target *pt,
			struct fusion_pool_config *config)
{
	struct fusion_disk_label *label;
	const char *wrong = NULL;
	unsigned int i;
	int r = 0;

	label = kmalloc(sizeof(*label), GFP_KERNEL);
	if (!label) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	for (i = 0; i < pt->n && !r; i++) {
		struct block_device *bdev = pt->member[i].dev->bdev;

		r = fusion_member_read_label(bdev, label, &wrong);
		if (r) {
			DMERR("member %u, %pg: label %s", i, bdev, wrong);
			ti->error = "A member has no good label";
			break;
		}
		if (!i)
			memcpy(config->pool_uuid, label->pool_uuid,
			       sizeof(config->pool_uuid));
		memcpy(config->member_uuid[i], label->member_uuid,
		       sizeof(config->member_uuid[i]));
		if (memcmp(config->pool_uuid, label->pool_uuid,
			   sizeof(config->pool_uuid)))
			ti->error = "A member's label is of another pool";
		else if (le16_to_cpu(label->index) != i)
			ti->error = "A member's label has another index";
		else if (le16_to_cpu(label->members) != pt->n ||
			 le16_to_cpu(label->spares) != pt->spares ||
			 le32_to_cpu(label->block_sectors) != pt->block_sectors ||
			 le64_to_cpu(label->data_offset_sectors) !=
			 pt->member[i].offset_sectors)
			ti->error = "A member's label has another geometry";
		else if (le32_to_cpu(label->ro_compat) & ~FUSION_RO_COMPAT_KNOWN)
			ti->error = "A member's label has features this module cannot write";
		else
			continue;
		DMERR("member %u, %pg: %s", i, bdev, ti->error);
		r = -EINVAL;
	}
	kfree(label);
	return r;
}

static int make_config(struct dm_target *ti, struct pool_target *pt,
		       struct fusion_pool_config *config)
{
	unsigned int i;

	config->metadata_bdev = pt->metadata_dev->bdev;
	config->block_sectors = pt->block_sectors;
	config->members = pt->n;
	config->spares = pt->spares;
	config->labelled = !pt->unlabelled;
	config->member_chunks = U64_MAX;
	for (i = 0; i < pt->n; i++) {
		u64 sectors = bdev_nr_sectors(pt->member[i].dev->bdev);
		u64 offset = pt->member[i].offset_sectors;

		if (sectors <= offset) {
			ti->error = "A member ends before its data offset";
			return -EINVAL;
		}
		config->member_chunks = min(config->member_chunks,
					    (sectors - offset) /
					    pt->block_sectors);
	}
	return pt->unlabelled ? 0 : check_labels(ti, pt, config);
}

/* A reload: the table must describe the pool that is there. */
static int check_same_pool(struct dm_target *ti, struct pool_target *pt,
			   struct fusion_pool *pool,
			   const struct fusion_pool_config *config)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (pool->metadata_bdev != config->metadata_bdev)
		ti->error = "Pool has another metadata device";
	else if (pool->block_sectors != config->block_sectors ||
		 pool->layout.n != config->members ||
		 pool->layout.spares != config->spares)
		ti->error = "Pool has another geometry";
	else if (!!(super->compat & FUSION_COMPAT_LABELLED) !=
		 config->labelled)
		ti->error = "Feature unlabelled does not fit the pool";
	else if (config->labelled && !fusion_md_same_members(pool->md, config->pool_uuid,
							     config->member_uuid))
		ti->error = "Members are not those of the pool";
	else if ((u64)super->bands * pool->space.band_chunks >
		 config->member_chunks)
		ti->error = "A member is too small for the pool";
	else
		return 0;
	return -EINVAL;
}

static int get_pool(struct dm_target *ti, struct pool_target *pt,
		    const struct fusion_pool_config *config)
{
	struct mapped_device *owner = dm_table_get_md(ti->table);
	struct fusion_pool *pool = fusion_pool_of_device(owner);
	int r;

	if (pool) {
		r = check_same_pool(ti, pt, pool, config);
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

static void put_devices(struct dm_target *ti, struct pool_target *pt)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_MEMBERS; i++)
		if (pt->member[i].dev)
			dm_put_device(ti, pt->member[i].dev);
	if (pt->metadata_dev)
		dm_put_device(ti, pt->metadata_dev);
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
	r = parse_table(ti, &as, pt);
	if (!r)
		r = make_config(ti, pt, config);
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
	kfree(config);
	ti->private = pt;
	ti->num_flush_bios = 0;
	return 0;

bad_devices:
	put_devices(ti, pt);
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
	put_devices(ti, pt);
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
	unsigned int i;
	int r;

	if (pool->serving)
		return 0;
	for (i = 0; i < pt->n; i++) {
		pool->member[i].bdev = pt->member[i].dev->bdev;
		pool->member[i].offset_sectors = pt->member[i].offset_sectors;
	}
	pool->error_if_no_space = pt->error_if_no_space;
	WRITE_ONCE(pool->ti, ti);
	r = fusion_pool_activate(pool);
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

static void sum_counters(struct fusion_pool *pool, struct fusion_counters *sum)
{
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		struct fusion_counters *c = per_cpu_ptr(pool->counters, cpu);

		sum->reads += READ_ONCE(c->reads);
		sum->large += READ_ONCE(c->large);
		sum->in_place += READ_ONCE(c->in_place);
		sum->new_top += READ_ONCE(c->new_top);
		sum->discards += READ_ONCE(c->discards);
		sum->flushes += READ_ONCE(c->flushes);
	}
}

static const char *mode_name(enum fusion_mode mode)
{
	switch (mode) {
	case FUSION_RW:
		return "rw";
	case FUSION_OUT_OF_SPACE:
		return "out_of_space";
	case FUSION_RO:
		return "ro";
	case FUSION_FAIL:
		break;
	}
	return "fail";
}

static void emit_space(struct fusion_pool *pool, char *result,
		       unsigned int maxlen, unsigned int *at)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	unsigned int sz = *at;
	u64 total, nonfree, replicated, raid, dead, space;

	total = (u64)super->bands * pool->space.band_chunks * pool->layout.n;
	replicated = READ_ONCE(super->replica_live);
	raid = READ_ONCE(super->raid_live) + READ_ONCE(super->raid_parity_slots);
	/* slots in use in core, committed or not; what is not live is dead */
	fusion_space_blocks(&pool->space, &space, &nonfree);
	dead = nonfree > replicated + raid ? nonfree - replicated - raid : 0;
	space = min(space, total - min(total, replicated + raid + dead));
	DMEMIT("%llu %llu %llu %llu %llu %llu ", total, space, replicated, raid,
	       dead, total - space - replicated - raid - dead);
	*at = sz;
}

static void emit_status(struct pool_target *pt, char *result,
			unsigned int maxlen)
{
	struct fusion_pool *pool = pt->pool;
	struct fusion_counters c;
	u64 free_blocks = 0, blocks = 0;
	unsigned int i, sz = 0;

	sum_counters(pool, &c);
	mutex_lock(&pool->commit_lock);
	fusion_md_usage(pool->md, &free_blocks, &blocks);
	DMEMIT("%s %s %llu %llu/%llu %u %s %s ",
	       mode_name(fusion_pool_mode(pool)),
	       fusion_md_read_only(pool->md) ? "needs_check" : "-",
	       fusion_md_transaction_id(pool->md), blocks - free_blocks, blocks,
	       pool->block_sectors, pool->error_if_no_space ?
	       "error_if_no_space" : "queue_if_no_space",
	       READ_ONCE(pool->unsynced_generation) == 1 ? "synced" :
	       "resyncing");
	emit_space(pool, result, maxlen, &sz);
	DMEMIT("8 reads %llu large %llu in_place %llu new_top %llu discards %llu flushes %llu commits %llu resynced %llu ",
	       c.reads, c.large, c.in_place, c.new_top, c.discards, c.flushes,
	       pool->commits, READ_ONCE(pool->resynced));
	mutex_unlock(&pool->commit_lock);
	DMEMIT("%u", pt->n);
	for (i = 0; i < pt->n; i++)
		DMEMIT(" %s ok %d 0", pt->member[i].dev->name,
		       fusion_member_pending(&pool->member[i]));
}

static void emit_table(struct pool_target *pt, char *result,
		       unsigned int maxlen)
{
	unsigned int i, sz = 0;

	DMEMIT("%s %u mols %u %u", pt->metadata_dev->name, pt->block_sectors,
	       pt->spares, pt->n);
	for (i = 0; i < pt->n; i++)
		DMEMIT(" %s %llu", pt->member[i].dev->name,
		       pt->member[i].offset_sectors);
	i = pt->error_if_no_space + pt->unlabelled + pt->no_discard_passdown;
	if (!i)
		return;
	DMEMIT(" %u%s%s%s", i,
	       pt->error_if_no_space ? " error_if_no_space" : "",
	       pt->unlabelled ? " unlabelled" : "",
	       pt->no_discard_passdown ? " no_discard_passdown" : "");
}

static void pool_status(struct dm_target *ti, status_type_t type,
			unsigned int flags, char *result, unsigned int maxlen)
{
	struct pool_target *pt = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		emit_status(pt, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		emit_table(pt, result, maxlen);
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

	for (i = 0; i < pt->n && !r; i++) {
		struct block_device *bdev = pt->member[i].dev->bdev;

		r = fn(ti, pt->member[i].dev, pt->member[i].offset_sectors,
		       bdev_nr_sectors(bdev) - pt->member[i].offset_sectors,
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
	limits->io_opt = pt->block_sectors << SECTOR_SHIFT;
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
	fusion_map_module_exit();
	return r;
}

static void __exit fusion_exit(void)
{
	dm_unregister_target(&fusion_volume_target);
	dm_unregister_target(&fusion_pool_target);
	fusion_map_module_exit();
}

module_init(fusion_init);
module_exit(fusion_exit);

MODULE_DESCRIPTION("device-mapper fusion: declustered two-phase RAID pools");
MODULE_AUTHOR("The dm-fusion authors");
MODULE_LICENSE("GPL");
MODULE_ALIAS("dm-fusion-pool");
