// SPDX-License-Identifier: GPL-2.0-only
/*
 * Epochs and the grace period.  See epoch.h.
 */
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "epoch.h"

int fusion_epochs_init(struct fusion_epochs *e)
{
	unsigned int i, count;

	count = min_t(unsigned int, FUSION_EPOCH_SHARDS,
		      roundup_pow_of_two(nr_cpu_ids));
	e->shard = kcalloc(count, sizeof(*e->shard), GFP_KERNEL);
	if (!e->shard)
		return -ENOMEM;
	e->mask = count - 1;
	e->current_number = 1;
	mutex_init(&e->close_lock);
	for (i = 0; i < count; i++) {
		spin_lock_init(&e->shard[i].lock);
		INIT_LIST_HEAD(&e->shard[i].changes);
		INIT_LIST_HEAD(&e->shard[i].closed_sets);
		INIT_LIST_HEAD(&e->shard[i].seals);
		INIT_LIST_HEAD(&e->shard[i].rows);
		INIT_LIST_HEAD(&e->shard[i].spared);
	}
	return 0;
}

void fusion_epochs_exit(struct fusion_epochs *e)
{
	kfree(e->shard);
}

struct fusion_epoch_shard *fusion_epoch_enter(struct fusion_epochs *e,
					      unsigned long *flags)
	__acquires(shard->lock)
{
	struct fusion_epoch_shard *shard;

	/* any shard will do: a migration after this only costs a cache line */
	shard = &e->shard[raw_smp_processor_id() & e->mask];
	spin_lock_irqsave(&shard->lock, *flags);
	return shard;
}

void fusion_epoch_exit(struct fusion_epoch_shard *shard, unsigned long flags)
	__releases(shard->lock)
{
	spin_unlock_irqrestore(&shard->lock, flags);
}

void fusion_spared_enter(struct fusion_epochs *e, struct fusion_spared *spared)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;

	shard = fusion_epoch_enter(e, &flags);
	list_add_tail(&spared->list, &shard->spared);
	fusion_epoch_exit(shard, flags);
}

/* Sparse cannot count locks that are taken in a loop. */
#ifdef __CHECKER__
static void shards_lock(struct fusion_epochs *e);
static void shards_unlock(struct fusion_epochs *e);
#else
static void shards_lock(struct fusion_epochs *e)
{
	unsigned int i;

	local_irq_disable();
	for (i = 0; i <= e->mask; i++)
		spin_lock_nest_lock(&e->shard[i].lock, &e->close_lock);
}

static void shards_unlock(struct fusion_epochs *e)
{
	unsigned int i;

	for (i = 0; i <= e->mask; i++)
		spin_unlock(&e->shard[i].lock);
	local_irq_enable();
}
#endif

void fusion_epoch_records_init(struct fusion_epoch_records *records)
{
	INIT_LIST_HEAD(&records->changes);
	INIT_LIST_HEAD(&records->closed_sets);
	INIT_LIST_HEAD(&records->seals);
	INIT_LIST_HEAD(&records->rows);
	INIT_LIST_HEAD(&records->spared);
}

void fusion_epoch_records_append(struct fusion_epoch_records *records,
				 struct fusion_epoch_records *later)
{
	list_splice_tail_init(&later->changes, &records->changes);
	list_splice_tail_init(&later->closed_sets, &records->closed_sets);
	list_splice_tail_init(&later->seals, &records->seals);
	list_splice_tail_init(&later->rows, &records->rows);
	list_splice_tail_init(&later->spared, &records->spared);
}

u64 fusion_epoch_close(struct fusion_epochs *e,
		       struct fusion_epoch_records *records)
{
	unsigned int i;
	u64 number;

	fusion_epoch_records_init(records);
	mutex_lock(&e->close_lock);
	shards_lock(e);
	number = e->current_number;
	WRITE_ONCE(e->current_number, number + 1);
	for (i = 0; i <= e->mask; i++) {
		struct fusion_epoch_shard *shard = &e->shard[i];

		list_splice_tail_init(&shard->changes, &records->changes);
		list_splice_tail_init(&shard->closed_sets,
				      &records->closed_sets);
		list_splice_tail_init(&shard->seals, &records->seals);
		list_splice_tail_init(&shard->rows, &records->rows);
		list_splice_tail_init(&shard->spared, &records->spared);
		shard->changes_count = 0;
	}
	shards_unlock(e);
	mutex_unlock(&e->close_lock);
	return number;
}

unsigned int fusion_epoch_changes(struct fusion_epochs *e)
{
	unsigned int i, count = 0;

	for (i = 0; i <= e->mask; i++)
		count += READ_ONCE(e->shard[i].changes_count);
	return count;
}

/* ---- grace period ---- */

static void grace_released(struct percpu_ref *ref)
{
	struct fusion_grace_ref *r = container_of(ref, struct fusion_grace_ref,
						  ref);

	/* Any context: what follows may sleep. */
	queue_work(r->grace->wq, &r->grace->work);
}

static void grace_work(struct work_struct *work)
{
	struct fusion_grace *g = container_of(work, struct fusion_grace, work);

	g->drained(g);
	percpu_ref_reinit(&g->ref[!g->current_ref].ref);
	/* release: the count is live again before another drain can start */
	smp_store_release(&g->draining, false);
	wake_up_all(&g->idle);
	g->ready(g);
}

int fusion_grace_init(struct fusion_grace *g,
		      void (*drained)(struct fusion_grace *grace),
		      void (*ready)(struct fusion_grace *grace))
{
	int i, r;

	g->drained = drained;
	g->ready = ready;
	INIT_WORK(&g->work, grace_work);
	init_waitqueue_head(&g->idle);
	g->wq = alloc_workqueue("fusion-grace", WQ_MEM_RECLAIM, 1);
	if (!g->wq)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		g->ref[i].grace = g;
		r = percpu_ref_init(&g->ref[i].ref, grace_released,
				    PERCPU_REF_ALLOW_REINIT, GFP_KERNEL);
		if (r) {
			if (i)
				percpu_ref_exit(&g->ref[0].ref);
			destroy_workqueue(g->wq);
			return r;
		}
	}
	return 0;
}

void fusion_grace_exit(struct fusion_grace *g)
{
	fusion_grace_wait(g);
	percpu_ref_exit(&g->ref[0].ref);
	percpu_ref_exit(&g->ref[1].ref);
	destroy_workqueue(g->wq);
}

void fusion_grace_start(struct fusion_grace *g)
{
	unsigned int old = g->current_ref;

	g->draining = true;
	/* pairs with fusion_grace_enter() */
	smp_store_release(&g->current_ref, !old);
	percpu_ref_kill(&g->ref[old].ref);
}

void fusion_grace_hurry(struct fusion_grace *g)
{
	WRITE_ONCE(g->hurried, true);
	wake_up_all(&g->idle);
}

void fusion_grace_calm(struct fusion_grace *g)
{
	WRITE_ONCE(g->hurried, false);
	wake_up_all(&g->idle);
}

bool fusion_grace_wait_hurried(struct fusion_grace *g)
{
	wait_event(g->idle, !READ_ONCE(g->draining) || READ_ONCE(g->hurried));
	if (READ_ONCE(g->draining))
		return false;
	fusion_grace_wait(g);
	return true;
}

void fusion_grace_wait_calm(struct fusion_grace *g)
{
	wait_event(g->idle, !READ_ONCE(g->hurried));
}

void fusion_grace_wait(struct fusion_grace *g)
{
	/* acquire: what the worker did before it said so */
	wait_event(g->idle, !smp_load_acquire(&g->draining));
	/* and its worker has left @g */
	flush_work(&g->work);
}
