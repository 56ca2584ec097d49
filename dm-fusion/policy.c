// SPDX-License-Identifier: GPL-2.0-only
/*
 * Policy.  See policy.h.
 */
#include "policy.h"

#define RESERVE_MIN		4
#define RESERVE_MAX		64
#define RESERVE_PART		32	/* of a class's stripes */

#define SLOW_PART		64	/* of the pool */
/* Zones above the first one in which compaction works already. */
#define EARLY_ZONES		2

#define SHARE_ONE		256
#define SHARE_MIN		(SHARE_ONE / 8)

/* As old as sets become while the pool grows. */
#define GROWING_AGE_MS		5000

/* Less than this a second is no load: timestamps, a journal's heartbeat. */
#define IDLE_KIB		64
/* And no load is more than this. */
#define ANY_KIB			(~0ULL)

void fusion_tunables_default(struct fusion_tunables *t)
{
	*t = (struct fusion_tunables) {
		.age_s = 300,
		.idle_ms = 5000,
		.limit_percent = 10,
		.soft_percent = 50,
		/* FusionRAID, section 3.3: 40 MB/s a member */
		.load_kib = 40000000 / 1024,
		.rebuild_kib = 20480,
		.low_water_percent = 5,
		/* drivers give up after 30 s, most of them */
		.hang_ms = 60000,
		.patch_percent = 1,
		.monitor = 1,
		.hedge = 1,
		.window_slots = 10,
		.window_min_us = 1000,
		.window_max_us = 20000,
	};
}

static u64 area_limit(const struct fusion_stock *s, u32 percent)
{
	u64 part = s->total / 100 * percent;
	u64 half = fusion_stock_available(s) / 2;

	return part < half ? part : half;
}

u64 fusion_replica_limit(const struct fusion_tunables *t,
			 const struct fusion_stock *s)
{
	return area_limit(s, t->limit_percent);
}

u64 fusion_patch_limit(const struct fusion_tunables *t,
		       const struct fusion_stock *s)
{
	return area_limit(s, t->patch_percent);
}

/* Where an area of at most @limit blocks begins to be made smaller. */
static u64 area_soft(const struct fusion_tunables *t, u64 limit)
{
	return limit * t->soft_percent / 100;
}

u32 fusion_reserve_stripes(u32 stripes)
{
	u32 reserve = stripes / RESERVE_PART;

	if (reserve < RESERVE_MIN)
		return RESERVE_MIN;
	return reserve < RESERVE_MAX ? reserve : RESERVE_MAX;
}

bool fusion_low_water(const struct fusion_tunables *t,
		      const struct fusion_stock *s, bool low)
{
	u64 part = s->total / 100 * t->low_water_percent;

	return fusion_stock_available(s) < (low ? part + part / 5 : part);
}

u64 fusion_slow_zone(u64 total)
{
	return total / SLOW_PART;
}

bool fusion_scarce(u64 available, u64 zone)
{
	return available < (1 + EARLY_ZONES) * zone;
}

u32 fusion_writers_share(u64 available, u64 zone)
{
	u64 share;

	if (available >= zone)
		return 2 * SHARE_ONE;
	share = 2 * SHARE_ONE * available / zone;
	return share < SHARE_MIN ? SHARE_MIN : share;
}

/* To make an area smaller, which takes @taken blocks of at most @limit. */
static enum fusion_effort area_effort(const struct fusion_tunables *t,
				      const struct fusion_stock *s, u64 taken,
				      u64 limit, u64 oldest_ms, u64 idle_ms,
				      bool waiting)
{
	if (!taken)
		return FUSION_REST;
	if (waiting || taken >= limit ||
	    fusion_stock_available(s) < fusion_slow_zone(s->total))
		return FUSION_INSIST;
	if (t->paused)
		return FUSION_REST;
	if (taken >= area_soft(t, limit) ||
	    (t->age_s && oldest_ms >= t->age_s * 1000ULL) ||
	    (s->growing && oldest_ms >= GROWING_AGE_MS) ||
	    (t->idle_ms && idle_ms >= t->idle_ms))
		return FUSION_YIELD;
	return FUSION_REST;
}

enum fusion_effort fusion_convert_effort(const struct fusion_tunables *t,
					 const struct fusion_stock *s,
					 u64 oldest_ms, u64 idle_ms,
					 bool waiting)
{
	return area_effort(t, s, s->replicated, fusion_replica_limit(t, s),
			   oldest_ms, idle_ms, waiting);
}

enum fusion_effort fusion_destage_effort(const struct fusion_tunables *t,
					 const struct fusion_stock *s,
					 u64 oldest_ms, u64 idle_ms,
					 bool waiting)
{
	return area_effort(t, s, s->patched, fusion_patch_limit(t, s), oldest_ms,
			   idle_ms, waiting);
}

enum fusion_effort fusion_compact_effort(u64 available, u64 zone, bool waiting)
{
	if (waiting || available < zone)
		return FUSION_INSIST;
	return fusion_scarce(available, zone) ? FUSION_YIELD : FUSION_REST;
}

unsigned int fusion_victim_live(enum fusion_effort effort, unsigned int d)
{
	return effort == FUSION_INSIST ? d - 1 : d / 2;
}

u32 fusion_victims_choose(unsigned int d, unsigned int max_live, u32 gain,
			  u32 max, u32 *count)
{
	u32 slots = gain * d, dead = 0, sum = 0, live;

	count[0] = 0;
	for (live = 1; live < d; live++) {
		u32 want = max - sum, gives = d - live, enough;

		enough = dead < slots ? (slots - dead + gives - 1) / gives : 0;
		if (live > max_live)
			want = 0;
		if (want > enough)
			want = enough;
		if (count[live] > want)
			count[live] = want;
		dead += count[live] * gives;
		sum += count[live];
	}
	return dead >= d ? sum : 0;
}

/* So much more than load_kib as the way from the soft limit to the limit is longer than what is left of it. */
static u64 area_load(const struct fusion_tunables *t, u64 taken, u64 limit)
{
	u64 soft = area_soft(t, limit), left;

	if (taken <= soft)
		return t->load_kib;
	if (taken >= limit)
		return ANY_KIB;
	left = (limit - taken) * SHARE_ONE / (limit - soft);
	return left ? (u64)t->load_kib * SHARE_ONE / left : ANY_KIB;
}

u64 fusion_load_limit(const struct fusion_tunables *t, const struct fusion_stock *s)
{
	u64 tops, patches;

	if (!t->load_kib)
		return ANY_KIB;
	tops = area_load(t, s->replicated, fusion_replica_limit(t, s));
	patches = area_load(t, s->patched, fusion_patch_limit(t, s));
	return tops > patches ? tops : patches;
}

bool fusion_member_busy(u64 limit_kib, u64 bytes, u32 ms)
{
	return bytes / 1024 * 1000 / ms > limit_kib;
}

bool fusion_member_idle(u64 bytes, u32 ms)
{
	return bytes * 1000 <= (u64)IDLE_KIB * 1024 * ms;
}
