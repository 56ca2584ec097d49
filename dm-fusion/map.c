// SPDX-License-Identifier: GPL-2.0-only
/*
 * Map.  See map.h.
 */
#include <linux/device-mapper.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "map.h"

#define CHUNK_DEAD		(INT_MIN / 2)
#define EVICT_TRIES		32

/* What an overlay counts for in the cache's limit. */
#define OVERLAY_BYTES		sizeof(struct fusion_overlay)

static struct kmem_cache *chunk_cache;
static struct kmem_cache *change_cache;
static struct kmem_cache *overlay_cache;

int fusion_map_module_init(void)
{
	chunk_cache = KMEM_CACHE(fusion_chunk, 0);
	change_cache = KMEM_CACHE(fusion_change, 0);
	overlay_cache = KMEM_CACHE(fusion_overlay, 0);
	if (chunk_cache && change_cache && overlay_cache)
		return 0;
	fusion_map_module_exit();
	return -ENOMEM;
}

void fusion_map_module_exit(void)
{
	rcu_barrier();
	kmem_cache_destroy(overlay_cache);
	kmem_cache_destroy(change_cache);
	kmem_cache_destroy(chunk_cache);
}

int fusion_map_init(struct fusion_map *map)
{
	unsigned long buckets;

	buckets = roundup_pow_of_two(map->limit_bytes /
				     sizeof(struct fusion_chunk) + 2);
	map->shift = 64 - ilog2(buckets);
	spin_lock_init(&map->lru_lock);
	INIT_LIST_HEAD(&map->lru);
	map->bucket = kvcalloc(buckets, sizeof(*map->bucket), GFP_KERNEL);
	return map->bucket ? 0 : -ENOMEM;
}

static struct hlist_head *map_bucket(struct fusion_map *map, u64 key)
{
	return &map->bucket[(key * GOLDEN_RATIO_64) >> map->shift];
}

/* ---- chunks ---- */

static u64 chunk_key(u32 volume, u64 block)
{
	return fusion_block_key(volume, block >> FUSION_GROUP_SHIFT);
}

/* Under rcu_read_lock() or lru_lock. */
static struct fusion_chunk *chunk_find(struct fusion_map *map, u64 key)
{
	struct fusion_chunk *chunk;

	hlist_for_each_entry_rcu(chunk, map_bucket(map, key), hash,
				 lockdep_is_held(&map->lru_lock))
		if (chunk->key == key)
			return chunk;
	return NULL;
}

u64 fusion_map_entry(struct fusion_map *map, u32 volume, u64 block)
{
	struct fusion_chunk *chunk = chunk_find(map, chunk_key(volume, block));

	if (!chunk)
		return FUSION_ENTRY_MISS;
	if (!READ_ONCE(chunk->referenced))
		WRITE_ONCE(chunk->referenced, true);
	/* acquire: what the entry points to is read after the entry */
	return smp_load_acquire(&chunk->entry[block & (FUSION_GROUP_BLOCKS - 1)]);
}

static size_t list_bytes(unsigned int block_pages)
{
	return sizeof(struct fusion_patch_list) +
		fusion_max_patches(block_pages) * sizeof(struct fusion_patch);
}

static size_t chunk_bytes(const struct fusion_map *map,
			  const struct fusion_chunk *chunk)
{
	return sizeof(*chunk) + chunk->overlays * OVERLAY_BYTES +
		chunk->lists * list_bytes(map->block_pages);
}

struct fusion_patch_list *fusion_patch_list_alloc(unsigned int block_pages, gfp_t gfp)
{
	struct fusion_patch_list *list = kmalloc(list_bytes(block_pages), gfp);

	if (list)
		refcount_set(&list->refs, 1);
	return list;
}

/* @list may be NULL, here and below. */
struct fusion_patch_list *fusion_patch_list_get(struct fusion_patch_list *list)
{
	if (list)
		refcount_inc(&list->refs);
	return list;
}

/* Readers may still have found it: it goes a grace period later. */
void fusion_patch_list_put(struct fusion_patch_list *list)
{
	if (list && refcount_dec_and_test(&list->refs))
		kfree_rcu(list, rcu);
}

static void overlay_free(struct fusion_overlay *ov)
{
	if (ov)
		kmem_cache_free(overlay_cache, ov);
}

static void overlay_free_rcu(struct rcu_head *rcu)
{
	overlay_free(container_of(rcu, struct fusion_overlay, rcu));
}

static void chunk_free(struct fusion_chunk *chunk)
{
	unsigned int i;

	for (i = 0; chunk->overlays; i++) {
		struct fusion_overlay *ov = fusion_entry_overlay(chunk->entry[i]);

		if (!ov)
			continue;
		fusion_patch_list_put(ov->patches);
		kmem_cache_free(overlay_cache, ov);
		chunk->overlays--;
	}
	kmem_cache_free(chunk_cache, chunk);
}

static void chunk_free_rcu(struct rcu_head *rcu)
{
	chunk_free(container_of(rcu, struct fusion_chunk, rcu));
}

static bool chunk_pin(struct fusion_chunk *chunk)
{
	return atomic_inc_unless_negative(&chunk->pins);
}

static void chunk_unpin(struct fusion_chunk *chunk)
{
	atomic_dec(&chunk->pins);
}

/* Take a chunk out of the cache unless it is pinned. */
static bool chunk_evict(struct fusion_map *map, struct fusion_chunk *chunk)
{
	lockdep_assert_held(&map->lru_lock);
	if (atomic_cmpxchg(&chunk->pins, 0, CHUNK_DEAD))
		return false;
	hlist_del_rcu(&chunk->hash);
	list_del(&chunk->lru);
	atomic_long_sub(chunk_bytes(map, chunk), &map->bytes);
	call_rcu(&chunk->rcu, chunk_free_rcu);
	return true;
}

/*
 * Evict until the cache is within its limit: the chunks not referenced since
 * they were last looked at, oldest first (CLOCK).
 */
static void map_shrink(struct fusion_map *map)
{
	struct fusion_chunk *chunk;
	int tries = EVICT_TRIES;

	lockdep_assert_held(&map->lru_lock);
	while (atomic_long_read(&map->bytes) > map->limit_bytes && tries-- &&
	       !list_empty(&map->lru)) {
		chunk = list_last_entry(&map->lru, struct fusion_chunk, lru);
		if (chunk->referenced || !chunk_evict(map, chunk)) {
			WRITE_ONCE(chunk->referenced, false);
			list_move(&chunk->lru, &map->lru);
		}
	}
}

void fusion_map_exit(struct fusion_map *map)
{
	struct fusion_chunk *chunk, *next;

	list_for_each_entry_safe(chunk, next, &map->lru, lru)
		chunk_free(chunk);
	kvfree(map->bucket);
}

void fusion_map_drop_volume(struct fusion_map *map, u32 volume)
{
	struct fusion_chunk *chunk, *next;

	spin_lock_irq(&map->lru_lock);
	list_for_each_entry_safe(chunk, next, &map->lru, lru)
		if (chunk->key >> FUSION_BLOCK_BITS == volume)
			chunk_evict(map, chunk);
	spin_unlock_irq(&map->lru_lock);
}

/* ---- loading ---- */

static int chunk_fill_base(struct fusion_map *map, struct fusion_chunk *chunk,
			   u32 volume, const struct fusion_class *class, u64 group,
			   bool may_block)
{
	/* read in place: the entries are as large as what they come from */
	struct fusion_disk_base *base = (struct fusion_disk_base *)chunk->entry;
	u64 stripe = FUSION_NO_STRIPE;
	unsigned int i;
	int r;

	BUILD_BUG_ON(sizeof(*base) != sizeof(chunk->entry));
	r = fusion_md_read_base(map->md, may_block, volume, group, base);
	if (r) {
		memset(chunk->entry, 0, sizeof(chunk->entry));
		return r;
	}
	for (i = 0; i < FUSION_GROUP_BLOCKS; i++) {
		u64 place = le64_to_cpu(base->place[i]);

		if (!place)
			continue;
		/* neighbours are often of one stripe: look at it once */
		if (fusion_place_stripe(place) == stripe &&
		    fusion_place_slot(place) < class->d) {
			chunk->entry[i] = fusion_entry_of_place(place);
			continue;
		}
		if (!fusion_space_base_ok(map->space, class, place)) {
			fusion_md_damaged(map->md, "volume %u block %llu has an impossible place",
					  volume, (group << FUSION_GROUP_SHIFT) + i);
			memset(chunk->entry, 0, sizeof(chunk->entry));
			return -EIO;
		}
		chunk->entry[i] = fusion_entry_of_place(place);
		stripe = fusion_place_stripe(place);
	}
	return 0;
}

/* @ov is over what the chunk has of @block.  False: that is an overlay, too. */
static bool chunk_fill_overlay(struct fusion_chunk *chunk, u64 block,
			       struct fusion_overlay *ov)
{
	u64 *entry = &chunk->entry[block & (FUSION_GROUP_BLOCKS - 1)];

	if (fusion_entry_overlay(*entry))
		return false;
	ov->base = fusion_entry_place(*entry);
	ov->epoch = 0;
	ov->converting = false;
	ov->frozen = 0;
	*entry = (uintptr_t)ov;
	chunk->overlays++;
	return true;
}

static int chunk_fill_tops(struct fusion_map *map, struct fusion_chunk *chunk,
			   u32 volume, const struct fusion_class *class, u64 group,
			   bool may_block)
{
	u64 block = group << FUSION_GROUP_SHIFT;
	u64 end = block + FUSION_GROUP_BLOCKS;
	struct fusion_disk_top disk;
	int r;

	for (;; block++) {
		struct fusion_overlay *ov;

		r = fusion_md_read_next_top(map->md, may_block, volume, &block,
					    end, &disk);
		if (r)
			return r == -ENODATA ? 0 : r;
		ov = kmem_cache_alloc(overlay_cache,
				      may_block ? GFP_NOIO : GFP_NOWAIT);
		if (!ov)
			return may_block ? -ENOMEM : -EWOULDBLOCK;
		if (fusion_space_decode_top(map->space, class, &disk, &ov->top)) {
			fusion_md_damaged(map->md, "volume %u block %llu has an impossible top",
					  volume, block);
			overlay_free(ov);
			return -EIO;
		}
		ov->patches = NULL;
		chunk_fill_overlay(chunk, block, ov);
		if (block + 1 == end)
			return 0;
	}
}

/* The next patches of a chunk that is being filled, from *@block on. */
static int chunk_next_patches(struct fusion_map *map, u32 volume,
			      const struct fusion_class *class, u64 *block,
			      u64 end, bool may_block,
			      struct fusion_disk_patches *disk,
			      struct fusion_chunk *chunk)
{
	gfp_t gfp = may_block ? GFP_NOIO : GFP_NOWAIT;
	struct fusion_overlay *ov;
	int r;

	r = fusion_md_read_next_patches(map->md, may_block, volume, block, end,
					disk);
	if (r)
		return r;
	ov = kmem_cache_zalloc(overlay_cache, gfp);
	if (ov)
		ov->patches = fusion_patch_list_alloc(map->block_pages, gfp);
	if (!ov || !ov->patches) {
		overlay_free(ov);
		return may_block ? -ENOMEM : -EWOULDBLOCK;
	}
	if (fusion_space_decode_patches(map->space, class, disk, &ov->patches->patches) ||
	    !chunk_fill_overlay(chunk, *block, ov)) {
		fusion_patch_list_put(ov->patches);
		overlay_free(ov);
		fusion_md_damaged(map->md, "volume %u block %llu has impossible patches", volume,
				  *block);
		return -EIO;
	}
	chunk->lists++;
	/* there are none without a base */
	return ov->base ? 0 : -EIO;
}

static int chunk_fill_patches(struct fusion_map *map, struct fusion_chunk *chunk,
			      u32 volume, const struct fusion_class *class, u64 group,
			      bool may_block)
{
	u64 block = group << FUSION_GROUP_SHIFT;
	u64 end = block + FUSION_GROUP_BLOCKS;
	struct fusion_disk_patches *disk;
	int r = 0;

	disk = kmalloc(fusion_patches_bytes(map->block_pages),
		       may_block ? GFP_NOIO : GFP_NOWAIT);
	if (!disk)
		return may_block ? -ENOMEM : -EWOULDBLOCK;
	for (; !r && block < end; block++)
		r = chunk_next_patches(map, volume, class, &block, end, may_block, disk,
				       chunk);
	kfree(disk);
	return r == -ENODATA ? 0 : r;
}

int fusion_map_load(struct fusion_map *map, u32 volume,
		    const struct fusion_class *class, u64 block,
		    const u64 *tops, const u64 *patches, bool may_block)
{
	u64 group = block >> FUSION_GROUP_SHIFT;
	struct fusion_chunk *chunk;
	unsigned long flags;
	bool known;
	int r;

	chunk = kmem_cache_alloc(chunk_cache,
				 may_block ? GFP_NOIO : GFP_NOWAIT);
	if (!chunk)
		return may_block ? -ENOMEM : -EWOULDBLOCK;
	chunk->key = chunk_key(volume, block);
	chunk->referenced = true;
	chunk->overlays = 0;
	chunk->lists = 0;
	chunk->seq = 0;
	atomic_set(&chunk->pins, 0);
	spin_lock_init(&chunk->lock);

	r = fusion_md_read_begin(map->md, may_block);
	if (r) {
		kmem_cache_free(chunk_cache, chunk);
		return r;
	}
	r = chunk_fill_base(map, chunk, volume, class, group, may_block);
	/* looked at in here: a commit makes them grow before its trees are read */
	if (!r && (!tops || READ_ONCE(*tops)))
		r = chunk_fill_tops(map, chunk, volume, class, group, may_block);
	if (!r && (!patches || READ_ONCE(*patches)))
		r = chunk_fill_patches(map, chunk, volume, class, group, may_block);
	if (r) {
		fusion_md_read_end(map->md);
		chunk_free(chunk);
		return r;
	}
	/*
	 * Entered before the read ends: a commit that would make what was read
	 * stale cannot unpin its chunks before that, so whoever changed this
	 * block meanwhile has it in the cache still, and ours is dropped.
	 */
	spin_lock_irqsave(&map->lru_lock, flags);
	known = chunk_find(map, chunk->key);
	if (!known) {
		atomic_long_add(chunk_bytes(map, chunk), &map->bytes);
		hlist_add_head_rcu(&chunk->hash, map_bucket(map, chunk->key));
		list_add(&chunk->lru, &map->lru);
		map_shrink(map);
	}
	spin_unlock_irqrestore(&map->lru_lock, flags);
	fusion_md_read_end(map->md);
	if (known)
		chunk_free(chunk);
	return 0;
}

/* ---- changes ---- */

int fusion_update_prepare(struct fusion_map *map, struct fusion_update *u,
			  u32 volume, u64 block, enum fusion_update_kind kind,
			  gfp_t gfp)
{
	struct fusion_chunk *chunk;

	rcu_read_lock();
	chunk = chunk_find(map, chunk_key(volume, block));
	if (chunk && !chunk_pin(chunk))
		chunk = NULL;
	rcu_read_unlock();
	if (!chunk)
		return -EAGAIN;

	u->chunk = chunk;
	u->block = block;
	u->overlay = NULL;
	u->patches = NULL;
	gfp |= __GFP_NOWARN;
	u->change = kmem_cache_alloc(change_cache, gfp);
	if (u->change && kind != FUSION_UPDATE_ENTRY)
		u->overlay = kmem_cache_alloc(overlay_cache, gfp);
	if (u->overlay && kind == FUSION_UPDATE_PATCHES)
		u->patches = fusion_patch_list_alloc(map->block_pages, gfp);
	if (!u->change || (kind != FUSION_UPDATE_ENTRY && !u->overlay) ||
	    (kind == FUSION_UPDATE_PATCHES && !u->patches)) {
		fusion_update_cancel(map, u);
		return -ENOMEM;
	}
	u->change->key = fusion_block_key(volume, block);
	u->change->chunk = chunk;
	return 0;
}

void fusion_update_cancel(struct fusion_map *map, struct fusion_update *u)
{
	overlay_free(u->overlay);
	fusion_patch_list_put(u->patches);
	if (u->change)
		kmem_cache_free(change_cache, u->change);
	if (u->chunk)
		chunk_unpin(u->chunk);
	memset(u, 0, sizeof(*u));
}

static void mapping_of_entry(u64 entry, struct fusion_mapping *m)
{
	struct fusion_overlay *ov = fusion_entry_overlay(entry);

	if (ov) {
		m->base = ov->base;
		m->top = ov->top;
		m->patches = fusion_patch_list_get(ov->patches);
	} else {
		memset(m, 0, sizeof(*m));
		m->base = fusion_entry_place(entry);
	}
}

static u64 *update_begin(struct fusion_update *u)
	__acquires(u->chunk->lock)
{
	u64 *entry = &u->chunk->entry[u->block & (FUSION_GROUP_BLOCKS - 1)];

	/* inside an epoch's shard lock, interrupts are off */
	spin_lock(&u->chunk->lock);
	mapping_of_entry(*entry, &u->change->old);
	return entry;
}

/* What @ov says is what the change ends with. */
static void update_new(struct fusion_update *u, struct fusion_overlay *ov)
{
	u->change->new.base = ov->base;
	u->change->new.top = ov->top;
	u->change->new.patches = fusion_patch_list_get(ov->patches);
}

static void update_end(struct fusion_epoch_shard *shard,
		       struct fusion_update *u)
	__releases(u->chunk->lock)
{
	u->change->seq = u->chunk->seq++;
	spin_unlock(&u->chunk->lock);
	list_add_tail(&u->change->list, &shard->changes);
	shard->changes_count++;
	/* record and pin belong to the epoch now */
	u->change = NULL;
	u->chunk = NULL;
	/* prepared, but not needed */
	overlay_free(u->overlay);
	u->overlay = NULL;
	fusion_patch_list_put(u->patches);
	u->patches = NULL;
}

/* Publish @ov, or the plain @place, as the new entry. */
static void update_entry(struct fusion_map *map, struct fusion_chunk *chunk,
			 u64 *entry, struct fusion_overlay *ov, u64 place)
{
	struct fusion_overlay *old = fusion_entry_overlay(*entry);
	int lists = (ov && ov->patches) - (old && old->patches);

	/* release: an overlay is whole before it can be found */
	smp_store_release(entry, ov ? (uintptr_t)ov :
			  fusion_entry_of_place(place));
	if (ov && !old) {
		chunk->overlays++;
		atomic_long_add(OVERLAY_BYTES, &map->bytes);
	} else if (!ov && old) {
		chunk->overlays--;
		atomic_long_sub(OVERLAY_BYTES, &map->bytes);
	}
	chunk->lists += lists;
	atomic_long_add(lists * (long)list_bytes(map->block_pages),
			&map->bytes);
	if (old) {
		fusion_patch_list_put(old->patches);
		call_rcu(&old->rcu, overlay_free_rcu);
	}
}

void fusion_update_top(struct fusion_map *map, struct fusion_epoch_shard *shard,
		       struct fusion_update *u, const struct fusion_top *top,
		       bool whole)
{
	u64 *entry = update_begin(u);
	struct fusion_overlay *ov = u->overlay;

	u->overlay = NULL;
	ov->base = whole ? 0 : u->change->old.base;
	ov->top = *top;
	ov->patches = NULL;
	ov->epoch = map->epochs->current_number;
	ov->converting = false;
	ov->frozen = 0;
	update_new(u, ov);
	update_entry(map, u->chunk, entry, ov, 0);
	update_end(shard, u);
}

/* What was patched, and @pages, from @first on, are patched. */
static void update_patches(struct fusion_map *map, struct fusion_update *u,
			   u64 *entry, u64 pages, const struct fusion_patch *first,
			   u32 generation)
{
	struct fusion_overlay *was = fusion_entry_overlay(*entry);
	struct fusion_mapping *old = &u->change->old;
	struct fusion_overlay *ov = u->overlay;

	u->overlay = NULL;
	ov->base = old->base;
	memset(&ov->top, 0, sizeof(ov->top));
	ov->patches = u->patches;
	u->patches = NULL;
	fusion_patches_add(&ov->patches->patches, old->patches ?
			   &old->patches->patches : NULL, pages, first);
	ov->patches->patches.generation = generation;
	ov->epoch = map->epochs->current_number;
	ov->converting = false;
	/* what was written anew is not what is being merged */
	ov->frozen = was ? was->frozen & ~pages : 0;
	update_new(u, ov);
	update_entry(map, u->chunk, entry, ov, 0);
}

void fusion_update_patch(struct fusion_map *map,
			 struct fusion_epoch_shard *shard,
			 struct fusion_update *u, u64 pages,
			 const struct fusion_patch *first, u32 generation)
{
	u64 *entry = update_begin(u);

	update_patches(map, u, entry, pages, first, generation);
	update_end(shard, u);
}

void fusion_update_unpatch(struct fusion_map *map,
			   struct fusion_epoch_shard *shard,
			   struct fusion_update *u, u64 pages,
			   const struct fusion_patches *list)
{
	u64 *entry = update_begin(u);
	struct fusion_overlay *was = fusion_entry_overlay(*entry);
	struct fusion_patches *old, *new = &u->patches->patches;
	struct fusion_overlay *ov = u->overlay;
	u64 left;
	unsigned int n = 0;

	if (!was || !was->patches) {
		/* nothing of it is left: a change that changes nothing */
		u->change->new = u->change->old;
		goto out;
	}
	old = &was->patches->patches;
	pages = fusion_patches_same(old, list, pages);
	new->mask = old->mask & ~pages;
	new->generation = old->generation;
	for (left = new->mask; left; left &= left - 1)
		new->patch[n++] = *fusion_patch_of(old, fusion_ctz64(left));
	if (!new->mask) {
		memset(&u->change->new, 0, sizeof(u->change->new));
		u->change->new.base = u->change->old.base;
		update_entry(map, u->chunk, entry, NULL, u->change->old.base);
		goto out;
	}
	u->overlay = NULL;
	*ov = *was;
	ov->patches = u->patches;
	u->patches = NULL;
	ov->epoch = map->epochs->current_number;
	ov->frozen &= ~pages;
	update_new(u, ov);
	update_entry(map, u->chunk, entry, ov, 0);
out:
	update_end(shard, u);
}

void fusion_update_pages(struct fusion_map *map,
			 struct fusion_epoch_shard *shard,
			 struct fusion_update *u, u64 pages)
{
	u64 *entry = update_begin(u);
	struct fusion_overlay *ov = fusion_entry_overlay(*entry);

	/* readers see more pages, never fewer; the base only when it is dead */
	WRITE_ONCE(ov->top.mask, ov->top.mask | pages);
	if (ov->top.mask == fusion_mask(0, map->block_pages)) {
		/* release: who sees no base sees the full mask */
		smp_store_release(&ov->base, 0);
	}
	WRITE_ONCE(ov->epoch, map->epochs->current_number);
	update_new(u, ov);
	update_end(shard, u);
}

void fusion_update_generation(struct fusion_map *map,
			      struct fusion_epoch_shard *shard,
			      struct fusion_update *u, u32 generation)
{
	u64 *entry = update_begin(u);
	struct fusion_overlay *ov = fusion_entry_overlay(*entry);

	if (ov->patches) {
		update_patches(map, u, entry, 0, NULL, generation);
	} else {
		WRITE_ONCE(ov->top.generation, generation);
		WRITE_ONCE(ov->epoch, map->epochs->current_number);
		update_new(u, ov);
	}
	update_end(shard, u);
}

void fusion_update_base(struct fusion_map *map,
			struct fusion_epoch_shard *shard,
			struct fusion_update *u, u64 place)
{
	u64 *entry = update_begin(u);

	memset(&u->change->new, 0, sizeof(u->change->new));
	u->change->new.base = place;
	update_entry(map, u->chunk, entry, NULL, place);
	update_end(shard, u);
}

void fusion_update_rebase(struct fusion_map *map,
			  struct fusion_epoch_shard *shard,
			  struct fusion_update *u, u64 place)
{
	u64 *entry = update_begin(u);
	struct fusion_overlay *ov = fusion_entry_overlay(*entry);

	u->change->new = u->change->old;
	u->change->new.base = place;
	fusion_patch_list_get(u->change->new.patches);
	if (ov)
		WRITE_ONCE(ov->base, place);
	else
		update_entry(map, u->chunk, entry, NULL, place);
	update_end(shard, u);
}

void fusion_map_forget(struct fusion_map *map, struct list_head *changes)
{
	struct fusion_change *c, *next;

	list_for_each_entry_safe(c, next, changes, list) {
		chunk_unpin(c->chunk);
		fusion_patch_list_put(c->old.patches);
		fusion_patch_list_put(c->new.patches);
		kmem_cache_free(change_cache, c);
	}
	INIT_LIST_HEAD(changes);
}
