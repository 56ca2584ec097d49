/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings: the tunables of policy.h by their names, as messages change and show them.
 * They are the running pool's, and forgotten with it.
 */
#ifndef DM_FUSION_SETTINGS_H
#define DM_FUSION_SETTINGS_H

#include "pool.h"

/*
 * Change one, and have the background look at what that means.  -ENOENT; or -ERANGE:
 * above @max.
 */
int fusion_set_setting(struct fusion_pool *pool, const char *name, u64 value,
		       u32 *max);
/* Name and value of number @i; NULL: there are no more. */
const char *fusion_setting(struct fusion_pool *pool, unsigned int i, u32 *value);

#endif /* DM_FUSION_SETTINGS_H */
