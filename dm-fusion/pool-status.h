/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pool's status line; docs/dm-fusion.rst lists its fields, which are only
 * ever appended to.
 */
#ifndef DM_FUSION_POOL_STATUS_H
#define DM_FUSION_POOL_STATUS_H

#include "pool-table.h"

/* Print it; the members are named as in @t.  Sleeps. */
void fusion_pool_status(struct fusion_pool *pool,
			const struct fusion_pool_table *t, char *result,
			unsigned int maxlen);

#endif /* DM_FUSION_POOL_STATUS_H */
