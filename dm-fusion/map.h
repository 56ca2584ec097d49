/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Map: where each block of each volume is, in core.
 *
 * The map is cached in chunks of 64 blocks, found by a hash under RCU.  An
 * entry of a chunk is nothing, a base place, or a pointer to the block's
 * overlay, which holds its top, and its base, too.  What the cache says is
 * what I/O follows; a chunk is pinned while it holds changes that are not
 * committed, or while somebody is going to change it, and other chunks are
 * evicted to keep the cache within its limit.
 *
 * Entries change only under the block's hold (block-lock.h): exclusive, or
 * shared for adding pages to a mask.  Readers take no lock; the grace period
 * (epoch.h) keeps what they found from being reused.
 */
#ifndef DM_FUSION_MAP_H
#define DM_FUSION_MAP_H

#include <linux/rcupdate.h>
#include <linux/refcount.h>

#include "space.h"

/*
 * The patches of a block.  A list is not changed once it can be found: who changes
 * the patches of a block makes a new one.  The overlay and the changes of epochs
 * share it.
 */
struct fusion_patch_list {
	refcount_t refs;
	struct rcu_head rcu;
	struct fusion_patches patches;
};

/* @list may be NULL.  Readers find it for an RCU grace period more.  Any context. */
/* With a reference, for the patches of a block of so many pages. */
struct fusion_patch_list *fusion_patch_list_alloc(unsigned int block_pages, gfp_t gfp);
struct fusion_patch_list *fusion_patch_list_get(struct fusion_patch_list *list);
void fusion_patch_list_put(struct fusion_patch_list *list);

struct fusion_overlay {
	u64 base;
	struct fusion_top top;		/* mask grows; the rest is constant */
	struct fusion_patch_list *patches; /* NULL: it has a top */
	u64 epoch;			/* of its last change; 0: on disk */
	bool converting;		/* and not written since: convert.h */
	u64 frozen;			/* patched pages that are not written in place */
	struct rcu_head rcu;
};

struct fusion_chunk {
	struct hlist_node hash;
	u64 key;			/* fusion_block_key(volume, group) */
	bool referenced;
	u8 overlays;			/* entries that are overlays */
	u8 lists;			/* of patches, in these */
	atomic_t pins;			/* CHUNK_DEAD: evicted */
	u32 seq;
	spinlock_t lock;
	struct list_head lru;
	struct rcu_head rcu;
	u64 entry[FUSION_GROUP_BLOCKS];
};

struct fusion_map {
	struct fusion_md *md;
	struct fusion_space *space;
	struct fusion_epochs *epochs;
	u32 block_pages;
	size_t limit_bytes;

	unsigned int shift;
	struct hlist_head *bucket;
	spinlock_t lru_lock;		/* hash changes and eviction */
	struct list_head lru;
	atomic_long_t bytes;
};

/* The caches that all maps share; exit waits for what RCU still holds. */
int fusion_map_module_init(void);
void fusion_map_module_exit(void);

/* Fields above @shift are the caller's. */
int fusion_map_init(struct fusion_map *map);
void fusion_map_exit(struct fusion_map *map);

/* Chunks that fit the cache's limit. */
static inline unsigned long fusion_map_chunks(const struct fusion_map *map)
{
	return map->limit_bytes / sizeof(struct fusion_chunk);
}

/* ---- entries ---- */

#define FUSION_ENTRY_MISS	(~0ULL)	/* not in the cache */

/* Entry of @block, or FUSION_ENTRY_MISS.  Under rcu_read_lock(). */
u64 fusion_map_entry(struct fusion_map *map, u32 volume, u64 block);

static inline u64 fusion_entry_of_place(u64 place)
{
	return place ? place << 1 | 1 : 0;
}

/* The overlay an entry points to, or NULL. */
static inline struct fusion_overlay *fusion_entry_overlay(u64 entry)
{
	return entry & 1 ? NULL : (struct fusion_overlay *)(uintptr_t)entry;
}

/*
 * The pages of the top of @ov are about to be written in place: before and
 * after the block's hold is taken.
 */
static inline void fusion_overlay_touch(struct fusion_overlay *ov)
{
	/* seldom set: readers and writers share the line */
	if (unlikely(READ_ONCE(ov->converting)))
		WRITE_ONCE(ov->converting, false);
}

/* The base place of an entry without overlay; 0: none. */
static inline u64 fusion_entry_place(u64 entry)
{
	return entry >> 1;
}

/*
 * Bring the chunk of @block of @volume, which is of @class, into the cache.  @tops,
 * @patches: of how many blocks the last commit has some; NULL: that is not known.
 * -EWOULDBLOCK: only if not @may_block, when metadata would have to be read or memory
 * waited for.
 */
int fusion_map_load(struct fusion_map *map, u32 volume,
		    const struct fusion_class *class, u64 block,
		    const u64 *tops, const u64 *patches, bool may_block);

/* Drop all chunks of a volume that nobody uses any more. */
void fusion_map_drop_volume(struct fusion_map *map, u32 volume);

/* ---- changes ---- */

/*
 * What a change of one block needs, got before its I/O is submitted: so that
 * the change itself, in the I/O's completion, cannot fail.
 */
struct fusion_update {
	struct fusion_chunk *chunk;	/* pinned */
	struct fusion_change *change;
	struct fusion_overlay *overlay;	/* for a new top, or patches */
	struct fusion_patch_list *patches;
	u64 block;
};

/* What a change may need. */
enum fusion_update_kind {
	FUSION_UPDATE_ENTRY,		/* nothing new */
	FUSION_UPDATE_TOP,
	FUSION_UPDATE_PATCHES,
};

/*
 * Prepare a change of @block; -EAGAIN: its chunk is not in the cache;
 * -ENOMEM only if @gfp may not wait.
 */
int fusion_update_prepare(struct fusion_map *map, struct fusion_update *u,
			  u32 volume, u64 block, enum fusion_update_kind kind,
			  gfp_t gfp);
/* A prepared change is not made. */
void fusion_update_cancel(struct fusion_map *map, struct fusion_update *u);

/*
 * Make a prepared change; it is used up.  Between fusion_epoch_enter() and
 * fusion_epoch_exit(), under the block's hold.
 */

/* @top is the block's top now; @whole: it holds all pages, the base dies. */
void fusion_update_top(struct fusion_map *map, struct fusion_epoch_shard *shard,
		       struct fusion_update *u, const struct fusion_top *top,
		       bool whole);
/* The top has @pages, too; if it has all now, the base dies. */
void fusion_update_pages(struct fusion_map *map,
			 struct fusion_epoch_shard *shard,
			 struct fusion_update *u, u64 pages);
/*
 * The pages in @pages, one behind the other, are patched from @first on; what else
 * was patched still is.  All are of @generation now.  The block has no top.
 */
void fusion_update_patch(struct fusion_map *map,
			 struct fusion_epoch_shard *shard,
			 struct fusion_update *u, u64 pages,
			 const struct fusion_patch *first, u32 generation);
/*
 * The patches of @pages are merged into the base, if they are still those of @list.
 * Prepared for patches.  @list has them all.
 */
void fusion_update_unpatch(struct fusion_map *map,
			   struct fusion_epoch_shard *shard,
			   struct fusion_update *u, u64 pages,
			   const struct fusion_patches *list);
/*
 * The replicas of the top, or of the patches, are known to be equal (or not, 0).
 * Prepared for patches, if it may have any.
 */
void fusion_update_generation(struct fusion_map *map,
			      struct fusion_epoch_shard *shard,
			      struct fusion_update *u, u32 generation);
/* The block's base is at @place now; a top or patches over it stay. */
void fusion_update_rebase(struct fusion_map *map,
			  struct fusion_epoch_shard *shard,
			  struct fusion_update *u, u64 place);
/* The block is at @place now and nowhere else; 0: it is nowhere. */
void fusion_update_base(struct fusion_map *map,
			struct fusion_epoch_shard *shard,
			struct fusion_update *u, u64 place);

/* @changes are durable (or never will be): unpin and free them. */
void fusion_map_forget(struct fusion_map *map, struct list_head *changes);

#endif /* DM_FUSION_MAP_H */
