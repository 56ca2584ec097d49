// SPDX-License-Identifier: GPL-2.0-only
/*
 * What users have had done.  See counters.h.
 */
#include <linux/percpu.h>

#include "counters.h"

void fusion_counters_sum(struct fusion_pool *pool, struct fusion_counters *sum)
{
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		struct fusion_counters *c = per_cpu_ptr(pool->counters, cpu);

		sum->reads += READ_ONCE(c->reads);
		sum->large += READ_ONCE(c->large);
		sum->large_slots += READ_ONCE(c->large_slots);
		sum->grouped += READ_ONCE(c->grouped);
		sum->in_place += READ_ONCE(c->in_place);
		sum->new_top += READ_ONCE(c->new_top);
		sum->new_patch += READ_ONCE(c->new_patch);
		sum->discards += READ_ONCE(c->discards);
		sum->flushes += READ_ONCE(c->flushes);
		sum->hedged_writes += READ_ONCE(c->hedged_writes);
		sum->hedges_won += READ_ONCE(c->hedges_won);
	}
}

u64 fusion_counters_io(struct fusion_pool *pool)
{
	struct fusion_counters sum;

	fusion_counters_sum(pool, &sum);
	return sum.reads + sum.large_slots + 2 * (sum.in_place + sum.new_top + sum.new_patch);
}
