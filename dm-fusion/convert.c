// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conversion.  See convert.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "convert.h"
#include "mode.h"
#include "set-table.h"
#include "trace.h"
#include "volume-table.h"

/* Attempts after which a set is frozen. */
#define ATTEMPTS	2

/* How long a set waits for a volume's deletion before others are looked at again. */
#define DELETION_WAIT	(HZ / 10)

/* Tops looked at under the commit mutex at a time. */
#define LOAD_STEP	256

/* ---- the steps ---- */

/* The pages of slot @i's block that its top has not, to their new place. */
static int convert_fill(struct fusion_move *m, unsigned int i)
{
	struct fusion_move_block *b = &m->slot[i];
	unsigned int pages = m->pool->block_pages, page, run;
	int r;

	b->need &= ~b->mask;
	r = fusion_move_read(m, 1ULL << i);
	for (page = 0; !r && page < pages; page += run) {
		run = fusion_mask_run(b->mask, page, pages - page);
		if (!(b->mask & (1ULL << page)))
			r = fusion_move_write_pages(m, i, page, run);
	}
	b->need = b->mask;
	return r;
}

/* Step 1.  -EBUSY: somebody holds the block. */
static int convert_gather(struct fusion_move *m, unsigned int i)
{
	bool frozen = m->held & (1ULL << i);
	int r;

	if (!frozen && !fusion_move_hold(m, i))
		return -EBUSY;
	r = fusion_move_look(m, i);
	if (!r && m->live & (1ULL << i))
		r = convert_fill(m, i);
	if (!frozen)
		fusion_move_drop(m, 1ULL << i);
	return r;
}

static int convert_seal(struct fusion_move *m, struct fusion_set *set,
			u64 written)
{
	struct fusion_seal *seal;

	seal = kmalloc(sizeof(*seal), GFP_NOIO);
	if (!seal)
		return -ENOMEM;
	fusion_move_close(m);
	/*
	 * The parity is that of all of @written: also what has gone since may have
	 * been written before it went.
	 */
	if (m->live != written) {
		kfree(seal);
		return -EBUSY;
	}
	seal->stripe = m->to;
	seal->written = written;
	seal->set = set;
	fusion_move_switch(m, seal);
	return 0;
}

static int convert_steps(struct fusion_move *m, struct fusion_set *set)
{
	struct fusion_class *class = set->class;
	unsigned int i;
	u64 written;
	int r;

	for (i = 0; i < class->d; i++) {
		r = m->slot[i].volume ? convert_gather(m, i) : 0;
		if (r)
			return r;
	}
	written = m->live;
	if (!written)
		return -ENODATA;
	r = fusion_move_read(m, written);
	if (r)
		return r;
	fusion_stripe_parity(m->stripe, written);
	r = fusion_move_write(m, fusion_mask(class->d, class->p));
	return r ? r : convert_seal(m, set, written);
}

/* ---- sets ---- */

/*
 * The blocks whose primaries are in @set.  All of them: a stripe that is sealed
 * without one would have no parity for it.  -ESTALE: what is of a volume that is being deleted,
 * m->wait, does not move, and is live by the metadata until its deletion comes to it.
 */
static int convert_find(struct fusion_move *m, const struct fusion_set *set)
{
	unsigned int i;
	int r;

	m->to = set->stripe[0];
	for (i = 0; i < set->class->d; i++) {
		if (set->owner[i] == FUSION_NO_OWNER)
			continue;
		if (!fusion_move_set(m, i, set->owner[i], fusion_place(m->to, i))) {
			m->wait = set->owner[i] >> FUSION_BLOCK_BITS;
			if (fusion_volume_deleting(m->pool, m->wait))
				return -ESTALE;
			continue;
		}
		r = fusion_move_there(m, i);
		if (r < 0)
			return r;
		/* a block may own two slots, but be in one */
		if (!r)
			fusion_move_clear(m, i);
	}
	return 0;
}

static int convert_set(struct fusion_move *m, struct fusion_set *set,
		       bool freeze)
{
	struct fusion_stripe_pool *sp;
	unsigned int grace;
	bool there = false;
	int r;

	sp = fusion_stripe_background(m->pool, set->class);
	if (!sp)
		return -ENOMEM;
	m->stripe = fusion_stripe_get(sp);
	r = convert_find(m, set);
	if (!r && freeze && !fusion_move_hold_wait(m))
		r = -EBUSY;
	if (!r)
		there = fusion_sets_enter(&m->pool->space, set, &grace);
	if (there)
		r = convert_steps(m, set);
	else if (!r)
		r = -ENODATA;
	trace_fusion_convert(m, freeze, r);
	fusion_move_end(m);
	if (there)
		fusion_grace_leave(&m->pool->grace, grace);
	fusion_stripe_put(sp, m->stripe);
	return r;
}

/*
 * A base could not be read, nor computed from @stripe: until nobody writes to that in
 * place, and the last commit knows it.
 */
static int convert_wait(struct fusion_pool *pool, u64 stripe)
{
	int r = fusion_gate_enter_wait(&pool->gates, stripe);

	if (r)
		return r;
	fusion_gate_leave(&pool->gates, stripe);
	return fusion_commit(pool);
}

int fusion_convert_next(struct fusion_pool *pool, struct fusion_move *m,
			u64 number, u64 busy, bool freeze)
{
	struct fusion_progress *stats = &pool->converted;
	struct fusion_set *set;
	int r;

	set = fusion_sets_take(&pool->space, number, busy);
	if (!set)
		return -ENOENT;
	fusion_move_init(m, pool);
	r = convert_set(m, set, freeze || set->given_up >= ATTEMPTS);
	atomic64_add(m->read_pages, &stats->read_pages);
	atomic64_add(m->written_pages, &stats->written_pages);
	if (!r) {
		/* the epoch has the set */
		atomic64_inc(&stats->done);
		return 0;
	}
	if (r == -EBUSY || r == -ESTALE) {
		/* others first, and then nothing else may be left */
		if (r == -ESTALE && set->given_up)
			fusion_volume_wait_deleted(pool, m->wait, DELETION_WAIT);
		set->given_up++;
		atomic64_inc(&stats->given_up);
	}
	if (r == -EAGAIN && set->waited < U8_MAX) {
		set->waited++;
		fusion_sets_put_back(&pool->space, set);
		return convert_wait(pool, m->wait);
	}
	fusion_sets_give_back(&pool->space, set);
	if (r == -EAGAIN)
		return -EIO;
	return r == -EBUSY || r == -ESTALE || r == -ENODATA ? 0 : r;
}

/* ---- the table after a start ---- */

/* Up to LOAD_STEP tops of @v from *@block on.  -ENODATA: those were all.  Under the commit mutex. */
static int load_step(struct fusion_volume *v, u64 *block)
{
	struct fusion_pool *pool = v->pool;
	struct fusion_disk_top disk;
	struct fusion_top top;
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < LOAD_STEP; i++, ++*block) {
		r = fusion_md_next_top(pool->md, v->id, block, &disk);
		if (r)
			break;
		if (fusion_space_decode_top(&pool->space, v->class, &disk, &top)) {
			fusion_md_damaged(pool->md, "volume %u block %llu has an impossible top",
					  v->id, *block);
			r = -EIO;
			break;
		}
		r = fusion_sets_found(&pool->space,
				      fusion_block_key(v->id, *block), &top);
	}
	return r;
}

/* The same for the patches. */
static int load_patches_step(struct fusion_volume *v, u64 *block)
{
	struct fusion_space *s = &v->pool->space;
	union fusion_patches_room room;
	unsigned int i, j;
	int r = 0;

	for (i = 0; !r && i < LOAD_STEP; i++, ++*block) {
		r = fusion_space_next_patches(s, v->id, v->class, block,
					      &room.patches);
		if (r)
			break;
		for (j = 0; !r && j < hweight64(room.patches.mask); j++)
			r = fusion_sets_found_patch(s,
						    fusion_block_key(v->id, *block),
						    &room.patches.patch[j]);
	}
	return r;
}

/*
 * All of volume @id's, step by step.  Also of one that is being deleted: what it still has in a set
 * is live by the metadata, and who would not know of it would seal the set without (convert_find()).
 * It may be gone between two steps, and another be there: all that one has is in sets of its own
 * time, and who writes tells the table of these.
 */
static int load_volume(struct fusion_pool *pool, u32 id, const bool *stop,
		       int (*step)(struct fusion_volume *v, u64 *block))
{
	struct fusion_volume *v;
	u64 block = 0;
	int r = 0;

	while (!r) {
		mutex_lock(&pool->commit_lock);
		v = fusion_volume_find(pool, id);
		r = READ_ONCE(*stop) ? -EINTR : v ? step(v, &block) : -ENODATA;
		mutex_unlock(&pool->commit_lock);
		cond_resched();
	}
	return r == -ENODATA ? 0 : r;
}

int fusion_convert_load(struct fusion_pool *pool, const bool *stop)
{
	u32 id;
	int r = 0;

	for (id = 0; !r && fusion_volume_next(pool, &id); id++) {
		r = load_volume(pool, id, stop, load_step);
		if (!r)
			r = load_volume(pool, id, stop, load_patches_step);
	}
	return r;
}
