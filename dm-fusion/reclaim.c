// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim.  See reclaim.h.
 */
#include <linux/part_stat.h>
#include <linux/slab.h>

#include "commit.h"
#include "compact.h"
#include "convert.h"
#include "destage.h"
#include "grow.h"
#include "mode.h"
#include "reclaim.h"
#include "region.h"
#include "round.h"
#include "set-table.h"
#include "trace.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

/* Jobs that work when nobody depends on it. */
#define YIELDING_JOBS		2
/* Of the slots of RAID stripes: so few dead ones are not worth a request. */
#define DEAD_PART		128

static struct fusion_pool *pool_of(struct fusion_reclaim *rc)
{
	return container_of(rc, struct fusion_pool, reclaim);
}

/* ---- what to do ---- */

static u64 reclaim_idle_ms(const struct fusion_reclaim *rc)
{
	return jiffies_to_msecs(jiffies - READ_ONCE(rc->busy_since));
}

/* Would what sets take help those who wait for space? */
static bool space_wanted(struct fusion_pool *pool)
{
	return fusion_round_wanted(pool) || READ_ONCE(pool->space.evacuated);
}

/* To make the area of sets for tops, or for patches, smaller. */
static enum fusion_effort area_effort(struct fusion_pool *pool, bool patches,
				      bool waiting)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	struct fusion_stock stock;

	fusion_space_stock(&pool->space, &stock);
	return (patches ? fusion_destage_effort : fusion_convert_effort)
		(&rc->tunables, &stock,
		 fusion_sets_oldest_ms(&pool->space, patches),
		 reclaim_idle_ms(rc), waiting || space_wanted(pool));
}

static enum fusion_effort convert_effort(struct fusion_pool *pool)
{
	return area_effort(pool, false, false);
}

static enum fusion_effort destage_effort(struct fusion_pool *pool)
{
	return area_effort(pool, true, READ_ONCE(pool->metadata_short) ||
			   !list_empty_careful(&pool->unpatched));
}

static enum fusion_effort compact_effort(struct fusion_pool *pool,
					 struct fusion_class *class)
{
	enum fusion_effort effort;

	if (fusion_space_evacuates(&pool->space, class))
		return FUSION_INSIST;
	if (!READ_ONCE(class->stripes))
		return FUSION_REST;
	/* at the limit of the replicated area it is conversion that they need */
	effort = fusion_compact_effort(fusion_space_available_blocks(&pool->space,
								     class),
				       pool->space.slow_zone,
				       fusion_round_wanted(pool) &&
				       !fusion_sets_limited(&pool->space));
	return effort == FUSION_YIELD && pool->reclaim.tunables.paused ?
		FUSION_REST : effort;
}

/* Has the background moved as much as it may for now? */
static bool reclaim_slowed(struct fusion_reclaim *rc)
{
	if (!READ_ONCE(rc->tunables.rate_kib) ||
	    atomic64_read(&rc->rate_bytes) > 0)
		return false;
	WRITE_ONCE(rc->slowed, true);
	return true;
}

/*
 * Is something of @class, or of any with NULL, to be moved as the pool grows?  That gives way to
 * load, as conversion does.
 */
static bool reclaim_grows(struct fusion_pool *pool, const struct fusion_class *class)
{
	return fusion_space_growing(&pool->space) && !pool->reclaim.tunables.paused &&
		(!class || READ_ONCE(class->old_bands));
}

/* A pool that is never idle grows, too, if slowly: one step of each kind in each tick. */
enum {
	TURN_PATCHES,
	TURN_SETS,
	TURN_STRIPES,
	TURNS
};

static bool reclaim_turn(struct fusion_pool *pool, unsigned int kind)
{
	return reclaim_grows(pool, NULL) && test_and_clear_bit(kind, &pool->reclaim.turns);
}

/* Does somebody wait for a request? */
static bool reclaim_asked(const struct fusion_reclaim *rc)
{
	return READ_ONCE(rc->asked) && !fusion_background_stopping(&rc->request);
}

/* ---- one step ---- */

static bool reclaim_nothing(int r)
{
	return r == -ENOENT || r == -EAGAIN || r == -ENOSPC;
}

static void reclaim_complain(struct fusion_pool *pool, int r)
{
	WRITE_ONCE(pool->reclaim.error, r);
	DMERR_LIMIT("%s: conversion, compaction, or merging patches ended with error %d",
		    fusion_pool_name(pool), r);
}

/*
 * Have a commit bring the sets for patches that are open, or have closed since @seen had.
 * -ENOENT: there are none.
 */
static int reclaim_close_patches(struct fusion_pool *pool, u64 seen)
{
	u64 closed;
	int r;

	fusion_round_close_patches(&pool->space);
	closed = atomic64_read(&pool->space.patches_closed);
	if (closed == seen)
		return -ENOENT;
	r = fusion_commit(pool);
	if (!r)
		atomic64_set(&pool->destage.closed_seen, closed);
	return r;
}

/*
 * Merge patches, in the last resort also what is in sets that are drawn from.
 * -ENOENT: there are none.
 */
static int reclaim_merge(struct fusion_pool *pool, u64 number, bool insist)
{
	struct fusion_destage *destage = &pool->destage;
	u64 pages = 0, seen = atomic64_read(&destage->closed_seen);
	int r = -EAGAIN;

	if (atomic_inc_return(&destage->running) <= fusion_destage_batches(pool)) {
		r = fusion_destage_next(pool, number, &pages);
		atomic64_sub(pages << FUSION_PAGE_SHIFT,
			     &pool->reclaim.rate_bytes);
	}
	if (atomic_dec_and_test(&destage->running) && r) {
		if (r == -ENOENT &&
		    (insist || !list_empty_careful(&pool->unpatched)))
			r = reclaim_close_patches(pool, seen);
		/*
		 * What has been merged may be free soon: who waits is told then.  Who was in
		 * our way has ended meanwhile: the tick tries again.
		 */
		if (r && r != -EBUSY && !fusion_commit_freeing(pool))
			fusion_waiters_unmerged(pool);
	}
	if (!r)
		return r;
	if (r == -EBUSY)
		WRITE_ONCE(pool->reclaim.crossed, true);
	else if (!reclaim_nothing(r) && r != -ENOMEM)
		reclaim_complain(pool, r);
	/*
	 * Sets and stripes do not depend on it; and nobody who depends on us is to wait for
	 * what cannot be merged.
	 */
	return r == -ENOENT || (insist && r != -EBUSY) ? -ENOENT : -EAGAIN;
}

/* Members that the background, if nobody waits for it, leaves alone: with load, or unresponsive. */
static u64 reclaim_busy(struct fusion_pool *pool)
{
	return READ_ONCE(pool->reclaim.busy) | fusion_unresponsive_members(&pool->monitor);
}

static int reclaim_patches(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	enum fusion_effort effort = destage_effort(pool);
	u64 number = U64_MAX;
	int r;

	if (!atomic64_read(&pool->space.patch_blocks))
		return -ENOENT;
	if (effort != FUSION_INSIST) {
		if (reclaim_slowed(rc))
			return -EAGAIN;
		if (reclaim_asked(rc))
			number = rc->asked_number;
		else if (effort == FUSION_REST ||
			 (reclaim_busy(pool) && !reclaim_turn(pool, TURN_PATCHES)))
			return -EAGAIN;
	}
	r = reclaim_merge(pool, number, effort == FUSION_INSIST);
	/* others than those that were looked at may be left */
	return r == -ENOENT && number != U64_MAX ? -EAGAIN : r;
}

static int reclaim_sets(struct fusion_pool *pool, struct fusion_move *m)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	enum fusion_effort effort = convert_effort(pool);
	u64 number = U64_MAX, busy = 0;
	int r = -ENOENT;

	if (!atomic64_read(&pool->space.replica_blocks))
		return -ENOENT;
	if (effort != FUSION_INSIST) {
		if (reclaim_slowed(rc))
			return -EAGAIN;
		if (reclaim_asked(rc))
			number = rc->asked_number;
		else if (effort == FUSION_YIELD)
			busy = reclaim_turn(pool, TURN_SETS) ? 0 : reclaim_busy(pool);
		else
			return -EAGAIN;
	}
	if (!busy)
		r = fusion_compact_sets(pool, m);
	if (r == -ENOENT || r == -ENOSPC)
		r = fusion_convert_next(pool, m, number, busy,
					effort == FUSION_INSIST);
	/* others than those that were looked at may be left */
	return r == -ENOENT && (busy || number != U64_MAX) ? -EAGAIN : r;
}

/* Is more dead than a request leaves? */
static bool much_dead(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	u64 slots = READ_ONCE(super->raid_slots);
	u64 used = READ_ONCE(super->raid_live) +
		READ_ONCE(super->raid_parity_slots);

	return slots > used && slots - used > slots / DEAD_PART;
}

static int reclaim_class(struct fusion_pool *pool, struct fusion_move *m,
			 struct fusion_class *class)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	enum fusion_effort effort = compact_effort(pool, class);
	bool grows = reclaim_grows(pool, class) && fusion_space_may_move(&pool->space, class);
	int r;

	if (!READ_ONCE(class->stripes))
		return -ENOENT;
	if (effort != FUSION_INSIST) {
		if (reclaim_slowed(rc))
			return -EAGAIN;
		if (reclaim_asked(rc) && READ_ONCE(rc->asked_stripes) &&
		    much_dead(pool))
			effort = FUSION_INSIST;
		else if (effort == FUSION_REST && !grows)
			return -EAGAIN;
		else if (reclaim_busy(pool) && !(grows && reclaim_turn(pool, TURN_STRIPES)))
			return -EAGAIN;
	}
	r = fusion_compact_stripe(pool, m, class, effort == FUSION_REST ? 0 :
				  fusion_victim_live(effort, class->d));
	if (r != -EBUSY)
		return r;
	/* the tick tries again */
	WRITE_ONCE(rc->crossed, true);
	return -EAGAIN;
}

/*
 * The classes that have the least first: the others may rest if these do, unless
 * the pool grows.
 * -ENOSPC: one that has not even a reserve has something to do, the others not.
 */
static int reclaim_stripes(struct fusion_pool *pool, struct fusion_move *m)
{
	struct fusion_space *s = &pool->space;
	struct fusion_class *class;
	u32 tried = 0;
	int r, none = -ENOENT;

	do {
		u64 least = U64_MAX, has;
		unsigned int i;

		class = NULL;
		for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
			has = fusion_space_available_blocks(s, s->class[i]);
			if (tried & (1U << i) || has >= least)
				continue;
			least = has;
			class = s->class[i];
		}
		if (!class)
			return none;
		tried |= 1U << class->index;
		r = reclaim_class(pool, m, class);
		if (r == -ENOSPC || (r == -EAGAIN && none == -ENOENT))
			none = r;
	} while (r == -ENOENT || r == -ENOSPC ||
		 (r == -EAGAIN && reclaim_grows(pool, NULL)));
	return r;
}

/*
 * Nobody else draws from a band that is emptied, but sets there may always be, of
 * the class that is to do without it: what is in it is first.
 */
static int reclaim_evacuated(struct fusion_pool *pool, struct fusion_move *m)
{
	struct fusion_space *s = &pool->space;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		if (fusion_space_evacuates(s, s->class[i]))
			return reclaim_class(pool, m, s->class[i]);
	return -ENOENT;
}

/*
 * 0: something was done; -ENOENT: nothing can be done; -EAGAIN: nothing that
 * policy would have done now.
 */
static int reclaim_step(struct fusion_reclaim_job *job)
{
	struct fusion_pool *pool = job->pool;
	struct fusion_move *m = job->move;
	int patches = 0, sets = 0, r;

	m->read_pages = 0;
	m->written_pages = 0;
	r = reclaim_evacuated(pool, m);
	if (reclaim_nothing(r)) {
		patches = reclaim_patches(pool);
		r = patches;
	}
	if (reclaim_nothing(patches)) {
		sets = reclaim_sets(pool, m);
		r = sets;
	}
	if (sets == -ENOENT || sets == -EAGAIN)
		r = reclaim_stripes(pool, m);
	atomic64_sub((m->read_pages + m->written_pages) << FUSION_PAGE_SHIFT,
		     &pool->reclaim.rate_bytes);
	if (r == -ENOSPC && !job->lacked) {
		/* stripes may be on their way */
		job->lacked = true;
		return fusion_commit_and_free(pool);
	}
	job->lacked &= r == -ENOSPC;
	if (r != -ENOENT && r != -ENOSPC)
		return r;
	return sets == -ENOENT && patches == -EAGAIN ? patches : sets;
}

/* ---- the jobs ---- */

/* Complete the table of sets, after a start. */
static int reclaim_load(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	int r = 0;

	mutex_lock(&rc->load_lock);
	if (!rc->loaded) {
		r = fusion_convert_load(pool, &rc->stop);
		rc->loaded = !r;
	}
	mutex_unlock(&rc->load_lock);
	/* never to be converted: who waits for room in the replicated area would wait for ever */
	if (r && r != -EINTR && r != -ENOMEM && fusion_pool_writable(pool)) {
		DMERR("%s: what is replicated cannot be read from the metadata (%d): the pool is read-only: stop it, and run fusion check",
		      fusion_pool_name(pool), r);
		fusion_pool_set_mode(pool, FUSION_RO);
	}
	return r;
}

static void reclaim_queue(struct fusion_reclaim *rc, unsigned int jobs)
{
	unsigned int i;

	for (i = 0; i < jobs; i++)
		queue_work(rc->wq, &rc->job[i].work);
}

static bool reclaim_failed(int r)
{
	return r != -ENOENT && r != -EAGAIN && r != -EINTR;
}

static void reclaim_job(struct work_struct *work)
{
	struct fusion_reclaim_job *job = container_of(work,
						      struct fusion_reclaim_job,
						      work);
	struct fusion_pool *pool = job->pool;
	struct fusion_reclaim *rc = &pool->reclaim;
	int r;

	atomic_inc(&rc->running);
	job->lacked = false;
	fusion_round_note(job);
	r = reclaim_load(pool);
	if (r)
		fusion_waiters_unmerged(pool);
	while (!r) {
		if (READ_ONCE(rc->stop) || !fusion_pool_writable(pool)) {
			r = -EINTR;
			break;
		}
		fusion_round_note(job);
		if (fusion_commit_crowded(pool))
			r = fusion_commit(pool);
		if (!r)
			r = reclaim_step(job);
		if (!r && fusion_round_wanted(pool))
			fusion_commit_kick(pool);
		cond_resched();
	}
	if (reclaim_failed(r))
		reclaim_complain(pool, r);
	/* want of memory goes away by itself */
	if (atomic_dec_and_test(&rc->running) &&
	    (r == -ENOENT || (reclaim_failed(r) && r != -ENOMEM)))
		fusion_round_end(job, r != -ENOENT);
}

/* ---- the tick ---- */

/* What others than the background had @m do since the last look, in bytes. */
static u64 member_load(struct fusion_member *m)
{
	u64 all = part_stat_read_accum(m->bdev, sectors) << SECTOR_SHIFT;
	u64 own = atomic64_read(&m->background_bytes);
	u64 load = all > own ? all - own : 0, since;

	since = load > m->load_bytes ? load - m->load_bytes : 0;
	m->load_bytes = load;
	return since;
}

static void reclaim_sample(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	u32 ms = jiffies_to_msecs(jiffies - rc->sampled), i;
	u64 busy = 0, rate, limit_kib;
	struct fusion_stock stock;
	bool idle = true;

	if (ms < jiffies_to_msecs(FUSION_RECLAIM_TICK) / 2)
		return;
	rc->sampled = jiffies;
	fusion_space_stock(&pool->space, &stock);
	limit_kib = fusion_load_limit(&rc->tunables, &stock);
	for (i = 0; i < pool->layout->n; i++) {
		u64 bytes = member_load(&pool->member[i]);

		if (fusion_member_busy(limit_kib, bytes, ms))
			busy |= 1ULL << i;
		idle &= fusion_member_idle(bytes, ms);
	}
	WRITE_ONCE(rc->busy, busy);
	if (!idle)
		WRITE_ONCE(rc->busy_since, jiffies);
	/* what was not used does not add up */
	rate = (u64)rc->tunables.rate_kib * 1024;
	if (atomic64_read(&rc->rate_bytes) < (s64)rate)
		atomic64_add(rate * ms / 1000, &rc->rate_bytes);
}

static enum fusion_effort reclaim_effort(struct fusion_pool *pool)
{
	enum fusion_effort effort = max(convert_effort(pool),
					destage_effort(pool));
	unsigned int i;

	if (reclaim_grows(pool, NULL))
		effort = max(effort, FUSION_YIELD);

	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++)
		effort = max(effort,
			     compact_effort(pool, pool->space.class[i]));
	return effort;
}

/*
 * Only the tick looks: it follows whatever takes or frees space, and never runs
 * twice at once, so that nothing is told twice.
 */
static void reclaim_low_water(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	struct fusion_stock stock;
	bool low;

	fusion_space_stock(&pool->space, &stock);
	low = fusion_low_water(&rc->tunables, &stock, rc->low_water);
	if (low == rc->low_water)
		return;
	WRITE_ONCE(rc->low_water, low);
	if (!low)
		return;
	DMWARN("%s: less than %u %% of the pool is available: discard or delete what is not needed, before writes wait or fail",
	       fusion_pool_name(pool), rc->tunables.low_water_percent);
	fusion_pool_event(pool);
}

/*
 * A band that nobody waits for any more stays with its class.  Twice in succession:
 * for moments nobody is seen to wait when all try again.
 */
static void reclaim_unwanted(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	bool unwanted = READ_ONCE(pool->space.evacuated) &&
		!fusion_round_wanted(pool);

	if (unwanted && rc->unwanted)
		fusion_space_keep(&pool->space);
	rc->unwanted = unwanted;
}

/*
 * A class that is written all the time always has something to reclaim, and keeps
 * others from its bands: who waits longer than a tick is not left to the end of
 * the round.
 */
static void reclaim_lacking(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	bool lacking = rc->loaded && !READ_ONCE(pool->space.evacuated) &&
		fusion_round_short(pool);

	if (lacking && rc->lacking)
		fusion_round_evacuate(pool);
	rc->lacking = lacking;
}

static void reclaim_tick(struct work_struct *work)
{
	struct fusion_reclaim *rc = container_of(to_delayed_work(work),
						 struct fusion_reclaim, tick);
	struct fusion_pool *pool = pool_of(rc);
	enum fusion_effort effort;

	if (READ_ONCE(rc->stop) || !fusion_pool_writable(pool))
		return;
	reclaim_sample(pool);
	reclaim_low_water(pool);
	reclaim_unwanted(pool);
	reclaim_lacking(pool);
	WRITE_ONCE(rc->turns, (1UL << TURNS) - 1);
	fusion_grow_look(pool);
	effort = reclaim_effort(pool);
	if (effort != rc->effort)
		trace_fusion_reclaim(pool, effort);
	rc->effort = effort;
	if (!rc->loaded)
		reclaim_queue(rc, 1);
	else if (effort != FUSION_REST &&
		 (READ_ONCE(pool->space.reclaimable) || reclaim_grows(pool, NULL)))
		reclaim_queue(rc, effort == FUSION_INSIST ?
			      FUSION_RECLAIM_JOBS : YIELDING_JOBS);
	/* a commit that brings something winds it up again */
	if (effort != FUSION_REST || atomic64_read(&pool->space.replica_blocks) ||
	    atomic64_read(&pool->space.patch_blocks) || fusion_space_growing(&pool->space))
		queue_delayed_work(rc->wq, &rc->tick, FUSION_RECLAIM_TICK);
}

/* ---- requests ---- */

/* Have all jobs run until none has anything to do that was asked for. */
static void reclaim_run(struct fusion_reclaim *rc)
{
	struct fusion_destage *destage = &pool_of(rc)->destage;
	unsigned int i;
	u64 merged;

	do {
		merged = atomic64_read(&destage->pages);
		WRITE_ONCE(rc->slowed, false);
		WRITE_ONCE(rc->crossed, false);
		fusion_reclaim_kick(pool_of(rc));
		reclaim_queue(rc, FUSION_RECLAIM_JOBS);
		for (i = 0; i < FUSION_RECLAIM_JOBS; i++)
			flush_work(&rc->job[i].work);
		if (READ_ONCE(rc->slowed) ||
		    (READ_ONCE(rc->crossed) &&
		     atomic64_read(&destage->pages) == merged))
			schedule_timeout_uninterruptible(FUSION_RECLAIM_TICK);
	} while ((READ_ONCE(rc->slowed) || READ_ONCE(rc->crossed)) &&
		 reclaim_asked(rc));
}

static int reclaim_request(struct fusion_background *b)
{
	struct fusion_reclaim *rc = container_of(b, struct fusion_reclaim,
						 request);
	struct fusion_pool *pool = pool_of(rc);
	int r;

	r = reclaim_load(pool);
	if (r)
		return r;
	rc->error = 0;
	rc->asked_number = fusion_sets_youngest(&pool->space);
	WRITE_ONCE(rc->asked, true);
	reclaim_run(rc);
	/* not at once: blocks whose bases are moved would be hot to conversion */
	WRITE_ONCE(rc->asked_stripes, true);
	reclaim_run(rc);
	WRITE_ONCE(rc->asked_stripes, false);
	WRITE_ONCE(rc->asked, false);
	if (fusion_background_stopping(b) || READ_ONCE(rc->stop))
		return -EINTR;
	if (!fusion_pool_writable(pool))
		return -EIO;
	/* parity was drawn in them, and is there no more */
	fusion_round_close_patches(&pool->space);
	return rc->error ? rc->error : fusion_commit_and_free(pool);
}

int fusion_reclaim_all(struct fusion_pool *pool)
{
	int r;

	fusion_round_close_sets(&pool->space);
	r = fusion_commit(pool);
	return r ? r : fusion_background_run(&pool->reclaim.request,
					     pool->slow_wq);
}

/* ---- life ---- */

void fusion_reclaim_start(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;

	WRITE_ONCE(rc->stop, false);
	fusion_background_start(&rc->request);
	/* nobody knows yet that there is nothing */
	WRITE_ONCE(pool->space.reclaimable, true);
	rc->sampled = jiffies;
	WRITE_ONCE(rc->busy_since, jiffies);
	fusion_reclaim_kick(pool);
}

void fusion_reclaim_stop(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	unsigned int i;

	/* first: jobs that somebody depends on do not rest by themselves */
	WRITE_ONCE(rc->stop, true);
	fusion_background_stop(&rc->request);
	cancel_delayed_work_sync(&rc->tick);
	for (i = 0; i < FUSION_RECLAIM_JOBS; i++)
		cancel_work_sync(&rc->job[i].work);
	/* a job that ended may have wound it up */
	cancel_delayed_work_sync(&rc->tick);
	fusion_waiters_unmerged(pool);
}

int fusion_reclaim_init(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	unsigned int i;

	fusion_background_init(&rc->request, reclaim_request);
	INIT_DELAYED_WORK(&rc->tick, reclaim_tick);
	mutex_init(&rc->load_lock);
	mutex_init(&rc->end_lock);
	rc->stop = true;
	rc->wq = alloc_workqueue("fusion-reclaim", WQ_MEM_RECLAIM | WQ_UNBOUND,
				 FUSION_RECLAIM_JOBS + 1);
	if (!rc->wq)
		return -ENOMEM;
	for (i = 0; i < FUSION_RECLAIM_JOBS; i++) {
		struct fusion_reclaim_job *job = &rc->job[i];

		INIT_WORK(&job->work, reclaim_job);
		job->pool = pool;
		job->move = kvmalloc(sizeof(*job->move), GFP_KERNEL);
		if (!job->move)
			goto bad;
	}
	return 0;
bad:
	fusion_reclaim_exit(pool);
	return -ENOMEM;
}

void fusion_reclaim_exit(struct fusion_pool *pool)
{
	struct fusion_reclaim *rc = &pool->reclaim;
	unsigned int i;

	for (i = 0; i < FUSION_RECLAIM_JOBS; i++)
		kvfree(rc->job[i].move);
	/* the last commits have wound it up */
	cancel_delayed_work_sync(&rc->tick);
	destroy_workqueue(rc->wq);
}
