// SPDX-License-Identifier: GPL-2.0-only
/*
 * Destage, after a start: rows that were being written in place are written again.
 * See destage.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "commit.h"
#include "destage.h"
#include "mode.h"
#include "pages.h"

#define DM_MSG_PREFIX "fusion"

#define REDO_ROWS	64

struct redo_row {
	struct fusion_row_change *change;
	struct fusion_class *class;	/* NULL: nothing of its stripe is in use */
	void *data[FUSION_MAX_MEMBERS];	/* by slot */
};

/* The next row, from *@key on.  -ENODATA: there is none. */
static int redo_next(struct fusion_pool *pool, u64 *key, struct redo_row *row)
{
	struct fusion_disk_stripe now;
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
	/* there is nothing else in it as long as there is the record */
	if (!r && !fusion_md_get_stripe(pool->md, stripe, &now) &&
	    now.state != FUSION_STRIPE_RAID)
		r = -EINVAL;
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

/* All replicas of what has a record are equal. */
static int redo_read_row(struct fusion_pool *pool, struct redo_row *row)
{
	unsigned int n, replicas;
	struct fusion_pages io;
	int r = -EIO;

	replicas = fusion_patch_replicas(&row->change->row.parity[0]);
	for (n = 0; r && n < replicas; n++) {
		fusion_pages_begin(&io, pool);
		redo_read(&io, row, n);
		r = fusion_pages_end(&io);
	}
	return r;
}

static int redo_rows(struct fusion_pool *pool, struct redo_row *row,
		     unsigned int rows)
{
	struct fusion_epoch_shard *shard;
	struct fusion_pages io;
	unsigned long flags;
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < rows; i++)
		r = redo_read_row(pool, &row[i]);
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
