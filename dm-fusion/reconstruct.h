/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reconstruction: what is at a place that cannot be read, from elsewhere.
 *
 * Every page is elsewhere, too, as long as no more members fail it than its class has
 * parities: in other replicas, or in its stripe, of which the rest says what it is, while
 * nobody writes to that in place: who is in its gate beside others keeps destage out
 * (gate.h).  Which slots parity covers is what the last commit says.
 *
 * What is computed is written to where it could not be read from.  What can be lost by
 * that: nothing.  It is what is there, or is to be, and stays so as long as the caller
 * is in the gate and has a grace reference.  Replicas are not written here: that takes a
 * hold of their block.
 *
 * Everything sleeps, for I/O; the caller has a grace reference.
 */
#ifndef DM_FUSION_RECONSTRUCT_H
#define DM_FUSION_RECONSTRUCT_H

#include "io.h"
#include "stripe.h"

struct fusion_reconstruct {
	struct fusion_stripe *stripe;	/* memory */
	struct fusion_read_source src;
	bool unsynced;			/* replicas may differ: the first that can be read counts */
	unsigned int slot;		/* of the memory, that the pages are in */
};

/*
 * Where the first of @pages pages from @page of @block on are now, as fusion_read_find() says;
 * with a grace reference, @grace.  Sleeps; -EIO: the map cannot be read, and there is none.
 */
int fusion_reconstruct_look(struct fusion_reconstruct *r, struct fusion_volume *volume,
			    u64 block, unsigned int page, unsigned int pages,
			    unsigned int *grace);

/* How many replicas there are of what is at the source, and where. */
unsigned int fusion_replicas(const struct fusion_reconstruct *r);
u64 fusion_replica(const struct fusion_reconstruct *r, unsigned int i);

/* Replica @i, to or from the memory of slot @slot.  False: it failed. */
bool fusion_replica_io(struct fusion_reconstruct *r, unsigned int slot, unsigned int i,
		       blk_opf_t opf);

/*
 * A grace reference to RAID stripe @id, with the memory of @stripe: only then, as who has
 * memory may be waiting for a commit.  The slots that parity covers.  -ENODATA: it is not
 * stored, or of another class; -EBUSY: it is one of a set; -EIO.
 */
int fusion_raid_enter(struct fusion_stripe *stripe, u64 id, u64 *written,
		      unsigned int *grace);

/* Those of @slots of stripe @id that are on members that are not out. */
u64 fusion_slots_in(struct fusion_pool *pool, u64 id, u64 slots);

/* The source's pages of each of @slots of @id, to or from their memory; those that failed. */
u64 fusion_slots_io(struct fusion_reconstruct *r, u64 id, u64 slots, blk_opf_t opf);

/* Read the first replica that can be, of those that count.  Its number; -EIO: none. */
int fusion_replica_read(struct fusion_reconstruct *r);

/*
 * Compute it from the rest of its stripe, whose gate we are in.  -ENODATA: the last commit
 * does not know it yet, or, as it has died, any more; -EIO.
 */
int fusion_reconstruct_stripe(struct fusion_reconstruct *r);

/*
 * The same, but nothing is written, and no member that is unresponsive is read, which the former
 * does if it must; nor, if it can be, one that is silent.  -EAGAIN: it cannot be computed from the others.
 */
int fusion_reconstruct_around(struct fusion_reconstruct *r);

/* To the pages of @bio from @iter on, which goes on behind them; @data NULL: zeros. */
void fusion_reconstruct_copy(struct bio *bio, struct bvec_iter *iter, const void *data,
			     unsigned int bytes);

/* The source's pages at @place could not be read.  @repaired: they have been written. */
void fusion_reconstruct_count(struct fusion_reconstruct *r, u64 place, bool repaired);

/*
 * All of that, into the pages of @data, a block, where they are in theirs.  Waits for
 * nothing but I/O, so that the caller may have what it likes.  -EAGAIN: after a commit, for
 * the stripe is written to in place, or is younger than the last one; -EIO; -ENOMEM.
 */
int fusion_reconstruct(struct fusion_stripe_pool *sp,
		       const struct fusion_read_source *src, void *data);

#endif /* DM_FUSION_RECONSTRUCT_H */
