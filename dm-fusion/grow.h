/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growing: a pool comes to have more members while it is in use.
 *
 * The table line says so: it is loaded with more members than the pool has, and when it is resumed
 * nothing is under way, and everything has been committed.  Then
 *
 *  1. one commit writes the new layout, with the one that was, and the new members.  No band is of
 *     the new layout yet, so a power cut before it leaves the pool as it was, and one after it
 *     the pool with all members.
 *  2. the records of all members follow, as after any change of their states (failure.h): a start
 *     needs more than half of all, the new ones counted, from then on.  Between the two the
 *     metadata says it alone: who assembles the pool asks it first.
 *  3. what is in bands of the old layout is moved (region.h), by commits like those that compaction
 *     makes at any other time.  Each leaves what has not been moved where it was.
 *  4. when nothing is there any more, one commit has the old layout forgotten.
 *
 * The pool can grow again then.
 */
#ifndef DM_FUSION_GROW_H
#define DM_FUSION_GROW_H

#include "pools.h"

void fusion_grow_init(struct fusion_pool *pool);

/*
 * What speaks against growing to the members of @config, more than the pool has: NULL, or a
 * sentence for ti->error.  It may be another when it grows.  Sleeps.
 */
char *fusion_grow_wrong(struct fusion_pool *pool, const struct fusion_pool_config *config);

/*
 * Grow to @members, all of which are bound; @uuid has theirs.  Between fusion_pool_deactivate() and
 * fusion_pool_activate().  An error leaves the pool as it was; if that is of the commit it is
 * read-only.  Sleeps.
 */
int fusion_grow(struct fusion_pool *pool, unsigned int members,
		const u8 uuid[][FUSION_UUID_BYTES]);

/* If it grows: is that over?  Then it is committed, in time.  Any context. */
void fusion_grow_look(struct fusion_pool *pool);

#endif /* DM_FUSION_GROW_H */
