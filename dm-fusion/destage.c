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
#include "set-table.h"
#include "volume-table.h"

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
};

/* A row that is written. */
struct destage_row {
	struct fusion_row_change *begin, *end;
	struct fusion_set *set[FUSION_MAX_PARITY]; /* that the parity is written to */
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
	if (hweight64(r->changed) == FUSION_ROW_PATCHES)
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
	struct fusion_update u;
	int r;

	memset(d, 0, sizeof(*d));
	d->volume = fusion_volume_get(pool, key >> FUSION_BLOCK_BITS);
	if (!d->volume)
		return 0;
	d->block = key & (FUSION_MAX_BLOCKS - 1);
	/* pins the chunk, so that the mark is not lost meanwhile */
	r = fusion_volume_prepare(d->volume, d->block, FUSION_UPDATE_ENTRY, &u);
	if (r)
		goto out;
	if (d->volume->class == b->class &&
	    fusion_hold_take(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE,
			     NULL)) {
		destage_freeze(b, d);
		fusion_hold_drop(&pool->locks, &hold);
	}
	fusion_update_cancel(&pool->map, &u);
	if (d->pages) {
		b->blocks++;
		return 0;
	}
out:
	fusion_patch_list_put(d->list);
	fusion_volume_put(d->volume);
	return r;
}

static int destage_choose(struct destage *b, const struct fusion_set *set)
{
	unsigned int i, bytes;
	u64 last = FUSION_NO_OWNER;
	int r = 0;

	bytes = fusion_parity_row_pages(b->class) << FUSION_PAGE_SHIFT;
	for (i = 0; !r && i < set->units; i++) {
		u64 key = set->owner[i];

		if (b->blocks == BATCH_BLOCKS || b->stripes == BATCH_BLOCKS ||
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
	unsigned int i;

	for (i = 0; i < b->class->p; i++) {
		row->set[i] = fusion_patch_draw(&b->pool->space, b->class,
						FUSION_NO_OWNER, 1, true,
						&row->begin->row.parity[i]);
		if (!row->set[i])
			return -ENOSPC;
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
	for (i = 0; i < b->rows; i++) {
		list_add_tail(&b->row[i].begin->list, &shard->rows);
		b->row[i].begin = NULL;
	}
	fusion_epoch_exit(shard, flags);
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
		fusion_parity_write(&io, &b->row[i].row, b->class,
				    &b->row[i].end->row);
	return fusion_pages_end(&io);
}

/* ---- 4: the switch ---- */

/* One that fails keeps its patches: what they say is still so. */
static void destage_switch(struct destage *b, struct destage_block *d)
{
	struct fusion_pool *pool = b->pool;
	u64 key = fusion_block_key(d->volume->id, d->block);
	struct fusion_epoch_shard *shard;
	struct fusion_hold hold;
	struct fusion_update u;
	unsigned long flags;

	if (fusion_volume_prepare(d->volume, d->block, FUSION_UPDATE_PATCHES, &u))
		return;
	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	shard = fusion_epoch_enter(&pool->epochs, &flags);
	fusion_update_unpatch(&pool->map, shard, &u, d->pages,
			      &d->list->patches);
	fusion_epoch_exit(shard, flags);
	fusion_hold_drop(&pool->locks, &hold);
}

static int destage_end(struct destage *b)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < b->blocks; i++)
		destage_switch(b, &b->block[i]);
	shard = fusion_epoch_enter(&b->pool->epochs, &flags);
	for (i = 0; i < b->rows; i++) {
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
	struct fusion_overlay *ov;
	struct fusion_hold hold;
	u64 entry;

	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	rcu_read_lock();
	entry = fusion_map_entry(&pool->map, d->volume->id, d->block);
	ov = entry == FUSION_ENTRY_MISS ? NULL : fusion_entry_overlay(entry);
	if (ov)
		WRITE_ONCE(ov->frozen, 0);
	rcu_read_unlock();
	fusion_hold_drop(&pool->locks, &hold);
}

/* Nothing has been recorded: everything is as before. */
static void destage_give_up(struct destage *b)
{
	unsigned int i;

	for (i = 0; i < b->blocks; i++)
		destage_thaw(b, &b->block[i]);
	destage_leave_all(b);
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
		if (b->row[i].row.rmw)
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
	if (!r)
		r = destage_end(b);
	if (r) {
		/* the records say what is to be there: the next start does it */
		DMERR("%s: patches could not be merged (%d): that is done at the next start",
		      fusion_pool_name(b->pool), r);
		return r;
	}
	destage_count(b);
	destage_leave_all(b);
	return 0;
}

/* 1; 0: there is nothing, or nothing of the oldest set can be destaged now. */
static int destage_batch(struct fusion_pool *pool)
{
	struct fusion_set *set;
	struct destage *b;
	int r;

	set = fusion_sets_take_patches(&pool->space);
	if (!set)
		return 0;
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
			r = destage_steps(b) ?: 1;
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
	int r;

	if (!fusion_pool_writable(pool))
		return -EROFS;
	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++)
		fusion_patch_sets_close(&pool->space, pool->space.class[i]);
	r = fusion_commit(pool);
	if (r)
		return r;
	do {
		if (fusion_background_stopping(background))
			return -EINTR;
		r = destage_batch(pool);
		cond_resched();
	} while (r > 0);
	return r;
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

/* What the record's patches say, to or from memory; or memory to the stripe. */
static void redo_io(struct fusion_pages *io, struct redo_row *row, bool write)
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

		if (write) {
			fusion_pages_submit(io, fusion_place(r->stripe, i),
					    r->page, row->data[i], REQ_OP_WRITE);
			continue;
		}
		row->data[i] = (void *)__get_free_page(GFP_NOIO);
		fusion_pages_submit(io, fusion_patch_slot(patch->at[0]),
				    fusion_patch_at(patch), row->data[i],
				    REQ_OP_READ);
	}
}

static int redo_rows(struct fusion_pool *pool, struct redo_row *row,
		     unsigned int rows)
{
	struct fusion_epoch_shard *shard;
	struct fusion_pages io;
	unsigned long flags;
	unsigned int i, pass;
	int r = 0;

	for (pass = 0; !r && pass < 2; pass++) {
		fusion_pages_begin(&io, pool);
		for (i = 0; i < rows; i++)
			redo_io(&io, &row[i], pass);
		r = fusion_pages_end(&io);
	}
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
	u64 key = 0;
	int r = 0;

	while (!r) {
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
		if (rows && (!r || r == -ENODATA))
			r = redo_rows(pool, row, rows) ?: r;
		redo_free(row);
	}
	return r == -ENODATA ? 0 : r;
}
