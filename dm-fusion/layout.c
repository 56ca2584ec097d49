// SPDX-License-Identifier: GPL-2.0-only
/*
 * Layout: Galois fields and what is not inline in layout.h.
 */
#include "layout.h"

/* Bands a member of ample size is cut into. */
#define MIN_BANDS	48
#define MAX_BANDS	1024

/* How many numbers of units fusion_band_units() compares. */
#define UNITS_TRIED	1024

/*
 * The fields whose order is no prime.  An element is the number whose digits
 * to base p are the coefficients of a polynomial over GF(p); @reduced is what
 * x^m is modulo a monic irreducible polynomial of degree m.
 */
static const struct {
	u8 n;
	u8 reduced;
} extension_fields[] = {
	{ .n = 4, .reduced = 3 },	/* x^2 + x + 1 */
	{ .n = 8, .reduced = 3 },	/* x^3 + x + 1 */
	{ .n = 9, .reduced = 2 },	/* x^2 + 1 */
	{ .n = 16, .reduced = 3 },	/* x^4 + x + 1 */
	{ .n = 25, .reduced = 3 },	/* x^2 + 2 */
	{ .n = 27, .reduced = 5 },	/* x^3 + 2x + 1 */
	{ .n = 32, .reduced = 5 },	/* x^5 + x^2 + 1 */
	{ .n = 49, .reduced = 6 },	/* x^2 + 1 */
	{ .n = 64, .reduced = 3 },	/* x^6 + x + 1 */
	{ .n = 0 }
};

static unsigned int smallest_divisor(unsigned int n)
{
	unsigned int p = 2;

	while (n % p)
		p++;
	return p;
}

bool fusion_layout_valid_order(unsigned int n)
{
	unsigned int p;

	if (n < FUSION_MIN_MEMBERS || n > FUSION_MAX_MEMBERS)
		return false;

	p = smallest_divisor(n);
	while (n % p == 0)
		n /= p;
	return n == 1;
}

unsigned int fusion_layout_largest_order(unsigned int members)
{
	unsigned int n;

	n = members < FUSION_MAX_MEMBERS ? members : FUSION_MAX_MEMBERS;
	for (; n >= FUSION_MIN_MEMBERS; n--)
		if (fusion_layout_valid_order(n))
			return n;
	return 0;
}

/* a + c * b, digit by digit to base p. */
static unsigned int field_add(unsigned int n, unsigned int p, unsigned int a,
			      unsigned int c, unsigned int b)
{
	unsigned int sum = 0, weight;

	for (weight = 1; weight < n; weight *= p) {
		sum += (a % p + c * (b % p)) % p * weight;
		a /= p;
		b /= p;
	}
	return sum;
}

/* a * b by Horner's rule over the digits of b, highest first. */
static unsigned int field_mul(unsigned int n, unsigned int p,
			      unsigned int reduced, unsigned int a,
			      unsigned int b)
{
	unsigned int product = 0, weight;

	for (weight = n / p; weight; weight /= p) {
		/* Times x: what leaves the highest digit comes back reduced. */
		product = field_add(n, p, product % (n / p) * p,
				    product / (n / p), reduced);
		product = field_add(n, p, product, b / weight % p, a);
	}
	return product;
}

int fusion_layout_init(struct fusion_layout *l, unsigned int n,
		       unsigned int spares)
{
	unsigned int p, reduced = 0, f, a, b;

	/* Not n - 1 - spares: that could wrap. */
	if (!fusion_layout_valid_order(n) ||
	    spares > n - 1 - FUSION_MIN_WIDTH)
		return -EINVAL;

	/* A prime needs no reduction: there is but one digit. */
	p = smallest_divisor(n);
	for (f = 0; extension_fields[f].n; f++)
		if (extension_fields[f].n == n)
			reduced = extension_fields[f].reduced;

	l->n = n;
	l->spares = spares;
	for (a = 0; a < n; a++) {
		for (b = 0; b < n; b++) {
			l->add[a * n + b] = field_add(n, p, a, 1, b);
			l->mul[a * n + b] = field_mul(n, p, reduced, a, b);
		}
	}
	return 0;
}

/* What a band of @units leaves unused, summed over all widths. */
static u64 units_wasted(u32 units, unsigned int max_width)
{
	unsigned int k;
	u64 wasted = 0;

	for (k = FUSION_MIN_WIDTH; k <= max_width; k++)
		wasted += units % k;
	return wasted;
}

u32 fusion_band_units(const struct fusion_layout *l, u64 member_chunks)
{
	unsigned int width = fusion_layout_max_width(l);
	u32 unit_chunks = fusion_band_chunks(l, 1);
	u64 units = member_chunks / unit_chunks;
	u64 low, high, limit, u, best, best_wasted;

	if (units < width)
		return 0;

	/* The narrowest width has the most stripes. */
	limit = FUSION_MAX_BAND_STRIPES / fusion_template_stripes(l) *
		FUSION_MIN_WIDTH + FUSION_MIN_WIDTH - 1;

	low = units / MAX_BANDS + !!(units % MAX_BANDS);
	if (low < width)
		low = width;
	if (low > limit)
		low = limit;

	high = 2 * low;
	if (high > units / MIN_BANDS)
		high = units / MIN_BANDS;
	if (high > limit)
		high = limit;
	if (high > low + UNITS_TRIED)
		high = low + UNITS_TRIED;

	best = low;
	best_wasted = units_wasted(low, width);
	for (u = low + 1; u <= high; u++) {
		u64 wasted = units_wasted(u, width);

		/* wasted / u < best_wasted / best */
		if (wasted * best < best_wasted * u) {
			best = u;
			best_wasted = wasted;
		}
	}
	return best;
}

struct fusion_spot fusion_layout_spare(const struct fusion_layout *l,
				       unsigned int k, u32 index, u32 role,
				       u32 s)
{
	u32 n = l->n;
	u32 row = index / n, j = index % n;
	u32 t = row / (n - 1), i = row % (n - 1);

	return (struct fusion_spot) {
		.member = fusion_square(l, k + s, i + 1, j),
		.chunk = t * fusion_template_chunks(l, k) + k * (n - 1) +
			 (s - 1) * k + role,
	};
}

u64 fusion_layout_members(const struct fusion_layout *l, unsigned int k,
			  u32 index, u8 *members)
{
	u32 row = index / l->n, j = index % l->n;
	u32 i = row % (l->n - 1);
	u64 mask = 0;
	u32 role;

	for (role = 0; role < k; role++) {
		members[role] = fusion_square(l, role + 1, i + 1, j);
		mask |= 1ULL << members[role];
	}
	return mask;
}
