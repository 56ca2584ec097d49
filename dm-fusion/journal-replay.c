// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replaying the map's journal.  See journal.h.
 *
 * What a record says becomes changes, from what the btrees have, and seals, and these are applied
 * by what a commit applies them with.  Bands come to their classes with the first stripe that is
 * live, on disk as here.  The space that this is done with is not kept: it is read anew, when the
 * btrees have all.
 *
 * Nothing of a record is believed: its checksum only says that it is what was written.
 */
#include <linux/gfp.h>
#include <linux/list_sort.h>
#include <linux/slab.h>

#include "journal.h"
#include "journal-record.h"
#include "map-apply.h"
#include "set-table.h"

#define DM_MSG_PREFIX "fusion"

struct replay {
	struct fusion_pool *pool;
	struct fusion_space *space;
	struct fusion_ledger ledger;
	struct fusion_map map;			/* of which only what applying needs */
	void *data;				/* FUSION_JOURNAL_MAX bytes */
	struct fusion_journal_entry entry;
	u64 sequence;				/* of the record that comes next */
	u32 at;
	/* of an epoch, so far */
	struct list_head changes, seals;
	int count_error;
	bool stale;				/* there are records of later metadata */
};

/* ---- finding records ---- */

static int replay_read_from(struct replay *rp, struct block_device *bdev, u32 at, u32 bytes)
{
	const struct fusion_md_super *super = fusion_md_super(rp->pool->md);

	return fusion_page_io(bdev, super->journal_offset + (at >> SECTOR_SHIFT),
			      virt_to_page(rp->data), bytes, REQ_OP_READ);
}

/* The record with @id from @bdev; how long it is, or 0. */
static u32 replay_find_on(struct replay *rp, struct block_device *bdev,
			  const struct fusion_journal_id *id)
{
	const struct fusion_md_super *super = fusion_md_super(rp->pool->md);
	u32 bytes, behind = (super->journal_sectors << SECTOR_SHIFT) - id->at;

	if (behind < FUSION_JOURNAL_UNIT ||
	    replay_read_from(rp, bdev, id->at, FUSION_JOURNAL_UNIT))
		return 0;
	bytes = fusion_journal_bytes(rp->data, id);
	if (!bytes || bytes > behind || replay_read_from(rp, bdev, id->at, bytes))
		return 0;
	/* it may be another by now */
	if (fusion_journal_bytes(rp->data, id) != bytes || !fusion_journal_whole(rp->data, bytes))
		return 0;
	if (fusion_journal_transaction_id(rp->data) > fusion_md_transaction_id(rp->pool->md)) {
		rp->stale = true;
		return 0;
	}
	return bytes;
}

/* From any member that is used: all that have it have the same. */
static u32 replay_find_at(struct replay *rp, const struct fusion_journal_id *id)
{
	const struct fusion_md_super *super = fusion_md_super(rp->pool->md);
	struct block_device *bdev;
	unsigned int i;
	u32 bytes = 0;

	for (i = 0; !bytes && i < rp->pool->layout->n; i++) {
		bdev = rp->pool->member[i].bdev;
		if (bdev && fusion_state_used(super->member[i]))
			bytes = replay_find_on(rp, bdev, id);
	}
	return bytes;
}

/* The one that comes next, behind the last or at the begin of the ring: how long it is, or 0. */
static u32 replay_find(struct replay *rp)
{
	struct fusion_journal_id id = {
		.sequence = rp->sequence,
		.at = rp->at,
		.generation = fusion_md_super(rp->pool->md)->generation,
	};
	u32 bytes;

	fusion_md_pool_uuid(rp->pool->md, id.pool_uuid);
	bytes = replay_find_at(rp, &id);
	if (!bytes && id.at) {
		id.at = 0;
		bytes = replay_find_at(rp, &id);
	}
	if (bytes) {
		rp->sequence++;
		rp->at = id.at + bytes;
	}
	return bytes;
}

/* ---- from entries to changes ---- */

static void replay_forget(struct replay *rp)
{
	struct fusion_change *c, *next;
	struct fusion_seal *seal, *next_seal;

	list_for_each_entry_safe(c, next, &rp->changes, list) {
		fusion_patch_list_put(c->old.patches);
		fusion_patch_list_put(c->new.patches);
		kfree(c);
	}
	list_for_each_entry_safe(seal, next_seal, &rp->seals, list)
		kfree(seal);
	INIT_LIST_HEAD(&rp->changes);
	INIT_LIST_HEAD(&rp->seals);
}

/* The class of the volume that has the block with @key, or NULL. */
static struct fusion_class *replay_class(struct replay *rp, u64 key)
{
	struct fusion_disk_volume disk;
	unsigned int class;

	if (fusion_md_get_volume(rp->pool->md, key >> FUSION_BLOCK_BITS, &disk) ||
	    (key & (FUSION_MAX_BLOCKS - 1)) >= le64_to_cpu(disk.blocks))
		return NULL;
	class = le16_to_cpu(disk.class);
	return class < FUSION_MAX_CLASSES ? rp->space->class[class] : NULL;
}

static bool replay_adopt(struct replay *rp, struct fusion_class *class, u64 place)
{
	return !place || !fusion_space_adopt(rp->space, class, fusion_place_stripe(place));
}

/* Can the pool have @place, those of replicas, from now on? */
static bool replay_replicas(struct replay *rp, struct fusion_class *class, const u64 *place)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_REPLICAS; i++)
		if (!replay_adopt(rp, class, place[i]))
			return false;
	return fusion_space_replicas_ok(rp->space, class, place);
}

/* And all that the entry says of its block? */
static bool replay_entry_ok(struct replay *rp, struct fusion_class *class)
{
	const struct fusion_journal_entry *e = &rp->entry;
	const struct fusion_patches *patches = &e->patches.patches;
	u64 place[FUSION_MAX_REPLICAS];
	unsigned int i;

	if (e->value && (!replay_adopt(rp, class, e->value) ||
			 !fusion_space_base_ok(rp->space, class, e->value)))
		return false;
	if (e->kind == FUSION_JOURNAL_TOP)
		return replay_replicas(rp, class, e->top.place);
	for (i = 0; e->kind == FUSION_JOURNAL_PATCHES && i < hweight64(patches->mask); i++) {
		fusion_patch_slots(&patches->patch[i], place);
		if (!replay_replicas(rp, class, place))
			return false;
	}
	return true;
}

static struct fusion_patch_list *replay_patches(struct replay *rp,
						const struct fusion_patches *patches)
{
	struct fusion_patch_list *list = fusion_patch_list_alloc(rp->map.block_pages, GFP_KERNEL);

	if (!list)
		return NULL;
	fusion_patches_add(&list->patches, patches, 0, NULL);
	list->patches.generation = patches->generation;
	return list;
}

/* What the entry says of a block. */
static int replay_change(struct replay *rp)
{
	const struct fusion_journal_entry *e = &rp->entry;
	struct fusion_class *class = replay_class(rp, e->key);
	struct fusion_change *c;

	if (!class || !replay_entry_ok(rp, class))
		return -EINVAL;
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;
	c->key = e->key;
	c->seq = e->order;
	c->new.base = e->value;
	if (e->kind == FUSION_JOURNAL_TOP)
		c->new.top = e->top;
	list_add_tail(&c->list, &rp->changes);
	if (e->kind != FUSION_JOURNAL_PATCHES)
		return 0;
	c->new.patches = replay_patches(rp, &e->patches.patches);
	return c->new.patches ? 0 : -ENOMEM;
}

/* ---- what the btrees have ---- */

static int replay_old_base(struct replay *rp, u32 volume, u64 block, u64 *place)
{
	struct fusion_disk_base base;
	int r;

	r = fusion_md_get_base(rp->pool->md, volume, block >> FUSION_GROUP_SHIFT, &base);
	if (!r)
		*place = le64_to_cpu(base.place[block & (FUSION_GROUP_BLOCKS - 1)]);
	return r;
}

static int replay_old_top(struct replay *rp, u32 volume, struct fusion_class *class, u64 block,
			  struct fusion_top *top)
{
	struct fusion_disk_top disk;
	u64 at = block;
	int r;

	r = fusion_md_next_top(rp->pool->md, volume, &at, &disk);
	if (r || at != block)
		return r == -ENODATA ? 0 : r;
	return fusion_space_decode_top(rp->space, class, &disk, top);
}

static int replay_old_patches(struct replay *rp, u32 volume, struct fusion_class *class,
			      u64 block, struct fusion_patch_list **list)
{
	struct fusion_patches *patches = &rp->entry.patches.patches;
	u64 at = block;
	int r;

	r = fusion_space_next_patches(rp->space, volume, class, &at, patches);
	if (r || at != block)
		return r == -ENODATA ? 0 : r;
	*list = replay_patches(rp, patches);
	return *list ? 0 : -ENOMEM;
}

/* Where the block of @c is by the open transaction. */
static int replay_old(struct replay *rp, struct fusion_change *c)
{
	struct fusion_class *class = replay_class(rp, c->key);
	u32 volume = c->key >> FUSION_BLOCK_BITS;
	u64 block = c->key & (FUSION_MAX_BLOCKS - 1);
	int r;

	r = replay_old_base(rp, volume, block, &c->old.base);
	if (!r && c->old.base && !fusion_space_base_ok(rp->space, class, c->old.base))
		r = -EINVAL;
	if (!r)
		r = replay_old_top(rp, volume, class, block, &c->old.top);
	if (!r)
		r = replay_old_patches(rp, volume, class, block, &c->old.patches);
	return r;
}

/* Of each change what was before it. */
static int replay_chain(struct replay *rp)
{
	struct fusion_change *c, *before = NULL;
	int r = 0;

	list_sort(NULL, &rp->changes, fusion_change_cmp);
	list_for_each_entry(c, &rp->changes, list) {
		if (before && before->key == c->key) {
			c->old = before->new;
			c->old.patches = fusion_patch_list_get(before->new.patches);
		} else {
			r = replay_old(rp, c);
		}
		if (r)
			break;
		before = c;
	}
	return r;
}

/* ---- applying ---- */

/* The counts of volumes are not in core yet. */
static void replay_count(void *context, u32 volume, const struct fusion_map_counts *counts)
{
	struct replay *rp = context;
	struct fusion_disk_volume disk;
	int r;

	if (!counts->mapped && !counts->tops && !counts->patched)
		return;
	r = fusion_md_get_volume(rp->pool->md, volume, &disk);
	if (!r) {
		le64_add_cpu(&disk.mapped, counts->mapped);
		le64_add_cpu(&disk.tops, counts->tops);
		le64_add_cpu(&disk.patched, counts->patched);
		r = fusion_md_put_volume(rp->pool->md, volume, &disk);
	}
	if (r)
		rp->count_error = r;
}

/* What the entry says of a stripe. */
static int replay_seal(struct replay *rp)
{
	struct fusion_seal *seal = kzalloc(sizeof(*seal), GFP_KERNEL);

	if (!seal)
		return -ENOMEM;
	seal->stripe = rp->entry.key;
	seal->written = rp->entry.value;
	list_add_tail(&seal->list, &rp->seals);
	return 0;
}

static int replay_apply_seal(struct replay *rp, const struct fusion_seal *seal)
{
	u64 stripe = seal->stripe;

	if (stripe >= 1ULL << FUSION_STRIPE_BITS ||
	    !fusion_space_place_ok(rp->space, fusion_place(stripe, 0)) ||
	    seal->written & ~fusion_mask(0, fusion_space_class_of(rp->space, stripe)->d))
		return -EINVAL;
	return fusion_ledger_seal(&rp->ledger, stripe, seal->written);
}

/* All that has been collected, of an epoch. */
static int replay_apply(struct replay *rp)
{
	const struct fusion_seal *seal;
	int r;

	r = replay_chain(rp);
	if (!r)
		r = fusion_map_apply(&rp->map, &rp->ledger, &rp->changes, replay_count, rp);
	if (!r)
		r = rp->count_error;
	list_for_each_entry(seal, &rp->seals, list)
		if (!r)
			r = replay_apply_seal(rp, seal);
	if (!r)
		r = fusion_ledger_finish(&rp->ledger);
	return r;
}

/* The entries of a record, which is @bytes long.  *@more: the next belongs to it. */
static int replay_collect(struct replay *rp, u32 bytes, bool *more)
{
	struct fusion_journal_reader reader;
	int r;

	fusion_journal_read(&reader, rp->data, bytes, rp->pool->block_pages);
	*more = reader.more;
	for (;;) {
		r = fusion_journal_next(&reader, &rp->entry);
		if (r)
			return r == -ENODATA ? 0 : r;
		r = rp->entry.kind == FUSION_JOURNAL_SEAL ? replay_seal(rp) : replay_change(rp);
		if (r)
			return r;
	}
}

/* The record in rp->data, @bytes long; *@epochs counts those that are whole with it. */
static int replay_record(struct replay *rp, u32 bytes, unsigned int *epochs)
{
	struct fusion_md_super *super = fusion_md_super(rp->pool->md);
	bool more;
	int r;

	r = replay_collect(rp, bytes, &more);
	if (r || more)
		return r;
	r = replay_apply(rp);
	replay_forget(rp);
	super->journal_sequence = rp->sequence;
	super->journal_at = rp->at;
	++*epochs;
	return r;
}

/* Nothing more was found: is there nothing more? */
static int replay_not_stale(const struct replay *rp)
{
	if (!rp->stale)
		return 0;
	DMERR("%pg: the journal goes on after a commit that this metadata does not have: if there is no newer metadata, see fusion repair --discard-journal",
	      rp->pool->metadata_bdev);
	return -ESTALE;
}

/* And all that come after it. */
static int replay_records(struct replay *rp, u32 bytes, unsigned int *epochs)
{
	int r = 0;

	while (bytes) {
		r = replay_record(rp, bytes, epochs);
		if (r)
			break;
		bytes = replay_find(rp);
	}
	if (r)
		DMERR("%pg: record %llx of the journal does not fit the metadata (%d): check that, and see fusion repair --discard-journal",
		      rp->pool->metadata_bdev, rp->sequence - 1, r);
	else
		r = replay_not_stale(rp);
	/* what is left has no end: nobody was told that it is durable */
	replay_forget(rp);
	return r;
}

static int replay_commit(struct replay *rp, u32 bytes)
{
	unsigned int epochs = 0;
	int r;

	r = replay_records(rp, bytes, &epochs);
	if (!r)
		r = fusion_md_commit(rp->pool->md);
	if (!r)
		DMINFO("%pg: what the journal had of %u epochs has been replayed",
		       rp->pool->metadata_bdev, epochs);
	return r;
}

/* With a space of its own. */
static int replay_all(struct replay *rp, u32 bytes)
{
	struct fusion_pool *pool = rp->pool;
	struct fusion_space *s = rp->space;
	int r;

	s->layout = pool->layout;
	s->old_layout = &pool->layouts[1];
	s->member = pool->member;
	s->monitor = &pool->monitor;
	s->md = pool->md;
	s->block_sectors = pool->block_sectors;
	fusion_set_table_init(s);
	r = fusion_space_init(s);
	if (r)
		return r;
	rp->map.md = pool->md;
	rp->map.block_pages = pool->block_pages;
	r = fusion_ledger_init(&rp->ledger, s);
	if (!r) {
		r = replay_commit(rp, bytes);
		fusion_ledger_exit(&rp->ledger);
	}
	fusion_space_exit(s);
	return r;
}

int fusion_journal_replay(struct fusion_pool *pool, char **error)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	struct replay *rp;
	int r = -ENOMEM;
	u32 bytes;

	if (!super->journal_sectors)
		return 0;
	*error = "Out of memory";
	rp = kvzalloc(sizeof(*rp), GFP_KERNEL);
	if (!rp)
		return -ENOMEM;
	rp->pool = pool;
	rp->sequence = super->journal_sequence;
	rp->at = super->journal_at;
	INIT_LIST_HEAD(&rp->changes);
	INIT_LIST_HEAD(&rp->seals);
	rp->space = kvzalloc(sizeof(*rp->space), GFP_KERNEL);
	rp->data = alloc_pages_exact(FUSION_JOURNAL_MAX, GFP_KERNEL);
	if (!rp->space || !rp->data)
		goto out;
	*error = "Could not replay the journal";
	bytes = replay_find(rp);
	r = replay_not_stale(rp);
	if (bytes && fusion_md_read_only(pool->md)) {
		DMERR("%pg: the journal has records that are newer than what is read from this metadata, until it has been checked",
		      pool->metadata_bdev);
	} else if (bytes) {
		r = replay_all(rp, bytes);
	}
out:
	if (rp->data)
		free_pages_exact(rp->data, FUSION_JOURNAL_MAX);
	kvfree(rp->space);
	kvfree(rp);
	return r;
}
