/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stripe in memory: a buffer for each of its slots, parity over them, and
 * their I/O, many slots at once.
 *
 * It also has what a change of the blocks in its data slots needs: a hold and
 * an update for each, which are the owner's to take and to give back.
 *
 * Stripes come from pools, one for each class and purpose, that always have
 * some: who gets one with everything it will need can always finish.
 */
#ifndef DM_FUSION_STRIPE_H
#define DM_FUSION_STRIPE_H

#include <linux/completion.h>
#include <linux/mempool.h>

#include "pool.h"

struct fusion_slot {
	void *data;			/* block_sectors long */
	struct fusion_hold hold;	/* of the block */
	struct fusion_update update;
	struct fusion_stripe *stripe;
	/* of its last I/O */
	struct fusion_member *member;
	blk_status_t status;
	bool lost;			/* a read was abandoned: @data is not ours any more */
};

struct fusion_stripe {
	struct list_head list;		/* while it is kept */
	struct fusion_pool *pool;
	struct fusion_class *class;
	blk_status_t status;		/* the first error of its I/O */
	atomic_t pending;
	void (*done)(struct fusion_stripe *stripe);
	struct completion waited;
	struct fusion_slot slot[];	/* k, data first */
};

/*
 * Make the pool @sp of stripes of @class, each with @front bytes before it for
 * its owner; nothing if it is made already.  Sleeps.
 */
int fusion_stripe_pool_init(struct fusion_stripe_pool *sp,
			    struct fusion_pool *pool,
			    struct fusion_class *class, size_t front);
void fusion_stripe_pool_exit(struct fusion_stripe_pool *sp);

/*
 * The pool of background work on stripes of @class, made when it is first
 * wanted.  Sleeps; NULL: no memory.
 */
struct fusion_stripe_pool *
fusion_stripe_background(struct fusion_pool *pool, struct fusion_class *class);
void fusion_stripe_background_exit(struct fusion_pool *pool);

/* Get one; sleeps until there is. */
struct fusion_stripe *fusion_stripe_get(struct fusion_stripe_pool *sp);
/* As above, without waiting for others' to be given back; NULL: no memory. */
struct fusion_stripe *fusion_stripe_try(struct fusion_stripe_pool *sp);
/* Give it back.  Any context. */
void fusion_stripe_put(struct fusion_stripe_pool *sp,
		       struct fusion_stripe *stripe);

/*
 * Compute the parity of the data slots in @written, of which there is one; the
 * others count as zeros.  Uses the FPU: in a worker.
 */
void fusion_stripe_parity(struct fusion_stripe *stripe, u64 written);
/* Does it fit them?  Afterwards it is spoilt. */
bool fusion_stripe_fits(struct fusion_stripe *stripe, u64 written);

/*
 * Compute @pages pages, from @first on, of the data slots in @lost, one or two, from those
 * in @sources (fusion_recover_sources()); what parity does not cover counts as zeros.  Uses
 * the FPU: in a worker.
 */
void fusion_stripe_recover(struct fusion_stripe *stripe, u64 lost, u64 sources,
			   unsigned int first, unsigned int pages);

/* The same for a page of each slot, zeros included; of the parities any may be spoilt. */
void fusion_page_recover(const struct fusion_class *class, void **ptrs, u64 lost,
			 u64 sources);

/*
 * I/O: begin, submit for any slots, one I/O each, and end.  When all are done,
 * and not before the end, @done is called, in any context; with @done NULL,
 * fusion_stripe_end() waits and returns 0 or -EIO.  Who reads waits.
 */
void fusion_stripe_begin(struct fusion_stripe *stripe,
			 void (*done)(struct fusion_stripe *stripe));
/* Slot @i's buffer, from page @first on, to or from @place. */
void fusion_stripe_submit(struct fusion_stripe *stripe, unsigned int i,
			  u64 place, unsigned int first, unsigned int pages,
			  blk_opf_t opf);
/* The same to or from @sector of member @m, which is that of the first page. */
void fusion_stripe_submit_to(struct fusion_stripe *stripe, unsigned int i,
			     struct fusion_member *m, sector_t sector, unsigned int first,
			     unsigned int pages, blk_opf_t opf);
int fusion_stripe_end(struct fusion_stripe *stripe);

/*
 * Call @fn with @arg and each stripe that has I/O under way on @m, and whose @done is that: before that
 * is called, and with interrupts off.
 */
void fusion_stripe_walk(struct fusion_member *m, void (*done)(struct fusion_stripe *stripe),
			void (*fn)(struct fusion_stripe *stripe, void *arg), void *arg);

#endif /* DM_FUSION_STRIPE_H */
