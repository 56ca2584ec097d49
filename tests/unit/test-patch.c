// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patches: their places, and their form on disk.
 */
#include <stdlib.h>

#include "patch.h"
#include "some.h"
#include "tap.h"

#define ROUNDS	100000

/* With room for any. */
union room {
	struct fusion_patches patches;
	u64 words[2 + 3 * FUSION_MAX_PATCHES];
};

union disk_room {
	struct fusion_disk_patches patches;
	u64 words[2 + 3 * FUSION_MAX_PATCHES];
};

static unsigned int some_pages(void)
{
	return 8 << rnd_below(4);
}

/* Good patches of a block of @pages pages. */
static union room some_patches(unsigned int pages)
{
	union room room = { .patches.generation = rnd() };
	unsigned int count = 1 + rnd_below(fusion_max_patches(pages));

	while (fusion_popcount64(room.patches.mask) < count)
		room.patches.mask |= 1ULL << rnd_below(pages);
	for (unsigned int i = 0; i < count; i++)
		room.patches.patch[i] = some_patch(pages, 0);
	return room;
}

static void how_many(void)
{
	static const unsigned int most[] = {
		[1] = 0, [2] = 0, [4] = 0, [8] = 1, [16] = 3, [32] = 7, [64] = 15,
	};

	for (unsigned int pages = 1; pages <= 64; pages *= 2) {
		CHECK(fusion_max_patches(pages) == most[pages], "%u", pages);
		CHECK(most[pages] <= FUSION_MAX_PATCHES, "%u", pages);
		CHECK(fusion_patches_bytes(pages) == 16 + 24 * most[pages], "%u", pages);
		/* less than a quarter of the block */
		CHECK(!most[pages] || 4 * most[pages] < pages, "%u", pages);
	}
}

static void places(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		u64 stripe = fusion_stripe_id(rnd_mask() % FUSION_MAX_BANDS,
					      rnd_mask() % FUSION_MAX_BAND_STRIPES);
		u64 place = fusion_place(stripe, rnd_below(64));
		unsigned int page = rnd_below(64);
		u64 patch = fusion_patch_place(place, page);

		CHECK(fusion_patch_slot(patch) == place, "%" PRIx64, patch);
		CHECK(fusion_patch_page(patch) == page, "%" PRIx64, patch);
		CHECK(patch == (1ULL << 62 | stripe << 12 |
				(u64)fusion_place_slot(place) << 6 | page), "%" PRIx64,
		      patch);
	}
}

static void which(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		union room room = some_patches(some_pages());
		unsigned int n = 0;

		for (unsigned int page = 0; page < 64; page++) {
			if (!(room.patches.mask >> page & 1))
				continue;
			CHECK(fusion_patch_of(&room.patches, page) ==
			      &room.patches.patch[n], "%" PRIx64 " %u",
			      room.patches.mask, page);
			n++;
		}
		CHECK(n == fusion_popcount64(room.patches.mask), "");
	}
}

/* What a block of 64 pages is to have, page by page. */
struct model {
	bool patched[64];
	struct fusion_patch patch[64];
};

static void check_model(const struct model *m, const struct fusion_patches *patches)
{
	for (unsigned int page = 0; page < 64; page++) {
		bool patched = patches->mask >> page & 1;

		CHECK(patched == m->patched[page], "%u", page);
		CHECK(!patched || !memcmp(fusion_patch_of(patches, page),
					  &m->patch[page], sizeof(m->patch[page])),
		      "%u", page);
	}
}

static void check_runs(const struct fusion_patches *patches)
{
	for (unsigned int page = 0; page < 64; page++) {
		unsigned int limit, run;

		if (!(patches->mask >> page & 1))
			continue;
		limit = fusion_mask_run(patches->mask, page, 64 - page);
		for (run = 1; run < limit; run++) {
			const struct fusion_patch *a = fusion_patch_of(patches, page);
			const struct fusion_patch *b =
				fusion_patch_of(patches, page + run);

			if (b->at[0] != a->at[0] + run || b->at[1] != a->at[1] + run ||
			    b->at[2] != (a->at[2] ? a->at[2] + run : 0))
				break;
		}
		CHECK(fusion_patches_run(patches, page, limit) == run, "%u", page);
		CHECK(fusion_patches_run(patches, page, 1) == 1, "%u", page);
	}
}

/* The last page of a slot and the first of the next one are on different members. */
static void runs_end_with_the_slot(void)
{
	u64 a = fusion_stripe_id(0, 1), b = fusion_stripe_id(0, 2);
	union room room = { .patches.mask = 0x3 };

	room.patches.patch[0] = (struct fusion_patch) {
		{ fusion_patch_place(fusion_place(a, 0), 63),
		  fusion_patch_place(fusion_place(b, 2), 63) } };
	room.patches.patch[1] = (struct fusion_patch) {
		{ fusion_patch_place(fusion_place(a, 1), 0),
		  fusion_patch_place(fusion_place(b, 3), 0) } };
	CHECK(fusion_patches_run(&room.patches, 0, 2) == 1, "");
}

/* Page after page of a block is patched, and patched again. */
static void adding(void)
{
	for (int i = 0; i < ROUNDS / 10; i++) {
		union room old = { 0 }, new;
		struct model m = { 0 };

		for (;;) {
			unsigned int first = rnd_below(64);
			unsigned int count = 1 + rnd_below(3);
			struct fusion_patch patch = some_patch(61, 0);
			u64 pages;

			/* now and then what follows what is there */
			if (first && m.patched[first - 1] && rnd_below(2) &&
			    fusion_patch_page(m.patch[first - 1].at[0]) < 60)
				patch = fusion_patch_behind(&m.patch[first - 1], 1);
			if (count > 64 - first)
				count = 64 - first;
			pages = fusion_mask(first, count);
			if (fusion_popcount64(old.patches.mask | pages) >
			    FUSION_MAX_PATCHES)
				break;
			fusion_patches_add(&new.patches, old.patches.mask ?
					   &old.patches : NULL, pages, &patch);
			for (unsigned int n = 0; n < count; n++) {
				m.patched[first + n] = true;
				m.patch[first + n] = patch;
				for (int r = 0; r < 3; r++)
					if (patch.at[r])
						m.patch[first + n].at[r] += n;
			}
			check_model(&m, &new.patches);
			check_runs(&new.patches);
			old = new;
		}
	}
}

static void round_trip(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int pages = some_pages();
		unsigned int bytes = fusion_patches_bytes(pages);
		union room in = some_patches(pages), out;
		union disk_room disk, again;
		unsigned int count = fusion_popcount64(in.patches.mask);

		memset(&disk, 0xa5, sizeof(disk));
		memset(&again, 0x5a, sizeof(again));
		memset(&out, 0x5a, sizeof(out));
		fusion_patches_encode(&in.patches, pages, &disk.patches);
		CHECK(!fusion_patches_decode(&disk.patches, pages, &out.patches), "");
		CHECK(out.patches.mask == in.patches.mask &&
		      out.patches.generation == in.patches.generation, "");
		CHECK(!memcmp(out.patches.patch, in.patches.patch,
			      count * sizeof(in.patches.patch[0])), "");
		/* Every byte is defined, and none beyond is written. */
		fusion_patches_encode(&out.patches, pages, &again.patches);
		CHECK(!memcmp(&disk, &again, bytes), "");
		if (bytes < sizeof(disk))
			CHECK(((u8 *)&disk)[bytes] == 0xa5, "");
	}
}

static void bytes(void)
{
	static const u8 bytes[16 + 3 * 24] = {
		0x04, 0x80, 0, 0, 0, 0, 0, 0,		/* pages 2 and 15 */
		4, 3, 2, 1, 0, 0, 0, 0,
		/* band 2, stripe 69, slot 2, page 5 */
		0x85, 0x50, 0x04, 0x00, 0x20, 0, 0, 0x40,
		0x45, 0x60, 0x04, 0x00, 0x20, 0, 0, 0x40, /* stripe 70, slot 1 */
		0, 0, 0, 0, 0, 0, 0, 0,
		0xcf, 0x50, 0x04, 0x00, 0x20, 0, 0, 0x40, /* slot 3, page 15 */
		0x0f, 0x60, 0x04, 0x00, 0x20, 0, 0, 0x40, /* slot 0 */
		0x0f, 0x70, 0x04, 0x00, 0x20, 0, 0, 0x40, /* stripe 71 */
	};
	u64 a = fusion_stripe_id(2, 69), b = fusion_stripe_id(2, 70);
	u64 c = fusion_stripe_id(2, 71);
	union room in = {
		.patches.mask = 0x8004,
		.patches.generation = 0x01020304,
	};
	union disk_room disk;

	in.patches.patch[0] = (struct fusion_patch) {
		{ fusion_patch_place(fusion_place(a, 2), 5),
		  fusion_patch_place(fusion_place(b, 1), 5), 0 } };
	in.patches.patch[1] = (struct fusion_patch) {
		{ fusion_patch_place(fusion_place(a, 3), 15),
		  fusion_patch_place(fusion_place(b, 0), 15),
		  fusion_patch_place(fusion_place(c, 0), 15) } };
	fusion_patches_encode(&in.patches, 16, &disk.patches);
	CHECK(!memcmp(&disk, bytes, sizeof(bytes)), "");
}

/* Break good patches in each way there is. */
static void malformed(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int pages = some_pages(), max = fusion_max_patches(pages);
		union room in = some_patches(pages), out;
		unsigned int count = fusion_popcount64(in.patches.mask);
		u64 *at = in.patches.patch[rnd_below(count)].at;
		unsigned int kind = i % 10, r = rnd_below(2);
		union disk_room disk;

		switch (kind) {
		case 0:
			at[r] = 0;
			break;
		case 1:
			at[r] &= ~FUSION_PLACE_VALID;
			break;
		case 2:
			at[2] = some_patch_place(rnd_below(pages)) &
				~FUSION_PLACE_VALID;
			if (!at[2])
				at[2] = 1;
			break;
		case 3:
			at[r] |= 1ULL << (rnd_below(2) ? 60 + rnd_below(2) : 63);
			break;
		case 4:
			if (pages == 64)
				continue;	/* each page there can be */
			at[0] |= pages;
			at[1] |= pages;
			if (at[2])
				at[2] |= pages;
			break;
		case 5:
			if (rnd_below(2))
				at[1] = at[0];
			else
				at[2] = at[r];
			break;
		case 9:
			at[at[2] ? rnd_below(3) : r] ^= 1ULL << rnd_below(3);
			break;
		}
		fusion_patches_encode(&in.patches, pages, &disk.patches);
		switch (kind) {
		case 6:
			disk.patches.mask = 0;
			break;
		case 7:
			if (pages == 64)
				continue;
			disk.patches.mask &= cpu_to_le64(~(in.patches.mask &
							   -in.patches.mask));
			disk.patches.mask |= cpu_to_le64(1ULL << pages);
			break;
		case 8:
			if (rnd_below(2) || count == max)
				disk.patches.mask = cpu_to_le64(fusion_mask(0, max + 1));
			else
				disk.patches.patch[max - 1].at[rnd_below(3)] =
					cpu_to_le64(some_patch_place(0));
			break;
		}
		CHECK(fusion_patches_decode(&disk.patches, pages, &out.patches) ==
		      -EINVAL, "%u: %u pages", kind, pages);
	}
}

/* Garbage is either refused or says what its bytes say. */
static void garbage(void)
{
	unsigned int taken = 0;

	for (int i = 0; i < 4 * ROUNDS; i++) {
		unsigned int pages = some_pages(), words;
		union disk_room disk = { 0 }, again;
		union room out;

		words = fusion_patches_bytes(pages) / 8;
		disk.words[0] = 1ULL << rnd_below(64);
		for (unsigned int w = 2; w < words; w++)
			disk.words[w] = w < 2 + 3 || !rnd_below(8) ?
				(rnd() >> rnd_below(64) & ~7ULL) | FUSION_PLACE_VALID : 0;
		if (fusion_patches_decode(&disk.patches, pages, &out.patches))
			continue;
		taken++;
		fusion_patches_encode(&out.patches, pages, &again.patches);
		CHECK(!memcmp(&disk, &again, 8 * words), "");
	}
	CHECK(taken, "none was taken");
}

int main(void)
{
	RUN(how_many);
	RUN(places);
	RUN(which);
	RUN(runs_end_with_the_slot);
	RUN(adding);
	RUN(round_trip);
	RUN(bytes);
	RUN(malformed);
	RUN(garbage);
	return tap_done();
}
