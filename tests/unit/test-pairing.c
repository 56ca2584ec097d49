// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairing, against matchings found by other means.
 */
#include "pairing.h"
#include "tap.h"

static const unsigned int orders[] = {
	4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32, 49, 64
};

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static struct fusion_layout layout;

/* ---- the other means: Kuhn's algorithm over a matrix ---- */

static bool edge[64][64];		/* data slot x may use mirror slot s */
static int taken_by[64];
static bool visited[64];

static bool kuhn(unsigned int x, unsigned int slots)
{
	for (unsigned int s = 0; s < slots; s++) {
		if (!edge[x][s] || visited[s])
			continue;
		visited[s] = true;
		if (taken_by[s] < 0 || kuhn(taken_by[s], slots)) {
			taken_by[s] = x;
			return true;
		}
	}
	return false;
}

/* How many of @d data slots the first @slots mirror slots can hold. */
static unsigned int largest_matching(unsigned int d, unsigned int slots)
{
	unsigned int size = 0;

	for (unsigned int s = 0; s < slots; s++)
		taken_by[s] = -1;
	for (unsigned int x = d; x--;) {
		memset(visited, 0, sizeof(visited));
		size += kuhn(x, slots);
	}
	return size;
}

/* Hall's condition: every set of data slots may use at least as many. */
static bool hall(unsigned int d, unsigned int k)
{
	for (u64 set = 1; set < 1ULL << d; set++) {
		u64 usable = 0;

		for (unsigned int x = 0; x < d; x++)
			for (unsigned int s = 0; s < k; s++)
				if ((set >> x & 1) && edge[x][s])
					usable |= 1ULL << s;
		if (__builtin_popcountll(usable) < __builtin_popcountll(set))
			return false;
	}
	return true;
}

static unsigned long matched, refused;

/* Returns whether there is a matching. */
static bool check_match(const u64 *avoid, unsigned int d, const u8 *mirror,
			unsigned int k, u8 *slot_of)
{
	u8 again[FUSION_MAX_MEMBERS];
	unsigned int data_slots = 0, most;
	u64 used = 0;
	int r;

	for (unsigned int x = 0; x < d; x++)
		for (unsigned int s = 0; s < k; s++)
			edge[x][s] = (avoid[x] & 1ULL << mirror[s]) == 0;
	most = largest_matching(d, k);
	if (d <= 6)
		CHECK(hall(d, k) == (most == d), "the oracles differ");

	memset(slot_of, 0xff, FUSION_MAX_MEMBERS);
	memset(again, 0, sizeof(again));
	r = fusion_pair_match(avoid, d, mirror, k, slot_of);
	CHECK(r == (most == d ? 0 : -ENOENT), "n %u k %u d %u: %d, %u", layout.n,
	      k, d, r, most);
	CHECK(fusion_pair_match(avoid, d, mirror, k, again) == r, "again");
	if (r) {
		refused++;
		return false;
	}
	matched++;

	CHECK(!memcmp(slot_of, again, d), "n %u k %u d %u", layout.n, k, d);
	for (unsigned int x = 0; x < d; x++) {
		unsigned int s = slot_of[x];

		CHECK(s < k && !(used >> (s % 64) & 1), "n %u k %u d %u",
		      layout.n, k, d);
		if (s >= k)
			return false;
		CHECK(edge[x][s], "n %u k %u d %u", layout.n, k, d);
		used |= 1ULL << s;
		data_slots += s < d;
	}
	/* Parity slots only where data slots cannot do. */
	most = largest_matching(d, d);
	CHECK(data_slots == most, "n %u k %u d %u: %u of %u", layout.n, k, d,
	      data_slots, most);
	return true;
}

/* A second replica of stripe @a in @b, and if @c >= 0 a third one there. */
static void check_stripes(unsigned int k, unsigned int p, u32 a, u32 b, long c)
{
	u8 in_a[FUSION_MAX_MEMBERS], in_b[FUSION_MAX_MEMBERS];
	u8 in_c[FUSION_MAX_MEMBERS];
	u8 second[FUSION_MAX_MEMBERS], third[FUSION_MAX_MEMBERS];
	u64 avoid[FUSION_MAX_MEMBERS];
	unsigned int d = k - p;

	fusion_layout_members(&layout, k, a, in_a);
	fusion_layout_members(&layout, k, b, in_b);
	for (unsigned int x = 0; x < d; x++)
		avoid[x] = 1ULL << in_a[x];
	/* fusion_pair_match() promises one, from two data slots on. */
	if (!check_match(avoid, d, in_b, k, second)) {
		CHECK(d < 2, "n %u k %u p %u: %u %u", layout.n, k, p, a, b);
		return;
	}
	if (c < 0)
		return;

	fusion_layout_members(&layout, k, c, in_c);
	for (unsigned int x = 0; x < d; x++)
		avoid[x] |= 1ULL << in_b[second[x]];
	if (!check_match(avoid, d, in_c, k, third)) {
		CHECK(d < 2 || p < 2, "n %u k %u: %u %u %ld", layout.n, k, a, b,
		      c);
		return;
	}
	for (unsigned int x = 0; x < d; x++) {
		u8 m0 = in_a[x], m1 = in_b[second[x]], m2 = in_c[third[x]];

		CHECK(m0 != m1 && m0 != m2 && m1 != m2, "n %u k %u", layout.n, k);
	}
}

static void test_stripes_exhaustively(void)
{
	for (size_t o = 0; orders[o] <= 9; o++) {
		unsigned int n = orders[o], stripes = n * (n - 1);

		fusion_layout_init(&layout, n, 0);
		for (unsigned int k = 3; k < n; k++)
			for (unsigned int p = 1; p <= 2; p++)
				for (u32 a = 0; a < stripes; a++)
					for (u32 b = 0; b < stripes; b++)
						check_stripes(k, p, a, b,
							      rnd_below(stripes));
	}
	/* All three: every triple of the smallest. */
	for (size_t o = 0; orders[o] <= 5; o++) {
		unsigned int n = orders[o], stripes = n * (n - 1);

		fusion_layout_init(&layout, n, 0);
		for (unsigned int k = 3; k < n; k++)
			for (unsigned int p = 1; p <= 2; p++)
				for (u32 abc = 0; abc < stripes * stripes * stripes; abc++)
					check_stripes(k, p, abc % stripes,
						      abc / stripes % stripes,
						      abc / stripes / stripes);
	}
}

/*
 * Every set of three that a pool can open, be the draw as bad as it can.  The
 * maps x -> ux + v of the members, which keep what stripes share, take any
 * stripe to stripe 0: so that one may be A.
 */
static void test_three_replicas_exhaustively(void)
{
	for (size_t o = 0; orders[o] <= 13; o++) {
		unsigned int n = orders[o], stripes = n * (n - 1);

		fusion_layout_init(&layout, n, 0);
		for (unsigned int k = FUSION_MIN_DATA + 2; k < n; k++)
			for (u32 b = 1; b < stripes; b++)
				for (u32 c = 1; c < stripes; c++)
					if (b != c)
						check_stripes(k, 2, 0, b, c);
	}
}

static void test_stripes_at_random(void)
{
	for (size_t o = 0; o < COUNT(orders); o++) {
		unsigned int n = orders[o], stripes = n * (n - 1);

		fusion_layout_init(&layout, n, 0);
		for (unsigned int k = 3; k < n; k++)
			for (unsigned int p = 1; p <= 2; p++)
				for (int i = 0; i < 100; i++)
					check_stripes(k, p, rnd_below(stripes),
						      rnd_below(stripes),
						      rnd_below(stripes));
	}
}

/* Harder than any two stripes: few edges, members that many slots avoid. */
static void test_any_masks(void)
{
	matched = 0;
	refused = 0;
	for (int i = 0; i < 50000; i++) {
		unsigned int n = 4 + rnd_below(i % 8 ? 13 : 61);
		unsigned int k = 3 + rnd_below(n - 3);
		unsigned int d = 1 + rnd_below(k);
		unsigned int dense = rnd_below(5);
		u64 avoid[FUSION_MAX_MEMBERS];
		u8 mirror[FUSION_MAX_MEMBERS], slot_of[FUSION_MAX_MEMBERS];

		for (unsigned int m = 0; m < n; m++)
			mirror[m] = m;
		for (unsigned int m = n; --m;) {
			unsigned int other = rnd_below(m + 1);
			u8 swap = mirror[m];

			mirror[m] = mirror[other];
			mirror[other] = swap;
		}
		for (unsigned int x = 0; x < d; x++) {
			avoid[x] = rnd();
			for (unsigned int times = 0; times < dense; times++)
				avoid[x] |= rnd();
			if (!dense)
				avoid[x] &= rnd();
		}
		check_match(avoid, d, mirror, k, slot_of);
	}
	CHECK(matched > 5000 && refused > 5000, "%lu matched, %lu refused",
	      matched, refused);
}

/*
 * Each data slot but one single slot: only if they all differ.  Paths through
 * every slot must be found and turned round.
 */
static void test_long_paths(void)
{
	for (unsigned int k = 3; k < 64; k++) {
		u8 mirror[FUSION_MAX_MEMBERS], slot_of[FUSION_MAX_MEMBERS];
		u64 avoid[FUSION_MAX_MEMBERS];

		for (unsigned int s = 0; s < k; s++)
			mirror[s] = s;
		/* Slot x may use x and x + 1; the last one only 0. */
		for (unsigned int x = 0; x < k; x++)
			avoid[x] = ~(3ULL << x);
		avoid[k - 1] = ~1ULL;
		CHECK(check_match(avoid, k, mirror, k, slot_of), "k %u", k);
		for (unsigned int x = 0; x < k; x++)
			CHECK(slot_of[x] == (x + 1) % k, "k %u", k);
		/* Two that want the same one. */
		avoid[k - 2] = ~1ULL;
		CHECK(!check_match(avoid, k, mirror, k, slot_of), "k %u", k);
	}
}

/* A pure function of the two stripes, today as tomorrow. */
static void test_matching_is_stable(void)
{
	static const struct {
		u8 n, k, p;
		u16 a, b;
		u8 slot_of[8];
	} known[] = {
		{ 4, 3, 1, 1, 8, { 0, 1 } },
		{ 5, 4, 1, 1, 8, { 2, 1, 0 } },
		{ 8, 7, 2, 8, 43, { 0, 2, 1, 3, 4 } },
		{ 9, 6, 1, 8, 43, { 4, 1, 2, 3, 0 } },
		{ 9, 8, 2, 8, 43, { 0, 1, 2, 3, 5, 4 } },
		{ 11, 9, 1, 8, 43, { 0, 1, 3, 2, 4, 5, 6, 7 } },
		{ 16, 10, 2, 8, 43, { 7, 1, 2, 3, 4, 5, 6, 0 } },
	};

	for (size_t i = 0; i < COUNT(known); i++) {
		u8 in_a[FUSION_MAX_MEMBERS], in_b[FUSION_MAX_MEMBERS];
		u8 slot_of[FUSION_MAX_MEMBERS];
		u64 avoid[FUSION_MAX_MEMBERS];
		unsigned int k = known[i].k, d = k - known[i].p;
		int r;

		fusion_layout_init(&layout, known[i].n, 0);
		fusion_layout_members(&layout, k, known[i].a, in_a);
		fusion_layout_members(&layout, k, known[i].b, in_b);
		for (unsigned int x = 0; x < d; x++)
			avoid[x] = 1ULL << in_a[x];
		r = fusion_pair_match(avoid, d, in_b, k, slot_of);
		CHECK(!r && !memcmp(slot_of, known[i].slot_of, d), "%zu", i);
	}
}

/* One common data member, at the same slot: the rotation would fail. */
static void test_one_common_member(void)
{
	static const u64 avoid[] = { 1 << 0, 1 << 1, 1 << 2 };
	static const u8 same[] = { 0, 4, 5, 6 }, all[] = { 0, 1, 2, 3 };
	u8 slot_of[FUSION_MAX_MEMBERS];

	CHECK(check_match(avoid, 3, same, 4, slot_of), "");
	CHECK(slot_of[0] && slot_of[0] < 3, "%u", slot_of[0]);
	CHECK(check_match(avoid, 3, all, 4, slot_of), "");
	/* A single data slot on a common member: only parity is left. */
	CHECK(check_match(avoid, 1, all, 2, slot_of), "");
	CHECK(slot_of[0] == 1, "%u", slot_of[0]);
	CHECK(!check_match(avoid, 1, all, 1, slot_of), "");
}

static void test_choice(void)
{
	static const u64 tie[] = { 3, 12, 48, 192 };
	static const u64 last[] = { 7, 7, 3, 4 };
	unsigned int a, b;

	for (int i = 0; i < 200000; i++) {
		u64 masks[FUSION_PAIR_DRAW_MAX];
		unsigned int count = 2 + rnd_below(FUSION_PAIR_DRAW_MAX - 1);
		unsigned int best_a = 0, best_b = 0, fewest = 65;

		for (unsigned int x = 0; x < count; x++)
			masks[x] = rnd_mask();
		for (unsigned int x = count; x--;) {
			for (unsigned int y = count; --y > x;) {
				unsigned int common = 0;

				for (int m = 0; m < 64; m++)
					common += (masks[x] >> m & 1) &&
						  (masks[y] >> m & 1);
				CHECK(fusion_pair_common(masks[x], masks[y]) ==
				      common, "");
				/* Backwards: the last to tie is the first. */
				if (common <= fewest) {
					fewest = common;
					best_a = x;
					best_b = y;
				}
			}
		}
		a = b = 99;
		fusion_pair_choose(masks, count, &a, &b);
		CHECK(a == best_a && b == best_b, "%u %u: %u %u", best_a, best_b,
		      a, b);
	}

	fusion_pair_choose(tie, 4, &a, &b);
	CHECK(a == 0 && b == 1, "%u %u", a, b);
	fusion_pair_choose(last, 4, &a, &b);
	CHECK(a == 2 && b == 3, "%u %u", a, b);
}

static void test_choice_of_a_third(void)
{
	static const u64 masks[] = { 1 | 2 | 4, 4 | 8, 1 | 2, 8 | 16, 32 | 4, 64 };

	for (int i = 0; i < 200000; i++) {
		u64 m[FUSION_PAIR_DRAW_MAX];
		unsigned int count = 3 + rnd_below(FUSION_PAIR_DRAW_MAX - 2);
		unsigned int a, b, best = 99, fewest = 999;

		for (unsigned int x = 0; x < count; x++)
			m[x] = rnd_mask();
		fusion_pair_choose(m, count, &a, &b);
		for (unsigned int x = count; x--;) {
			unsigned int common = 0;

			for (int member = 0; member < 64; member++)
				if (m[x] >> member & 1)
					common += (m[a] >> member & 1) +
						  (m[b] >> member & 1);
			/* Backwards: the last to tie is the first. */
			if (x != a && x != b && common <= fewest) {
				fewest = common;
				best = x;
			}
		}
		CHECK(fusion_pair_choose_third(m, count, a, b) == best,
		      "%u of %u", best, count);
	}

	/* What both have counts twice. */
	CHECK(fusion_pair_choose_third(masks, 5, 0, 1) == 3, "");
	CHECK(fusion_pair_choose_third(masks, 6, 0, 1) == 5, "");
	CHECK(fusion_pair_choose_third(masks, 3, 0, 1) == 2, "");
	/* All alike: the first that is left. */
	CHECK(fusion_pair_choose_third((u64[]){ 7, 7, 7, 7 }, 4, 0, 1) == 2, "");
	CHECK(fusion_pair_choose_third((u64[]){ 7, 7, 7, 7 }, 4, 1, 3) == 0, "");
}

int main(void)
{
	RUN(test_choice);
	RUN(test_choice_of_a_third);
	RUN(test_one_common_member);
	RUN(test_stripes_exhaustively);
	RUN(test_three_replicas_exhaustively);
	RUN(test_stripes_at_random);
	RUN(test_any_masks);
	RUN(test_long_paths);
	RUN(test_matching_is_stable);
	return tap_done();
}
