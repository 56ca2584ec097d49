// SPDX-License-Identifier: GPL-2.0-only
/*
 * What hedging may cost.  See budget.h.
 */
#include "budget.h"
#include "counters.h"

void fusion_budget_init(struct fusion_pool *pool)
{
	spin_lock_init(&pool->budget.lock);
}

bool fusion_budget_take(struct fusion_pool *pool, unsigned int ios)
{
	unsigned int cost = ios * FUSION_BUDGET_EVERY;
	struct fusion_budget *b = &pool->budget;
	unsigned long flags;
	bool affordable;
	u64 seen;

	/* who cannot have it now asks again, and not for all CPUs' counters each time */
	if (time_before64(get_jiffies_64(), READ_ONCE(b->retry)) &&
	    cost >= READ_ONCE(b->refused_cost))
		return false;
	spin_lock_irqsave(&b->lock, flags);
	seen = fusion_counters_io(pool);
	b->saved = min_t(u64, b->saved + seen - b->seen, FUSION_BUDGET_EVERY * FUSION_BUDGET_BURST);
	b->seen = seen;
	affordable = b->saved >= cost;
	if (affordable) {
		b->saved -= cost;
	} else {
		WRITE_ONCE(b->refused_cost, cost);
		WRITE_ONCE(b->retry, get_jiffies_64() + 1);
	}
	spin_unlock_irqrestore(&b->lock, flags);
	return affordable;
}

void fusion_budget_refund(struct fusion_pool *pool, unsigned int ios)
{
	struct fusion_budget *b = &pool->budget;
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	b->saved += ios * FUSION_BUDGET_EVERY;
	spin_unlock_irqrestore(&b->lock, flags);
}
