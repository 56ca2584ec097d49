/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies of a block's pages, by who holds it: all are read at once, and then all are written, as
 * somebody may wait for them; if a member has an error, one after the other.
 */
#ifndef DM_FUSION_COPY_H
#define DM_FUSION_COPY_H

#include "pool.h"

struct fusion_copy {
	struct fusion_pool *pool;
	void *buffer;
	unsigned int pages;		/* of it: a block, or one */
};

/* Sleeps; -ENOMEM. */
int fusion_copy_begin(struct fusion_copy *copy, struct fusion_pool *pool);
void fusion_copy_end(struct fusion_copy *copy);

/*
 * Copy the pages in @mask of the first of the @count replicas @from that can be read to the same
 * pages of as many replicas @to; NULL: of the others.  Of pages that have an error each is read
 * where it can be.  Sleeps; 0 or -EIO.
 */
int fusion_copy_mask(struct fusion_copy *copy, const u64 *from, const u64 *to,
		     unsigned int count, u64 mask);

/* The same of @patches, to the pages of the block in the replicas @to; NULL: of the others. */
int fusion_copy_patches(struct fusion_copy *copy, const struct fusion_patches *patches,
			const u64 *to);

#endif /* DM_FUSION_COPY_H */
