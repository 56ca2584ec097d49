// SPDX-License-Identifier: GPL-2.0-only
/*
 * Policy: limits, throttle, efforts.
 */
#include <string.h>

#include "policy.h"
#include "tap.h"

static struct fusion_tunables defaults(void)
{
	struct fusion_tunables t;

	fusion_tunables_default(&t);
	return t;
}

static void test_limit(void)
{
	struct fusion_tunables t = defaults();
	struct fusion_stock s = { .total = 100000, .free = 100000, .reserve = 1000 };

	CHECK(fusion_replica_limit(&t, &s) == 10000,
	      "the replicated area is at most a tenth of the pool");
	s.free = 11000;
	CHECK(fusion_replica_limit(&t, &s) == 5000,
	      "and half of what is free beyond the reserve");
	s.free = 900;
	CHECK(fusion_replica_limit(&t, &s) == 0,
	      "with nothing beyond it: nothing");
	s.free = 100000;
	t.limit_percent = 100;
	CHECK(fusion_replica_limit(&t, &s) == 49500,
	      "the part of the pool can be set");
	t.limit_percent = 0;
	CHECK(fusion_replica_limit(&t, &s) == 0, "also to nothing");
}

static void test_low_water(void)
{
	struct fusion_tunables t = defaults();
	struct fusion_stock s = { .total = 100000, .free = 6000, .reserve = 1000 };

	CHECK(!fusion_low_water(&t, &s, false), "a twentieth is available: no low water");
	s.free = 5999;
	CHECK(fusion_low_water(&t, &s, false), "less, beyond the reserve: low water");
	s.free = 6999;
	CHECK(fusion_low_water(&t, &s, true), "it lasts");
	s.free = 7000;
	CHECK(!fusion_low_water(&t, &s, true), "until there is a fifth more");
	t.low_water_percent = 80;
	s.free = 97000;
	CHECK(!fusion_low_water(&t, &s, true), "which can be, whatever is set");
	t.low_water_percent = 0;
	s.free = 0;
	CHECK(!fusion_low_water(&t, &s, false) && !fusion_low_water(&t, &s, true),
	      "or never, and no more");
}

static void test_reserve(void)
{
	u32 stripes, last = 0;
	int monotone = 1, within = 1;

	for (stripes = 0; stripes < 100000; stripes++) {
		u32 r = fusion_reserve_stripes(stripes);

		monotone &= r >= last;
		within &= r >= 4 && r <= 64;
		last = r;
	}
	CHECK(monotone, "a class with more stripes reserves no fewer");
	CHECK(within, "4 to 64 stripes");
	CHECK(fusion_reserve_stripes(1120) == 35,
	      "a part of them in between");
}

/*
 * Writers who draw what they get, while reclaim frees @freed blocks a round,
 * settle inside the zone, from above and from below.
 */
static u64 settle(u64 available, u64 zone, u64 freed)
{
	unsigned int round;

	for (round = 0; round < 100000; round++) {
		u64 get = freed * fusion_writers_share(available, zone) / 256;

		available += freed;
		available -= get < available ? get : available;
	}
	return available;
}

static void test_share(void)
{
	u64 zone, available;
	u32 share, last;
	int monotone = 1, bounded = 1, settles = 1;

	for (zone = 1; zone < 3000; zone += 7) {
		last = 0;
		for (available = 0; available <= 2 * zone; available++) {
			share = fusion_writers_share(available, zone);
			monotone &= share >= last;
			bounded &= share >= 32 && share <= 512;
			last = share;
		}
	}
	CHECK(monotone,
	      "the more is available, the larger is the writers' share");
	CHECK(bounded, "from an eighth to twice of what is freed");
	CHECK(fusion_writers_share(500, 1000) == 256,
	      "in the middle, just as much");
	for (zone = 100; zone < 5000; zone += 100) {
		u64 freed = zone / 20;

		settles &= settle(0, zone, freed) > zone / 4 &&
			settle(0, zone, freed) < zone;
		settles &= settle(zone, zone, freed) > zone / 4 &&
			settle(zone, zone, freed) < zone;
	}
	CHECK(settles, "so space settles inside the zone");
}

static void test_convert(void)
{
	struct fusion_tunables t = defaults();
	struct fusion_stock s = { .total = 100000, .free = 80000, .reserve = 1000,
				  .replicated = 100 };

	CHECK(fusion_convert_effort(&t, &s, 0, 0, false) == FUSION_REST,
	      "young sets, space and load: rest");
	CHECK(fusion_convert_effort(&t, &s, 299999, 0, false) == FUSION_REST &&
	   fusion_convert_effort(&t, &s, 300000, 0, false) == FUSION_YIELD,
	      "old sets");
	s.growing = true;
	CHECK(fusion_convert_effort(&t, &s, 4999, 0, false) == FUSION_REST &&
	      fusion_convert_effort(&t, &s, 5000, 0, false) == FUSION_YIELD,
	      "while the pool grows a set is soon old");
	s.growing = false;
	CHECK(fusion_convert_effort(&t, &s, 0, 4999, false) == FUSION_REST &&
	   fusion_convert_effort(&t, &s, 0, 5000, false) == FUSION_YIELD,
	      "idle members");
	s.replicated = 5000;
	CHECK(fusion_convert_effort(&t, &s, 0, 0, false) == FUSION_YIELD,
	      "half of the limit");
	t.paused = 1;
	CHECK(fusion_convert_effort(&t, &s, 1 << 30, 1 << 30, false) == FUSION_REST,
	      "none of these when paused");
	s.replicated = 10000;
	CHECK(fusion_convert_effort(&t, &s, 0, 0, false) == FUSION_INSIST,
	      "the limit, also when paused");
	s.replicated = 1;
	CHECK(fusion_convert_effort(&t, &s, 0, 0, true) == FUSION_INSIST,
	      "somebody waits");
	s.free = 1000 + 100000 / 64 - 1;
	CHECK(fusion_convert_effort(&t, &s, 0, 0, false) == FUSION_INSIST,
	      "little is free");
	s.replicated = 0;
	CHECK(fusion_convert_effort(&t, &s, 1 << 30, 1 << 30, true) == FUSION_REST,
	      "nothing to convert");
	t = defaults();
	s.replicated = 10;
	s.free = 80000;
	t.age_s = 0;
	t.idle_ms = 0;
	CHECK(fusion_convert_effort(&t, &s, 1 << 30, 1 << 30, false) == FUSION_REST,
	      "triggers that are switched off");
}

static void test_destage(void)
{
	struct fusion_tunables t = defaults();
	struct fusion_stock s = { .total = 100000, .free = 80000, .reserve = 1000,
				  .patched = 100, .replicated = 100000 };

	CHECK(fusion_patch_limit(&t, &s) == 1000,
	      "the patch area is at most a hundredth of the pool");
	CHECK(fusion_destage_effort(&t, &s, 0, 0, false) == FUSION_REST,
	      "few patches: rest, whatever there is of replicas");
	CHECK(fusion_destage_effort(&t, &s, 300000, 0, false) == FUSION_YIELD &&
	      fusion_destage_effort(&t, &s, 0, 5000, false) == FUSION_YIELD,
	      "old ones; idle members");
	s.patched = 500;
	CHECK(fusion_destage_effort(&t, &s, 0, 0, false) == FUSION_YIELD,
	      "half of the limit");
	s.total = 8000;
	s.patched = 39;
	CHECK(fusion_destage_effort(&t, &s, 0, 0, false) == FUSION_REST,
	      "less than half, also of few");
	s.total = 100000;
	s.patched = 1000;
	t.paused = 1;
	CHECK(fusion_destage_effort(&t, &s, 0, 0, false) == FUSION_INSIST,
	      "the limit, also when paused");
	s.patched = 1;
	CHECK(fusion_destage_effort(&t, &s, 1 << 30, 1 << 30, false) == FUSION_REST &&
	      fusion_destage_effort(&t, &s, 0, 0, true) == FUSION_INSIST,
	      "somebody waits");
	t.patch_percent = 0;
	CHECK(fusion_destage_effort(&t, &s, 0, 0, false) == FUSION_INSIST,
	      "there are to be no patches any more");
	s.patched = 0;
	CHECK(fusion_destage_effort(&t, &s, 0, 0, true) == FUSION_REST,
	      "there are none");
}

static void test_compact(void)
{
	u64 zone = fusion_slow_zone(64000);

	CHECK(zone == 1000, "the slow zone is a part of the pool");
	CHECK(fusion_compact_effort(3000, zone, false) == FUSION_REST,
	      "enough is free");
	CHECK(fusion_compact_effort(2999, zone, false) == FUSION_YIELD,
	      "it becomes less");
	CHECK(fusion_compact_effort(999, zone, false) == FUSION_INSIST,
	      "writers are slowed down");
	CHECK(fusion_compact_effort(3000, zone, true) == FUSION_INSIST,
	      "somebody waits");
	CHECK(!fusion_scarce(3000, zone) && fusion_scarce(2999, zone),
	      "space is scarce where compaction begins");
	CHECK(fusion_victim_live(FUSION_YIELD, 8) == 4 &&
	   fusion_victim_live(FUSION_INSIST, 8) == 7,
	      "half dead stripes at first, at last any with a dead slot");
	CHECK(fusion_set_sparse(2, 5) && !fusion_set_sparse(3, 5),
	      "a set less than half live is sparse");
}

static void test_load(void)
{
	struct fusion_tunables t = defaults();
	struct fusion_stock s = { .total = 100000, .free = 80000, .reserve = 1000 };
	u64 kib = fusion_load_limit(&t, &s), last = 0;
	int monotone = 1;

	CHECK(!fusion_member_busy(kib, 39990000 / 5, 200) &&
	   fusion_member_busy(kib, 40010000 / 5, 200),
	      "a member is busy above 40 MB/s");
	for (s.replicated = 0; s.replicated < 11000; s.replicated++) {
		u64 more = fusion_load_limit(&t, &s);

		monotone &= more >= last;
		last = more;
	}
	CHECK(monotone && last == ~0ULL, "with more the nearer the limit is, and never beyond it");
	s.replicated = 5000;
	CHECK(fusion_load_limit(&t, &s) == kib, "as ever at the soft limit");
	s.replicated = 7500;
	CHECK(fusion_load_limit(&t, &s) == 2 * kib, "twice of that half way to the limit");
	s.patched = 900;
	CHECK(fusion_load_limit(&t, &s) > 4 * kib && fusion_load_limit(&t, &s) < 6 * kib,
	      "that of patches counts if it is nearer");
	t.soft_percent = 100;
	s.replicated = 9999;
	s.patched = 999;
	CHECK(fusion_load_limit(&t, &s) == kib, "no way from one to the other");
	t.load_kib = 0;
	CHECK(!fusion_member_busy(fusion_load_limit(&t, &s), ~0ULL / 1000, 200), "or never");
	CHECK(fusion_member_idle(0, 200) && fusion_member_idle(13107, 200) &&
	   !fusion_member_idle(13108, 200),
	      "a heartbeat is no load");
}

/* What those in @count give back, in stripes, when it is packed. */
static u32 given_back(unsigned int d, const u32 *count)
{
	u32 dead = 0, i;

	for (i = 1; i < d; i++)
		dead += count[i] * (d - i);
	return dead / d;
}

static void test_victims(void)
{
	u32 count[6] = { 7, 2, 0, 100, 100, 9 };

	CHECK(fusion_victims_choose(6, 5, 1, 1000, count) == 2 &&
	      count[0] == 0 && count[1] == 2 && count[3] == 0,
	      "the emptiest first; nothing is to be done for empty ones");
	CHECK(given_back(6, count) == 1, "and no more than give back what is wanted");

	memcpy(count, (u32 [6]){ 0, 2, 0, 100, 100, 9 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 4, 1000, count) == 7 && count[3] == 5,
	      "then those with more");
	CHECK(given_back(6, count) == 4, "until it is enough");

	memcpy(count, (u32 [6]){ 0, 2, 0, 100, 100, 9 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 3, 1000, 1000, count) == 102 &&
	      count[4] == 0 && count[5] == 0,
	      "none that are not worth it, whatever is wanted");

	memcpy(count, (u32 [6]){ 0, 2, 0, 100, 100, 9 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 1000, 50, count) == 50 && count[3] == 48,
	      "no more than can be looked for");

	memcpy(count, (u32 [6]){ 0, 1 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 16, 1000, count) == 0,
	      "one alone would only be moved");
	memcpy(count, (u32 [6]){ 0, 0, 0, 0, 0, 5 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 16, 1000, count) == 0,
	      "also five that lack one slot each");
	memcpy(count, (u32 [6]){ 0, 0, 0, 0, 0, 6 }, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 16, 1000, count) == 6,
	      "six of these become five");
	memset(count, 0, sizeof(count));
	CHECK(fusion_victims_choose(6, 5, 16, 1000, count) == 0, "of nothing, nothing");
}

int main(void)
{
	RUN(test_limit);
	RUN(test_low_water);
	RUN(test_reserve);
	RUN(test_share);
	RUN(test_convert);
	RUN(test_destage);
	RUN(test_compact);
	RUN(test_victims);
	RUN(test_load);
	return tap_done();
}
