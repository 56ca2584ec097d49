// SPDX-License-Identifier: GPL-2.0-only
/*
 * Second attempts of large writes (hedge.h): the same data and parity, from the same buffers, to
 * another stripe, whose members respond.  The first stripe that is written is recorded, and the write
 * answered; the other is free when all of it has ended, as that of a write that fails is.  What that has
 * on its members is not passed down before it is used and dies again.
 *
 * What can be lost: nothing refers to a stripe that is not recorded, and nobody draws it as long as
 * something of it is under way, but for what was abandoned (hang.h).
 */
#include <linux/slab.h>

#include "budget.h"
#include "hedge.h"
#include "io.h"
#include "large.h"
#include "private.h"

struct second {
	struct fusion_large *large;	/* with a reference */
	u64 id;				/* of its stripe */
	blk_status_t status;		/* an error of one of its slots */
	atomic_t pending;		/* slots, and who sends them */
	unsigned int count;		/* of them */
	/* until they are sent */
	struct {
		struct fusion_private *io;
		struct fusion_member *m;
		unsigned int index;
	} slot[];
};

static void large_note(struct fusion_stripe *stripe, void *larges)
{
	struct fusion_large *large = fusion_large_of(stripe);

	if (large->seen)
		return;
	large->seen = true;
	/* it is under way: not the last */
	atomic_inc(&large->refs);
	list_add_tail(&large->list, larges);
}

void fusion_large_collect(struct fusion_member *m, struct list_head *larges)
{
	fusion_stripe_walk(m, fusion_large_done, large_note, larges);
}

static void second_put(struct second *s)
{
	struct fusion_large *large = s->large;
	blk_status_t status;
	u64 id = s->id;

	if (!atomic_dec_and_test(&s->pending))
		return;
	status = s->status;
	kfree(s);
	fusion_large_attempt_end(large, id, status);
}

/* An abandoned one is as good as written (hang.h). */
static void second_end(void *owner, blk_status_t status, bool abandoned)
{
	struct second *s = owner;

	/* any of their errors will do */
	if (unlikely(status))
		WRITE_ONCE(s->status, status);
	second_put(s);
}

static void second_drop(struct second *s)
{
	while (s->count)
		bio_put(&s->slot[--s->count].io->bio);
	kfree(s);
}

/*
 * With I/O for all slots in use.  NULL: there is no memory.  It waits for none, as all may be with those
 * who wait for the member.
 */
static struct second *second_get(struct fusion_large *large)
{
	const struct fusion_class *class = large->stripe.class;
	struct fusion_pool *pool = large->stripe.pool;
	unsigned int i;
	struct second *s;

	s = kmalloc(struct_size(s, slot, class->k), FUSION_TRY_GFP);
	if (!s)
		return NULL;
	s->large = large;
	s->status = BLK_STS_OK;
	s->count = 0;
	for (i = 0; i < class->k; i++) {
		struct fusion_private *io;

		if (i >= large->blocks && i < class->d)
			continue;
		io = fusion_private_try(pool, large->opf, second_end, s);
		if (!io) {
			second_drop(s);
			return NULL;
		}
		__bio_add_page(&io->bio, virt_to_page(large->stripe.slot[i].data),
			       pool->block_pages << FUSION_PAGE_SHIFT, 0);
		s->slot[s->count].index = i;
		s->slot[s->count++].io = io;
	}
	atomic_set(&s->pending, s->count + 1);
	return s;
}

/* Aim it at its stripe.  Is none of the members there stuck?  If one is out, parity has what it lacks. */
static bool second_aim(struct second *s)
{
	struct fusion_pool *pool = s->large->stripe.pool;
	u64 now = ktime_get_ns();
	unsigned int i;
	u32 member;

	for (i = 0; i < s->count; i++) {
		s->slot[i].io->bio.bi_iter.bi_sector =
			fusion_space_locate(&pool->space, fusion_place(s->id, s->slot[i].index),
					    &member);
		s->slot[i].m = &pool->member[member];
		if (fusion_member_stuck(s->slot[i].m, now))
			return false;
	}
	return true;
}

int fusion_large_again(struct fusion_large *large)
{
	unsigned int ios = large->blocks + large->stripe.class->p, i;
	struct fusion_class *class = large->stripe.class;
	struct fusion_pool *pool = large->stripe.pool;
	struct second *s;
	int r = -ENOMEM;

	if (atomic_read(&large->recorded))
		return -EALREADY;
	/* nobody is to wait for a stripe that is written for the second time */
	if (READ_ONCE(pool->space.scarce) || !fusion_space_may_grow(&pool->space, class))
		return -ENOSPC;
	if (!fusion_budget_take(pool, ios))
		return -EAGAIN;
	s = second_get(large);
	if (!s)
		goto refund;
	r = -EAGAIN;
	if (fusion_space_draw_stripe(&pool->space, class, &s->id))
		goto drop;
	if (!second_aim(s))
		goto unhold;
	large->again = true;
	fusion_hedged_begin(pool);
	atomic_inc(&large->refs);
	for (i = 0; i < s->count; i++)
		fusion_private_submit(s->slot[i].io, s->slot[i].m);
	second_put(s);
	return 0;

unhold:
	fusion_space_unhold(&pool->space, s->id, false);
drop:
	second_drop(s);
refund:
	fusion_budget_refund(pool, ios);
	return r;
}
