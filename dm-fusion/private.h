/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O from and to memory of our own: of stripes, of pages that are merged or copied, of
 * flushes and records.  It can be abandoned: its owner goes on as if it had ended, and the
 * device may still answer, or not.
 *
 * So what the device may still use outlives the owner: the bio is not the owner's, and of
 * its pages there are references of its own, until it comes back.  The owner frees its pages
 * as ever.  It may write to those of an abandoned write: what the device then writes is on a
 * member that nobody reads.  Those of an abandoned read may change at any time, and it uses
 * others instead.
 *
 * A member's abandoned I/O is pending until it has come back: the pool's stop waits for that
 * (hang.h).
 *
 * A device that hangs may take nothing any more, as all requests that its queue has are under
 * way: then who submits waits.  So who has a lock that a failure needs to be recorded sends what
 * does not wait (fusion_send()), and discards leave it to a worker for each (passdown.h).
 */
#ifndef DM_FUSION_PRIVATE_H
#define DM_FUSION_PRIVATE_H

#include "pool.h"

/*
 * It has ended with @status, or has been abandoned: a write then counts as done, a read as
 * failed; those of commits have failed.  Any context.
 */
typedef void (*fusion_private_end_fn)(void *owner, blk_status_t status, bool abandoned);

struct fusion_private {
	struct list_head list;		/* of the member's; under its private_lock */
	struct work_struct work;	/* of a commit's, and what of it is sent */
	struct bvec_iter iter;
	struct fusion_pool *pool;
	struct fusion_member *member;
	fusion_private_end_fn end;
	void *owner;
	bool commit;			/* of a commit: its submission, too, can be abandoned */
	bool abandoned;
	struct fusion_ticket ticket;
	struct bio bio;			/* last: the bio set's */
};

/*
 * Submit @bio, whose device may take nothing any more: then, and if the device cannot say so, @work
 * of send_wq is to submit it with fusion_send_waiting().
 */
void fusion_send_waiting(struct bio *bio);
void fusion_send(struct fusion_pool *pool, struct bio *bio, struct work_struct *work);
/*
 * @bio, which was sent, and began at @iter, has ended.  True: its device took nothing, and it is
 * sent again.  Any context.
 */
bool fusion_sent_back(struct fusion_pool *pool, struct bio *bio, const struct bvec_iter *iter,
		      struct work_struct *work);

int fusion_private_init(struct fusion_pool *pool);
/* None is under way. */
void fusion_private_exit(struct fusion_pool *pool);

/* One for a page or more in a row; sector and pages are the caller's to set.  Sleeps. */
struct fusion_private *fusion_private_get(struct fusion_pool *pool, blk_opf_t opf,
					  fusion_private_end_fn end, void *owner);

/* Memory of what has another way: nothing is waited for, no reserve used up, and nobody told. */
#define FUSION_TRY_GFP	(GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

/* The same at once, of what has another way.  NULL: there is no memory.  Any context. */
struct fusion_private *fusion_private_try(struct fusion_pool *pool, blk_opf_t opf,
					  fusion_private_end_fn end, void *owner);

/*
 * Submit it to @m; it is gone then.  A write that fails is put aside until it is known that
 * @m has failed (failure.h), unless it is a commit's, who sees to errors.  That is submitted
 * even if @m is out, and by a worker.
 */
void fusion_private_submit(struct fusion_private *io, struct fusion_member *m);

/*
 * Call @fn with @arg and each owner of I/O that is under way on @m and ends with @end: before that is
 * called, and with interrupts off.
 */
void fusion_private_walk(struct fusion_member *m, fusion_private_end_fn end,
			 void (*fn)(void *owner, void *arg), void *arg);

/* Abandon all that is under way on @m, which is out; or @commit: what is of commits. */
void fusion_private_abandon(struct fusion_member *m, bool commit);

#endif /* DM_FUSION_PRIVATE_H */
