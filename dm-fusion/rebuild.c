// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rebuild.  See rebuild.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "io.h"
#include "mode.h"
#include "rebuild.h"
#include "reclaim.h"
#include "reconstruct.h"
#include "spare.h"
#include "stripe.h"

#define DM_MSG_PREFIX "fusion"

/* Stripes to a commit. */
#define REBUILD_BATCH	64
/* Rounds that bring nothing, as all that is left is being written to. */
#define REBUILD_VAIN	3
/* What has begun by itself, and has not done all, does so again after this, and twice that. */
#define REBUILD_AGAIN		(10 * HZ)
#define REBUILD_AGAIN_MAX	(640 * HZ)
/* After a start. */
#define REBUILD_BEGIN	(5 * HZ)
/* Shorter waits for a rate add up. */
#define REBUILD_WAIT_MS	500
#define REBUILD_SLICE_MS	1000

struct rebuild {
	struct fusion_pool *pool;
	u64 in[REBUILD_BATCH];		/* stripes whose gates we are in */
	unsigned int count;
	u64 unpaid_kib;			/* read and written, and not waited for */
	unsigned int vain;		/* rounds in succession */
	struct rebuild_found {
		/* stripes of which something is still nowhere */
		u64 sets;		/* in sets, or that have died */
		u64 held;		/* by who will make them live, or writes to them */
		u64 stuck;		/* that have no place for it */
		u64 done;		/* and those that were rebuilt */
		int error;		/* of the first that could not be computed */
	} round;
};

/* Slots of a stripe that are nowhere, and where they go. */
struct rebuild_slots {
	u64 slots, members;
	unsigned int count;
	struct {
		unsigned int slot;
		u32 member;
		sector_t sector;
	} to[FUSION_MAX_AREAS];
};

/* Paused, it goes on for those who have asked for it. */
static bool rebuild_stopping(struct fusion_pool *pool)
{
	return fusion_background_stopping(&pool->rebuild.background) ||
		(READ_ONCE(pool->reclaim.tunables.paused) &&
		 !atomic_read(&pool->rebuild.asked));
}

/* Those of the batch are where they are to be, if nothing fails. */
static int rebuild_commit(struct rebuild *rb)
{
	int r = rb->count ? fusion_commit(rb->pool) : 0;

	while (rb->count)
		fusion_gate_leave(&rb->pool->gates, rb->in[--rb->count]);
	return r;
}

/* KiB a second that may be read and written now; 0: no limit. */
static u32 rebuild_rate(struct fusion_pool *pool)
{
	u32 rate = READ_ONCE(pool->reclaim.tunables.rate_kib);
	u32 busy = READ_ONCE(pool->reclaim.tunables.rebuild_kib);

	/* who looks at the load */
	fusion_reclaim_soon(pool);
	if (READ_ONCE(pool->reclaim.busy) && busy && (!rate || busy < rate))
		return busy;
	return rate;
}

/* What is to be waited for what has been read and written, in ms. */
static u64 rebuild_debt(struct rebuild *rb, u32 *rate)
{
	*rate = rebuild_rate(rb->pool);
	if (!*rate)
		rb->unpaid_kib = 0;
	return *rate ? div_u64(rb->unpaid_kib * 1000, *rate) : 0;
}

/* Let others have their time. */
static int rebuild_pace(struct rebuild *rb)
{
	struct fusion_pool *pool = rb->pool;
	u64 ms, paid;
	u32 rate;
	int r;

	ms = rebuild_debt(rb, &rate);
	if (ms < REBUILD_WAIT_MS)
		return 0;
	r = rebuild_commit(rb);
	/* the load changes, and so may the rates */
	while (!r && ms && !rebuild_stopping(pool)) {
		ms = min_t(u64, ms, REBUILD_SLICE_MS);
		wait_event_idle_timeout(pool->rebuild.background.wait,
					rebuild_stopping(pool), msecs_to_jiffies(ms));
		paid = max_t(u64, div_u64(ms * rate, 1000), 1);
		rb->unpaid_kib -= min(paid, rb->unpaid_kib);
		ms = rebuild_debt(rb, &rate);
	}
	return r;
}

/* Those of @id that @areas are for. */
static void rebuild_look(struct fusion_pool *pool, u64 id, u8 areas,
			 struct rebuild_slots *to)
{
	u32 left, i = 0;

	to->slots = 0;
	to->members = 0;
	for (left = areas; left; left &= left - 1, i++) {
		to->to[i].slot = fusion_spare_slot(&pool->space, id, fusion_ctz64(left),
						   &to->to[i].member, &to->to[i].sector);
		to->slots |= 1ULL << to->to[i].slot;
		to->members |= 1ULL << to->to[i].member;
	}
	to->count = i;
}

/* Of @id all slots that are there were read, or nearly, and @to written. */
static void rebuild_account(struct rebuild *rb, u64 id, struct fusion_class *class,
			    const struct rebuild_slots *to)
{
	struct fusion_pool *pool = rb->pool;
	unsigned int bytes = pool->block_sectors << SECTOR_SHIFT;
	u8 members[FUSION_MAX_MEMBERS];
	u64 mask;

	mask = fusion_space_members(&pool->space, class, id, members) | to->members;
	mask &= ~fusion_members_out(pool);
	rb->unpaid_kib += hweight64(mask) * (bytes >> 10);
	for (; mask; mask &= mask - 1)
		fusion_member_background(&pool->member[fusion_ctz64(mask)], bytes);
}

/* The lost ones of @slots, in memory: those that hold something. */
static int rebuild_compute(struct fusion_stripe *stripe, u64 id, u64 written, u64 slots)
{
	struct fusion_class *class = stripe->class;
	struct fusion_reconstruct r = {
		.stripe = stripe,
		.src = { .pages = stripe->pool->block_pages },
	};
	u64 data = slots & written;
	int e = 0;

	if (!(slots & (written | fusion_mask(class->d, class->p))))
		return 0;
	if (!data)
		data = fusion_slots_io(&r, id, written, REQ_OP_READ);
	if (data) {
		r.src.place = fusion_place(id, fusion_ctz64(data));
		e = fusion_reconstruct_stripe(&r);
	}
	if (!e && slots & fusion_mask(class->d, class->p))
		fusion_stripe_parity(stripe, written);
	return e;
}

/* Those slots of @to that hold something. */
static int rebuild_write(struct fusion_stripe *stripe, u64 written,
			 const struct rebuild_slots *to)
{
	struct fusion_pool *pool = stripe->pool;
	u64 content = written | fusion_mask(stripe->class->d, stripe->class->p);
	unsigned int i;

	fusion_stripe_begin(stripe, NULL);
	for (i = 0; i < to->count; i++)
		if (content >> to->to[i].slot & 1)
			fusion_stripe_submit_to(stripe, to->to[i].slot,
						&pool->member[to->to[i].member],
						to->to[i].sector, 0, pool->block_pages,
						REQ_OP_WRITE);
	return fusion_stripe_end(stripe);
}

/* In its gate.  -ENODATA: it is not in use; -EBUSY: it is in a set. */
static int rebuild_move(struct rebuild *rb, struct fusion_stripe *stripe, u64 id, u8 areas)
{
	struct rebuild_slots to;
	unsigned int grace;
	u64 written;
	int r;

	r = fusion_raid_enter(stripe, id, &written, &grace);
	if (r)
		return r;
	rebuild_look(rb->pool, id, areas, &to);
	r = rebuild_compute(stripe, id, written, to.slots);
	if (!r)
		r = rebuild_write(stripe, written, &to);
	rebuild_account(rb, id, stripe->class, &to);
	fusion_grace_leave(&rb->pool->grace, grace);
	/* it has died meanwhile */
	return r == -ENODATA ? -EBUSY : r;
}

static void rebuild_record(struct fusion_pool *pool, struct fusion_spared *spared)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;

	shard = fusion_epoch_enter(&pool->epochs, &flags);
	list_add_tail(&spared->list, &shard->spared);
	fusion_epoch_exit(shard, flags);
}

static int rebuild_enter(struct rebuild *rb, u64 id)
{
	int r;

	if (rb->count < REBUILD_BATCH && fusion_gate_enter(&rb->pool->gates, id, false))
		return 0;
	/* who waits is in no other */
	r = rebuild_commit(rb);
	return r ? r : fusion_gate_enter_wait(&rb->pool->gates, id);
}

static int rebuild_stripe(struct rebuild *rb, u64 id, const struct fusion_lost *lost)
{
	struct fusion_pool *pool = rb->pool;
	struct fusion_stripe_pool *sp;
	struct fusion_spared *spared;
	struct fusion_stripe *stripe;
	int r;

	sp = fusion_stripe_background(pool, lost->class);
	spared = kmalloc(sizeof(*spared), GFP_NOIO);
	if (!sp || !spared) {
		kfree(spared);
		return -ENOMEM;
	}
	r = rebuild_pace(rb);
	if (!r)
		r = rebuild_enter(rb, id);
	if (r) {
		kfree(spared);
		return r;
	}
	stripe = fusion_stripe_get(sp);
	r = rebuild_move(rb, stripe, id, lost->placeable);
	fusion_stripe_put(sp, stripe);
	if (r) {
		fusion_gate_leave(&pool->gates, id);
		kfree(spared);
		rb->round.sets += r == -EBUSY;
		if (r != -EBUSY && r != -ENODATA && !rb->round.error)
			rb->round.error = r;
		return 0;
	}
	spared->stripe = id;
	spared->areas = lost->placeable;
	rebuild_record(pool, spared);
	rb->in[rb->count++] = id;
	rb->round.done++;
	WRITE_ONCE(pool->rebuild.stripes, pool->rebuild.stripes + 1);
	/* members may have failed since it was counted */
	if (pool->rebuild.todo)
		WRITE_ONCE(pool->rebuild.todo, pool->rebuild.todo - 1);
	return 0;
}

/*
 * What there is to do, at most: of what is in use, some is of no use any more.  What is held
 * by then is live with the next commit, or held still.
 */
static void rebuild_count(struct rebuild *rb)
{
	struct fusion_lost lost;
	u64 id, todo = 0;

	for (id = 0; fusion_spare_next(&rb->pool->space, &id, &lost); id++) {
		rb->round.held += lost.held;
		todo += !!lost.placeable;
	}
	WRITE_ONCE(rb->pool->rebuild.todo, todo);
}

/* Something of @id has no place.  In sets the replicas could end nowhere one by one. */
static void rebuild_stuck(struct rebuild *rb, u64 id)
{
	struct fusion_disk_stripe disk;
	int r;

	r = fusion_md_read_stripe(rb->pool->md, id, &disk);
	if (r == -ENODATA)
		return;
	if (!r && disk.state != FUSION_STRIPE_RAID)
		rb->round.sets++;
	else
		rb->round.stuck++;
}

static int rebuild_round(struct rebuild *rb)
{
	struct fusion_pool *pool = rb->pool;
	struct fusion_lost lost;
	int r, e;
	u64 id;

	rb->round = (struct rebuild_found) { 0 };
	/* what may be nowhere must be known */
	r = rebuild_stopping(pool) ? -EINTR :
		fusion_space_load_all(&pool->space, &pool->commit_lock);
	/* who draws has seen the areas by then, see failure_retire_sets() */
	if (!r)
		r = fusion_commit(pool);
	if (!r) {
		rebuild_count(rb);
		r = fusion_commit(pool);
	}
	for (id = 0; !r && fusion_spare_next(&pool->space, &id, &lost); id++) {
		if (rebuild_stopping(pool))
			r = -EINTR;
		else if (lost.held)
			rb->round.held++;
		else if (lost.areas != lost.placeable)
			rebuild_stuck(rb, id);
		if (!r && !lost.held && lost.placeable)
			r = rebuild_stripe(rb, id, &lost);
		cond_resched();
	}
	e = rebuild_commit(rb);
	return r ? r : e;
}

/*
 * After a round.  0: all is there that has a place; -EAGAIN: another one.  What is in sets, or
 * being written to, is converted for who has asked; else it has that time.
 */
static int rebuild_left(struct rebuild *rb)
{
	const struct rebuild_found *f = &rb->round;
	bool busy = f->sets || f->held, asked = atomic_read(&rb->pool->rebuild.asked);

	rb->vain = f->done ? 0 : rb->vain + 1;
	if (busy && asked && rb->vain < REBUILD_VAIN) {
		fusion_reclaim_all(rb->pool);
		return -EAGAIN;
	}
	if (f->done)
		return -EAGAIN;
	if (f->error)
		return f->error;
	return busy ? -EBUSY : 0;
}

static void rebuild_complain(struct fusion_pool *pool, int r)
{
	const char *why = r == -ENOMEM ? "memory is short" : r == -EIO ?
		"too much else cannot be read to compute all that was on members that are out" :
		r == -EBUSY ? "some blocks are being written to all the time: try again when they are not" :
		r == -ENOSPC ? "the space for spares is not enough for all members that are out: the rest needs these back" :
		NULL;

	/* not again and again by itself */
	if (why && fusion_pool_writable(pool) &&
	    (r != pool->rebuild.error || atomic_read(&pool->rebuild.asked)))
		DMERR("%s: not all could be rebuilt: %s", fusion_pool_name(pool), why);
	pool->rebuild.error = r;
}

static int rebuild_all(struct fusion_background *b)
{
	struct fusion_pool *pool = container_of(b, struct fusion_pool,
						rebuild.background);
	struct rebuild *rb;
	u64 out;
	int r;

	rb = kzalloc(sizeof(*rb), GFP_NOIO);
	if (!rb)
		return -ENOMEM;
	rb->pool = pool;
	do {
		out = fusion_members_out(pool);
		r = rebuild_round(rb);
		if (!r)
			r = rebuild_left(rb);
		if (!r)
			r = fusion_failures_rebuilt(pool, out);
		if (!r && rb->round.stuck)
			r = -ENOSPC;
	} while (r == -EAGAIN && !rebuild_stopping(pool));
	kfree(rb);
	rebuild_complain(pool, r);
	return r == -EAGAIN ? -EINTR : r;
}

/* ---- by itself, and for those who ask ---- */

/* Is something to be rebuilt that has a place, or may have? */
static bool rebuild_wanted(struct fusion_pool *pool)
{
	u64 members;

	mutex_lock(&pool->commit_lock);
	members = fusion_failures_spared(pool) & ~fusion_md_super(pool->md)->rebuilt;
	mutex_unlock(&pool->commit_lock);
	return members && fusion_pool_writable(pool);
}

static void rebuild_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(to_delayed_work(work), struct fusion_pool,
						rebuild.work);
	int r;

	if (!READ_ONCE(pool->active) || READ_ONCE(pool->reclaim.tunables.paused) ||
	    !rebuild_wanted(pool))
		return;
	r = fusion_background_run(&pool->rebuild.background, pool->rebuild.wq);
	if (!r || r == -EINTR || r == -ENOSPC)
		return;
	queue_delayed_work(pool->rebuild.wq, &pool->rebuild.work, pool->rebuild.again);
	pool->rebuild.again = min_t(unsigned long, 2 * pool->rebuild.again,
				    REBUILD_AGAIN_MAX);
}

void fusion_rebuild_kick(struct fusion_pool *pool)
{
	/* who waits for a rate looks whether it is paused */
	wake_up_all(&pool->rebuild.background.wait);
	pool->rebuild.again = REBUILD_AGAIN;
	if (READ_ONCE(pool->active))
		mod_delayed_work(pool->rebuild.wq, &pool->rebuild.work, 0);
}

void fusion_rebuild_start(struct fusion_pool *pool)
{
	fusion_background_start(&pool->rebuild.background);
	pool->rebuild.again = REBUILD_AGAIN;
	queue_delayed_work(pool->rebuild.wq, &pool->rebuild.work, REBUILD_BEGIN);
}

int fusion_rebuild_all(struct fusion_pool *pool)
{
	int r;

	atomic_inc(&pool->rebuild.asked);
	r = fusion_background_run(&pool->rebuild.background, pool->rebuild.wq);
	atomic_dec(&pool->rebuild.asked);
	return r;
}

void fusion_rebuild_stop(struct fusion_pool *pool)
{
	/* who waits in the work is told; then it requests nothing any more */
	fusion_background_end(&pool->rebuild.background);
	cancel_delayed_work_sync(&pool->rebuild.work);
	fusion_background_stop(&pool->rebuild.background);
}

void fusion_rebuild_init(struct fusion_pool *pool)
{
	fusion_background_init(&pool->rebuild.background, rebuild_all);
	INIT_DELAYED_WORK(&pool->rebuild.work, rebuild_work);
}
