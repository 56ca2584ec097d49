/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One stripe that is rebuilt.  See rebuild.h.
 */
#ifndef DM_FUSION_REBUILD_STRIPE_H
#define DM_FUSION_REBUILD_STRIPE_H

#include "pool.h"

/*
 * Have those slots of a stripe, in whose gate we are, in their areas or at home that @spared
 * says, in memory of @sp, which is of its class, by I/O of @piece pages, of which a block has a
 * multiple; *@kib: so much was read and written.  Sleeps.
 * 0: they are there, with the epoch, whose @spared is; -ENODATA: the stripe is not in use;
 * -EBUSY: it is in a set, or has died meanwhile; -EAGAIN: the members' states have changed; -EIO:
 * too much else cannot be read; -ENOMEM.
 */
int fusion_rebuild_stripe(struct fusion_stripe_pool *sp, struct fusion_spared *spared,
			  unsigned int piece, u64 *kib);

#endif /* DM_FUSION_REBUILD_STRIPE_H */
