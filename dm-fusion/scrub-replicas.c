// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas are compared.  See scrub-replicas.h.
 *
 * Block by block, which is held meanwhile: nobody writes to it.  What may differ, as the pool
 * has stopped uncleanly, is resynced instead.
 */
#include "commit.h"
#include "mode.h"
#include "overlays.h"
#include "reconstruct.h"
#include "scrub-replicas.h"
#include "stripe.h"
#include "volume-table.h"

#define DM_MSG_PREFIX "fusion"

/* A run of pages of a block, each replica of which is read to a slot of its own. */
struct replicas {
	struct fusion_reconstruct from;
	unsigned int count;
	u64 there;			/* those that are in memory */
	u64 failed;			/* could not be read */
};

static void replicas_read(struct replicas *r)
{
	unsigned int i;

	r->count = fusion_replicas(&r->from);
	r->there = 0;
	r->failed = 0;
	for (i = 0; i < r->count; i++) {
		if (fusion_replica_io(&r->from, i, i, REQ_OP_READ))
			r->there |= 1ULL << i;
		/* its member may have failed just now */
		else if (!fusion_member_out(r->from.stripe->slot[i].member))
			r->failed |= 1ULL << i;
	}
}

/* Those that are not as the first one. */
static u64 replicas_differ(const struct replicas *r)
{
	const struct fusion_slot *slot = r->from.stripe->slot;
	size_t at = (size_t)r->from.src.page << FUSION_PAGE_SHIFT;
	size_t bytes = (size_t)r->from.src.pages << FUSION_PAGE_SHIFT;
	unsigned int first = fusion_ctz64(r->there);
	u64 left, wrong = 0;

	for (left = r->there & (r->there - 1); left; left &= left - 1)
		if (memcmp(slot[first].data + at, slot[fusion_ctz64(left)].data + at, bytes))
			wrong |= left & -left;
	return wrong;
}

/* Write the first one to @which; those that it failed for. */
static u64 replicas_write(struct replicas *r, u64 which)
{
	u64 left, failed = 0;

	if (!fusion_pool_writable(r->from.stripe->pool))
		return which;
	for (left = which; left; left &= left - 1)
		if (!fusion_replica_io(&r->from, fusion_ctz64(r->there), fusion_ctz64(left),
				       REQ_OP_WRITE))
			failed |= left & -left;
	return failed;
}

/* Pages from @page of the held @block on, as far as they are in one place. */
static int replicas_scrub(struct fusion_scrub *scrub, struct replicas *r, u64 *wrong)
{
	u64 left, failed;

	replicas_read(r);
	if (r->failed && r->from.src.pages > 1)
		return -EAGAIN;
	if (!r->there)
		return -EIO;
	if (r->failed) {
		failed = replicas_write(r, r->failed);
		for (left = r->failed; left; left &= left - 1)
			fusion_reconstruct_count(&r->from,
						 fusion_replica(&r->from, fusion_ctz64(left)),
						 !(failed & left & -left));
	}
	left = replicas_differ(r);
	*wrong |= left;
	if (left && (!atomic_read(&scrub->repairers) || replicas_write(r, left)))
		return -EILSEQ;
	return 0;
}

/* All of the held @block, in the memory of @stripe. */
static int block_scrub(struct fusion_scrub *scrub, struct fusion_volume *v, u64 block,
		       struct fusion_stripe *stripe)
{
	struct fusion_pool *pool = v->pool;
	struct replicas r = { .from.stripe = stripe };
	unsigned int page, grace, most = pool->block_pages;
	int error = 0, e;
	u64 wrong = 0;

	for (page = 0; page < pool->block_pages; page += r.from.src.pages) {
		e = fusion_reconstruct_look(&r.from, v, block, page,
					    min(most, pool->block_pages - page), &grace);
		if (e)
			return e;
		if (r.from.src.place && fusion_replicas(&r.from) > 1 && !r.from.unsynced)
			e = replicas_scrub(scrub, &r, &wrong);
		fusion_grace_leave(&pool->grace, grace);
		if (r.from.unsynced && fusion_pool_writable(pool))
			e = fusion_resync_block(v, block);
		if (e == -EAGAIN) {
			/* of each those pages that can be read */
			most = 1;
			r.from.src.pages = 0;
		} else if (e && error != -EILSEQ) {
			error = e;
		}
	}
	WRITE_ONCE(scrub->blocks, scrub->blocks + 1);
	if (wrong) {
		WRITE_ONCE(scrub->mismatches, scrub->mismatches + 1);
		if (!error)
			WRITE_ONCE(scrub->repaired, scrub->repaired + 1);
		DMERR_LIMIT("%s: volume %u: block %llu: its replicas differ%s",
			    fusion_pool_name(pool), v->id, block,
			    error ? "" : ": they are as the first one now");
	}
	return error;
}

static int volume_scrub(struct fusion_scrub *scrub, struct fusion_volume *v,
			enum fusion_overlays kind)
{
	struct fusion_stripe_pool *sp = fusion_stripe_background(v->pool, v->class);
	struct fusion_stripe *stripe;
	struct fusion_hold hold;
	int error = 0, r;
	u64 block = 0;

	if (!sp)
		return -ENOMEM;
	for (;; block++) {
		if (fusion_background_stopping(&scrub->background))
			return -EINTR;
		if (READ_ONCE(v->deleting))
			return error;
		r = fusion_overlays_next(v->pool, v->id, kind, false, &block);
		if (!r && fusion_commit_crowded(v->pool))
			r = fusion_commit(v->pool);
		if (r)
			return r == -ENODATA ? error : r;
		stripe = fusion_stripe_get(sp);
		fusion_hold_take_wait(&v->pool->locks, &hold, fusion_block_key(v->id, block),
				      FUSION_HOLD_EXCLUSIVE);
		r = block_scrub(scrub, v, block, stripe);
		fusion_hold_drop(&v->pool->locks, &hold);
		fusion_stripe_put(sp, stripe);
		if (r && error != -EILSEQ)
			error = r;
		cond_resched();
	}
}

int fusion_scrub_replicas(struct fusion_scrub *scrub, struct fusion_pool *pool)
{
	struct fusion_volume *v;
	int error = 0, r = 0, kind;
	u32 id = 0;

	while (r != -EINTR && (v = fusion_volume_get_from(pool, id))) {
		for (kind = FUSION_TOPS; r != -EINTR && kind <= FUSION_PATCHES; kind++) {
			r = volume_scrub(scrub, v, kind);
			if (r && error != -EILSEQ)
				error = r;
		}
		id = v->id + 1;
		fusion_volume_put(v);
	}
	return r == -EINTR ? r : error;
}
