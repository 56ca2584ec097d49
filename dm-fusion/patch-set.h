/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets for patches: like those for tops, but drawn page by page.
 *
 * Neighbouring pages of one block are drawn together, one behind the other in one
 * slot; the next draw takes another slot, so that patches spread over the members.
 * Few sets are open at a time, as all of them together are few.  A set is closed
 * when its last page is drawn, or when none has room for what is to be drawn: then
 * the fullest.  What is drawn and given up is not drawn again.
 *
 * What they take, open or not, is the patch area.  When it is at its limit no more
 * are opened.
 *
 * The parity of rows that are being merged (destage.h) is in sets of its own: all in
 * them dies with the batch, which is what makes the area smaller.  So they are no part
 * of it, and may be drawn from the reserve.
 */
#ifndef DM_FUSION_PATCH_SET_H
#define DM_FUSION_PATCH_SET_H

#include "set.h"

/*
 * Draw places for @pages neighbouring pages of the block with @key, at most
 * FUSION_MAX_PATCHES: the first into @patch, the others are behind it.  The set is
 * held until fusion_set_put().  NULL: call fusion_patch_refill() and try again.  Any
 * context.
 */
struct fusion_set *fusion_patch_draw(struct fusion_space *s,
				     struct fusion_class *class, u64 key,
				     unsigned int pages, bool parity,
				     struct fusion_patch *patch);

/*
 * Get what a draw needs, as fusion_set_refill() does.  -EDQUOT: not before the area is
 * smaller.  Sleeps.
 */
int fusion_patch_refill(struct fusion_space *s, struct fusion_class *class,
			bool parity, struct mutex *commit_lock);

/* fusion_sets_close_idle() of all that @class has open for patches, and for parity. */
bool fusion_patches_close_idle(struct fusion_space *s, struct fusion_class *class);

/* Which of the owners of a set is that of @page of @slot? */
static inline unsigned int fusion_patch_unit(const struct fusion_set *set,
					     unsigned int slot, unsigned int page)
{
	return slot * (set->units / set->class->d) + page;
}

#endif /* DM_FUSION_PATCH_SET_H */
