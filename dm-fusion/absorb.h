/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Absorbing: the patches of a block become a top, or its top moves, with what is being written.
 */
#ifndef DM_FUSION_ABSORB_H
#define DM_FUSION_ABSORB_H

#include "io.h"

/*
 * The patches of @io's block, which it holds exclusively, or the top, if a replica of it is nowhere
 * that need not be (spare.h), and if it can, become a top with the same pages and those of @io, all of
 * which are written.  fusion_write_done() goes on with @io.  Sleeps.
 * -EAGAIN: there is no such thing any more; -EDQUOT: the replicated area is at its limit; -ENOSPC:
 * there is no space now; or an error of I/O or of the map.
 */
int fusion_absorb(struct fusion_io *io);

#endif /* DM_FUSION_ABSORB_H */
