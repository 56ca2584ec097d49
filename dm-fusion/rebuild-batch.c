// SPDX-License-Identifier: GPL-2.0-only
/*
 * Batches of stripes that are rebuilt.  See rebuild-batch.h.
 */
#include <linux/slab.h>

#include "commit.h"
#include "counters.h"
#include "rebuild-batch.h"
#include "rebuild-stripe.h"
#include "stripe.h"

/* Shorter waits for a rate add up. */
#define REBUILD_WAIT_MS		500
#define REBUILD_SLICE_MS	1000
/* How often to look whether there is load, and after which time there is none any more. */
#define REBUILD_LOOK_MS		100
#define REBUILD_IDLE_MS		1000
/* Of each member at once. */
#define REBUILD_MEMBER_KIB	512
/* At once, at a rate: a block would be in the way of who reads a page for several times as long. */
#define REBUILD_PIECE		4

bool fusion_rebuild_stopping(struct fusion_pool *pool)
{
	return fusion_background_stopping(&pool->rebuild.background) ||
		(READ_ONCE(pool->reclaim.tunables.paused) &&
		 !atomic_read(&pool->rebuild.asked));
}

/* ---- the rate ---- */

/* Has there been any for users within some time? */
static bool batch_loaded(struct fusion_rebuild_batch *b)
{
	u64 io;

	if (time_after_eq(jiffies, b->looked + msecs_to_jiffies(REBUILD_LOOK_MS))) {
		io = fusion_counters_io(b->pool);
		if (io != b->io)
			b->loaded = jiffies;
		b->io = io;
		b->looked = jiffies;
	}
	return time_before(jiffies, b->loaded + msecs_to_jiffies(REBUILD_IDLE_MS));
}

/* KiB a second that may be read and written now; 0: no limit. */
static u32 rebuild_rate(struct fusion_rebuild_batch *b)
{
	u32 rate = READ_ONCE(b->pool->reclaim.tunables.rate_kib);
	u32 loaded = READ_ONCE(b->pool->reclaim.tunables.rebuild_kib);

	if (loaded && (!rate || loaded < rate) && batch_loaded(b))
		return loaded;
	return rate;
}

/* It is so much later than @since. */
static void batch_pay(struct fusion_rebuild_batch *b, u32 rate, unsigned long since)
{
	u64 paid = div_u64((u64)rate * jiffies_to_msecs(jiffies - since), 1000);

	b->unpaid_kib -= min(paid, b->unpaid_kib);
}

/* What is to be waited for @kib, in ms. */
static u64 batch_debt(struct fusion_rebuild_batch *b, u64 kib, u32 *rate)
{
	*rate = rebuild_rate(b);
	if (!*rate)
		b->unpaid_kib = 0;
	return *rate ? div_u64(kib * 1000, *rate) : 0;
}

/* ---- the jobs ---- */

static void rebuild_job(struct work_struct *work)
{
	struct fusion_rebuild_job *job = container_of(work, struct fusion_rebuild_job, work);
	struct fusion_rebuild_batch *b = job->batch;
	unsigned int i;

	while ((i = atomic_inc_return(&b->next) - 1) < b->count) {
		struct fusion_rebuild_item *item = &b->item[i];
		unsigned long now = jiffies;

		if (time_before(now, item->begin))
			wait_event_idle_timeout(b->pool->rebuild.background.wait,
						fusion_rebuild_stopping(b->pool),
						item->begin - now);
		item->r = fusion_rebuild_stopping(b->pool) ? -EINTR :
			fusion_rebuild_stripe(item->sp, item->spared, b->piece, &item->kib);
	}
}

/* So many that each member has that much to read or write, about: some have less. */
static unsigned int batch_jobs(const struct fusion_rebuild_batch *b)
{
	u64 jobs = div_u64((u64)REBUILD_MEMBER_KIB * b->pool->layout->n, b->stripe_kib);

	return clamp_t(u64, jobs, 1, min_t(u64, b->count, FUSION_REBUILD_JOBS));
}

/* At @rate, one after the other: all at once would be in the way of who waits for a read. */
static void batch_run(struct fusion_rebuild_batch *b, u32 rate)
{
	unsigned int jobs = batch_jobs(b), i;
	u64 ms = rate ? div_u64(b->stripe_kib * 1000, rate) : 0;
	unsigned long now = jiffies;

	/* later is what was added when there was no such limit */
	for (i = 0; i < b->count; i++)
		b->item[i].begin = now +
			msecs_to_jiffies(min_t(u64, i * ms, REBUILD_SLICE_MS));
	b->piece = rate ? min_t(unsigned int, REBUILD_PIECE, b->pool->block_pages) :
		b->pool->block_pages;
	atomic_set(&b->next, 0);
	for (i = 0; i < jobs; i++)
		queue_work(b->pool->rebuild.wq, &b->job[i].work);
	for (i = 0; i < jobs; i++)
		flush_work(&b->job[i].work);
}

/* ---- the commit ---- */

static void batch_done(struct fusion_rebuild_batch *b)
{
	struct fusion_pool *pool = b->pool;

	b->found.done++;
	WRITE_ONCE(pool->rebuild.stripes, pool->rebuild.stripes + 1);
	/* members may have failed since it was counted */
	if (pool->rebuild.todo)
		WRITE_ONCE(pool->rebuild.todo, pool->rebuild.todo - 1);
}

/* What became of @item is known. */
static void batch_note(struct fusion_rebuild_batch *b, struct fusion_rebuild_item *item)
{
	b->unpaid_kib += item->kib;
	if (item->r)
		kfree(item->spared);
	switch (item->r) {
	case 0:
		batch_done(b);
		break;
	case -EBUSY:
		b->found.sets++;
		break;
	case -ENODATA:		/* nothing of it is in use any more */
	case -EAGAIN:		/* the next round sees what is to be done now */
	case -EINTR:
		break;
	default:
		b->found.error = b->found.error ?: item->r;
	}
}

int fusion_rebuild_flush(struct fusion_rebuild_batch *b)
{
	u64 done = b->found.done;
	unsigned long began = jiffies;
	u32 rate = rebuild_rate(b);
	bool stopped = false;
	unsigned int i;
	int r = 0;

	if (!b->count)
		return 0;
	batch_run(b, rate);
	for (i = 0; i < b->count; i++) {
		stopped |= b->item[i].r == -EINTR;
		batch_note(b, &b->item[i]);
	}
	/* they are where they are to be with it */
	if (b->found.done != done)
		r = fusion_commit(b->pool);
	for (i = 0; i < b->count; i++)
		fusion_gate_leave(&b->pool->gates, b->item[i].id);
	batch_pay(b, rate, began);
	b->count = 0;
	b->kib = 0;
	return !r && stopped ? -EINTR : r;
}

/* Let others have their time. */
static int batch_pace(struct fusion_rebuild_batch *b)
{
	struct fusion_pool *pool = b->pool;
	unsigned long since;
	u64 ms, most;
	u32 rate;
	int r;

	if (batch_debt(b, b->unpaid_kib + b->kib, &rate) < REBUILD_WAIT_MS)
		return 0;
	r = fusion_rebuild_flush(b);
	/* what is more was done when there was no such limit */
	most = div_u64((u64)rate * REBUILD_WAIT_MS, 1000) + b->stripe_kib;
	b->unpaid_kib = min(b->unpaid_kib, most);
	ms = batch_debt(b, b->unpaid_kib, &rate);
	/* the load changes, and so may the rates */
	while (!r && ms && !fusion_rebuild_stopping(pool)) {
		since = jiffies;
		ms = clamp_t(u64, ms, jiffies_to_msecs(1), REBUILD_SLICE_MS);
		wait_event_idle_timeout(pool->rebuild.background.wait,
					fusion_rebuild_stopping(pool),
					msecs_to_jiffies(ms));
		batch_pay(b, rate, since);
		ms = batch_debt(b, b->unpaid_kib, &rate);
	}
	return r;
}

/* ---- what is to be done ---- */

static int batch_enter(struct fusion_rebuild_batch *b, u64 id,
		       const struct fusion_class *class)
{
	struct fusion_gates *gates = &b->pool->gates;
	int r;

	/* how many at once depends on the class */
	if (b->count < FUSION_REBUILD_BATCH && (!b->count || b->item[0].class == class) &&
	    fusion_gate_enter(gates, id, false))
		return 0;
	/* who waits is in no other */
	r = fusion_rebuild_flush(b);
	return r ? r : fusion_gate_enter_wait(gates, id);
}

int fusion_rebuild_add(struct fusion_rebuild_batch *b, u64 id,
		       const struct fusion_lost *lost)
{
	struct fusion_stripe_pool *sp = fusion_stripe_background(b->pool, lost->class);
	struct fusion_spared *spared;
	int r;

	spared = sp ? kmalloc(sizeof(*spared), GFP_NOIO) : NULL;
	if (!spared)
		return -ENOMEM;
	*spared = (struct fusion_spared) {
		.stripe = id,
		.generation = b->generation,
		.areas = lost->areas,
		.home = lost->home,
	};
	r = batch_pace(b);
	if (!r)
		r = batch_enter(b, id, lost->class);
	if (r) {
		kfree(spared);
		return r;
	}
	b->item[b->count++] = (struct fusion_rebuild_item) {
		.id = id,
		.class = lost->class,
		.sp = sp,
		.spared = spared,
	};
	b->stripe_kib = lost->class->k * (b->pool->block_sectors >> 1);
	b->kib += b->stripe_kib;
	return 0;
}

void fusion_rebuild_batch_init(struct fusion_rebuild_batch *b, struct fusion_pool *pool)
{
	unsigned int i;

	memset(b, 0, sizeof(*b));
	b->pool = pool;
	for (i = 0; i < FUSION_REBUILD_JOBS; i++) {
		INIT_WORK(&b->job[i].work, rebuild_job);
		b->job[i].batch = b;
	}
	b->io = fusion_counters_io(pool);
	b->looked = jiffies;
	b->loaded = jiffies - msecs_to_jiffies(REBUILD_IDLE_MS);
	/* what it is compared with */
	wait_event_idle_timeout(pool->rebuild.background.wait,
				fusion_rebuild_stopping(pool),
				msecs_to_jiffies(REBUILD_LOOK_MS));
}
