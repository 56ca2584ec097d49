/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batches of destage: patched pages that are merged together, and the rows of stripes
 * that they are in.
 *
 * A page is in a batch from when it is frozen until it is thawed: writes to it take
 * fresh places.  It may leave the map at any time; then its row is dropped.  A stripe is
 * held, and we are alone in its gate (gate.h).  All this is tried, never waited for: who
 * is in the way keeps a page for another time.
 *
 * A batch is its maker's alone.  Everything sleeps, but where it is said.
 */
#ifndef DM_FUSION_BATCH_H
#define DM_FUSION_BATCH_H

#include "parity.h"
#include "patch-set.h"

#define FUSION_BATCH_SETS	32
#define FUSION_BATCH_BLOCKS	1024
#define FUSION_BATCH_ROWS	1024

/* A block of which pages are merged. */
struct fusion_batch_block {
	struct fusion_volume *volume;	/* a reference */
	u64 block;
	u64 base;			/* its place in the stripe */
	u64 pages;			/* that are merged */
	struct fusion_patch_list *list;	/* as it was frozen; a reference */
	struct fusion_update update;	/* pins the chunk, and so the mark */
};

/* A row that is written. */
struct fusion_batch_row {
	u64 stripe;
	unsigned int page;
	struct fusion_row_change *begin, *end;	/* until the epoch has them */
	struct fusion_set *set[FUSION_MAX_PARITY]; /* that the parity is written to */
	bool dropped;			/* a page was overwritten, or parity has no place */
	struct fusion_parity_row row;
};

/* A stripe of which rows are: in its gate, and held. */
struct fusion_batch_stripe {
	u64 stripe;
	u64 written;
};

struct fusion_batch {
	struct fusion_pool *pool;
	struct fusion_class *class;
	unsigned int sets, blocks, rows, stripes;
	unsigned int frozen;		/* pages */
	unsigned int max_blocks, max_rows, max_frozen;
	struct fusion_selection selection;
	bool crossed;			/* other batches are in the way */
	bool dropped;			/* some row is */
	u64 pages;			/* read and written */
	struct fusion_set *set[FUSION_BATCH_SETS];
	struct fusion_batch_block block[FUSION_BATCH_BLOCKS];
	struct fusion_batch_stripe stripe[FUSION_BATCH_BLOCKS];
	struct fusion_batch_row row[FUSION_BATCH_ROWS];
};

/*
 * Freeze what there is in the oldest sets for patches up to @number, of one class, and
 * take these.  -ENOENT: there is no set that nobody has taken; -EAGAIN: nothing of the
 * oldest ones can be merged now; -EBUSY: other batches are in the way; -ENOMEM; errors
 * of the map, and of the metadata.
 */
struct fusion_batch *fusion_batch_make(struct fusion_pool *pool, u64 number);

/*
 * Drop the rows of which a page has left the map since it was frozen.  With a grace
 * reference: what has not left yet is not reused before that ends.  While a shard of the
 * epoch is locked: it leaves in this epoch, or later, so that a record is a reference
 * before that one goes.  Any context.
 */
void fusion_batch_drop(struct fusion_batch *b);
/* What of the blocks was in rows that were dropped is not merged. */
void fusion_batch_settle(struct fusion_batch *b);

/*
 * What @d has frozen of its block, which is held, is not any more.  Others may have frozen
 * patches that came after ours.
 */
void fusion_batch_thaw(struct fusion_batch *b, struct fusion_batch_block *d);

/* Nothing has been recorded: everything is as before. */
void fusion_batch_give_up(struct fusion_batch *b);
/* All has been merged: nothing of the batch concerns its stripes any more. */
void fusion_batch_leave(struct fusion_batch *b);

/* Free it.  @again: its sets are as old as they were; else they are the youngest. */
void fusion_batch_end(struct fusion_batch *b, bool again);

#endif /* DM_FUSION_BATCH_H */
