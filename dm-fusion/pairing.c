// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairing: choice of stripes and bipartite matching of their slots.
 */
#include "pairing.h"

void fusion_pair_choose(const u64 *masks, unsigned int count, unsigned int *a,
			unsigned int *b)
{
	unsigned int fewest = FUSION_MAX_MEMBERS + 1;
	unsigned int x, y;

	for (x = 0; x < count; x++) {
		for (y = x + 1; y < count; y++) {
			unsigned int common = fusion_pair_common(masks[x],
								 masks[y]);

			if (common < fewest) {
				fewest = common;
				*a = x;
				*b = y;
			}
		}
	}
}

unsigned int fusion_pair_choose_third(const u64 *masks, unsigned int count,
				      unsigned int a, unsigned int b)
{
	unsigned int fewest = 2 * FUSION_MAX_MEMBERS + 1;
	unsigned int x, third = 0;

	for (x = 0; x < count; x++) {
		unsigned int common = fusion_pair_common(masks[x], masks[a]) +
				      fusion_pair_common(masks[x], masks[b]);

		if (x != a && x != b && common < fewest) {
			fewest = common;
			third = x;
		}
	}
	return third;
}

/* The slots of @mirror on members outside @avoid. */
static u64 slots_outside(u64 avoid, const u8 *mirror, unsigned int k)
{
	u64 slots = 0;
	unsigned int s;

	for (s = 0; s < k; s++)
		if (!(avoid >> mirror[s] & 1))
			slots |= 1ULL << s;
	return slots;
}

/* A matching in progress. */
struct matching {
	const u64 *avoid;
	const u8 *mirror;
	unsigned int k;
	u64 taken;			/* mirror slots in use, ... */
	u8 owner[FUSION_MAX_MEMBERS];	/* ... each by this data slot */
	u8 *slot_of;			/* its inverse */
};

/*
 * Find a slot of @usable for data slot @first, rearranging the ones that have
 * a slot: a shortest augmenting path, by breadth.  Slots in use stay in use.
 */
static bool augment(struct matching *m, unsigned int first, u64 usable)
{
	u8 queue[FUSION_MAX_MEMBERS];		/* data slots reached */
	u8 from[FUSION_MAX_MEMBERS];		/* mirror slot: reached from */
	unsigned int head = 0, tail = 0;

	queue[tail++] = first;
	while (head < tail) {
		unsigned int x = queue[head++];
		u64 next = usable & slots_outside(m->avoid[x], m->mirror, m->k);
		unsigned int s;

		if (next & ~m->taken) {
			s = fusion_ctz64(next & ~m->taken);
			m->taken |= 1ULL << s;
			from[s] = x;

			/* Back along the path: each takes the next one's slot. */
			for (x = from[s]; x != first; x = from[s]) {
				unsigned int left = m->slot_of[x];

				m->owner[s] = x;
				m->slot_of[x] = s;
				s = left;
			}
			m->owner[s] = first;
			m->slot_of[first] = s;
			return true;
		}

		usable &= ~next;
		for (; next; next &= next - 1) {
			s = fusion_ctz64(next);
			from[s] = x;
			queue[tail++] = m->owner[s];
		}
	}
	return false;
}

int fusion_pair_match(const u64 *avoid, unsigned int d, const u8 *mirror,
		      unsigned int k, u8 *slot_of)
{
	struct matching m = {
		.avoid = avoid,
		.mirror = mirror,
		.k = k,
		.slot_of = slot_of,
	};
	u64 left = 0;
	unsigned int x;

	/*
	 * First as many as possible on data slots alone.  What is added after
	 * that keeps all of them in use, so parity slots are a last resort.
	 */
	for (x = 0; x < d; x++)
		if (!augment(&m, x, ~0ULL >> (64 - d)))
			left |= 1ULL << x;

	for (; left; left &= left - 1)
		if (!augment(&m, fusion_ctz64(left), ~0ULL >> (64 - k)))
			return -ENOENT;
	return 0;
}
