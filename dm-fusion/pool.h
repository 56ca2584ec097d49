/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pool: what its parts share.
 *
 * Lifetime: a pool belongs to the mapped device of its pool target and is
 * shared by that device's tables, active and inactive, and by the volumes'
 * tables; the last to go frees it.  fusion_pools_lock (pools.h) guards the
 * list of pools and the reference counts.
 */
#ifndef DM_FUSION_POOL_H
#define DM_FUSION_POOL_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/mempool.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

#include "background.h"
#include "block-lock.h"
#include "gate.h"
#include "ledger.h"
#include "map.h"
#include "monitor.h"

/* In order of severity: see mode.h. */
enum fusion_mode {
	FUSION_RW,
	FUSION_OUT_OF_SPACE,	/* writes to new places wait or fail */
	FUSION_RO,		/* metadata trouble: nothing can change */
	FUSION_FAIL,
};

struct fusion_counters {
	u64 reads;
	u64 large;
	u64 large_slots;		/* that these wrote */
	u64 grouped;
	u64 in_place;
	u64 new_top;
	u64 new_patch;
	u64 discards;
	u64 flushes;
	u64 hedged_writes;
	u64 hedges_won;
};

#define FUSION_NO_BLOCK		(~0ULL)

/* Somebody who waits: see waiters.h. */
struct fusion_waiter {
	struct list_head list;
	struct list_head sorted;	/* while who may go together are counted */
	u64 epoch;			/* current when it began to wait */
	u64 freed;			/* see fusion_waiter_look() */
	u32 since;			/* class->fruitless when it first waited, or 0 */
	bool judged;			/* a commit it waited for did not help */
	bool grows;			/* for a block that is not there yet */
	bool alone;			/* has asked for company: not again */
	bool unmerged;			/* no patches can be merged for it */
	u32 until;			/* volume->large_ended: no longer than that */
	blk_status_t status;
	struct fusion_volume *volume;
	u64 block;			/* of a small write that may become part of a
					 * large one; or FUSION_NO_BLOCK
					 */
	/* One of them is called, in a worker or in any sleeping context. */
	void (*retry)(struct fusion_waiter *w);
	void (*fail)(struct fusion_waiter *w, blk_status_t status);
};

struct fusion_volume {
	struct list_head list;		/* of the pool; commit_lock, volumes_lock */
	struct fusion_pool *pool;
	u32 id;
	struct fusion_class *class;
	blk_status_t wait_forbidden;	/* while suspended: instead of waiting */

	u64 blocks;
	u64 mapped;			/* committed counts */
	u64 tops;
	u64 patched;
	bool counts_dirty;
	bool deleting;			/* and volumes_lock */
	unsigned int movers;		/* under volumes_lock */
	atomic_t large;			/* large writes under way */
	atomic_t large_ended;
	struct list_head company;	/* waiters for it, oldest first; waiters_lock */
	unsigned int users;		/* targets; under fusion_pools_lock */
	char name[FUSION_NAME_BYTES];
};

/* stripe.c: memory for stripes of a class */
struct fusion_stripe_pool {
	struct fusion_pool *pool;
	struct fusion_class *class;
	size_t front;			/* bytes before each */
	unsigned int order;		/* of a block, in pages */
	mempool_t pool_of;
	spinlock_t lock;
	struct list_head kept;		/* given back, to be used again */
	unsigned int kept_count;
	unsigned int kept_max;
};

/* What conversion, or compaction, has done. */
struct fusion_progress {
	atomic64_t done;		/* stripes made */
	atomic64_t given_up;		/* sets, or blocks, that were written to */
	atomic64_t read_pages, written_pages;
};

/* compact.c: blocks to be moved, found by a walk of the map */
struct fusion_victims {
	struct mutex walk_lock;		/* one walk at a time */
	spinlock_t lock;		/* of what follows */
	struct fusion_class *class;
	struct fusion_victim *item;
	unsigned int next, count;
	enum fusion_victims_of what;	/* where these are */
	atomic_t moving;		/* jobs that move what they took */
	wait_queue_head_t settled;	/* there is none any more */
	/* of what was found last some was moved; some was not, as others were in the way */
	bool moved, crossed;
	/* under walk_lock, in jiffies_64 */
	struct {
		u64 rest;		/* until then it is not looked for more */
		u64 since;		/* nothing could be moved; or 0 */
		unsigned int vain;	/* walks since anything was where they said */
	} of[FUSION_MAX_CLASSES];
};

#define FUSION_RECLAIM_JOBS	8
#define FUSION_RECLAIM_TICK	(HZ / 5)

struct fusion_reclaim_job {
	struct work_struct work;
	struct fusion_pool *pool;
	struct fusion_move *move;
	/* as of the step's begin */
	u64 news, evacuations;
	bool lacked;			/* a stripe, and made free what was on its way */
};

/* reclaim.c */
struct fusion_reclaim {
	struct fusion_tunables tunables;
	struct fusion_background request;
	struct delayed_work tick;
	struct fusion_reclaim_job job[FUSION_RECLAIM_JOBS];
	struct workqueue_struct *wq;
	bool stop;
	struct mutex load_lock;
	bool loaded;			/* the table of sets is complete */
	atomic_t running;		/* jobs */
	u64 news;			/* commits that brought something */
	u64 evacuations;		/* bands that were begun to be emptied */
	bool asked;			/* a request is being served: */
	u64 asked_number;		/* sets up to this one */
	bool asked_stripes;		/* and RAID stripes */
	int error;			/* of the first job that had one */
	bool closed;			/* sets, when nothing was left last */
	bool untried;			/* nothing was left, but nobody waited */
	struct mutex end_lock;		/* of the end of a round */
	/* the tick's */
	enum fusion_effort effort;
	bool low_water;
	bool unwanted;			/* nobody waited for the band that is emptied */
	bool lacking;			/* somebody waited, and no band is emptied */
	/* load: of the tick */
	unsigned long turns;		/* of what may be done as the pool grows, whatever the load */
	unsigned long sampled;		/* jiffies */
	unsigned long busy_since;	/* jiffies of the last load */
	u64 busy;			/* members with too much load */
	atomic64_t rate_bytes;		/* that may be moved yet */
	bool slowed;			/* a job ended for want of these */
	bool crossed;			/* or as others were in the way */
};

/* scrub.c */
struct fusion_scrub {
	struct fusion_background background;
	atomic_t repairers;		/* who want it to repair */
	bool restart;			/* the next one begins anew */
	u64 stripes, blocks;		/* looked at; blocks: replicated ones */
	u64 mismatches;			/* of them: wrong parity, replicas that differ */
	u64 repaired;			/* what was written again */
};

/* Stripes that are rebuilt at once, at most. */
#define FUSION_REBUILD_JOBS	64

/* rebuild.c */
struct fusion_rebuild {
	struct fusion_background background;
	u64 stripes;			/* of which something was rebuilt */
	u64 todo;			/* as of the round's begin, less those done since */
	struct workqueue_struct *wq;
	struct delayed_work work;	/* it begins by itself */
	unsigned long again;		/* jiffies, when that brought nothing */
	int error;			/* of the last */
	atomic_t asked;			/* who asked for it, and wait */
};

/* failure.c */
struct fusion_failures {
	spinlock_t lock;
	struct work_struct work;
	struct mutex return_lock;	/* one comes back after the other; before the commit mutex */
	u64 begun, kept;		/* members; under the commit mutex */
	u64 absent;			/* there is no device for them; likewise */
	/* changed under the lock, read on every write: members that */
	u64 out;			/* are out */
	u64 lacking;			/* or may have something nowhere: who has a number, too */
};

/* hang.c */
struct fusion_hangs {
	spinlock_t lock;
	wait_queue_head_t wait;		/* for members' answers, or for knowing that they hang */
	u64 hung;			/* members; under the lock */
	unsigned long looked;		/* when the watch last did, in jiffies */
	bool watching;
	struct workqueue_struct *wq;
	struct delayed_work work;
};

/* recover.c: pages that could not be read where they are */
struct fusion_recovered {
	atomic64_t pages;		/* read elsewhere, or computed */
	atomic64_t repaired;		/* and written again */
};

/* destage.c */
struct fusion_destage {
	atomic_t running;		/* batches */
	atomic64_t closed_seen;		/* sets that had closed before the last commit for them */
	atomic64_t pages;		/* merged */
	atomic64_t rmw, rcw;		/* rows, by how their parity was computed */
	atomic64_t read_pages, written_pages;
};

/* passdown.c */
struct fusion_passdown {
	struct workqueue_struct *wq;
	struct work_struct work;
	wait_queue_head_t wait;
	atomic_t pending;		/* members, of the range under way */
	struct completion done;
	struct fusion_passdown_member {
		struct fusion_pool *pool;
		struct work_struct work;
		sector_t sector, sectors;
		blk_status_t status;
		struct fusion_ticket ticket;
		bool under_way;		/* and has not been abandoned */
		bool complained;
	} member[FUSION_MAX_MEMBERS];
	u64 ranges, blocks;		/* passed down */
};

/* budget.c */
struct fusion_budget {
	spinlock_t lock;
	u64 seen;			/* I/Os of users, when last looked at */
	u64 saved;			/* I/Os that nothing has been taken for */
	u64 retry;			/* who was refused that, or more, not before then, in jiffies */
	unsigned int refused_cost;
};

struct fusion_pool {
	/* Constant while I/O runs. */
	u32 block_sectors;
	u32 block_shift;		/* of sectors */
	u32 block_pages;
	u32 generation;			/* of this activation */
	struct fusion_layout *layout;	/* of all members */
	struct fusion_layout layouts[2];	/* this, and, while it grows, that before it */
	struct fusion_md *md;
	struct fusion_space space;
	struct fusion_map map;
	struct fusion_block_lock locks;
	struct fusion_gates gates;
	struct fusion_counters __percpu *counters;
	struct workqueue_struct *io_wq;		/* resumes I/O; never waits for it */
	struct workqueue_struct *large_wq;	/* begins large writes */
	/* what waits for I/O, having its hold; only the walks of resync and scrub wait for some */
	struct workqueue_struct *slow_wq;
	struct workqueue_struct *recover_wq;	/* reads that failed: they wait for I/O and holds */
	struct workqueue_struct *send_wq;	/* submits what a member may not take: private.h */
	struct bio_set bios;
	struct bio_set private_bios, try_bios;
	struct fusion_stripe_pool large_pool[FUSION_MAX_CLASSES];
	bool error_if_no_space;

	enum fusion_mode mode;
	u32 unsynced_generation;	/* older tops need resync; 1: none */
	u64 resynced;
	struct work_struct resync_work;
	wait_queue_head_t resync_wait;
	bool resync_stop;
	int resync_error;
	struct fusion_reclaim reclaim;
	struct fusion_progress converted;
	struct fusion_progress compacted;
	struct fusion_victims victims;
	struct fusion_scrub scrub;
	struct fusion_rebuild rebuild;
	struct fusion_destage destage;
	struct fusion_recovered recovered;
	struct fusion_failures failures;
	struct fusion_hangs hang;
	struct fusion_monitor monitor;
	struct fusion_budget budget;
	struct delayed_work hedge_work;
	atomic_t hedged;		/* writes with two attempts that have not ended: hedge.h */
	atomic_t hedge_freed;		/* one of them has given back a stripe */
	/* record.c; under the commit mutex */
	struct page *record;
	u64 states_committed;		/* generation of those in the last commit */
	u64 recorded[FUSION_MAX_MEMBERS];	/* and in each one's newest record; 0: not known */
	u64 states_seen;		/* the newest of the records, as the pool was made */
	struct mutex background_lock;	/* making these */
	struct fusion_stripe_pool background_pool[FUSION_MAX_CLASSES];

	struct fusion_epochs epochs;
	struct fusion_grace grace;

	/*
	 * Commits: commit.c.  One applies epochs at a time, one closes them; in this order, and
	 * the commit mutex, which is for who changes the metadata, after either.
	 */
	struct mutex apply_lock;
	struct mutex close_lock;
	struct mutex commit_lock;
	struct fusion_ledger ledger;
	struct workqueue_struct *commit_wq, *flush_wq;
	struct work_struct commit_work;
	struct work_struct flush_work;
	struct delayed_work commit_timer;
	spinlock_t flush_lock;
	struct bio_list flush_bios;
	u64 commits;
	struct fusion_journal *journal;		/* NULL: there is none */
	/* under close_lock: of closed epochs that have not been taken to be applied */
	struct fusion_epoch_records unapplied;
	u64 unjournaled;			/* the last epoch that is not in the journal */
	u64 flush_failed;			/* members whose flush failed since */
	u64 journal_records;			/* written since the start */
	unsigned int shard_limit;	/* changes a shard should not exceed */
	bool metadata_low;		/* no new places are taken */
	bool metadata_short;		/* nor, long before, patches */
	u64 metadata_blocks, metadata_free;	/* as of the last commit */

	/* Waiters: waiters.c */
	spinlock_t waiters_lock;
	struct list_head waiters;	/* for space */
	struct list_head crowd;		/* for room in the epoch */
	struct list_head unpatched;	/* for room in the patch area */
	struct list_head parked;	/* it is known that there is no space */
	u64 freed;			/* times that space became free */
	struct delayed_work parked_timeout;

	struct fusion_passdown passdown;

	/* Volumes: volume-table.c */
	struct list_head volumes;	/* changed under both locks */
	spinlock_t volumes_lock;
	wait_queue_head_t movers_wait;	/* for a volume's to leave, or for its deletion */
	struct mutex delete_lock;	/* one deletion at a time */

	/* The targets */
	struct list_head list;
	unsigned int refs;
	struct mapped_device *md_owner;
	struct block_device *metadata_bdev;
	struct dm_target *ti;		/* of the active table */
	bool active;			/* from resume to the begin of suspend */
	bool serving;			/* from resume to the end of suspend */
	bool activated;			/* has been active */
	struct list_head targets;	/* active volume targets */
	struct work_struct delete_work;
	struct work_struct grown_work;

	struct fusion_member member[FUSION_MAX_MEMBERS + 1];	/* the last: FUSION_NOWHERE */
};

static inline u64 fusion_sector_block(const struct fusion_pool *pool, sector_t s)
{
	return s >> pool->block_shift;
}

/* First page of its block that sector @s is in. */
static inline unsigned int fusion_sector_page(const struct fusion_pool *pool,
					      sector_t s)
{
	return (s & (pool->block_sectors - 1)) / FUSION_PAGE_SECTORS;
}

#define fusion_count(pool, what)	this_cpu_inc((pool)->counters->what)

/* Start a commit now, without waiting.  Any context. */
static inline void fusion_commit_kick(struct fusion_pool *pool)
{
	queue_work(pool->commit_wq, &pool->commit_work);
}

/* There may be something to reclaim: look, in time.  Any context. */
static inline void fusion_reclaim_soon(struct fusion_pool *pool)
{
	queue_delayed_work(pool->reclaim.wq, &pool->reclaim.tick,
			   FUSION_RECLAIM_TICK);
}

/* And there is a need of it: look now.  Any context. */
static inline void fusion_reclaim_kick(struct fusion_pool *pool)
{
	mod_delayed_work(pool->reclaim.wq, &pool->reclaim.tick, 0);
}

/* May the replicas of a top of @generation differ? */
static inline bool fusion_unsynced(const struct fusion_pool *pool,
				   u32 generation)
{
	return generation < READ_ONCE(pool->unsynced_generation);
}

#endif /* DM_FUSION_POOL_H */
