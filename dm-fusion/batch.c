// SPDX-License-Identifier: GPL-2.0-only
/*
 * Batches of destage.  See batch.h.
 */
#include <linux/slab.h>

#include "batch.h"
#include "commit.h"
#include "io.h"
#include "set-table.h"
#include "volume-table.h"
#include "waiters.h"

/* While there is little metadata, of which each row takes some for a while. */
#define BATCH_ROWS_SHORT	32
/* Memory for pages of rows. */
#define BATCH_BYTES	(16 << 20)

/* ---- stripes ---- */

/* Under the commit mutex. */
static void batch_leave(struct fusion_pool *pool, u64 stripe)
{
	struct fusion_disk_stripe disk;

	fusion_space_unhold(&pool->space, stripe, true);
	/* commits do not free what is held: not even if all of it has died */
	if (fusion_md_get_stripe(pool->md, stripe, &disk) == -ENODATA) {
		fusion_space_release(&pool->space, stripe);
		fusion_commit_kick(pool);
	}
	fusion_gate_leave(&pool->gates, stripe);
}

void fusion_batch_leave(struct fusion_batch *b)
{
	mutex_lock(&b->pool->commit_lock);
	while (b->stripes)
		batch_leave(b->pool, b->stripe[--b->stripes].stripe);
	mutex_unlock(&b->pool->commit_lock);
}

/* We in the gate of @stripe, or NULL: we cannot enter now. */
static struct fusion_batch_stripe *batch_enter(struct fusion_batch *b, u64 stripe)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_disk_stripe disk;
	struct fusion_batch_stripe *s;
	unsigned int i;
	int r;

	for (i = 0; i < b->stripes; i++)
		if (b->stripe[i].stripe == stripe)
			return &b->stripe[i];
	if (!fusion_gate_enter(&pool->gates, stripe, true)) {
		b->crossed |= fusion_gate_alone(&pool->gates, stripe);
		return NULL;
	}
	r = fusion_md_read_stripe(pool->md, stripe, &disk);
	/*
	 * A block is in it, so it is not on its way to be free: what the last commit says of
	 * it is what it is, unless its own is yet to come.
	 */
	if (r || disk.state != FUSION_STRIPE_RAID ||
	    le64_to_cpu(disk.written) & ~fusion_mask(0, b->class->d)) {
		fusion_gate_leave(&pool->gates, stripe);
		return NULL;
	}
	fusion_space_hold(&pool->space, stripe);
	s = &b->stripe[b->stripes++];
	s->stripe = stripe;
	s->written = le64_to_cpu(disk.written);
	return s;
}

/* ---- blocks and rows ---- */

/* The row of @page of @s; NULL: there is no room. */
static struct fusion_batch_row *batch_row(struct fusion_batch *b,
					  const struct fusion_batch_stripe *s,
					  unsigned int page)
{
	struct fusion_batch_row *row;
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
static bool batch_page(struct fusion_batch *b, const struct fusion_batch_stripe *s,
		       unsigned int slot, unsigned int page,
		       const struct fusion_patch *patch)
{
	struct fusion_batch_row *row;
	struct fusion_row *r;
	unsigned int i, at;

	if (b->frozen == b->max_frozen)
		return false;
	row = batch_row(b, s, page);
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
	b->frozen++;
	return true;
}

/* Freeze what is patched of @d's block, which is held. */
static void batch_freeze(struct fusion_batch *b, struct fusion_batch_block *d)
{
	struct fusion_pool *pool = b->pool;
	struct fusion_batch_stripe *s;
	struct fusion_overlay *ov;
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
	s = batch_enter(b, fusion_place_stripe(d->base));
	if (!s)
		return;
	d->list = fusion_patch_list_get(ov->patches);
	for (left = d->list->patches.mask; left; left &= left - 1) {
		unsigned int page = fusion_ctz64(left);

		if (batch_page(b, s, fusion_place_slot(d->base), page,
			       fusion_patch_of(&d->list->patches, page)))
			d->pages |= 1ULL << page;
	}
	WRITE_ONCE(ov->frozen, d->pages);
}

/* Take the block with @key in, if it can be now. */
static int batch_gather(struct fusion_batch *b, u64 key)
{
	struct fusion_batch_block *d = &b->block[b->blocks];
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
		batch_freeze(b, d);
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
static bool batch_full(const struct fusion_batch *b)
{
	return b->blocks == b->max_blocks || b->stripes == FUSION_BATCH_BLOCKS ||
		b->rows == b->max_rows || b->frozen == b->max_frozen;
}

static int batch_choose(struct fusion_batch *b, const struct fusion_set *set)
{
	u64 last = FUSION_NO_OWNER;
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < set->units && !batch_full(b); i++) {
		u64 key = set->owner[i];

		/* one that is seen again is frozen then */
		if (key == FUSION_NO_OWNER || key == last)
			continue;
		last = key;
		r = batch_gather(b, key);
		cond_resched();
	}
	return r;
}

/* What there is in the oldest sets up to @number, of one class. */
static int batch_choose_all(struct fusion_batch *b, u64 number)
{
	struct fusion_set *set;
	int r = 0;

	while (!r && b->sets < FUSION_BATCH_SETS && !batch_full(b)) {
		set = fusion_sets_take_patches(&b->pool->space, number, b->class);
		if (!set)
			break;
		b->set[b->sets++] = set;
		r = batch_choose(b, set);
	}
	return r;
}

/* ---- what is lost meanwhile ---- */

static struct fusion_batch_row *batch_find_row(struct fusion_batch *b,
					       const struct fusion_batch_block *d,
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
static struct fusion_overlay *batch_overlay(struct fusion_batch *b,
					    const struct fusion_batch_block *d)
{
	return fusion_entry_overlay(fusion_map_entry(&b->pool->map, d->volume->id,
						     d->block));
}

void fusion_batch_drop(struct fusion_batch *b)
{
	unsigned int i;
	u64 lost;

	rcu_read_lock();
	for (i = 0; i < b->blocks; i++) {
		struct fusion_batch_block *d = &b->block[i];
		struct fusion_overlay *ov = batch_overlay(b, d);

		lost = d->pages;
		if (ov && ov->patches)
			lost &= ~(READ_ONCE(ov->frozen) &
				  fusion_patches_same(&ov->patches->patches,
						      &d->list->patches, lost));
		b->dropped |= lost;
		for (; lost; lost &= lost - 1)
			batch_find_row(b, d, fusion_ctz64(lost))->dropped = true;
	}
	rcu_read_unlock();
}

void fusion_batch_settle(struct fusion_batch *b)
{
	unsigned int i;
	u64 left;

	for (i = 0; i < b->blocks; i++) {
		struct fusion_batch_block *d = &b->block[i];

		for (left = d->pages; left; left &= left - 1)
			if (batch_find_row(b, d, fusion_ctz64(left))->dropped)
				d->pages &= ~(left & -left);
	}
}

void fusion_batch_thaw(struct fusion_batch *b, struct fusion_batch_block *d)
{
	const struct fusion_patches *list = &d->list->patches;
	struct fusion_overlay *ov;

	rcu_read_lock();
	ov = batch_overlay(b, d);
	if (ov && ov->patches)
		WRITE_ONCE(ov->frozen, ov->frozen &
			   ~fusion_patches_same(&ov->patches->patches, list,
						list->mask));
	rcu_read_unlock();
}

static void batch_thaw(struct fusion_batch *b, struct fusion_batch_block *d)
{
	struct fusion_pool *pool = b->pool;
	u64 key = fusion_block_key(d->volume->id, d->block);
	struct fusion_hold hold;

	fusion_hold_take_wait(&pool->locks, &hold, key, FUSION_HOLD_EXCLUSIVE);
	fusion_batch_thaw(b, d);
	fusion_hold_drop(&pool->locks, &hold);
}

void fusion_batch_give_up(struct fusion_batch *b)
{
	unsigned int i;

	for (i = 0; i < b->blocks; i++)
		batch_thaw(b, &b->block[i]);
	fusion_batch_leave(b);
	/* writes to these pages may have waited for space */
	if (b->blocks)
		fusion_waiters_freed(b->pool);
}

/* ---- life ---- */

static void batch_free(struct fusion_batch *b)
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

/* Sets of which nothing could be merged now become the youngest. */
static void batch_give_back(struct fusion_batch *b, bool again)
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

static void batch_limits(struct fusion_batch *b)
{
	struct fusion_pool *pool = b->pool;
	const struct fusion_tunables *t = &pool->reclaim.tunables;

	/* once: what is read is what there is memory for */
	b->selection.mode = READ_ONCE(t->write_select);
	b->selection.bias = READ_ONCE(t->rmw_bias);
	/* of the map's cache no more than a part is pinned */
	b->max_blocks = min_t(unsigned long, FUSION_BATCH_BLOCKS,
			      fusion_map_chunks(&pool->map) / 8 + 1);
	b->max_rows = READ_ONCE(pool->metadata_short) ? BATCH_ROWS_SHORT :
		FUSION_BATCH_ROWS;
	b->max_frozen = BATCH_BYTES >> FUSION_PAGE_SHIFT;
	b->max_frozen /= fusion_parity_pages(b->class, b->selection.mode);
}

/* There is a set in it: find rows.  -EAGAIN, -EBUSY: there are none. */
static int batch_fill(struct fusion_batch *b, u64 number)
{
	int r;

	r = fusion_space_load(&b->pool->space, b->class, &b->pool->commit_lock);
	if (!r)
		r = batch_choose(b, b->set[0]);
	if (!r)
		r = batch_choose_all(b, number);
	if (!r && !b->rows)
		r = b->crossed ? -EBUSY : -EAGAIN;
	if (r)
		fusion_batch_give_up(b);
	return r;
}

void fusion_batch_end(struct fusion_batch *b, bool again)
{
	batch_give_back(b, again);
	batch_free(b);
}

struct fusion_batch *fusion_batch_make(struct fusion_pool *pool, u64 number)
{
	struct fusion_set *set;
	struct fusion_batch *b;
	int r;

	set = fusion_sets_take_patches(&pool->space, number, NULL);
	if (!set)
		return ERR_PTR(-ENOENT);
	b = kvmalloc(sizeof(*b), GFP_NOIO);
	if (!b) {
		fusion_sets_give_back(&pool->space, set);
		return ERR_PTR(-ENOMEM);
	}
	b->pool = pool;
	b->class = set->class;
	b->set[0] = set;
	b->sets = 1;
	b->blocks = 0;
	b->rows = 0;
	b->stripes = 0;
	b->frozen = 0;
	b->crossed = false;
	b->dropped = false;
	b->pages = 0;
	batch_limits(b);
	r = batch_fill(b, number);
	if (!r)
		return b;
	fusion_batch_end(b, r == -EBUSY);
	return ERR_PTR(r);
}
