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

#define BATCH_BLOCKS	512
#define BATCH_ROWS	512
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
	struct fusion_row_change *begin, *end;
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
	unsigned int blocks, rows, stripes;
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
	if (fusion_md_get_stripe(pool->md, stripe, &disk) == -ENODATA)
		fusion_space_release(&pool->space, stripe);
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
	if (!fusion_gate_enter(&pool->gates, stripe, true))
		return NULL;
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
		if (row->begin->row.stripe == s->stripe &&
		    row->begin->row.page == page)
			return row;
	}
	if (b->rows == BATCH_ROWS)
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
	if (!ov || !ov->patches || ov->frozen ||
	    fusion_unsynced(pool, ov->patches->patches.generation))
		return;
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

static int destage_choose(struct destage *b, const struct fusion_set *set)
{
	/* of the map's cache no more than a part is pinned */
	unsigned long blocks = min_t(unsigned long, BATCH_BLOCKS,
				     fusion_map_chunks(&b->pool->map) / 4 + 1);
	unsigned int i, bytes;
	u64 last = FUSION_NO_OWNER;
	int r = 0;

	bytes = fusion_parity_row_pages(b->class) << FUSION_PAGE_SHIFT;
	for (i = 0; !r && i < set->units; i++) {
		u64 key = set->owner[i];

		if (b->blocks == blocks || b->stripes == BATCH_BLOCKS ||
		    b->rows * bytes >= BATCH_BYTES)
			break;
		/* one that is seen again is frozen then */
		if (key == FUSION_NO_OWNER || key == last)
			continue;
		last = key;
		r = destage_gather(b, key);
		cond_resched();
	}
	return r;
}

/* ---- 2: parity ---- */

static int destage_read(struct destage *b)
{
	struct fusion_selection *selection = &b->pool->destage.selection;
	struct fusion_pages io;
	unsigned int i;

	fusion_pages_begin(&io, b->pool);
	for (i = 0; i < b->rows; i++)
		fusion_parity_read(&io, &b->row[i].row, b->class,
				   &b->row[i].begin->row, selection);
	return fusion_pages_end(&io);
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
			continue;
		}
		if (tries++)
			return -ENOSPC;
		r = fusion_space_refill(&pool->space, b->class,
					fusion_set_stripes(b->class),
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
	int r = 0;

	fusion_pages_begin(&io, b->pool);
	for (i = 0; !r && i < b->rows; i++) {
		struct destage_row *row = &b->row[i];

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
	j = fusion_pages_end(&io);
	return r ? r : (int)j;
}

static struct destage_row *destage_find_row(struct destage *b,
					    const struct destage_block *d,
					    unsigned int page)
{
	unsigned int i;

	for (i = 0; i < b->rows; i++)
		if (b->row[i].end->row.stripe == fusion_place_stripe(d->base) &&
		    b->row[i].end->row.page == page)
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
 * Drop the rows of which a page has left the map since it was frozen.  While a shard
 * of the epoch is locked: what has not left yet does so in this epoch, or later, so
 * that the record is a reference before that one goes.
 */
static bool destage_drop(struct destage *b)
{
	bool any = false;
	unsigned int i;
	u64 lost;

	rcu_read_lock();
	for (i = 0; i < b->blocks; i++) {
		struct destage_block *d = &b->block[i];
		struct fusion_overlay *ov = destage_overlay(b, d);

		lost = d->pages;
		if (ov && ov->patches)
			lost &= ~fusion_patches_same(&ov->patches->patches,
						     &d->list->patches, lost);
		any |= lost;
		for (; lost; lost &= lost - 1)
			destage_find_row(b, d, fusion_ctz64(lost))->dropped = true;
	}
	rcu_read_unlock();
	return any;
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

/* The records of all rows enter an epoch, which is committed. */
static int destage_record(struct destage *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;
	bool dropped;

	for (i = 0; i < b->rows; i++) {
		b->row[i].end->row = b->row[i].begin->row;
		b->row[i].end->written = true;
	}
	shard = fusion_epoch_enter(&b->pool->epochs, &flags);
	dropped = destage_drop(b);
	for (i = 0; i < b->rows; i++) {
		if (b->row[i].dropped)
			continue;
		list_add_tail(&b->row[i].begin->list, &shard->rows);
		b->row[i].begin = NULL;
	}
	fusion_epoch_exit(shard, flags);
	if (dropped)
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
	return fusion_pages_end(&io);
}

/* ---- 4: the switch ---- */

/* Nothing of @d's block, which is held, is frozen any more. */
static void destage_thaw_held(struct destage *b, struct destage_block *d)
{
	struct fusion_overlay *ov;

	rcu_read_lock();
	ov = destage_overlay(b, d);
	if (ov)
		WRITE_ONCE(ov->frozen, 0);
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
		if (b->row[i].dropped)
			continue;
		else if (b->row[i].row.rmw)
			WRITE_ONCE(stats->rmw, stats->rmw + 1);
		else
			WRITE_ONCE(stats->rcw, stats->rcw + 1);
	for (i = 0; i < b->blocks; i++)
		WRITE_ONCE(stats->pages,
			   stats->pages + hweight64(b->block[i].pages));
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
	if (!r)
		r = destage_write(b);
	if (r == -ENOMEM || r == -EIO)
		r = destage_write(b);
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

/* The oldest set up to @number.  -ENOENT: there is none. */
static int destage_batch(struct fusion_pool *pool, u64 number)
{
	struct fusion_set *set;
	struct destage *b;
	int r;

	set = fusion_sets_take_patches(&pool->space, number);
	if (!set)
		return -ENOENT;
	r = fusion_space_load(&pool->space, set->class, &pool->commit_lock);
	b = r ? NULL : kvzalloc(sizeof(*b), GFP_NOIO);
	if (!r && !b)
		r = -ENOMEM;
	if (!r) {
		b->pool = pool;
		b->class = set->class;
		r = destage_choose(b, set);
		if (r)
			destage_give_up(b);
		else if (b->rows)
			r = destage_steps(b);
		else
			destage_leave_all(b);
		destage_free(b);
	}
	fusion_sets_give_back(&pool->space, set);
	return r;
}

static int destage_pass(struct fusion_background *background)
{
	struct fusion_destage *d = container_of(background, struct fusion_destage,
						background);
	struct fusion_pool *pool = container_of(d, struct fusion_pool, destage);
	unsigned int i;
	u64 number;
	int r;

	if (fusion_background_stopping(background))
		return -EINTR;
	if (!fusion_pool_writable(pool))
		return -EROFS;
	r = fusion_reclaim_load(pool);
	if (r)
		return r;
	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++)
		fusion_patch_sets_close(&pool->space, pool->space.class[i]);
	r = fusion_commit(pool);
	number = fusion_sets_youngest(&pool->space);
	while (!r) {
		if (fusion_background_stopping(background))
			return -EINTR;
		if (READ_ONCE(pool->metadata_low))
			return -ENOSPC;
		/* one that stays is the youngest then */
		r = destage_batch(pool, number);
		cond_resched();
	}
	return r == -ENOENT ? 0 : r;
}

int fusion_destage_all(struct fusion_pool *pool)
{
	return fusion_background_run(&pool->destage.background, pool->slow_wq);
}

void fusion_destage_init(struct fusion_pool *pool)
{
	fusion_background_init(&pool->destage.background, destage_pass);
}

/* ---- after a start ---- */

#define REDO_ROWS	64

struct redo_row {
	struct fusion_row_change *change;
	struct fusion_class *class;	/* NULL: nothing of its stripe is in use */
	void *data[FUSION_MAX_MEMBERS];	/* by slot */
};

/* The next row, from *@key on.  -ENODATA: there is none. */
static int redo_next(struct fusion_pool *pool, u64 *key, struct redo_row *row)
{
	struct fusion_disk_row disk;
	u64 stripe;
	int r;

	r = fusion_md_next_row(pool->md, key, &disk);
	if (r)
		return r;
	stripe = *key >> FUSION_PAGE_BITS;
	row->change = kzalloc(sizeof(*row->change), GFP_NOIO);
	if (!row->change)
		return -ENOMEM;
	row->change->written = true;
	r = fusion_space_decode_row(&pool->space, &disk, *key, &row->change->row);
	if (r) {
		DMERR("%s: metadata has an impossible row %llx",
		      fusion_pool_name(pool), *key);
		return r;
	}
	if (fusion_space_place_ok(&pool->space, fusion_place(stripe, 0)))
		row->class = fusion_space_class_of(&pool->space, stripe);
	++*key;
	return 0;
}

/* Replica @n of what the record's patches say, to memory. */
static void redo_read(struct fusion_pages *io, struct redo_row *row, unsigned int n)
{
	const struct fusion_row *r = &row->change->row;
	u64 left;

	if (!row->class)
		return;
	left = r->changed | fusion_mask(row->class->d, row->class->p);
	for (; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left), d = row->class->d;
		const struct fusion_patch *patch = i < d ?
			fusion_row_patch(r, i) : &r->parity[i - d];

		if (!row->data[i])
			row->data[i] = (void *)__get_free_page(GFP_NOIO);
		fusion_pages_submit(io, fusion_patch_slot(patch->at[n]),
				    fusion_patch_at(patch), row->data[i],
				    REQ_OP_READ);
	}
}

/* Memory to the stripe. */
static void redo_write(struct fusion_pages *io, struct redo_row *row)
{
	const struct fusion_row *r = &row->change->row;
	u64 left;

	if (!row->class)
		return;
	left = r->changed | fusion_mask(row->class->d, row->class->p);
	for (; left; left &= left - 1)
		fusion_pages_submit(io, fusion_place(r->stripe, fusion_ctz64(left)),
				    r->page, row->data[fusion_ctz64(left)],
				    REQ_OP_WRITE);
}

static int redo_rows(struct fusion_pool *pool, struct redo_row *row,
		     unsigned int rows)
{
	struct fusion_epoch_shard *shard;
	struct fusion_pages io;
	unsigned long flags;
	unsigned int i, n;
	int r = -EIO;

	/* all replicas of what has a record are equal */
	for (n = 0; r && n < 2; n++) {
		fusion_pages_begin(&io, pool);
		for (i = 0; i < rows; i++)
			redo_read(&io, &row[i], n);
		r = fusion_pages_end(&io);
	}
	if (r)
		return r;
	fusion_pages_begin(&io, pool);
	for (i = 0; i < rows; i++)
		redo_write(&io, &row[i]);
	r = fusion_pages_end(&io);
	if (r)
		return r;
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	for (i = 0; i < rows; i++) {
		list_add_tail(&row[i].change->list, &shard->rows);
		row[i].change = NULL;
	}
	fusion_epoch_exit(shard, flags);
	return fusion_commit(pool);
}

static void redo_free(struct redo_row *row)
{
	unsigned int i, j;

	for (i = 0; i < REDO_ROWS; i++) {
		kfree(row[i].change);
		for (j = 0; j < FUSION_MAX_MEMBERS; j++)
			free_page((unsigned long)row[i].data[j]);
	}
	kvfree(row);
}

int fusion_destage_redo(struct fusion_pool *pool)
{
	struct redo_row *row;
	unsigned int rows = 0;
	bool all = false;
	u64 key = 0;
	int r = 0;

	while (!r && !all) {
		row = kvcalloc(REDO_ROWS, sizeof(*row), GFP_NOIO);
		if (!row)
			return -ENOMEM;
		mutex_lock(&pool->commit_lock);
		for (rows = 0; !r && rows < REDO_ROWS;) {
			r = redo_next(pool, &key, &row[rows]);
			if (!r)
				rows++;
		}
		mutex_unlock(&pool->commit_lock);
		all = r == -ENODATA;
		if (all)
			r = 0;
		if (rows && !r)
			r = redo_rows(pool, row, rows);
		redo_free(row);
	}
	return r;
}
