/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Small writes to new places, and in place those of 16 KiB or more of all that a top has, as copies: in
 * memory of our own, and sent to all replicas as I/O of our own (private.h).  So
 *
 *  - a write can be answered before all of it has ended: if one of its members is unresponsive, it is
 *    sent again, to another place, in a second *attempt* (hedge.h).  The first that has written all
 *    its replicas is what is recorded;
 *  - what is on a member that has failed, and hangs, can be abandoned.
 *
 * It costs memory and a copy, but only of up to 64 KiB: for 4 KiB 2,800 instructions, of 32,000 that
 * the write takes with its share of a commit, for 64 KiB 11,700, of 50,300.  If there is no memory at
 * once, dm's clone is sent, as of larger writes, and of other writes in place.
 *
 * What can be lost: nothing refers to the place of an attempt that is not recorded, and nobody else is
 * given it, or anything else of its set, before all its replicas have ended.  A power cut finds there
 * what it finds where a write was not answered (write.c).
 *
 * A write in place has a new top for its second attempt, as if its block were written for the first
 * time: for that it holds the block alone.  If that is the first to be written, the old top is dead, and
 * the write to it still under way.  No parity covers a slot that is dead (convert.h), and until that
 * write has ended a grace reference keeps the slot from being used again: so it harms nothing.
 */
#ifndef DM_FUSION_BOUNCE_H
#define DM_FUSION_BOUNCE_H

#include "io.h"
#include "private.h"

/* Pages of a write; more are not worth the copy. */
#define FUSION_BOUNCE_PAGES	16
/* Of one in place; fewer are not worth it: 4 KiB in place are 15,500 instructions without a copy. */
#define FUSION_BOUNCE_IN_PLACE	4

struct fusion_attempt {
	struct fusion_bounce *bounce;
	struct fusion_set *set;		/* to be given back; NULL: by @io */
	union {				/* of the second: where it is */
		struct fusion_top top;
		struct fusion_patch patch;
	};
	blk_status_t status;		/* an error of one of its replicas */
	bool done;			/* all are written */
	atomic_t pending;		/* replicas, and who sends them */
};

struct fusion_bounce {
	struct fusion_pool *pool;
	struct fusion_class *class;
	struct fusion_io *io;		/* NULL: it has been answered, or the hedger has it */
	struct page *data;
	u64 key;			/* of the block */
	blk_opf_t opf;
	unsigned short ioprio;
	u8 page;			/* of its block, the first */
	u8 pages;
	bool patched;			/* its place is a patch's */
	bool in_place;			/* the first attempt is: the second, if any, is a new top */
	bool seen;			/* collected before; the hedger's */
	bool again;			/* there was a second attempt */
	blk_status_t status;		/* of an attempt that failed */
	atomic_t refs;			/* attempts that have not ended, and the hedger */
	struct list_head list;		/* the hedger's */
	struct fusion_attempt attempt[2];
	/* of a second attempt of one in place */
	struct fusion_update update;	/* who has @io may use it; chunk NULL: there is none */
	unsigned int grace;
};

/*
 * Send a copy of @io's write to @place, which it has drawn, or if it has no set is in place, from @page
 * of these on.  False: it is too large, or there is no memory.  True: fusion_write_done() goes on with
 * @io, or has done so.  Any context.
 */
bool fusion_bounce_send(struct fusion_io *io, const u64 *place, unsigned int page);

/*
 * Add those that are under way on @m to @bounces, with a reference each, if they have not been seen.
 * The hedger's alone.
 */
void fusion_bounce_collect(struct fusion_member *m, struct list_head *bounces);

/*
 * Make a second attempt of @bounce, in a place where all members respond; for each once.  -EAGAIN: it
 * cannot be afforded now, or no set that is open has a place.  Other errors: there is no memory, the place
 * was no better, or it is answered.  The hedger's alone.
 */
int fusion_bounce_again(struct fusion_bounce *bounce);

/* Any context. */
void fusion_bounce_put(struct fusion_bounce *bounce);

#endif /* DM_FUSION_BOUNCE_H */
