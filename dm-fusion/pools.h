/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pools as the targets see them: made from a table line, shared by tables,
 * activated and stopped.
 */
#ifndef DM_FUSION_POOLS_H
#define DM_FUSION_POOLS_H

#include "pool.h"

/* Guards the list of pools, their references and the volumes' users. */
extern struct mutex fusion_pools_lock;

struct fusion_pool_config {
	struct block_device *metadata_bdev;
	struct block_device *member_bdev[FUSION_MAX_MEMBERS];	/* NULL: missing */
	u32 block_sectors;
	unsigned int members;
	unsigned int spares;
	u64 member_chunks;		/* blocks that fit the smallest member */
	u64 missing;			/* members; of these nothing is known */
	u64 journal_offset;		/* sectors */
	u32 journal_sectors;		/* 0: there is none */
	bool labelled;
	u64 states_generation;		/* of the records: see fusion_states_choose() */
	u64 states_seen;		/* the newest of all */
	u64 recorded[FUSION_MAX_MEMBERS];	/* each one's, if it is in both copies, or 0 */
	u8 pool_uuid[FUSION_UUID_BYTES];
	u8 member_uuid[FUSION_MAX_MEMBERS][FUSION_UUID_BYTES];
};

/*
 * Is a device of @config also one of a pool other than @pool, which may be NULL?  Then
 * *@error is a sentence for ti->error.  Device-mapper does not mind, and each would write
 * over what is the other's.  Under fusion_pools_lock, as the next four.
 */
bool fusion_pool_devices_in_use(const struct fusion_pool *pool,
				const struct fusion_pool_config *config,
				char **error);
/*
 * A new pool for @owner, with one reference.  On error *@error is a sentence
 * for ti->error.  Sleeps.
 */
struct fusion_pool *fusion_pool_create(struct mapped_device *owner,
				       const struct fusion_pool_config *config,
				       char **error);
void fusion_pool_get(struct fusion_pool *pool);
/* Drop a reference; the last one frees the pool. */
void fusion_pool_put(struct fusion_pool *pool);
/* The pool of a pool target's device, or NULL. */
struct fusion_pool *fusion_pool_of_device(struct mapped_device *md);

/*
 * Begin, or begin again, to serve I/O: the members are bound, but those in @missing, and what
 * is recorded is known.  What was written before a clean stop is not resynced.  An error: its
 * metadata could not be written, and nothing was served yet.
 */
int fusion_pool_activate(struct fusion_pool *pool, u64 missing);
/*
 * A stop begins: volumes are not bound or resumed any more, background work
 * and messages that wait for it end.  fusion_pool_continue() takes it back.
 */
void fusion_pool_begin_stop(struct fusion_pool *pool);
void fusion_pool_continue(struct fusion_pool *pool);
/* Stop: all volumes are suspended.  Commits, and marks the pool clean. */
void fusion_pool_deactivate(struct fusion_pool *pool);

/* message.c: dm_message_fn of the pool target. */
int fusion_pool_message(struct fusion_pool *pool, unsigned int argc,
			char **argv, char *result, unsigned int bytes);

extern struct target_type fusion_metadata_target;
extern struct target_type fusion_pool_target;
extern struct target_type fusion_volume_target;

/* volume-target.c: suspend or resume the volumes of a pool, for its sake. */
void fusion_volumes_internal_suspend(struct fusion_pool *pool);
void fusion_volumes_internal_resume(struct fusion_pool *pool);

#endif /* DM_FUSION_POOLS_H */
