/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What users have had done: counted by each CPU for itself (fusion_count()), and summed here,
 * without a lock.
 */
#ifndef DM_FUSION_COUNTERS_H
#define DM_FUSION_COUNTERS_H

#include "pool.h"

void fusion_counters_sum(struct fusion_pool *pool, struct fusion_counters *sum);
/* I/Os to members that all reads and writes were, with two replicas: it changes when there is one. */
u64 fusion_counters_io(struct fusion_pool *pool);

#endif /* DM_FUSION_COUNTERS_H */
