/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O of many single pages at once: begun, submitted and ended by one thread, which
 * does not wait in between but for memory.
 */
#ifndef DM_FUSION_PAGES_H
#define DM_FUSION_PAGES_H

#include <linux/completion.h>

#include "pool.h"

struct fusion_pages {
	struct fusion_pool *pool;
	struct blk_plug plug;		/* neighbours may go together */
	unsigned int count[2];		/* pages read, and written */
	atomic_t pending;
	int error;			/* the first */
	struct completion done;
};

void fusion_pages_begin(struct fusion_pages *io, struct fusion_pool *pool);
/* @page of @place, to or from @data, a page; @data NULL: no memory.  Sleeps. */
void fusion_pages_submit(struct fusion_pages *io, u64 place, unsigned int page,
			 void *data, blk_opf_t opf);
/* Have it end with @error, unless it has one. */
void fusion_pages_fail(struct fusion_pages *io, int error);
/* Wait for all; the first error: -EIO, -ENOMEM, or that of fusion_pages_fail(). */
int fusion_pages_end(struct fusion_pages *io);

#endif /* DM_FUSION_PAGES_H */
