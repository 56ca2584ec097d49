// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scrub.  See scrub.h.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "reconstruct.h"
#include "scrub.h"
#include "scrub-replicas.h"
#include "stripe.h"

#define DM_MSG_PREFIX "fusion"

/* The next RAID stripe from *@id on, and what it takes.  -ENODATA: none. */
static int scrub_next(struct fusion_pool *pool, u64 *id,
		      struct fusion_stripe_pool **sp)
{
	struct fusion_disk_stripe disk;
	int r;

	mutex_lock(&pool->commit_lock);
	do {
		r = fusion_md_next_stripe(pool->md, id, &disk);
	} while (!r && disk.state != FUSION_STRIPE_RAID && ++*id);
	if (!r)
		fusion_md_super(pool->md)->scrub_at = *id;
	if (!r && !fusion_space_place_ok(&pool->space, fusion_place(*id, 0)))
		r = -EIO;
	if (!r) {
		*sp = fusion_stripe_background(pool,
					       fusion_space_class_of(&pool->space, *id));
		r = *sp ? 0 : -ENOMEM;
	}
	mutex_unlock(&pool->commit_lock);
	return r;
}

/* Is something of @id on a member that is out?  Then nothing can be compared. */
static bool scrub_degraded(struct fusion_stripe *stripe, u64 id)
{
	u64 all = fusion_mask(0, stripe->class->k);

	return fusion_slots_in(stripe->pool, id, all) != all;
}

/*
 * Is a member out that the last I/O of one of @slots was sent to?  It was not when we looked:
 * then that may have failed, or not have been done, for no other reason.  It does not come back
 * as long as we have the grace reference.
 */
static bool scrub_failed_meanwhile(const struct fusion_stripe *stripe, u64 slots)
{
	for (; slots; slots &= slots - 1)
		if (fusion_member_out(stripe->slot[fusion_ctz64(slots)].member))
			return true;
	return false;
}

/* All of @slots of @id, to or from the memory; those that failed. */
static u64 scrub_io(struct fusion_stripe *stripe, u64 id, u64 slots, blk_opf_t opf)
{
	struct fusion_reconstruct r = {
		.stripe = stripe,
		.src = { .pages = stripe->pool->block_pages },
	};

	return fusion_slots_io(&r, id, slots, opf);
}

/*
 * Data slot @i of @id could not be read: its pages that cannot be are computed from the
 * others, and written again.  Only these: what can be read may be all there is of it.
 */
static int scrub_recover_slot(struct fusion_stripe *stripe, u64 id, unsigned int i)
{
	struct fusion_reconstruct r = {
		.stripe = stripe,
		.src = { .place = fusion_place(id, i), .pages = 1 },
	};
	int error = 0, e;

	for (; r.src.page < stripe->pool->block_pages; r.src.page++) {
		if (fusion_replica_io(&r, i, 0, REQ_OP_READ))
			continue;
		e = fusion_reconstruct_stripe(&r);
		error = error ?: e;
	}
	return error;
}

/*
 * Of the parity in @slots, some of which could not be read, the pages that cannot be are computed
 * from the data, and written, as far as that can be read.
 */
static int scrub_recover_parity(struct fusion_scrub *scrub, struct fusion_stripe *stripe,
				u64 id, u64 written, u64 slots)
{
	struct fusion_reconstruct r = { .stripe = stripe, .src = { .pages = 1 } };
	bool done = false;
	int error = 0;
	u64 failed;

	if (!fusion_pool_writable(stripe->pool))
		return -EROFS;
	for (; r.src.page < stripe->pool->block_pages; r.src.page++) {
		failed = fusion_slots_io(&r, id, slots, REQ_OP_READ);
		if (!failed)
			continue;
		if (fusion_slots_io(&r, id, written, REQ_OP_READ)) {
			error = -EIO;
			continue;
		}
		/* of all pages, but it is seldom */
		fusion_stripe_parity(stripe, written);
		if (fusion_slots_io(&r, id, failed, REQ_OP_WRITE) ||
		    scrub_failed_meanwhile(stripe, failed))
			error = -EIO;
		else
			done = true;
	}
	if (done)
		WRITE_ONCE(scrub->repaired, scrub->repaired + 1);
	return error;
}

/* All of @failed, which could not be read: also behind what is lost, as other pages may not be. */
static int scrub_recover(struct fusion_scrub *scrub, struct fusion_stripe *stripe, u64 id,
			 u64 written, u64 failed)
{
	u64 left, parity = failed & ~written;
	int error = 0, e;

	for (left = failed & written; left; left &= left - 1) {
		e = scrub_recover_slot(stripe, id, fusion_ctz64(left));
		/* it has died: there is nothing to recover */
		if (e == -ENODATA)
			return e;
		error = error ?: e;
	}
	e = parity ? scrub_recover_parity(scrub, stripe, id, written, parity) : 0;
	return error ?: e;
}

/* Write the parity again, from the data. */
static int scrub_write_parity(struct fusion_scrub *scrub, struct fusion_stripe *stripe,
			      u64 id, u64 written)
{
	u64 parity = fusion_mask(stripe->class->d, stripe->class->p);

	if (!fusion_pool_writable(stripe->pool))
		return -EROFS;
	if (scrub_io(stripe, id, written, REQ_OP_READ))
		return -EIO;
	fusion_stripe_parity(stripe, written);
	if (scrub_io(stripe, id, parity, REQ_OP_WRITE) ||
	    scrub_failed_meanwhile(stripe, parity))
		return -EIO;
	WRITE_ONCE(scrub->repaired, scrub->repaired + 1);
	return 0;
}

/* The parity does not fit: -EILSEQ, if it is not to be, or cannot be, written again. */
static int scrub_mismatch(struct fusion_scrub *scrub,
			  struct fusion_stripe *stripe, u64 id, u64 written)
{
	bool done = atomic_read(&scrub->repairers) &&
		!scrub_write_parity(scrub, stripe, id, written);

	WRITE_ONCE(scrub->mismatches, scrub->mismatches + 1);
	DMERR_LIMIT("%s: stripe %llx: the parity does not fit%s",
		    fusion_pool_name(stripe->pool), id,
		    done ? ": it has been written again" : "");
	return done ? 0 : -EILSEQ;
}

/*
 * Read the written slots and the parity, and compare.  -ENODATA: it has died, or a member has
 * failed, meanwhile, and it cannot be compared.
 */
static int scrub_look(struct fusion_scrub *scrub, struct fusion_stripe *stripe,
		      u64 id, u64 written)
{
	u64 parity = fusion_mask(stripe->class->d, stripe->class->p), failed;
	int r = 0;

	failed = scrub_io(stripe, id, written | parity, REQ_OP_READ);
	if (failed && scrub_failed_meanwhile(stripe, failed))
		return -ENODATA;
	if (failed)
		r = scrub_recover(scrub, stripe, id, written, failed);
	if (!r && failed && scrub_io(stripe, id, written | parity, REQ_OP_READ))
		r = -EIO;
	if (!r && !fusion_stripe_fits(stripe, written))
		r = scrub_mismatch(scrub, stripe, id, written);
	return r == -EIO && scrub_failed_meanwhile(stripe, written | parity) ? -ENODATA : r;
}

static int scrub_stripe(struct fusion_scrub *scrub, struct fusion_stripe *stripe,
			u64 id)
{
	struct fusion_pool *pool = stripe->pool;
	unsigned int grace;
	u64 written;
	bool in;
	int r;

	r = fusion_raid_enter(stripe, id, &written, &grace);
	if (r)
		return r == -ENODATA || r == -EBUSY ? 0 : r;
	/* who writes to it in place leaves it right */
	in = !scrub_degraded(stripe, id) &&
		fusion_gate_enter(&pool->gates, id, false);
	if (in) {
		r = scrub_look(scrub, stripe, id, written);
		fusion_gate_leave(&pool->gates, id);
		if (r != -ENODATA)
			WRITE_ONCE(scrub->stripes, scrub->stripes + 1);
	}
	fusion_grace_leave(&pool->grace, grace);
	return r == -ENODATA ? 0 : r;
}

/* Those from @id on. */
static int scrub_stripes(struct fusion_scrub *scrub, struct fusion_pool *pool, u64 id)
{
	struct fusion_stripe_pool *sp;
	struct fusion_stripe *stripe;
	int r, error = 0;

	for (;; id++) {
		if (fusion_background_stopping(&scrub->background))
			return -EINTR;
		r = scrub_next(pool, &id, &sp);
		if (r)
			return r == -ENODATA ? error : r;
		stripe = fusion_stripe_get(sp);
		r = scrub_stripe(scrub, stripe, id);
		fusion_stripe_put(sp, stripe);
		if (r && error != -EILSEQ)
			error = r;
		cond_resched();
	}
}

/* Where the last one was interrupted; 0: nowhere. */
static u64 scrub_at(struct fusion_scrub *scrub, struct fusion_pool *pool)
{
	u64 id;

	mutex_lock(&pool->commit_lock);
	if (xchg(&scrub->restart, false))
		fusion_md_super(pool->md)->scrub_at = 0;
	id = fusion_md_super(pool->md)->scrub_at;
	mutex_unlock(&pool->commit_lock);
	return id;
}

/* One that was interrupted may not have ended yet. */
void fusion_scrub_restart(struct fusion_pool *pool)
{
	WRITE_ONCE(pool->scrub.restart, true);
}

/* It has seen all: that is committed, as the next one may go on after a power cut. */
static int scrub_end(struct fusion_pool *pool)
{
	int r = 0;

	mutex_lock(&pool->commit_lock);
	fusion_md_super(pool->md)->scrub_at = 0;
	if (fusion_pool_writable(pool))
		r = fusion_commit_transaction(pool);
	mutex_unlock(&pool->commit_lock);
	return r;
}

static int scrub_pass(struct fusion_scrub *scrub, struct fusion_pool *pool)
{
	u64 id = scrub_at(scrub, pool);
	int r = 0, error = 0;

	if (fusion_pool_writable(pool))
		r = fusion_commit(pool);
	if (r)
		return r;
	if (!id)
		error = fusion_scrub_replicas(scrub, pool);
	r = error == -EINTR ? error : scrub_stripes(scrub, pool, id);
	if (r == -EINTR)
		return r;
	if (r && error != -EILSEQ)
		error = r;
	r = scrub_end(pool);
	return error ? error : r;
}

static int scrub_all(struct fusion_background *b)
{
	struct fusion_scrub *scrub = container_of(b, struct fusion_scrub,
						  background);
	struct fusion_pool *pool = container_of(scrub, struct fusion_pool,
						scrub);
	u64 before = scrub->mismatches;
	int r = scrub_pass(scrub, pool);

	/* once, however many there are */
	if (scrub->mismatches != before)
		fusion_pool_event(pool);
	return r;
}

int fusion_scrub_all(struct fusion_pool *pool, bool repair)
{
	struct fusion_scrub *scrub = &pool->scrub;
	int r;

	if (repair)
		atomic_inc(&scrub->repairers);
	r = fusion_background_run(&scrub->background, pool->slow_wq);
	if (repair)
		atomic_dec(&scrub->repairers);
	return r;
}

void fusion_scrub_init(struct fusion_pool *pool)
{
	fusion_background_init(&pool->scrub.background, scrub_all);
}
