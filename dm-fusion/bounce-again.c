// SPDX-License-Identifier: GPL-2.0-only
/*
 * Second attempts of writes that are sent as copies.  See bounce.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "bounce.h"
#include "budget.h"
#include "hedge.h"
#include "patch-set.h"

/* One that is not sent yet. */
struct bounce_again {
	struct fusion_bounce *bounce;
	struct fusion_attempt_io io;
	struct page *data;
	u8 page, pages;			/* of its place, that it writes */
	blk_status_t status;		/* of what was read for it */
	struct work_struct work;
};

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
	fusion_private_walk(m, fusion_attempt_end, bounce_note, bounces);
}

/* ---- out of place ---- */

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
		fusion_attempt_answer(first);
	return READ_ONCE(b->io);
}

/* What is the new top to have?  False: which replicas of the rest count is not for us to say. */
static bool bounce_look_top(struct fusion_bounce *b, const struct fusion_io *io,
			    const struct fusion_top *top)
{
	b->mask = READ_ONCE(top->mask) | io->pages;
	memcpy(b->old, top->place, sizeof(b->old));
	return b->mask == io->pages || !fusion_unsynced(b->pool, READ_ONCE(top->generation));
}

/* What is there of @io's block, which is held alone?  False: it cannot be elsewhere. */
static bool bounce_look(struct fusion_bounce *b, struct fusion_io *io)
{
	struct fusion_overlay *ov = NULL;
	bool can = false;
	u64 entry;

	rcu_read_lock();
	entry = fusion_map_entry(&b->pool->map, io->volume->id, io->block);
	if (entry != FUSION_ENTRY_MISS)
		ov = fusion_entry_overlay(entry);
	if (ov && b->patched && ov->patches) {
		/* while others were held beside it a write may have failed */
		io->generation = READ_ONCE(ov->patches->patches.generation);
		can = true;
	} else if (ov && !b->patched && !ov->patches) {
		can = bounce_look_top(b, io, &ov->top);
	}
	rcu_read_unlock();
	return can;
}

/* Is there enough metadata?  Its own place needs none: a new one is to leave what others need. */
static bool bounce_may_move(const struct fusion_bounce *b)
{
	struct fusion_pool *pool = b->pool;

	return !fusion_commit_crowded(pool) &&
		!(b->patched ? READ_ONCE(pool->metadata_short) : READ_ONCE(pool->metadata_low));
}

/*
 * Make ready for another place of @b, which is in place.  The block is held alone then: nobody else
 * writes to the old one, or changes it; so what is patched is still patched, and there.
 */
static int bounce_make_movable(struct fusion_bounce *b)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_io *io = bounce_claim(b);
	int r;

	if (!io)
		return -EALREADY;
	if (!bounce_may_move(b))
		r = -EBUSY;
	else if (!fusion_hold_upgrade(&pool->locks, &io->hold))
		r = -EAGAIN;
	else if (!bounce_look(b, io))
		r = -EBUSY;
	else
		r = fusion_update_prepare(&pool->map, &b->update, io->volume->id, io->block,
					  b->patched ? FUSION_UPDATE_PATCHES : FUSION_UPDATE_TOP,
					  GFP_NOWAIT);
	return bounce_unclaim(b, io) ? r : -EALREADY;
}

/* ---- what else is in the top ---- */

/* Does the new top need more than what is written? */
static bool bounce_carries(const struct fusion_bounce *b)
{
	return b->in_place && !b->patched && hweight64(b->mask) > b->pages;
}

static void again_free(struct bounce_again *again)
{
	put_page(again->data);
	kfree(again);
}

/* It is not sent after all. */
static void again_drop(struct bounce_again *again)
{
	fusion_attempt_drop(&again->bounce->attempt[1], &again->io);
	again_free(again);
}

/* Nor when something has been read for it. */
static void again_give_up(struct bounce_again *again)
{
	struct fusion_bounce *b = again->bounce;

	again_drop(again);
	fusion_budget_refund(b->pool, fusion_set_stripes(b->class));
	fusion_bounce_put(b);
}

static void again_send(struct bounce_again *again)
{
	struct fusion_attempt_io io = again->io;
	struct fusion_bounce *b = again->bounce;

	/* for as long as it is under way */
	b->data_again = again->data;
	kfree(again);
	fusion_attempt_send(&b->attempt[1], &io);
}

static void again_work(struct work_struct *work)
{
	struct bounce_again *again = container_of(work, struct bounce_again, work);
	struct fusion_bounce *b = again->bounce;

	/* it may have been answered meanwhile */
	if (again->status || !READ_ONCE(b->io)) {
		again_give_up(again);
		return;
	}
	memcpy(page_address(again->data) + ((b->page - again->page) << FUSION_PAGE_SHIFT),
	       page_address(b->data), b->pages << FUSION_PAGE_SHIFT);
	again_send(again);
}

static void again_read_end(void *owner, blk_status_t status, bool abandoned)
{
	struct bounce_again *again = owner;

	again->status = status;
	INIT_WORK(&again->work, again_work);
	queue_work(again->bounce->pool->io_wq, &again->work);
}

/* The replica of the old top that answers soonest.  NULL: all may as well wait for the first attempt. */
static struct fusion_member *bounce_source(const struct fusion_bounce *b, sector_t *sector)
{
	unsigned int i, burden, least = FUSION_BURDEN_OUT;
	struct fusion_pool *pool = b->pool;
	u64 now = ktime_get_ns();
	struct fusion_member *source = NULL;

	for (i = 0; i < fusion_set_stripes(b->class); i++) {
		struct fusion_member *m;
		sector_t at;
		u32 member;

		at = fusion_space_locate(&pool->space, b->old[i], &member);
		m = &pool->member[member];
		burden = fusion_member_burden(m);
		if (burden < least && !fusion_member_stuck(m, now)) {
			least = burden;
			source = m;
			*sector = at;
		}
	}
	return source;
}

/* A read of what else is in the top, from its first page to its last, and on whom.  NULL: there is none. */
static struct fusion_private *again_read(struct bounce_again *again, struct fusion_member **m)
{
	struct fusion_bounce *b = again->bounce;
	struct fusion_private *io;
	sector_t sector;

	*m = bounce_source(b, &sector);
	if (!*m)
		return NULL;
	io = fusion_private_try(b->pool, REQ_OP_READ, again_read_end, again);
	if (!io)
		return NULL;
	__bio_add_page(&io->bio, again->data, again->pages << FUSION_PAGE_SHIFT, 0);
	io->bio.bi_iter.bi_sector = sector + again->page * FUSION_PAGE_SECTORS;
	return io;
}

/* ---- the second attempt ---- */

/* Memory for it. */
static struct bounce_again *again_get(struct fusion_bounce *b)
{
	struct bounce_again *again = kmalloc(sizeof(*again), FUSION_TRY_GFP);

	if (!again)
		return NULL;
	again->bounce = b;
	if (bounce_carries(b)) {
		again->page = fusion_ctz64(b->mask);
		again->pages = fls64(b->mask) - again->page;
		again->data = alloc_pages(FUSION_TRY_GFP | __GFP_COMP,
					  get_order(again->pages << FUSION_PAGE_SHIFT));
	} else {
		again->page = b->page;
		again->pages = b->pages;
		again->data = b->data;
		get_page(again->data);
	}
	if (!again->data) {
		kfree(again);
		return NULL;
	}
	if (fusion_attempt_get(&b->attempt[1], b, again->data, again->pages, &again->io))
		return again;
	again_free(again);
	return NULL;
}

/* A place for it; @place are its slots. */
static bool again_draw(struct bounce_again *again, u64 *place)
{
	struct fusion_bounce *b = again->bounce;
	struct fusion_attempt *a = &b->attempt[1];
	struct fusion_space *s = &b->pool->space;

	if (b->patched) {
		a->set = fusion_patch_draw(s, b->class, b->key, b->pages, false, &a->patch);
		if (!a->set)
			return false;
		fusion_patch_slots(&a->patch, place);
		again->page = fusion_patch_at(&a->patch);
	} else {
		a->set = fusion_set_draw(s, b->class, b->key, false, &a->top);
		if (!a->set)
			return false;
		memcpy(place, a->top.place, sizeof(a->top.place));
	}
	return true;
}

/* Is none of the members that it goes to out, or stuck, too? */
static bool again_is_better(const struct bounce_again *again)
{
	u64 now = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < fusion_set_stripes(again->bounce->class); i++) {
		const struct fusion_member *m = again->io.member[i];

		if (fusion_member_out(m) || fusion_member_stuck(m, now))
			return false;
	}
	return true;
}

/* It goes on by itself from here. */
static void again_begin(struct bounce_again *again)
{
	struct fusion_bounce *b = again->bounce;

	b->again = true;
	fusion_hedged_begin(b->pool);
	atomic_inc(&b->refs);
}

/* Aim it at a place, and send it; or first @read, unless that is NULL, to @source. */
static int again_go(struct bounce_again *again, struct fusion_private *read,
		    struct fusion_member *source)
{
	struct fusion_attempt *a = &again->bounce->attempt[1];
	u64 place[FUSION_MAX_REPLICAS];

	if (!again_draw(again, place))
		return -EAGAIN;
	fusion_attempt_aim(a, &again->io, place, again->page);
	if (!again_is_better(again)) {
		/* not again: so is the place */
		fusion_drawn_put(again->bounce->pool, a->set);
		a->set = NULL;
		return -ENOSPC;
	}
	again_begin(again);
	if (read)
		fusion_private_submit(read, source);
	else
		again_send(again);
	return 0;
}

static int again_start(struct bounce_again *again)
{
	struct fusion_bounce *b = again->bounce;
	struct fusion_member *source = NULL;
	struct fusion_private *read = NULL;
	int r = -ENOSPC;

	if (!b->in_place)
		return again_go(again, NULL, NULL);
	/* what is under way to the old place keeps it from being used again */
	b->grace = fusion_grace_enter(&b->pool->grace);
	/* until it is answered the old place is the block's: after that it may be nobody's */
	if (!READ_ONCE(b->io))
		goto leave;
	if (bounce_carries(b)) {
		read = again_read(again, &source);
		if (!read)
			goto leave;
	}
	r = again_go(again, read, source);
	if (!r)
		return 0;
	if (read)
		bio_put(&read->bio);
leave:
	fusion_grace_leave(&b->pool->grace, b->grace);
	return r;
}

int fusion_bounce_again(struct fusion_bounce *b)
{
	struct fusion_pool *pool = b->pool;
	struct bounce_again *again;
	unsigned int cost;
	int r;

	if (!READ_ONCE(b->io))
		return -EALREADY;
	/* for a new top there may be something to be read */
	cost = fusion_set_stripes(b->class) + (b->in_place && !b->patched);
	if (!fusion_budget_take(pool, cost))
		return -EAGAIN;
	/* once: it may be tried again for want of a place */
	r = b->in_place && !b->update.chunk ? bounce_make_movable(b) : 0;
	if (r)
		goto refund;
	again = again_get(b);
	if (!again) {
		r = -ENOMEM;
		goto refund;
	}
	r = again_start(again);
	if (!r)
		return 0;
	again_drop(again);
refund:
	fusion_budget_refund(pool, cost);
	return r;
}
