// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: making, activating, stopping.  See pools.h.
 */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "budget.h"
#include "commit.h"
#include "compact.h"
#include "grow.h"
#include "hang.h"
#include "hedge.h"
#include "io.h"
#include "journal.h"
#include "mode.h"
#include "passdown.h"
#include "pools.h"
#include "private.h"
#include "rebuild.h"
#include "reclaim.h"
#include "record.h"
#include "destage.h"
#include "scrub.h"
#include "set-table.h"
#include "stripe.h"
#include "volume-table.h"
#include "volumes.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

static unsigned long map_cache_kb = 64 * 1024;
module_param(map_cache_kb, ulong, 0644);
MODULE_PARM_DESC(map_cache_kb,
		 "Limit of a pool's map cache in KiB, for pools started from now on");

#define MAP_CACHE_MIN_KB	64

/* see pools.h */
DEFINE_MUTEX(fusion_pools_lock);
static LIST_HEAD(pools);

static void delete_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool,
						delete_work);

	int r = fusion_volumes_delete_marked(pool);

	if (r && r != -EINTR)
		DMERR("%s: a volume could not be deleted; the next start tries again",
		      fusion_pool_name(pool));
}

static int pool_workqueues(struct fusion_pool *pool)
{
	pool->io_wq = alloc_workqueue("fusion-io", WQ_MEM_RECLAIM, 0);
	pool->large_wq = alloc_workqueue("fusion-large", WQ_MEM_RECLAIM, 0);
	pool->slow_wq = alloc_workqueue("fusion-slow",
					WQ_MEM_RECLAIM | WQ_UNBOUND, 16);
	pool->recover_wq = alloc_workqueue("fusion-recover",
					   WQ_MEM_RECLAIM | WQ_UNBOUND, 64);
	/* for long: not for who needs it to free memory; who begins it and it itself */
	pool->rebuild.wq = alloc_workqueue("fusion-rebuild", WQ_UNBOUND,
					   2 + FUSION_REBUILD_JOBS);
	/* who needs memory may wait for a member that hangs */
	pool->hang.wq = alloc_workqueue("fusion-hang", WQ_MEM_RECLAIM, 1);
	return pool->io_wq && pool->large_wq && pool->slow_wq &&
		pool->recover_wq && pool->rebuild.wq && pool->hang.wq ? 0 : -ENOMEM;
}

static void pool_free_workqueues(struct fusion_pool *pool)
{
	if (pool->hang.wq)
		destroy_workqueue(pool->hang.wq);
	if (pool->rebuild.wq)
		destroy_workqueue(pool->rebuild.wq);
	if (pool->recover_wq)
		destroy_workqueue(pool->recover_wq);
	if (pool->slow_wq)
		destroy_workqueue(pool->slow_wq);
	if (pool->large_wq)
		destroy_workqueue(pool->large_wq);
	if (pool->io_wq)
		destroy_workqueue(pool->io_wq);
}

static int pool_open_metadata(struct fusion_pool *pool,
			      const struct fusion_pool_config *config,
			      char **error)
{
	struct fusion_md_config md = {
		.layout = pool->layout,
		.old_layout = &pool->layouts[1],
		.block_sectors = config->block_sectors,
		.member_chunks = config->member_chunks,
		.incomplete = config->missing,
		.labelled = config->labelled,
		.states_generation = config->states_generation,
		.journal_offset = config->journal_offset,
		.journal_sectors = config->journal_sectors,
	};

	memcpy(md.pool_uuid, config->pool_uuid, sizeof(md.pool_uuid));
	memcpy(md.member_uuid, config->member_uuid, sizeof(md.member_uuid));
	pool->md = fusion_md_open(config->metadata_bdev, &md, error);
	return PTR_ERR_OR_ZERO(pool->md);
}

/*
 * One that the line names, and the metadata does not know yet, is there with the next commit.  What
 * another pool has left in the ring is not one of its records.
 */
static void pool_name_journal(struct fusion_pool *pool, const struct fusion_pool_config *config)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (!config->journal_sectors || super->journal_sectors)
		return;
	super->journal_offset = config->journal_offset;
	super->journal_sectors = config->journal_sectors;
	super->journal_sequence = get_random_u64();
	super->incompat |= FUSION_INCOMPAT_JOURNAL;
}

static int pool_init_space(struct fusion_pool *pool)
{
	struct fusion_space *s = &pool->space;

	s->layout = pool->layout;
	s->old_layout = &pool->layouts[1];
	s->member = pool->member;
	s->monitor = &pool->monitor;
	s->md = pool->md;
	s->epochs = &pool->epochs;
	s->grace = &pool->grace;
	s->block_sectors = pool->block_sectors;
	fusion_failures_init(pool);
	fusion_failures_load(pool);
	fusion_set_table_init(s);
	return fusion_space_init(s);
}

static int pool_init_map(struct fusion_pool *pool)
{
	struct fusion_map *map = &pool->map;

	map->md = pool->md;
	map->space = &pool->space;
	map->epochs = &pool->epochs;
	map->block_pages = pool->block_pages;
	map->limit_bytes = max_t(size_t, MAP_CACHE_MIN_KB, map_cache_kb) << 10;
	return fusion_map_init(map);
}

static bool has_member(const struct fusion_pool *pool,
		       const struct block_device *bdev)
{
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (pool->member[i].bdev == bdev)
			return true;
	return false;
}

bool fusion_pool_devices_in_use(const struct fusion_pool *pool,
				const struct fusion_pool_config *config,
				char **error)
{
	const struct fusion_pool *other;
	unsigned int i;

	*error = NULL;
	list_for_each_entry(other, &pools, list) {
		if (other == pool)
			continue;
		if (other->metadata_bdev == config->metadata_bdev)
			*error = "Metadata device is in use by another pool";
		else if (has_member(other, config->metadata_bdev))
			*error = "Metadata device is a member of another pool";
		for (i = 0; i < config->members && !*error; i++) {
			const struct block_device *bdev = config->member_bdev[i];

			if (bdev && other->metadata_bdev == bdev)
				*error = "A member has the metadata of another pool";
			else if (bdev && has_member(other, bdev))
				*error = "A member is a member of another pool, too";
		}
		if (*error)
			return true;
	}
	return false;
}

struct fusion_pool *fusion_pool_create(struct mapped_device *owner,
				       const struct fusion_pool_config *config,
				       char **error)
{
	struct fusion_pool *pool;
	unsigned int i;
	int r;

	lockdep_assert_held(&fusion_pools_lock);
	*error = "Out of memory";
	pool = kvzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		return ERR_PTR(-ENOMEM);
	pool->md_owner = owner;
	pool->metadata_bdev = config->metadata_bdev;
	pool->block_sectors = config->block_sectors;
	pool->block_shift = ilog2(config->block_sectors);
	pool->block_pages = config->block_sectors / FUSION_PAGE_SECTORS;
	pool->unsynced_generation = 1;
	pool->states_seen = config->states_seen;
	/* until it is resumed they only say what is in use */
	for (i = 0; i < config->members; i++)
		pool->member[i].bdev = config->member_bdev[i];
	fusion_volumes_init(pool);
	INIT_LIST_HEAD(&pool->targets);
	INIT_WORK(&pool->delete_work, delete_work);
	fusion_grow_init(pool);
	mutex_init(&pool->delete_lock);
	fusion_waiters_init(pool);
	fusion_resync_init(pool);
	fusion_compact_init(pool);
	mutex_init(&pool->background_lock);
	fusion_scrub_init(pool);
	fusion_rebuild_init(pool);
	fusion_hang_init(pool);
	fusion_tunables_default(&pool->reclaim.tunables);
	fusion_monitor_init(&pool->monitor, pool->member, config->members,
			    &pool->reclaim.tunables);
	fusion_gates_init(&pool->gates);

	pool->layout = &pool->layouts[0];
	r = fusion_layout_init(pool->layout, config->members, config->spares);
	if (r) {
		*error = "Number of members is no prime power, or too few for the spares";
		goto bad;
	}
	r = pool_open_metadata(pool, config, error);
	if (r)
		goto bad;
	pool_name_journal(pool, config);
	r = fusion_journal_replay(pool, error);
	if (r)
		goto bad_epochs;
	*error = "Out of memory";
	r = fusion_epochs_init(&pool->epochs);
	if (r)
		goto bad_epochs;
	r = fusion_block_lock_init(&pool->locks);
	if (r)
		goto bad_locks;
	*error = "Could not read the bands from the metadata";
	r = pool_init_space(pool);
	if (r)
		goto bad_space;
	*error = "Out of memory";
	r = pool_init_map(pool);
	if (r)
		goto bad_map;
	r = pool_workqueues(pool);
	if (r)
		goto bad_wq;
	r = fusion_read_init(pool);
	if (r)
		goto bad_wq;
	r = fusion_private_init(pool);
	if (r)
		goto bad_private;
	pool->counters = alloc_percpu(struct fusion_counters);
	if (!pool->counters) {
		r = -ENOMEM;
		goto bad_counters;
	}
	fusion_budget_init(pool);
	fusion_hedge_init(pool);
	r = fusion_reclaim_init(pool);
	if (r)
		goto bad_reclaim;
	r = fusion_passdown_init(pool);
	if (r)
		goto bad_passdown;
	pool->states_committed = fusion_md_super(pool->md)->states_generation;
	r = fusion_records_init(pool);
	if (r)
		goto bad_records;
	r = fusion_journal_init(pool);
	if (r)
		goto bad_journal;
	r = fusion_commit_init(pool);
	if (r)
		goto bad_commit;
	*error = "Could not read the volumes from the metadata";
	r = fusion_volumes_load(pool);
	if (r)
		goto bad_volumes;
	*error = "Could not read the stripes from the metadata";
	/* which of them are in areas of spares is known before they are read or written */
	if (pool->space.spares.numbers)
		r = fusion_space_load_all(&pool->space, &pool->commit_lock);
	if (r)
		goto bad_volumes;
	if (fusion_md_read_only(pool->md))
		pool->mode = FUSION_RO;
	pool->refs = 1;
	list_add(&pool->list, &pools);
	return pool;

bad_volumes:
	fusion_volumes_exit(pool);
	fusion_commit_exit(pool);
bad_commit:
	fusion_journal_exit(pool);
bad_journal:
	fusion_records_exit(pool);
bad_records:
	fusion_passdown_exit(pool);
bad_passdown:
	fusion_reclaim_exit(pool);
bad_reclaim:
	free_percpu(pool->counters);
bad_counters:
	fusion_private_exit(pool);
bad_private:
	fusion_read_exit(pool);
bad_wq:
	pool_free_workqueues(pool);
	fusion_map_exit(&pool->map);
bad_map:
	fusion_space_exit(&pool->space);
bad_space:
	fusion_block_lock_exit(&pool->locks);
bad_locks:
	fusion_epochs_exit(&pool->epochs);
bad_epochs:
	fusion_md_close(pool->md);
bad:
	kvfree(pool);
	return ERR_PTR(r);
}

static void pool_destroy(struct fusion_pool *pool)
{
	/* workers whose write has ended may still look for others to go with */
	flush_workqueue(pool->large_wq);
	flush_workqueue(pool->io_wq);
	fusion_rebuild_stop(pool);
	fusion_background_stop(&pool->scrub.background);
	fusion_reclaim_stop(pool);
	fusion_resync_stop(pool);
	cancel_work_sync(&pool->delete_work);
	cancel_work_sync(&pool->grown_work);
	fusion_waiters_exit(pool);
	fusion_large_exit(pool);
	fusion_stripe_background_exit(pool);
	fusion_commit_exit(pool);
	fusion_journal_exit(pool);
	fusion_records_exit(pool);
	fusion_reclaim_exit(pool);
	fusion_compact_exit(pool);
	fusion_passdown_exit(pool);
	fusion_volumes_exit(pool);
	free_percpu(pool->counters);
	fusion_private_exit(pool);
	fusion_read_exit(pool);
	pool_free_workqueues(pool);
	fusion_map_exit(&pool->map);
	fusion_sets_exit(&pool->space);
	fusion_set_table_exit(&pool->space);
	fusion_gates_exit(&pool->gates);
	fusion_space_exit(&pool->space);
	fusion_block_lock_exit(&pool->locks);
	fusion_epochs_exit(&pool->epochs);
	fusion_md_close(pool->md);
	kvfree(pool);
}

void fusion_pool_get(struct fusion_pool *pool)
{
	lockdep_assert_held(&fusion_pools_lock);
	pool->refs++;
}

void fusion_pool_put(struct fusion_pool *pool)
{
	lockdep_assert_held(&fusion_pools_lock);
	if (--pool->refs)
		return;
	list_del(&pool->list);
	pool_destroy(pool);
}

struct fusion_pool *fusion_pool_of_device(struct mapped_device *md)
{
	struct fusion_pool *pool;

	lockdep_assert_held(&fusion_pools_lock);
	list_for_each_entry(pool, &pools, list)
		if (pool->md_owner == md)
			return pool;
	return NULL;
}

/* ---- activation ---- */

/*
 * A new activation: a generation of its own.  After an unclean stop every top
 * of an older one may have replicas that differ; that must be durable before
 * anything is written, and so must the missing clean flag.
 */
static void pool_first_activation(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (fusion_pool_mode(pool) >= FUSION_RO) {
		/* nothing can be resynced: primaries count */
		pool->unsynced_generation = super->flags & FUSION_SUPER_CLEAN ?
			max(super->unsynced_generation, 1U) : U32_MAX;
		return;
	}
	super->generation++;
	if (!super->unsynced_generation)
		super->unsynced_generation = 1;
	if (!(super->flags & FUSION_SUPER_CLEAN)) {
		DMINFO("%s: the pool was not stopped cleanly: replicas are resynced",
		       fusion_pool_name(pool));
		super->unsynced_generation = super->generation;
	}
	pool->generation = super->generation;
	pool->unsynced_generation = super->unsynced_generation;
}

/*
 * A record that does not count must not be taken for newer than what comes, nor may other states
 * have its generation.
 */
static void pool_pass_seen(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (super->states_generation < pool->states_seen)
		super->states_generation = pool->states_seen + 1;
}

int fusion_pool_activate(struct fusion_pool *pool, u64 missing)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	int r = 0;

	fusion_hang_start(pool);
	fusion_monitor_start(&pool->monitor);
	mutex_lock(&pool->commit_lock);
	if (!pool->activated && fusion_pool_writable(pool))
		pool_pass_seen(pool);
	fusion_failures_missing(pool, missing);
	if (!pool->activated)
		pool_first_activation(pool);
	if (fusion_pool_writable(pool)) {
		super->flags &= ~FUSION_SUPER_CLEAN;
		r = fusion_commit_transaction(pool);
		/* without the records it is read-only */
		if (!r)
			fusion_failures_end(pool, fusion_failures_record(pool));
	}
	mutex_unlock(&pool->commit_lock);
	/* one that was in use goes on read-only: whoever waits for its volumes gets an answer */
	if (r && !pool->activated) {
		fusion_hang_stop(pool);
		fusion_monitor_stop(&pool->monitor);
		return r;
	}
	if (!pool->activated && fusion_pool_writable(pool) &&
	    fusion_destage_redo(pool)) {
		/* what the records say is read from the patches, until a start can do it */
		DMERR("%s: patches that were being merged could not be written: the pool is read-only",
		      fusion_pool_name(pool));
		fusion_pool_set_mode(pool, FUSION_RO);
	}
	pool->activated = true;
	WRITE_ONCE(pool->serving, true);
	fusion_pool_continue(pool);
	return 0;
}

void fusion_pool_continue(struct fusion_pool *pool)
{
	fusion_reclaim_start(pool);
	fusion_background_start(&pool->scrub.background);
	WRITE_ONCE(pool->active, true);
	fusion_rebuild_start(pool);
	fusion_resync_start(pool);
	fusion_passdown_kick(pool);
	if (fusion_pool_writable(pool))
		queue_work(pool->slow_wq, &pool->delete_work);
}

void fusion_pool_begin_stop(struct fusion_pool *pool)
{
	mutex_lock(&fusion_pools_lock);
	WRITE_ONCE(pool->active, false);
	mutex_unlock(&fusion_pools_lock);
	fusion_hang_let_go(pool);
	fusion_passdown_let_go(pool);
	fusion_background_stop(&pool->scrub.background);
	/* it ends with its jobs, which may be what writes still wait for */
	fusion_background_end(&pool->reclaim.request);
	fusion_rebuild_stop(pool);
	fusion_resync_stop(pool);
}

static void pool_settle(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	fusion_hedge_stop(pool);
	fusion_reclaim_stop(pool);
	fusion_passdown_drain(pool);
	flush_work(&pool->delete_work);
	flush_work(&pool->grown_work);
	cancel_delayed_work_sync(&pool->parked_timeout);
	/* it may set the timer, or leave FLUSH to a commit */
	flush_workqueue(pool->flush_wq);
	cancel_delayed_work_sync(&pool->commit_timer);
	fusion_commit(pool);
	fusion_grace_wait(&pool->grace);
	flush_workqueue(pool->commit_wq);
	fusion_grace_wait(&pool->grace);
	if (!fusion_pool_writable(pool))
		return;
	mutex_lock(&pool->commit_lock);
	super->flags |= FUSION_SUPER_CLEAN;
	fusion_commit_transaction(pool);
	mutex_unlock(&pool->commit_lock);
	fusion_grace_wait(&pool->grace);
}

void fusion_pool_deactivate(struct fusion_pool *pool)
{
	if (!pool->serving)
		return;
	WRITE_ONCE(pool->serving, false);
	pool_settle(pool);
	fusion_hang_stop(pool);
	fusion_monitor_stop(&pool->monitor);
}
