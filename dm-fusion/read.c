// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads: a lookup and a remap, under a grace reference that keeps the place
 * from being reused until the read has ended.  What fails is recover.c's.
 */
#include "budget.h"
#include "io.h"

/* The first of @pages pages, from @page on, is patched: by @patches. */
static void read_find_patch(const struct fusion_patches *patches,
			    unsigned int page, unsigned int pages,
			    struct fusion_read_source *src)
{
	const struct fusion_patch *patch = fusion_patch_of(patches, page);
	u64 place[FUSION_MAX_REPLICAS];

	src->page = fusion_patch_at(patch);
	src->pages = fusion_patches_run(patches, page, pages);
	fusion_patch_slots(patch, place);
	src->place = place[0];
	src->mirror[0] = place[1];
	src->mirror[1] = place[2];
}

enum fusion_read_find fusion_read_find(struct fusion_pool *pool, u32 volume,
				       u64 block, unsigned int page,
				       unsigned int pages,
				       struct fusion_read_source *src)
{
	struct fusion_overlay *ov;
	enum fusion_read_find found = FUSION_READ_FOUND;
	u64 entry, mask;

	src->page = page;
	src->pages = pages;
	src->mirror[0] = 0;
	rcu_read_lock();
	entry = fusion_map_entry(&pool->map, volume, block);
	if (entry == FUSION_ENTRY_MISS) {
		rcu_read_unlock();
		return FUSION_READ_MISS;
	}
	ov = fusion_entry_overlay(entry);
	if (!ov) {
		src->place = fusion_entry_place(entry);
	} else if (ov->patches) {
		const struct fusion_patches *patches = &ov->patches->patches;

		src->pages = fusion_mask_run(patches->mask, page, pages);
		src->place = READ_ONCE(ov->base);
		if (patches->mask & (1ULL << page)) {
			read_find_patch(patches, page, src->pages, src);
			if (fusion_unsynced(pool, patches->generation))
				found = FUSION_READ_UNSYNCED;
		}
	} else {
		/*
		 * The base before the mask: a base is dropped only when the
		 * mask is full, so that a stale mask never meets no base.
		 */
		u64 base = smp_load_acquire(&ov->base);

		mask = READ_ONCE(ov->top.mask);
		src->pages = fusion_mask_run(mask, page, pages);
		if (mask & (1ULL << page)) {
			src->place = ov->top.place[0];
			src->mirror[0] = ov->top.place[1];
			src->mirror[1] = ov->top.place[2];
			if (fusion_unsynced(pool, READ_ONCE(ov->top.generation)))
				found = FUSION_READ_UNSYNCED;
		} else {
			src->place = base;
		}
	}
	rcu_read_unlock();
	return found;
}

static int read_burden(struct fusion_pool *pool, u64 place)
{
	return fusion_member_burden(fusion_member_at(pool, place));
}

/* Of the replicas, take the one on the least burdened member. */
static void read_choose(struct fusion_pool *pool, struct fusion_read_source *src)
{
	int first, least, burden;
	unsigned int i;

	if (!src->mirror[0])
		return;
	first = read_burden(pool, src->place);
	least = first;
	for (i = 0; i < FUSION_MAX_PARITY && src->mirror[i]; i++) {
		burden = read_burden(pool, src->mirror[i]);
		if (burden < least) {
			least = burden;
			src->place = src->mirror[i];
		}
	}
	fusion_monitor_chose(&pool->monitor, first, least, false);
}

/* Of the replicas, take the first on a member that is not out, and no other. */
static void read_first(struct fusion_pool *pool, struct fusion_read_source *src)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_PARITY && src->mirror[i]; i++) {
		if (!fusion_member_out(fusion_member_at(pool, src->place)))
			break;
		src->place = src->mirror[i];
	}
	src->mirror[0] = 0;
}

/* All pages of @io's clone are nowhere.  DM_MAPIO_*. */
static int read_zeros(struct fusion_io *io)
{
	io->kind = FUSION_IO_READ;
	zero_fill_bio(io->bio);
	bio_endio(io->bio);
	return DM_MAPIO_SUBMITTED;
}

/* Send it to @m, which it is aimed at.  DM_MAPIO_*. */
static int read_send(struct fusion_io *io, struct fusion_member *m)
{
	io->kind = FUSION_IO_READ;
	if (likely(fusion_member_start_read(m, io->grace, &io->ticket))) {
		io->member = m;
		if (!fusion_member_out(m))
			return DM_MAPIO_REMAPPED;
	}
	fusion_end(io->bio, BLK_STS_IOERR);
	return DM_MAPIO_SUBMITTED;
}

/* ---- parts ---- */

/* In a worker a clone cannot be cut any more: parts in other places are sent for it. */
struct read_part {
	struct fusion_pool *pool;
	struct fusion_member *member;
	unsigned int grace;
	struct fusion_ticket ticket;
	struct bio bio;			/* last: the bio set's */
};

static void part_end_io(struct bio *part)
{
	struct read_part *p = container_of(part, struct read_part, bio);
	struct bio *bio = part->bi_private;

	if (!fusion_member_end_read(p->member, &p->ticket))
		part->bi_status = BLK_STS_IOERR;
	else
		fusion_grace_leave(&p->pool->grace, p->grace);
	if (part->bi_status)
		bio->bi_status = part->bi_status;
	bio_put(part);
	bio_endio(bio);
}

/* Send @part of @bio, whose pages are at @src, with a grace reference. */
static void part_send(struct fusion_pool *pool, struct bio *bio, struct bio *part,
		      const struct fusion_read_source *src, unsigned int grace)
{
	struct read_part *p = container_of(part, struct read_part, bio);

	if (!src->place) {
		zero_fill_bio(part);
	} else {
		p->pool = pool;
		p->grace = grace;
		p->member = fusion_aim(pool, part, src->place, src->page);
		part->bi_private = bio;
		part->bi_end_io = part_end_io;
		bio_inc_remaining(bio);
		if (fusion_member_start_read(p->member, grace, &p->ticket)) {
			fusion_member_submit(p->member, part);
			return;
		}
		bio->bi_status = BLK_STS_IOERR;
		bio_endio(bio);
	}
	fusion_grace_leave(&pool->grace, grace);
	bio_put(part);
}

/* Where the pages of @bio that are first are: with a grace reference.  -EIO. */
static int part_find(struct fusion_io *io, struct bio *bio, struct fusion_read_source *src,
		     unsigned int *grace)
{
	struct fusion_pool *pool = io->volume->pool;
	u64 block = fusion_sector_block(pool, bio->bi_iter.bi_sector);
	enum fusion_read_find found;

	for (;;) {
		*grace = fusion_grace_enter(&pool->grace);
		found = fusion_read_find(pool, io->volume->id, block,
					 fusion_sector_page(pool, bio->bi_iter.bi_sector),
					 bio_sectors(bio) / FUSION_PAGE_SECTORS, src);
		if (found != FUSION_READ_MISS)
			break;
		fusion_grace_leave(&pool->grace, *grace);
		if (fusion_volume_load(io->volume, block, true))
			return -EIO;
	}
	if (found == FUSION_READ_FOUND)
		read_choose(pool, src);
	else
		/* only the first counts if it could not be synced */
		read_first(pool, src);
	return 0;
}

static void read_parts(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct bio *bio = io->bio, *part;
	struct fusion_read_source src;
	unsigned int sectors;

	bio->bi_opf &= ~REQ_POLLED;	/* nobody polls for the parts */
	do {
		if (part_find(io, bio, &src, &io->grace)) {
			/* after the parts */
			io->kind = FUSION_IO_OTHER;
			fusion_end(bio, BLK_STS_IOERR);
			return;
		}
		sectors = bio_sectors(bio);
		if (src.pages * FUSION_PAGE_SECTORS < sectors) {
			io->kind = FUSION_IO_PARTS;
			part = bio_split(bio, src.pages * FUSION_PAGE_SECTORS, GFP_NOIO,
					 &pool->bios);
		} else if (io->kind == FUSION_IO_PARTS) {
			part = bio_alloc_clone(bio->bi_bdev, bio, GFP_NOIO, &pool->bios);
		} else {
			if (!src.place)
				read_zeros(io);
			else if (read_send(io, fusion_aim(pool, bio, src.place, src.page)) ==
				 DM_MAPIO_REMAPPED)
				submit_bio_noacct(bio);
			return;
		}
		part_send(pool, bio, part, &src, io->grace);
	} while (src.pages * FUSION_PAGE_SECTORS < sectors);
	bio_endio(bio);
}

void fusion_read_again(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);

	io->iter = io->bio->bi_iter;
	read_parts(io);
}

/*
 * Is what only @m has better computed, as @m is unresponsive; or as it is silent, as long as there are not
 * too many of these?
 */
static bool read_is_slow(struct fusion_io *io, const struct fusion_member *m)
{
	struct fusion_pool *pool = io->volume->pool;

	if (unlikely(READ_ONCE(m->pulse.unresponsive)))
		return true;
	return unlikely(fusion_pulse_silent(&m->pulse)) && !fusion_member_out(m) &&
		READ_ONCE(pool->reclaim.tunables.hedge) &&
		fusion_budget_take(pool, io->volume->class->d);
}

/* Sync the block before its replicas are read. */
static void read_unsynced_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);

	fusion_resync_block(io->volume, io->block);
	fusion_unhold(io);
	fusion_read_again(work);
}

int fusion_read_map(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct bio *bio = io->bio;
	unsigned int total = bio_sectors(bio) / FUSION_PAGE_SECTORS;
	u64 block = fusion_sector_block(pool, bio->bi_iter.bi_sector);
	unsigned int page = fusion_sector_page(pool, bio->bi_iter.bi_sector);
	unsigned int pages = min(total, pool->block_pages - page);
	struct fusion_read_source src;
	enum fusion_read_find found;
	struct fusion_member *m;

	fusion_count(pool, reads);
	io->grace = fusion_grace_enter(&pool->grace);
	do {
		found = fusion_read_find(pool, io->volume->id, block, page,
					 pages, &src);
	} while (found == FUSION_READ_MISS &&
		 !fusion_volume_load(io->volume, block, false));

	if (unlikely(found != FUSION_READ_FOUND)) {
		fusion_grace_leave(&pool->grace, io->grace);
		if (pages < total)
			dm_accept_partial_bio(bio, pages * FUSION_PAGE_SECTORS);
		io->block = block;
		if (found == FUSION_READ_MISS)
			fusion_defer(io, pool->io_wq, fusion_read_again);
		else
			fusion_defer_held(io, read_unsynced_work);
		return DM_MAPIO_SUBMITTED;
	}
	if (src.pages < total)
		dm_accept_partial_bio(bio, src.pages * FUSION_PAGE_SECTORS);
	if (!src.place)
		return read_zeros(io);
	io->iter = bio->bi_iter;
	read_choose(pool, &src);
	m = fusion_aim(pool, bio, src.place, src.page);
	if (!src.mirror[0] && read_is_slow(io, m)) {
		bio->bi_iter = io->iter;
		fusion_grace_leave(&pool->grace, io->grace);
		fusion_defer(io, pool->recover_wq, fusion_read_around);
		return DM_MAPIO_SUBMITTED;
	}
	return read_send(io, m);
}

int fusion_read_end(struct fusion_io *io, blk_status_t *status)
{
	struct fusion_pool *pool = io->volume->pool;
	bool good = !*status;

	if (io->kind == FUSION_IO_READ) {
		if (io->member && !fusion_member_end_read(io->member, &io->ticket))
			good = false;
		else
			fusion_grace_leave(&pool->grace, io->grace);
	}
	if (likely(good))
		return DM_ENDIO_DONE;
	/* it is answered from elsewhere */
	io->kind = FUSION_IO_OTHER;
	fusion_defer(io, pool->recover_wq, fusion_read_recover);
	return DM_ENDIO_INCOMPLETE;
}

int fusion_read_init(struct fusion_pool *pool)
{
	return bioset_init(&pool->bios, BIO_POOL_SIZE, offsetof(struct read_part, bio), 0);
}

void fusion_read_exit(struct fusion_pool *pool)
{
	bioset_exit(&pool->bios);
}
