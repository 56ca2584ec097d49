/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Absorbing: the patches of a block become a top, or its top moves.
 */
#ifndef DM_FUSION_ABSORB_H
#define DM_FUSION_ABSORB_H

#include "pool.h"

/*
 * The patches of @block, which is held exclusively, or the top, if a replica of it is nowhere
 * that need not be (spare.h), and if it can, become a top with the same pages.  Sleeps.
 * -EDQUOT: the replicated area is at its limit; -ENOSPC: there is no space now; or an error
 * of I/O or of the map.
 */
int fusion_absorb(struct fusion_volume *volume, u64 block);

#endif /* DM_FUSION_ABSORB_H */
