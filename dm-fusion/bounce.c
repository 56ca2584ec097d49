// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small writes, as copies.  See bounce.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "bounce.h"
#include "hedge.h"

/* What the members are to know of who writes. */
#define BOUNCE_FLAGS	(REQ_OP_MASK | REQ_SYNC | REQ_META | REQ_PRIO | REQ_FUA | REQ_IDLE | \
			 REQ_BACKGROUND | REQ_SWAP)

static struct fusion_bounce *bounce_get(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct bio *bio = io->bio;
	struct fusion_bounce *b;

	b = kmalloc(sizeof(*b), FUSION_TRY_GFP);
	if (!b)
		return NULL;
	b->data = alloc_pages(FUSION_TRY_GFP | __GFP_COMP, get_order(bio->bi_iter.bi_size));
	if (!b->data) {
		kfree(b);
		return NULL;
	}
	b->pool = pool;
	b->class = io->volume->class;
	b->io = io;
	b->status = BLK_STS_OK;
	b->in_place = !io->set;
	b->patched = io->patched;
	b->update.chunk = NULL;
	b->data_again = NULL;
	b->seen = false;
	b->again = false;
	b->attempt[0].set = io->set;
	b->attempt[1].set = NULL;
	b->key = fusion_block_key(io->volume->id, io->block);
	b->opf = bio->bi_opf & BOUNCE_FLAGS;
	b->ioprio = bio_prio(bio);
	b->page = fusion_sector_page(pool, bio->bi_iter.bi_sector);
	b->pages = bio->bi_iter.bi_size >> FUSION_PAGE_SHIFT;
	atomic_set(&b->refs, 1);
	return b;
}

static void bounce_free(struct fusion_bounce *b)
{
	put_page(b->data);
	if (b->data_again)
		put_page(b->data_again);
	kfree(b);
}

static void bounce_copy(struct fusion_bounce *b, struct bio *bio)
{
	void *to = page_address(b->data);
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		memcpy_from_bvec(to, &bv);
		to += bv.bv_len;
	}
}

/* Nothing goes to the old place of one that was in place any more. */
static void bounce_settle(struct fusion_bounce *b)
{
	if (b->update.chunk)
		fusion_update_cancel(&b->pool->map, &b->update);
	if (b->again)
		fusion_grace_leave(&b->pool->grace, b->grace);
}

/* ---- attempts ---- */

void fusion_bounce_put(struct fusion_bounce *b)
{
	struct fusion_pool *pool;
	struct fusion_io *io;
	blk_status_t status;
	unsigned int i;
	bool again;

	if (!atomic_dec_and_test(&b->refs))
		return;
	pool = b->pool;
	io = b->io;
	status = b->status;
	again = b->again;
	/* what the first has drawn is @io's to give back */
	for (i = io ? 1 : 0; i < ARRAY_SIZE(b->attempt); i++)
		if (b->attempt[i].set)
			fusion_drawn_put(pool, b->attempt[i].set);
	if (unlikely(b->in_place))
		bounce_settle(b);
	bounce_free(b);
	/* from here on the pool may be gone, unless @io is there */
	if (unlikely(again))
		fusion_hedged_end(pool);
	if (unlikely(io))
		fusion_write_done(io, status);
}

/* @io, which was in place, has a place of its own, the second attempt's. */
static void bounce_move(struct fusion_bounce *b, struct fusion_io *io)
{
	if (io->update.chunk)
		fusion_update_cancel(&b->pool->map, &io->update);
	io->update = b->update;
	b->update.chunk = NULL;
	if (!b->patched) {
		io->top.mask = b->mask;
		io->top.generation = b->pool->generation;
	}
	/* what was in place may have been in the last commit: this is not */
	if (b->opf & REQ_FUA)
		io->commit = true;
}

/* Its replicas are written: if it is the first, @io has its place, and is answered. */
void fusion_attempt_answer(struct fusion_attempt *a)
{
	struct fusion_bounce *b = a->bounce;
	struct fusion_io *io = xchg(&b->io, NULL);

	if (unlikely(!io))
		return;
	if (unlikely(a != b->attempt)) {
		fusion_count(b->pool, hedges_won);
		io->set = a->set;
		if (b->patched)
			io->patch = a->patch;
		else
			memcpy(io->top.place, a->top.place, sizeof(io->top.place));
		if (b->in_place)
			bounce_move(b, io);
	} else if (unlikely(b->update.chunk)) {
		/* what it pins is the volume's, which may be gone after the answer */
		fusion_update_cancel(&b->pool->map, &b->update);
	}
	a->set = NULL;
	fusion_write_done(io, BLK_STS_OK);
}

/* A replica has ended, or all have been sent. */
static void attempt_put(struct fusion_attempt *a)
{
	struct fusion_bounce *b = a->bounce;

	if (!atomic_dec_and_test(&a->pending))
		return;
	if (likely(!a->status)) {
		/* before it is seen whether the hedger has @io: see bounce_unclaim() */
		WRITE_ONCE(a->done, true);
		fusion_attempt_answer(a);
	} else {
		WRITE_ONCE(b->status, a->status);
	}
	fusion_bounce_put(b);
}

/* An abandoned one is as good as written (hang.h). */
void fusion_attempt_end(void *owner, blk_status_t status, bool abandoned)
{
	struct fusion_attempt *a = owner;

	/* any of their errors will do */
	if (unlikely(status))
		WRITE_ONCE(a->status, status);
	attempt_put(a);
}

static void attempt_drop(struct fusion_private **io, unsigned int count)
{
	while (count)
		bio_put(&io[--count]->bio);
}

bool fusion_attempt_get(struct fusion_attempt *a, struct fusion_bounce *b, struct page *data,
			unsigned int pages, struct fusion_attempt_io *out)
{
	unsigned int i, replicas = fusion_set_stripes(b->class);

	a->bounce = b;
	a->done = false;
	a->status = BLK_STS_OK;
	atomic_set(&a->pending, replicas + 1);
	for (i = 0; i < replicas; i++) {
		struct fusion_private *io = fusion_private_try(b->pool, b->opf, fusion_attempt_end, a);

		if (unlikely(!io)) {
			attempt_drop(out->replica, i);
			return false;
		}
		__bio_add_page(&io->bio, data, pages << FUSION_PAGE_SHIFT, 0);
		bio_set_prio(&io->bio, b->ioprio);
		out->replica[i] = io;
	}
	return true;
}

void fusion_attempt_drop(struct fusion_attempt *a, struct fusion_attempt_io *io)
{
	attempt_drop(io->replica, fusion_set_stripes(a->bounce->class));
}

void fusion_attempt_aim(struct fusion_attempt *a, struct fusion_attempt_io *io, const u64 *place,
			unsigned int page)
{
	unsigned int i, replicas = fusion_set_stripes(a->bounce->class), out = 0;
	struct fusion_pool *pool = a->bounce->pool;
	sector_t sector;
	u32 member;

	for (i = 0; i < replicas; i++) {
		sector = fusion_space_locate(&pool->space, place[i], &member);
		io->replica[i]->bio.bi_iter.bi_sector = sector + page * FUSION_PAGE_SECTORS;
		io->member[i] = &pool->member[member];
		out += fusion_member_out(io->member[i]);
	}
	/* more have failed than can be done without */
	if (unlikely(out == replicas))
		a->status = BLK_STS_IOERR;
}

void fusion_attempt_send(struct fusion_attempt *a, struct fusion_attempt_io *io)
{
	unsigned int i, replicas = fusion_set_stripes(a->bounce->class);

	for (i = 0; i < replicas; i++)
		fusion_private_submit(io->replica[i], io->member[i]);
	attempt_put(a);
}

bool fusion_bounce_send(struct fusion_io *io, const u64 *place, unsigned int page)
{
	struct fusion_attempt_io replicas;
	struct fusion_attempt *a;
	struct fusion_bounce *b;

	if (bio_sectors(io->bio) > FUSION_BOUNCE_PAGES * FUSION_PAGE_SECTORS)
		return false;
	b = bounce_get(io);
	if (unlikely(!b))
		return false;
	a = &b->attempt[0];
	if (unlikely(!fusion_attempt_get(a, b, b->data, b->pages, &replicas))) {
		bounce_free(b);
		return false;
	}
	bounce_copy(b, io->bio);
	fusion_attempt_aim(a, &replicas, place, page);
	fusion_attempt_send(a, &replicas);
	return true;
}
