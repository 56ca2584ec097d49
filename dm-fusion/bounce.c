// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small writes to new places, as copies.  See bounce.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "bounce.h"
#include "budget.h"
#include "hedge.h"
#include "patch-set.h"

/* There is another way: nothing is waited for, no reserve used up, and nobody told. */
#define BOUNCE_GFP	(GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

/* What the members are to know of who writes. */
#define BOUNCE_FLAGS	(REQ_OP_MASK | REQ_SYNC | REQ_META | REQ_PRIO | REQ_FUA | REQ_IDLE | \
			 REQ_BACKGROUND | REQ_SWAP)

static struct fusion_bounce *bounce_get(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct bio *bio = io->bio;
	struct fusion_bounce *b;

	b = kmalloc(sizeof(*b), BOUNCE_GFP);
	if (!b)
		return NULL;
	b->data = alloc_pages(BOUNCE_GFP | __GFP_COMP, get_order(bio->bi_iter.bi_size));
	if (!b->data) {
		kfree(b);
		return NULL;
	}
	b->pool = pool;
	b->class = io->volume->class;
	b->io = io;
	b->status = BLK_STS_OK;
	b->in_place = !io->set;
	b->patched = !b->in_place && io->patched;
	b->update.chunk = NULL;
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

/* @io, which was in place, has a new top, the second attempt's. */
static void bounce_move(struct fusion_bounce *b, struct fusion_io *io)
{
	if (io->update.chunk)
		fusion_update_cancel(&b->pool->map, &io->update);
	io->update = b->update;
	b->update.chunk = NULL;
	io->patched = false;
	io->top = b->attempt[1].top;
	/* what was in place may have been in the last commit: this is not */
	if (b->opf & REQ_FUA)
		io->commit = true;
}

/* Its replicas are written: if it is the first, @io has its place, and is answered. */
static void attempt_answer(struct fusion_attempt *a)
{
	struct fusion_bounce *b = a->bounce;
	struct fusion_io *io = xchg(&b->io, NULL);

	if (unlikely(!io))
		return;
	if (unlikely(a != b->attempt)) {
		fusion_count(b->pool, hedges_won);
		io->set = a->set;
		if (b->in_place)
			bounce_move(b, io);
		else if (b->patched)
			io->patch = a->patch;
		else
			memcpy(io->top.place, a->top.place, sizeof(io->top.place));
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
		attempt_answer(a);
	} else {
		WRITE_ONCE(b->status, a->status);
	}
	fusion_bounce_put(b);
}

/* An abandoned one is as good as written (hang.h). */
static void attempt_end(void *owner, blk_status_t status, bool abandoned)
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

/* I/O for all replicas of @b, into @io.  False: there is none. */
static bool attempt_get(struct fusion_bounce *b, struct fusion_attempt *a,
			struct fusion_private **io)
{
	unsigned int i, replicas = fusion_set_stripes(b->class);

	a->bounce = b;
	a->done = false;
	a->status = BLK_STS_OK;
	atomic_set(&a->pending, replicas + 1);
	for (i = 0; i < replicas; i++) {
		io[i] = fusion_private_try(b->pool, b->opf, attempt_end, a);
		if (unlikely(!io[i])) {
			attempt_drop(io, i);
			return false;
		}
		__bio_add_page(&io[i]->bio, b->data, b->pages << FUSION_PAGE_SHIFT, 0);
		bio_set_prio(&io[i]->bio, b->ioprio);
	}
	return true;
}

/* Aim them at @place, from @page of these on; their members. */
static void attempt_aim(struct fusion_attempt *a, struct fusion_private **io, const u64 *place,
			unsigned int page, struct fusion_member **m)
{
	unsigned int i, replicas = fusion_set_stripes(a->bounce->class), out = 0;
	struct fusion_pool *pool = a->bounce->pool;
	sector_t sector;
	u32 member;

	for (i = 0; i < replicas; i++) {
		sector = fusion_space_locate(&pool->space, place[i], &member);
		io[i]->bio.bi_iter.bi_sector = sector + page * FUSION_PAGE_SECTORS;
		m[i] = &pool->member[member];
		out += fusion_member_out(m[i]);
	}
	/* more have failed than can be done without */
	if (unlikely(out == replicas))
		a->status = BLK_STS_IOERR;
}

/* @a may be gone then. */
static void attempt_send(struct fusion_attempt *a, struct fusion_private **io,
			 struct fusion_member **m)
{
	unsigned int i, replicas = fusion_set_stripes(a->bounce->class);

	for (i = 0; i < replicas; i++)
		fusion_private_submit(io[i], m[i]);
	attempt_put(a);
}

bool fusion_bounce_send(struct fusion_io *io, const u64 *place, unsigned int page)
{
	struct fusion_private *replica[FUSION_MAX_REPLICAS];
	struct fusion_member *m[FUSION_MAX_REPLICAS];
	struct fusion_attempt *a;
	struct fusion_bounce *b;

	if (bio_sectors(io->bio) > FUSION_BOUNCE_PAGES * FUSION_PAGE_SECTORS)
		return false;
	b = bounce_get(io);
	if (unlikely(!b))
		return false;
	a = &b->attempt[0];
	if (unlikely(!attempt_get(b, a, replica))) {
		bounce_free(b);
		return false;
	}
	bounce_copy(b, io->bio);
	attempt_aim(a, replica, place, page, m);
	attempt_send(a, replica, m);
	return true;
}

/* ---- the second ---- */

static void bounce_note(void *owner, void *bounces)
{
	struct fusion_attempt *a = owner;
	struct fusion_bounce *b = a->bounce;

	if (b->seen)
		return;
	b->seen = true;
	/* it is under way: not the last */
	atomic_inc(&b->refs);
	list_add_tail(&b->list, bounces);
}

void fusion_bounce_collect(struct fusion_member *m, struct list_head *bounces)
{
	fusion_private_walk(m, attempt_end, bounce_note, bounces);
}

/* A place for another attempt of @b, into @a; @place are its slots, and the page of these. */
static bool attempt_draw(struct fusion_bounce *b, struct fusion_attempt *a, u64 *place,
			 unsigned int *page)
{
	struct fusion_space *s = &b->pool->space;

	if (b->patched) {
		a->set = fusion_patch_draw(s, b->class, b->key, b->pages, false, &a->patch);
		if (!a->set)
			return false;
		fusion_patch_slots(&a->patch, place);
		*page = fusion_patch_at(&a->patch);
	} else {
		a->set = fusion_set_draw(s, b->class, b->key, false, &a->top);
		if (!a->set)
			return false;
		memcpy(place, a->top.place, sizeof(a->top.place));
		*page = b->page;
	}
	return true;
}

/* Are all of @m as quick as ever? */
static bool members_respond(const struct fusion_class *class, struct fusion_member **m)
{
	unsigned int i;

	for (i = 0; i < fusion_set_stripes(class); i++)
		if (fusion_member_burden(m[i]) >= FUSION_BURDEN_SILENT)
			return false;
	return true;
}

/* What the second attempt is to change needs @io, which then nobody answers. */
static struct fusion_io *bounce_claim(struct fusion_bounce *b)
{
	return xchg(&b->io, NULL);
}

/* False: the first attempt has ended meanwhile, and @io has been answered. */
static bool bounce_unclaim(struct fusion_bounce *b, struct fusion_io *io)
{
	struct fusion_attempt *first = &b->attempt[0];

	/* either who ends sees @io, or that it has ended is seen here */
	xchg(&b->io, io);
	if (READ_ONCE(first->done))
		attempt_answer(first);
	return READ_ONCE(b->io);
}

/* Is nothing in the top of @io's block but what it writes? */
static bool top_is_written(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_overlay *ov = NULL;
	bool is = false;
	u64 entry;

	rcu_read_lock();
	entry = fusion_map_entry(&pool->map, io->volume->id, io->block);
	if (entry != FUSION_ENTRY_MISS)
		ov = fusion_entry_overlay(entry);
	if (ov)
		is = !ov->patches && !(READ_ONCE(ov->top.mask) & ~io->pages);
	rcu_read_unlock();
	return is;
}

/*
 * Make ready for a new top of @b, which is in place.  The block is held alone then: nobody else
 * writes to the old one, or changes it.
 */
static int bounce_make_movable(struct fusion_bounce *b)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_io *io = bounce_claim(b);
	int r = -EBUSY;

	if (!io)
		return -EALREADY;
	/* its own place needs no metadata: a new one is to leave what others need */
	if (!READ_ONCE(pool->metadata_low) && !fusion_commit_crowded(pool) &&
	    fusion_hold_upgrade(&pool->locks, &io->hold) && top_is_written(io))
		r = fusion_update_prepare(&pool->map, &b->update, io->volume->id, io->block,
					  FUSION_UPDATE_TOP, GFP_NOWAIT);
	b->attempt[1].top.mask = io->pages;
	b->attempt[1].top.generation = pool->generation;
	return bounce_unclaim(b, io) ? r : -EALREADY;
}

int fusion_bounce_again(struct fusion_bounce *b)
{
	struct fusion_private *replica[FUSION_MAX_REPLICAS];
	struct fusion_member *m[FUSION_MAX_REPLICAS];
	struct fusion_attempt *a = &b->attempt[1];
	struct fusion_pool *pool = b->pool;
	unsigned int replicas = fusion_set_stripes(b->class), page;
	u64 place[FUSION_MAX_REPLICAS];
	int r;

	if (!READ_ONCE(b->io))
		return -EALREADY;
	if (!fusion_budget_take(pool, replicas))
		return -EAGAIN;
	if (!attempt_get(b, a, replica)) {
		r = -ENOMEM;
		goto refund;
	}
	/* once: it may be tried again for want of a place */
	r = b->in_place && !b->update.chunk ? bounce_make_movable(b) : 0;
	if (r)
		goto drop;
	if (!attempt_draw(b, a, place, &page)) {
		r = -EAGAIN;
		goto drop;
	}
	attempt_aim(a, replica, place, page, m);
	if (!members_respond(b->class, m)) {
		/* not again: the place is lost */
		r = -ENOSPC;
		goto give_up;
	}
	b->again = true;
	if (b->in_place)
		/* what is under way to the old place keeps it from being used again */
		b->grace = fusion_grace_enter(&pool->grace);
	fusion_hedged_begin(pool);
	atomic_inc(&b->refs);
	attempt_send(a, replica, m);
	return 0;

give_up:
	fusion_drawn_put(pool, a->set);
	a->set = NULL;
drop:
	attempt_drop(replica, replicas);
refund:
	fusion_budget_refund(pool, replicas);
	return r;
}
