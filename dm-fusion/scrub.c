// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scrub.  See scrub.h.
 */
#include "commit.h"
#include "io.h"
#include "mode.h"
#include "scrub.h"
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

/*
 * A grace reference to RAID stripe @id of @class: only then, as who has a
 * stripe's memory may be waiting for a commit.  -ENODATA: it is none any more.
 */
static int scrub_enter(struct fusion_pool *pool, struct fusion_class *class,
		       u64 id, u64 *written, unsigned int *grace)
{
	struct fusion_disk_stripe disk;
	u64 found = id;
	int r;

	mutex_lock(&pool->commit_lock);
	r = fusion_md_next_stripe(pool->md, &found, &disk);
	if (!r && (found != id || disk.state != FUSION_STRIPE_RAID ||
		   fusion_space_class_of(&pool->space, id) != class))
		r = -ENODATA;
	if (!r) {
		*written = le64_to_cpu(disk.written);
		*grace = fusion_grace_enter(&pool->grace);
	}
	mutex_unlock(&pool->commit_lock);
	return r;
}

/* Is something of @id on a member that is out?  Then nothing can be compared. */
static bool scrub_degraded(struct fusion_stripe *stripe, u64 id)
{
	unsigned int i;

	for (i = 0; i < stripe->class->k; i++)
		if (fusion_member_out(fusion_member_at(stripe->pool,
						       fusion_place(id, i))))
			return true;
	return false;
}

/* Read the written slots and the parity; -EILSEQ: they do not fit. */
static int scrub_look(struct fusion_stripe *stripe, u64 id, u64 written)
{
	struct fusion_class *class = stripe->class;
	u64 slots = written | fusion_mask(class->d, class->p), left;
	int r;

	if (written & ~fusion_mask(0, class->d))
		return -EIO;
	fusion_stripe_begin(stripe, NULL);
	for (left = slots; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		fusion_stripe_submit(stripe, i, fusion_place(id, i), 0,
				     stripe->pool->block_pages, REQ_OP_READ);
	}
	r = fusion_stripe_end(stripe);
	if (!r && !fusion_stripe_fits(stripe, written))
		r = -EILSEQ;
	return r;
}

static int scrub_stripe(struct fusion_scrub *scrub, struct fusion_stripe *stripe,
			u64 id)
{
	struct fusion_pool *pool = stripe->pool;
	unsigned int grace;
	u64 written;
	bool in;
	int r;

	r = scrub_enter(pool, stripe->class, id, &written, &grace);
	if (r)
		return r == -ENODATA ? 0 : r;
	/* who writes to it in place leaves it right */
	in = !scrub_degraded(stripe, id) &&
		fusion_gate_enter(&pool->gates, id, false);
	if (in) {
		r = scrub_look(stripe, id, written);
		fusion_gate_leave(&pool->gates, id);
	}
	fusion_grace_leave(&pool->grace, grace);
	if (!in)
		return 0;
	WRITE_ONCE(scrub->stripes, scrub->stripes + 1);
	if (r == -EILSEQ) {
		WRITE_ONCE(scrub->mismatches, scrub->mismatches + 1);
		DMERR_LIMIT("%s: stripe %llx: the parity does not fit",
			    fusion_pool_name(pool), id);
	}
	return r;
}

static int scrub_all(struct fusion_background *b)
{
	struct fusion_scrub *scrub = container_of(b, struct fusion_scrub,
						  background);
	struct fusion_pool *pool = container_of(scrub, struct fusion_pool,
						scrub);
	struct fusion_stripe_pool *sp;
	struct fusion_stripe *stripe;
	int r, error = 0;
	u64 id;

	for (id = 0;; id++) {
		if (fusion_background_stopping(b))
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

int fusion_scrub_all(struct fusion_pool *pool)
{
	return fusion_background_run(&pool->scrub.background, pool->slow_wq);
}

void fusion_scrub_init(struct fusion_pool *pool)
{
	fusion_background_init(&pool->scrub.background, scrub_all);
}
