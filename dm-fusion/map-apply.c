// SPDX-License-Identifier: GPL-2.0-only
/*
 * Applying changes.  See map-apply.h.
 */
#include <linux/list_sort.h>
#include <linux/slab.h>

#include "map-apply.h"

static bool top_same_place(const struct fusion_top *a,
			   const struct fusion_top *b)
{
	return a->place[0] == b->place[0];
}

/* Has @patches (or NULL) no such patch of @page? */
static bool patch_absent(const struct fusion_patch_list *patches, unsigned int page,
			 const struct fusion_patch *patch)
{
	return !patches || !(patches->patches.mask & (1ULL << page)) ||
		fusion_patch_of(&patches->patches, page)->at[0] != patch->at[0];
}

/* Tell the ledger, by @tell, of those patches of @these that @those have not. */
static int change_patches(struct fusion_ledger *ledger,
			  const struct fusion_patch_list *these,
			  const struct fusion_patch_list *those,
			  int (*tell)(struct fusion_ledger *ledger,
				      const struct fusion_patch *patch))
{
	u64 left;
	int r = 0;

	if (!these || these == those)
		return 0;
	for (left = these->patches.mask; !r && left; left &= left - 1) {
		unsigned int page = fusion_ctz64(left);
		const struct fusion_patch *patch =
			fusion_patch_of(&these->patches, page);

		if (patch_absent(those, page, patch))
			r = tell(ledger, patch);
	}
	return r;
}

static int change_live(struct fusion_ledger *ledger,
		       const struct fusion_change *c)
{
	int r = 0;

	if (c->new.base && c->new.base != c->old.base &&
	    c->new.base != c->old.top.place[0])
		r = fusion_ledger_base_live(ledger, c->new.base);
	if (!r && c->new.top.place[0] &&
	    !top_same_place(&c->new.top, &c->old.top))
		r = fusion_ledger_top_live(ledger, &c->new.top);
	if (!r)
		r = change_patches(ledger, c->new.patches, c->old.patches,
				   fusion_ledger_patch_live);
	return r;
}

static int change_dead(struct fusion_ledger *ledger,
		       const struct fusion_change *c)
{
	unsigned int i;
	int r = 0;

	if (c->old.base && c->new.base != c->old.base)
		r = fusion_ledger_dead(ledger, c->old.base);
	if (!r && c->old.top.place[0] &&
	    !top_same_place(&c->new.top, &c->old.top)) {
		/* converted: the primary is the base now */
		if (c->new.base != c->old.top.place[0])
			r = fusion_ledger_dead(ledger, c->old.top.place[0]);
		for (i = 1; !r && i < fusion_top_replicas(&c->old.top); i++)
			r = fusion_ledger_dead(ledger, c->old.top.place[i]);
	}
	if (!r)
		r = change_patches(ledger, c->old.patches, c->new.patches,
				   fusion_ledger_patch_dead);
	return r;
}

int fusion_change_cmp(void *priv, const struct list_head *a, const struct list_head *b)
{
	const struct fusion_change *x = list_entry(a, struct fusion_change, list);
	const struct fusion_change *y = list_entry(b, struct fusion_change, list);

	if (x->key != y->key)
		return x->key > y->key;
	return (s32)(x->seq - y->seq) > 0;
}

/* Changes of one block in one epoch, seen as one. */
struct block_change {
	u32 volume;
	u64 block;
	const struct fusion_mapping *old, *new;
};

static int apply_top(struct fusion_map *map, const struct block_change *c)
{
	struct fusion_disk_top disk;

	if (!memcmp(&c->old->top, &c->new->top, sizeof(c->new->top)))
		return 0;
	if (!c->new->top.place[0])
		return fusion_md_put_top(map->md, c->volume, c->block, NULL);
	fusion_top_encode(&c->new->top, &disk);
	return fusion_md_put_top(map->md, c->volume, c->block, &disk);
}

static int apply_patches(struct fusion_map *map, const struct block_change *c)
{
	union fusion_disk_patches_room disk;

	if (c->old->patches == c->new->patches)
		return 0;
	if (!c->new->patches)
		return fusion_md_put_patches(map->md, c->volume, c->block, NULL);
	fusion_patches_encode(&c->new->patches->patches, map->block_pages,
			      &disk.patches);
	return fusion_md_put_patches(map->md, c->volume, c->block, &disk.patches);
}

/* The base group that is being changed. */
struct base_cursor {
	bool valid;
	u32 volume;
	u64 group;
	struct fusion_disk_base base;
};

static int base_flush(struct fusion_map *map, struct base_cursor *cursor)
{
	if (!cursor->valid)
		return 0;
	cursor->valid = false;
	return fusion_md_put_base(map->md, cursor->volume, cursor->group,
				  &cursor->base);
}

static int apply_base(struct fusion_map *map, struct base_cursor *cursor,
		      const struct block_change *c)
{
	u64 group = c->block >> FUSION_GROUP_SHIFT;
	int r;

	if (c->old->base == c->new->base)
		return 0;
	if (!cursor->valid || cursor->volume != c->volume ||
	    cursor->group != group) {
		r = base_flush(map, cursor);
		if (r)
			return r;
		r = fusion_md_get_base(map->md, c->volume, group, &cursor->base);
		if (r)
			return r;
		cursor->valid = true;
		cursor->volume = c->volume;
		cursor->group = group;
	}
	cursor->base.place[c->block & (FUSION_GROUP_BLOCKS - 1)] =
		cpu_to_le64(c->new->base);
	return 0;
}

/* Count the block of @m in or out. */
static void counts_add(struct fusion_map_counts *counts,
		       const struct fusion_mapping *m, int sign)
{
	counts->mapped += sign * (m->base || m->top.place[0]);
	counts->tops += sign * !!m->top.place[0];
	counts->patched += sign * !!m->patches;
}

static int apply_blocks(struct fusion_map *map, struct list_head *changes,
			struct base_cursor *cursor, fusion_map_count_fn count,
			void *context)
{
	struct fusion_map_counts sum = { 0 };
	struct fusion_change *c, *last;
	struct block_change b;
	u32 volume = 0;
	int r;

	for (c = list_first_entry(changes, struct fusion_change, list);
	     !list_entry_is_head(c, changes, list);
	     c = list_next_entry(last, list)) {
		last = c;
		while (!list_is_last(&last->list, changes) &&
		       list_next_entry(last, list)->key == c->key)
			last = list_next_entry(last, list);
		b.volume = c->key >> FUSION_BLOCK_BITS;
		b.block = c->key & (FUSION_MAX_BLOCKS - 1);
		b.old = &c->old;
		b.new = &last->new;
		r = apply_top(map, &b);
		if (!r)
			r = apply_patches(map, &b);
		if (!r)
			r = apply_base(map, cursor, &b);
		if (r)
			return r;
		if (volume != b.volume) {
			count(context, volume, &sum);
			sum = (struct fusion_map_counts) { 0 };
			volume = b.volume;
		}
		counts_add(&sum, b.new, 1);
		counts_add(&sum, b.old, -1);
	}
	count(context, volume, &sum);
	return base_flush(map, cursor);
}

int fusion_map_apply(struct fusion_map *map, struct fusion_ledger *ledger,
		     struct list_head *changes, fusion_map_count_fn count,
		     void *context)
{
	struct base_cursor *cursor;
	struct fusion_change *c;
	int r;

	/* In the order they were made: neighbours often share a stripe. */
	list_for_each_entry(c, changes, list) {
		r = change_live(ledger, c);
		if (r)
			return r;
	}
	list_for_each_entry(c, changes, list) {
		r = change_dead(ledger, c);
		if (r)
			return r;
	}
	/* In key order, each block once. */
	list_sort(NULL, changes, fusion_change_cmp);
	cursor = kzalloc(sizeof(*cursor), GFP_NOIO | __GFP_NOFAIL);
	r = apply_blocks(map, changes, cursor, count, context);
	kfree(cursor);
	return r;
}
