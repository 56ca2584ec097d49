/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Small writes to new places, and in place those of 8 KiB or more, as copies: in memory of our own, and
 * sent to all replicas as I/O of our own (private.h).  So
 *
 *  - a write can be answered before all of it has ended: if one of its members is unresponsive, it is
 *    sent again, to another place, in a second *attempt* (hedge.h).  The first that has written all
 *    its replicas is what is recorded;
 *  - what is on a member that has failed, and hangs, can be abandoned.
 *
 * It costs memory and a copy, but only of up to 64 KiB: for 4 KiB 2,800 instructions, of 32,000 that
 * the write takes with its share of a commit, for 64 KiB 11,700, of 50,300.  If there is no memory at
 * once, dm's clone is sent, as of larger writes, and of 4 KiB in place.
 *
 * What can be lost: nothing refers to the place of an attempt that is not recorded, and nobody else is
 * given it, or anything else of its set, before all its replicas have ended.  A power cut finds there
 * what it finds where a write was not answered (write.c).
 *
 * A write in place has a new top for its second attempt, or new patches, as if they had not been there:
 * for that it holds the block alone.  What else the old top has is read from a replica of it, and goes
 * with it: as nobody but the write changes the old top, that is what it has.  If the second attempt is
 * the first to be written, the old place is dead, and the write to it still under way.  No parity
 * covers a slot that is dead (convert.h), and until that write has ended a grace reference keeps the
 * place from being used again: so it harms nothing.
 */
#ifndef DM_FUSION_BOUNCE_H
#define DM_FUSION_BOUNCE_H

#include "io.h"
#include "private.h"

/* Pages of a write; more are not worth the copy. */
#define FUSION_BOUNCE_PAGES	16
/*
 * Of one in place; fewer are not worth it, unless a member is unresponsive already: 4 KiB in place are
 * 15,500 instructions without a copy.
 */
#define FUSION_BOUNCE_IN_PLACE	2

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
	bool in_place;			/* the first attempt is: the second, if any, is not */
	bool seen;			/* collected before; the hedger's */
	bool again;			/* there was a second attempt */
	blk_status_t status;		/* of an attempt that failed */
	atomic_t refs;			/* attempts that have not ended, and the hedger */
	struct list_head list;		/* the hedger's */
	struct fusion_attempt attempt[2];
	/* of a second attempt of one in place */
	struct fusion_update update;	/* who has @io may use it; chunk NULL: there is none */
	unsigned int grace;
	u64 mask;			/* pages of the new top, if it is one, */
	u64 old[FUSION_MAX_REPLICAS];	/* and where the old one is */
	struct page *data_again;	/* what it writes, since it has been sent */
};

/* I/O of an attempt, to each replica. */
struct fusion_attempt_io {
	struct fusion_private *replica[FUSION_MAX_REPLICAS];
	struct fusion_member *member[FUSION_MAX_REPLICAS];
};

/*
 * Send a copy of @io's write to @place, which it has drawn, or if it has no set is in place, from @page
 * of these on.  False: it is too large, or there is no memory.  True: fusion_write_done() goes on with
 * @io, or has done so.  Any context.
 */
bool fusion_bounce_send(struct fusion_io *io, const u64 *place, unsigned int page);

/* Any context. */
void fusion_bounce_put(struct fusion_bounce *bounce);

/* ---- attempts: bounce-again.c has the second; any context ---- */

/* I/O for all replicas, of @pages pages of @data.  False: there is no memory. */
bool fusion_attempt_get(struct fusion_attempt *a, struct fusion_bounce *bounce, struct page *data,
			unsigned int pages, struct fusion_attempt_io *io);
/* It is not sent after all. */
void fusion_attempt_drop(struct fusion_attempt *a, struct fusion_attempt_io *io);
/* Aim it at @place, from @page of these on. */
void fusion_attempt_aim(struct fusion_attempt *a, struct fusion_attempt_io *io, const u64 *place,
			unsigned int page);
/* Drops the attempt's reference when it has ended: @a may be gone then. */
void fusion_attempt_send(struct fusion_attempt *a, struct fusion_attempt_io *io);
/* One of its replicas has ended, or is abandoned, which is as good as written (hang.h). */
void fusion_attempt_end(void *attempt, blk_status_t status, bool abandoned);
/* Its replicas are written: if it is the first, @io has its place, and is answered. */
void fusion_attempt_answer(struct fusion_attempt *a);

/* ---- bounce-again.c, for the hedger alone ---- */

/*
 * Add those that are under way on @m to @bounces, with a reference each, if they have not been seen.
 */
void fusion_bounce_collect(struct fusion_member *m, struct list_head *bounces);

/*
 * Make a second attempt of @bounce, in a place where no member is stuck; for each once.  -EAGAIN: it
 * cannot be afforded now, or no set that is open has a place.  Other errors: there is no memory, the place
 * was no better, or it is answered.
 */
int fusion_bounce_again(struct fusion_bounce *bounce);

#endif /* DM_FUSION_BOUNCE_H */
