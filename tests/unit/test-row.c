// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records of rows.
 */
#include "row.h"
#include "some.h"
#include "tap.h"

#define ROUNDS	100000

/* The class, and the size of blocks, of what some_row() makes. */
static unsigned int d, p, pages;

static struct fusion_row some_row(void)
{
	struct fusion_row row = { 0 };
	unsigned int count, i;

	d = 2 + rnd_below(61);
	p = 1 + rnd_below(2);
	pages = 8 << rnd_below(4);
	row.stripe = fusion_stripe_id(rnd_mask() % FUSION_MAX_BANDS,
				      rnd_mask() % FUSION_MAX_BAND_STRIPES);
	row.page = rnd_below(pages);
	count = 1 + rnd_below(d < FUSION_ROW_PATCHES ? d : FUSION_ROW_PATCHES);
	while (fusion_popcount64(row.changed) < count)
		row.changed |= 1ULL << rnd_below(d);
	for (i = 0; i < p; i++) {
		row.parity[i] = some_patch(pages, p + 1);
		row.copies[i] = 1 + rnd_below((1 << (p + 1)) - 1);
	}
	for (i = 0; i < count; i++)
		row.patch[i] = some_patch(pages, p + 1);
	return row;
}

static u64 row_key(const struct fusion_row *row)
{
	return fusion_row_key(row->stripe, row->page);
}

static void round_trip(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct fusion_row row = some_row(), again;
		struct fusion_disk_row disk[FUSION_MAX_PARTS], disk2[FUSION_MAX_PARTS];
		unsigned int i = 0, parts;

		memset(&disk, 0xa5, sizeof(disk));
		memset(&again, 0x5a, sizeof(again));
		parts = fusion_row_encode(&row, disk);
		CHECK(parts == (p + fusion_popcount64(row.changed) + 3) / 4, "%u", parts);
		CHECK(fusion_row_parts(disk) == parts, "%u", parts);
		CHECK(!fusion_row_decode(disk, row_key(&row), d, p, pages, &again),
		      "d %u p %u pages %u", d, p, pages);
		CHECK(again.stripe == row.stripe && again.page == row.page &&
		      again.changed == row.changed, "");
		CHECK(!memcmp(again.copies, row.copies, sizeof(row.copies)), "");
		CHECK(!memcmp(again.parity, row.parity, sizeof(row.parity)) &&
		      !memcmp(again.patch, row.patch, sizeof(row.patch)), "");
		CHECK(fusion_row_encode(&again, disk2) == parts, "");
		CHECK(!memcmp(disk, disk2, parts * sizeof(*disk)), "");
		for (unsigned int slot = 0; slot < 64; slot++)
			if (row.changed >> slot & 1)
				CHECK(fusion_row_patch(&row, slot) == &row.patch[i++],
				      "%u", slot);
	}
}

/* Break a good record in each way there is. */
static void malformed(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct fusion_row row = some_row(), out;
		unsigned int count = fusion_popcount64(row.changed);
		struct fusion_patch *patch = rnd_below(2) ?
			&row.parity[rnd_below(p)] : &row.patch[rnd_below(count)];
		u64 key = row_key(&row);
		struct fusion_disk_row disk[FUSION_MAX_PARTS];
		unsigned int kind = n % 13, parts, at;

		switch (kind) {
		case 0:
			patch->at[rnd_below(p + 1)] = 0;
			break;
		case 1:
			patch->at[rnd_below(p + 1)] ^= 1;
			break;
		case 2:
			/* of the other number of replicas */
			*patch = some_patch(pages, p == 1 ? 3 : 2);
			break;
		}
		memset(disk, 0, sizeof(disk));
		parts = fusion_row_encode(&row, disk);
		switch (kind) {
		case 3:
			disk[0].changed = 0;
			break;
		case 4:
			disk[0].changed |= cpu_to_le64(1ULL << (d + rnd_below(64 - d)));
			break;
		case 5:
			/* behind the last, in the last part */
			at = p + count + rnd_below(FUSION_PART_PATCHES);
			if (at >= parts * FUSION_PART_PATCHES)
				continue;
			patch = &(struct fusion_patch) { { 0 } };
			*patch = some_patch(pages, p + 1);
			fusion_patch_encode(patch, &disk[parts - 1].patch[at % FUSION_PART_PATCHES]);
			break;
		case 6:
			if (pages == 64)
				continue;	/* each page there can be */
			key |= pages << FUSION_PART_BITS;
			break;
		case 7:
			key |= 1ULL << (FUSION_STRIPE_BITS + FUSION_PAGE_BITS +
					FUSION_PART_BITS + rnd_below(7));
			break;
		case 8:
			disk[0].copies[rnd_below(p)] = 0;
			break;
		case 9:
			disk[0].copies[rnd_below(FUSION_MAX_PARITY)] |= 1 << (p + 1 + rnd_below(7 - p));
			break;
		case 10:
			if (p == FUSION_MAX_PARITY)
				continue;
			disk[0].copies[p] = 1;
			break;
		case 11:
			disk[rnd_below(parts)].reserved[rnd_below(sizeof(disk[0].reserved))] = 1;
			break;
		case 12:
			/* a part that is not the first, or is taken for it */
			if (parts == 1)
				key |= 1 + rnd_below((1 << FUSION_PART_BITS) - 1);
			else if (rnd_below(2))
				disk[1 + rnd_below(parts - 1)].changed = cpu_to_le64(row.changed);
			else
				disk[1 + rnd_below(parts - 1)].copies[0] = 1;
			break;
		}
		CHECK(fusion_row_decode(disk, key, d, p, pages, &out) == -EINVAL,
		      "%u: d %u p %u", kind, d, p);
	}
}

int main(void)
{
	RUN(round_trip);
	RUN(malformed);
	return tap_done();
}
