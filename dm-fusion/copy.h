/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies of a few pages, one after the other, by who holds their block.
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
 * Copy @pages pages from page @first of the first of the @count replicas @from that can
 * be read to page @at of as many replicas @to; if these are the same, to the others.
 * Sleeps; 0 or -EIO.
 */
int fusion_copy_pages(struct fusion_copy *copy, const u64 *from, unsigned int first,
		      const u64 *to, unsigned int at, unsigned int count,
		      unsigned int pages);

/* The same of the pages in @mask, each to the same page. */
int fusion_copy_mask(struct fusion_copy *copy, const u64 *from, const u64 *to,
		     unsigned int count, u64 mask);

#endif /* DM_FUSION_COPY_H */
