// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads around members that are unresponsive, or silent: what only one of these has is computed from
 * the rest of its stripe, in memory of our own, and copied.
 *
 * It is worth it only at once: where anything would have to be waited for but the other members, as
 * memory, a stripe that is being written to or that the last commit does not know, or where these
 * are not enough, the read goes to the member after all.
 */
#include "reconstruct.h"

/* -EAGAIN: it is not all in one stripe, or not to be computed now. */
static int around_compute(struct fusion_reconstruct *r, unsigned int pages)
{
	struct fusion_pool *pool = r->stripe->pool;
	u64 id = fusion_place_stripe(r->src.place);
	int e;

	if (!r->src.place || r->src.pages < pages || r->unsynced || fusion_replicas(r) > 1 ||
	    fusion_space_class_of(&pool->space, id) != r->stripe->class ||
	    !fusion_gate_enter(&pool->gates, id, false))
		return -EAGAIN;
	e = fusion_reconstruct_around(r);
	fusion_gate_leave(&pool->gates, id);
	return e;
}

static int around_read(struct fusion_io *io, struct fusion_reconstruct *r)
{
	struct fusion_pool *pool = io->volume->pool;
	struct bvec_iter iter = io->bio->bi_iter;
	unsigned int grace, pages = iter.bi_size >> FUSION_PAGE_SHIFT;
	int e;

	e = fusion_reconstruct_look(r, io->volume, fusion_sector_block(pool, iter.bi_sector),
				    fusion_sector_page(pool, iter.bi_sector), pages, &grace);
	if (e)
		return e;
	e = around_compute(r, pages);
	if (!e)
		fusion_reconstruct_copy(io->bio, &iter, r->stripe->slot[r->slot].data +
					(r->src.page << FUSION_PAGE_SHIFT), iter.bi_size);
	fusion_grace_leave(&pool->grace, grace);
	return e;
}

void fusion_read_around(struct work_struct *work)
{
	struct fusion_io *io = container_of(work, struct fusion_io, work);
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_stripe_pool *sp;
	struct fusion_reconstruct r;
	int e = -ENOMEM;

	sp = fusion_stripe_background(pool, io->volume->class);
	r.stripe = sp ? fusion_stripe_try(sp) : NULL;
	if (r.stripe) {
		e = around_read(io, &r);
		fusion_stripe_put(sp, r.stripe);
	}
	if (e) {
		fusion_read_again(work);
	} else {
		fusion_monitor_avoided(&pool->monitor, false);
		fusion_end(io->bio, BLK_STS_OK);
	}
}
