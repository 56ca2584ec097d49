/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy: when the background works, how hard, and how much it leaves to those
 * who write.  Pure; any context.
 *
 * Space is counted in blocks over all members, or in stripes of one class.
 */
#ifndef DM_FUSION_POLICY_H
#define DM_FUSION_POLICY_H

#include "pure.h"

/* What an administrator may change while the pool runs: message "set". */
struct fusion_tunables {
	u32 paused;		/* only what writers wait for, and requests */
	u32 age_s;		/* sets older than this are converted; 0: never */
	u32 idle_ms;		/* all are, after so long without load; 0: never */
	u32 limit_percent;	/* of the pool: the replicated area's limit */
	u32 soft_percent;	/* of that limit: where conversion begins */
	u32 patch_percent;	/* of the pool: the patch area's limit */
	u32 load_kib;		/* a second, on a member: above it, others wait */
	u32 rate_kib;		/* a second: of background I/O; 0: no limit */
	u32 rebuild_kib;	/* the same, of rebuild, while a member has such load */
	u32 low_water_percent;	/* of the pool; see fusion_low_water() */
	u32 hang_ms;		/* a member that takes longer has failed; 0: never */
	u32 monitor;		/* 0: no member is taken for unresponsive; else monitor.h */
	u32 window_us;		/* its window, of so many slots; 0: by itself */
	u32 window_slots;
	u32 window_min_us;	/* by itself, it is in these bounds */
	u32 window_max_us;
	u32 straggler_enter;	/* 0: by itself, and so straggler_exit */
	u32 straggler_exit;
	u32 hedge;		/* more I/O, within limits, to wait less: budget.h */
	u32 write_select;	/* enum fusion_select, and the bias: selection.h */
	u32 rmw_bias;
};

void fusion_tunables_default(struct fusion_tunables *t);

/* How hard the background works. */
enum fusion_effort {
	FUSION_REST,
	FUSION_YIELD,		/* while the load allows it */
	FUSION_INSIST,		/* whatever the load: writers depend on it */
};

struct fusion_stock {		/* blocks */
	u64 total;
	u64 free;
	u64 reserve;		/* of @free: for the background alone */
	u64 replicated;		/* in closed sets, live or not */
	u64 patched;		/* in sets for patches, open or not */
	bool growing;		/* sets may be where nothing is to be any more */
};

/* What is free to those who write. */
static inline u64 fusion_stock_available(const struct fusion_stock *s)
{
	return s->free > s->reserve ? s->free - s->reserve : 0;
}

/*
 * The replicated area's limit, in blocks: limit_percent of the pool, and half
 * of what is free beyond the reserve.
 */
u64 fusion_replica_limit(const struct fusion_tunables *t,
			 const struct fusion_stock *s);

/* The same for patches, with patch_percent. */
u64 fusion_patch_limit(const struct fusion_tunables *t,
		       const struct fusion_stock *s);

/*
 * Stripes of a class, which has @stripes in its bands, that only the
 * background may draw: what compaction needs to go on when nothing else is
 * free, until a commit makes free what it has emptied.
 */
u32 fusion_reserve_stripes(u32 stripes);

/*
 * Of what writes may draw, stripes that only writes to blocks which are there
 * already may: the old places of those become free in the end, so that a pool in
 * which nothing new has room is written on, and freed, by the file systems on it.
 */
static inline u32 fusion_margin_stripes(u32 stripes)
{
	return fusion_reserve_stripes(stripes);
}

/*
 * Is so little available that somebody should know: less than low_water_percent
 * of the pool?  @low: it has been; then it is until there is a fifth more, so
 * that space which comes and goes is not told of each time.
 */
bool fusion_low_water(const struct fusion_tunables *t,
		      const struct fusion_stock *s, bool low);

/* Below so many available blocks those who write are slowed down. */
u64 fusion_slow_zone(u64 total);

/*
 * Is compaction likely to pay for what is written?  Then a replica that is to be
 * converted, or moved, soon costs more than waiting for a stripe that is under way.
 */
bool fusion_scarce(u64 available, u64 zone);

/*
 * Of each freed block, how much those who write get, in 1/256, when @available
 * of a zone of @zone are left: from 2 at the zone's upper end down to 1/8.  So
 * space settles where as much is drawn as is freed.
 */
u32 fusion_writers_share(u64 available, u64 zone);

/*
 * Conversion: @oldest_ms is the age of the oldest set, @idle_ms how long the
 * members have had no load; @waiting: somebody waits for space.  While the pool grows sets
 * do not get old.
 */
enum fusion_effort fusion_convert_effort(const struct fusion_tunables *t,
					 const struct fusion_stock *s,
					 u64 oldest_ms, u64 idle_ms,
					 bool waiting);

/* Destage: the same for the patch area. */
enum fusion_effort fusion_destage_effort(const struct fusion_tunables *t,
					 const struct fusion_stock *s,
					 u64 oldest_ms, u64 idle_ms,
					 bool waiting);

/* Compaction of a class for which @available blocks are free; slow zone @zone. */
enum fusion_effort fusion_compact_effort(u64 available, u64 zone, bool waiting);

/*
 * The most live slots, of @d, that a stripe may have to be worth emptying at
 * @effort.
 */
unsigned int fusion_victim_live(enum fusion_effort effort, unsigned int d);

/*
 * Which RAID stripes to empty.  Of those with i of @d slots live there are
 * @count[i]; of these, left in there is how many to take: those with the fewest
 * first, none with more than @max_live, until packing what is live in them gives
 * back @gain stripes, and no more than @max.  Returns their sum; 0 if not even
 * one stripe would be given back.
 */
u32 fusion_victims_choose(unsigned int d, unsigned int max_live, u32 gain,
			  u32 max, u32 *count);

/* Is a set with @live of @d slots better moved than converted in place? */
static inline bool fusion_set_sparse(unsigned int live, unsigned int d)
{
	return live <= d / 2;
}

/*
 * The load of a member, in KiB a second, above which who yields leaves it alone: load_kib
 * (FusionRAID, section 3.3) while an area is at its soft limit, and the more the nearer it is to
 * its limit.  So the area of a pool that is never idle settles where as much is converted as is
 * written, and writers do not meet the limit, where each of them would wait for a conversion.
 */
u64 fusion_load_limit(const struct fusion_tunables *t, const struct fusion_stock *s);
/* Has a member with @bytes of load in @ms, which is not 0, more than that? */
bool fusion_member_busy(u64 limit_kib, u64 bytes, u32 ms);
/* Is it idle? */
bool fusion_member_idle(u64 bytes, u32 ms);

#endif /* DM_FUSION_POLICY_H */
