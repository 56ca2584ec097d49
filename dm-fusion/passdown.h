/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Passing down: members are told which space is free, by discards.
 *
 * The unit is a template of a band, which is one range of sectors on every
 * member; neighbours go together.  A template goes down when a grace period has
 * made the last of its stripes free.  The commit that freed them is durable by
 * then and nobody reads them, so a discard takes nothing from anybody.  They
 * are kept from being drawn until it has returned, else it could take what was
 * written after it was sent.
 *
 * A discard that fails is not repeated, and the space is free all the same.
 * What is free at a start is not passed down: nothing is known about it.
 *
 * One range at a time is under way, on all members at once.  Commits, and
 * stripes of templates that are in use, do not wait for it.
 */
#ifndef DM_FUSION_PASSDOWN_H
#define DM_FUSION_PASSDOWN_H

#include "pool.h"

int fusion_passdown_init(struct fusion_pool *pool);
/* The pool does not serve and no grace period is under way. */
void fusion_passdown_exit(struct fusion_pool *pool);

/* Templates may have been emptied, or the pool serves again.  Any context. */
void fusion_passdown_kick(struct fusion_pool *pool);

/*
 * Wait until nothing is emptied any more, or the pool begins to stop.  Sleeps.
 */
void fusion_passdown_wait(struct fusion_pool *pool);

/* Member @i is out: its discard is not waited for.  Sleeps. */
void fusion_passdown_abandon(struct fusion_pool *pool, unsigned int i);

/* The pool is not active any more: those who wait go on. */
void fusion_passdown_let_go(struct fusion_pool *pool);

/*
 * The pool does not serve any more: wait for the range that is under way.  What
 * else is emptied stays so until the pool serves again.  Sleeps.
 */
void fusion_passdown_drain(struct fusion_pool *pool);

#endif /* DM_FUSION_PASSDOWN_H */
