/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One stripe that is rebuilt.  See rebuild.h.
 */
#ifndef DM_FUSION_REBUILD_STRIPE_H
#define DM_FUSION_REBUILD_STRIPE_H

#include "pool.h"

/*
 * Compute what is nowhere of stripe @id, in whose gate we are, in memory of @sp, which is of
 * its class, and write it where @areas have it; *@kib: so much was read and written.  Sleeps.
 * 0: it is there, and may be recorded; -ENODATA: the stripe is not in use; -EBUSY: it is in a
 * set, or has died meanwhile; -EIO: too much else cannot be read; -ENOMEM.
 */
int fusion_rebuild_stripe(struct fusion_stripe_pool *sp, u64 id, u8 areas, u64 *kib);

#endif /* DM_FUSION_REBUILD_STRIPE_H */
