// SPDX-License-Identifier: GPL-2.0-only
/*
 * Metadata: btrees over dm-persistent-data.  See metadata.h.
 */
#include <linux/device-mapper.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#include "persistent-data/dm-btree-internal.h"
#include "persistent-data/dm-space-map.h"
#include "persistent-data/dm-transaction-manager.h"

#include "member.h"
#include "metadata.h"
#include "patch.h"

#define DM_MSG_PREFIX "fusion metadata"

#define MD_SUPER_LOCATION	0
#define MD_MAX_LOCKS		6
/* Levels that a tree may have. */
#define MD_MAX_DEPTH		16
/* Of the checksum of dm-persistent-data's nodes. */
#define MD_NODE_CSUM_XOR	121107
#define MD_MAX_SECTORS		(255UL * (1UL << 14) * \
				 (FUSION_META_BLOCK_BYTES / 512))

/* But patches: those are as long as the pool's blocks need. */
static const u32 md_value_bytes[FUSION_TREES] = {
	[FUSION_TREE_VOLUMES] = sizeof(struct fusion_disk_volume),
	[FUSION_TREE_BANDS] = sizeof(struct fusion_disk_band),
	[FUSION_TREE_STRIPES] = sizeof(struct fusion_disk_stripe),
	[FUSION_TREE_BASE] = sizeof(struct fusion_disk_base),
	[FUSION_TREE_TOPS] = sizeof(struct fusion_disk_top),
	[FUSION_TREE_ROWS] = sizeof(struct fusion_disk_row),
};

/* Of any tree. */
#define MD_MAX_VALUE_BYTES	sizeof(struct fusion_disk_base)

struct fusion_md {
	struct block_device *bdev;
	struct dm_block_manager *bm;
	struct dm_space_map *sm;
	struct dm_transaction_manager *tm;
	struct dm_transaction_manager *nb_tm;	/* never blocks */
	struct dm_btree_info info[FUSION_TREES];
	struct dm_btree_info nb_info[FUSION_TREES];

	/* The open transaction. */
	u64 root[FUSION_TREES];
	struct fusion_md_super super;
	u32 block_pages;
	bool broken;		/* this transaction must not be used */
	bool read_only;		/* broken, or needs_check when it was opened */

	/* The last commit: readers hold the semaphore, a commit swaps roots. */
	struct rw_semaphore committed_lock;
	dm_block_t committed[FUSION_TREES];
	/* Its superblock, and the one that is being made. */
	struct fusion_disk_super disk;
	struct fusion_disk_super next;
	struct page *page;		/* to read or write one */
};

/* ---- superblock ---- */

/* Of the whole block. */
static __le32 super_csum(const struct fusion_disk_super *disk)
{
	return cpu_to_le32(dm_bm_checksum(&disk->flags,
					  FUSION_META_BLOCK_BYTES - sizeof(__le32),
					  FUSION_SUPER_CSUM_XOR));
}

static int super_io(struct fusion_md *md, blk_opf_t opf)
{
	return fusion_page_io(md->bdev,
			      MD_SUPER_LOCATION * (FUSION_META_BLOCK_BYTES / 512),
			      md->page, FUSION_META_BLOCK_BYTES, opf);
}

/*
 * Past the block manager, which writes and then flushes: of md's RAID-1, where the
 * metadata of a pool usually is, a flush succeeds even if no leg has done it.  A
 * write with FUA does not.
 */
static int super_write(struct fusion_md *md, const struct fusion_disk_super *super)
{
	struct fusion_disk_super *disk = page_address(md->page);

	clear_page(disk);
	*disk = *super;
	disk->blocknr = cpu_to_le64(MD_SUPER_LOCATION);
	disk->csum = super_csum(disk);
	return super_io(md, REQ_OP_WRITE | REQ_FUA);
}

/* Is what has been read one? */
static int super_check(const struct fusion_disk_super *disk)
{
	if (le64_to_cpu(disk->blocknr) != MD_SUPER_LOCATION) {
		DMERR("superblock is not in its place");
		return -ENOTBLK;
	}
	if (le64_to_cpu(disk->magic) != FUSION_SUPER_MAGIC) {
		DMERR("superblock has a wrong magic number");
		return -EILSEQ;
	}
	if (disk->csum != super_csum(disk)) {
		DMERR("superblock has a wrong checksum");
		return -EILSEQ;
	}
	return 0;
}

/* ---- transactions ---- */

static int md_save_space_map(struct fusion_md *md, u8 *root)
{
	size_t bytes;
	int r;

	r = dm_sm_root_size(md->sm, &bytes);
	if (r < 0)
		return r;
	if (bytes > FUSION_SPACE_MAP_ROOT_BYTES)
		return -EINVAL;
	return dm_sm_copy_root(md->sm, root, bytes);
}

static int md_commit(struct fusion_md *md)
{
	struct fusion_disk_super *disk = &md->next;
	struct dm_block *b;
	int r;

	r = dm_tm_pre_commit(md->tm);
	if (r < 0)
		return r;
	*disk = md->disk;
	fusion_super_encode(&md->super, md->root, disk);
	r = md_save_space_map(md, disk->space_map_root);
	if (r < 0)
		return r;
	le64_add_cpu(&disk->transaction_id, 1);
	/* what dm_tm_commit() wants to unlock; what the block manager reads is not used */
	r = dm_bm_read_lock(md->bm, MD_SUPER_LOCATION, NULL, &b);
	if (r < 0)
		return r;
	r = super_write(md, disk);
	if (r) {
		dm_bm_unlock(b);
		return r;
	}
	r = dm_tm_commit(md->tm, b);
	if (!r)
		md->disk = *disk;
	return r;
}

static void md_publish(struct fusion_md *md)
{
	/* Waits for the readers of the roots that are about to be reused. */
	down_write(&md->committed_lock);
	memcpy(md->committed, md->root, sizeof(md->root));
	up_write(&md->committed_lock);
}

/*
 * The one door for metadata errors.  The superblock of the last commit is
 * written once more with needs_check; the broken transaction's blocks are free
 * space in it.
 */
static int md_break(struct fusion_md *md, int r)
{
	if (md->broken)
		return r;
	DMERR("%pg: metadata operation failed (%d): the pool is read-only now",
	      md->bdev, r);
	WRITE_ONCE(md->read_only, true);
	md->broken = true;
	md->super.flags |= FUSION_SUPER_NEEDS_CHECK;
	md->disk.flags |= cpu_to_le32(FUSION_SUPER_NEEDS_CHECK);
	if (super_write(md, &md->disk))
		DMERR("%pg: could not record needs_check", md->bdev);
	dm_bm_set_read_only(md->bm);
	return r;
}

int fusion_md_commit(struct fusion_md *md)
{
	int r;

	if (md->read_only)
		return -EIO;
	r = md_commit(md);
	if (r < 0)
		return md_break(md, r);
	md_publish(md);
	return 0;
}

/* ---- opening ---- */

static void md_setup_trees(struct fusion_md *md)
{
	int i;

	for (i = 0; i < FUSION_TREES; i++) {
		struct dm_btree_info *info = &md->info[i];

		info->tm = md->tm;
		info->levels = 1;
		info->value_type.size = i == FUSION_TREE_PATCHES ?
			fusion_patches_bytes(md->block_pages) :
			md_value_bytes[i];
		md->nb_info[i] = *info;
		md->nb_info[i].tm = md->nb_tm;
	}
}

static int md_clone_tm(struct fusion_md *md)
{
	md->nb_tm = dm_tm_create_non_blocking_clone(md->tm);
	if (!md->nb_tm)
		return -ENOMEM;
	md_setup_trees(md);
	return 0;
}

static int md_format(struct fusion_md *md, const struct fusion_md_config *config,
		     char **error)
{
	const struct fusion_layout *l = config->layout;
	struct fusion_disk_super *disk = &md->disk;
	struct fusion_md_super *s = &md->super;
	u64 blocks = bdev_nr_sectors(md->bdev);
	u64 bands;
	u32 i;
	int r;

	if (config->states_generation) {
		*error = "Metadata is empty, but the members have been used with some";
		return -EINVAL;
	}
	if (config->incomplete) {
		*error = "A new pool needs all its members";
		return -EINVAL;
	}
	s->band_units = fusion_band_units(l, config->member_chunks);
	if (!s->band_units) {
		*error = "Members are too small for one band";
		return -ENOSPC;
	}
	bands = config->member_chunks / fusion_band_chunks(l, s->band_units);
	s->bands = min_t(u64, bands, FUSION_MAX_BANDS);
	s->flags = FUSION_SUPER_CLEAN;
	s->states_generation = 1;
	if (config->labelled)
		s->compat = FUSION_COMPAT_LABELLED;

	*error = "Could not format the metadata";
	r = dm_tm_create_with_sm(md->bm, MD_SUPER_LOCATION, &md->tm, &md->sm);
	if (r < 0) {
		md->tm = NULL;
		md->sm = NULL;
		return r;
	}
	r = md_clone_tm(md);
	if (r < 0)
		return r;
	for (i = 0; i < FUSION_TREES; i++) {
		/* made with the first: see md_put() */
		if (i == FUSION_TREE_PATCHES || i == FUSION_TREE_ROWS)
			continue;
		r = dm_btree_empty(&md->info[i], &md->root[i]);
		if (r < 0)
			return r;
	}

	memcpy(disk->pool_uuid, config->pool_uuid, FUSION_UUID_BYTES);
	disk->magic = cpu_to_le64(FUSION_SUPER_MAGIC);
	disk->version = cpu_to_le32(FUSION_FORMAT_VERSION);
	disk->metadata_block_sectors = cpu_to_le32(FUSION_META_BLOCK_BYTES / 512);
	disk->shards = cpu_to_le32(1);
	blocks = min_t(u64, blocks, MD_MAX_SECTORS);
	disk->metadata_blocks = cpu_to_le64(blocks / (FUSION_META_BLOCK_BYTES / 512));
	disk->layout = cpu_to_le32(FUSION_LAYOUT_MOLS);
	disk->members = cpu_to_le16(l->n);
	disk->spares = cpu_to_le16(l->spares);
	disk->block_sectors = cpu_to_le32(config->block_sectors);
	for (i = 0; i < l->n; i++)
		memcpy(disk->member[i].uuid, config->member_uuid[i],
		       FUSION_UUID_BYTES);
	return md_commit(md);
}

/*
 * Is @node what dm-persistent-data takes for a node?  Others are found when they are read: no
 * more than what is of them is lost.
 */
static bool md_node_readable(const struct btree_node *node, dm_block_t block)
{
	const struct node_header *h = &node->header;
	u32 value = le32_to_cpu(h->value_size);

	return le64_to_cpu(h->blocknr) == block &&
		le32_to_cpu(h->csum) ==
		dm_bm_checksum((void *)&h->flags, FUSION_META_BLOCK_BYTES - sizeof(h->csum),
			       MD_NODE_CSUM_XOR) &&
		value <= FUSION_META_BLOCK_BYTES && (sizeof(__le64) + (u64)value) *
		le32_to_cpu(h->max_entries) <= FUSION_META_BLOCK_BYTES - sizeof(*h);
}

/* Is @node one of @tree?  *@child: its first one, or 0. */
static bool md_node_ok(struct fusion_md *md, enum fusion_tree tree,
		       struct btree_node *node, dm_block_t *child)
{
	const struct node_header *h = &node->header;
	bool inner = le32_to_cpu(h->flags) & INTERNAL_NODE;

	*child = 0;
	if (le32_to_cpu(h->value_size) !=
	    (inner ? sizeof(__le64) : md->info[tree].value_type.size))
		return false;
	if (inner && h->max_entries)
		*child = value64(node, 0);
	return !inner || (h->nr_entries && *child);
}

/*
 * Of a node dm-persistent-data looks at little but the checksum: of values of another size
 * than the tree's it reads, and writes, what is behind the block, and where a node is below
 * itself it goes round for ever.  A root that is not that of its tree would be so: look at
 * the nodes from there to the first leaf.
 */
static bool md_tree_ok(struct fusion_md *md, enum fusion_tree tree)
{
	dm_block_t block = md->root[tree], child;
	struct dm_block *b;
	unsigned int depth;
	bool ok;

	/* made with the first: see md_put() */
	if (!block)
		return tree == FUSION_TREE_PATCHES || tree == FUSION_TREE_ROWS;
	for (depth = 0; depth < MD_MAX_DEPTH; depth++) {
		/* without its validator, which is not exported; it checks who reads it */
		if (dm_bm_read_lock(md->bm, block, NULL, &b))
			return true;
		child = 0;
		ok = !md_node_readable(dm_block_data(b), block) ||
			md_node_ok(md, tree, dm_block_data(b), &child);
		dm_bm_unlock(b);
		if (!ok || !child)
			return ok;
		block = child;
	}
	return false;
}

static int md_check_trees(struct fusion_md *md, char **error)
{
	unsigned int i;

	for (i = 0; i < FUSION_TREES; i++) {
		if (md_tree_ok(md, i))
			continue;
		fusion_md_damaged(md, "root %llu is not that of tree %u", md->root[i], i);
		*error = "Metadata has a damaged root: run fusion check";
		return -EINVAL;
	}
	return 0;
}

/* The superblock has been read. */
static int md_load(struct fusion_md *md, const struct fusion_md_config *config,
		   char **error)
{
	char *wrong;
	int r;

	r = super_check(page_address(md->page));
	if (r < 0) {
		*error = "Superblock of the metadata is damaged or of something else";
		return r;
	}
	memcpy(&md->disk, page_address(md->page), sizeof(md->disk));
	wrong = fusion_super_verify(&md->disk, config);
	if (wrong) {
		*error = wrong;
		return -EINVAL;
	}
	if (le64_to_cpu(md->disk.metadata_blocks) >
	    bdev_nr_sectors(md->bdev) / (FUSION_META_BLOCK_BYTES / 512)) {
		*error = "Metadata device is smaller than it was";
		return -EINVAL;
	}
	fusion_super_decode(&md->disk, &md->super, md->root);
	r = dm_tm_open_with_sm(md->bm, MD_SUPER_LOCATION,
			       md->disk.space_map_root,
			       sizeof(md->disk.space_map_root),
			       &md->tm, &md->sm);
	if (r < 0) {
		md->tm = NULL;
		md->sm = NULL;
		*error = "Space map of the metadata is damaged";
		return r;
	}
	*error = "Out of memory";
	r = md_clone_tm(md);
	return r ? r : md_check_trees(md, error);
}

static void md_destroy(struct fusion_md *md)
{
	if (md->sm)
		dm_sm_destroy(md->sm);
	if (md->nb_tm)
		dm_tm_destroy(md->nb_tm);
	if (md->tm)
		dm_tm_destroy(md->tm);
	if (!IS_ERR_OR_NULL(md->bm))
		dm_block_manager_destroy(md->bm);
	if (md->page)
		__free_page(md->page);
	kfree(md);
}

struct fusion_md *fusion_md_open(struct block_device *bdev,
				 const struct fusion_md_config *config,
				 char **error)
{
	struct fusion_md *md;
	int r;

	BUILD_BUG_ON(sizeof(struct fusion_disk_super) > FUSION_META_BLOCK_BYTES);
	BUILD_BUG_ON(FUSION_META_BLOCK_BYTES > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct fusion_disk_label) != FUSION_LABEL_BYTES);
	BUILD_BUG_ON(sizeof(struct fusion_disk_class) != 8);
	BUILD_BUG_ON(sizeof(struct fusion_disk_member) != 32);
	BUILD_BUG_ON(sizeof(struct fusion_disk_volume) != 120);
	BUILD_BUG_ON(sizeof(struct fusion_disk_band) != 8);
	BUILD_BUG_ON(sizeof(struct fusion_disk_stripe) != 40);
	BUILD_BUG_ON(sizeof(struct fusion_disk_base) != 512);
	BUILD_BUG_ON(sizeof(struct fusion_disk_top) != 40);
	BUILD_BUG_ON(sizeof(struct fusion_disk_patches) != 16);
	BUILD_BUG_ON(sizeof(struct fusion_disk_patch) != 24);
	BUILD_BUG_ON(sizeof(struct fusion_disk_row) != 112);

	md = kzalloc(sizeof(*md), GFP_KERNEL);
	if (!md) {
		*error = "Out of memory";
		return ERR_PTR(-ENOMEM);
	}
	md->bdev = bdev;
	md->block_pages = config->block_sectors / FUSION_PAGE_SECTORS;
	init_rwsem(&md->committed_lock);
	md->page = alloc_page(GFP_KERNEL);
	if (!md->page) {
		*error = "Out of memory";
		r = -ENOMEM;
		goto bad;
	}

	md->bm = dm_block_manager_create(bdev, FUSION_META_BLOCK_BYTES,
					 MD_MAX_LOCKS);
	if (IS_ERR(md->bm)) {
		*error = "Could not create the metadata's block manager";
		r = PTR_ERR(md->bm);
		goto bad;
	}
	r = super_io(md, REQ_OP_READ);
	if (r < 0) {
		*error = "Could not read the metadata device";
		goto bad;
	}
	if (memchr_inv(page_address(md->page), 0, FUSION_META_BLOCK_BYTES))
		r = md_load(md, config, error);
	else
		r = md_format(md, config, error);
	if (r < 0)
		goto bad;
	memcpy(md->committed, md->root, sizeof(md->root));
	if (md->super.flags & FUSION_SUPER_NEEDS_CHECK) {
		DMWARN("%pg: metadata needs a check: the pool starts read-only",
		       bdev);
		md->read_only = true;
		dm_bm_set_read_only(md->bm);
	}
	return md;

bad:
	md_destroy(md);
	return ERR_PTR(r);
}

void fusion_md_close(struct fusion_md *md)
{
	md_destroy(md);
}

struct fusion_md_super *fusion_md_super(struct fusion_md *md)
{
	return &md->super;
}

u64 fusion_md_transaction_id(struct fusion_md *md)
{
	return le64_to_cpu(md->disk.transaction_id);
}

void fusion_md_damaged(struct fusion_md *md, const char *format, ...)
{
	struct va_format text = { .fmt = format };
	va_list args;

	va_start(args, format);
	text.va = &args;
	DMERR_LIMIT("%pg: metadata is damaged: %pV: stop the pool, and run fusion check",
		    md->bdev, &text);
	va_end(args);
}

bool fusion_md_read_only(struct fusion_md *md)
{
	return READ_ONCE(md->read_only);
}

int fusion_md_usage(struct fusion_md *md, u64 *free_blocks, u64 *blocks)
{
	dm_block_t n;
	int r;

	r = dm_sm_get_nr_free(md->sm, &n);
	if (r)
		return r;
	*free_blocks = n;
	r = dm_sm_get_nr_blocks(md->sm, &n);
	*blocks = n;
	return r;
}

bool fusion_md_same_members(struct fusion_md *md, const u8 *pool_uuid,
			    const u8 uuid[][FUSION_UUID_BYTES])
{
	return !memcmp(md->disk.pool_uuid, pool_uuid, FUSION_UUID_BYTES) &&
		fusion_super_has_members(&md->disk, uuid);
}

const u8 *fusion_md_member_uuid(struct fusion_md *md, unsigned int i)
{
	return md->disk.member[i].uuid;
}

void fusion_md_replace_member(struct fusion_md *md, unsigned int i, const u8 *uuid)
{
	memcpy(md->disk.member[i].uuid, uuid, FUSION_UUID_BYTES);
}

void fusion_md_set_members(struct fusion_md *md, unsigned int members)
{
	md->disk.members = cpu_to_le16(members);
}

void fusion_md_pool_uuid(struct fusion_md *md, u8 *uuid)
{
	memcpy(uuid, md->disk.pool_uuid, FUSION_UUID_BYTES);
}

/* ---- readers ---- */

int fusion_md_read_begin(struct fusion_md *md, bool may_block)
{
	if (may_block)
		down_read(&md->committed_lock);
	else if (!down_read_trylock(&md->committed_lock))
		return -EWOULDBLOCK;
	return 0;
}

void fusion_md_read_end(struct fusion_md *md)
{
	up_read(&md->committed_lock);
}

static struct dm_btree_info *md_reader(struct fusion_md *md, bool may_block,
				       enum fusion_tree tree)
{
	return may_block ? &md->info[tree] : &md->nb_info[tree];
}

int fusion_md_read_base(struct fusion_md *md, bool may_block, u32 volume,
			u64 group, struct fusion_disk_base *base)
{
	u64 key = fusion_block_key(volume, group);
	int r;

	r = dm_btree_lookup(md_reader(md, may_block, FUSION_TREE_BASE),
			    md->committed[FUSION_TREE_BASE], &key, base);
	if (r == -ENODATA) {
		memset(base, 0, sizeof(*base));
		r = 0;
	}
	return r;
}

/* The next value of a tree whose keys are (volume, number). */
static int md_next(struct dm_btree_info *info, dm_block_t root, u32 volume,
		   u64 *number, u64 end, void *value)
{
	u64 key = fusion_block_key(volume, *number), found;
	int r;

	/* behind the last number that a key has room for it would begin anew */
	if (!root || *number >= FUSION_MAX_BLOCKS)
		return -ENODATA;
	r = dm_btree_lookup_next(info, root, &key, &found, value);
	if (r)
		return r;
	if (found - fusion_block_key(volume, 0) >= end)
		return -ENODATA;
	*number = found & (FUSION_MAX_BLOCKS - 1);
	return 0;
}

int fusion_md_read_stripe(struct fusion_md *md, u64 stripe,
			  struct fusion_disk_stripe *disk)
{
	int r;

	down_read(&md->committed_lock);
	r = dm_btree_lookup(&md->info[FUSION_TREE_STRIPES],
			    md->committed[FUSION_TREE_STRIPES], &stripe, disk);
	up_read(&md->committed_lock);
	return r;
}

int fusion_md_read_rows(struct fusion_md *md, u64 stripe, unsigned int first,
			unsigned int count)
{
	u64 from = fusion_row_key(stripe, first), found;
	struct fusion_disk_row row;
	int r = -ENODATA;

	down_read(&md->committed_lock);
	if (md->committed[FUSION_TREE_ROWS])
		r = dm_btree_lookup_next(&md->info[FUSION_TREE_ROWS],
					 md->committed[FUSION_TREE_ROWS], &from,
					 &found, &row);
	up_read(&md->committed_lock);
	/* behind the last page of a stripe there may be the first of the next */
	if (!r && found >= from + ((u64)count << FUSION_PART_BITS))
		r = -ENODATA;
	return r;
}

int fusion_md_read_next_top(struct fusion_md *md, bool may_block, u32 volume,
			    u64 *block, u64 end, struct fusion_disk_top *top)
{
	return md_next(md_reader(md, may_block, FUSION_TREE_TOPS),
		       md->committed[FUSION_TREE_TOPS], volume, block, end, top);
}

int fusion_md_read_next_patches(struct fusion_md *md, bool may_block, u32 volume,
				u64 *block, u64 end,
				struct fusion_disk_patches *patches)
{
	return md_next(md_reader(md, may_block, FUSION_TREE_PATCHES),
		       md->committed[FUSION_TREE_PATCHES], volume, block, end,
		       patches);
}

int fusion_md_read_next_base(struct fusion_md *md, bool may_block, u32 volume,
			     u64 *group, struct fusion_disk_base *base)
{
	return md_next(md_reader(md, may_block, FUSION_TREE_BASE),
		       md->committed[FUSION_TREE_BASE], volume, group,
		       FUSION_MAX_BLOCKS, base);
}

/* ---- writer ---- */

static int md_get(struct fusion_md *md, enum fusion_tree tree, u64 key, void *value)
{
	if (md->broken)
		return -EIO;
	if (!md->root[tree])
		return -ENODATA;
	return dm_btree_lookup(&md->info[tree], md->root[tree], &key, value);
}

static int md_put(struct fusion_md *md, enum fusion_tree tree, u64 key, void *value)
	__dm_written_to_disk(value)
{
	int r = 0;

	if (md->read_only) {
		__dm_unbless_for_disk(value);
		return -EIO;
	}
	if (!md->root[tree])
		r = dm_btree_empty(&md->info[tree], &md->root[tree]);
	if (r) {
		__dm_unbless_for_disk(value);
		return md_break(md, r);
	}
	r = dm_btree_insert(&md->info[tree], md->root[tree], &key, value,
			    &md->root[tree]);
	return r ? md_break(md, r) : 0;
}

/*
 * Removing an absent key would shadow the root and leave the new one unset:
 * look first.
 */
static int md_remove(struct fusion_md *md, enum fusion_tree tree, u64 key)
{
	u8 value[MD_MAX_VALUE_BYTES];
	int r;

	BUILD_BUG_ON(sizeof(struct fusion_disk_volume) > sizeof(value));
	BUILD_BUG_ON(sizeof(union fusion_disk_patches_room) > sizeof(value));
	BUILD_BUG_ON(sizeof(struct fusion_disk_row) > sizeof(value));
	if (md->read_only)
		return -EIO;
	r = md_get(md, tree, key, value);
	if (r)
		return r == -ENODATA ? 0 : r;
	r = dm_btree_remove(&md->info[tree], md->root[tree], &key,
			    &md->root[tree]);
	return r ? md_break(md, r) : 0;
}

static int md_find(struct fusion_md *md, enum fusion_tree tree, u32 volume,
		   u64 *number, void *value)
{
	if (md->broken)
		return -EIO;
	return md_next(&md->info[tree], md->root[tree], volume, number,
		       FUSION_MAX_BLOCKS, value);
}

int fusion_md_get_base(struct fusion_md *md, u32 volume, u64 group,
		       struct fusion_disk_base *base)
{
	int r = md_get(md, FUSION_TREE_BASE, fusion_block_key(volume, group), base);

	if (r == -ENODATA) {
		memset(base, 0, sizeof(*base));
		r = 0;
	}
	return r;
}

int fusion_md_put_base(struct fusion_md *md, u32 volume, u64 group,
		       struct fusion_disk_base *base)
{
	u64 key = fusion_block_key(volume, group);

	if (!memchr_inv(base, 0, sizeof(*base)))
		return md_remove(md, FUSION_TREE_BASE, key);
	__dm_bless_for_disk(base);
	return md_put(md, FUSION_TREE_BASE, key, base);
}

int fusion_md_next_base(struct fusion_md *md, u32 volume, u64 *group,
			struct fusion_disk_base *base)
{
	return md_find(md, FUSION_TREE_BASE, volume, group, base);
}

int fusion_md_put_top(struct fusion_md *md, u32 volume, u64 block,
		      struct fusion_disk_top *top)
{
	u64 key = fusion_block_key(volume, block);

	if (!top)
		return md_remove(md, FUSION_TREE_TOPS, key);
	__dm_bless_for_disk(top);
	return md_put(md, FUSION_TREE_TOPS, key, top);
}

int fusion_md_next_top(struct fusion_md *md, u32 volume, u64 *block,
		       struct fusion_disk_top *top)
{
	return md_find(md, FUSION_TREE_TOPS, volume, block, top);
}

int fusion_md_put_patches(struct fusion_md *md, u32 volume, u64 block,
			  struct fusion_disk_patches *patches)
{
	u64 key = fusion_block_key(volume, block);

	if (!patches)
		return md_remove(md, FUSION_TREE_PATCHES, key);
	md->super.incompat |= FUSION_INCOMPAT_PATCHES;
	__dm_bless_for_disk(patches);
	return md_put(md, FUSION_TREE_PATCHES, key, patches);
}

int fusion_md_next_patches(struct fusion_md *md, u32 volume, u64 *block,
			   struct fusion_disk_patches *patches)
{
	return md_find(md, FUSION_TREE_PATCHES, volume, block, patches);
}

int fusion_md_put_row(struct fusion_md *md, u64 key, struct fusion_disk_row *row)
{
	if (!row)
		return md_remove(md, FUSION_TREE_ROWS, key);
	md->super.incompat |= FUSION_INCOMPAT_ROWS;
	__dm_bless_for_disk(row);
	return md_put(md, FUSION_TREE_ROWS, key, row);
}

int fusion_md_next_row(struct fusion_md *md, u64 *key, struct fusion_disk_row *row)
{
	u64 from = *key;

	if (md->broken)
		return -EIO;
	if (!md->root[FUSION_TREE_ROWS])
		return -ENODATA;
	return dm_btree_lookup_next(&md->info[FUSION_TREE_ROWS],
				    md->root[FUSION_TREE_ROWS], &from, key, row);
}

int fusion_md_get_stripe(struct fusion_md *md, u64 stripe,
			 struct fusion_disk_stripe *disk)
{
	return md_get(md, FUSION_TREE_STRIPES, stripe, disk);
}

int fusion_md_put_stripe(struct fusion_md *md, u64 stripe,
			 struct fusion_disk_stripe *disk)
{
	if (!disk)
		return md_remove(md, FUSION_TREE_STRIPES, stripe);
	__dm_bless_for_disk(disk);
	return md_put(md, FUSION_TREE_STRIPES, stripe, disk);
}

int fusion_md_next_stripe(struct fusion_md *md, u64 *stripe,
			  struct fusion_disk_stripe *disk)
{
	u64 key = *stripe;

	if (md->broken)
		return -EIO;
	return dm_btree_lookup_next(&md->info[FUSION_TREE_STRIPES],
				    md->root[FUSION_TREE_STRIPES], &key, stripe, disk);
}

int fusion_md_get_band(struct fusion_md *md, u32 band,
		       struct fusion_disk_band *disk)
{
	int r = md_get(md, FUSION_TREE_BANDS, band, disk);

	if (r == -ENODATA) {
		memset(disk, 0, sizeof(*disk));
		r = 0;
	}
	return r;
}

int fusion_md_put_band(struct fusion_md *md, u32 band,
		       struct fusion_disk_band *disk)
{
	if (!disk->used)
		return md_remove(md, FUSION_TREE_BANDS, band);
	__dm_bless_for_disk(disk);
	return md_put(md, FUSION_TREE_BANDS, band, disk);
}

int fusion_md_get_volume(struct fusion_md *md, u32 volume,
			 struct fusion_disk_volume *disk)
{
	return md_get(md, FUSION_TREE_VOLUMES, volume, disk);
}

int fusion_md_put_volume(struct fusion_md *md, u32 volume,
			 struct fusion_disk_volume *disk)
{
	if (!disk)
		return md_remove(md, FUSION_TREE_VOLUMES, volume);
	__dm_bless_for_disk(disk);
	return md_put(md, FUSION_TREE_VOLUMES, volume, disk);
}

int fusion_md_next_volume(struct fusion_md *md, u32 *volume,
			  struct fusion_disk_volume *disk)
{
	u64 key = *volume, found;
	int r;

	if (md->broken)
		return -EIO;
	r = dm_btree_lookup_next(&md->info[FUSION_TREE_VOLUMES], md->root[FUSION_TREE_VOLUMES],
				 &key, &found, disk);
	if (!r && found > FUSION_MAX_VOLUME_ID) {
		fusion_md_damaged(md, "there is an impossible volume");
		return -EINVAL;
	}
	if (!r)
		*volume = found;
	return r;
}
