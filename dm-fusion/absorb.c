// SPDX-License-Identifier: GPL-2.0-only
/*
 * Absorbing.  See absorb.h.
 *
 * What can be lost: the pages are written to places that nothing refers to, and the
 * map is switched when all of them are there.  Until the commit a power cut leaves
 * the patches, or the top, whose places are not used again before.  They are copied from the
 * first replica that can be read, which is what counts if they differ; those of the top
 * do not.
 */
#include "absorb.h"
#include "copy.h"
#include "mode.h"
#include "spare.h"

/* What is there. */
struct absorb_old {
	const struct fusion_patches *patches;	/* NULL: a top */
	u64 place[FUSION_MAX_REPLICAS];		/* of it */
	u64 mask;
};

/* The block is held, and its chunk pinned: what is found stays. */
static bool absorb_look(struct fusion_io *io, struct absorb_old *old)
{
	struct fusion_pool *pool = io->volume->pool;
	struct fusion_overlay *ov;

	rcu_read_lock();
	ov = fusion_entry_overlay(fusion_map_entry(&pool->map, io->volume->id, io->block));
	rcu_read_unlock();
	if (!ov)
		return false;
	if (ov->patches) {
		old->patches = &ov->patches->patches;
		old->mask = old->patches->mask;
		return true;
	}
	if (!fusion_spare_missed(&pool->space, ov->top.place))
		return false;
	old->patches = NULL;
	old->mask = ov->top.mask;
	memcpy(old->place, ov->top.place, sizeof(old->place));
	/* if it cannot, it is written where it is */
	io->moved = true;
	return true;
}

/* Are all replicas of @top on members that are out?  What is written there is nowhere. */
static bool absorb_nowhere(struct fusion_pool *pool, const struct fusion_top *top)
{
	unsigned int i;

	for (i = 0; i < fusion_top_replicas(top); i++)
		if (!fusion_member_out(fusion_member_at(pool, top->place[i])))
			return false;
	return true;
}

/* What is there, and what is written, to the places of @io's top. */
static int absorb_copy(const struct fusion_io *io, const struct absorb_old *old)
{
	struct fusion_pool *pool = io->volume->pool;
	unsigned int count = fusion_top_replicas(&io->top);
	const struct fusion_copy_place from = {
		.count = count, .place = old->place, .patches = old->patches,
	};
	const struct fusion_copy_place to = { .count = count, .place = io->top.place };
	struct fusion_copy copy;
	int r;

	if (absorb_nowhere(pool, &io->top))
		return -EIO;
	r = fusion_copy_begin(&copy, pool, io->top.mask);
	if (r)
		return r;
	r = fusion_copy_read(&copy, &from, old->mask & ~io->pages);
	if (!r) {
		fusion_copy_bio(&copy, io->bio, fusion_ctz64(io->pages));
		r = fusion_copy_write(&copy, &to, io->top.mask);
	}
	fusion_copy_end(&copy);
	return r;
}

/* Draw a place for a top.  Errors are those of fusion_set_refill(). */
static int absorb_draw(struct fusion_io *io)
{
	struct fusion_volume *v = io->volume;
	struct fusion_pool *pool = v->pool;
	int r;

	for (;;) {
		io->set = fusion_set_draw(&pool->space, v->class,
					  fusion_block_key(v->id, io->block), true, &io->top);
		if (io->set)
			return 0;
		r = fusion_set_refill(&pool->space, v->class, &pool->commit_lock);
		if (r)
			return r;
	}
}

static int absorb_overlay(struct fusion_io *io, const struct absorb_old *old)
{
	struct fusion_pool *pool = io->volume->pool;
	int r;

	r = absorb_draw(io);
	if (r)
		return r;
	io->patched = false;
	io->top.mask = old->mask | io->pages;
	io->top.generation = pool->generation;
	r = absorb_copy(io, old);
	if (r) {
		fusion_drawn_put(pool, io->set);
		io->set = NULL;
		return r;
	}
	io->commit = io->bio->bi_opf & REQ_FUA;
	return 0;
}

int fusion_absorb(struct fusion_io *io)
{
	struct fusion_pool *pool = io->volume->pool;
	struct absorb_old old;
	int r;

	/* @io may have waited for its block for long */
	if (!fusion_pool_writable(pool))
		return -EIO;
	if (READ_ONCE(pool->metadata_low))
		return -ENOSPC;
	r = fusion_volume_prepare(io->volume, io->block, FUSION_UPDATE_TOP, &io->update);
	if (r)
		return r;
	r = absorb_look(io, &old) ? absorb_overlay(io, &old) : -EAGAIN;
	if (r && io->update.chunk)
		fusion_update_cancel(&pool->map, &io->update);
	return r;
}
