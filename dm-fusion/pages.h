/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O of many single pages at once: begun, submitted and ended by one thread.  A few
 * for each member are under way at a time, for others write to them, too.
 */
#ifndef DM_FUSION_PAGES_H
#define DM_FUSION_PAGES_H

#include <linux/wait.h>

#include "pool.h"

struct fusion_pages {
	struct fusion_pool *pool;
	struct blk_plug plug;		/* neighbours may go together */
	unsigned int count[2];		/* pages read, and written */
	int error;			/* the first */
	spinlock_t lock;
	unsigned int pending, most;	/* under the lock */
	wait_queue_head_t room;
};

void fusion_pages_begin(struct fusion_pages *io, struct fusion_pool *pool);
/*
 * Read page @page of @place into *@data, a page of memory, which is got if it is NULL, and
 * afterwards is the caller's to free.  NULL, at the end: it could not be read.  Sleeps.
 */
void fusion_pages_read(struct fusion_pages *io, u64 place, unsigned int page,
		       void **data);
/* Write @data there; NULL: no memory.  Sleeps. */
void fusion_pages_write(struct fusion_pages *io, u64 place, unsigned int page,
			void *data);
/* Have it end with @error, unless it has one. */
void fusion_pages_fail(struct fusion_pages *io, int error);
/* Wait for all; the first error: -EIO, -ENOMEM, or that of fusion_pages_fail(). */
int fusion_pages_end(struct fusion_pages *io);

#endif /* DM_FUSION_PAGES_H */
