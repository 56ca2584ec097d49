// SPDX-License-Identifier: GPL-2.0-only
/*
 * The volume table.  See volume-table.h.
 */
#include <linux/ctype.h>
#include <linux/slab.h>

#include "mode.h"
#include "volume-table.h"

bool fusion_volume_name_ok(const char *name)
{
	const char *c;

	if (!*name || strlen(name) >= FUSION_NAME_BYTES || *name == '-' ||
	    *name == '.')
		return false;
	for (c = name; *c; c++)
		if (!isascii(*c) || (!isalnum(*c) && !strchr("_.+-", *c)))
			return false;
	return true;
}

struct fusion_volume *fusion_volume_find(struct fusion_pool *pool, u32 id)
{
	struct fusion_volume *v;

	list_for_each_entry(v, &pool->volumes, list)
		if (v->id == id)
			return v;
	return NULL;
}

struct fusion_volume *fusion_volume_get(struct fusion_pool *pool, u32 id)
{
	struct fusion_volume *v;
	unsigned long flags;

	spin_lock_irqsave(&pool->volumes_lock, flags);
	v = fusion_volume_find(pool, id);
	if (v && v->deleting)
		v = NULL;
	if (v)
		v->movers++;
	spin_unlock_irqrestore(&pool->volumes_lock, flags);
	return v;
}

bool fusion_volume_deleting(struct fusion_pool *pool, u32 id)
{
	struct fusion_volume *v;
	unsigned long flags;
	bool deleting;

	spin_lock_irqsave(&pool->volumes_lock, flags);
	v = fusion_volume_find(pool, id);
	deleting = v && v->deleting;
	spin_unlock_irqrestore(&pool->volumes_lock, flags);
	return deleting;
}

void fusion_volume_wait_deleted(struct fusion_pool *pool, u32 id, long time)
{
	wait_event_timeout(pool->movers_wait, !fusion_volume_deleting(pool, id), time);
}

/* The one with the lowest id from @id on; also one that is being deleted, if @any. */
static struct fusion_volume *volume_from(struct fusion_pool *pool, u32 id, bool any)
{
	struct fusion_volume *v, *next = NULL;

	list_for_each_entry(v, &pool->volumes, list)
		if ((any || !v->deleting) && v->id >= id && (!next || v->id < next->id))
			next = v;
	return next;
}

struct fusion_volume *fusion_volume_get_from(struct fusion_pool *pool, u32 id)
{
	struct fusion_volume *v;
	unsigned long flags;

	spin_lock_irqsave(&pool->volumes_lock, flags);
	v = volume_from(pool, id, false);
	if (v)
		v->movers++;
	spin_unlock_irqrestore(&pool->volumes_lock, flags);
	return v;
}

bool fusion_volume_next(struct fusion_pool *pool, u32 *id)
{
	struct fusion_volume *v;
	unsigned long flags;

	spin_lock_irqsave(&pool->volumes_lock, flags);
	v = volume_from(pool, *id, true);
	if (v)
		*id = v->id;
	spin_unlock_irqrestore(&pool->volumes_lock, flags);
	return v;
}

void fusion_volume_put(struct fusion_volume *v)
{
	struct fusion_pool *pool = v->pool;
	unsigned long flags;

	spin_lock_irqsave(&pool->volumes_lock, flags);
	if (!--v->movers)
		wake_up_all(&pool->movers_wait);
	spin_unlock_irqrestore(&pool->volumes_lock, flags);
}

void fusion_volume_add(struct fusion_volume *v)
{
	struct fusion_pool *pool = v->pool;

	spin_lock_irq(&pool->volumes_lock);
	list_add_tail(&v->list, &pool->volumes);
	spin_unlock_irq(&pool->volumes_lock);
}

void fusion_volume_remove(struct fusion_volume *v)
{
	struct fusion_pool *pool = v->pool;

	spin_lock_irq(&pool->volumes_lock);
	list_del(&v->list);
	spin_unlock_irq(&pool->volumes_lock);
	kfree(v);
	/* who waits for its deletion */
	wake_up_all(&pool->movers_wait);
}

void fusion_volume_set_deleting(struct fusion_volume *v, bool deleting)
{
	spin_lock_irq(&v->pool->volumes_lock);
	v->deleting = deleting;
	spin_unlock_irq(&v->pool->volumes_lock);
}

static bool volume_unused(struct fusion_volume *v)
{
	bool unused;

	spin_lock_irq(&v->pool->volumes_lock);
	unused = !v->movers;
	spin_unlock_irq(&v->pool->volumes_lock);
	return unused;
}

void fusion_volume_wait_unused(struct fusion_volume *v)
{
	wait_event(v->pool->movers_wait, volume_unused(v));
	/* workers whose write has ended may still look for others to go with */
	flush_workqueue(v->pool->io_wq);
}

int fusion_volume_store(struct fusion_pool *pool, struct fusion_volume *v)
{
	struct fusion_disk_volume disk;

	memset(&disk, 0, sizeof(disk));
	disk.blocks = cpu_to_le64(v->blocks);
	disk.mapped = cpu_to_le64(v->mapped);
	disk.tops = cpu_to_le64(v->tops);
	disk.patched = cpu_to_le64(v->patched);
	disk.class = cpu_to_le16(v->class->index);
	disk.flags = cpu_to_le16(v->deleting ? FUSION_VOLUME_DELETING : 0);
	memcpy(disk.name, v->name, sizeof(disk.name));
	v->counts_dirty = false;
	return fusion_md_put_volume(pool->md, v->id, &disk);
}

void fusion_volume_count(void *context, u32 volume,
			 const struct fusion_map_counts *counts)
{
	struct fusion_volume *v = fusion_volume_find(context, volume);

	if (!v || (!counts->mapped && !counts->tops && !counts->patched))
		return;
	v->mapped += counts->mapped;
	v->tops += counts->tops;
	v->patched += counts->patched;
	v->counts_dirty = true;
}

int fusion_volumes_write_counts(struct fusion_pool *pool)
{
	struct fusion_volume *v;
	int r = 0;

	list_for_each_entry(v, &pool->volumes, list) {
		if (v->counts_dirty)
			r = fusion_volume_store(pool, v);
		if (r)
			break;
	}
	return r;
}

static bool volume_counts_ok(const struct fusion_disk_volume *disk)
{
	u64 mapped = le64_to_cpu(disk->mapped);

	return mapped <= le64_to_cpu(disk->blocks) && le64_to_cpu(disk->tops) <= mapped &&
		le64_to_cpu(disk->patched) <= mapped;
}

static struct fusion_volume *volume_from_disk(struct fusion_pool *pool, u32 id,
					      const struct fusion_disk_volume *disk)
{
	unsigned int class = le16_to_cpu(disk->class);
	struct fusion_volume *v;

	if (class >= FUSION_MAX_CLASSES || !pool->space.class[class] ||
	    !le64_to_cpu(disk->blocks) ||
	    le64_to_cpu(disk->blocks) > FUSION_MAX_BLOCKS ||
	    strnlen(disk->name, sizeof(disk->name)) == sizeof(disk->name) ||
	    !fusion_volume_name_ok(disk->name) || !volume_counts_ok(disk)) {
		fusion_md_damaged(pool->md, "volume %u cannot be what it is said to be", id);
		return ERR_PTR(-EINVAL);
	}
	v = kzalloc(sizeof(*v), GFP_KERNEL);
	if (!v)
		return ERR_PTR(-ENOMEM);
	v->pool = pool;
	INIT_LIST_HEAD(&v->company);
	v->id = id;
	v->class = pool->space.class[class];
	v->blocks = le64_to_cpu(disk->blocks);
	v->mapped = le64_to_cpu(disk->mapped);
	v->tops = le64_to_cpu(disk->tops);
	v->patched = le64_to_cpu(disk->patched);
	v->deleting = le16_to_cpu(disk->flags) & FUSION_VOLUME_DELETING;
	memcpy(v->name, disk->name, sizeof(v->name));
	return v;
}

void fusion_volumes_init(struct fusion_pool *pool)
{
	INIT_LIST_HEAD(&pool->volumes);
	spin_lock_init(&pool->volumes_lock);
	init_waitqueue_head(&pool->movers_wait);
}

int fusion_volumes_load(struct fusion_pool *pool)
{
	struct fusion_disk_volume disk;
	struct fusion_volume *v;
	u32 id = 0;
	int r;

	for (;; id++) {
		r = fusion_md_next_volume(pool->md, &id, &disk);
		if (r)
			return r == -ENODATA ? 0 : r;
		v = volume_from_disk(pool, id, &disk);
		if (IS_ERR(v))
			return PTR_ERR(v);
		fusion_volume_add(v);
	}
}

void fusion_volumes_exit(struct fusion_pool *pool)
{
	struct fusion_volume *v, *next;

	list_for_each_entry_safe(v, next, &pool->volumes, list) {
		list_del(&v->list);
		kfree(v);
	}
}
