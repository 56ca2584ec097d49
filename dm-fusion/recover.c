// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads that a member has failed.
 *
 * Every page is elsewhere, too, as long as no more members fail it than its class has
 * parities: in other replicas, or in its stripe, of which the rest says what it is, while
 * nobody writes to that in place: who is in its gate beside others keeps destage out
 * (gate.h).  Which slots parity covers is what the last commit says; a stripe that is
 * younger has a commit made.
 *
 * What is read once more, or computed, is in memory of our own, and copied.  Then it is
 * written to where it could not be read from.  What can be lost by that: nothing.  In a
 * stripe it is what is there, or is to be, and stays so as long as we are in the gate and
 * have a grace reference; in replicas, as long as we hold the block.
 *
 * Memory first, then the hold or the gate, then the grace reference: who has one of them
 * does not wait for one that comes before.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "selection.h"
#include "stripe.h"

#define DM_MSG_PREFIX "fusion"

/* A part of a read: pages of one block that are in the same place. */
struct recover {
	struct fusion_volume *volume;
	struct fusion_stripe *stripe;	/* memory */
	u64 block;
	unsigned int page, pages;	/* of the block */
	struct fusion_read_source src;
	bool unsynced;			/* only the primary counts */
	unsigned int grace;
	u64 number;			/* of the epoch then */
	unsigned int slot;		/* of the memory, that they are in */
};

static struct fusion_pool *recover_pool(struct recover *r)
{
	return r->volume->pool;
}

/* Where they are now; with a grace reference. */
static int recover_look(struct recover *r)
{
	struct fusion_pool *pool = recover_pool(r);
	enum fusion_read_find found;

	r->grace = fusion_grace_enter(&pool->grace);
	for (;;) {
		found = fusion_read_find(pool, r->volume->id, r->block, r->page,
					 r->pages, &r->src);
		if (found != FUSION_READ_MISS)
			break;
		if (fusion_volume_load(r->volume, r->block, true)) {
			fusion_grace_leave(&pool->grace, r->grace);
			return -EIO;
		}
	}
	r->unsynced = found == FUSION_READ_UNSYNCED;
	/* what they are in is known to the commit of this one, or before */
	r->number = READ_ONCE(pool->epochs.current_number);
	return 0;
}

static void recover_leave(struct recover *r)
{
	fusion_grace_leave(&recover_pool(r)->grace, r->grace);
}

/* Of each of @slots, the pages at the source's page, in @id; those that failed. */
static u64 recover_io(struct recover *r, u64 id, u64 slots, blk_opf_t opf)
{
	u64 left, failed = 0;

	fusion_stripe_begin(r->stripe, NULL);
	for (left = slots; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		fusion_stripe_submit(r->stripe, i, fusion_place(id, i),
				     r->src.page, r->src.pages, opf);
	}
	if (!fusion_stripe_end(r->stripe))
		return 0;
	for (left = slots; left; left &= left - 1)
		if (r->stripe->slot[fusion_ctz64(left)].bio.bi_status)
			failed |= left & -left;
	return failed;
}

static void recover_repaired(struct recover *r, u64 place, bool repaired)
{
	struct fusion_pool *pool = recover_pool(r);
	u32 member;

	fusion_space_locate(&pool->space, place, &member);
	if (repaired)
		atomic64_add(r->src.pages, &pool->recovered.repaired);
	DMERR_LIMIT("%s: %pg: %u pages could not be read, and have been %s",
		    fusion_pool_name(pool), pool->member[member].bdev,
		    r->src.pages, repaired ? "written again" :
		    "read elsewhere");
}

/* ---- replicas ---- */

static u64 recover_place(const struct recover *r, unsigned int i)
{
	return i ? r->src.mirror[i - 1] : r->src.place;
}

static unsigned int recover_places(const struct recover *r)
{
	unsigned int i, most = r->volume->class->p + 1;

	for (i = 1; i < most && r->src.mirror[i - 1]; i++)
		;
	return i;
}

/* Replica @i, to or from the memory of slot @slot. */
static bool replica_io(struct recover *r, unsigned int slot, unsigned int i,
		       blk_opf_t opf)
{
	fusion_stripe_begin(r->stripe, NULL);
	fusion_stripe_submit(r->stripe, slot, recover_place(r, i), r->src.page,
			     r->src.pages, opf);
	return !fusion_stripe_end(r->stripe);
}

/* The first that can be read, of those that count; its number, or their count: none. */
static unsigned int recover_replica(struct recover *r)
{
	unsigned int count = r->unsynced ? 1 : recover_places(r), i;

	r->slot = 0;
	for (i = 0; i < count && !replica_io(r, 0, i, REQ_OP_READ); i++)
		;
	return i;
}

/*
 * Some replica could not be read: the pages are copied to all of which that is so,
 * wherever they are by now.
 */
static void repair_replicas(struct recover *r)
{
	struct fusion_pool *pool = recover_pool(r);
	struct fusion_hold hold;
	unsigned int good, i;

	fusion_hold_take_wait(&pool->locks, &hold,
			      fusion_block_key(r->volume->id, r->block),
			      FUSION_HOLD_EXCLUSIVE);
	if (recover_look(r))
		goto out;
	good = r->src.place && !r->unsynced && fusion_pool_writable(pool) ?
		recover_replica(r) : recover_places(r);
	if (good < recover_places(r))
		for (i = 0; i < recover_places(r); i++)
			if (i < good || (i > good &&
					 !replica_io(r, 1, i, REQ_OP_READ)))
				recover_repaired(r, recover_place(r, i),
						 replica_io(r, 0, i, REQ_OP_WRITE));
	recover_leave(r);
out:
	fusion_hold_drop(&pool->locks, &hold);
}

/* ---- stripes ---- */

/* The data slots in @lost are in memory: write them, too. */
static void repair_stripe(struct recover *r, u64 id, u64 lost)
{
	u64 failed;

	if (!fusion_pool_writable(recover_pool(r)))
		return;
	failed = recover_io(r, id, lost, REQ_OP_WRITE);
	for (; lost; lost &= lost - 1)
		recover_repaired(r, fusion_place(id, fusion_ctz64(lost)),
				 !(failed & lost & -lost));
}

/*
 * What is at the source from the rest of the stripe, whose gate we are in.  -ENODATA:
 * the last commit does not know it yet; -EIO.
 */
static int recover_stripe(struct recover *r)
{
	u64 id = fusion_place_stripe(r->src.place), written, have = 0, want;
	u64 lost = 1ULL << fusion_place_slot(r->src.place), failed;
	struct fusion_class *class = r->volume->class;
	struct fusion_disk_stripe disk;
	int e;

	e = fusion_md_read_stripe(recover_pool(r)->md, id, &disk);
	if (e == -ENODATA || (!e && disk.state != FUSION_STRIPE_RAID))
		return -ENODATA;
	written = le64_to_cpu(disk.written);
	if (e || lost & ~written || written & ~fusion_mask(0, class->d))
		return -EIO;
	/* rows that a start could not write again may be torn */
	if (fusion_md_read_rows(recover_pool(r)->md, id, r->src.page,
				r->src.pages) != -ENODATA)
		return -EIO;
	for (;;) {
		want = fusion_recover_sources(written, lost, class->d, class->p);
		if (!want)
			return -EIO;
		if (!(want & ~have))
			break;
		failed = recover_io(r, id, want & ~have, REQ_OP_READ);
		have |= want & ~failed;
		lost |= failed;
	}
	lost &= written;
	fusion_stripe_recover(r->stripe, lost, want, r->src.page, r->src.pages);
	repair_stripe(r, id, lost);
	return 0;
}

/* ---- all of it ---- */

/* -EAGAIN: when we are in the gate of its stripe; -ENODATA: after a commit; -EIO. */
static int recover_try(struct recover *r, u64 in)
{
	unsigned int count = recover_places(r);

	if (!r->src.place || recover_replica(r) < (r->unsynced ? 1 : count))
		return 0;
	if (r->unsynced || count > 1)
		return -EIO;
	r->slot = fusion_place_slot(r->src.place);
	return fusion_place_stripe(r->src.place) == in ? recover_stripe(r) : -EAGAIN;
}

/* As many of the first pages as are in one place: r->src.pages, in r->slot. */
static int recover_part(struct recover *r)
{
	struct fusion_pool *pool = recover_pool(r);
	u64 in = FUSION_NO_STRIPE;
	bool committed = false;
	int e;

	do {
		e = recover_look(r);
		if (e)
			break;
		e = recover_try(r, in);
		recover_leave(r);
		if (e == -ENODATA) {
			e = committed ? -EIO : fusion_commit_epoch(pool, r->number);
			committed = true;
		} else if (e == -EAGAIN) {
			if (in != FUSION_NO_STRIPE)
				fusion_gate_leave(&pool->gates, in);
			in = fusion_place_stripe(r->src.place);
			e = fusion_gate_enter_wait(&pool->gates, in);
			if (e)
				in = FUSION_NO_STRIPE;
			committed = false;
		} else {
			break;
		}
	} while (!e);
	if (in != FUSION_NO_STRIPE)
		fusion_gate_leave(&pool->gates, in);
	return e ? -EIO : 0;
}

/* To the pages of @bio from @iter on, which goes on behind them; @data NULL: zeros. */
static void recover_copy(struct bio *bio, struct bvec_iter *iter, const void *data,
			 unsigned int bytes)
{
	while (bytes) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);
		unsigned int n = min(bv.bv_len, bytes);

		if (data) {
			memcpy_to_page(bv.bv_page, bv.bv_offset, data, n);
			data += n;
		} else {
			memzero_page(bv.bv_page, bv.bv_offset, n);
		}
		bio_advance_iter_single(bio, iter, n);
		bytes -= n;
	}
}

static int recover_all(struct recover *r, struct bio *bio, struct bvec_iter iter)
{
	struct fusion_pool *pool = recover_pool(r);
	void *data;
	int e;

	while (iter.bi_size) {
		r->block = fusion_sector_block(pool, iter.bi_sector);
		r->page = fusion_sector_page(pool, iter.bi_sector);
		r->pages = min_t(unsigned int, iter.bi_size >> FUSION_PAGE_SHIFT,
				 pool->block_pages - r->page);
		e = recover_part(r);
		/* of several members each may have other pages that cannot be read */
		if (e && r->pages > 1) {
			r->pages = 1;
			e = recover_part(r);
		}
		if (e)
			return e;
		atomic64_add(r->src.pages, &pool->recovered.pages);
		data = r->src.place ? r->stripe->slot[r->slot].data +
			(r->src.page << FUSION_PAGE_SHIFT) : NULL;
		recover_copy(bio, &iter, data, r->src.pages << FUSION_PAGE_SHIFT);
		if (!r->unsynced && recover_places(r) > 1)
			repair_replicas(r);
	}
	return 0;
}

void fusion_read_recover(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct recover r = { .volume = io->volume };
	struct fusion_stripe_pool *sp;
	int e = -ENOMEM;

	sp = fusion_stripe_background(io->volume->pool, io->volume->class);
	if (sp) {
		r.stripe = fusion_stripe_get(sp);
		e = recover_all(&r, io->bio, io->iter);
		fusion_stripe_put(sp, r.stripe);
	}
	fusion_end(io->bio, e ? BLK_STS_IOERR : BLK_STS_OK);
}
