/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Moves: blocks leave the places where they were found for slots of one stripe,
 * all in one epoch.  What conversion and compaction share.
 *
 * A block is found in one of two ways, and only that much of it moves:
 *
 *	its base is at @from	the base moves; a top over it stays
 *	its primary is at @from	the block moves, its top dies
 *
 * A move is optimistic.  When it is looked at, a block that has a top there is
 * marked (fusion_overlay.converting), and a write in place takes the mark away.
 * A base cannot be written in place: that it is still at @from is enough.  Holds
 * are tried, never waited for.
 *
 * The caller has a grace reference from before the first look until the end, so
 * no place that was seen is reused meanwhile.  Therefore it may not wait for
 * the commit mutex in between, nor for a block, whose holder may wait for that
 * mutex.
 */
#ifndef DM_FUSION_MOVE_H
#define DM_FUSION_MOVE_H

#include "io.h"
#include "stripe.h"

struct fusion_move_block {
	struct fusion_volume *volume;	/* a reference; NULL: no block here */
	u64 block;
	u64 from;
	u64 base;			/* below a top that is at @from; or 0 */
	u64 mask;			/* pages of that top; 0: base is at @from */
	u64 mirror[FUSION_MAX_PARITY];	/* of that top; 0: no more */
	u64 need;			/* pages that are to be read */
	struct fusion_read_source run;	/* of them, that are being read */
	bool unsynced;			/* of that top only the primary counts */
	bool gated;			/* we are in the gate of its stripe */
};

struct fusion_move {
	struct fusion_pool *pool;
	struct fusion_stripe *stripe;	/* memory, holds and updates */
	u64 to;				/* stripe */
	u64 live;			/* slots whose blocks move */
	u64 held;			/* slots whose blocks are held */
	u64 hot;			/* slots that somebody held or wrote to */
	u64 wait;			/* what an error is for: -EAGAIN a stripe, -ESTALE a volume */
	unsigned int given_up;		/* blocks left behind, as they were hot */
	u64 read_pages, written_pages;
	struct fusion_move_block slot[FUSION_MAX_MEMBERS];
};

/* Begin with nothing. */
void fusion_move_init(struct fusion_move *m, struct fusion_pool *pool);
/*
 * Slot @i is for the block with @key, if it is at @from.  @m->stripe is set.
 * False: its volume is gone.
 */
bool fusion_move_set(struct fusion_move *m, unsigned int i, u64 key, u64 from);
/* Forget slot @i. */
void fusion_move_clear(struct fusion_move *m, unsigned int i);
/*
 * Is slot @i's block at @from, as the map in core has it?  1, 0, or an error: it
 * is not known.  Sleeps.
 */
int fusion_move_there(struct fusion_move *m, unsigned int i);

/* Try to hold slot @i's block; false: it is hot. */
bool fusion_move_hold(struct fusion_move *m, unsigned int i);
/*
 * Hold the blocks of all slots, in their order, and wait for each, but not for long.  False:
 * some are held, not all.
 */
bool fusion_move_hold_wait(struct fusion_move *m);
void fusion_move_drop(struct fusion_move *m, u64 slots);

/*
 * Look at slot @i's block, which is held: if it is where it should be it is
 * live, and all of its pages are needed.  Sleeps.  Errors: of the map.
 */
int fusion_move_look(struct fusion_move *m, unsigned int i);

/*
 * Read what the slots need of their blocks into their buffers; what a member cannot read
 * is reconstructed.  Sleeps.  -EIO; -ENOMEM; -EAGAIN: not now, for that takes what is left
 * of stripe m->wait, which is written to in place, or is younger than the last commit.
 */
int fusion_move_read(struct fusion_move *m, u64 slots);
/* Write buffers whole; sleeps; the first error. */
int fusion_move_write(struct fusion_move *m, u64 slots);
/* One run of pages of slot @i to its place in the stripe. */
int fusion_move_write_pages(struct fusion_move *m, unsigned int i,
			    unsigned int first, unsigned int pages);

/*
 * Hold the blocks of all live slots, to see which of them can be switched: those
 * remain live.  What has left @from is not live any more; what was written, or
 * is held by somebody, is hot.
 */
void fusion_move_close(struct fusion_move *m);
/*
 * Switch all live slots' blocks, with @seal, which belongs to the epoch then.
 */
void fusion_move_switch(struct fusion_move *m, struct fusion_seal *seal);

/* Give back what the move has: holds, updates, volumes. */
void fusion_move_end(struct fusion_move *m);

#endif /* DM_FUSION_MOVE_H */
