/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O of volumes: what the read, write and discard paths share.
 *
 * Every clone that dm gives us carries a struct fusion_io.  A path either
 * returns DM_MAPIO_REMAPPED, with the clone aimed at a member, or
 * DM_MAPIO_SUBMITTED, having deferred it to a worker.  There the same path
 * function runs again, allowed to block, and what it returns is submitted.
 */
#ifndef DM_FUSION_IO_H
#define DM_FUSION_IO_H

#include "commit.h"
#include "failure.h"
#include "pool.h"
#include "set.h"

enum fusion_io_kind {
	FUSION_IO_OTHER,	/* nothing to do when the clone ends */
	FUSION_IO_READ,
	FUSION_IO_PARTS,	/* a read, whose parts have been sent for it */
	FUSION_IO_WRITE,
};

/* A replica's bio that is not dm's clone. */
struct fusion_mirror {
	struct fusion_member *member;
	struct fusion_ticket ticket;
	struct bio bio;
};

struct fusion_io {
	struct fusion_volume *volume;
	struct bio *bio;		/* dm's clone */
	enum fusion_io_kind kind;
	struct fusion_ticket ticket;	/* of the clone's start on its member */
	struct fusion_member *member;	/* the clone is on; NULL: none */
	struct work_struct work;

	/* reads */
	unsigned int grace;
	struct bvec_iter iter;		/* all of it; counted from the volume's start */

	/* writes */
	u64 block;
	u64 pages;
	struct fusion_hold hold;
	struct fusion_waiter waiter;
	struct fusion_update update;	/* chunk NULL: no change of the map */
	struct fusion_set *set;		/* NULL: in place */
	union {				/* the new one, if there is a set */
		struct fusion_top top;
		struct fusion_patch patch;
	};
	bool patched;			/* it is a patch */
	bool anywhere;			/* also on unresponsive members */
	bool moved;			/* what is nowhere need not, or cannot, be elsewhere */
	u32 generation;			/* of the block's patches then */
	bool held;
	bool commit;			/* FUA that must wait for a commit */
	bool primary_done;
	blk_status_t status;		/* of the mirrors: an error of theirs */
	atomic_t pending;
	struct fusion_mirror mirror[];	/* p of them */
};

/* What a volume target of @class has with each bio. */
static inline size_t fusion_io_bytes(const struct fusion_class *class)
{
	return sizeof(struct fusion_io) + class->p * sizeof(struct fusion_mirror);
}

static inline struct fusion_io *fusion_io_of(const struct dm_target *ti,
					     struct bio *bio)
{
	return dm_per_bio_data(bio, ti->per_io_data_size);
}

/* The member that a live place is on. */
static inline struct fusion_member *fusion_member_at(struct fusion_pool *pool,
						     u64 place)
{
	u32 member;

	fusion_space_locate(&pool->space, place, &member);
	return &pool->member[member];
}

/* Aim @bio at a live place, @page pages into its block. */
static inline struct fusion_member *fusion_aim(struct fusion_pool *pool,
					       struct bio *bio, u64 place,
					       unsigned int page)
{
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, place, &member);
	bio_set_dev(bio, pool->member[member].bdev);
	bio->bi_iter.bi_sector = sector + page * FUSION_PAGE_SECTORS;
	return &pool->member[member];
}

/* Has @bio, a write to @m that has ended, been put aside, as it failed? */
static inline bool fusion_write_aside(struct fusion_pool *pool,
				      struct fusion_member *m, struct bio *bio)
{
	return unlikely(bio->bi_status) && op_is_write(bio_op(bio)) &&
		fusion_failure_aside(pool, m, bio, &bio->bi_status);
}

/* End @bio with @status. */
static inline void fusion_end(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
}

/* Have @fn continue with @io in a worker of @wq.  Any context. */
static inline void fusion_defer(struct fusion_io *io,
				struct workqueue_struct *wq, work_func_t fn)
{
	INIT_WORK(&io->work, fn);
	queue_work(wq, &io->work);
}

/*
 * Take the exclusive hold of io->block.  True: it is held.  False: @fn continues with @io, and
 * with the hold, in a worker of slow_wq.  Nobody waits there for a hold that another who waits for
 * a worker may have.  Any context.
 */
bool fusion_hold_or_defer(struct fusion_io *io, work_func_t fn);
/* The same, but in such a worker at any rate. */
void fusion_defer_held(struct fusion_io *io, work_func_t fn);

/* Give @io's hold back, if it has one.  Any context. */
static inline void fusion_unhold(struct fusion_io *io)
{
	if (!io->held)
		return;
	io->held = false;
	fusion_hold_drop(&io->volume->pool->locks, &io->hold);
}

/* Put @set, which a write has drawn of; if it closes, that is recorded, even if the write is not. */
static inline void fusion_drawn_put(struct fusion_pool *pool, struct fusion_set *set)
{
	if (fusion_set_put(&pool->space, set))
		fusion_commit_soon(pool);
}

/* fusion_map_load() for a block of @v. */
int fusion_volume_load(struct fusion_volume *v, u64 block, bool may_block);

/*
 * fusion_update_prepare() for a block of @v, which is loaded if it must be.
 * Sleeps.
 */
int fusion_volume_prepare(struct fusion_volume *v, u64 block,
			  enum fusion_update_kind kind, struct fusion_update *u);

/*
 * The paths: called by the volume target's map with io->volume, ->bio and
 * ->kind (OTHER) set, the bio's sector counted from the volume's start.
 */
int fusion_read_map(struct fusion_io *io);
int fusion_write_map(struct fusion_io *io);
int fusion_discard_map(struct fusion_io *io);

/* The clone of a read, or of a write, has ended: DM_ENDIO_*. */
int fusion_read_end(struct fusion_io *io, blk_status_t *status);
int fusion_write_end(struct fusion_io *io, blk_status_t *status);
/* A write that was sent as copies (bounce.h) has ended.  Any context. */
void fusion_write_done(struct fusion_io *io, blk_status_t status);

/* ---- reads: read.c and recover.c ---- */

/* Where the pages at the start of a read are. */
struct fusion_read_source {
	u64 place;			/* 0: zeros */
	u64 mirror[FUSION_MAX_PARITY];	/* other replicas; 0: no more */
	unsigned int page;		/* of these places */
	unsigned int pages;		/* that are there */
};

int fusion_read_init(struct fusion_pool *pool);
void fusion_read_exit(struct fusion_pool *pool);

enum fusion_read_find { FUSION_READ_FOUND, FUSION_READ_MISS, FUSION_READ_UNSYNCED };

/*
 * Find the first of @pages pages from @page of @block on, and how many of
 * those behind it are in the same place.  Under a grace reference, for as long as
 * they are to stay there.
 */
enum fusion_read_find fusion_read_find(struct fusion_pool *pool, u32 volume,
				       u64 block, unsigned int page,
				       unsigned int pages,
				       struct fusion_read_source *src);

/*
 * A read has failed: answer it with what else there is, replicas or the rest of the
 * stripe.  In a worker of recover_wq, without a grace reference.
 */
void fusion_read_recover(struct work_struct *work);

/* In a worker: look again where it is, and send it there. */
void fusion_read_again(struct work_struct *work);

/*
 * It is on a member that is unresponsive: compute it from the rest of its stripe, or if that cannot
 * be, send it there after all.  In a worker of recover_wq, without a grace reference.
 */
void fusion_read_around(struct work_struct *work);

/* ---- large writes: large.c ---- */

/* Whole blocks in a row of which more than this many make a direct stripe. */
static inline unsigned int fusion_large_threshold(const struct fusion_class *class)
{
	/* FusionRAID section 3.2: floor(k / 2) for RAID-5 */
	return class->k / (class->p + 1);
}

/* Write the clone, whole blocks and at most d of them, to a fresh stripe. */
int fusion_large_map(struct fusion_io *io);

/*
 * Small writes that wait, for space or for company, with whole blocks of @v become
 * large ones, if they are enough.  Any context.
 */
void fusion_large_group(struct fusion_volume *v);

/* Memory for large writes of @class, once for each; under fusion_pools_lock. */
int fusion_large_init(struct fusion_pool *pool, struct fusion_class *class);
void fusion_large_exit(struct fusion_pool *pool);

/* ---- resync: resync.c ---- */

/*
 * Make the replicas of @block equal if they may differ: copy its pages from
 * the primary.  @hold is held exclusively.  Sleeps.  An error means that they
 * still may differ; the primary is what counts then.
 */
int fusion_resync_block(struct fusion_volume *volume, u64 block);

void fusion_resync_init(struct fusion_pool *pool);
/* Walk all tops in the background until none needs resync; and stop that. */
void fusion_resync_start(struct fusion_pool *pool);
void fusion_resync_stop(struct fusion_pool *pool);
/* Wait for the end of it; -EINTR, or -EIO if it cannot be done. */
int fusion_resync_wait(struct fusion_pool *pool);

#endif /* DM_FUSION_IO_H */
