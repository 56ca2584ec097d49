// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rebuild.  See rebuild.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "failure.h"
#include "mode.h"
#include "rebuild.h"
#include "rebuild-batch.h"
#include "reclaim.h"
#include "return.h"

#define DM_MSG_PREFIX "fusion"

/* Rounds that bring nothing, as all that is left is being written to. */
#define REBUILD_VAIN	3
/* What has begun by itself, and has not done all, does so again after this, and twice that. */
#define REBUILD_AGAIN		(10 * HZ)
#define REBUILD_AGAIN_MAX	(640 * HZ)
/* After a start. */
#define REBUILD_BEGIN	(5 * HZ)

/*
 * What there is to do, at most: of what is in use, some is of no use any more.  What is held
 * by then is live with the next commit, or held still.  That there is something is told: it
 * begins by itself.
 */
static void rebuild_count(struct fusion_rebuild_batch *b)
{
	struct fusion_lost lost;
	u64 id, todo = 0;
	bool begins;

	for (id = 0; fusion_spare_next(&b->pool->space, &id, &lost); id++) {
		b->found.held += lost.held;
		todo += lost.areas || lost.home;
	}
	begins = todo && !b->pool->rebuild.todo;
	WRITE_ONCE(b->pool->rebuild.todo, todo);
	if (begins)
		fusion_pool_event(b->pool);
}

/* Something of @id has no place.  In sets the replicas could end nowhere one by one. */
static void rebuild_stuck(struct fusion_rebuild_batch *b, u64 id)
{
	struct fusion_disk_stripe disk;
	int r;

	r = fusion_md_read_stripe(b->pool->md, id, &disk);
	if (r == -ENODATA)
		return;
	if (!r && disk.state != FUSION_STRIPE_RAID)
		b->found.sets++;
	else
		b->found.stuck++;
}

static int rebuild_round(struct fusion_rebuild_batch *b)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_lost lost;
	int r, e;
	u64 id;

	b->found = (struct fusion_rebuild_found) { 0 };
	/* not in the middle of a change: who was out before is out by then */
	mutex_lock(&pool->commit_lock);
	b->generation = fusion_md_super(pool->md)->states_generation;
	mutex_unlock(&pool->commit_lock);
	/* what may be nowhere must be known */
	r = fusion_rebuild_stopping(pool) ? -EINTR :
		fusion_space_load_all(&pool->space, &pool->commit_lock);
	/* who draws has seen the areas by then, see failure_retire_sets() */
	if (!r)
		r = fusion_commit(pool);
	if (!r) {
		rebuild_count(b);
		r = fusion_commit(pool);
	}
	for (id = 0; !r && fusion_spare_next(&pool->space, &id, &lost); id++) {
		if (fusion_rebuild_stopping(pool))
			r = -EINTR;
		/* what is to be done is not the same any more */
		else if (READ_ONCE(fusion_md_super(pool->md)->states_generation) != b->generation)
			r = -EAGAIN;
		else if (lost.held)
			b->found.held++;
		else if (lost.nowhere != lost.areas)
			rebuild_stuck(b, id);
		b->found.home += !!lost.home;
		if (!r && !lost.held && (lost.areas || lost.home))
			r = fusion_rebuild_add(b, id, &lost);
		cond_resched();
	}
	e = fusion_rebuild_flush(b);
	return r ? r : e;
}

/*
 * After a round; so many before it, in succession, were in @vain.  0: all is there that has a
 * place; -EAGAIN: another one.  What is in sets, or being written to, is converted for who has
 * asked; else it has that time.
 */
static int rebuild_left(struct fusion_rebuild_batch *b, unsigned int *vain)
{
	const struct fusion_rebuild_found *f = &b->found;
	bool busy = f->sets || f->held, asked = atomic_read(&b->pool->rebuild.asked);

	*vain = f->done ? 0 : *vain + 1;
	if (busy && asked && *vain < REBUILD_VAIN) {
		fusion_reclaim_all(b->pool);
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
	bool asked = atomic_read(&pool->rebuild.asked);
	/* by itself it goes on when they are converted, or not written to */
	const char *why = r == -EBUSY && !asked ? NULL : r == -ENOMEM ? "memory is short" : r == -EIO ?
		"too much else cannot be read to compute all that was on members that are out" :
		r == -EBUSY ? "some blocks are being written to all the time: try again when they are not" :
		r == -ENOSPC ? "the space for spares is not enough for all members that are out: replace them, or bring them back" :
		NULL;

	/* not again and again by itself */
	if (why && fusion_pool_writable(pool) && (r != pool->rebuild.error || asked))
		DMERR("%s: not all could be rebuilt: %s", fusion_pool_name(pool), why);
	pool->rebuild.error = r;
}

static int rebuild_all(struct fusion_background *background)
{
	struct fusion_pool *pool = container_of(background, struct fusion_pool,
						rebuild.background);
	struct fusion_rebuild_batch *b;
	unsigned int vain = 0;
	int r;

	b = kvmalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	fusion_rebuild_batch_init(b, pool);
	do {
		r = rebuild_round(b);
		/* what is nowhere of others, out still, they do not wait for */
		if (!r && !b->found.home)
			r = fusion_return_all(pool, &b->generation);
		if (!r)
			r = rebuild_left(b, &vain);
		if (!r)
			r = fusion_return_all(pool, &b->generation);
		if (!r)
			r = fusion_failures_rebuilt(pool, b->generation);
		if (!r && b->found.stuck)
			r = -ENOSPC;
	} while (r == -EAGAIN && !fusion_rebuild_stopping(pool));
	kvfree(b);
	rebuild_complain(pool, r);
	return r == -EAGAIN ? -EINTR : r;
}

/* ---- by itself, and for those who ask ---- */

/* Is something to be rebuilt that has a place, or may have, or is a member returning? */
static bool rebuild_wanted(struct fusion_pool *pool)
{
	u64 members;

	mutex_lock(&pool->commit_lock);
	members = (fusion_failures_spared(pool) & ~fusion_md_super(pool->md)->rebuilt) |
		fusion_failures_returning(pool);
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
