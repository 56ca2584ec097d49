// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout's promises, exhaustively.
 */
#include <stdlib.h>

#include "layout.h"
#include "tap.h"

static const unsigned int orders[] = {
	4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32
};

static const unsigned int all_orders[] = {
	4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32,
	37, 41, 43, 47, 49, 53, 59, 61, 64
};

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static struct fusion_layout layout;

static void init(unsigned int n, unsigned int spares)
{
	int r = fusion_layout_init(&layout, n, spares);

	CHECK(!r && layout.n == n && layout.spares == spares, "n %u s %u", n,
	      spares);
}

static bool is_order(unsigned int n)
{
	for (size_t o = 0; o < COUNT(all_orders); o++)
		if (all_orders[o] == n)
			return true;
	return false;
}

static void test_orders(void)
{
	unsigned int largest = 0;

	for (unsigned int n = 0; n <= 300; n++) {
		CHECK(fusion_layout_valid_order(n) == is_order(n), "n %u", n);
		if (is_order(n))
			largest = n;
		CHECK(fusion_layout_largest_order(n) == largest, "n %u", n);
	}
	CHECK(!fusion_layout_valid_order(~0U), "");
	CHECK(!fusion_layout_valid_order(1U << 31), "");
	CHECK(fusion_layout_largest_order(~0U) == 64, "");
}

static void test_init_refuses(void)
{
	for (unsigned int n = 0; n <= 300; n++) {
		for (unsigned int s = 0; s <= 70; s++) {
			bool ok = is_order(n) && s + FUSION_MIN_WIDTH + 1 <= n;
			int r = fusion_layout_init(&layout, n, s);

			CHECK(r == (ok ? 0 : -EINVAL), "n %u s %u: %d", n, s, r);
			if (!r)
				CHECK(fusion_layout_max_width(&layout) ==
				      n - 1 - s, "n %u s %u", n, s);
		}
	}
	CHECK(fusion_layout_init(&layout, 5, ~0U) == -EINVAL, "");
	CHECK(fusion_layout_init(&layout, ~0U, 0) == -EINVAL, "");
	CHECK(fusion_layout_init(&layout, 5, ~0U - 1) == -EINVAL, "");
}

static u32 add(u32 a, u32 b)
{
	return layout.add[a * layout.n + b];
}

static u32 mul(u32 a, u32 b)
{
	return layout.mul[a * layout.n + b];
}

static void check_field(unsigned int n)
{
	init(n, 0);
	for (u32 a = 0; a < n; a++) {
		unsigned int negatives = 0, inverses = 0;

		CHECK(add(a, 0) == a && mul(a, 1) == a && mul(a, 0) == 0,
		      "n %u a %u", n, a);
		for (u32 b = 0; b < n; b++) {
			CHECK(add(a, b) < n && mul(a, b) < n, "n %u", n);
			CHECK(add(a, b) == add(b, a), "n %u: %u %u", n, a, b);
			CHECK(mul(a, b) == mul(b, a), "n %u: %u %u", n, a, b);
			negatives += add(a, b) == 0;
			inverses += mul(a, b) == 1;
			for (u32 c = 0; c < n; c++) {
				CHECK(add(add(a, b), c) == add(a, add(b, c)),
				      "n %u: %u %u %u", n, a, b, c);
				CHECK(mul(mul(a, b), c) == mul(a, mul(b, c)),
				      "n %u: %u %u %u", n, a, b, c);
				CHECK(mul(a, add(b, c)) ==
				      add(mul(a, b), mul(a, c)),
				      "n %u: %u %u %u", n, a, b, c);
			}
		}
		CHECK(negatives == 1, "n %u a %u", n, a);
		CHECK(inverses == (a != 0), "n %u a %u", n, a);
	}
}

static void test_fields(void)
{
	for (size_t o = 0; o < COUNT(all_orders); o++)
		check_field(all_orders[o]);
}

/*
 * The format: these tables may never change.  The polynomials by their effect,
 * x^m for x = p, p = 2, 3, 5, 7; primes by modular arithmetic.
 */
static void test_fields_are_the_format(void)
{
	static const u8 powers[][3] = {		/* n, m, x^m */
		{ 4, 2, 3 }, { 8, 3, 3 }, { 9, 2, 2 }, { 16, 4, 3 },
		{ 25, 2, 3 }, { 27, 3, 5 }, { 32, 5, 5 }, { 49, 2, 6 },
		{ 64, 6, 3 },
	};

	for (size_t o = 0; o < COUNT(all_orders); o++) {
		unsigned int n = all_orders[o], p = 2, power = 1;
		size_t e;

		while (n % p)
			p++;
		init(n, 0);
		for (e = 0; e < COUNT(powers) && powers[e][0] != n; e++)
			;
		if (e < COUNT(powers)) {
			for (int m = 0; m < powers[e][1]; m++)
				power = mul(power, p);
			CHECK(power == powers[e][2], "n %u: %u", n, power);
		} else {
			CHECK(p == n, "n %u", n);
		}
		/* Within a digit all is modulo p. */
		for (u32 a = 0; a < p; a++) {
			for (u32 b = 0; b < p; b++) {
				CHECK(add(a, b) == (a + b) % p, "n %u", n);
				CHECK(mul(a, b) == a * b % p, "n %u", n);
			}
		}
		/* Without a carry the digits just stand side by side. */
		for (u32 a = 0; p < n && a < n; a++)
			CHECK(add(a - a % p, a % p) == a, "n %u", n);
	}
}

static void test_latin_squares(void)
{
	for (size_t o = 0; o < COUNT(all_orders); o++) {
		unsigned int n = all_orders[o];

		init(n, 0);
		for (u32 m = 1; m < n; m++) {
			u64 all = ~0ULL >> (64 - n);

			for (u32 i = 0; i < n; i++) {
				u64 row = 0, column = 0;

				for (u32 j = 0; j < n; j++) {
					row |= 1ULL << fusion_square(&layout, m, i, j);
					column |= 1ULL << fusion_square(&layout, m, j, i);
				}
				CHECK(row == all && column == all,
				      "n %u m %u i %u", n, m, i);
			}
		}
	}
}

static void test_orthogonal_squares(void)
{
	for (size_t o = 0; o < COUNT(orders); o++) {
		unsigned int n = orders[o];

		init(n, 0);
		for (u32 m = 1; m < n; m++) {
			for (u32 m2 = m + 1; m2 < n; m2++) {
				u64 seen[FUSION_MAX_MEMBERS] = { 0 };
				unsigned int pairs = 0;

				for (u32 i = 0; i < n; i++) {
					for (u32 j = 0; j < n; j++) {
						u32 a = fusion_square(&layout, m, i, j);
						u32 b = fusion_square(&layout, m2, i, j);

						pairs += !(seen[a] >> b & 1);
						seen[a] |= 1ULL << b;
					}
				}
				CHECK(pairs == n * n, "n %u: %u %u", n, m, m2);
			}
		}
	}
}

/* Call @check for every order, every number of spares and every width. */
static void for_every_class(void (*check)(unsigned int k))
{
	for (size_t o = 0; o < COUNT(orders); o++) {
		unsigned int n = orders[o];

		for (unsigned int s = 0; s + FUSION_MIN_WIDTH + 1 <= n; s++) {
			init(n, s);
			for (unsigned int k = FUSION_MIN_WIDTH; k + s < n; k++)
				check(k);
		}
	}
}

/* Homes do not depend on spares: every width is enough. */
static void for_every_width(void (*check)(unsigned int k))
{
	for (size_t o = 0; o < COUNT(orders); o++) {
		init(orders[o], 0);
		for (unsigned int k = FUSION_MIN_WIDTH; k < orders[o]; k++)
			check(k);
	}
}

static void check_stripes(unsigned int k)
{
	static u32 roles[FUSION_MAX_MEMBERS][FUSION_MAX_MEMBERS];
	static u32 shared[FUSION_MAX_MEMBERS][FUSION_MAX_MEMBERS];
	u32 n = layout.n, stripes = fusion_template_stripes(&layout);

	memset(roles, 0, sizeof(roles));
	memset(shared, 0, sizeof(shared));
	CHECK(stripes == n * (n - 1), "n %u", n);
	for (u32 index = 0; index < 3 * stripes; index++) {
		u8 members[FUSION_MAX_MEMBERS];
		u64 mask = fusion_layout_members(&layout, k, index, members);
		u64 expected = 0;

		for (u32 r = 0; r < k; r++) {
			struct fusion_spot spot = fusion_layout_home(&layout, k,
								     index, r);

			CHECK(spot.member < n && spot.member == members[r],
			      "n %u k %u index %u", n, k, index);
			expected |= 1ULL << spot.member;
		}
		CHECK(mask == expected && fusion_popcount64(mask) == k,
		      "n %u k %u index %u: %" PRIx64, n, k, index, mask);
		if (index < stripes) {
			for (u32 r = 0; r < k; r++) {
				roles[members[r]][r]++;
				for (u32 q = 0; q < k; q++)
					shared[members[r]][members[q]]++;
			}
		}
	}
	for (u32 a = 0; a < n; a++) {
		for (u32 r = 0; r < k; r++)
			CHECK(roles[a][r] == n - 1, "n %u k %u", n, k);
		for (u32 b = 0; b < n; b++)
			if (a != b)
				CHECK(shared[a][b] == k * (k - 1),
				      "n %u k %u: %u", n, k, shared[a][b]);
	}
}

static void test_stripes_are_balanced(void)
{
	for_every_width(check_stripes);
}

/* The documented address, and not merely one that does. */
static void check_addresses(unsigned int k)
{
	u32 n = layout.n, index = 0;

	for (u32 t = 0; t < 2; t++) {
		for (u32 i = 1; i < n; i++) {
			for (u32 j = 0; j < n; j++, index++) {
				u32 r = (index + t) % k;
				u32 s = layout.spares ?
					1 + index % layout.spares : 0;
				u32 base = t * k * (n - 1 + layout.spares);
				struct fusion_spot spot;

				spot = fusion_layout_home(&layout, k, index, r);
				CHECK(spot.member == add(mul(r + 1, i), j) &&
				      spot.chunk == base + r * (n - 1) + i - 1,
				      "n %u k %u index %u", n, k, index);
				if (!s)
					continue;
				spot = fusion_layout_spare(&layout, k, index, r, s);
				CHECK(spot.member == add(mul(k + s, i), j) &&
				      spot.chunk == base + k * (n - 1) +
				      (s - 1) * k + r,
				      "n %u k %u index %u", n, k, index);
			}
		}
	}
}

static void test_addresses_are_the_format(void)
{
	for_every_class(check_addresses);
}

#define TEMPLATES 2

/*
 * Every home chunk and, with @spares members failed, each of them rebuilt into
 * its own spare area, every spare chunk of every survivor is used exactly once.
 */
static void check_bijection(unsigned int k)
{
	static u8 used[FUSION_MAX_MEMBERS][TEMPLATES * FUSION_MAX_MEMBERS *
					   FUSION_MAX_MEMBERS];
	u32 n = layout.n, spares = layout.spares;
	u32 chunks = TEMPLATES * fusion_template_chunks(&layout, k);
	u32 stripes = TEMPLATES * fusion_template_stripes(&layout);
	u32 homes = 0, bad = 0;
	u8 spare_of[FUSION_MAX_MEMBERS] = { 0 };	/* failed member: s */

	CHECK(fusion_template_chunks(&layout, k) == k * (n - 1 + spares) &&
	      chunks <= sizeof(used[0]), "n %u k %u", n, k);
	for (u32 m = 0; m < n; m++)
		memset(used[m], 0, chunks);
	for (u32 s = 1; s <= spares; s++) {
		u32 m = rnd_below(n);

		while (spare_of[m])
			m = (m + 1) % n;
		spare_of[m] = s;
	}

	for (u32 index = 0; index < stripes; index++) {
		for (u32 r = 0; r < k; r++) {
			struct fusion_spot spot;
			u32 s;

			spot = fusion_layout_home(&layout, k, index, r);
			if (spot.chunk < chunks)
				used[spot.member][spot.chunk]++;
			else
				bad++;
			homes++;

			s = spare_of[spot.member];
			if (!s)
				continue;
			spot = fusion_layout_spare(&layout, k, index, r, s);
			if (spot.member < n && spot.chunk < chunks)
				used[spot.member][spot.chunk]++;
			else
				bad++;
		}
	}
	CHECK(homes == TEMPLATES * n * (n - 1) * k && !bad,
	      "n %u k %u s %u: %u bad", n, k, spares, bad);

	for (u32 m = 0; m < n; m++) {
		for (u32 c = 0; c < chunks; c++) {
			u32 in_template = c % (chunks / TEMPLATES);
			bool home = in_template < k * (n - 1);

			if (home || !spare_of[m])
				bad += used[m][c] != 1;
			else
				bad += used[m][c] > 1;
		}
	}
	CHECK(!bad, "n %u k %u s %u: %u bad", n, k, spares, bad);
}

static void test_addresses_are_dense(void)
{
	for_every_class(check_bijection);
}

/* For each failed member, each survivor receives every role exactly once. */
static void check_spares(unsigned int k)
{
	static u64 got[FUSION_MAX_MEMBERS][FUSION_MAX_MEMBERS];
	u32 n = layout.n, stripes = fusion_template_stripes(&layout);
	u64 all_roles = ~0ULL >> (64 - k);

	for (u32 s = 1; s <= layout.spares; s++) {
		u32 bad = 0;

		memset(got, 0, sizeof(got));
		for (u32 index = 0; index < stripes; index++) {
			u8 members[FUSION_MAX_MEMBERS];
			u64 mask = fusion_layout_members(&layout, k, index,
							 members);

			for (u32 r = 0; r < k; r++) {
				struct fusion_spot spot =
					fusion_layout_spare(&layout, k, index, r, s);
				u64 *roles = &got[members[r]][spot.member % 64];

				bad += spot.member >= n;
				bad += mask >> spot.member & 1;
				bad += *roles >> r & 1;
				bad += spot.chunk != k * (n - 1) + (s - 1) * k + r;
				*roles |= 1ULL << r;
			}
		}
		for (u32 failed = 0; failed < n; failed++)
			for (u32 m = 0; m < n; m++)
				bad += got[failed][m] !=
				       (m == failed ? 0 : all_roles);
		CHECK(!bad, "n %u k %u s %u: %u bad", n, k, s, bad);
	}
}

static void test_spares_are_balanced(void)
{
	for_every_class(check_spares);
}

static u64 wasted(u64 units)
{
	u64 sum = 0;

	for (u32 k = FUSION_MIN_WIDTH; k <= fusion_layout_max_width(&layout); k++)
		sum += units % k;
	return sum;
}

static void check_band_units(u64 chunks)
{
	u32 n = layout.n, width = fusion_layout_max_width(&layout);
	u64 unit = n - 1 + layout.spares;
	u64 one = (u64)width * unit;
	u32 u = fusion_band_units(&layout, chunks);
	u64 bands, low;

#define EXPECT(cond)							\
	CHECK(cond, "n %u s %u chunks %" PRIu64 ": %u", n, layout.spares, \
	      chunks, u)
	if (chunks < one) {
		EXPECT(!u);
		return;
	}
	EXPECT(u >= width);
	if (!u)
		return;

	EXPECT(fusion_band_chunks(&layout, u) == u * unit);
	bands = chunks / fusion_band_chunks(&layout, u);
	EXPECT(bands >= 1);
	for (u32 k = FUSION_MIN_WIDTH; k <= width; k++) {
		u32 stripes = fusion_band_stripes(&layout, u, k);

		/* A multiplication that wrapped would not come back. */
		EXPECT(stripes / (n * (n - 1)) == u / k);
		EXPECT(stripes && stripes <= FUSION_MAX_BAND_STRIPES);
		/* Its last spare or home fits the band. */
		EXPECT(u / k * fusion_template_chunks(&layout, k) <=
		      fusion_band_chunks(&layout, u));
	}

	/* Few: only if one template of the widest class is so large. */
	if (chunks / one >= 48)
		EXPECT(bands >= 48);
	else
		EXPECT(u == width);
	/* Many: only if the next band would have too many stripes. */
	if (bands > 1024)
		EXPECT((u64)(u + 1) / FUSION_MIN_WIDTH * n * (n - 1) >
		      FUSION_MAX_BAND_STRIPES);

	/* Not larger than need be, and no worse than the least. */
	low = chunks / (1024 * unit);
	if (low * 1024 * unit != chunks)
		low++;
	if (low < width)
		low = width;
	EXPECT(u <= 2 * low);
	if (u > low)
		EXPECT(wasted(u) * low < wasted(low) * u);
#undef EXPECT
}

static void test_band_units(void)
{
	for (size_t o = 0; o < COUNT(all_orders); o++) {
		unsigned int n = all_orders[o];

		for (unsigned int s = 0; s + FUSION_MIN_WIDTH + 1 <= n;
		     s += 1 + s / 4) {
			u64 one;

			init(n, s);
			one = (u64)(n - 1 - s) * (n - 1 + s);
			check_band_units(0);
			check_band_units(one - 1);
			check_band_units(one);
			check_band_units(one * 2 - 1);
			check_band_units(one * 48 - 1);
			check_band_units(one * 48);
			check_band_units(one * 96);
			check_band_units(one * 1024);
			check_band_units(one * 1024 + 1);
			check_band_units(one * 2048);
			for (int shift = 1; shift < 44; shift++)
				check_band_units(rnd() >> (64 - shift));
		}
	}
	init(64, 0);
	CHECK(fusion_band_units(&layout, ~0ULL) >= 63, "");
	init(4, 0);
	CHECK(fusion_band_units(&layout, ~0ULL) >= 3, "");
}

/* Where there is a choice, it is the best one. */
static void test_band_units_examples(void)
{
	/* Widths 3 .. 6: 12 units waste 2 of 12 for width 5, 6 units 3 of 6. */
	init(7, 0);
	CHECK(fusion_band_units(&layout, 12 * 6 * 48) == 12, "%u",
	      fusion_band_units(&layout, 12 * 6 * 48));
	/* 60 is divided by all. */
	CHECK(fusion_band_units(&layout, 40ULL * 6 * 1024) == 60, "%u",
	      fusion_band_units(&layout, 40ULL * 6 * 1024));
	/* One band short of the 48. */
	CHECK(fusion_band_units(&layout, 12 * 6 * 48 - 1) != 12, "");
	/* A single width: nothing to gain by more. */
	init(4, 0);
	CHECK(fusion_band_units(&layout, 3 * 3 * 1024) == 3, "%u",
	      fusion_band_units(&layout, 3 * 3 * 1024));
	/* Too many stripes otherwise: 4032 in a template. */
	init(64, 0);
	CHECK(fusion_band_units(&layout, 1ULL << 40) <= 3 * 4161 + 2 &&
	      fusion_band_units(&layout, 1ULL << 40) >= 3 * 4161, "%u",
	      fusion_band_units(&layout, 1ULL << 40));
}

int main(void)
{
	RUN(test_orders);
	RUN(test_init_refuses);
	RUN(test_fields);
	RUN(test_fields_are_the_format);
	RUN(test_latin_squares);
	RUN(test_orthogonal_squares);
	RUN(test_stripes_are_balanced);
	RUN(test_addresses_are_the_format);
	RUN(test_addresses_are_dense);
	RUN(test_spares_are_balanced);
	RUN(test_band_units);
	RUN(test_band_units_examples);
	return tap_done();
}
