// SPDX-License-Identifier: GPL-2.0-only
/*
 * Growing.  See grow.h.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "commit.h"
#include "grow.h"
#include "mode.h"
#include "region.h"
#include "set.h"

#define DM_MSG_PREFIX "fusion"

/* The bands that the pool would have with @members, in @g, of layout @l. */
static char *grow_make(struct fusion_pool *pool, unsigned int members, struct fusion_layout *l,
		       struct fusion_region *g)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	/* no more of each member than until now */
	u64 chunks = (u64)super->bands * pool->space.newest->chunks, bands;
	u32 units;

	if (fusion_layout_init(l, members, pool->layout->spares))
		return "Number of members must be a prime power from 4 to 64";
	units = fusion_band_units(l, chunks);
	if (!units)
		return "Members are too small for a pool of so many";
	bands = div_u64(chunks, fusion_band_chunks(l, units));
	if (fusion_region_make(g, l, super->layout_generation + 1, units,
			       min_t(u64, bands, FUSION_MAX_BANDS)))
		return "Out of memory";
	return NULL;
}

/*
 * Is there room to begin in?  What is free in bands that are in use is not drawn any more, so
 * each class that has some needs new ones.
 */
static char *grow_room(struct fusion_pool *pool, struct fusion_region *g)
{
	struct fusion_space *s = &pool->space;
	u64 need = 0, found = fusion_region_would_free(s, g);
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		if (READ_ONCE(s->class[i]->stripes))
			need += fusion_space_grow_bands(s, g, s->class[i]);
	if (found >= need)
		return NULL;
	DMERR("%s: the pool cannot grow yet: on its members %llu bands of %u of the new layout are free, and it takes %llu",
	      fusion_pool_name(pool), found, g->count, need);
	return "Pool has too little free space to grow: discard or delete what is not needed, and try again";
}

static char *grow_states(struct fusion_pool *pool)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	unsigned int i;

	if (super->old_members)
		return "Pool grows already";
	if (!fusion_pool_writable(pool))
		return "Pool is read-only";
	for (i = 0; i < pool->layout->n; i++)
		if (super->member[i] != FUSION_MEMBER_OK)
			return "Pool can grow only while all members are ok: replace or rebuild them first";
	return NULL;
}

/* As grow_make(), if it may grow. */
static char *grow_try(struct fusion_pool *pool, unsigned int members, struct fusion_layout *l,
		      struct fusion_region *g)
{
	char *wrong = grow_states(pool);

	lockdep_assert_held(&pool->commit_lock);
	if (!wrong)
		wrong = grow_make(pool, members, l, g);
	if (!wrong)
		wrong = grow_room(pool, g);
	return wrong;
}

char *fusion_grow_wrong(struct fusion_pool *pool, const struct fusion_pool_config *config)
{
	struct fusion_layout *l;
	struct fusion_region g = { 0 };
	char *wrong;

	if (config->missing)
		return "Pool can grow only with all members";
	l = kvmalloc(sizeof(*l), GFP_KERNEL);
	if (!l)
		return "Out of memory";
	mutex_lock(&pool->commit_lock);
	wrong = grow_try(pool, config->members, l, &g);
	mutex_unlock(&pool->commit_lock);
	fusion_region_free(&g);
	kvfree(l);
	return wrong;
}

static int grow_commit(struct fusion_pool *pool, unsigned int members,
		       const u8 uuid[][FUSION_UUID_BYTES], const struct fusion_region *g)
{
	struct fusion_md_super *super = fusion_md_super(pool->md), *was;
	unsigned int i;
	int r;

	was = kmemdup(super, sizeof(*super), GFP_KERNEL);
	if (!was)
		return -ENOMEM;
	super->old_members = pool->layout->n;
	super->old_band_units = super->band_units;
	super->old_bands = super->bands;
	super->layout_generation++;
	super->band_units = g->units;
	super->bands = g->count;
	super->incompat |= FUSION_INCOMPAT_GROWTH;
	super->scrub_at = 0;
	for (i = pool->layout->n; i < members; i++) {
		super->member[i] = FUSION_MEMBER_OK;
		fusion_md_replace_member(pool->md, i, uuid[i]);
	}
	fusion_md_set_members(pool->md, members);
	super->states_generation++;
	r = fusion_commit_transaction(pool);
	if (r) {
		/* nothing of it is written any more */
		was->flags = super->flags;
		*super = *was;
		fusion_md_set_members(pool->md, pool->layout->n);
	}
	kfree(was);
	return r;
}

static int grow_locked(struct fusion_pool *pool, unsigned int members,
		       const u8 uuid[][FUSION_UUID_BYTES])
{
	struct fusion_layout *l = pool->layout == pool->layouts ?
		pool->layouts + 1 : pool->layouts;
	struct fusion_region g = { 0 };
	unsigned int old = pool->layout->n;
	char *wrong = grow_try(pool, members, l, &g);
	int r = -EINVAL;

	if (wrong)
		DMERR("%s: %s", fusion_pool_name(pool), wrong);
	else
		r = grow_commit(pool, members, uuid, &g);
	if (r) {
		fusion_region_free(&g);
		return r;
	}
	fusion_region_grow(&pool->space, &g);
	WRITE_ONCE(pool->layout, l);
	pool->monitor.count = members;
	DMINFO("%s: the pool grows from %u to %u members", fusion_pool_name(pool), old, members);
	fusion_pool_event(pool);
	return 0;
}

int fusion_grow(struct fusion_pool *pool, unsigned int members,
		const u8 uuid[][FUSION_UUID_BYTES])
{
	unsigned int noio = memalloc_noio_save();
	int r;

	/* nothing is drawn any more in what will be old bands */
	fusion_sets_retire_all(&pool->space);
	r = fusion_commit(pool);
	fusion_grace_wait(&pool->grace);
	if (!r) {
		mutex_lock(&pool->commit_lock);
		r = grow_locked(pool, members, uuid);
		mutex_unlock(&pool->commit_lock);
	}
	memalloc_noio_restore(noio);
	return r;
}

/* ---- the end ---- */

/* Is there a record of a row of a stripe of the old layout?  Its stripe may be free already. */
static int grow_has_rows(struct fusion_pool *pool, bool *has)
{
	unsigned int parity = fusion_space_old(&pool->space) - pool->space.region;
	u64 key = fusion_row_key(fusion_stripe_id(parity << FUSION_BAND_BITS, 0), 0);
	u64 end = fusion_row_key(fusion_stripe_id((parity + 1) << FUSION_BAND_BITS, 0), 0);
	struct fusion_disk_row row;
	int r;

	r = fusion_md_next_row(pool->md, &key, &row);
	*has = !r && key < end;
	return r == -ENODATA ? 0 : r;
}

static int grown_commit(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	bool has;
	int r;

	r = grow_has_rows(pool, &has);
	if (r || has)
		return r ? r : -EAGAIN;
	super->old_members = 0;
	super->old_band_units = 0;
	super->old_bands = 0;
	r = fusion_commit_transaction(pool);
	if (!r)
		fusion_region_grown(&pool->space);
	return r;
}

/* Nothing is of the old layout: its bands' records went with their last stripes, commits ago. */
static bool grow_over(struct fusion_space *s)
{
	/* pairs with fusion_region_close() */
	return fusion_space_growing(s) && !smp_load_acquire(&s->old_bands);
}

static void grown_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool, grown_work);
	int r = -EAGAIN;

	mutex_lock(&pool->commit_lock);
	if (grow_over(&pool->space) && fusion_pool_writable(pool))
		r = grown_commit(pool);
	mutex_unlock(&pool->commit_lock);
	if (r && r != -EAGAIN)
		DMERR_LIMIT("%s: that the pool has grown cannot be committed (%d)",
			    fusion_pool_name(pool), r);
	if (r)
		return;
	DMINFO("%s: the pool has grown: all of it is on %u members", fusion_pool_name(pool),
	       pool->layout->n);
	fusion_pool_event(pool);
}

void fusion_grow_look(struct fusion_pool *pool)
{
	if (grow_over(&pool->space))
		queue_work(pool->slow_wq, &pool->grown_work);
}

void fusion_grow_init(struct fusion_pool *pool)
{
	INIT_WORK(&pool->grown_work, grown_work);
}
