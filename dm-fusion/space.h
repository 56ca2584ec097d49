/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Space: bands and their stripes, free and in use.
 *
 * In core a band is either free (of no class), or it belongs to a class and
 * has a bitmap of its stripes in use; the bitmaps of bands that were in use
 * before this activation are loaded when space is first sought there.  A
 * stripe in use may be
 *
 *	held	by an open set or by I/O that will make it live: a commit does
 *		not free it even if nothing in it is live on disk yet;
 *	dying	freed by a commit, allocatable again after a grace period that
 *		started later (burying: after the one that is under way);
 *	emptied	free, like all stripes of its template, and kept from being
 *		drawn until the template has been passed down (passdown.h).
 *
 * Each class keeps a reserve of stripes that only background work draws, so
 * that what is to make space never lacks it.
 *
 * On disk a stripe is stored exactly while the map refers to it: see ledger.h.
 *
 * Lock order: commit mutex -> space->lock (a mutex, for changes of bands'
 * classes and loading) -> class->lock (irq-safe; also inside an epoch's shard
 * lock).  band->class and what goes with it do not change while a stripe of
 * the band is in use.
 */
#ifndef DM_FUSION_SPACE_H
#define DM_FUSION_SPACE_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "epoch.h"
#include "member.h"
#include "metadata.h"
#include "patch.h"
#include "policy.h"

#define FUSION_OPEN_SETS	8
/* More, while members are unresponsive that all of these have slots of. */
#define FUSION_OPEN_MAX		24

struct fusion_set;

/* Sets that are open; under class->lock. */
struct fusion_open {
	unsigned int count;
	unsigned int next;		/* where to look first */
	struct fusion_set *set[FUSION_OPEN_MAX];
	struct fusion_set *spare;	/* for when memory is short; or NULL */
};

struct fusion_class {
	unsigned int index;		/* in the class table */
	unsigned int d, p, k;
	u32 old_bands;			/* of the old layout; under space->lock */

	spinlock_t lock;
	struct list_head bands;		/* loaded, with free stripes */
	struct list_head full;		/* loaded, without */
	u64 free;			/* stripes free in @bands */
	u32 stripes;			/* in all of its bands */
	u64 unloaded;			/* free in bands not loaded */
	u32 random;			/* state of the draws */
	u32 fruitless;			/* see fusion_waiters_vain() */
	/* set.c and patch-set.c */
	struct fusion_open tops, patches, parity;
};

/*
 * What the last commit said of a stripe, in a byte: how many slots are live, and
 * whether it is a primary.
 */
#define FUSION_LIVE_MASK	0x7f
#define FUSION_LIVE_PRIMARY	0x80
#define FUSION_LIVE_OTHER	0xff	/* neither that nor RAID */

struct fusion_band {
	struct fusion_class *class;	/* NULL: free, or of no use: @below */
	const struct fusion_layout *layout;
	u64 chunk;			/* where it begins on each member, in blocks */
	struct list_head list;		/* of its class, or of free bands */
	u32 number;			/* stripe ids have it */
	u32 below;			/* old bands in use that have some of its chunks: region.h */
	u32 stripes;			/* of this band in its class */
	u32 used;			/* in core; of an unloaded band: stored */
	u32 stored;			/* on disk: the ledger's */
	bool stored_dirty;		/* the ledger's */
	bool has_dying;			/* the commit's */
	bool burying;			/* a grace period is under way */
	bool evacuated;			/* nothing is drawn from it */
	u32 burying_used;
	struct list_head emptied_list;	/* not empty: has emptied templates */
	/* in one allocation, NULL: not loaded; bitmaps of stripes */
	unsigned long *bits;
	unsigned long *used_bits;
	unsigned long *held_bits;
	unsigned long *dying_bits;
	unsigned long *burying_bits;
	u8 *live;			/* of each stripe: FUSION_LIVE_ */
	u8 *spared;			/* the same: see spare.h */
	unsigned long *emptied_bits;	/* of templates; under space->lock */
	u16 *template_used;		/* stripes used, for each template */
};

/* The bands of a layout.  While a pool grows it has two: region.h. */
struct fusion_region {
	const struct fusion_layout *layout;
	struct fusion_band *band;
	u32 count;
	u32 units, chunks;		/* that each band is long */
};

/* Numbers of members that are not OK: spare.h */
struct fusion_spares {
	u32 numbers;			/* in use, a bit each */
	u8 member[FUSION_MAX_AREAS];	/* whose it is */
};

/* The member that what is nowhere is on, if another is not: it is always out. */
#define FUSION_NOWHERE		FUSION_MAX_MEMBERS

struct fusion_space {
	const struct fusion_layout *layout;	/* the newest: of all members */
	const struct fusion_layout *old_layout;	/* while the pool grows */
	struct fusion_member *member;	/* and FUSION_NOWHERE */
	struct fusion_monitor *monitor;	/* of them */
	struct fusion_md *md;
	struct fusion_epochs *epochs;
	struct fusion_grace *grace;
	struct fusion_spares spares;
	u32 block_sectors;

	struct mutex lock;
	/* by the lowest bit of their layouts' generations; one that is not there has no bands */
	struct fusion_region region[2];
	struct fusion_region *newest;
	u32 old_bands;			/* of the old layout, that have a class */
	u32 moving_bands;		/* see fusion_region_moving() */
	struct list_head free_bands;	/* of the newest */
	u32 free_band_count;
	struct fusion_class *class[FUSION_MAX_CLASSES];
	bool has_dying;			/* the commit's */
	bool frozen;			/* by a mode that no commit follows */
	struct fusion_band *evacuated;	/* or NULL */

	bool passdown;			/* keep what is emptied; while suspended */
	struct list_head emptied_bands;
	atomic_t emptied;		/* templates; see fusion_waiters_returned() */

	/* closed sets: set-table.c */
	struct mutex sets_lock;
	struct xarray sets;		/* by A */
	struct list_head sets_by_age;
	u64 sets_number;		/* of the youngest */
	struct list_head patch_sets_by_age;
	atomic64_t replica_blocks;	/* that those for tops take */
	u64 replica_limit;
	atomic64_t patch_blocks;	/* that those for patches take, open or not */
	u64 patch_limit;
	atomic64_t patches_closed;	/* sets for them, since the start */

	/*
	 * Those who write are slowed down while little is free and something
	 * may be gained by reclaim: they get of what is freed.
	 */
	bool reclaimable;
	bool scarce;			/* see fusion_scarce() */
	u64 slow_zone;			/* blocks */
	atomic64_t budget;		/* blocks */
};

/*
 * Set up from the metadata: fields above @lock are the caller's to fill in.
 * Sleeps.
 */
int fusion_space_init(struct fusion_space *s);
void fusion_space_exit(struct fusion_space *s);

/*
 * The class of @d data and @p parity slots: made, also in the metadata's class
 * table (which the caller commits), if there is none.  Sleeps; NULL: all
 * entries are taken or no memory.
 */
struct fusion_class *fusion_space_class(struct fusion_space *s, unsigned int d,
					unsigned int p);

/* Where @place is, whose @home is on a member that has a number. */
struct fusion_spot fusion_space_spot(const struct fusion_space *s, u64 place,
				     struct fusion_spot home);

static inline sector_t fusion_space_sector(const struct fusion_space *s,
					   const struct fusion_band *b,
					   struct fusion_spot spot)
{
	return s->member[spot.member].offset_sectors +
		(b->chunk + spot.chunk) * s->block_sectors;
}

/* The band of a stripe that a good place is in. */
static inline struct fusion_band *fusion_space_band(const struct fusion_space *s, u64 stripe)
{
	u32 number = fusion_stripe_band(stripe) & (FUSION_MAX_BANDS - 1);

	return &s->region[fusion_stripe_region(stripe)].band[number];
}

/*
 * Where a live place is: member index and sector on it.  If it is nowhere, the member is
 * out: that of its home, or FUSION_NOWHERE.  Any context.
 */
static inline sector_t fusion_space_locate(const struct fusion_space *s,
					   u64 place, u32 *member)
{
	u64 stripe = fusion_place_stripe(place);
	const struct fusion_band *b = fusion_space_band(s, stripe);
	struct fusion_spot spot;

	spot = fusion_layout_home(b->layout, b->class->k,
				  fusion_stripe_index(stripe),
				  fusion_place_slot(place));
	if (unlikely(READ_ONCE(s->member[spot.member].spared)))
		spot = fusion_space_spot(s, place, spot);
	*member = spot.member;
	return fusion_space_sector(s, b, spot);
}

/* Take the members that @stripe is on, slot by slot, into @members; their mask. */
u64 fusion_space_members(const struct fusion_space *s, u64 stripe, u8 *members);

/* The class of a stripe that a good place is in. */
static inline struct fusion_class *
fusion_space_class_of(const struct fusion_space *s, u64 stripe)
{
	return fusion_space_band(s, stripe)->class;
}

/*
 * Could @place, read from the metadata, be a place of this pool?  Locating
 * one that could not would run off the tables.
 */
bool fusion_space_place_ok(const struct fusion_space *s, u64 place);

/* And one that a block of a volume of @class has as its base? */
bool fusion_space_base_ok(const struct fusion_space *s, const struct fusion_class *class,
			  u64 place);

/* Could @disk, read from the metadata, be of @stripe?  -EIO: no, and the log says so. */
int fusion_space_check_stripe(const struct fusion_space *s, u64 stripe,
			      const struct fusion_disk_stripe *disk);

/* Could @place be those of the replicas of something of @class?  Unused ones are 0. */
bool fusion_space_replicas_ok(const struct fusion_space *s, const struct fusion_class *class,
			      const u64 *place);

/*
 * Decode a top, read from the metadata, of a volume of @class.  -EINVAL: this pool cannot
 * have it.
 */
int fusion_space_decode_top(const struct fusion_space *s,
			    const struct fusion_class *class,
			    const struct fusion_disk_top *disk,
			    struct fusion_top *top);

/* As above, patches, of blocks of so many pages as the pool's have. */
int fusion_space_decode_patches(const struct fusion_space *s,
				const struct fusion_class *class,
				const struct fusion_disk_patches *disk,
				struct fusion_patches *patches);

/*
 * The patches of the next block of @volume, of @class, in the open transaction, from *@block on,
 * into a room for any.  -ENODATA: there are none; -EIO: this pool cannot have them,
 * and the log says so.  Under the commit mutex.
 */
int fusion_space_next_patches(const struct fusion_space *s, u32 volume,
			      const struct fusion_class *class, u64 *block,
			      struct fusion_patches *patches);

/*
 * The same for the record of a row with @key, @disk is all its parts.  Its stripe may
 * be one of which nothing is in use any more.
 */
int fusion_space_decode_row(const struct fusion_space *s,
			    const struct fusion_disk_row *disk, u64 key,
			    struct fusion_row *row);

/*
 * Draw a stripe for a direct write.  It is held until
 * fusion_space_unhold().  -EAGAIN: call fusion_space_refill() and try again.
 * Any context.
 */
int fusion_space_draw_stripe(struct fusion_space *s, struct fusion_class *class,
			     u64 *stripe);

/* As above, for background work: also of the reserve.  Sleeps.  -ENOSPC. */
int fusion_space_draw_reserved(struct fusion_space *s,
			       struct fusion_class *class, u64 *stripe);

/*
 * As above, for what is in bands of the old layout: not of the reserve, and whatever those who
 * write may draw.  Sleeps.  -ENOSPC.
 */
int fusion_space_draw_moved(struct fusion_space *s, struct fusion_class *class, u64 *stripe);
/* Is there likely to be one?  A hint. */
bool fusion_space_may_move(struct fusion_space *s, struct fusion_class *class);
/* Free bands of @g that @class, which is in use, needs to begin to grow into it. */
u64 fusion_space_grow_bands(struct fusion_space *s, const struct fusion_region *g,
			    const struct fusion_class *class);

/*
 * Hold @stripe, which is live in the map, as one that was drawn is: it is in use until
 * fusion_space_unhold(), also if all of it dies.
 */
void fusion_space_hold(struct fusion_space *s, u64 stripe);

/*
 * A drawn stripe is live now (its changes are recorded) or, if not @live,
 * was not used: then it is free at once.
 */
void fusion_space_unhold(struct fusion_space *s, u64 stripe, bool live);

/*
 * Get at least @need free stripes beyond the reserve for @class: take a free
 * band, or load one of its own.  @commit_lock is taken, for loading only.
 * Sleeps.  -ENOSPC: there are none now, for those who write.
 */
int fusion_space_refill(struct fusion_space *s, struct fusion_class *class,
			unsigned int need, struct mutex *commit_lock);

/*
 * May @count stripes be drawn for a write?  If so they are counted as drawn.
 * Under class->lock.
 */
bool fusion_space_allows(struct fusion_space *s, struct fusion_class *class,
			 unsigned int count);

/*
 * Draw and free, under class->lock, for who draws several: FUSION_NO_STRIPE if
 * there is none.
 */
u64 fusion_space_draw_locked(struct fusion_space *s, struct fusion_class *class);
/* The same, of those which have no slot on an unresponsive, or silent, member, if one is soon found. */
u64 fusion_space_draw_responsive(struct fusion_space *s, struct fusion_class *class);
void fusion_space_free_locked(struct fusion_space *s, u64 stripe);

/*
 * Is @stripe, which is live, held by an open set or by I/O?  Under the commit
 * mutex the answer holds for "no".
 */
bool fusion_space_held(struct fusion_space *s, u64 stripe);

/* A snapshot. */
void fusion_space_stock(struct fusion_space *s, struct fusion_stock *stock);

/* What can be drawn for writes to @class, free bands included; a snapshot. */
u64 fusion_space_available_blocks(struct fusion_space *s,
				  struct fusion_class *class);

/* May blocks that are not there yet be written?  A hint. */
bool fusion_space_may_grow(struct fusion_space *s, struct fusion_class *class);

/*
 * Up to @max RAID stripes of @class with at most @max_live slots live, those
 * with the fewest first, and the fewest that give back @gain stripes when their
 * slots are packed; all bands that are loaded are searched.  Or, if a band of
 * @class is being emptied, any that are live there; or, if there are none, and with @max_live 0,
 * in bands of the old layout, as long as there is room for it.  *@of says which.  How many.
 * Sleeps.
 */
enum fusion_victims_of {
	FUSION_OF_SPARSE,
	FUSION_OF_EVACUATED,
	FUSION_OF_OLD,
};

unsigned int fusion_space_victims(struct fusion_space *s,
				  struct fusion_class *class,
				  unsigned int max_live, unsigned int gain,
				  u64 *stripe, unsigned int max,
				  enum fusion_victims_of *of);

/*
 * Have a band of another class emptied for @to, which finds no space: nothing is
 * drawn from it any more, and its RAID stripes become victims, live or not.
 * The one with the least in use, if its class has room for that elsewhere and is
 * not short of space then.  False: there is none, or one is being emptied
 * already.  Sleeps.
 */
bool fusion_space_evacuate(struct fusion_space *s, struct fusion_class *to);
/*
 * Free the bands of other classes in which nothing is in use, for @to, if these can
 * do without: they were assigned and not drawn from, or what was drawn was not used.
 * @waiting: the classes, by index, that somebody waits for.  How many.  Sleeps.
 */
u32 fusion_space_give_unused(struct fusion_space *s, struct fusion_class *to,
			     u32 waiting);
/* It is kept by its class after all, if there is one.  Sleeps. */
void fusion_space_keep(struct fusion_space *s);

/* Is a band of @class being emptied?  A hint. */
static inline bool fusion_space_evacuates(const struct fusion_space *s,
					  const struct fusion_class *class)
{
	const struct fusion_band *b = READ_ONCE(s->evacuated);

	return b && READ_ONCE(b->class) == class;
}

/* Is @place in it, or in a band of the old layout? */
static inline bool fusion_space_leaves(const struct fusion_space *s, u64 place)
{
	return READ_ONCE(fusion_space_band(s, fusion_place_stripe(place))->evacuated);
}

/* Load all bands of @class.  Sleeps, taking @commit_lock. */
int fusion_space_load(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock);
/* And of all classes. */
int fusion_space_load_all(struct fusion_space *s, struct mutex *commit_lock);

/* Slots live in @stripe by the last commit, if its band is loaded; a hint. */
unsigned int fusion_space_live(struct fusion_space *s, u64 stripe);

/*
 * While records are replayed, and nothing is drawn: @stripe is one of @class, whose band the
 * metadata may not know yet as one of its.  -EINVAL: it is another's, or there is no such stripe.
 */
int fusion_space_adopt(struct fusion_space *s, struct fusion_class *class, u64 stripe);

/* ---- for the commit, under its mutex ---- */

/* The commit stores @disk as the record of @stripe; not @disk: none. */
void fusion_space_note(struct fusion_space *s, u64 stripe,
		       const struct fusion_disk_stripe *disk);

/* The commit frees @stripe: it has left the disk.  */
void fusion_space_release(struct fusion_space *s, u64 stripe);

/* A grace period starts: for the stripes that are dying now. */
void fusion_space_begin_bury(struct fusion_space *s);

/*
 * It has ended: they are free.  With @passdown, templates that have become
 * wholly free with them are emptied; true if there are any.  Nothing that is
 * durable refers to these, and nobody reads them any more.  Without the commit
 * mutex; sleeps.
 */
bool fusion_space_bury(struct fusion_space *s);

/* ---- for passing down ---- */

/* Emptied templates in a row; one range of sectors from each member's first. */
struct fusion_emptied {
	struct fusion_band *band;
	u32 first, templates;
	sector_t sector;
	sector_t sectors;
	u64 blocks;			/* on each member */
};

/* Take some; false: there are none.  Sleeps. */
bool fusion_space_take_emptied(struct fusion_space *s, struct fusion_emptied *e);

/* What was taken may be drawn from again.  Sleeps. */
void fusion_space_return_emptied(struct fusion_space *s,
				 const struct fusion_emptied *e);

/*
 * Home slots that are free, and those of stripes in use, in blocks over all
 * members; for status.
 */
void fusion_space_blocks(struct fusion_space *s, u64 *free_blocks,
			 u64 *used_blocks);

/* Slots of stripes in use in bands of the old layout; 0 if the pool does not grow. */
u64 fusion_space_old_blocks(struct fusion_space *s);

#endif /* DM_FUSION_SPACE_H */
