/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies of a block's pages, by who holds it: all are read at once, and then all are written, as
 * somebody may wait for them.
 */
#ifndef DM_FUSION_COPY_H
#define DM_FUSION_COPY_H

#include "pool.h"

struct fusion_copy {
	struct fusion_pool *pool;
	bool row;			/* its pages are one behind the other in memory */
	bool apart;			/* not all was read from the first replica */
	u64 mask;			/* pages that it has, at least those that it is for */
	struct page *page[FUSION_MAX_BLOCK_PAGES]; /* of the block */
};

/* Where pages of a block are, in each of @count replicas. */
struct fusion_copy_place {
	unsigned int count;
	const u64 *place;		/* of a top; unless they are */
	const struct fusion_patches *patches;
};

/* For the pages in @mask.  Sleeps; -ENOMEM. */
int fusion_copy_begin(struct fusion_copy *copy, struct fusion_pool *pool, u64 mask);
void fusion_copy_end(struct fusion_copy *copy);

/*
 * Read the pages in @mask, each of the first replica that can be read.  Sleeps; 0, or
 * -EIO: a page has none, or -ENOMEM.
 */
int fusion_copy_read(struct fusion_copy *copy, const struct fusion_copy_place *from, u64 mask);

/* What @bio writes to the block, from its page @page on. */
void fusion_copy_bio(struct fusion_copy *copy, struct bio *bio, unsigned int page);

/* Write the pages in @mask to all replicas.  Sleeps; 0 or -EIO. */
int fusion_copy_write(struct fusion_copy *copy, const struct fusion_copy_place *to, u64 mask);

/* Read them, and write them to those that they were not read from.  Sleeps; errors as above. */
int fusion_copy_spread(struct fusion_copy *copy, const struct fusion_copy_place *at, u64 mask);

#endif /* DM_FUSION_COPY_H */
