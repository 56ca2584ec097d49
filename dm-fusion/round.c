// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a round.  See round.h.
 */
#include "commit.h"
#include "patch-set.h"
#include "round.h"
#include "waiters.h"

bool fusion_round_close_patches(struct fusion_space *s)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		any |= fusion_patches_close_idle(s, s->class[i]);
	return any;
}

bool fusion_round_close_sets(struct fusion_space *s)
{
	bool any = fusion_round_close_patches(s);
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		any |= fusion_sets_close_idle(s, s->class[i], &s->class[i]->tops);
	return any;
}

/* Is @class short of space? */
static bool class_short(struct fusion_space *s, struct fusion_class *class)
{
	return fusion_space_available_blocks(s, class) < s->slow_zone ||
		!fusion_space_may_grow(s, class);
}

struct fusion_class *fusion_round_short(struct fusion_pool *pool)
{
	u32 classes = fusion_waiters_classes(pool);
	struct fusion_space *s = &pool->space;

	for (; classes; classes &= classes - 1)
		if (class_short(s, s->class[__ffs(classes)]))
			return s->class[__ffs(classes)];
	return NULL;
}

/*
 * All that could be moved of the band that is evacuated has been.  True: it is free;
 * else the rest of it is in use, and it stays with its class.
 */
static bool round_evacuated(struct fusion_reclaim_job *job)
{
	struct fusion_pool *pool = job->pool;
	struct fusion_space *s = &pool->space;

	if (job->evacuations != READ_ONCE(pool->reclaim.evacuations) ||
	    fusion_commit_and_free(pool))
		return false;
	if (!READ_ONCE(s->evacuated))
		return true;
	fusion_space_keep(s);
	fusion_waiters_freed(pool);
	return false;
}

/*
 * Other classes may have bands that they could do without: give what is unused, or
 * begin to empty one.
 */
static bool round_evacuate(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	struct fusion_space *s = &pool->space;
	struct fusion_class *class;
	unsigned int i;

	lockdep_assert_held(&rc->end_lock);
	/* what is on its way counts: here, and for those who could do without */
	if (!fusion_round_short(pool) || fusion_commit_and_free(pool))
		return false;
	class = fusion_round_short(pool);
	if (!class)
		return false;
	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		if (s->class[i] != class &&
		    fusion_space_load(s, s->class[i], &pool->commit_lock))
			return false;
	if (fusion_space_give_unused(s, class, fusion_waiters_classes(pool))) {
		/* no grace period ends with that */
		fusion_waiters_freed(pool);
		return true;
	}
	/* first: nobody may take its step for one that began later */
	WRITE_ONCE(rc->evacuations, rc->evacuations + 1);
	return fusion_space_evacuate(s, class);
}

void fusion_round_evacuate(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;

	mutex_lock(&rc->end_lock);
	if (!READ_ONCE(pool->space.evacuated) && round_evacuate(pool))
		WRITE_ONCE(pool->space.reclaimable, true);
	mutex_unlock(&rc->end_lock);
}

/* There is no more: those who wait for room for new blocks have seen it. */
static void round_vain(struct fusion_pool *pool)
{
	u32 classes = fusion_waiters_classes(pool);
	struct fusion_space *s = &pool->space;

	for (; classes; classes &= classes - 1)
		if (!fusion_space_may_grow(s, s->class[__ffs(classes)]))
			fusion_waiters_vain(s->class[__ffs(classes)]);
}

/*
 * Make more of what there is for those who wait.  Closing sets may be enough; but
 * not if it was not the last time: a class that is written all the time always has
 * some to close.  Then they are news, but no reason to hurry.
 */
static bool round_more(struct fusion_reclaim_job *job)
{
	struct fusion_pool *pool = job->pool;
	struct fusion_reclaim *rc = &pool->reclaim;
	bool closed = fusion_round_close_sets(&pool->space), again = rc->closed;

	rc->closed = closed;
	if ((closed && !again) ||
	    (READ_ONCE(pool->space.evacuated) ? round_evacuated(job) :
	     round_evacuate(pool)))
		return true;
	if (closed)
		fusion_commit(pool);
	return false;
}

void fusion_round_note(struct fusion_reclaim_job *job)
{
	struct fusion_reclaim *rc = &job->pool->reclaim;

	job->news = READ_ONCE(rc->news);
	job->evacuations = READ_ONCE(rc->evacuations);
}

static void round_end(struct fusion_reclaim_job *job, bool failed)
{
	struct fusion_pool *pool = job->pool;
	struct fusion_reclaim *rc = &pool->reclaim;
	struct fusion_space *s = &pool->space;
	bool wanted = fusion_round_wanted(pool);

	if (!wanted) {
		rc->closed = false;
	} else if (round_more(job)) {
		fusion_commit(pool);
		fusion_reclaim_kick(pool);
		return;
	} else if (!failed && !READ_ONCE(s->evacuated)) {
		round_vain(pool);
	}
	WRITE_ONCE(s->reclaimable, false);
	/* more has not been tried for: who comes to wait has it tried */
	WRITE_ONCE(rc->untried, !wanted);
	/* pairs with commit_news(), and with who begins to wait in waiters.c */
	smp_mb();
	if (READ_ONCE(rc->news) == job->news && !READ_ONCE(s->evacuated) &&
	    list_empty_careful(&pool->unpatched) &&
	    (wanted || !fusion_round_wanted(pool))) {
		/* who waits is told by a commit; who is parked has been told */
		if (!list_empty_careful(&pool->waiters))
			fusion_commit_kick(pool);
		return;
	}
	WRITE_ONCE(s->reclaimable, true);
	/* what has just failed, or is for the parked alone, need not be at once */
	if (!failed && (!list_empty_careful(&pool->waiters) ||
			!list_empty_careful(&pool->unpatched)))
		fusion_reclaim_kick(pool);
	else
		fusion_reclaim_soon(pool);
}

void fusion_round_end(struct fusion_reclaim_job *job, bool failed)
{
	struct fusion_reclaim *rc = &job->pool->reclaim;

	mutex_lock(&rc->end_lock);
	round_end(job, failed);
	mutex_unlock(&rc->end_lock);
}
