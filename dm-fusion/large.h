/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A large write, inside: large.c makes it, large-again.c its second attempt.
 */
#ifndef DM_FUSION_LARGE_H
#define DM_FUSION_LARGE_H

#include "stripe.h"
#include "waiters.h"

struct fusion_large {
	struct fusion_volume *volume;	/* as long as nothing is recorded */
	struct list_head ios;		/* by waiter.list; in order of blocks */
	unsigned int blocks;		/* data slots in use */
	u64 block[FUSION_MAX_MEMBERS];	/* for each of them */
	blk_opf_t opf;
	unsigned int held;		/* holds taken */
	u64 id;				/* of the stripe that its first attempt goes to */
	struct work_struct work;
	struct fusion_waiter waiter;
	atomic_t refs;			/* attempts that have not ended, and the hedger */
	atomic_t recorded;		/* one of them is, and it is answered, or about to be */
	blk_status_t status;		/* if nothing is: of an attempt that failed */
	bool again;			/* there was a second attempt */
	bool seen;			/* collected before; the hedger's */
	struct list_head list;		/* the hedger's */
	struct fusion_stripe stripe;	/* last: has the slots */
};

static inline struct fusion_large *fusion_large_of(struct fusion_stripe *stripe)
{
	return container_of(stripe, struct fusion_large, stripe);
}

/* The first attempt's I/O has ended.  Of all stripes with I/O under way large writes have this. */
void fusion_large_done(struct fusion_stripe *stripe);

/*
 * All slots in use have been written to stripe @id, which was drawn for it, or @status says why not.
 * If it is the first, it is recorded, and the write answered; else the stripe is free.  Drops the
 * attempt's reference.  Any context.
 */
void fusion_large_attempt_end(struct fusion_large *large, u64 id, blk_status_t status);

/*
 * Drop a reference.  Who had the last gives back the memory, and answers if nothing is recorded.
 * Any context.
 */
void fusion_large_put(struct fusion_large *large);

/* ---- large-again.c, for the hedger alone ---- */

/* Add those that are under way on @m to @larges, with a reference each, if they have not been seen. */
void fusion_large_collect(struct fusion_member *m, struct list_head *larges);

/*
 * Make a second attempt of @large, to another stripe of which no member is stuck; for each once.
 * -EAGAIN: it cannot be afforded now, or there is no such stripe.  Other errors: there is no memory, or
 * space is short, or it is recorded.
 */
int fusion_large_again(struct fusion_large *large);

#endif /* DM_FUSION_LARGE_H */
