/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Modes: what a pool can still do, and how it says so.
 *
 * A pool only becomes worse, but for space: that comes back.  Who finds out
 * something sets the mode; the log and dm's events tell the rest.
 */
#ifndef DM_FUSION_MODE_H
#define DM_FUSION_MODE_H

#include "pool.h"

static inline enum fusion_mode fusion_pool_mode(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->mode);
}

/* May anything be changed? */
static inline bool fusion_pool_writable(const struct fusion_pool *pool)
{
	return fusion_pool_mode(pool) < FUSION_RO;
}

/* Any context that may sleep.  RO and FAIL are only left by a new start. */
void fusion_pool_set_mode(struct fusion_pool *pool, enum fusion_mode mode);

/* Raise a dm event on the pool's device.  May sleep. */
void fusion_pool_event(struct fusion_pool *pool);

/* Name of the pool's device, for messages. */
const char *fusion_pool_name(const struct fusion_pool *pool);

#endif /* DM_FUSION_MODE_H */
