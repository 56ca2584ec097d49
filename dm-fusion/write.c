// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes within a block: in place, to a patch, or to a new top.
 *
 * What can be lost:
 *
 * In place, the pages go to all replicas at once.  A power cut leaves each
 * page of each replica old or new, as for any disk; the replicas may differ
 * until resync copies the primary over the mirrors.  Pages that the top did not
 * hold before enter its mask in the epoch after they are written: until that
 * commit they are read from where they were.
 *
 * A new top's pages go to paired slots that nothing refers to.  When all are
 * written, the map in core is switched, the change enters the epoch and
 * the write is acknowledged.  Until the commit, a power cut leaves the old
 * mapping, whose stripes are not reused before; after it, the new one, whose
 * data the commit has flushed.
 *
 * A patch is for a few pages what a new top is for more: the block keeps its base,
 * and the patches that it had of other pages.  It has a top or patches: when there
 * would be too many, they become a top with it (absorb.h).
 *
 * Where a member is out, and a replica was on it, a write in place would be in fewer of them
 * than a new one: the top moves first, or the pages are patched in another place.
 *
 * A write that a member fails waits until that is known to have failed (failure.h).  If it
 * cannot be done without, the write is answered with an error; if it was in place, the
 * replicas may differ: the top is marked for resync, first.
 */
#include "absorb.h"
#include "bounce.h"
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "patch-set.h"
#include "spare.h"
#include "waiters.h"

/* What an overlay said, copied under RCU. */
struct write_target {
	bool base;			/* without a top */
	u64 epoch;
	/* of a block with a top, or if the pages are patched in one place: there */
	bool in_place;
	bool lacking;			/* something may have been nowhere when we looked */
	bool missed;			/* unless that has a copy less than it need have */
	u64 place[FUSION_MAX_REPLICAS];
	unsigned int page;
	u64 mask;			/* pages of the top, or patches */
	bool patched;
	u32 generation;			/* of the patches */
};

static int write_step(struct fusion_io *io, bool may_block);

/* Run the path again, in a worker, where it may block. */
static void write_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);

	if (write_step(io, true) == DM_MAPIO_REMAPPED)
		submit_bio_noacct(io->bio);
}

static int write_defer(struct fusion_io *io)
{
	fusion_defer(io, io->volume->pool->io_wq, write_work);
	return DM_MAPIO_SUBMITTED;
}

static void write_granted(struct fusion_hold *hold)
{
	struct fusion_io *io = container_of(hold, struct fusion_io, hold);

	io->held = true;
	write_defer(io);
}

static int write_fail(struct fusion_io *io, blk_status_t status)
{
	fusion_unhold(io);
	io->kind = FUSION_IO_OTHER;
	fusion_end(io->bio, status);
	return DM_MAPIO_SUBMITTED;
}

static void write_retry(struct fusion_waiter *w)
{
	write_defer(container_of(w, struct fusion_io, waiter));
}

static void write_wait_failed(struct fusion_waiter *w, blk_status_t status)
{
	write_fail(container_of(w, struct fusion_io, waiter), status);
}

/* The hold would be in the way of others. */
static void write_let_go(struct fusion_io *io)
{
	fusion_unhold(io);
	io->waiter.retry = write_retry;
	io->waiter.fail = write_wait_failed;
}

/* Let the block go and wait for room in the epoch. */
static int write_wait_room(struct fusion_io *io)
{
	write_let_go(io);
	fusion_wait_for_room(io->volume->pool, &io->waiter);
	return DM_MAPIO_SUBMITTED;
}

/* As above, for space; @grows: for a block that is not there yet. */
static int write_wait(struct fusion_io *io, bool grows)
{
	write_let_go(io);
	io->waiter.grows = grows;
	io->waiter.block = FUSION_NO_BLOCK;
	fusion_wait_for_space(io->volume->pool, &io->waiter, io->volume);
	return DM_MAPIO_SUBMITTED;
}

/* As above, for room in the replicated area; a whole block needs none with others. */
static int write_wait_replicas(struct fusion_io *io)
{
	struct fusion_volume *v = io->volume;

	if (io->pages != fusion_mask(0, v->pool->block_pages))
		return write_wait(io, false);
	write_let_go(io);
	io->waiter.grows = false;
	io->waiter.block = io->block;
	fusion_wait_for_space(v->pool, &io->waiter, v);
	/* @io may be gone; its device is not suspended meanwhile */
	fusion_large_group(v);
	return DM_MAPIO_SUBMITTED;
}

/*
 * Where space is scarce, a replica soon costs more than the time of a stripe that is
 * under way: the whole of a block that is there already, not in a top, waits for others
 * to make the next one with.
 */
static bool write_wants_company(const struct fusion_io *io,
				const struct write_target *t)
{
	struct fusion_volume *v = io->volume;

	return READ_ONCE(v->pool->space.scarce) && t->base &&
		io->pages == fusion_mask(0, v->pool->block_pages) &&
		!io->waiter.alone && atomic_read(&v->large);
}

/* Wait for it; -EAGAIN: there will be none. */
static int write_wait_company(struct fusion_io *io)
{
	struct fusion_volume *v = io->volume;

	write_let_go(io);
	io->waiter.grows = false;
	io->waiter.block = io->block;
	if (!fusion_wait_for_company(&io->waiter, v))
		return -EAGAIN;
	/* @io may be gone; its device is not suspended meanwhile */
	fusion_large_group(v);
	return DM_MAPIO_SUBMITTED;
}

/* As above, for room in the patch area; -EAGAIN: there will be none. */
static int write_wait_patches(struct fusion_io *io)
{
	write_let_go(io);
	if (!fusion_wait_for_patches(io->volume->pool, &io->waiter))
		return -EAGAIN;
	return DM_MAPIO_SUBMITTED;
}

/* ---- sending ---- */

static void mirror_end(struct bio *mirror)
{
	struct fusion_mirror *m = container_of(mirror, struct fusion_mirror, bio);
	struct fusion_io *io = mirror->bi_private;

	if (fusion_write_aside(io->volume->pool, m->member, mirror))
		return;
	fusion_member_end_write(m->member, &m->ticket, mirror);
	/* any of their errors will do */
	if (unlikely(mirror->bi_status))
		WRITE_ONCE(io->status, mirror->bi_status);
	bio_uninit(mirror);
	if (atomic_dec_and_test(&io->pending))
		bio_endio(io->bio);
}

/* Send the copy that is to be at @place, @page pages into the slot. */
static void write_send_mirror(struct fusion_io *io, struct fusion_mirror *m,
			      u64 place, unsigned int page)
{
	struct fusion_pool *pool = io->volume->pool;
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, place, &member);
	m->member = &pool->member[member];
	/* cannot fail: no crypt or integrity context reaches this target */
	bio_init_clone(m->member->bdev, &m->bio, io->bio, GFP_NOIO);
	m->bio.bi_iter.bi_sector = sector + page * FUSION_PAGE_SECTORS;
	m->bio.bi_opf &= ~REQ_POLLED;	/* nobody polls for this one */
	m->bio.bi_private = io;
	m->bio.bi_end_io = mirror_end;
	fusion_member_start_data(m->member, &m->ticket, true);
	fusion_member_submit(m->member, &m->bio);
}

/*
 * Send all copies but one; the clone itself, aimed at the first member that is not
 * out, is the caller's to submit.
 */
static int write_send(struct fusion_io *io, const u64 *place, unsigned int page)
{
	struct fusion_pool *pool = io->volume->pool;
	unsigned int i, mirrors = io->volume->class->p, own = 0;
	struct fusion_mirror *mirror = io->mirror;
	struct bio *bio = io->bio;

	io->kind = FUSION_IO_WRITE;
	io->primary_done = false;
	io->status = BLK_STS_OK;
	if (unlikely(fusion_members_lacking(pool))) {
		while (own < mirrors &&
		       fusion_member_out(fusion_member_at(pool, place[own])))
			own++;
		/* more have failed than can be done without */
		if (fusion_member_out(fusion_member_at(pool, place[own])))
			io->status = BLK_STS_IOERR;
	}
	atomic_set(&io->pending, mirrors + 1);

	for (i = 0; i <= mirrors; i++)
		if (i != own)
			write_send_mirror(io, mirror++, place[i], page);
	io->member = fusion_aim(pool, bio, place[own], page);
	fusion_member_start_data(io->member, &io->ticket, true);
	return DM_MAPIO_REMAPPED;
}

/* The same of a small write from a copy, which may go to another place, too. */
static int write_send_copy(struct fusion_io *io, const u64 *place, unsigned int page)
{
	return likely(fusion_bounce_send(io, place, page)) ? DM_MAPIO_SUBMITTED :
		write_send(io, place, page);
}

/*
 * With FUA it must be found again, too, at @place.  FUA goes down all the same, which saves the commit
 * a flush of these members; if they take it: else each such write would be flushed by itself.
 */
static void write_needs_commit(struct fusion_io *io, const u64 *place)
{
	unsigned int i;

	if (likely(!(io->bio->bi_opf & REQ_FUA)))
		return;
	io->commit = true;
	for (i = 0; i <= io->volume->class->p; i++) {
		struct fusion_member *m = fusion_member_at(io->volume->pool, place[i]);

		if (!fusion_member_out(m) && !bdev_fua(m->bdev))
			io->bio->bi_opf &= ~REQ_FUA;
	}
}

/* Is one of the members that @place is on unresponsive? */
static bool write_is_slow(const struct fusion_io *io, const u64 *place)
{
	struct fusion_pool *pool = io->volume->pool;
	unsigned int i;

	if (likely(!fusion_unresponsive_members(&pool->monitor)))
		return false;
	for (i = 0; i < fusion_set_stripes(io->volume->class); i++)
		if (READ_ONCE(fusion_member_at(pool, place[i])->pulse.unresponsive))
			return true;
	return false;
}

/* Is a write in place to be sent as a copy, as it may be worth a second attempt? */
static bool write_wants_copy(const struct fusion_io *io, const struct write_target *t)
{
	return hweight64(io->pages) >= FUSION_BOUNCE_IN_PLACE || write_is_slow(io, t->place);
}

static int write_in_place(struct fusion_io *io, struct write_target *t,
			  gfp_t gfp)
{
	struct fusion_pool *pool = io->volume->pool;
	int r;

	if (io->pages & ~t->mask) {
		if (unlikely(fusion_commit_crowded(pool)))
			return write_wait_room(io);
		r = fusion_update_prepare(&pool->map, &io->update,
					  io->volume->id, io->block,
					  FUSION_UPDATE_ENTRY, gfp);
		if (r)
			return r;
		write_needs_commit(io, t->place);
	} else if (t->epoch > READ_ONCE(pool->epochs.durable)) {
		write_needs_commit(io, t->place);
	}
	fusion_count(pool, in_place);
	if (!write_wants_copy(io, t))
		return write_send(io, t->place, t->page);
	io->patched = t->patched;
	return write_send_copy(io, t->place, t->page);
}

/* May the pages be patched, with what is patched already? */
static bool write_fits_patches(const struct fusion_io *io,
			       const struct write_target *t)
{
	const struct fusion_pool *pool = io->volume->pool;

	return READ_ONCE(pool->space.patch_limit) && t->base &&
		!READ_ONCE(pool->metadata_short) &&
		hweight64(t->mask | io->pages) <=
		fusion_max_patches(pool->block_pages);
}

/* -EDQUOT: there are no places for patches now. */
static int write_new_patch(struct fusion_io *io, const struct write_target *t,
			   gfp_t gfp, bool may_block)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_class *class = io->volume->class;
	u64 place[FUSION_MAX_REPLICAS];
	int r;

	if (unlikely(fusion_commit_crowded(pool)))
		return write_wait_room(io);
	r = fusion_update_prepare(&pool->map, &io->update, io->volume->id,
				  io->block, FUSION_UPDATE_PATCHES, gfp);
	if (r)
		return r;
	io->set = fusion_patch_draw(&pool->space, class,
				    fusion_block_key(io->volume->id, io->block),
				    hweight64(io->pages), false, &io->patch);
	if (!io->set) {
		fusion_update_cancel(&pool->map, &io->update);
		if (!may_block)
			return -ENOMEM;	/* not to be tried again from here */
		r = fusion_patch_refill(&pool->space, class, false,
					&pool->commit_lock);
		if (!r)
			return -EAGAIN;
		return r == -ENOSPC ? -EDQUOT : r;
	}
	io->patched = true;
	io->generation = t->patched ? t->generation : pool->generation;
	fusion_patch_slots(&io->patch, place);
	write_needs_commit(io, place);
	fusion_count(pool, new_patch);
	return write_send_copy(io, place, fusion_patch_at(&io->patch));
}

/* The patches of the block, or what is there in a copy less than it need be, become a top. */
static void write_absorb_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_pool *pool = io->volume->pool;
	int r = 0;

	fusion_waiter_look(pool, &io->waiter);
	if (fusion_commit_crowded(pool))
		r = fusion_commit(pool);
	if (!r)
		r = fusion_absorb(io);
	if (!r) {
		fusion_count(pool, new_top);
		fusion_write_done(io, BLK_STS_OK);
		return;
	}
	fusion_unhold(io);
	if (r == -EAGAIN || io->moved)
		write_defer(io);
	else if (r == -EDQUOT || r == -ENOSPC)
		write_wait(io, false);
	else
		write_fail(io, errno_to_blk_status(r));
}

static int write_absorb(struct fusion_io *io)
{
	fusion_unhold(io);
	fusion_defer_held(io, write_absorb_work);
	return DM_MAPIO_SUBMITTED;
}

static int write_new_top(struct fusion_io *io, const struct write_target *t,
			 gfp_t gfp, bool may_block)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_class *class = io->volume->class;
	int r;

	if (unlikely(fusion_commit_crowded(pool)))
		return write_wait_room(io);
	fusion_waiter_look(pool, &io->waiter);
	if (unlikely(READ_ONCE(pool->metadata_low)))
		return write_wait(io, false);
	if (unlikely(!fusion_space_may_grow(&pool->space, class)) && !t->base)
		return write_wait(io, true);
	if (unlikely(write_wants_company(io, t)))
		return write_wait_company(io);
	r = fusion_update_prepare(&pool->map, &io->update, io->volume->id,
				  io->block, FUSION_UPDATE_TOP, gfp);
	if (r)
		return r;
	io->set = fusion_set_draw(&pool->space, class,
				  fusion_block_key(io->volume->id, io->block),
				  io->anywhere, &io->top);
	if (!io->set) {
		fusion_update_cancel(&pool->map, &io->update);
		if (!may_block)
			return -ENOMEM;	/* not to be tried again from here */
		r = fusion_set_refill(&pool->space, class, &pool->commit_lock);
		if (!r || !io->anywhere) {
			/* what is on unresponsive members is better than to wait for more */
			io->anywhere = true;
			return -EAGAIN;
		}
		if (r == -EDQUOT)
			return write_wait_replicas(io);
		return r == -ENOSPC ? write_wait(io, false) :
			write_fail(io, errno_to_blk_status(r));
	}
	io->patched = false;
	io->top.mask = io->pages;
	io->top.generation = pool->generation;
	write_needs_commit(io, io->top.place);
	fusion_count(pool, new_top);
	return write_send_copy(io, io->top.place,
			       fusion_sector_page(pool, io->bio->bi_iter.bi_sector));
}

/* ---- the path ---- */

/*
 * Where are the pages in place?  A replica that is nowhere, though it would not be in a
 * stripe that is drawn now, is not written: they are to be elsewhere, if they can.
 */
static void write_look_place(const struct fusion_io *io, struct write_target *t)
{
	struct fusion_pool *pool = io->volume->pool;

	t->missed = unlikely(t->lacking) && !io->moved &&
		fusion_spare_missed(&pool->space, t->place);
	t->in_place = !t->missed;
}

static void write_look_top(const struct fusion_io *io, struct write_target *t,
			   const struct fusion_top *top)
{
	memcpy(t->place, top->place, sizeof(t->place));
	t->page = fusion_ctz64(io->pages);
	t->mask = READ_ONCE(top->mask);
	write_look_place(io, t);
}

static void write_look_patches(const struct fusion_io *io, struct write_target *t,
			       const struct fusion_patches *patches, u64 frozen)
{
	unsigned int page = fusion_ctz64(io->pages), pages = hweight64(io->pages);
	const struct fusion_patch *patch;

	t->patched = true;
	t->mask = patches->mask;
	t->generation = patches->generation;
	if (io->pages & (~t->mask | frozen) ||
	    fusion_patches_run(patches, page, pages) < pages)
		return;
	patch = fusion_patch_of(patches, page);
	fusion_patch_slots(patch, t->place);
	t->page = fusion_patch_at(patch);
	write_look_place(io, t);
}

/* -EAGAIN: the block's chunk is not in the cache. */
static int write_look_now(struct fusion_io *io, struct write_target *t)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_overlay *ov;
	u64 entry;

	rcu_read_lock();
	entry = fusion_map_entry(&pool->map, io->volume->id, io->block);
	if (entry == FUSION_ENTRY_MISS) {
		rcu_read_unlock();
		return -EAGAIN;
	}
	ov = fusion_entry_overlay(entry);
	t->base = entry;
	t->in_place = false;
	t->missed = false;
	t->mask = 0;
	t->patched = false;
	if (ov) {
		/* who waits for the hold has not written yet */
		if (io->held)
			fusion_overlay_touch(ov);
		t->epoch = READ_ONCE(ov->epoch);
		if (likely(!ov->patches))
			write_look_top(io, t, &ov->top);
		else
			write_look_patches(io, t, &ov->patches->patches,
					   READ_ONCE(ov->frozen));
	}
	rcu_read_unlock();
	return 0;
}

static int write_look(struct fusion_io *io, struct write_target *t)
{
	struct fusion_pool *pool = io->volume->pool;
	unsigned int grace;
	int r;

	t->lacking = fusion_members_lacking(pool);
	if (likely(!t->lacking))
		return write_look_now(io, t);
	/* the stripes that are looked at must not go */
	grace = fusion_grace_enter(&pool->grace);
	r = write_look_now(io, t);
	fusion_grace_leave(&pool->grace, grace);
	return r;
}

/*
 * Take the hold that the block's state asks for.  0: held; -EINPROGRESS:
 * write_granted() goes on.
 */
static int write_hold(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct write_target t;
	int r;

	r = write_look(io, &t);
	if (r)
		return r;
	if (!fusion_hold_take(&pool->locks, &io->hold,
			      fusion_block_key(io->volume->id, io->block),
			      t.in_place ? io->pages : FUSION_HOLD_EXCLUSIVE,
			      write_granted))
		return -EINPROGRESS;
	io->held = true;
	return 0;
}

/*
 * What is in place has a copy less than it need have: the top moves first, with all its pages;
 * patches get another place.  If there is none it is written where it is.
 */
static int write_missed(struct fusion_io *io, const struct write_target *t, gfp_t gfp,
			bool may_block)
{
	int r = -EDQUOT;

	if (t->patched && write_fits_patches(io, t))
		r = write_new_patch(io, t, gfp, may_block);
	if (r != -EDQUOT)
		return r;
	io->moved = true;
	return t->patched ? -EAGAIN : write_absorb(io);
}

/*
 * One try: DM_MAPIO_*, or -EAGAIN: look again, or another error, which unless
 * @may_block means to go on in a worker.
 */
static int write_try(struct fusion_io *io, bool may_block)
{
	gfp_t gfp = may_block ? GFP_NOIO : GFP_NOWAIT;
	struct write_target t;
	int r;

	if (unlikely(!fusion_pool_writable(io->volume->pool)))
		return write_fail(io, BLK_STS_IOERR);
	if (!io->held) {
		r = write_hold(io);
		if (r == -EINPROGRESS)
			return DM_MAPIO_SUBMITTED;
		if (r)
			return r;
	}
	/* where the pages are cannot change any more */
	r = write_look(io, &t);
	if (r)
		return r;
	if (t.in_place)
		return write_in_place(io, &t, gfp);
	if (io->hold.pages != FUSION_HOLD_EXCLUSIVE) {
		/* it was there when we looked first, and has been moved */
		fusion_unhold(io);
		return -EAGAIN;
	}
	if (unlikely(t.missed))
		return write_missed(io, &t, gfp, may_block);
	if (write_fits_patches(io, &t)) {
		r = write_new_patch(io, &t, gfp, may_block);
		if (r == -EDQUOT && !io->waiter.unmerged)
			return write_wait_patches(io);
		if (r != -EDQUOT)
			return r;
	}
	if (t.mask & ~io->pages) {
		/* it was another place that could not move */
		io->moved = false;
		return write_absorb(io);
	}
	return write_new_top(io, &t, gfp, may_block);
}

static int write_step(struct fusion_io *io, bool may_block)
{
	struct fusion_pool *pool = io->volume->pool;
	u64 entry;
	int r;

	for (;;) {
		r = write_try(io, may_block);
		if (likely(r >= 0))
			return r;
		if (r != -EAGAIN)
			break;
		rcu_read_lock();
		entry = fusion_map_entry(&pool->map, io->volume->id, io->block);
		rcu_read_unlock();
		if (entry != FUSION_ENTRY_MISS)
			continue;
		r = fusion_volume_load(io->volume, io->block, may_block);
		if (r)
			break;
	}
	if (!may_block)
		return write_defer(io);
	return write_fail(io, errno_to_blk_status(r));
}

int fusion_write_map(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_class *class = io->volume->class;
	struct bio *bio = io->bio;
	sector_t sector = bio->bi_iter.bi_sector;
	unsigned int pages = bio_sectors(bio) / FUSION_PAGE_SECTORS;
	unsigned int page = fusion_sector_page(pool, sector);
	unsigned int blocks = bio_sectors(bio) >> pool->block_shift;

	io->block = fusion_sector_block(pool, sector);
	fusion_waiter_init(&io->waiter);
	io->commit = false;
	io->held = false;
	io->moved = false;
	io->anywhere = false;
	io->update.chunk = NULL;
	io->set = NULL;

	if (!page && blocks > fusion_large_threshold(class)) {
		blocks = min(blocks, class->d);
		if (blocks << pool->block_shift < bio_sectors(bio))
			dm_accept_partial_bio(bio, blocks << pool->block_shift);
		return fusion_large_map(io);
	}
	if (pages > pool->block_pages - page) {
		pages = pool->block_pages - page;
		dm_accept_partial_bio(bio, pages * FUSION_PAGE_SECTORS);
	}
	io->pages = fusion_mask(page, pages);
	return write_step(io, false);
}

/* ---- the end ---- */

/* An in-place write failed: its replicas may differ now. */
static void write_failed_work(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	int r;

	r = fusion_volume_prepare(io->volume, io->block, FUSION_UPDATE_PATCHES,
				  &io->update);
	if (!r) {
		shard = fusion_epoch_enter(&pool->epochs, &flags);
		fusion_update_generation(&pool->map, shard, &io->update, 0);
		fusion_epoch_exit(shard, flags);
		fusion_commit_soon(pool);
	} else {
		fusion_pool_set_mode(pool, FUSION_RO);
	}
	fusion_unhold(io);
	io->kind = FUSION_IO_OTHER;
	fusion_end(io->bio, io->status);
}

/* All replicas are written: record the change. */
static void write_record(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_epoch_shard *shard;
	unsigned long flags;

	shard = fusion_epoch_enter(&pool->epochs, &flags);
	if (io->set && io->patched)
		fusion_update_patch(&pool->map, shard, &io->update, io->pages,
				    &io->patch, io->generation);
	else if (io->set)
		fusion_update_top(&pool->map, shard, &io->update, &io->top,
				  io->top.mask == fusion_mask(0, pool->block_pages));
	else
		fusion_update_pages(&pool->map, shard, &io->update, io->pages);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
}

/* All replicas are written, or *@status says why not.  False: the clone is ended later. */
static bool write_finish(struct fusion_io *io, blk_status_t *status)
{
	struct fusion_pool *pool = io->volume->pool;

	io->kind = FUSION_IO_OTHER;
	if (io->update.chunk) {
		if (!*status)
			write_record(io);
		else
			fusion_update_cancel(&pool->map, &io->update);
	}
	if (io->set) {
		fusion_drawn_put(pool, io->set);
	} else if (unlikely(*status)) {
		io->status = *status;
		fusion_defer(io, pool->io_wq, write_failed_work);
		return false;
	}
	fusion_unhold(io);
	if (unlikely(io->commit) && !*status) {
		fusion_commit_then_end(pool, io->bio);
		return false;
	}
	return true;
}

void fusion_write_done(struct fusion_io *io, blk_status_t status)
{
	if (likely(write_finish(io, &status)))
		fusion_end(io->bio, status);
}

/*
 * The clone ends first when the primary has its copy, and, if a mirror's is
 * not there yet, again when the last one is.
 */
int fusion_write_end(struct fusion_io *io, blk_status_t *status)
{
	struct fusion_pool *pool = io->volume->pool;

	if (!io->primary_done) {
		if (unlikely(*status)) {
			if (fusion_write_aside(pool, io->member, io->bio))
				return DM_ENDIO_INCOMPLETE;
			/* the member may have failed meanwhile: then it is done */
			*status = io->bio->bi_status;
		}
		io->primary_done = true;
		fusion_member_end_write(io->member, &io->ticket, io->bio);
		if (!atomic_dec_and_test(&io->pending))
			return DM_ENDIO_INCOMPLETE;
	}
	if (!*status)
		*status = io->status;
	return write_finish(io, status) ? DM_ENDIO_DONE : DM_ENDIO_INCOMPLETE;
}
