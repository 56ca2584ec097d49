// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block lock.  See block-lock.h.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "block-lock.h"

#define BUCKETS_PER_CPU		256
#define BUCKETS_MAX		(1 << 14)

int fusion_block_lock_init(struct fusion_block_lock *locks)
{
	unsigned int i, count;

	count = min_t(unsigned int, BUCKETS_MAX,
		      roundup_pow_of_two(num_possible_cpus()) * BUCKETS_PER_CPU);
	locks->shift = 64 - ilog2(count);
	locks->buckets = kvcalloc(count, sizeof(*locks->buckets), GFP_KERNEL);
	if (!locks->buckets)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		spin_lock_init(&locks->buckets[i].lock);
		INIT_LIST_HEAD(&locks->buckets[i].holds);
	}
	return 0;
}

void fusion_block_lock_exit(struct fusion_block_lock *locks)
{
	kvfree(locks->buckets);
}

static struct fusion_hold_bucket *hold_bucket(struct fusion_block_lock *locks,
					      u64 key)
{
	return &locks->buckets[(key * GOLDEN_RATIO_64) >> locks->shift];
}

static bool hold_conflicts(const struct fusion_hold *a, u64 key, u64 pages)
{
	return a->key == key && (!a->pages || !pages || (a->pages & pages));
}

bool fusion_hold_take(struct fusion_block_lock *locks, struct fusion_hold *hold,
		      u64 key, u64 pages,
		      void (*granted)(struct fusion_hold *hold))
{
	struct fusion_hold_bucket *b = hold_bucket(locks, key);
	struct fusion_hold *other;
	unsigned long flags;
	bool held = true;

	hold->key = key;
	hold->pages = pages;
	hold->granted = granted;

	spin_lock_irqsave(&b->lock, flags);
	list_for_each_entry(other, &b->holds, list)
		if (hold_conflicts(other, key, pages)) {
			held = false;
			break;
		}
	hold->waiting = !held;
	if (held)
		list_add(&hold->list, &b->holds);
	else if (granted)
		list_add_tail(&hold->list, &b->holds);
	spin_unlock_irqrestore(&b->lock, flags);
	return held;
}

bool fusion_hold_upgrade(struct fusion_block_lock *locks, struct fusion_hold *hold)
{
	struct fusion_hold_bucket *b = hold_bucket(locks, hold->key);
	struct fusion_hold *other;
	unsigned long flags;
	bool alone = true;

	spin_lock_irqsave(&b->lock, flags);
	list_for_each_entry(other, &b->holds, list)
		if (other != hold && !other->waiting &&
		    hold_conflicts(other, hold->key, FUSION_HOLD_EXCLUSIVE)) {
			alone = false;
			break;
		}
	if (alone)
		hold->pages = FUSION_HOLD_EXCLUSIVE;
	spin_unlock_irqrestore(&b->lock, flags);
	return alone;
}

/* Can @hold, a waiter of @b, be held now?  Only those before it count. */
static bool hold_grantable(struct fusion_hold_bucket *b,
			   struct fusion_hold *hold)
{
	struct fusion_hold *other;

	list_for_each_entry(other, &b->holds, list) {
		if (other == hold)
			return true;
		if (hold_conflicts(other, hold->key, hold->pages))
			return false;
	}
	return true;
}

/* @hold, of @b, is no more.  Those that are held now, for hold_grant(). */
static struct fusion_hold *hold_leave(struct fusion_hold_bucket *b, struct fusion_hold *hold)
{
	struct fusion_hold *waiter, *next, *granted = NULL;

	list_del(&hold->list);
	list_for_each_entry_safe(waiter, next, &b->holds, list) {
		if (!waiter->waiting || waiter->key != hold->key ||
		    !hold_grantable(b, waiter))
			continue;
		waiter->waiting = false;
		list_move(&waiter->list, &b->holds);
		waiter->next_granted = granted;
		granted = waiter;
	}
	return granted;
}

static void hold_grant(struct fusion_hold *granted)
{
	struct fusion_hold *waiter;

	while (granted) {
		/* its owner may free it in the call */
		waiter = granted;
		granted = waiter->next_granted;
		waiter->granted(waiter);
	}
}

void fusion_hold_drop(struct fusion_block_lock *locks,
		      struct fusion_hold *hold)
{
	struct fusion_hold_bucket *b = hold_bucket(locks, hold->key);
	struct fusion_hold *granted;
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	granted = hold_leave(b, hold);
	spin_unlock_irqrestore(&b->lock, flags);
	hold_grant(granted);
}

static void hold_wake(struct fusion_hold *hold)
{
	complete(hold->sleeper);
}

void fusion_hold_take_wait(struct fusion_block_lock *locks,
			   struct fusion_hold *hold, u64 key, u64 pages)
{
	DECLARE_COMPLETION_ONSTACK(done);

	hold->sleeper = &done;
	if (!fusion_hold_take(locks, hold, key, pages, hold_wake))
		wait_for_completion(&done);
}

bool fusion_hold_take_timeout(struct fusion_block_lock *locks, struct fusion_hold *hold,
			      u64 key, u64 pages, unsigned long timeout)
{
	struct fusion_hold_bucket *b = hold_bucket(locks, key);
	struct fusion_hold *granted = NULL;
	DECLARE_COMPLETION_ONSTACK(done);
	bool waiting;

	hold->sleeper = &done;
	if (fusion_hold_take(locks, hold, key, pages, hold_wake) ||
	    wait_for_completion_timeout(&done, timeout))
		return true;
	spin_lock_irq(&b->lock);
	waiting = hold->waiting;
	/* those behind it need not wait for it any more */
	if (waiting)
		granted = hold_leave(b, hold);
	spin_unlock_irq(&b->lock);
	hold_grant(granted);
	/* it has just been granted, and who did that is about to say so */
	if (!waiting)
		wait_for_completion(&done);
	return !waiting;
}
