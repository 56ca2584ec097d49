// SPDX-License-Identifier: GPL-2.0-only
/*
 * Latency.  See latency.h.
 */
#include "latency.h"

#define STEP_BITS	3		/* of FUSION_LATENCY_STEPS */

static unsigned int highest_bit(u64 x)
{
	return 63 - __builtin_clzll(x);
}

unsigned int fusion_latency_bucket(u64 ns)
{
	unsigned int octave, bucket;

	if (ns < 1ULL << FUSION_LATENCY_FIRST)
		return 0;
	octave = highest_bit(ns);
	bucket = (octave - FUSION_LATENCY_FIRST) * FUSION_LATENCY_STEPS +
		(ns >> (octave - STEP_BITS) & (FUSION_LATENCY_STEPS - 1));
	return bucket < FUSION_LATENCY_BUCKETS ? bucket : FUSION_LATENCY_BUCKETS - 1;
}

u64 fusion_latency_of_bucket(unsigned int bucket)
{
	unsigned int octave = FUSION_LATENCY_FIRST + bucket / FUSION_LATENCY_STEPS;
	u64 step = bucket % FUSION_LATENCY_STEPS;

	return (1ULL << octave) + (2 * step + 1) * (1ULL << (octave - STEP_BITS - 1));
}

u64 fusion_latency_total(const struct fusion_latency *l)
{
	unsigned int i;
	u64 total = 0;

	for (i = 0; i < FUSION_LATENCY_BUCKETS; i++)
		total += READ_ONCE(l->count[i]);
	return total;
}

u64 fusion_latency_percentile(const struct fusion_latency *l, unsigned int permille)
{
	u64 total = fusion_latency_total(l), below = 0;
	unsigned int i;

	if (!total)
		return 0;
	for (i = 0; i < FUSION_LATENCY_BUCKETS - 1; i++) {
		below += READ_ONCE(l->count[i]);
		if (below * 1000 >= total * permille && below)
			break;
	}
	return fusion_latency_of_bucket(i);
}

void fusion_latency_age(struct fusion_latency *l)
{
	unsigned int i;

	for (i = 0; i < FUSION_LATENCY_BUCKETS; i++)
		WRITE_ONCE(l->count[i], READ_ONCE(l->count[i]) / 2);
}
