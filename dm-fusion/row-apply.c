// SPDX-License-Identifier: GPL-2.0-only
/*
 * Applying the changes of rows.  See row-apply.h.
 */
#include <linux/slab.h>

#include "row-apply.h"

/* Tell the ledger, by @tell, of all patches of @row. */
static int row_patches(struct fusion_ledger *ledger, const struct fusion_row *row,
		       int (*tell)(struct fusion_ledger *ledger,
				   const struct fusion_patch *patch))
{
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < FUSION_MAX_PARITY && row->parity[i].at[0]; i++)
		r = tell(ledger, &row->parity[i]);
	for (i = 0; !r && i < hweight64(row->changed); i++)
		r = tell(ledger, &row->patch[i]);
	return r;
}

/* Store all parts of the record of @row, or remove them. */
static int row_put(struct fusion_md *md, const struct fusion_row *row, bool store)
{
	struct fusion_disk_row disk[FUSION_MAX_PARTS];
	unsigned int i, parts;
	int r = 0;

	parts = fusion_row_encode(row, disk);
	for (i = 0; !r && i < parts; i++)
		r = fusion_md_put_row(md, fusion_row_key(row->stripe, row->page) + i,
				      store ? &disk[i] : NULL);
	return r;
}

int fusion_rows_begin(struct fusion_ledger *ledger, struct list_head *rows)
{
	struct fusion_row_change *c;
	int r;

	list_for_each_entry(c, rows, list) {
		if (c->written)
			continue;
		r = row_patches(ledger, &c->row, fusion_ledger_patch_live);
		if (!r)
			r = fusion_ledger_row(ledger, c->row.stripe);
		if (!r)
			r = row_put(ledger->space->md, &c->row, true);
		if (r)
			return r;
	}
	return 0;
}

int fusion_rows_end(struct fusion_ledger *ledger, struct list_head *rows)
{
	struct fusion_row_change *c;
	int r;

	list_for_each_entry(c, rows, list) {
		if (!c->written)
			continue;
		r = row_patches(ledger, &c->row, fusion_ledger_patch_dead);
		/* a member may have failed in between */
		if (!r)
			r = fusion_ledger_row(ledger, c->row.stripe);
		if (!r)
			r = row_put(ledger->space->md, &c->row, false);
		if (r)
			return r;
	}
	return 0;
}

void fusion_rows_forget(struct list_head *rows)
{
	struct fusion_row_change *c, *next;

	list_for_each_entry_safe(c, next, rows, list)
		kfree(c);
	INIT_LIST_HEAD(rows);
}
