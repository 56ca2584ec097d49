/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Layout: where the slots of a stripe lie.  Pure arithmetic, no state.
 *
 * The layout is that of FusionRAID (FAST'21, section 3.1): over the Galois
 * field of n elements, n the number of members, the Latin squares
 * L_m(i, j) = m * i + j, m = 1..n-1, are mutually orthogonal.  Row 0 is the
 * same in all of them and dropped.  Each cell (i, j), i = 1..n-1, j = 0..n-1,
 * is a stripe of k slots; its slot (role) r lies on member L_{r+1}(i, j).
 * The n(n-1) stripes of the cells are a template.
 *
 * On each member a template takes k * (n - 1) chunks for home addresses, dense
 * (role r of row i at chunk r * (n-1) + (i-1)), followed by k chunks for each
 * of the s distributed spares: a lost role r goes to member L_{k+s}(i, j),
 * s = 1.., chunk k * (n-1) + (s-1) * k + r of the template.
 *
 * A band is the same range of chunks on every member.  It is @units times
 * (n - 1 + spares) chunks long, which is floor(units / k) templates of any
 * class of width k; what is left over is not used.
 *
 * All functions are O(1) and may be called from any context.
 */
#ifndef DM_FUSION_LAYOUT_H
#define DM_FUSION_LAYOUT_H

#include "pure.h"

#define FUSION_MIN_MEMBERS	4
#define FUSION_MAX_MEMBERS	64
#define FUSION_MIN_DATA		2
#define FUSION_MIN_WIDTH	3	/* two data, one parity */
#define FUSION_MAX_PARITY	2
#define FUSION_MAX_REPLICAS	(FUSION_MAX_PARITY + 1)

/* What a stripe id (format.h) has room for. */
#define FUSION_MAX_BANDS	(1U << 23)
#define FUSION_MAX_BAND_STRIPES	(1U << 24)

/*
 * The field's tables: sum and product of a and b at [a * n + b].  Built once,
 * read-only afterwards; @n is the number of members, @spares the number of
 * distributed spares every stripe leaves room for.
 */
struct fusion_layout {
	u32 n;
	u32 spares;
	u8 add[FUSION_MAX_MEMBERS * FUSION_MAX_MEMBERS];
	u8 mul[FUSION_MAX_MEMBERS * FUSION_MAX_MEMBERS];
};

/* A place on a member: @chunk counts blocks from the start of the band. */
struct fusion_spot {
	u32 member;
	u32 chunk;
};

/* Is @n a prime power within the supported range? */
bool fusion_layout_valid_order(unsigned int n);

/* The largest valid order that is at most @members; 0 if there is none. */
unsigned int fusion_layout_largest_order(unsigned int members);

/*
 * Build the tables.  -EINVAL if @n is no supported prime power or if the
 * narrowest class would not fit beside @spares spares.
 */
int fusion_layout_init(struct fusion_layout *l, unsigned int n,
		       unsigned int spares);

/* The widest stripe this layout allows: n - 1 - spares. */
static inline unsigned int fusion_layout_max_width(const struct fusion_layout *l)
{
	return l->n - 1 - l->spares;
}

/* Stripes in one template. */
static inline u32 fusion_template_stripes(const struct fusion_layout *l)
{
	return l->n * (l->n - 1);
}

/* Chunks a template of width @k takes on each member, spares included. */
static inline u32 fusion_template_chunks(const struct fusion_layout *l,
					 unsigned int k)
{
	return k * (l->n - 1 + l->spares);
}

/* Chunks a band of @units takes on each member. */
static inline u32 fusion_band_chunks(const struct fusion_layout *l, u32 units)
{
	return units * (l->n - 1 + l->spares);
}

/* Stripes of width @k in a band of @units. */
static inline u32 fusion_band_stripes(const struct fusion_layout *l, u32 units,
				      unsigned int k)
{
	return units / k * fusion_template_stripes(l);
}

/*
 * The number of units a band should have in a pool whose members hold
 * @member_chunks chunks each; 0 if not even one band fits.  At least the widest
 * class's width, and enough that no more than 1024 bands come of it; up to
 * twice that, while 48 bands or more are left, if more of the band is used then
 * (see above), on average over all widths.
 *
 * A band never has more than FUSION_MAX_BAND_STRIPES stripes of any width, even
 * if there are more than 1024 bands then.  Should there be more than
 * FUSION_MAX_BANDS (petabytes on each member), the caller must leave the rest
 * unused.
 */
u32 fusion_band_units(const struct fusion_layout *l, u64 member_chunks);

/*
 * L_m(i, j) = m * i + j over the field; m, i, j < n.
 */
static inline u32 fusion_square(const struct fusion_layout *l, u32 m, u32 i,
				u32 j)
{
	return l->add[l->mul[m * l->n + i] * l->n + j];
}

/*
 * The home address of role @role in stripe @index (0 .. stripes of the band
 * - 1, template by template, row by row) of a band that belongs to a class of
 * width @k.  @role < @k.
 */
static inline struct fusion_spot fusion_layout_home(const struct fusion_layout *l,
						    unsigned int k, u32 index,
						    u32 role)
{
	u32 n = l->n;
	u32 row = index / n, j = index % n;
	u32 t = row / (n - 1), i = row % (n - 1);

	return (struct fusion_spot) {
		.member = fusion_square(l, role + 1, i + 1, j),
		.chunk = t * fusion_template_chunks(l, k) + role * (n - 1) + i,
	};
}

/*
 * The address that distributed spare @s (1 .. spares) holds for role @role of
 * stripe @index.  Its member is never one of the stripe's home members.
 */
struct fusion_spot fusion_layout_spare(const struct fusion_layout *l,
				       unsigned int k, u32 index, u32 role,
				       u32 s);

/*
 * The home members of stripe @index, role by role, into @members[0 .. k-1];
 * returns them as a bit mask.
 */
u64 fusion_layout_members(const struct fusion_layout *l, unsigned int k,
			  u32 index, u8 *members);

#endif /* DM_FUSION_LAYOUT_H */
