// SPDX-License-Identifier: GPL-2.0-only
/*
 * Destage.  See destage.h.
 */
#include <linux/slab.h>

#include "batch.h"
#include "commit.h"
#include "destage.h"
#include "failure.h"
#include "mode.h"

#define DM_MSG_PREFIX "fusion"

/* Places that are looked at for the parity of a row. */
#define PLACE_TRIES	16

/* ---- 2: parity ---- */

static int destage_pages_end(struct fusion_batch *b, struct fusion_pages *io)
{
	struct fusion_destage *stats = &b->pool->destage;
	int r = fusion_pages_end(io);

	atomic64_add(io->count[READ], &stats->read_pages);
	atomic64_add(io->count[WRITE], &stats->written_pages);
	b->pages += io->count[READ] + io->count[WRITE];
	return r;
}

/* Rows of which something cannot be read are dropped.  -EIO: there are no others. */
static int destage_reread(struct fusion_batch *b)
{
	bool any = false;
	unsigned int i;
	int r;

	for (i = 0; i < b->rows; i++) {
		struct fusion_batch_row *row = &b->row[i];

		if (row->dropped)
			continue;
		r = fusion_parity_reread(b->pool, &row->row, b->class, &row->begin->row);
		if (r == -ENOMEM)
			return r;
		any |= !r;
		row->dropped = r;
		b->dropped |= r;
	}
	return any ? 0 : -EIO;
}

static int destage_read(struct fusion_batch *b)
{
	unsigned int i, grace;
	struct fusion_pages io;
	int r;

	grace = fusion_grace_enter(&b->pool->grace);
	fusion_batch_drop(b);
	fusion_pages_begin(&io, b->pool);
	for (i = 0; i < b->rows; i++)
		if (!b->row[i].dropped)
			fusion_parity_read(&io, &b->row[i].row, b->class,
					   &b->row[i].begin->row, &b->selection);
	r = destage_pages_end(b, &io);
	if (r == -EIO)
		r = destage_reread(b);
	fusion_grace_leave(&b->pool->grace, grace);
	return r;
}

/* Places for the parity of @row. */
static int destage_draw(struct fusion_batch *b, struct fusion_batch_row *row)
{
	struct fusion_pool *pool = b->pool;
	unsigned int i = 0, tries = 0;
	int r;

	while (i < b->class->p) {
		row->set[i] = fusion_patch_draw(&pool->space, b->class,
						FUSION_NO_OWNER, 1, true,
						&row->begin->row.parity[i]);
		if (row->set[i]) {
			i++;
			tries = 0;
			continue;
		}
		if (tries++)
			return -ENOSPC;
		r = fusion_patch_refill(&pool->space, b->class, true,
					&pool->commit_lock);
		if (r)
			return r;
	}
	return 0;
}

/*
 * Places for the parity of all rows; where space ends, of those that there are places for,
 * and the others are dropped: what is merged makes room.
 */
static int destage_draw_all(struct fusion_batch *b)
{
	bool drawn = false;
	unsigned int i;
	int r = 0;

	for (i = 0; i < b->rows; i++) {
		struct fusion_batch_row *row = &b->row[i];

		if (row->dropped)
			continue;
		if (!r)
			r = destage_draw(b, row);
		if (!r) {
			drawn = true;
		} else if (r == -ENOSPC && drawn) {
			row->dropped = true;
			b->dropped = true;
		} else {
			return r;
		}
	}
	return 0;
}

/* Of what is nowhere: it is apart from nothing, and nothing from it. */
#define NOWHERE		(~0ULL)

static u64 place_member(struct fusion_batch *b, u64 place)
{
	u32 member;

	fusion_space_locate(&b->pool->space, place, &member);
	return member == FUSION_NOWHERE ? NOWHERE : 1ULL << member;
}

/* The members that have pages of @row which parity covers, and which do not change; or are out. */
static u64 row_members(struct fusion_batch *b, const struct fusion_batch_row *row)
{
	u64 left = row->row.written & ~row->begin->row.changed;
	u64 members = fusion_members_out(b->pool);

	for (; left; left &= left - 1)
		members |= place_member(b, fusion_place(row->stripe,
							fusion_ctz64(left)));
	return members;
}

/* The replica of @patch that is on none of @members, from @from on; -1: there is none. */
static int find_apart(struct fusion_batch *b, const struct fusion_patch *patch,
		      unsigned int from, u64 members)
{
	unsigned int replicas = fusion_patch_replicas(patch), i, n;
	u64 on;

	for (i = 0; i < replicas; i++) {
		n = (from + i) % replicas;
		on = place_member(b, fusion_patch_slot(patch->at[n]));
		if (on != NOWHERE && !(on & members))
			return n;
	}
	return -1;
}

/*
 * One copy of the parity will do on a member that has nothing else of the row: what does
 * not change and the parity are then on a member each, and of these as many may be lost
 * as there is parity; what changes has its patches.  Rows that are yet to come may have
 * drawn a place that suits better.  Else it is in all replicas.
 */
static void destage_place(struct fusion_batch *b, unsigned int i)
{
	struct fusion_batch_row *row = &b->row[i];
	u64 members = row_members(b, row);
	unsigned int j, other, tries;
	int n;

	for (j = 0; j < b->class->p; j++) {
		struct fusion_row *r = &row->begin->row;

		n = -1;
		for (other = i, tries = PLACE_TRIES; other < b->rows && tries; other++) {
			if (b->row[other].dropped)
				continue;
			n = find_apart(b, &b->row[other].begin->row.parity[j], i, members);
			if (n >= 0)
				break;
			tries--;
		}
		if (n < 0) {
			r->copies[j] = fusion_mask(0, b->class->p + 1);
			continue;
		}
		swap(r->parity[j], b->row[other].begin->row.parity[j]);
		swap(row->set[j], b->row[other].set[j]);
		r->copies[j] = 1U << n;
		members |= place_member(b, fusion_patch_slot(r->parity[j].at[n]));
	}
}

static void destage_submit_parity(struct fusion_batch *b, struct fusion_pages *io,
				  const struct fusion_batch_row *row)
{
	unsigned int j, n;

	for (j = 0; j < b->class->p; j++) {
		const struct fusion_patch *patch = &row->begin->row.parity[j];

		for (n = 0; n < fusion_patch_replicas(patch); n++)
			if (row->begin->row.copies[j] >> n & 1)
				fusion_pages_write(io, fusion_patch_slot(patch->at[n]),
						   fusion_patch_at(patch),
						   row->row.new[b->class->d + j]);
	}
}

static int destage_write_parity(struct fusion_batch *b)
{
	struct fusion_pages io;
	unsigned int i;
	int r = destage_draw_all(b);

	if (r)
		return r;
	fusion_pages_begin(&io, b->pool);
	for (i = 0; i < b->rows; i++) {
		struct fusion_batch_row *row = &b->row[i];

		if (row->dropped)
			continue;
		destage_place(b, i);
		fusion_parity_compute(&row->row, b->class,
				      row->begin->row.changed);
		destage_submit_parity(b, &io, row);
	}
	return destage_pages_end(b, &io);
}

/* The records of all rows enter an epoch, which is committed. */
static int destage_record(struct fusion_batch *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;
	u64 number;

	for (i = 0; i < b->rows; i++) {
		b->row[i].end->row = b->row[i].begin->row;
		b->row[i].end->written = true;
	}
	shard = fusion_epoch_enter(&b->pool->epochs, &flags);
	fusion_batch_drop(b);
	for (i = 0; i < b->rows; i++) {
		if (b->row[i].dropped)
			continue;
		list_add_tail(&b->row[i].begin->list, &shard->rows);
		b->row[i].begin = NULL;
	}
	number = b->pool->epochs.current_number;
	fusion_epoch_exit(shard, flags);
	if (b->dropped)
		fusion_batch_settle(b);
	return fusion_commit_epoch(b->pool, number);
}

static void destage_put_sets(struct fusion_batch *b)
{
	unsigned int i, j;

	for (i = 0; i < b->rows; i++)
		for (j = 0; j < FUSION_MAX_PARITY && b->row[i].set[j]; j++)
			fusion_set_put(&b->pool->space, b->row[i].set[j]);
}

/* ---- 3: in place ---- */

static int destage_write(struct fusion_batch *b)
{
	struct fusion_pages io;
	unsigned int i;

	fusion_pages_begin(&io, b->pool);
	for (i = 0; i < b->rows; i++)
		if (!b->row[i].dropped)
			fusion_parity_write(&io, &b->row[i].row, b->class,
					    &b->row[i].end->row);
	return destage_pages_end(b, &io);
}

/* There is no way back: what fails is tried once more. */
static int destage_write_twice(struct fusion_batch *b)
{
	return destage_write(b) ? destage_write(b) : 0;
}

/* ---- 4: the switch ---- */

static void destage_switch(struct fusion_batch *b, struct fusion_batch_block *d)
{
	struct fusion_pool *pool = b->pool;
	u64 key = fusion_block_key(d->volume->id, d->block);
	struct fusion_epoch_shard *shard;
	struct fusion_hold hold;
	unsigned long flags;

	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	/* while it is pinned */
	fusion_batch_thaw(b, d);
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_unpatch(&pool->map, shard, &d->update, d->pages,
			      &d->list->patches);
	fusion_epoch_exit(shard, flags);
	fusion_hold_drop(&pool->locks, &hold);
}

static int destage_end(struct fusion_batch *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;
	u64 number;
	int r;

	for (i = 0; i < b->blocks; i++) {
		/* the records are references: commits may come in between */
		r = fusion_commit_crowded(b->pool) ? fusion_commit(b->pool) : 0;
		if (r)
			return r;
		destage_switch(b, &b->block[i]);
	}
	shard = fusion_epoch_enter(&b->pool->epochs, &flags);
	for (i = 0; i < b->rows; i++) {
		if (b->row[i].dropped)
			continue;
		list_add_tail(&b->row[i].end->list, &shard->rows);
		b->row[i].end = NULL;
	}
	number = b->pool->epochs.current_number;
	fusion_epoch_exit(shard, flags);
	return fusion_commit_epoch(b->pool, number);
}

/* ---- all of it ---- */

static void destage_count(struct fusion_batch *b)
{
	struct fusion_destage *stats = &b->pool->destage;
	unsigned int i;

	for (i = 0; i < b->rows; i++)
		if (!b->row[i].dropped)
			atomic64_inc(b->row[i].row.rmw ? &stats->rmw : &stats->rcw);
	for (i = 0; i < b->blocks; i++)
		atomic64_add(hweight64(b->block[i].pages), &stats->pages);
}

static int destage_steps(struct fusion_batch *b)
{
	int r;

	r = destage_read(b);
	if (!r)
		r = destage_write_parity(b);
	if (r) {
		destage_put_sets(b);
		fusion_batch_give_up(b);
		return r;
	}
	r = destage_record(b);
	destage_put_sets(b);
	/* never without the record */
	if (!r)
		r = destage_write_twice(b);
	if (!r)
		r = destage_end(b);
	if (r) {
		/* the records say what is to be there: the next start does it */
		DMERR("%s: patches could not be merged (%d): the pool is read-only until its next start, which does it",
		      fusion_pool_name(b->pool), r);
		fusion_pool_set_mode(b->pool, FUSION_RO);
		return r;
	}
	destage_count(b);
	fusion_batch_leave(b);
	return 0;
}

int fusion_destage_next(struct fusion_pool *pool, u64 number, u64 *pages)
{
	struct fusion_batch *b = fusion_batch_make(pool, number);
	int r;

	if (IS_ERR(b))
		return PTR_ERR(b);
	r = destage_steps(b);
	*pages = b->pages;
	fusion_batch_end(b, !r);
	return r;
}
