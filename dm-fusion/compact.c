// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compaction.  See compact.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "commit.h"
#include "compact.h"
#include "hang.h"
#include "mode.h"
#include "set-table.h"
#include "trace.h"
#include "volume-table.h"

#define DM_MSG_PREFIX "fusion"

/* Stripes whose owners one walk finds, and what they are to give back. */
#define VICTIMS_MAX	2048
#define GAIN_MIN	16
#define GAIN_MAX	1024
/* Groups of the map read before commits may pass. */
#define WALK_STEP	64
/* Where others are in the way a class is left alone for so long; and hope, if a member hangs. */
#define REST		(FUSION_RECLAIM_TICK / 2)
#define HOPE		HZ
/*
 * What was found may be gone before it is moved, but not again and again: if the metadata is
 * damaged a walk may find what the map in core never says, and will not ever move it.
 */
#define VAIN_MAX	16

/* A block to be moved. */
struct fusion_victim {
	u64 key;
	u64 from;
};

/* ---- owners ---- */

struct walk {
	struct fusion_pool *pool;
	struct fusion_class *class;
	unsigned int max_live;
	unsigned int count;
	u64 stripe[VICTIMS_MAX];	/* best first */
	u16 order[VICTIMS_MAX];		/* of the above, by id */
	u64 *owner;			/* d of each stripe */
};

static int walk_cmp(const void *a, const void *b, const void *priv)
{
	const struct walk *w = priv;
	u64 x = w->stripe[*(const u16 *)a], y = w->stripe[*(const u16 *)b];

	return x < y ? -1 : x > y;
}

/* The index of @stripe, or -1. */
static int walk_find(const struct walk *w, u64 stripe)
{
	int low = 0, high = w->count - 1;

	while (low <= high) {
		int middle = (low + high) / 2, i = w->order[middle];

		if (w->stripe[i] == stripe)
			return i;
		if (w->stripe[i] < stripe)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

static void walk_group(struct walk *w, u32 volume, u64 group,
		       const struct fusion_disk_base *base)
{
	unsigned int i;

	for (i = 0; i < FUSION_GROUP_BLOCKS; i++) {
		u64 place = le64_to_cpu(base->place[i]);
		int at;

		if (!place ||
		    !fusion_space_place_ok(&w->pool->space, place) ||
		    fusion_space_live(&w->pool->space,
				      fusion_place_stripe(place)) > w->max_live)
			continue;
		at = walk_find(w, fusion_place_stripe(place));
		if (at >= 0 && fusion_place_slot(place) < w->class->d)
			w->owner[at * w->class->d + fusion_place_slot(place)] =
				fusion_block_key(volume,
						 (group << FUSION_GROUP_SHIFT) + i);
	}
}

/* WALK_STEP groups of @v from *@group on.  -ENODATA: those were all. */
static int walk_step(struct walk *w, struct fusion_volume *v, u64 *group,
		     struct fusion_disk_base *base)
{
	struct fusion_md *md = w->pool->md;
	unsigned int i;
	int r;

	r = fusion_md_read_begin(md, true);
	if (r)
		return r;
	for (i = 0; !r && i < WALK_STEP; i++) {
		r = fusion_md_read_next_base(md, true, v->id, group, base);
		if (!r)
			walk_group(w, v->id, (*group)++, base);
	}
	fusion_md_read_end(md);
	cond_resched();
	return r;
}

static int walk_volumes(struct walk *w)
{
	struct fusion_disk_base *base;
	struct fusion_volume *v;
	u64 group;
	u32 id;
	int r = 0;

	base = kmalloc(sizeof(*base), GFP_NOIO);
	if (!base)
		return -ENOMEM;
	for (id = 0; !r && (v = fusion_volume_get_from(w->pool, id)); id++) {
		id = v->id;
		group = 0;
		if (v->class == w->class)
			while (!r)
				r = READ_ONCE(w->pool->reclaim.stop) ? -EINTR :
					walk_step(w, v, &group, base);
		fusion_volume_put(v);
		if (r == -ENODATA)
			r = 0;
	}
	kfree(base);
	return r;
}

/* ---- what is to be moved ---- */

/* The owners that were found, best stripes first. */
static int victims_list(struct fusion_victims *victims, const struct walk *w,
			enum fusion_victims_of what)
{
	unsigned int d = w->class->d, i, n = 0;
	struct fusion_victim *item;

	item = kvmalloc_array(w->count * d, sizeof(*item), GFP_NOIO);
	if (!item)
		return -ENOMEM;
	for (i = 0; i < w->count * d; i++) {
		if (w->owner[i] == FUSION_NO_OWNER)
			continue;
		item[n].key = w->owner[i];
		item[n++].from = fusion_place(w->stripe[i / d], i % d);
	}
	spin_lock(&victims->lock);
	swap(victims->item, item);
	victims->class = w->class;
	WRITE_ONCE(victims->what, what);
	victims->next = 0;
	victims->count = n;
	spin_unlock(&victims->lock);
	kvfree(item);
	return n ? 0 : -ENOENT;
}

static int victims_walk(struct walk *w, struct fusion_victims *victims, unsigned int max_live)
{
	struct fusion_space *s = &w->pool->space;
	u64 gain = s->slow_zone / w->class->k / 2;
	unsigned int i;
	enum fusion_victims_of what;
	int r;

	gain = clamp_t(u64, gain, GAIN_MIN, GAIN_MAX);
	w->count = fusion_space_victims(s, w->class, max_live, gain,
					w->stripe, VICTIMS_MAX, &what);
	if (!w->count)
		return -ENOENT;
	w->max_live = what == FUSION_OF_SPARSE ? max_live : w->class->d;
	for (i = 0; i < w->count; i++)
		w->order[i] = i;
	sort_r(w->order, w->count, sizeof(*w->order), walk_cmp, NULL, w);
	w->owner = kvmalloc_array(w->count * w->class->d, sizeof(*w->owner),
				  GFP_NOIO);
	if (!w->owner)
		return -ENOMEM;
	memset(w->owner, 0xff, w->count * w->class->d * sizeof(*w->owner));
	BUILD_BUG_ON(FUSION_NO_OWNER != ~0ULL);
	r = walk_volumes(w);
	if (!r)
		r = victims_list(victims, w, what);
	kvfree(w->owner);
	return r;
}

/* Are there blocks of @class to move? */
static bool victims_any(struct fusion_victims *victims,
			struct fusion_class *class)
{
	bool any;

	spin_lock(&victims->lock);
	any = victims->class == class && victims->next < victims->count;
	spin_unlock(&victims->lock);
	return any;
}

/*
 * What has come of the blocks that were found last: if none could be moved, as others were in
 * the way, another walk would find the same ones.
 */
static void victims_judge(struct fusion_victims *victims)
{
	struct fusion_class *class = victims->class;
	u64 now = get_jiffies_64();

	lockdep_assert_held(&victims->walk_lock);
	if (!class)
		return;
	if (READ_ONCE(victims->moved)) {
		victims->of[class->index].since = 0;
		victims->of[class->index].vain = 0;
	} else if (!READ_ONCE(victims->crossed)) {
		victims->of[class->index].since = 0;
		/* those that nobody tried to move, for want of a stripe, tell nothing */
		if (victims->next && ++victims->of[class->index].vain >= VAIN_MAX)
			victims->of[class->index].rest = now + REST;
	} else {
		victims->of[class->index].rest = now + REST;
		if (!victims->of[class->index].since)
			victims->of[class->index].since = now;
	}
	WRITE_ONCE(victims->crossed, false);
	WRITE_ONCE(victims->moved, false);
	/* only once */
	spin_lock(&victims->lock);
	victims->class = NULL;
	spin_unlock(&victims->lock);
}

/*
 * -EBUSY: not yet.  -ENOENT: whoever is in the way of @class may be so for ever, as he writes
 * to a member that hangs; or all walks were in vain.
 */
static int victims_rest(struct fusion_pool *pool, struct fusion_class *class)
{
	u64 now = get_jiffies_64(), since = pool->victims.of[class->index].since;

	if (pool->victims.of[class->index].rest <= now)
		return 0;
	if (pool->victims.of[class->index].vain >= VAIN_MAX)
		return -ENOENT;
	return now - since >= HOPE && fusion_hang_left(pool) ? -ENOENT : -EBUSY;
}

/*
 * Find blocks to move, if there are none left; not before all that were found
 * last are where they stay, or jobs would be after the same ones.  Commits, and
 * waits for grace periods and for other jobs: who has a grace reference must
 * not wait for the walk.
 */
static int victims_refill(struct fusion_pool *pool, struct fusion_class *class,
			  unsigned int max_live)
{
	struct fusion_victims *victims = &pool->victims;
	struct walk *w;
	int r = 0;

	mutex_lock(&victims->walk_lock);
	if (victims_any(victims, class))
		goto out;
	wait_event(victims->settled, !atomic_read(&victims->moving));
	victims_judge(victims);
	r = victims_rest(pool, class);
	/* what moved last is seen by the walk */
	if (!r)
		r = fusion_commit(pool);
	if (!r)
		r = fusion_space_load(&pool->space, class, &pool->commit_lock);
	if (r)
		goto out;
	w = kvzalloc(sizeof(*w), GFP_NOIO);
	r = -ENOMEM;
	if (w) {
		w->pool = pool;
		w->class = class;
		r = victims_walk(w, victims, max_live);
	}
	kvfree(w);
out:
	mutex_unlock(&victims->walk_lock);
	return r;
}

/*
 * Take the next @max blocks of the list, or what is left of it: at once, so that
 * jobs do not split what is worth a stripe only together.  How many.
 */
static unsigned int victims_take(struct fusion_victims *victims,
				 struct fusion_class *class,
				 struct fusion_victim *item, unsigned int max)
{
	unsigned int n = 0;

	spin_lock(&victims->lock);
	if (victims->class == class)
		n = min(max, victims->count - victims->next);
	memcpy(item, &victims->item[victims->next], n * sizeof(*item));
	victims->next += n;
	spin_unlock(&victims->lock);
	return n;
}

void fusion_compact_init(struct fusion_pool *pool)
{
	mutex_init(&pool->victims.walk_lock);
	spin_lock_init(&pool->victims.lock);
	init_waitqueue_head(&pool->victims.settled);
}

void fusion_compact_exit(struct fusion_pool *pool)
{
	kvfree(pool->victims.item);
}

/* ---- moving ---- */

/*
 * Take the block with @key in as slot *@i, if it is still at @from: then *@i is the
 * next slot.  0 also if it is not.
 */
static int compact_gather(struct fusion_move *m, unsigned int *i, u64 key,
			  u64 from)
{
	int r = 0;

	if (!fusion_move_set(m, *i, key, from))
		return 0;
	/* somebody may be writing there in place */
	m->slot[*i].gated = fusion_gate_enter(&m->pool->gates,
					      fusion_place_stripe(from), false);
	if (m->slot[*i].gated && fusion_move_hold(m, *i)) {
		r = fusion_move_look(m, *i);
		fusion_move_drop(m, 1ULL << *i);
	} else {
		m->hot = 0;
		m->given_up++;
	}
	if (r)
		return r;
	if (m->live & (1ULL << *i))
		++*i;
	else
		fusion_move_clear(m, *i);
	return 0;
}

/* The live slots, to the fresh stripe.  -EAGAIN: not now; -ENODATA: none is left. */
static int compact_write(struct fusion_move *m)
{
	struct fusion_class *class = m->stripe->class;
	struct fusion_seal *seal;
	u64 written = m->live;
	int r;

	seal = kmalloc(sizeof(*seal), GFP_NOIO);
	if (!seal)
		return -ENOMEM;
	r = fusion_move_read(m, written);
	if (!r) {
		fusion_stripe_parity(m->stripe, written);
		r = fusion_move_write(m, written |
				      fusion_mask(class->d, class->p));
	}
	if (r)
		goto out;
	fusion_move_close(m);
	m->given_up += hweight64(m->hot);
	r = -ENODATA;
	if (!m->live)
		goto out;
	seal->stripe = m->to;
	seal->written = written;
	seal->set = NULL;
	fusion_move_switch(m, seal);
	atomic64_inc(&m->pool->compacted.done);
	return 0;
out:
	kfree(seal);
	return r;
}

/*
 * Write what was gathered, of @sets sets or of stripes, if it is worth it; and
 * end the move.  -ENODATA: it was not; -EBUSY: it was not as others were in the way.
 */
static int compact_end(struct fusion_move *m, unsigned int sets, int r,
		       bool worth)
{
	struct fusion_progress *stats = &m->pool->compacted;

	if (!r && worth && m->live)
		r = compact_write(m);
	else if (!r)
		r = -ENODATA;
	/* another time: it may be just these that it would not be worth it without */
	if (r == -EAGAIN || (r == -ENODATA && m->given_up))
		r = -EBUSY;
	if (r)
		fusion_space_unhold(&m->pool->space, m->to, false);
	trace_fusion_compact(m, sets, r);
	fusion_move_end(m);
	atomic64_add(m->given_up, &stats->given_up);
	atomic64_add(m->read_pages, &stats->read_pages);
	atomic64_add(m->written_pages, &stats->written_pages);
	return r;
}

/*
 * Fill the slots from the list.  *@worth: that empties two stripes, or something
 * of a band that is to be emptied.
 */
static int stripe_gather(struct fusion_move *m, bool *worth)
{
	struct fusion_victim item[FUSION_MAX_MEMBERS];
	struct fusion_class *class = m->stripe->class;
	unsigned int i = 0, was, n, j;
	u64 first = FUSION_NO_STRIPE, stripe;
	int r;

	*worth = false;
	while (i < class->d &&
	       (n = victims_take(&m->pool->victims, class, item, class->d - i))) {
		for (j = 0; j < n; j++) {
			was = i;
			r = compact_gather(m, &i, item[j].key, item[j].from);
			if (r)
				return r;
			if (i == was)
				continue;
			stripe = fusion_place_stripe(item[j].from);
			if (first == FUSION_NO_STRIPE)
				first = stripe;
			*worth |= stripe != first ||
				fusion_space_leaves(&m->pool->space, item[j].from);
		}
	}
	return 0;
}

/*
 * For what is in bands of the old layout.  It waits for room, and what else there is to move does
 * not wait for it.
 */
static int old_draw(struct fusion_pool *pool, struct fusion_class *class, u64 *stripe)
{
	struct fusion_victims *victims = &pool->victims;
	int r = fusion_space_draw_moved(&pool->space, class, stripe);

	if (r != -ENOSPC)
		return r;
	spin_lock(&victims->lock);
	if (victims->class == class && victims->what == FUSION_OF_OLD)
		victims->count = victims->next;
	spin_unlock(&victims->lock);
	return -ENOSPC;
}

/*
 * The reserve is for what gives more than it takes.  A band that would need it
 * to be emptied is kept.
 */
static int compact_draw(struct fusion_pool *pool, struct fusion_class *class,
			u64 *stripe)
{
	if (!fusion_space_evacuates(&pool->space, class))
		return READ_ONCE(pool->victims.what) == FUSION_OF_OLD ?
			old_draw(pool, class, stripe) :
			fusion_space_draw_reserved(&pool->space, class, stripe);
	if (!fusion_space_draw_stripe(&pool->space, class, stripe))
		return 0;
	fusion_space_keep(&pool->space);
	return -ENOSPC;
}

int fusion_compact_stripe(struct fusion_pool *pool, struct fusion_move *m,
			  struct fusion_class *class, unsigned int max_live)
{
	struct fusion_stripe_pool *sp;
	unsigned int grace;
	bool worth;
	int r;

	sp = fusion_stripe_background(pool, class);
	if (!sp)
		return -ENOMEM;
	r = victims_any(&pool->victims, class) ? 0 :
		victims_refill(pool, class, max_live);
	if (r)
		return r;
	fusion_move_init(m, pool);
	r = compact_draw(pool, class, &m->to);
	if (r)
		return r;
	m->stripe = fusion_stripe_get(sp);
	grace = fusion_grace_enter(&pool->grace);
	atomic_inc(&pool->victims.moving);
	r = stripe_gather(m, &worth);
	r = compact_end(m, 0, r, worth);
	if (!r)
		WRITE_ONCE(pool->victims.moved, true);
	else if (r == -EBUSY)
		WRITE_ONCE(pool->victims.crossed, true);
	if (atomic_dec_and_test(&pool->victims.moving))
		wake_up_all(&pool->victims.settled);
	fusion_grace_leave(&pool->grace, grace);
	fusion_stripe_put(sp, m->stripe);
	/* others may be left */
	return r == -ENODATA || r == -EBUSY ? 0 : r;
}

/* ---- sets ---- */

/* Take the live blocks of @set in, from slot *@i on. */
static int set_gather(struct fusion_move *m, const struct fusion_set *set,
		      unsigned int *i)
{
	struct fusion_class *class = set->class;
	unsigned int slot;
	int r;

	for (slot = 0; slot < class->d && *i < class->d; slot++) {
		if (set->owner[slot] == FUSION_NO_OWNER)
			continue;
		r = compact_gather(m, i, set->owner[slot],
				   fusion_place(set->stripe[0], slot));
		if (r)
			return r;
	}
	return 0;
}

int fusion_compact_sets(struct fusion_pool *pool, struct fusion_move *m)
{
	struct fusion_set *set[FUSION_MAX_MEMBERS];
	struct fusion_stripe_pool *sp;
	unsigned int grace[FUSION_MAX_MEMBERS], count, i, slots = 0;
	bool entered[FUSION_MAX_MEMBERS];
	struct fusion_class *class;
	int r;

	count = fusion_sets_take_sparse(&pool->space, set, ARRAY_SIZE(set));
	if (!count)
		return -ENOENT;
	class = set[0]->class;
	fusion_move_init(m, pool);
	r = -ENOMEM;
	sp = fusion_stripe_background(pool, class);
	if (sp)
		r = fusion_space_draw_reserved(&pool->space, class, &m->to);
	if (r)
		goto out;
	m->stripe = fusion_stripe_get(sp);
	for (i = 0; i < count; i++) {
		entered[i] = fusion_sets_enter(&pool->space, set[i], &grace[i]);
		if (!r && entered[i])
			r = set_gather(m, set[i], &slots);
	}
	/* what was live when they were taken may have moved since */
	r = compact_end(m, count, r, 2 * slots >= class->d);
	for (i = 0; i < count; i++)
		if (entered[i])
			fusion_grace_leave(&pool->grace, grace[i]);
	fusion_stripe_put(sp, m->stripe);
out:
	/* if nothing was moved, one of them may be worth converting; or others are */
	while (count--)
		if (r && r != -EIO)
			fusion_sets_put_back(&pool->space, set[count]);
		else
			fusion_sets_give_back(&pool->space, set[count]);
	return r == -ENODATA || r == -EBUSY ? -ENOENT : r;
}
