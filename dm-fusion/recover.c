// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads that a member has failed: what they are to read is reconstructed
 * (reconstruct.h) in memory of our own, and copied.
 *
 * A stripe that is younger than the last commit has one made.  One that the commit after that
 * does not know has died since we looked for the pages: they are elsewhere by then.  Replicas
 * that could not be read are written again, while we hold the block.
 *
 * Memory first, then the gate, then the hold, then the grace reference: who has one of them
 * does not wait for one that comes before.
 */
#include "commit.h"
#include "mode.h"
#include "reconstruct.h"

/* A part of a read: pages of one block that are in the same place. */
struct recover {
	struct fusion_volume *volume;
	u64 block;
	unsigned int page, pages;	/* of the block */
	struct fusion_reconstruct from;
	unsigned int grace;
	u64 number;			/* of the epoch then */
	/* until recover_let_go() */
	u64 in;				/* the stripe whose gate we are in, or FUSION_NO_STRIPE */
	bool held;			/* the block is, by @hold */
	bool committed;			/* since we are in it, or hold the block */
	struct fusion_hold hold;
};

/* Where they are now; with a grace reference. */
static int recover_look(struct recover *r)
{
	int e = fusion_reconstruct_look(&r->from, r->volume, r->block, r->page, r->pages,
					&r->grace);

	/* what they are in is known to the commit of this one, or before */
	r->number = READ_ONCE(r->volume->pool->epochs.current_number);
	return e;
}

static void recover_leave(struct recover *r)
{
	fusion_grace_leave(&r->volume->pool->grace, r->grace);
}

/* ---- replicas ---- */

/* Copy replica @good to those that cannot be read, though their members are not out. */
static void repair_others(struct fusion_reconstruct *from, int good)
{
	struct fusion_pool *pool = from->stripe->pool;
	int i, count = fusion_replicas(from);

	for (i = 0; i < count; i++) {
		if (fusion_member_out(fusion_member_at(pool, fusion_replica(from, i))))
			continue;
		if (i < good || (i > good &&
				 !fusion_replica_io(from, 1, i, REQ_OP_READ)))
			fusion_reconstruct_count(from, fusion_replica(from, i),
						 fusion_replica_io(from, 0, i,
								   REQ_OP_WRITE));
	}
}

/*
 * Some replica could not be read: the pages are copied to all of which that is so,
 * wherever they are by now.  Unless somebody has the block: what he waits for is not what the
 * reader waits for, and the next that reads them does it.
 */
static void repair_replicas(struct recover *r)
{
	struct fusion_pool *pool = r->volume->pool;
	struct fusion_hold hold;
	int good;

	if (!fusion_hold_take(&pool->locks, &hold, fusion_block_key(r->volume->id, r->block),
			      FUSION_HOLD_EXCLUSIVE, NULL))
		return;
	if (recover_look(r))
		goto out;
	good = r->from.src.place && !r->from.unsynced && fusion_pool_writable(pool) ?
		fusion_replica_read(&r->from) : -EIO;
	if (good >= 0)
		repair_others(&r->from, good);
	recover_leave(r);
out:
	fusion_hold_drop(&pool->locks, &hold);
}

/* ---- all of it ---- */

/*
 * -EAGAIN: when we are in the gate of its stripe; -ENODATA: the last commit does not know
 * that; -EIO.
 */
static int recover_try(struct recover *r)
{
	u64 place = r->from.src.place;

	if (!place || fusion_replica_read(&r->from) >= 0)
		return 0;
	if (r->from.unsynced || fusion_replicas(&r->from) > 1)
		return -EIO;
	return fusion_place_stripe(place) == r->in ?
		fusion_reconstruct_stripe(&r->from) : -EAGAIN;
}

static void recover_let_go(struct recover *r)
{
	struct fusion_pool *pool = r->volume->pool;

	if (r->held)
		fusion_hold_drop(&pool->locks, &r->hold);
	if (r->in != FUSION_NO_STRIPE)
		fusion_gate_leave(&pool->gates, r->in);
	r->in = FUSION_NO_STRIPE;
	r->held = false;
	r->committed = false;
}

/* Into the gate of the stripe that they are in, and out of that of another. */
static int recover_enter(struct recover *r)
{
	u64 id = fusion_place_stripe(r->from.src.place);
	int e;

	recover_let_go(r);
	e = fusion_gate_enter_wait(&r->volume->pool->gates, id);
	if (!e)
		r->in = id;
	return e;
}

/*
 * The last commit does not know the stripe: have one made.  If that has been, the stripe has
 * died since we looked, and another commit has been made of that: they are elsewhere by now,
 * where the same may happen again.  But not while we hold the block.
 */
static int recover_commit(struct recover *r)
{
	struct fusion_pool *pool = r->volume->pool;

	if (!r->committed) {
		r->committed = true;
		return fusion_commit_epoch(pool, r->number);
	}
	if (r->held)
		return -EIO;
	fusion_hold_take_wait(&pool->locks, &r->hold,
			      fusion_block_key(r->volume->id, r->block),
			      FUSION_HOLD_EXCLUSIVE);
	r->held = true;
	r->committed = false;
	return 0;
}

/* As many of the first pages as are in one place. */
static int recover_part(struct recover *r)
{
	int e;

	do {
		e = recover_look(r);
		if (e)
			break;
		e = recover_try(r);
		recover_leave(r);
		if (e == -ENODATA)
			e = recover_commit(r);
		else if (e == -EAGAIN)
			e = recover_enter(r);
		else
			break;
	} while (!e);
	recover_let_go(r);
	return e ? -EIO : 0;
}

static int recover_all(struct recover *r, struct bio *bio, struct bvec_iter iter)
{
	struct fusion_pool *pool = r->volume->pool;
	struct fusion_read_source *src = &r->from.src;
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
		atomic64_add(src->pages, &pool->recovered.pages);
		data = src->place ? r->from.stripe->slot[r->from.slot].data +
			(src->page << FUSION_PAGE_SHIFT) : NULL;
		fusion_reconstruct_copy(bio, &iter, data, src->pages << FUSION_PAGE_SHIFT);
		if (!r->from.unsynced && fusion_replicas(&r->from) > 1)
			repair_replicas(r);
	}
	return 0;
}

void fusion_read_recover(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct recover r = { .volume = io->volume, .in = FUSION_NO_STRIPE };
	struct fusion_stripe_pool *sp;
	int e = -ENOMEM;

	sp = fusion_stripe_background(io->volume->pool, io->volume->class);
	if (sp) {
		r.from.stripe = fusion_stripe_get(sp);
		e = recover_all(&r, io->bio, io->iter);
		fusion_stripe_put(sp, r.from.stripe);
	}
	fusion_end(io->bio, e ? BLK_STS_IOERR : BLK_STS_OK);
}
