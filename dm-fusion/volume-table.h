/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The volume table: the volumes of a pool, in core and in the metadata.
 *
 * All volumes are known in core from the pool's creation on.  The table, and
 * what its entries say, changes under the commit mutex.  Who moves blocks in
 * the background has a reference of each volume that it touches.
 */
#ifndef DM_FUSION_VOLUME_TABLE_H
#define DM_FUSION_VOLUME_TABLE_H

#include "map-apply.h"
#include "pool.h"

void fusion_volumes_init(struct fusion_pool *pool);
/* Read the table.  Sleeps. */
int fusion_volumes_load(struct fusion_pool *pool);
void fusion_volumes_exit(struct fusion_pool *pool);

/* Under commit_lock or fusion_pools_lock. */
struct fusion_volume *fusion_volume_find(struct fusion_pool *pool, u32 id);


/*
 * The volume @id, which is not deleted until it is put; NULL: there is none, or
 * it is being deleted.  Any context.
 */
struct fusion_volume *fusion_volume_get(struct fusion_pool *pool, u32 id);
/* As above: that of the lowest id from @id on. */
struct fusion_volume *fusion_volume_get_from(struct fusion_pool *pool, u32 id);
/* *@id: the lowest one from *@id on, also of a volume that is being deleted.  Any context. */
bool fusion_volume_next(struct fusion_pool *pool, u32 *id);
void fusion_volume_put(struct fusion_volume *v);
/* Is that volume being deleted?  What it had may be in the metadata still.  Any context. */
bool fusion_volume_deleting(struct fusion_pool *pool, u32 id);
/* Wait until it is not, for @time at most, in jiffies.  Sleeps. */
void fusion_volume_wait_deleted(struct fusion_pool *pool, u32 id, long time);

/* Under commit_lock: into the table, and out of it, freed. */
void fusion_volume_add(struct fusion_volume *v);
void fusion_volume_remove(struct fusion_volume *v);
/* It is being deleted: nobody gets it any more, or (not @deleting) it is not. */
void fusion_volume_set_deleting(struct fusion_volume *v, bool deleting);
/* Wait until all who got @v, which is being deleted, have put it.  Sleeps. */
void fusion_volume_wait_unused(struct fusion_volume *v);

/* Is @name, with its terminating zero, one that a volume may have? */
bool fusion_volume_name_ok(const char *name);

/* Write the entry of @v to the open transaction; under commit_lock. */
int fusion_volume_store(struct fusion_pool *pool, struct fusion_volume *v);

/* fusion_map_count_fn: the counts of @volume changed; @context is the pool. */
void fusion_volume_count(void *context, u32 volume,
			 const struct fusion_map_counts *counts);
/* Write changed counts to the open transaction; under commit_lock. */
int fusion_volumes_write_counts(struct fusion_pool *pool);

#endif /* DM_FUSION_VOLUME_TABLE_H */
