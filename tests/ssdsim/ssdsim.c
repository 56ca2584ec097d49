// SPDX-License-Identifier: GPL-2.0-only
/*
 * A simulated SSD in memory, for tests only.
 *
 *	<start> <len> ssdsim [<seed>]
 *
 * The device is sparse, reads as zeros where it was not written, and has a
 * volatile write cache.  It keeps two versions of a 4 KiB page: the stable one,
 * which survives a power cut, and a cached one, newer, which may not.
 *
 *  - A write (also WRITE_ZEROES and DISCARD, which both write zeros) makes or
 *    changes the cached version of its pages.  With FUA it makes the stable one.
 *  - A read sees the newest version.
 *  - FLUSH makes every cached version stable.
 *  - A power cut decides for each cached version alone whether it becomes stable
 *    or is lost.  Thus a write of several pages may survive in part, cut at page
 *    edges and in any order, but a page never survives in part.  An I/O that is
 *    under way may have done some of its pages; it fails.  From then on every
 *    I/O fails until the power is back.
 *
 * What survives is a function of the seed of the cut, the seed of the device and
 * the page's number, and of nothing else.
 *
 * Messages:
 *	power_cut [<seed>|lose]	cut this device; lose: every cached version is lost
 *	power_on		give it power again
 *	power_cut_all [<seed>|lose]	cut every ssdsim device at one instant: each I/O
 *				on any of them is wholly before or after it
 *	power_on_all
 *	hold reads|writes|flushes|discards	keep such I/Os back from now on (writes:
 *				also WRITE_ZEROES)
 *	hold_all reads|writes|flushes|discards	on every device
 *	tags <count>		while so many I/Os are held, who submits another waits, as for a
 *				tag of a request queue; 0, as at first: nobody does
 *	fail reads|writes|flushes|discards yes|no	answer such I/Os with an error, and
 *				do nothing (writes: also WRITE_ZEROES)
 *	fail_all reads|writes|flushes|discards yes|no	on every device
 *	bad <page> <count> [<step>]	so many pages, each so far from the last (1), cannot
 *				be read until they are written, zeroed or discarded: a medium
 *				error
 *	good			all can be read again
 *	time <read> <write> <read rate> <write rate>	I/O takes time from now on:
 *				latencies in microseconds, rates in MB/s, 0 for no
 *				limit; nothing else delays it
 *	drive <name> <age> [<slower>]	it takes the time of such a drive: A (a consumer's) or E
 *				(a datacenter's) of FusionRAID's table 3, fresh or aged, so many
 *				times slower (1); see drive.h
 *	stall <us> [<units>]	so many of its units (all) stand still, for so long
 *	time off		it takes none, as at first
 *	keep_data yes|no	no: drop what is written, and read what was in the
 *				buffer before; as the data of md and of dm-fusion, not
 *				their metadata, may be treated where only time counts
 *	step			do what was held on this device, and hold on
 *	step_all		the same with what was held at one moment on every device:
 *				not what comes of that
 *	release			do what was held on this device, and hold no more
 *	release_all		on every device
 *	keep			what is held stays so, and no more is held from now on
 *	reset_all		every device is as at first, but for what is on it: it holds
 *				nothing back, has power, takes no time, fails nothing, and
 *				keeps its data
 *	erase_all		nothing is on any device, cached or stable
 *	save_all		keep what is stable on every device, instead of what was kept
 *	restore_all		that is what is on them, and nothing is cached
 *	forget_all		keep it no longer
 *
 * Status:
 *	<on|off> <reads> <writes> <flushes> <fuas> <discards> <discarded sectors>
 *	<busy us> <cached pages> <stored pages>
 *	<buffer flushes> <garbage collections> <stalls told> <stalled us> <held I/Os>
 * where the first five numbers count I/Os that succeeded (writes: with FUA or
 * not, and WRITE_ZEROES), the sixth what the fifth discarded, the seventh for how
 * long I/O that takes time has kept the device busy, and stored pages are those
 * that take memory.  The four after them are since it takes the time that it takes.
 *
 * Whoever reads the device through the page cache may see what the device has
 * lost: use direct I/O, or drop the caches after a cut.
 */

#include <linux/bio.h>
#include <linux/bvec.h>
#include <linux/device-mapper.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu-rwsem.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "time.h"

#define DM_MSG_PREFIX "ssdsim"

#define SSD_PAGE_SHIFT		12
#define SSD_PAGE_SIZE		(1u << SSD_PAGE_SHIFT)
#define SSD_PAGE_SECTORS	(SSD_PAGE_SIZE >> SECTOR_SHIFT)

/*
 * Lock order: ssds_lock, power_lock, ssd->lock.  I/O holds power_lock for reading
 * from its first page to its last, so that whoever holds it for writing sees every
 * device between two I/Os.
 */
static DEFINE_MUTEX(ssds_lock);		/* guards the list of devices */
DEFINE_STATIC_PERCPU_RWSEM(power_lock);
static LIST_HEAD(ssds);

enum ssd_counter {
	SSD_READS,
	SSD_WRITES,
	SSD_FLUSHES,
	SSD_FUAS,
	SSD_DISCARDS,
	SSD_DISCARDED_SECTORS,
	SSD_NR_COUNTERS,
};

/* The versions of one page.  No page means zeros. */
struct ssd_slot {
	unsigned long index;
	struct page *stable;
	struct page *cached;		/* only with in_cache */
	bool in_cache;
	struct list_head cache_list;	/* on ssd->cache, only with in_cache */
};

struct ssd {
	struct list_head list;
	u64 seed;
	struct ssd_time time;
	bool drops_data;
	unsigned long fails;		/* enum ssd_kind, as bits */

	struct mutex lock;		/* guards all below */
	bool off;
	struct xarray slots;
	struct xarray bad;		/* pages that cannot be read */
	struct xarray saved;		/* pages that were stable: these are never changed */
	struct list_head cache;
	unsigned long nr_cached;
	unsigned long nr_stored;
	u64 counters[SSD_NR_COUNTERS];
	unsigned int step;		/* that many held I/Os are of it; guarded by ssds_lock */

	spinlock_t hold_lock;		/* guards all below */
	unsigned long hold;		/* enum ssd_kind, as bits */
	unsigned int nr_held;
	unsigned int tags;		/* as many at most; 0: any number */
	struct bio_list held;
	wait_queue_head_t freed;
};

enum ssd_kind {
	SSD_KIND_READS,
	SSD_KIND_WRITES,
	SSD_KIND_FLUSHES,
	SSD_KIND_DISCARDS,
	SSD_NR_KINDS,
};

/*----------------------------------------------------------------*/

static struct page *ssd_alloc_page(struct ssd *ssd)
{
	struct page *page = alloc_page(GFP_NOIO | __GFP_HIGHMEM | __GFP_ZERO);

	if (page)
		ssd->nr_stored++;
	return page;
}

static void ssd_free_page(struct ssd *ssd, struct page *page)
{
	if (page) {
		ssd->nr_stored--;
		__free_page(page);
	}
}

static struct ssd_slot *ssd_get_slot(struct ssd *ssd, unsigned long index)
{
	struct ssd_slot *slot = xa_load(&ssd->slots, index);

	if (slot)
		return slot;

	slot = kzalloc(sizeof(*slot), GFP_NOIO);
	if (!slot)
		return NULL;
	slot->index = index;
	if (xa_err(xa_store(&ssd->slots, index, slot, GFP_NOIO))) {
		kfree(slot);
		return NULL;
	}
	return slot;
}

/* Forget a slot that says nothing but zeros. */
static void ssd_put_slot(struct ssd *ssd, struct ssd_slot *slot)
{
	if (!slot->in_cache && !slot->stable) {
		xa_erase(&ssd->slots, slot->index);
		kfree(slot);
	}
}

static void ssd_enter_cache(struct ssd *ssd, struct ssd_slot *slot)
{
	slot->in_cache = true;
	list_add_tail(&slot->cache_list, &ssd->cache);
	ssd->nr_cached++;
}

/* Ends the cached version: it becomes the stable one, or is lost. */
static void ssd_leave_cache(struct ssd *ssd, struct ssd_slot *slot, bool keep)
{
	struct page *dead = slot->cached;

	if (keep) {
		dead = slot->stable;
		slot->stable = slot->cached;
	}
	ssd_free_page(ssd, dead);
	slot->cached = NULL;
	slot->in_cache = false;
	list_del(&slot->cache_list);
	ssd->nr_cached--;
}

static void ssd_flush(struct ssd *ssd)
{
	struct ssd_slot *slot, *next;

	list_for_each_entry_safe(slot, next, &ssd->cache, cache_list) {
		ssd_leave_cache(ssd, slot, true);
		ssd_put_slot(ssd, slot);
	}
}

/*
 * The newest version of a page as something to write to, in the cache, with
 * what it held before.
 */
static struct page *ssd_page_for_write(struct ssd *ssd, struct ssd_slot *slot)
{
	struct page *page;

	if (slot->in_cache && slot->cached)
		return slot->cached;

	page = ssd_alloc_page(ssd);
	if (!page)
		return NULL;
	if (!slot->in_cache) {
		if (slot->stable)
			copy_highpage(page, slot->stable);
		ssd_enter_cache(ssd, slot);
	}
	slot->cached = page;
	return page;
}

static blk_status_t ssd_write_page(struct ssd *ssd, unsigned long index, unsigned int offset,
				   const char *data, unsigned int len, bool fua)
{
	struct ssd_slot *slot = ssd_get_slot(ssd, index);
	struct page *page;

	if (!slot)
		return BLK_STS_RESOURCE;

	page = ssd_page_for_write(ssd, slot);
	if (!page) {
		ssd_put_slot(ssd, slot);
		return BLK_STS_RESOURCE;
	}
	memcpy_to_page(page, offset, data, len);
	xa_erase(&ssd->bad, index);
	if (fua)
		ssd_leave_cache(ssd, slot, true);
	return BLK_STS_OK;
}

static void ssd_read_page(struct ssd *ssd, unsigned long index, unsigned int offset,
			  char *data, unsigned int len)
{
	struct ssd_slot *slot = xa_load(&ssd->slots, index);
	struct page *page = NULL;

	if (slot)
		page = slot->in_cache ? slot->cached : slot->stable;
	if (page)
		memcpy_from_page(data, page, offset, len);
	else
		memset(data, 0, len);
}

/*----------------------------------------------------------------*/

/* Reads or writes the pages that one segment of a bio touches. */
static blk_status_t ssd_do_segment(struct ssd *ssd, struct bio *bio, sector_t sector,
				   char *data, unsigned int len)
{
	blk_status_t status = BLK_STS_OK;

	while (len && !status) {
		unsigned long index = sector / SSD_PAGE_SECTORS;
		unsigned int offset = (sector % SSD_PAGE_SECTORS) << SECTOR_SHIFT;
		unsigned int this_len = min(len, SSD_PAGE_SIZE - offset);

		mutex_lock(&ssd->lock);
		if (ssd->off)
			status = BLK_STS_IOERR;
		else if (op_is_write(bio_op(bio)))
			status = ssd_write_page(ssd, index, offset, data, this_len,
						bio->bi_opf & REQ_FUA);
		else if (xa_load(&ssd->bad, index))
			status = BLK_STS_MEDIUM;
		else
			ssd_read_page(ssd, index, offset, data, this_len);
		mutex_unlock(&ssd->lock);

		data += this_len;
		len -= this_len;
		sector += this_len >> SECTOR_SHIFT;
	}
	return status;
}

static blk_status_t ssd_do_data(struct ssd *ssd, struct bio *bio, sector_t sector)
{
	blk_status_t status = BLK_STS_OK;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		char *data = kmap_local_page(bv.bv_page);

		status = ssd_do_segment(ssd, bio, sector, data + bv.bv_offset, bv.bv_len);
		kunmap_local(data);
		if (status)
			break;
		sector += bv.bv_len >> SECTOR_SHIFT;
	}
	return status;
}

/*
 * Zeros whole pages without memory: a cached version without a page.  Only the
 * pages that are not zeros already are looked at.
 */
static void ssd_zero_pages(struct ssd *ssd, unsigned long first, unsigned long last, bool fua)
{
	struct ssd_slot *slot;
	unsigned long index;
	void *bad;

	xa_for_each_range(&ssd->bad, index, bad, first, last)
		xa_erase(&ssd->bad, index);
	xa_for_each_range(&ssd->slots, index, slot, first, last) {
		if (!slot->in_cache)
			ssd_enter_cache(ssd, slot);
		ssd_free_page(ssd, slot->cached);
		slot->cached = NULL;
		if (fua) {
			ssd_leave_cache(ssd, slot, true);
			ssd_put_slot(ssd, slot);
		}
	}
}

static blk_status_t ssd_do_zeroes(struct ssd *ssd, struct bio *bio, sector_t sector)
{
	const char *zeros = page_address(ZERO_PAGE(0));
	sector_t end = sector + bio_sectors(bio);
	bool fua = bio->bi_opf & REQ_FUA;
	blk_status_t status = BLK_STS_OK;

	mutex_lock(&ssd->lock);
	while (sector < end && !status) {
		unsigned int offset = sector % SSD_PAGE_SECTORS;
		unsigned long index = sector / SSD_PAGE_SECTORS;
		sector_t next = min(end, round_up(sector + 1, (sector_t)SSD_PAGE_SECTORS));

		if (ssd->off) {
			status = BLK_STS_IOERR;
		} else if (!offset && end - sector >= SSD_PAGE_SECTORS) {
			next = round_down(end, (sector_t)SSD_PAGE_SECTORS);
			ssd_zero_pages(ssd, index, next / SSD_PAGE_SECTORS - 1, fua);
		} else if (xa_load(&ssd->slots, index)) {
			status = ssd_write_page(ssd, index, offset << SECTOR_SHIFT, zeros,
						(next - sector) << SECTOR_SHIFT, fua);
		}
		sector = next;
	}
	mutex_unlock(&ssd->lock);
	return status;
}

static blk_status_t ssd_do_flush(struct ssd *ssd)
{
	blk_status_t status = BLK_STS_OK;

	mutex_lock(&ssd->lock);
	if (ssd->off)
		status = BLK_STS_IOERR;
	else
		ssd_flush(ssd);
	mutex_unlock(&ssd->lock);
	return status;
}

static void ssd_count(struct ssd *ssd, struct bio *bio, unsigned int sectors)
{
	enum ssd_counter counter;

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		counter = SSD_READS;
		break;
	case REQ_OP_DISCARD:
		counter = SSD_DISCARDS;
		break;
	default:
		counter = bio->bi_opf & REQ_PREFLUSH ? SSD_FLUSHES : SSD_WRITES;
	}

	mutex_lock(&ssd->lock);
	ssd->counters[counter]++;
	if (counter == SSD_DISCARDS)
		ssd->counters[SSD_DISCARDED_SECTORS] += sectors;
	if (counter == SSD_WRITES && (bio->bi_opf & REQ_FUA))
		ssd->counters[SSD_FUAS]++;
	mutex_unlock(&ssd->lock);
}

static enum ssd_kind ssd_kind(const struct bio *bio)
{
	if (bio->bi_opf & REQ_PREFLUSH)
		return SSD_KIND_FLUSHES;
	if (bio_op(bio) == REQ_OP_DISCARD)
		return SSD_KIND_DISCARDS;
	return op_is_write(bio_op(bio)) ? SSD_KIND_WRITES : SSD_KIND_READS;
}

static blk_status_t ssd_do_op(struct ssd *ssd, struct bio *bio)
{
	sector_t sector = bio->bi_iter.bi_sector;

	if (test_bit(ssd_kind(bio), &ssd->fails))
		return BLK_STS_IOERR;
	switch (bio_op(bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		/* dm core sends the flush of a flushing write by itself. */
		if (bio->bi_opf & REQ_PREFLUSH)
			return ssd_do_flush(ssd);
		return READ_ONCE(ssd->drops_data) ? BLK_STS_OK : ssd_do_data(ssd, bio, sector);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return ssd_do_zeroes(ssd, bio, sector);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void ssd_do(struct ssd *ssd, struct bio *bio)
{
	unsigned int sectors = bio_sectors(bio);
	blk_status_t status;

	percpu_down_read(&power_lock);
	status = ssd_do_op(ssd, bio);
	if (!status)
		ssd_count(ssd, bio, sectors);
	percpu_up_read(&power_lock);

	bio->bi_status = status;
	ssd_time_end(&ssd->time, dm_per_bio_data(bio, sizeof(struct ssd_io)), bio);
}

static bool ssd_has_tag(const struct ssd *ssd)
{
	return !ssd->tags || ssd->nr_held < ssd->tags;
}

/* Keep @bio back if such are held, when there is a tag for it. */
static bool ssd_hold_back(struct ssd *ssd, struct bio *bio)
{
	bool hold;

	spin_lock(&ssd->hold_lock);
	wait_event_cmd(ssd->freed, ssd_has_tag(ssd), spin_unlock(&ssd->hold_lock),
		       spin_lock(&ssd->hold_lock));
	hold = test_bit(ssd_kind(bio), &ssd->hold);
	if (hold) {
		bio_list_add(&ssd->held, bio);
		ssd->nr_held++;
	}
	spin_unlock(&ssd->hold_lock);
	return hold;
}

/* Do the first @count of what is held. */
static void ssd_do_held(struct ssd *ssd, unsigned int count)
{
	struct bio_list bios = BIO_EMPTY_LIST;
	struct bio *bio;

	spin_lock(&ssd->hold_lock);
	while (count-- && (bio = bio_list_pop(&ssd->held))) {
		bio_list_add(&bios, bio);
		ssd->nr_held--;
	}
	spin_unlock(&ssd->hold_lock);
	wake_up_all(&ssd->freed);
	while ((bio = bio_list_pop(&bios)))
		ssd_do(ssd, bio);
}

/* On every device, or until it fails on one. */
static int ssd_try_all(int (*act)(struct ssd *ssd))
{
	struct ssd *ssd;
	int r = 0;

	mutex_lock(&ssds_lock);
	list_for_each_entry(ssd, &ssds, list) {
		r = act(ssd);
		if (r)
			break;
	}
	mutex_unlock(&ssds_lock);
	return r;
}

/* On every device. */
static void ssd_for_all(void (*act)(struct ssd *ssd))
{
	struct ssd *ssd;

	mutex_lock(&ssds_lock);
	list_for_each_entry(ssd, &ssds, list)
		act(ssd);
	mutex_unlock(&ssds_lock);
}

/* Do what is held, and hold no more. */
static void ssd_release(struct ssd *ssd)
{
	spin_lock(&ssd->hold_lock);
	ssd->hold = 0;
	spin_unlock(&ssd->hold_lock);
	ssd_do_held(ssd, UINT_MAX);
}

/* On every device, what is held now: what comes of it is held behind that. */
static void ssd_step_all(void)
{
	struct ssd *ssd;

	mutex_lock(&ssds_lock);
	list_for_each_entry(ssd, &ssds, list)
		ssd->step = READ_ONCE(ssd->nr_held);
	list_for_each_entry(ssd, &ssds, list)
		ssd_do_held(ssd, ssd->step);
	mutex_unlock(&ssds_lock);
}

static int ssdsim_map(struct dm_target *ti, struct bio *bio)
{
	struct ssd *ssd = ti->private;

	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	if (!ssd_hold_back(ssd, bio))
		ssd_do(ssd, bio);
	return DM_MAPIO_SUBMITTED;
}

/* A suspend waits for all I/O. */
static void ssdsim_presuspend(struct dm_target *ti)
{
	ssd_release(ti->private);
}

/*----------------------------------------------------------------*/

/* @seed NULL: nothing that is cached survives. */
static void ssd_power_cut(struct ssd *ssd, const u64 *seed)
{
	struct ssd_slot *slot, *next;

	mutex_lock(&ssd->lock);
	ssd->off = true;
	list_for_each_entry_safe(slot, next, &ssd->cache, cache_list) {
		bool keep = seed &&
			ssd_mix(ssd_mix(ssd_mix(*seed) ^ ssd->seed) ^ slot->index) & 1;

		ssd_leave_cache(ssd, slot, keep);
		ssd_put_slot(ssd, slot);
	}
	mutex_unlock(&ssd->lock);
}

static void ssd_power_on(struct ssd *ssd)
{
	mutex_lock(&ssd->lock);
	ssd->off = false;
	mutex_unlock(&ssd->lock);
}

static void ssd_set_tags(struct ssd *ssd, unsigned int tags)
{
	spin_lock(&ssd->hold_lock);
	ssd->tags = tags;
	spin_unlock(&ssd->hold_lock);
	wake_up_all(&ssd->freed);
}

/* As at first, but for what is on it. */
static void ssd_reset(struct ssd *ssd)
{
	ssd_set_tags(ssd, 0);
	ssd_release(ssd);
	ssd_power_on(ssd);
	ssd_time_off(&ssd->time);
	WRITE_ONCE(ssd->fails, 0);
	WRITE_ONCE(ssd->drops_data, false);
	xa_destroy(&ssd->bad);
}

static void ssd_erase(struct ssd *ssd)
{
	struct ssd_slot *slot;
	unsigned long index;

	mutex_lock(&ssd->lock);
	xa_for_each(&ssd->slots, index, slot) {
		ssd_free_page(ssd, slot->stable);
		ssd_free_page(ssd, slot->cached);
		kfree(slot);
		cond_resched();
	}
	xa_destroy(&ssd->slots);
	INIT_LIST_HEAD(&ssd->cache);
	ssd->nr_cached = 0;
	mutex_unlock(&ssd->lock);
}

static void ssd_forget(struct ssd *ssd)
{
	unsigned long index;
	struct page *page;

	mutex_lock(&ssd->lock);
	xa_for_each(&ssd->saved, index, page) {
		put_page(page);
		cond_resched();
	}
	xa_destroy(&ssd->saved);
	mutex_unlock(&ssd->lock);
}

static int ssd_save(struct ssd *ssd)
{
	struct ssd_slot *slot;
	unsigned long index;
	int r = 0;

	ssd_forget(ssd);
	mutex_lock(&ssd->lock);
	xa_for_each(&ssd->slots, index, slot) {
		if (!slot->stable)
			continue;
		r = xa_err(xa_store(&ssd->saved, index, slot->stable, GFP_NOIO));
		if (r)
			break;
		get_page(slot->stable);
		cond_resched();
	}
	mutex_unlock(&ssd->lock);
	return r;
}

static int ssd_restore(struct ssd *ssd)
{
	struct ssd_slot *slot;
	unsigned long index;
	struct page *page;
	int r = 0;

	ssd_erase(ssd);
	mutex_lock(&ssd->lock);
	xa_for_each(&ssd->saved, index, page) {
		slot = ssd_get_slot(ssd, index);
		if (!slot) {
			r = -ENOMEM;
			break;
		}
		get_page(page);
		slot->stable = page;
		ssd->nr_stored++;
		cond_resched();
	}
	mutex_unlock(&ssd->lock);
	return r;
}

static void ssd_hold(struct ssd *ssd, int kind)
{
	spin_lock(&ssd->hold_lock);
	__set_bit(kind, &ssd->hold);
	spin_unlock(&ssd->hold_lock);
}

/* What is held stays so. */
static void ssd_hold_no_more(struct ssd *ssd)
{
	spin_lock(&ssd->hold_lock);
	ssd->hold = 0;
	spin_unlock(&ssd->hold_lock);
}

/* time off, or time <read> <write> <read rate> <write rate> */
static int ssd_time_message(struct ssd *ssd, unsigned int argc, char **argv)
{
	struct ssd_model model = { .units = 1 };
	u32 latency_us, mb_per_s;
	int i;

	if (argc == 2 && !strcasecmp(argv[1], "off")) {
		ssd_time_off(&ssd->time);
		return 0;
	}
	if (argc != 5)
		return -EINVAL;
	for (i = 0; i < 2; i++) {
		if (kstrtou32(argv[1 + i], 10, &latency_us) || latency_us > USEC_PER_SEC ||
		    kstrtou32(argv[3 + i], 10, &mb_per_s) || mb_per_s > 1000000)
			return -EINVAL;
		model.latency_ns[i] = latency_us * NSEC_PER_USEC;
		model.ps_per_byte[i] = mb_per_s ? 1000000 / mb_per_s : 0;
	}
	ssd_time_set(&ssd->time, &model, ssd->seed);
	return 0;
}

/* drive <name> <age> [<slower>] */
static int ssd_drive_message(struct ssd *ssd, unsigned int argc, char **argv)
{
	struct ssd_model model;
	u32 slower = 1;

	if (argc < 3 || argc > 4 ||
	    (argc == 4 && (kstrtou32(argv[3], 10, &slower) || !slower || slower > 1000)) ||
	    !ssd_model_find(&model, argv[1], argv[2], slower))
		return -EINVAL;
	ssd_time_set(&ssd->time, &model, ssd->seed);
	return 0;
}

/* stall <us> [<units>] */
static int ssd_stall_message(struct ssd *ssd, unsigned int argc, char **argv)
{
	u32 us, units = SSD_MAX_UNITS;

	if (argc < 2 || argc > 3 || kstrtou32(argv[1], 10, &us) ||
	    (argc == 3 && kstrtou32(argv[2], 10, &units)))
		return -EINVAL;
	return ssd_time_stall(&ssd->time, units, us * (u64)NSEC_PER_USEC);
}

static int ssd_bad_message(struct ssd *ssd, unsigned int argc, char **argv)
{
	unsigned long index, count, step = 1;
	int r = 0;

	if (argc < 3 || argc > 4 || kstrtoul(argv[1], 10, &index) ||
	    kstrtoul(argv[2], 10, &count) || (argc == 4 && kstrtoul(argv[3], 10, &step)))
		return -EINVAL;
	for (; !r && count; index += step, count--)
		r = xa_err(xa_store(&ssd->bad, index, xa_mk_value(0), GFP_KERNEL));
	return r;
}

static int ssdsim_message(struct dm_target *ti, unsigned int argc, char **argv,
			  char *result, unsigned int maxlen)
{
	static const char * const kinds[SSD_NR_KINDS] = {
		[SSD_KIND_READS] = "reads",
		[SSD_KIND_WRITES] = "writes",
		[SSD_KIND_FLUSHES] = "flushes",
		[SSD_KIND_DISCARDS] = "discards",
	};
	struct ssd *ssd = ti->private;
	bool yes = false;
	u64 seed = 0, *survives = &seed;
	u32 tags = 0;
	int kind = 0;

	if (argc && !strcasecmp(argv[0], "time"))
		return ssd_time_message(ssd, argc, argv);
	if (argc && !strcasecmp(argv[0], "drive"))
		return ssd_drive_message(ssd, argc, argv);
	if (argc && !strcasecmp(argv[0], "stall"))
		return ssd_stall_message(ssd, argc, argv);
	if (argc && !strcasecmp(argv[0], "bad"))
		return ssd_bad_message(ssd, argc, argv);

	if ((argc == 2 && !strncasecmp(argv[0], "hold", 4)) ||
	    (argc == 3 && !strncasecmp(argv[0], "fail", 4))) {
		kind = match_string(kinds, SSD_NR_KINDS, argv[1]);
		if (kind < 0)
			return -EINVAL;
		if (argc == 3 && kstrtobool(argv[2], &yes))
			return -EINVAL;
	} else if (argc == 2 && !strcasecmp(argv[0], "keep_data")) {
		if (kstrtobool(argv[1], &yes))
			return -EINVAL;
	} else if (argc == 2 && !strcasecmp(argv[0], "tags")) {
		if (kstrtou32(argv[1], 10, &tags))
			return -EINVAL;
	} else if (argc == 2 && !strncasecmp(argv[0], "power_cut", 9)) {
		if (!strcasecmp(argv[1], "lose"))
			survives = NULL;
		else if (kstrtou64(argv[1], 0, &seed))
			return -EINVAL;
	} else if (argc != 1) {
		return -EINVAL;
	}

	if (!strcasecmp(argv[0], "power_cut")) {
		ssd_power_cut(ssd, survives);
	} else if (!strcasecmp(argv[0], "power_on")) {
		ssd_power_on(ssd);
	} else if (!strcasecmp(argv[0], "power_cut_all")) {
		mutex_lock(&ssds_lock);
		percpu_down_write(&power_lock);
		list_for_each_entry(ssd, &ssds, list)
			ssd_power_cut(ssd, survives);
		percpu_up_write(&power_lock);
		mutex_unlock(&ssds_lock);
	} else if (!strcasecmp(argv[0], "power_on_all")) {
		mutex_lock(&ssds_lock);
		percpu_down_write(&power_lock);
		list_for_each_entry(ssd, &ssds, list)
			ssd_power_on(ssd);
		percpu_up_write(&power_lock);
		mutex_unlock(&ssds_lock);
	} else if (argc == 2 && !strcasecmp(argv[0], "hold")) {
		ssd_hold(ssd, kind);
	} else if (argc == 2 && !strcasecmp(argv[0], "hold_all")) {
		mutex_lock(&ssds_lock);
		list_for_each_entry(ssd, &ssds, list)
			ssd_hold(ssd, kind);
		mutex_unlock(&ssds_lock);
	} else if (argc == 3 && !strcasecmp(argv[0], "fail")) {
		assign_bit(kind, &ssd->fails, yes);
	} else if (argc == 3 && !strcasecmp(argv[0], "fail_all")) {
		mutex_lock(&ssds_lock);
		list_for_each_entry(ssd, &ssds, list)
			assign_bit(kind, &ssd->fails, yes);
		mutex_unlock(&ssds_lock);
	} else if (argc == 2 && !strcasecmp(argv[0], "keep_data")) {
		WRITE_ONCE(ssd->drops_data, !yes);
	} else if (argc == 2 && !strcasecmp(argv[0], "tags")) {
		ssd_set_tags(ssd, tags);
	} else if (!strcasecmp(argv[0], "release")) {
		ssd_release(ssd);
	} else if (!strcasecmp(argv[0], "release_all")) {
		ssd_for_all(ssd_release);
	} else if (!strcasecmp(argv[0], "reset_all")) {
		ssd_for_all(ssd_reset);
	} else if (!strcasecmp(argv[0], "erase_all")) {
		ssd_for_all(ssd_erase);
	} else if (!strcasecmp(argv[0], "save_all")) {
		return ssd_try_all(ssd_save);
	} else if (!strcasecmp(argv[0], "restore_all")) {
		return ssd_try_all(ssd_restore);
	} else if (!strcasecmp(argv[0], "forget_all")) {
		ssd_for_all(ssd_forget);
	} else if (!strcasecmp(argv[0], "good")) {
		xa_destroy(&ssd->bad);
	} else if (!strcasecmp(argv[0], "keep")) {
		ssd_hold_no_more(ssd);
	} else if (!strcasecmp(argv[0], "step")) {
		ssd_do_held(ssd, READ_ONCE(ssd->nr_held));
	} else if (!strcasecmp(argv[0], "step_all")) {
		ssd_step_all();
	} else {
		return -EINVAL;
	}
	return 0;
}

static void ssdsim_status(struct dm_target *ti, status_type_t type, unsigned int status_flags,
			  char *result, unsigned int maxlen)
{
	struct ssd *ssd = ti->private;
	struct ssd_time_counts counts;
	unsigned int sz = 0;
	int i;

	switch (type) {
	case STATUSTYPE_INFO:
		ssd_time_count(&ssd->time, &counts);
		mutex_lock(&ssd->lock);
		DMEMIT("%s", ssd->off ? "off" : "on");
		for (i = 0; i < SSD_NR_COUNTERS; i++)
			DMEMIT(" %llu", ssd->counters[i]);
		DMEMIT(" %llu", counts.busy_us);
		DMEMIT(" %lu %lu", ssd->nr_cached, ssd->nr_stored);
		for (i = 0; i < SSD_NR_STALL_KINDS; i++)
			DMEMIT(" %llu", counts.stalls[i]);
		DMEMIT(" %llu %u", counts.stalled_us, READ_ONCE(ssd->nr_held));
		mutex_unlock(&ssd->lock);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%llu", ssd->seed);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

/* There is nothing below; but without this function 6.1 asks for no limits. */
static int ssdsim_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				  void *data)
{
	return 0;
}

static void ssdsim_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	limits->logical_block_size = SECTOR_SIZE;
	limits->physical_block_size = SSD_PAGE_SIZE;
	limits->io_min = SSD_PAGE_SIZE;
	limits->discard_granularity = SSD_PAGE_SIZE;
	/* Which of them counts depends on the kernel. */
	limits->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->max_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->max_write_zeroes_sectors = UINT_MAX >> SECTOR_SHIFT;
}

static int ssdsim_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct ssd *ssd;

	if (argc > 1) {
		ti->error = "Too many arguments: at most a seed";
		return -EINVAL;
	}

	ssd = kzalloc(sizeof(*ssd), GFP_KERNEL);
	if (!ssd) {
		ti->error = "Cannot allocate the device";
		return -ENOMEM;
	}
	if (argc && kstrtou64(argv[0], 0, &ssd->seed)) {
		ti->error = "The seed is not a number";
		kfree(ssd);
		return -EINVAL;
	}

	mutex_init(&ssd->lock);
	xa_init(&ssd->slots);
	xa_init(&ssd->bad);
	xa_init(&ssd->saved);
	INIT_LIST_HEAD(&ssd->cache);
	spin_lock_init(&ssd->hold_lock);
	init_waitqueue_head(&ssd->freed);
	ssd_time_init(&ssd->time);
	mutex_lock(&ssds_lock);
	list_add_tail(&ssd->list, &ssds);
	mutex_unlock(&ssds_lock);

	ti->private = ssd;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->num_discard_bios = 1;
	ti->discards_supported = true;
	ti->num_write_zeroes_bios = 1;
	ti->per_io_data_size = sizeof(struct ssd_io);
	return 0;
}

static void ssdsim_dtr(struct dm_target *ti)
{
	struct ssd *ssd = ti->private;

	mutex_lock(&ssds_lock);
	list_del(&ssd->list);
	mutex_unlock(&ssds_lock);
	ssd_time_exit(&ssd->time);

	ssd_erase(ssd);
	ssd_forget(ssd);
	xa_destroy(&ssd->bad);
	mutex_destroy(&ssd->lock);
	kfree(ssd);
}

static struct target_type ssdsim_target = {
	.name = "ssdsim",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = ssdsim_ctr,
	.dtr = ssdsim_dtr,
	.map = ssdsim_map,
	.presuspend = ssdsim_presuspend,
	.status = ssdsim_status,
	.message = ssdsim_message,
	.iterate_devices = ssdsim_iterate_devices,
	.io_hints = ssdsim_io_hints,
};

static int __init ssdsim_init(void)
{
	return dm_register_target(&ssdsim_target);
}
module_init(ssdsim_init);

static void __exit ssdsim_exit(void)
{
	dm_unregister_target(&ssdsim_target);
}
module_exit(ssdsim_exit);

MODULE_DESCRIPTION("device-mapper simulated SSD, for tests");
MODULE_LICENSE("GPL");
