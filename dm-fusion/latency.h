/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long I/O takes: a histogram of eight buckets to an octave, so that a percentile is right
 * within 6 %.
 *
 * Pure; any context.
 */
#ifndef DM_FUSION_LATENCY_H
#define DM_FUSION_LATENCY_H

#include "pure-atomic.h"

/* From 2^10 ns, the first bucket, on: to 2^35 ns, half a minute. */
#define FUSION_LATENCY_FIRST	10
#define FUSION_LATENCY_OCTAVES	25
#define FUSION_LATENCY_STEPS	8
#define FUSION_LATENCY_BUCKETS	(FUSION_LATENCY_OCTAVES * FUSION_LATENCY_STEPS)

struct fusion_latency {
	u32 count[FUSION_LATENCY_BUCKETS];
};

/* The bucket of @ns. */
unsigned int fusion_latency_bucket(u64 ns);
/* Its middle, in ns. */
u64 fusion_latency_of_bucket(unsigned int bucket);

/* How many there are. */
u64 fusion_latency_total(const struct fusion_latency *l);
/* Of those in @l, in ns, what @permille are not longer than; 0: there are none. */
u64 fusion_latency_percentile(const struct fusion_latency *l, unsigned int permille);
/* What was counted counts half of that from now on. */
void fusion_latency_age(struct fusion_latency *l);

#endif /* DM_FUSION_LATENCY_H */
