// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commits.  See commit.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "failure.h"
#include "flush.h"
#include "journal.h"
#include "map-apply.h"
#include "mode.h"
#include "passdown.h"
#include "row-apply.h"
#include "set-table.h"
#include "volume-table.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

#define COMMIT_PERIOD		HZ

/* Changes in one epoch, and the metadata blocks one may take at worst. */
#define EPOCH_CHANGES_MAX	65536
#define EPOCH_CHANGES_MIN	64
#define CHANGE_BLOCKS		8
/*
 * Free metadata below which no new places are taken: the smallest epoch's
 * blocks and as many again for changes that are in flight, or a quarter.
 */
#define METADATA_RESERVE	(2 * EPOCH_CHANGES_MIN * CHANGE_BLOCKS)

static void commit_fail(struct fusion_pool *pool)
{
	fusion_pool_set_mode(pool, FUSION_RO);
}

/*
 * Cap the next epoch by what it may take of the free metadata blocks, at
 * worst.  A pool whose metadata is nearly full takes no new places.
 */
static void commit_measure(struct fusion_pool *pool)
{
	u64 free_blocks, blocks, low;
	u64 limit;

	if (fusion_md_usage(pool->md, &free_blocks, &blocks)) {
		commit_fail(pool);
		return;
	}
	WRITE_ONCE(pool->metadata_blocks, blocks);
	WRITE_ONCE(pool->metadata_free, free_blocks);
	/* a change pins a chunk: no more than half of the cache is pinned */
	limit = min_t(u64, free_blocks / CHANGE_BLOCKS,
		      fusion_map_chunks(&pool->map) / 2);
	/* as many again are in the journal */
	if (pool->journal)
		limit /= 2;
	limit = clamp_t(u64, limit, EPOCH_CHANGES_MIN, EPOCH_CHANGES_MAX);
	WRITE_ONCE(pool->shard_limit,
		   max_t(u64, 1, limit / (pool->epochs.mask + 1)));
	low = min_t(u64, METADATA_RESERVE, blocks / 4);
	WRITE_ONCE(pool->metadata_low, free_blocks < low);
	WRITE_ONCE(pool->metadata_short, free_blocks < low + low / 2);
}

/* Let the freed stripes go, once those freed before them have gone. */
static void commit_bury(struct fusion_pool *pool)
{
	if (!pool->space.has_dying || fusion_grace_busy(&pool->grace))
		return;
	fusion_space_begin_bury(&pool->space);
	fusion_grace_start(&pool->grace);
}

bool fusion_commit_freeing(struct fusion_pool *pool)
{
	return READ_ONCE(pool->space.has_dying) ||
		fusion_grace_busy(&pool->grace);
}

/* A grace period has ended; in a worker. */
static void commit_drained(struct fusion_grace *grace)
{
	struct fusion_pool *pool = container_of(grace, struct fusion_pool,
						grace);

	if (fusion_space_bury(&pool->space))
		fusion_passdown_kick(pool);
}

static void commit_ready(struct fusion_grace *grace)
{
	struct fusion_pool *pool = container_of(grace, struct fusion_pool,
						grace);

	fusion_sets_limit(&pool->space, &pool->reclaim.tunables);
	fusion_waiters_freed(pool);
	/* for what died meanwhile */
	if (READ_ONCE(pool->space.has_dying))
		fusion_commit_kick(pool);
}

/* There may be more to reclaim than before. */
static void commit_news(struct fusion_pool *pool)
{
	WRITE_ONCE(pool->reclaim.news, pool->reclaim.news + 1);
	/* pairs with fusion_round_end(): the number before the mark */
	smp_mb();
	WRITE_ONCE(pool->space.reclaimable, !READ_ONCE(pool->reclaim.stop));
}

int fusion_commit_transaction(struct fusion_pool *pool)
{
	int r;

	lockdep_assert_held(&pool->commit_lock);
	if (!fusion_pool_writable(pool))
		return -EIO;
	r = fusion_volumes_write_counts(pool);
	if (!r)
		r = fusion_md_commit(pool->md);
	if (r) {
		commit_fail(pool);
		return r;
	}
	pool->commits++;
	fusion_journal_advance(pool);
	pool->states_committed = fusion_md_super(pool->md)->states_generation;
	commit_measure(pool);
	fusion_sets_limit(&pool->space, &pool->reclaim.tunables);
	commit_bury(pool);
	commit_news(pool);
	return 0;
}

/* Stripes of sets that have closed and hold nothing live are free. */
static int commit_close_set(struct fusion_pool *pool, struct fusion_set *set)
{
	unsigned int i, stripes = set->class->p + 1;
	u64 stripe[FUSION_MAX_REPLICAS];
	bool stored[FUSION_MAX_REPLICAS];
	int r;

	for (i = 0; i < stripes; i++) {
		stripe[i] = set->stripe[i];
		r = fusion_ledger_is_stored(&pool->ledger, stripe[i],
					    &stored[i]);
		if (r)
			return r;
	}
	list_del(&set->list);
	fusion_set_close(&pool->space, set, stored[0]);
	for (i = 0; i < stripes; i++)
		if (!stored[i])
			fusion_space_release(&pool->space, stripe[i]);
	return 0;
}

static int commit_apply(struct fusion_pool *pool,
			struct fusion_epoch_records *records)
{
	struct fusion_spared *spared;
	struct fusion_set *set, *next;
	struct fusion_seal *seal;
	int r;

	/* of the stripes as they were: who has drawn one of them since has done so later */
	list_for_each_entry(spared, &records->spared, list) {
		r = fusion_ledger_spare(&pool->ledger, spared);
		if (r)
			return r;
	}
	r = fusion_rows_begin(&pool->ledger, &records->rows);
	if (!r)
		r = fusion_map_apply(&pool->map, &pool->ledger, &records->changes,
				     fusion_volume_count, pool);
	if (r)
		return r;
	list_for_each_entry(seal, &records->seals, list) {
		r = fusion_ledger_seal(&pool->ledger, seal->stripe,
				       seal->written);
		if (r)
			return r;
	}
	list_for_each_entry_safe(set, next, &records->closed_sets, list) {
		r = commit_close_set(pool, set);
		if (r)
			return r;
	}
	r = fusion_rows_end(&pool->ledger, &records->rows);
	if (!r)
		r = fusion_ledger_finish(&pool->ledger);
	return r ? r : fusion_commit_transaction(pool);
}

/* The records have been applied, or never will be. */
static void commit_forget(struct fusion_pool *pool,
			  struct fusion_epoch_records *records)
{
	struct fusion_spared *spared, *next_spared;
	struct fusion_seal *seal, *next_seal;
	struct fusion_set *set, *next;

	fusion_map_forget(&pool->map, &records->changes);
	fusion_rows_forget(&records->rows);
	list_for_each_entry_safe(set, next, &records->closed_sets, list)
		fusion_set_close(&pool->space, set, false);
	list_for_each_entry_safe(seal, next_seal, &records->seals, list) {
		if (seal->set)
			fusion_sets_sealed(&pool->space, seal->set);
		kfree(seal);
	}
	list_for_each_entry_safe(spared, next_spared, &records->spared, list)
		kfree(spared);
}

/* An epoch that has been closed, and what goes to the btrees with it. */
struct commit {
	struct bio_list bios;		/* FLUSH and FUA that wait for it */
	u64 number;
	struct fusion_epoch_records records;
	u64 failed;			/* members that could not be flushed */
	struct fusion_journal_state journal;
	bool durable;			/* it is in the journal */
};

static void commit_answer(struct bio_list *bios, int r)
{
	struct bio *bio;

	while ((bio = bio_list_pop(bios))) {
		bio->bi_status = errno_to_blk_status(r);
		bio_endio(bio);
	}
}

static void commit_durable(struct fusion_pool *pool, u64 number)
{
	spin_lock_irq(&pool->flush_lock);
	if (pool->epochs.durable < number)
		WRITE_ONCE(pool->epochs.durable, number);
	spin_unlock_irq(&pool->flush_lock);
}

/* Is there no use in the journal before the next commit?  Under close_lock. */
static bool commit_must_apply(struct fusion_pool *pool)
{
	return !pool->journal || pool->unjournaled > READ_ONCE(pool->epochs.committed) ||
		pool->flush_failed || !fusion_pool_writable(pool) ||
		!fusion_journal_fits(pool);
}

/*
 * Have the epoch, which has @records, in the journal, and answer who waits for that.  Not behind
 * one that is not there, nor in the btrees yet.  Under close_lock.
 */
static void commit_journal(struct fusion_pool *pool, struct commit *c,
			   const struct fusion_epoch_records *records)
{
	if (commit_must_apply(pool))
		return;
	if (!fusion_epoch_records_silent(records) && fusion_journal_write(pool, records))
		return;
	c->durable = true;
	commit_durable(pool, c->number);
	commit_answer(&c->bios, 0);
}

/*
 * Close the epoch, and have its data on the members.  What it changes is for the next that goes to
 * the btrees.  Under close_lock.
 */
static void commit_close(struct fusion_pool *pool, struct commit *c)
{
	struct fusion_epoch_records records;

	lockdep_assert_held(&pool->close_lock);
	c->durable = false;
	bio_list_init(&c->bios);
	spin_lock_irq(&pool->flush_lock);
	bio_list_merge(&c->bios, &pool->flush_bios);
	bio_list_init(&pool->flush_bios);
	spin_unlock_irq(&pool->flush_lock);

	c->number = fusion_epoch_close(&pool->epochs, &records);
	if (fusion_pool_writable(pool))
		pool->flush_failed |= fusion_members_flush(pool);
	/* also if nobody waits: others need not wait then until it is in the btrees */
	commit_journal(pool, c, &records);
	/* what a member has failed to flush is not known either until that is recorded */
	if (!c->durable && (pool->flush_failed || !fusion_epoch_records_empty(&records)))
		pool->unjournaled = c->number;
	fusion_epoch_records_append(&pool->unapplied, &records);
}

/* Close the epoch, and take what is not in the btrees. */
static void commit_begin(struct fusion_pool *pool, struct commit *c)
{
	mutex_lock(&pool->close_lock);
	commit_close(pool, c);
	fusion_epoch_records_init(&c->records);
	fusion_epoch_records_append(&c->records, &pool->unapplied);
	c->failed = pool->flush_failed;
	pool->flush_failed = 0;
	fusion_journal_take(pool, &c->journal);
	mutex_unlock(&pool->close_lock);
}

/* Bring it to the btrees.  Under the commit mutex, which it leaves. */
static int commit_end(struct fusion_pool *pool, struct commit *c)
{
	bool freeing, news;
	int r = fusion_pool_writable(pool) ? 0 : -EIO;

	if (!r)
		r = fusion_failures_flush(pool, c->failed);
	news = !r && (c->failed || !fusion_epoch_records_empty(&c->records));
	if (news) {
		fusion_journal_applied(pool, &c->journal);
		r = commit_apply(pool, &c->records);
	} else if (!r) {
		commit_bury(pool);
	}
	if (!r)
		r = fusion_failures_record(pool);
	/* an epoch that is half applied must never be committed later */
	if (r) {
		commit_fail(pool);
	} else {
		WRITE_ONCE(pool->epochs.committed, c->number);
		commit_durable(pool, c->number);
	}
	if (!r && news)
		fusion_journal_committed(pool, &c->journal);
	fusion_failures_end(pool, r);
	commit_forget(pool, &c->records);
	freeing = fusion_commit_freeing(pool);
	mutex_unlock(&pool->commit_lock);

	commit_answer(&c->bios, r);
	fusion_waiters_committed(pool, c->number, freeing);
	if (news && !list_empty_careful(&pool->waiters))
		fusion_reclaim_kick(pool);
	else if (news)
		fusion_reclaim_soon(pool);
	return r;
}

/* Under apply_lock. */
static int commit_all(struct fusion_pool *pool)
{
	struct commit c;

	lockdep_assert_held(&pool->apply_lock);
	/* what the timer was set for is in the epoch that closes now */
	cancel_delayed_work(&pool->commit_timer);
	commit_begin(pool, &c);
	mutex_lock(&pool->commit_lock);
	return commit_end(pool, &c);
}

int fusion_commit(struct fusion_pool *pool)
{
	int r;

	mutex_lock(&pool->apply_lock);
	r = commit_all(pool);
	mutex_unlock(&pool->apply_lock);
	return r;
}

int fusion_commit_epoch(struct fusion_pool *pool, u64 number)
{
	int r = 0;

	mutex_lock(&pool->apply_lock);
	if (pool->epochs.committed < number)
		r = commit_all(pool);
	mutex_unlock(&pool->apply_lock);
	return r;
}

/* Somebody waits for a flush: it need not wait for the btrees. */
static void commit_flush(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool, flush_work);
	struct commit c;
	bool now;

	mutex_lock(&pool->close_lock);
	if (commit_must_apply(pool)) {
		/* no epoch more for the next commit, which answers */
		mutex_unlock(&pool->close_lock);
		fusion_commit_kick(pool);
		return;
	}
	commit_close(pool, &c);
	now = !c.durable || fusion_journal_crowded(pool);
	if (!c.durable) {
		/* who commits answers them */
		spin_lock_irq(&pool->flush_lock);
		bio_list_merge_head(&pool->flush_bios, &c.bios);
		spin_unlock_irq(&pool->flush_lock);
	}
	mutex_unlock(&pool->close_lock);
	if (now)
		fusion_commit_kick(pool);
	else
		fusion_commit_soon(pool);
}

int fusion_commit_and_free(struct fusion_pool *pool)
{
	int i, r = 0;

	/* twice: a period may have been under way when the first began */
	for (i = 0; !r && i < 2; i++) {
		r = fusion_commit(pool);
		if (!r)
			fusion_grace_wait(&pool->grace);
	}
	if (!r)
		fusion_passdown_wait(pool);
	return r;
}

void fusion_commit_quiesce(struct fusion_pool *pool)
{
	mutex_lock(&pool->commit_lock);
	while (fusion_grace_busy(&pool->grace)) {
		mutex_unlock(&pool->commit_lock);
		fusion_grace_wait(&pool->grace);
		mutex_lock(&pool->commit_lock);
	}
	fusion_grace_start(&pool->grace);
	mutex_unlock(&pool->commit_lock);
	fusion_grace_wait(&pool->grace);
}

static void commit_work(struct work_struct *work)
{
	fusion_commit(container_of(work, struct fusion_pool, commit_work));
}

static void commit_timer(struct work_struct *work)
{
	fusion_commit(container_of(to_delayed_work(work), struct fusion_pool,
				   commit_timer));
}

void fusion_commit_soon(struct fusion_pool *pool)
{
	if (unlikely(fusion_commit_crowded(pool)))
		fusion_commit_kick(pool);
	else if (!delayed_work_pending(&pool->commit_timer))
		queue_delayed_work(pool->commit_wq, &pool->commit_timer,
				   COMMIT_PERIOD);
}

void fusion_commit_then_end(struct fusion_pool *pool, struct bio *bio)
{
	unsigned long flags;

	spin_lock_irqsave(&pool->flush_lock, flags);
	bio_list_add(&pool->flush_bios, bio);
	spin_unlock_irqrestore(&pool->flush_lock, flags);
	if (pool->journal)
		queue_work(pool->flush_wq, &pool->flush_work);
	else
		fusion_commit_kick(pool);
}

int fusion_commit_init(struct fusion_pool *pool)
{
	int r;

	mutex_init(&pool->apply_lock);
	mutex_init(&pool->close_lock);
	mutex_init(&pool->commit_lock);
	spin_lock_init(&pool->flush_lock);
	bio_list_init(&pool->flush_bios);
	fusion_epoch_records_init(&pool->unapplied);
	INIT_WORK(&pool->commit_work, commit_work);
	INIT_WORK(&pool->flush_work, commit_flush);
	INIT_DELAYED_WORK(&pool->commit_timer, commit_timer);
	r = fusion_ledger_init(&pool->ledger, &pool->space);
	if (r)
		return r;
	pool->commit_wq = alloc_ordered_workqueue("fusion-commit",
						  WQ_MEM_RECLAIM);
	if (!pool->commit_wq) {
		r = -ENOMEM;
		goto bad_wq;
	}
	pool->flush_wq = alloc_ordered_workqueue("fusion-flush", WQ_MEM_RECLAIM);
	if (!pool->flush_wq) {
		r = -ENOMEM;
		goto bad_flush_wq;
	}
	r = fusion_grace_init(&pool->grace, commit_drained, commit_ready);
	if (r)
		goto bad_grace;
	commit_measure(pool);
	fusion_sets_limit(&pool->space, &pool->reclaim.tunables);
	return 0;

bad_grace:
	destroy_workqueue(pool->flush_wq);
bad_flush_wq:
	destroy_workqueue(pool->commit_wq);
bad_wq:
	fusion_ledger_exit(&pool->ledger);
	return r;
}

void fusion_commit_exit(struct fusion_pool *pool)
{
	fusion_grace_wait(&pool->grace);
	destroy_workqueue(pool->flush_wq);
	cancel_delayed_work_sync(&pool->commit_timer);
	destroy_workqueue(pool->commit_wq);
	fusion_grace_exit(&pool->grace);
	fusion_ledger_exit(&pool->ledger);
}
