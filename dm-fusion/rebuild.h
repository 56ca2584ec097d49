/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rebuild: what was on members that are out goes to the areas of spares that serve them
 * (spare.h), and what is at home on members that are returning goes there (return.h).
 *
 * Of each RAID stripe with a slot that is nowhere, and an address for it in an area, or that
 * is to be at home again, the slot is computed from the rest, or read from the area if it is
 * there, and written.  A slot that nothing was written to is moved without I/O, and so is one
 * in the area that is at home, too.  What is in sets is converted first: at once for who asks for the rebuild
 * and waits; what begins by itself lets that have its time, and looks again.
 *
 * Several are worked on at once (rebuild-batch.h).  Meanwhile we are in their gates, beside
 * others, so that nobody writes to them in place, and have a grace reference until the slot
 * is written.  The change is one of the epoch, whose commit flushes the slot first; we leave
 * the gates after it.  A power cut before it leaves the slot nowhere, as it was, and what has
 * been written to the area is not looked at.  If the stripe dies before the commit the change
 * does nothing.
 *
 * While there is load no more is read and written than rebuild_kib says, and always no more
 * than rate_kib: one stripe after the other then, and the rest of the time is waited for behind
 * a commit, in no gate.
 *
 * When nothing is nowhere that has a place, and nothing in a set at all, the members are
 * marked as rebuilt, by a commit: but for what has none (spare.h) as many more may fail as if
 * they had not.  A stripe that is in use in core, and neither held nor stored, is of no use
 * any more: who makes it live does so before it is let go of, and it is stored with the next
 * commit.
 */
#ifndef DM_FUSION_REBUILD_H
#define DM_FUSION_REBUILD_H

#include "pool.h"

void fusion_rebuild_init(struct fusion_pool *pool);

/*
 * It begins by itself where there is something to rebuild, unless the background is paused,
 * and goes on where it was interrupted: look whether that is so now.  Any context.
 */
void fusion_rebuild_kick(struct fusion_pool *pool);
/* The same, in a moment: after a start others come first, or pause it. */
void fusion_rebuild_start(struct fusion_pool *pool);
/* End it, also for those who have asked for it.  Sleeps. */
void fusion_rebuild_stop(struct fusion_pool *pool);

/*
 * Rebuild all that can be, and wait.  0: it is all there; -EINTR; -EIO: something cannot
 * be computed; -EBUSY: something is being written to, again and again; -ENOSPC: there is
 * no area for a member, or an address in one is on another member that is out; all
 * else is there.
 */
int fusion_rebuild_all(struct fusion_pool *pool);

#endif /* DM_FUSION_REBUILD_H */
