// SPDX-License-Identifier: GPL-2.0-only
/*
 * Destage, after a start: rows that were being written in place are written again.
 * See destage.h.
 */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "commit.h"
#include "destage.h"
#include "mode.h"
#include "parity.h"

#define REDO_ROWS	64

struct redo_row {
	struct fusion_row_change *change;
	struct fusion_class *class;	/* NULL: nothing of its stripe is in use */
	struct fusion_parity_row row;
};

/* All parts of the next record, from *@key on.  -ENODATA: there is none. */
static int redo_parts(struct fusion_pool *pool, u64 *key, struct fusion_disk_row *disk)
{
	unsigned int i, parts;
	u64 next;
	int r;

	r = fusion_md_next_row(pool->md, key, disk);
	if (r)
		return r;
	parts = fusion_row_parts(disk);
	for (i = 1; i < parts; i++) {
		next = *key + i;
		r = fusion_md_next_row(pool->md, &next, &disk[i]);
		if (r && r != -ENODATA)
			return r;
		if (r || next != *key + i)
			return -EINVAL;
	}
	return 0;
}

/* What is written of the stripe of @row. */
static int redo_written(struct fusion_pool *pool, struct redo_row *row)
{
	struct fusion_disk_stripe now;
	int r = fusion_md_get_stripe(pool->md, row->change->row.stripe, &now);

	/* not found: nothing of it is in use; not read: who knows */
	if (r)
		return r == -ENODATA ? 0 : r;
	row->row.written = le64_to_cpu(now.written);
	return now.state == FUSION_STRIPE_RAID ? 0 : -EINVAL;
}

/* The next row, from *@key on.  -ENODATA: there is none. */
static int redo_next(struct fusion_pool *pool, u64 *key, struct redo_row *row)
{
	struct fusion_disk_row disk[FUSION_MAX_PARTS];
	u64 stripe;
	int r;

	r = redo_parts(pool, key, disk);
	if (r && r != -EINVAL)
		return r;
	row->change = kzalloc(sizeof(*row->change), GFP_NOIO);
	if (!row->change)
		return -ENOMEM;
	row->change->written = true;
	if (!r)
		r = fusion_space_decode_row(&pool->space, disk, *key,
					    &row->change->row);
	stripe = row->change->row.stripe;
	/* there is nothing else in it as long as there is the record */
	if (!r)
		r = redo_written(pool, row);
	if (r) {
		fusion_md_damaged(pool->md, "there is an impossible row %llx", *key);
		return r;
	}
	if (fusion_space_place_ok(&pool->space, fusion_place(stripe, 0)))
		row->class = fusion_space_class_of(&pool->space, stripe);
	/* slots that the class does not have cannot be read */
	if (row->class)
		row->row.written &= fusion_mask(0, row->class->d);
	/* the last page of one stripe is followed by the first of the next */
	*key = fusion_row_key(stripe, row->change->row.page) + (1U << FUSION_PART_BITS);
	return 0;
}

/* What is to be written of @row. */
static int redo_read_row(struct fusion_pool *pool, struct redo_row *row)
{
	const struct fusion_row *r = &row->change->row;
	unsigned int all, i;
	int error = 0;
	u64 left;

	if (!row->class)
		return 0;
	all = fusion_mask(0, row->class->p + 1);
	for (left = r->changed; !error && left; left &= left - 1)
		error = fusion_parity_read_patch(pool,
						 fusion_row_patch(r, fusion_ctz64(left)),
						 all, &row->row.new[fusion_ctz64(left)]);
	if (error)
		return error;
	for (i = 0; i < row->class->p; i++) {
		int one = fusion_parity_read_patch(pool, &r->parity[i], r->copies[i],
						   &row->row.new[row->class->d + i]);

		if (one == -ENOMEM)
			return one;
		error = error ?: one;
	}
	return error ? fusion_parity_redo(pool, &row->row, row->class, r) : 0;
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
		if (row[i].class)
			fusion_parity_write(&io, &row[i].row, row[i].class,
					    &row[i].change->row);
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
	unsigned int i;

	for (i = 0; i < REDO_ROWS; i++) {
		kfree(row[i].change);
		fusion_parity_free(&row[i].row);
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
