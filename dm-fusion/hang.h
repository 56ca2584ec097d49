/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members that hang: they neither do what they are sent nor fail it.
 *
 * A watch looks at each member eight times in the tunable hang_ms.  What is pending is
 * counted by turn (member.h): as the turn changes only when nothing is left of the one
 * before, something that is left eight looks after it changed is that old at least.  So one
 * I/O that never ends is found among any number that do, after hang_ms and an eighth, or if
 * other I/O is slow twice that.  Time in which the watch does not run, as the machine is
 * suspended, is not counted.
 *
 * A member that hangs has failed, as if it had answered with errors (failure.h), if the pool
 * can do without it.  If not it is waited for, as ever, and told of once.
 *
 * The failure must be recorded though something waits for that member:
 *
 *  - A commit that waits for its flush, or its record, gives that up itself (flush.h), also if
 *    the device does not even take it (private.h).
 *  - Who waits with the commit mutex for a grace period lets it go (failure.h).
 *  - The metadata device is waited for.  If it is on that member, dm-raid is what waits.
 *
 * When it is recorded, and nothing is sent to the member any more,
 *
 *  - I/O of our own memory is abandoned (private.h): large writes, and small ones that went out
 *    as copies (bounce.h), are answered, the background goes on with what else there is, as
 *    after any failure;
 *  - reads of users stay under way, as the member may still write to their pages.  But they
 *    do not keep their places: their grace references are put for them.  When one ends at
 *    last, what it has read is not used: it is read from elsewhere (recover.c);
 *  - other writes of users to replicas stay under way, too, as the member may still read their
 *    pages, which are the user's to change when he is answered.  They keep their holds: who
 *    writes to the same pages waits, and so does a discard or a large write of the block, and
 *    who is to merge, compare or resync it.  Who is to convert or move it does not wait for
 *    long, but comes back to it (move.c, compact.c), and a request for that leaves it;
 *  - the discards that are passed down are not waited for.
 *
 * What can be lost: nothing.  Who was answered for a write that the member had not done was
 * answered after the failure was recorded, and so as for any write to a member that has
 * failed.  What the member still does with what was sent to it, whenever and in whatever
 * order, changes what is on it, and nobody reads that now or after any start.  So stripes may
 * be used again, too, while such writes are out.  A record that is late says what was so
 * before, and others have newer ones (record.h).  What a late read writes to is not anybody
 * else's: the reader has not been answered, and pages of our own are kept for it.
 *
 * The end of the pool waits until all that was ever sent to the members has ended, for these
 * devices are not ours any more then; a device that never answers keeps the pool as it keeps
 * md's.  Its driver ends what is under way when the device is reset or taken away.
 * A member is not used again (return.h) before that.
 */
#ifndef DM_FUSION_HANG_H
#define DM_FUSION_HANG_H

#include "pool.h"

void fusion_hang_init(struct fusion_pool *pool);

/* Before anything is sent to the members.  Sleeps. */
void fusion_hang_start(struct fusion_pool *pool);
/* Nothing is sent any more: wait until all has ended. */
void fusion_hang_stop(struct fusion_pool *pool);
/* hang_ms has changed. */
void fusion_hang_kick(struct fusion_pool *pool);

/* The pool is not active any more: who waits for a member that is to be used again goes on. */
void fusion_hang_let_go(struct fusion_pool *pool);

/* The members that hang. */
u64 fusion_hung(struct fusion_pool *pool);
/* @m hangs, and is waited for: say so, once. */
void fusion_hang_tell(struct fusion_pool *pool, struct fusion_member *m);

/* @m is out: what is under way on it is not waited for.  Under the commit mutex. */
void fusion_hang_give_up(struct fusion_pool *pool, struct fusion_member *m);
/*
 * Has all ended that was sent to @m, which is out?  Then, under the commit mutex, it may be used
 * again.  Sleeps: for a second, or until hang_ms after it has failed, for what took as long as
 * that hung, and what has not may end.  Not longer than the pool is active.
 */
bool fusion_hang_over(struct fusion_pool *pool, struct fusion_member *m);
/* Is something left on members that are out?  It may keep blocks for ever.  Any context. */
bool fusion_hang_left(struct fusion_pool *pool);
/*
 * Member @i is out, and is, or is not any more, sent what is to be known, or recorded, to use it
 * again.  That it hung before does not count.  Sleeps.
 */
void fusion_hang_returns(struct fusion_pool *pool, unsigned int i, bool returns);
void fusion_hang_forget(struct fusion_member *m);
/* What was started with @ticket, and not waited for, has ended.  Any context. */
void fusion_hang_late(struct fusion_pool *pool, struct fusion_member *m,
		      const struct fusion_ticket *ticket);

#endif /* DM_FUSION_HANG_H */
