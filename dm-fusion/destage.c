// SPDX-License-Identifier: GPL-2.0-only
/*
 * Destage.  See destage.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "commit.h"
#include "destage.h"
#include "io.h"
#include "mode.h"
#include "parity.h"
#include "patch-set.h"
#include "reclaim.h"
#include "set-table.h"
#include "volume-table.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

#define BATCH_SETS	8
#define BATCH_BLOCKS	512
#define BATCH_ROWS	512
/* While there is little metadata, of which each row takes some for a while. */
#define BATCH_ROWS_SHORT	32
/* Memory for pages of rows. */
#define BATCH_BYTES	(16 << 20)

/* A block of which pages are merged. */
struct destage_block {
	struct fusion_volume *volume;	/* a reference */
	u64 block;
	u64 base;			/* its place in the stripe */
	u64 pages;			/* that are merged */
	struct fusion_patch_list *list;	/* as it was frozen; a reference */
	struct fusion_update update;	/* pins the chunk, and so the mark */
};

/* A row that is written. */
struct destage_row {
	u64 stripe;
	unsigned int page;
	struct fusion_row_change *begin, *end;	/* until the epoch has them */
	struct fusion_set *set[FUSION_MAX_PARITY]; /* that the parity is written to */
	bool dropped;			/* one of its pages has been overwritten */
	struct fusion_parity_row row;
};

/* A stripe of which rows are: in its gate, and held. */
struct destage_stripe {
	u64 stripe;
	u64 written;
};

struct destage {
	struct fusion_pool *pool;
	struct fusion_class *class;
	unsigned int sets, blocks, rows, stripes;
	unsigned int max_blocks, max_rows;
	bool crossed;			/* other batches are in the way */
	bool dropped;			/* some row is */
	u64 pages;			/* read and written */
	struct fusion_set *set[BATCH_SETS];
	struct destage_block block[BATCH_BLOCKS];
	struct destage_stripe stripe[BATCH_BLOCKS];
	struct destage_row row[BATCH_ROWS];
};

/* ---- 1: freezing ---- */

/* Nothing of the batch concerns @stripe any more. */
static void destage_leave(struct destage *b, u64 stripe)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_disk_stripe disk;

	mutex_lock(&pool->commit_lock);
	fusion_space_unhold(&pool->space, stripe, true);
	/* commits do not free what is held: not even if all of it has died */
	if (fusion_md_get_stripe(pool->md, stripe, &disk) == -ENODATA) {
		fusion_space_release(&pool->space, stripe);
		fusion_commit_kick(pool);
	}
	mutex_unlock(&pool->commit_lock);
	fusion_gate_leave(&pool->gates, stripe);
}

static void destage_leave_all(struct destage *b)
{
	while (b->stripes)
		destage_leave(b, b->stripe[--b->stripes].stripe);
}

/* We in the gate of @stripe, or NULL: we cannot enter now. */
static struct destage_stripe *destage_enter(struct destage *b, u64 stripe)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_disk_stripe disk;
	struct destage_stripe *s;
	unsigned int i;
	int r;

	for (i = 0; i < b->stripes; i++)
		if (b->stripe[i].stripe == stripe)
			return &b->stripe[i];
	if (!fusion_gate_enter(&pool->gates, stripe, true)) {
		b->crossed |= fusion_gate_alone(&pool->gates, stripe);
		return NULL;
	}
	mutex_lock(&pool->commit_lock);
	r = fusion_md_get_stripe(pool->md, stripe, &disk);
	mutex_unlock(&pool->commit_lock);
	/* its last commit may be to come */
	if (r || disk.state != FUSION_STRIPE_RAID) {
		fusion_gate_leave(&pool->gates, stripe);
		return NULL;
	}
	fusion_space_hold(&pool->space, stripe);
	s = &b->stripe[b->stripes++];
	s->stripe = stripe;
	s->written = le64_to_cpu(disk.written);
	return s;
}

/* The row of @page of @s; NULL: there is no room. */
static struct destage_row *destage_row(struct destage *b,
				       const struct destage_stripe *s,
				       unsigned int page)
{
	struct destage_row *row;
	unsigned int i;

	for (i = b->rows; i--;) {
		row = &b->row[i];
		if (row->stripe == s->stripe && row->page == page)
			return row;
	}
	if (b->rows == b->max_rows)
		return NULL;
	row = &b->row[b->rows];
	memset(row, 0, sizeof(*row));
	row->begin = kzalloc(sizeof(*row->begin), GFP_NOIO);
	row->end = kzalloc(sizeof(*row->end), GFP_NOIO);
	if (!row->begin || !row->end) {
		kfree(row->begin);
		kfree(row->end);
		return NULL;
	}
	b->rows++;
	row->stripe = s->stripe;
	row->page = page;
	row->begin->row.stripe = s->stripe;
	row->begin->row.page = page;
	row->row.written = s->written;
	return row;
}

/* Page @page of the block of slot @slot is one of its row's. */
static bool destage_page(struct destage *b, const struct destage_stripe *s,
			 unsigned int slot, unsigned int page,
			 const struct fusion_patch *patch)
{
	struct destage_row *row = destage_row(b, s, page);
	struct fusion_row *r;
	unsigned int i, at;

	if (!row)
		return false;
	r = &row->begin->row;
	if (hweight64(r->changed) == FUSION_ROW_PATCHES ||
	    r->changed & (1ULL << slot))
		return false;
	at = hweight64(r->changed & fusion_mask(0, slot));
	for (i = hweight64(r->changed); i > at; i--)
		r->patch[i] = r->patch[i - 1];
	r->patch[at] = *patch;
	r->changed |= 1ULL << slot;
	return true;
}

/* Freeze what is patched of @d's block, which is held. */
static void destage_freeze(struct destage *b, struct destage_block *d)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_overlay *ov;
	struct destage_stripe *s;
	u64 left;

	rcu_read_lock();
	ov = fusion_entry_overlay(fusion_map_entry(&pool->map, d->volume->id,
						   d->block));
	/* held: the overlay stays, and what it says but for the base's moving */
	rcu_read_unlock();
	if (!ov || !ov->patches ||
	    fusion_unsynced(pool, ov->patches->patches.generation))
		return;
	if (ov->frozen) {
		b->crossed = true;
		return;
	}
	d->base = READ_ONCE(ov->base);
	s = destage_enter(b, fusion_place_stripe(d->base));
	if (!s)
		return;
	d->list = fusion_patch_list_get(ov->patches);
	for (left = d->list->patches.mask; left; left &= left - 1) {
		unsigned int page = fusion_ctz64(left);

		if (destage_page(b, s, fusion_place_slot(d->base), page,
				 fusion_patch_of(&d->list->patches, page)))
			d->pages |= 1ULL << page;
	}
	WRITE_ONCE(ov->frozen, d->pages);
}

/* Take the block with @key in, if it can be destaged now. */
static int destage_gather(struct destage *b, u64 key)
{
	struct destage_block *d = &b->block[b->blocks];
	struct fusion_pool *pool = b->pool;
	struct fusion_hold hold;
	int r;

	memset(d, 0, sizeof(*d));
	d->volume = fusion_volume_get(pool, key >> FUSION_BLOCK_BITS);
	if (!d->volume)
		return 0;
	d->block = key & (FUSION_MAX_BLOCKS - 1);
	r = fusion_volume_prepare(d->volume, d->block, FUSION_UPDATE_PATCHES,
				  &d->update);
	if (r)
		goto out;
	if (d->volume->class == b->class &&
	    fusion_hold_take(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE,
			     NULL)) {
		destage_freeze(b, d);
		fusion_hold_drop(&pool->locks, &hold);
	}
	if (d->pages) {
		b->blocks++;
		return 0;
	}
	fusion_update_cancel(&pool->map, &d->update);
out:
	fusion_patch_list_put(d->list);
	fusion_volume_put(d->volume);
	return r;
}

/* Is there room for more? */
static bool destage_full(const struct destage *b)
{
	return b->blocks == b->max_blocks || b->stripes == BATCH_BLOCKS ||
		b->rows == b->max_rows;
}

static int destage_choose(struct destage *b, const struct fusion_set *set)
{
	u64 last = FUSION_NO_OWNER;
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < set->units && !destage_full(b); i++) {
		u64 key = set->owner[i];

		/* one that is seen again is frozen then */
		if (key == FUSION_NO_OWNER || key == last)
			continue;
		last = key;
		r = destage_gather(b, key);
		cond_resched();
	}
	return r;
}

/* What there is in the oldest sets up to @number, of one class. */
static int destage_choose_all(struct destage *b, u64 number)
{
	struct fusion_set *set;
	int r = 0;

	while (!r && b->sets < BATCH_SETS && !destage_full(b)) {
		set = fusion_sets_take_patches(&b->pool->space, number, b->class);
		if (!set)
			break;
		b->set[b->sets++] = set;
		r = destage_choose(b, set);
	}
	return r;
}

/* ---- 2: parity ---- */

static struct destage_row *destage_find_row(struct destage *b,
					    const struct destage_block *d,
					    unsigned int page)
{
	unsigned int i;

	for (i = 0; i < b->rows; i++)
		if (b->row[i].stripe == fusion_place_stripe(d->base) &&
		    b->row[i].page == page)
			return &b->row[i];
	return NULL;
}

/* The overlay of @d's block now; its chunk is pinned.  Under rcu_read_lock(). */
static struct fusion_overlay *destage_overlay(struct destage *b,
					      const struct destage_block *d)
{
	return fusion_entry_overlay(fusion_map_entry(&b->pool->map, d->volume->id,
						     d->block));
}

/*
 * Drop the rows of which a page has left the map since it was frozen.  With a grace
 * reference: what has not left yet is not reused before that ends.  While a shard of the
 * epoch is locked: it leaves in this epoch, or later, so that the record is a reference
 * before that one goes.
 */
static void destage_drop(struct destage *b)
{
	unsigned int i;
	u64 lost;

	rcu_read_lock();
	for (i = 0; i < b->blocks; i++) {
		struct destage_block *d = &b->block[i];
		struct fusion_overlay *ov = destage_overlay(b, d);

		lost = d->pages;
		if (ov && ov->patches)
			lost &= ~(READ_ONCE(ov->frozen) &
				  fusion_patches_same(&ov->patches->patches,
						      &d->list->patches, lost));
		b->dropped |= lost;
		for (; lost; lost &= lost - 1)
			destage_find_row(b, d, fusion_ctz64(lost))->dropped = true;
	}
	rcu_read_unlock();
}

/* What of their blocks was in rows that were dropped is not merged. */
static void destage_dropped(struct destage *b)
{
	unsigned int i;
	u64 left;

	for (i = 0; i < b->blocks; i++) {
		struct destage_block *d = &b->block[i];

		for (left = d->pages; left; left &= left - 1)
			if (destage_find_row(b, d, fusion_ctz64(left))->dropped)
				d->pages &= ~(left & -left);
	}
}

static int destage_pages_end(struct destage *b, struct fusion_pages *io)
{
	struct fusion_destage *stats = &b->pool->destage;
	int r = fusion_pages_end(io);

	atomic64_add(io->count[READ], &stats->read_pages);
	atomic64_add(io->count[WRITE], &stats->written_pages);
	b->pages += io->count[READ] + io->count[WRITE];
	return r;
}

static int destage_read(struct destage *b)
{
	const struct fusion_tunables *t = &b->pool->reclaim.tunables;
	struct fusion_selection selection = {
		.mode = READ_ONCE(t->write_select),
		.bias = READ_ONCE(t->rmw_bias),
	};
	unsigned int i, grace;
	struct fusion_pages io;
	int r;

	grace = fusion_grace_enter(&b->pool->grace);
	destage_drop(b);
	fusion_pages_begin(&io, b->pool);
	for (i = 0; i < b->rows; i++)
		if (!b->row[i].dropped)
			fusion_parity_read(&io, &b->row[i].row, b->class,
					   &b->row[i].begin->row, &selection);
	r = destage_pages_end(b, &io);
	fusion_grace_leave(&b->pool->grace, grace);
	return r;
}

/* Places for the parity of @row. */
static int destage_draw(struct destage *b, struct destage_row *row)
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

static int destage_write_parity(struct destage *b)
{
	u64 place[FUSION_MAX_REPLICAS];
	struct fusion_pages io;
	unsigned int i, j, n;
	int r = 0, error;

	fusion_pages_begin(&io, b->pool);
	for (i = 0; !r && i < b->rows; i++) {
		struct destage_row *row = &b->row[i];

		if (row->dropped)
			continue;
		fusion_parity_compute(&row->row, b->class,
				      row->begin->row.changed);
		r = destage_draw(b, row);
		for (j = 0; !r && j < b->class->p; j++) {
			const struct fusion_patch *patch =
				&row->begin->row.parity[j];

			fusion_patch_slots(patch, place);
			for (n = 0; n < fusion_patch_replicas(patch); n++)
				fusion_pages_submit(&io, place[n],
						    fusion_patch_at(patch),
						    row->row.new[b->class->d + j],
						    REQ_OP_WRITE);
		}
	}
	error = destage_pages_end(b, &io);
	return r ? r : error;
}

/* The records of all rows enter an epoch, which is committed. */
static int destage_record(struct destage *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < b->rows; i++) {
		b->row[i].end->row = b->row[i].begin->row;
		b->row[i].end->written = true;
	}
	shard = fusion_epoch_enter(&b->pool->epochs, &flags);
	destage_drop(b);
	for (i = 0; i < b->rows; i++) {
		if (b->row[i].dropped)
			continue;
		list_add_tail(&b->row[i].begin->list, &shard->rows);
		b->row[i].begin = NULL;
	}
	fusion_epoch_exit(shard, flags);
	if (b->dropped)
		destage_dropped(b);
	return fusion_commit(b->pool);
}

static void destage_put_sets(struct destage *b)
{
	unsigned int i, j;

	for (i = 0; i < b->rows; i++)
		for (j = 0; j < FUSION_MAX_PARITY && b->row[i].set[j]; j++)
			fusion_set_put(&b->pool->space, b->row[i].set[j]);
}

/* ---- 3: in place ---- */

static int destage_write(struct destage *b)
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
static int destage_write_twice(struct destage *b)
{
	return destage_write(b) ? destage_write(b) : 0;
}

/* ---- 4: the switch ---- */

/*
 * What @d has frozen of its block, which is held, is not any more.  Others may have frozen
 * patches that came after ours.
 */
static void destage_thaw_held(struct destage *b, struct destage_block *d)
{
	const struct fusion_patches *list = &d->list->patches;
	struct fusion_overlay *ov;

	rcu_read_lock();
	ov = destage_overlay(b, d);
	if (ov && ov->patches)
		WRITE_ONCE(ov->frozen, ov->frozen &
			   ~fusion_patches_same(&ov->patches->patches, list,
						list->mask));
	rcu_read_unlock();
}

static void destage_switch(struct destage *b, struct destage_block *d)
{
	struct fusion_pool *pool = b->pool;
	u64 key = fusion_block_key(d->volume->id, d->block);
	struct fusion_epoch_shard *shard;
	struct fusion_hold hold;
	unsigned long flags;

	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	/* while it is pinned */
	destage_thaw_held(b, d);
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_unpatch(&pool->map, shard, &d->update, d->pages,
			      &d->list->patches);
	fusion_epoch_exit(shard, flags);
	fusion_hold_drop(&pool->locks, &hold);
}

static int destage_end(struct destage *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;
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
	fusion_epoch_exit(shard, flags);
	return fusion_commit(b->pool);
}

/* ---- a batch ---- */

static void destage_thaw(struct destage *b, struct destage_block *d)
{
	struct fusion_pool *pool = b->pool;
	u64 key = fusion_block_key(d->volume->id, d->block);
	struct fusion_hold hold;

	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	destage_thaw_held(b, d);
	fusion_hold_drop(&pool->locks, &hold);
}

/* Nothing has been recorded: everything is as before. */
static void destage_give_up(struct destage *b)
{
	unsigned int i;

	for (i = 0; i < b->blocks; i++)
		destage_thaw(b, &b->block[i]);
	destage_leave_all(b);
	/* writes to these pages may have waited for space */
	if (b->blocks)
		fusion_waiters_freed(b->pool);
}

static void destage_free(struct destage *b)
{
	unsigned int i;

	for (i = 0; i < b->rows; i++) {
		fusion_parity_free(&b->row[i].row);
		kfree(b->row[i].begin);
		kfree(b->row[i].end);
	}
	for (i = 0; i < b->blocks; i++) {
		if (b->block[i].update.chunk)
			fusion_update_cancel(&b->pool->map, &b->block[i].update);
		fusion_patch_list_put(b->block[i].list);
		fusion_volume_put(b->block[i].volume);
	}
	kvfree(b);
}

static void destage_count(struct destage *b)
{
	struct fusion_destage *stats = &b->pool->destage;
	unsigned int i;

	for (i = 0; i < b->rows; i++)
		if (!b->row[i].dropped)
			atomic64_inc(b->row[i].row.rmw ? &stats->rmw : &stats->rcw);
	for (i = 0; i < b->blocks; i++)
		atomic64_add(hweight64(b->block[i].pages), &stats->pages);
}

static int destage_steps(struct destage *b)
{
	int r;

	r = destage_read(b);
	if (!r)
		r = destage_write_parity(b);
	if (r) {
		destage_put_sets(b);
		destage_give_up(b);
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
	destage_leave_all(b);
	return 0;
}

/* Sets of which nothing could be merged now become the youngest. */
static void destage_give_back(struct destage *b, bool again)
{
	struct fusion_space *s = &b->pool->space;

	while (b->sets) {
		struct fusion_set *set = b->set[--b->sets];

		if (again)
			fusion_sets_put_back(s, set);
		else
			fusion_sets_give_back(s, set);
	}
}

static int destage_batch(struct destage *b, u64 number)
{
	int r;

	r = fusion_space_load(&b->pool->space, b->class, &b->pool->commit_lock);
	if (!r)
		r = destage_choose(b, b->set[0]);
	if (!r)
		r = destage_choose_all(b, number);
	if (!r && b->rows)
		return destage_steps(b);
	destage_give_up(b);
	if (r)
		return r;
	return b->crossed ? -EBUSY : -EAGAIN;
}

static void destage_limits(struct destage *b)
{
	struct fusion_pool *pool = b->pool;

	/* of the map's cache no more than a part is pinned */
	b->max_blocks = min_t(unsigned long, BATCH_BLOCKS,
			      fusion_map_chunks(&pool->map) / 8 + 1);
	b->max_rows = BATCH_BYTES / (fusion_parity_row_pages(b->class) <<
				     FUSION_PAGE_SHIFT);
	b->max_rows = min(b->max_rows, READ_ONCE(pool->metadata_short) ?
			  BATCH_ROWS_SHORT : BATCH_ROWS);
}

int fusion_destage_next(struct fusion_pool *pool, u64 number, u64 *pages)
{
	struct fusion_set *set;
	struct destage *b;
	int r;

	set = fusion_sets_take_patches(&pool->space, number, NULL);
	if (!set)
		return -ENOENT;
	b = kvmalloc(sizeof(*b), GFP_NOIO);
	if (!b) {
		fusion_sets_give_back(&pool->space, set);
		return -ENOMEM;
	}
	b->pool = pool;
	b->class = set->class;
	b->set[0] = set;
	b->sets = 1;
	b->blocks = 0;
	b->rows = 0;
	b->stripes = 0;
	b->crossed = false;
	b->dropped = false;
	b->pages = 0;
	destage_limits(b);
	r = destage_batch(b, number);
	*pages = b->pages;
	destage_give_back(b, !r || r == -EBUSY);
	destage_free(b);
	return r;
}
