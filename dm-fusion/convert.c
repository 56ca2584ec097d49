// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conversion.  See convert.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "convert.h"
#include "io.h"
#include "mode.h"
#include "set.h"
#include "stripe.h"
#include "volume-table.h"

#define DM_MSG_PREFIX "fusion"

/* Tops looked at under the commit mutex at a time. */
#define LOAD_STEP	256

struct convert {
	struct fusion_pool *pool;
	struct fusion_set *set;
	struct fusion_volume *volume[FUSION_MAX_MEMBERS];	/* of owners */
	u64 mask[FUSION_MAX_MEMBERS];	/* pages that tops have */
	u64 live;			/* slots */
	struct fusion_stripe *stripe;
};

static u64 convert_place(const struct convert *c, unsigned int slot)
{
	return fusion_place(c->set->stripe[0], slot);
}

static u64 owner_block(const struct fusion_set *set, unsigned int slot)
{
	return set->owner[slot] & (FUSION_MAX_BLOCKS - 1);
}

/* ---- one slot's I/O ---- */

static void convert_count(struct convert *c, unsigned int pages, blk_opf_t opf)
{
	struct fusion_convert *stats = &c->pool->convert;

	if (op_is_write(opf))
		stats->written_pages += pages;
	else
		stats->read_pages += pages;
}

static void convert_submit(struct convert *c, unsigned int slot, u64 place,
			   unsigned int first, unsigned int pages,
			   blk_opf_t opf)
{
	convert_count(c, pages, opf);
	fusion_stripe_submit(c->stripe, slot, place, first, pages, opf);
}

static int convert_io(struct convert *c, unsigned int slot, u64 place,
		      unsigned int first, unsigned int pages, blk_opf_t opf)
{
	fusion_stripe_begin(c->stripe, NULL);
	convert_submit(c, slot, place, first, pages, opf);
	return fusion_stripe_end(c->stripe);
}

/* The pages of a block that are not in @mask: from @base to its new place. */
static int convert_fill(struct convert *c, unsigned int slot, u64 mask,
			u64 base)
{
	unsigned int pages = c->pool->block_pages, page, run;
	int r = 0;

	for (page = 0; page < pages; page += run) {
		run = fusion_mask_run(mask, page, pages - page);
		if (mask & (1ULL << page))
			continue;
		if (base)
			r = convert_io(c, slot, base, page, run, REQ_OP_READ);
		else
			memset(c->stripe->slot[slot].data +
			       (page << FUSION_PAGE_SHIFT), 0,
			       run << FUSION_PAGE_SHIFT);
		if (!r)
			r = convert_io(c, slot, convert_place(c, slot), page,
				       run, REQ_OP_WRITE);
		if (r)
			return r;
	}
	return 0;
}

/* ---- the steps ---- */

/*
 * The overlay of @slot's owner if its top is there still.  The chunk is pinned
 * and the block held: it stays.
 */
static struct fusion_overlay *convert_overlay(struct convert *c,
					      unsigned int slot)
{
	struct fusion_overlay *ov;
	u64 entry;

	rcu_read_lock();
	entry = fusion_map_entry(&c->pool->map, c->volume[slot]->id,
				 owner_block(c->set, slot));
	ov = fusion_entry_overlay(entry);
	if (ov && ov->top.place[0] != convert_place(c, slot))
		ov = NULL;
	rcu_read_unlock();
	return ov;
}

/* Step 1.  -EBUSY: somebody holds the block. */
static int convert_gather(struct convert *c, unsigned int i)
{
	struct fusion_block_lock *locks = &c->pool->locks;
	struct fusion_slot *slot = &c->stripe->slot[i];
	struct fusion_overlay *ov;
	int r;

	if (!fusion_hold_take(locks, &slot->hold, c->set->owner[i],
			      FUSION_HOLD_EXCLUSIVE, NULL))
		return -EBUSY;
	r = fusion_volume_prepare(c->volume[i], owner_block(c->set, i),
				  &slot->update);
	if (r)
		goto out;
	ov = convert_overlay(c, i);
	if (!ov) {
		fusion_update_cancel(&c->pool->map, &slot->update);
		goto out;
	}
	c->live |= 1ULL << i;
	c->mask[i] = ov->top.mask;
	r = convert_fill(c, i, ov->top.mask, ov->base);
	if (!r)
		WRITE_ONCE(ov->converting, true);
out:
	fusion_hold_drop(locks, &slot->hold);
	return r;
}

/* Step 2: read what step 1 has not, a run of pages of each slot at a time. */
static int convert_read(struct convert *c)
{
	unsigned int pages = c->pool->block_pages, i, first, run;
	u64 slots = c->live, left;
	int r = 0;

	while (!r && slots) {
		fusion_stripe_begin(c->stripe, NULL);
		for (left = slots; left; left &= left - 1) {
			i = fusion_ctz64(left);
			first = fusion_ctz64(c->mask[i]);
			run = fusion_mask_run(c->mask[i], first, pages - first);
			convert_submit(c, i, convert_place(c, i), first, run,
				       REQ_OP_READ);
			c->mask[i] &= ~fusion_mask(first, run);
			if (!c->mask[i])
				slots &= ~(1ULL << i);
		}
		r = fusion_stripe_end(c->stripe);
	}
	return r;
}

static int convert_parity(struct convert *c)
{
	struct fusion_class *class = c->set->class;
	unsigned int i;

	fusion_stripe_parity(c->stripe, c->live);
	fusion_stripe_begin(c->stripe, NULL);
	for (i = class->d; i < class->k; i++)
		convert_submit(c, i, convert_place(c, i), 0,
			       c->pool->block_pages, REQ_OP_WRITE);
	return fusion_stripe_end(c->stripe);
}

/*
 * Hold the blocks of all live slots; *@held: those that are.  -EBUSY: one is
 * held by somebody, or was written.
 */
static int convert_hold(struct convert *c, u64 *held)
{
	struct fusion_overlay *ov;
	u64 left;

	*held = 0;
	for (left = c->live; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		struct fusion_slot *slot = &c->stripe->slot[i];

		if (!fusion_hold_take(&c->pool->locks, &slot->hold,
				      c->set->owner[i], FUSION_HOLD_EXCLUSIVE,
				      NULL))
			return -EBUSY;
		*held |= 1ULL << i;
		ov = convert_overlay(c, i);
		if (!ov)
			fusion_update_cancel(&c->pool->map, &slot->update);
		else if (!READ_ONCE(ov->converting))
			return -EBUSY;
	}
	return 0;
}

static void convert_drop(struct convert *c, u64 held)
{
	for (; held; held &= held - 1)
		fusion_hold_drop(&c->pool->locks,
				 &c->stripe->slot[fusion_ctz64(held)].hold);
}

/* Step 3, in core.  -ENODATA: nothing is live any more. */
static int convert_switch(struct convert *c)
{
	struct fusion_pool *pool = c->pool;
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	u64 held, left;
	bool any = false;
	int r;

	r = convert_hold(c, &held);
	if (r)
		goto out;
	c->set->written = c->live;
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	for (left = c->live; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		struct fusion_update *u = &c->stripe->slot[i].update;

		if (!u->chunk)
			continue;
		fusion_update_base(&pool->map, shard, u, convert_place(c, i));
		any = true;
	}
	if (any)
		list_add_tail(&c->set->seal, &shard->seals);
	else
		r = -ENODATA;
	fusion_epoch_exit(shard, flags);
	if (any)
		fusion_commit_soon(pool);
out:
	convert_drop(c, held);
	return r;
}

static int convert_steps(struct convert *c)
{
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < c->set->class->d; i++)
		if (c->volume[i])
			r = convert_gather(c, i);
	if (!r && !c->live)
		r = -ENODATA;
	if (!r)
		r = convert_read(c);
	if (!r)
		r = convert_parity(c);
	if (!r)
		r = convert_switch(c);
	for (i = 0; i < c->set->class->d; i++)
		fusion_update_cancel(&c->pool->map, &c->stripe->slot[i].update);
	return r;
}

/* ---- sets ---- */

/* Owners' volumes, which stay: the caller has the deletion lock. */
static void convert_find_volumes(struct convert *c)
{
	unsigned int i;

	lockdep_assert_held(&c->pool->commit_lock);
	for (i = 0; i < c->set->class->d; i++) {
		struct fusion_volume *v = NULL;

		if (c->set->owner[i] != FUSION_NO_OWNER)
			v = fusion_volume_find(c->pool, c->set->owner[i] >>
					       FUSION_BLOCK_BITS);
		c->volume[i] = v && !v->deleting ? v : NULL;
	}
}

/*
 * Take the next set up to @number.  0, -ENOENT: there is none, or -ENOMEM.
 * With a set goes a grace reference, which is got while the set is not gone:
 * so A and B stay what they are.
 */
static int convert_take(struct convert *c, u64 number,
			struct fusion_stripe_pool **sp, unsigned int *grace)
{
	struct fusion_pool *pool = c->pool;
	int r = 0;

	mutex_lock(&pool->commit_lock);
	c->set = fusion_sets_take(&pool->space, number);
	if (!c->set) {
		r = -ENOENT;
		goto out;
	}
	*sp = fusion_stripe_background(pool, c->set->class);
	if (!*sp) {
		fusion_sets_give_back(&pool->space, c->set);
		r = -ENOMEM;
		goto out;
	}
	convert_find_volumes(c);
	*grace = fusion_grace_enter(&pool->grace);
out:
	mutex_unlock(&pool->commit_lock);
	return r;
}

/* Convert the next set up to @number.  Errors: convert_take()'s, or of I/O. */
static int convert_next(struct fusion_pool *pool, struct convert *c, u64 number)
{
	struct fusion_convert *stats = &pool->convert;
	struct fusion_stripe_pool *sp;
	unsigned int grace;
	int r;

	memset(c, 0, sizeof(*c));
	c->pool = pool;
	r = convert_take(c, number, &sp, &grace);
	if (r)
		return r;
	c->stripe = fusion_stripe_get(sp);
	r = convert_steps(c);
	fusion_stripe_put(sp, c->stripe);
	fusion_grace_leave(&pool->grace, grace);
	if (!r) {
		/* the epoch has the set */
		WRITE_ONCE(stats->converted, stats->converted + 1);
		return 0;
	}
	if (r == -EBUSY)
		WRITE_ONCE(stats->gave_up, stats->gave_up + 1);
	mutex_lock(&pool->commit_lock);
	fusion_sets_give_back(&pool->space, c->set);
	mutex_unlock(&pool->commit_lock);
	return r == -EBUSY || r == -ENODATA ? 0 : r;
}

/* ---- the table after a start ---- */

/* Up to LOAD_STEP tops of the volume *@id, from *@block on. */
static int load_step(struct fusion_pool *pool, u32 *id, u64 *block)
{
	struct fusion_disk_top disk;
	struct fusion_volume *v;
	struct fusion_top top;
	unsigned int i;
	int r = 0;

	lockdep_assert_held(&pool->commit_lock);
	v = fusion_volume_from(pool, *id);
	if (!v)
		return -ENOENT;
	if (v->id != *id) {
		*id = v->id;
		*block = 0;
	}
	for (i = 0; i < LOAD_STEP; i++, ++*block) {
		r = fusion_md_next_top(pool->md, *id, block, &disk);
		if (r)
			break;
		if (fusion_space_decode_top(&pool->space, &disk, &top)) {
			DMERR("%s: volume %u block %llu: metadata has an impossible top",
			      fusion_pool_name(pool), *id, *block);
			return -EIO;
		}
		r = fusion_sets_found(&pool->space,
				      fusion_block_key(*id, *block), &top);
		if (r)
			return r;
	}
	if (r == -ENODATA) {
		++*id;
		*block = 0;
		r = 0;
	}
	return r;
}

static int convert_load(struct fusion_pool *pool)
{
	u64 block = 0;
	u32 id = 0;
	int r;

	do {
		mutex_lock(&pool->commit_lock);
		r = fusion_background_stopping(&pool->convert.background) ? -EINTR :
			load_step(pool, &id, &block);
		mutex_unlock(&pool->commit_lock);
		cond_resched();
	} while (!r);
	return r == -ENOENT ? 0 : r;
}

/* ---- the worker ---- */

static int convert_pass(struct fusion_pool *pool, u64 number)
{
	struct convert *c;
	int r = 0;

	c = kmalloc(sizeof(*c), GFP_NOIO);
	if (!c)
		return -ENOMEM;

	while (!r) {
		if (fusion_background_stopping(&pool->convert.background))
			r = -EINTR;
		else if (!fusion_pool_writable(pool))
			r = -EIO;
		else if (fusion_commit_crowded(pool))
			r = fusion_commit(pool);
		/* volumes stay as they are */
		mutex_lock(&pool->delete_lock);
		if (!r)
			r = convert_next(pool, c, number);
		mutex_unlock(&pool->delete_lock);
		cond_resched();
	}
	kfree(c);
	return r == -ENOENT ? 0 : r;
}

static int convert_all(struct fusion_background *b)
{
	struct fusion_convert *convert = container_of(b, struct fusion_convert,
						      background);
	struct fusion_pool *pool = container_of(convert, struct fusion_pool,
						convert);
	u64 number;
	int r = 0;

	if (!convert->loaded)
		r = convert_load(pool);
	if (r)
		goto out;
	convert->loaded = true;
	mutex_lock(&pool->commit_lock);
	number = pool->space.sets_number;
	mutex_unlock(&pool->commit_lock);
	r = convert_pass(pool, number);
	if (!r)
		r = fusion_commit_and_free(pool);
out:
	if (r && r != -EINTR)
		DMERR("%s: conversion ended with error %d",
		      fusion_pool_name(pool), r);
	return r;
}

int fusion_convert_all(struct fusion_pool *pool)
{
	unsigned int i;
	int r;

	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++)
		fusion_sets_close_idle(&pool->space, pool->space.class[i]);
	r = fusion_commit(pool);
	return r ? r : fusion_background_run(&pool->convert.background,
					     pool->slow_wq);
}

void fusion_convert_init(struct fusion_pool *pool)
{
	fusion_background_init(&pool->convert.background, convert_all);
}
