// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a pool's metadata is read through where it is on one device: linear, but of all
 * that fails it is only said that it has.
 *
 * A device says of sectors that it has lost BLK_STS_MEDIUM, which is -ENODATA to those who
 * read: dm-persistent-data's word for what is not in a tree.  A leaf that cannot be read
 * would be one with nothing in it: its blocks would read as what was there before, or as
 * zeros, and its stripes would be free.  Nor does anything else that a device may say,
 * as -ENOSPC, mean to the trees what it means to the device.  (md's RAID-1, which most
 * pools' metadata is on, knows no errors but BLK_STS_IOERR.)
 */
#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/slab.h>

#include "pools.h"

struct metadata_target {
	struct dm_dev *dev;
	sector_t start_sectors;
};

/* <dev> <start> */
static int metadata_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct metadata_target *mt;
	unsigned long long start;
	char dummy;
	int r;

	if (argc != 2) {
		ti->error = "Needs a device and where the metadata begins on it";
		return -EINVAL;
	}
	if (sscanf(argv[1], "%llu%c", &start, &dummy) != 1 || start != (sector_t)start) {
		ti->error = "Where the metadata begins is not a number of sectors";
		return -EINVAL;
	}
	mt = kzalloc(sizeof(*mt), GFP_KERNEL);
	if (!mt) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	mt->start_sectors = start;
	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &mt->dev);
	if (r) {
		ti->error = "Could not open the device that the metadata is on";
		kfree(mt);
		return r;
	}
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->private = mt;
	return 0;
}

static void metadata_dtr(struct dm_target *ti)
{
	struct metadata_target *mt = ti->private;

	dm_put_device(ti, mt->dev);
	kfree(mt);
}

static int metadata_map(struct dm_target *ti, struct bio *bio)
{
	struct metadata_target *mt = ti->private;

	bio_set_dev(bio, mt->dev->bdev);
	bio->bi_iter.bi_sector = mt->start_sectors + dm_target_offset(ti, bio->bi_iter.bi_sector);
	return DM_MAPIO_REMAPPED;
}

static int metadata_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	/* of what it cannot do at all device-mapper is to know */
	if (*error && *error != BLK_STS_NOTSUPP)
		*error = BLK_STS_IOERR;
	return DM_ENDIO_DONE;
}

static void metadata_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			    char *result, unsigned int maxlen)
{
	struct metadata_target *mt = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		result[0] = 0;
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu", mt->dev->name, (unsigned long long)mt->start_sectors);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device_name=%s,start=%llu;", mt->dev->name,
		       (unsigned long long)mt->start_sectors);
		break;
	}
}

static int metadata_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct metadata_target *mt = ti->private;

	return fn(ti, mt->dev, mt->start_sectors, ti->len, data);
}

struct target_type fusion_metadata_target = {
	.name = "fusion-metadata",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = metadata_ctr,
	.dtr = metadata_dtr,
	.map = metadata_map,
	.end_io = metadata_end_io,
	.status = metadata_status,
	.iterate_devices = metadata_iterate_devices,
};
