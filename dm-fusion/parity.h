/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The new parity of a row of pages of which some change: what is read for it, and how
 * it is computed.  For RAID-5 by xor_blocks(), for RAID-6 by raid6_call, as all
 * parity; both are sums, so that what changes in the data changes them likewise.
 */
#ifndef DM_FUSION_PARITY_H
#define DM_FUSION_PARITY_H

#include "pages.h"
#include "selection.h"

struct fusion_parity_row {
	u64 written;			/* slots that parity covers */
	bool rmw;			/* chosen by fusion_parity_read() */
	void *new[FUSION_MAX_MEMBERS];	/* pages by slot: what changes, and parity */
	void *old[FUSION_MAX_MEMBERS];	/* what is read for it */
};

/*
 * Pages of memory for each that changes of rows of @class, at most: what is read is no
 * more than rmw reads, unless rcw is forced.
 */
static inline unsigned int fusion_parity_pages(const struct fusion_class *class,
					       enum fusion_select mode)
{
	return mode == FUSION_SELECT_RCW ? class->k : 2 * (class->p + 1);
}

/*
 * Choose, and read what is needed: of the pages that change, what is in their patches,
 * which is to be written; and of the stripe's pages.
 */
void fusion_parity_read(struct fusion_pages *io, struct fusion_parity_row *p,
			const struct fusion_class *class,
			const struct fusion_row *row,
			const struct fusion_selection *selection);

/*
 * What the parity is computed from as @p->rmw says, that is not there yet, and memory for
 * it.
 */
void fusion_parity_read_old(struct fusion_pages *io, struct fusion_parity_row *p,
			    const struct fusion_class *class,
			    const struct fusion_row *row);

/*
 * Some of it could not be read: read what changes from other replicas, and what the parity
 * is computed from the other way, or compute it from the rest of the row.  -EIO: that cannot
 * be, either; -ENOMEM.
 */
int fusion_parity_reread(struct fusion_pool *pool, struct fusion_parity_row *p,
			 const struct fusion_class *class,
			 const struct fusion_row *row);

/*
 * What changes is in @p->new, and those of the parities that could be read.  Compute the others
 * from that, and from what does not change: of which may be lost what these parities say.
 * -EIO: more is; -ENOMEM.
 */
int fusion_parity_redo(struct fusion_pool *pool, struct fusion_parity_row *p,
		       const struct fusion_class *class, const struct fusion_row *row);

/* Read the first that can be of the replicas of @patch in @copies, to *@data.  -EIO. */
int fusion_parity_read_patch(struct fusion_pool *pool, const struct fusion_patch *patch,
			     unsigned int copies, void **data);

/* Compute the new parity, when all is read.  Uses the FPU: in a worker. */
void fusion_parity_compute(struct fusion_parity_row *p,
			   const struct fusion_class *class, u64 changed);

/* Write what changes, and the parity, to their places in the stripe. */
void fusion_parity_write(struct fusion_pages *io,
			 const struct fusion_parity_row *p,
			 const struct fusion_class *class,
			 const struct fusion_row *row);

void fusion_parity_free(struct fusion_parity_row *p);

#endif /* DM_FUSION_PARITY_H */
