/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Volumes: made, resized and deleted; each change is committed before it is
 * answered.
 *
 * A volume is deleted in steps, each a commit of its own, beginning with the
 * mark that it is being deleted: a crash in the middle leaves a marked volume
 * whose deletion goes on at the next activation.
 */
#ifndef DM_FUSION_VOLUMES_H
#define DM_FUSION_VOLUMES_H

#include "pool.h"

/*
 * The messages; sizes in sectors, already parsed.  0 or an error, with its
 * reason in the kernel's log.  Sleep.
 */
int fusion_volume_create(struct fusion_pool *pool, u32 id, const char *name,
			 u64 sectors, unsigned int data, unsigned int parity);
int fusion_volume_resize(struct fusion_pool *pool, u32 id, u64 sectors);
/* Mark it: it has no users (the caller made sure). */
int fusion_volume_mark_deleted(struct fusion_pool *pool, u32 id);
/* Delete all that are marked. */
int fusion_volumes_delete_marked(struct fusion_pool *pool);

#endif /* DM_FUSION_VOLUMES_H */
