// SPDX-License-Identifier: GPL-2.0-only
/*
 * The on-disk format: sizes, offsets, masks, map entries, labels, records.
 */
#include <stdlib.h>

#include "codec.h"
#include "tap.h"

#define ROUNDS	100000

/* ---- sizes and offsets: what is on disk stays where it is ---- */

#define AT(type, field, offset)						\
	_Static_assert(offsetof(struct fusion_disk_##type, field) == (offset), \
		       #type "." #field)
#define SIZE(type, bytes)						\
	_Static_assert(sizeof(struct fusion_disk_##type) == (bytes), #type)

AT(label, magic, 0);
AT(label, crc, 16);
AT(label, version, 20);
AT(label, compat, 24);
AT(label, ro_compat, 28);
AT(label, incompat, 32);
AT(label, flags, 36);
AT(label, pool_uuid, 40);
AT(label, member_uuid, 56);
AT(label, pool_name, 72);
AT(label, index, 136);
AT(label, members, 138);
AT(label, spares, 140);
AT(label, slice, 142);
AT(label, slices, 144);
AT(label, layout, 146);
AT(label, block_sectors, 148);
AT(label, data_offset_sectors, 152);
AT(label, data_sectors, 160);
AT(label, rmeta_offset_sectors, 168);
AT(label, rmeta_sectors, 176);
AT(label, slice_offset_sectors, 184);
AT(label, slice_sectors, 192);
AT(label, created, 200);
AT(label, member_sectors, 208);
AT(label, journal_offset_sectors, 216);
AT(label, journal_sectors, 224);
AT(label, reserved, 232);
SIZE(label, 4096);
AT(record, magic, 0);
AT(record, crc, 16);
AT(record, version, 20);
AT(record, pool_uuid, 24);
AT(record, generation, 40);
AT(record, members, 48);
AT(record, reserved0, 50);
AT(record, state, 56);
AT(record, reserved, 120);
SIZE(record, 4096);

AT(class, data, 0);
AT(class, parity, 1);
AT(class, flags, 2);
AT(class, reserved, 4);
SIZE(class, 8);

AT(member, uuid, 0);
AT(member, state, 16);
AT(member, spare, 20);
AT(member, flags, 22);
AT(member, left, 24);
SIZE(member, 32);

AT(super, csum, 0);
AT(super, flags, 4);
AT(super, blocknr, 8);
AT(super, pool_uuid, 16);
AT(super, magic, 32);
AT(super, version, 40);
AT(super, compat, 44);
AT(super, ro_compat, 48);
AT(super, incompat, 52);
AT(super, transaction_id, 56);
AT(super, metadata_block_sectors, 64);
AT(super, shards, 68);
AT(super, metadata_blocks, 72);
AT(super, space_map_root, 80);
AT(super, volumes_root, 208);
AT(super, bands_root, 216);
AT(super, stripes_root, 224);
AT(super, base_root, 232);
AT(super, tops_root, 240);
AT(super, patches_root, 248);
AT(super, rows_root, 256);
AT(super, reserved_roots, 264);
AT(super, layout, 288);
AT(super, members, 292);
AT(super, spares, 294);
AT(super, block_sectors, 296);
AT(super, band_units, 300);
AT(super, bands, 304);
AT(super, generation, 308);
AT(super, unsynced_generation, 312);
AT(super, reserved0, 316);
AT(super, replica_stripes, 320);
AT(super, raid_stripes, 328);
AT(super, replica_live, 336);
AT(super, raid_live, 344);
AT(super, replica_slots, 352);
AT(super, raid_slots, 360);
AT(super, raid_parity_slots, 368);
AT(super, patch_pages, 376);
AT(super, states_generation, 384);
AT(super, scrub_at, 392);
AT(super, journal_offset, 400);
AT(super, journal_sectors, 408);
AT(super, journal_at, 412);
AT(super, journal_sequence, 416);
AT(super, layout_generation, 424);
AT(super, old_members, 426);
AT(super, old_band_units, 428);
AT(super, old_bands, 432);
AT(super, classes, 440);
AT(super, member, 568);
SIZE(super, 568 + 64 * 32);
_Static_assert(sizeof(struct fusion_disk_super) <= FUSION_META_BLOCK_BYTES,
	       "superblock");

AT(volume, blocks, 0);
AT(volume, mapped, 8);
AT(volume, tops, 16);
AT(volume, class, 24);
AT(volume, flags, 26);
AT(volume, reserved0, 28);
AT(volume, name, 32);
AT(volume, delete_cursor, 96);
AT(volume, patched, 104);
AT(volume, reserved, 112);
SIZE(volume, 120);

AT(band, class, 0);
AT(band, layout_generation, 2);
AT(band, used, 4);
SIZE(band, 8);

AT(stripe, state, 0);
AT(stripe, spared, 1);
AT(stripe, patch_pages, 2);
AT(stripe, generation, 4);
AT(stripe, written, 8);
AT(stripe, live, 16);
AT(stripe, partner, 24);
SIZE(stripe, 40);

AT(base, place, 0);
SIZE(base, 512);

AT(top, place, 0);
AT(top, mask, 24);
AT(top, generation, 32);
AT(top, reserved, 36);
SIZE(top, 40);

AT(patch, at, 0);
SIZE(patch, 24);
AT(patches, mask, 0);
AT(patches, generation, 8);
AT(patches, reserved, 12);
AT(patches, patch, 16);
SIZE(patches, 16);
AT(row, changed, 0);
AT(row, copies, 8);
AT(row, reserved, 10);
AT(row, patch, 16);
SIZE(row, 112);

_Static_assert(sizeof(FUSION_LABEL_MAGIC) - 1 == 16, "magic");
_Static_assert(FUSION_PLACE_VALID == 0x4000000000000000ULL, "place");
_Static_assert(FUSION_MAX_MEMBERS == 64, "members");

/* ---- the checksum itself ---- */

static void test_crc32c(void)
{
	u8 bytes[32];

	/* RFC 3720, B.4 */
	CHECK(fusion_crc32c_append(0, "123456789", 9) == 0xe3069283, "");
	memset(bytes, 0, 32);
	CHECK(fusion_crc32c_append(0, bytes, 32) == 0x8a9136aa, "");
	memset(bytes, 0xff, 32);
	CHECK(fusion_crc32c_append(0, bytes, 32) == 0x62a8ab43, "");
	CHECK(fusion_crc32c_append(fusion_crc32c_append(0, "1234", 4), "56789",
				   5) == 0xe3069283, "");
	CHECK(fusion_crc32c_append(77, "", 0) == 77, "");
}

/* ---- masks ---- */

static void check_mask(unsigned int first, unsigned int count)
{
	u64 expected = 0;

	for (unsigned int p = first; p < first + count; p++)
		expected |= 1ULL << p;
	CHECK(fusion_mask(first, count) == expected, "%u %u", first, count);
}

static void test_mask(void)
{
	for (unsigned int first = 0; first <= 64; first++)
		for (unsigned int count = 0; first + count <= 64; count++)
			check_mask(first, count);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int first = rnd_below(65);

		check_mask(first, rnd_below(65 - first));
	}
}

static void check_run(u64 mask, unsigned int first, unsigned int limit)
{
	unsigned int run = 1;

	while (run < limit &&
	       (mask >> (first + run) & 1) == (mask >> first & 1))
		run++;
	CHECK(fusion_mask_run(mask, first, limit) == run, "%" PRIx64 " %u %u: %u",
	      mask, first, limit, fusion_mask_run(mask, first, limit));
}

static void test_mask_run(void)
{
	for (unsigned int first = 0; first < 64; first++) {
		for (unsigned int limit = 1; first + limit <= 64; limit++) {
			check_run(0, first, limit);
			check_run(~0ULL, first, limit);
			check_run(0x5555555555555555, first, limit);
			for (unsigned int bit = 0; bit < 64; bit++) {
				check_run(1ULL << bit, first, limit);
				check_run(~(1ULL << bit), first, limit);
				check_run(~0ULL << bit, first, limit);
				check_run(~(~0ULL << bit), first, limit);
			}
		}
	}
	for (int i = 0; i < 4 * ROUNDS; i++) {
		unsigned int first = rnd_below(64);

		check_run(rnd_mask(), first, 1 + rnd_below(64 - first));
	}
}

/* Runs one after the other cover a mask and give it back. */
static void test_mask_runs_cover(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int pages = 1 + rnd_below(64), first = 0;
		u64 mask = rnd_mask() & fusion_mask(0, pages), again = 0;

		while (first < pages) {
			unsigned int run = fusion_mask_run(mask, first,
							   pages - first);

			CHECK(run && first + run <= pages, "");
			if (!run)
				break;
			if (mask >> first & 1)
				again |= fusion_mask(first, run);
			first += run;
		}
		CHECK(again == mask, "%" PRIx64 " %" PRIx64, mask, again);
	}
}

/* ---- stripe ids, places, keys ---- */

static void test_places(void)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		u32 band = rnd_mask() % FUSION_MAX_BANDS;
		u32 index = rnd_mask() % FUSION_MAX_BAND_STRIPES;
		u32 slot = rnd_below(64);
		u64 stripe = fusion_stripe_id(band, index);
		u64 place = fusion_place(stripe, slot);
		u64 stray;

		CHECK(stripe < 1ULL << FUSION_STRIPE_BITS, "");
		CHECK(stripe != FUSION_NO_STRIPE, "");
		CHECK(place == (1ULL << 62 | (u64)band << 30 | (u64)index << 6 |
				slot), "");
		CHECK(fusion_stripe_band(stripe) == band, "");
		CHECK(fusion_stripe_index(stripe) == index, "");
		CHECK(fusion_place_stripe(place) == stripe, "");
		CHECK(fusion_place_slot(place) == slot, "");

		CHECK(fusion_place_valid(place, band + 1, index + 1, slot + 1),
		      "");
		CHECK(!fusion_place_valid(place, band, index + 1, slot + 1), "");
		CHECK(!fusion_place_valid(place, band + 1, index, slot + 1), "");
		CHECK(!fusion_place_valid(place, band + 1, index + 1, slot), "");
		CHECK(!fusion_place_valid(place & ~FUSION_PLACE_VALID, ~0U, ~0U,
					  64), "");
		stray = 1ULL << (54 + rnd_below(9));
		if (stray == FUSION_PLACE_VALID)
			stray = 1ULL << 63;
		CHECK(!fusion_place_valid(place | stray, ~0U, ~0U, 64),
		      "%" PRIx64, place | stray);
	}
	CHECK(!fusion_place_valid(0, ~0U, ~0U, 64), "");
	CHECK(!fusion_place_valid(~0ULL, ~0U, ~0U, 64), "");
}

/* Any 64 bits: valid exactly when they are the place of their parts. */
static void test_any_place(void)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		u64 place = rnd() >> rnd_below(40);
		u32 bands = 1 + rnd_mask() % FUSION_MAX_BANDS;
		u32 stripes = 1 + rnd_mask() % FUSION_MAX_BAND_STRIPES;
		u32 slots = 1 + rnd_below(64);
		u64 band, index, slot;
		bool valid;

		if (rnd_below(4))
			place |= FUSION_PLACE_VALID;
		if (rnd_below(4))
			place &= ~(~0ULL << 54) | 1ULL << 62;
		slot = place & 63;
		index = place >> 6 & 0xffffff;
		band = place >> 30 & 0x3ffffffff;	/* all there is */
		valid = place >> 62 == 1 && !(band >> 24 & 0xff) &&
			(band & 0xffffff) < bands && index < stripes &&
			slot < slots;
		CHECK(fusion_place_valid(place, bands, stripes, slots) == valid,
		      "%" PRIx64, place);
	}
}

static void test_block_keys(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		u32 volume = rnd_mask() & FUSION_MAX_VOLUME_ID;
		u64 block = rnd_mask() & (FUSION_MAX_BLOCKS - 1);
		u64 key = fusion_block_key(volume, block);

		CHECK(key >> 40 == volume && (key & 0xffffffffff) == block, "");
	}
}

/* ---- tops ---- */

static u64 some_place(void)
{
	return fusion_place(fusion_stripe_id(rnd_mask() % FUSION_MAX_BANDS,
					     rnd_mask() % FUSION_MAX_BAND_STRIPES),
			    rnd_below(64));
}

/* A good top of blocks of @pages pages. */
static struct fusion_top some_top(unsigned int pages)
{
	struct fusion_top top = { .generation = rnd() };

	do {
		for (int r = 0; r < 3; r++)
			top.place[r] = some_place();
		if (rnd_below(2))
			top.place[2] = 0;
	} while (top.place[0] == top.place[1] || top.place[0] == top.place[2] ||
		 top.place[1] == top.place[2]);
	do
		top.mask = rnd_mask() & (pages < 64 ? (1ULL << pages) - 1 : ~0ULL);
	while (!top.mask);
	return top;
}

static bool top_equal(const struct fusion_top *a, const struct fusion_top *b)
{
	return a->place[0] == b->place[0] && a->place[1] == b->place[1] &&
	       a->place[2] == b->place[2] && a->mask == b->mask &&
	       a->generation == b->generation;
}

static void test_top_round_trip(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int pages = 1 + rnd_below(64);
		struct fusion_top top = some_top(pages), again;
		struct fusion_disk_top disk, disk2;

		memset(&disk, 0xa5, sizeof(disk));
		memset(&disk2, 0x5a, sizeof(disk2));
		memset(&again, 0x5a, sizeof(again));
		fusion_top_encode(&top, &disk);
		CHECK(!fusion_top_decode(&disk, pages, &again), "");
		CHECK(top_equal(&top, &again), "");
		/* Every byte is defined. */
		fusion_top_encode(&again, &disk2);
		CHECK(!memcmp(&disk, &disk2, sizeof(disk)), "");
		CHECK(!disk.reserved, "");
	}
}

static void test_top_bytes(void)
{
	static const u8 bytes[40] = {
		0x42, 0x11, 0, 0x80, 0, 0, 0, 0x40,	/* band 2, stripe 69, slot 2 */
		0x81, 0x11, 0, 0x80, 0, 0, 0, 0x40,	/* stripe 70, slot 1 */
		0, 0, 0, 0, 0, 0, 0, 0,
		0x0f, 0, 0, 0, 0, 0, 0, 0x80,
		4, 3, 2, 1, 0, 0, 0, 0
	};
	struct fusion_top top = {
		.place = { fusion_place(fusion_stripe_id(2, 69), 2),
			   fusion_place(fusion_stripe_id(2, 70), 1), 0 },
		.mask = 0x800000000000000f,
		.generation = 0x01020304,
	};
	struct fusion_disk_top disk;

	fusion_top_encode(&top, &disk);
	CHECK(!memcmp(&disk, bytes, sizeof(disk)), "");
}

/* Break a good top in each way there is. */
static void test_top_malformed(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int pages = 1 + rnd_below(64);
		struct fusion_top top = some_top(pages), out;
		struct fusion_disk_top disk;
		unsigned int kind = i % 9, r = rnd_below(2);

		switch (kind) {
		case 0:
			top.mask = 0;
			break;
		case 1:
			if (pages == 64)
				pages = 63, top.mask |= 1ULL << 63;
			else
				top.mask |= 1ULL << (pages + rnd_below(64 - pages));
			break;
		case 2:
			top.place[0] = 0;
			break;
		case 3:
			top.place[1] = 0;
			break;
		case 4:
			top.place[r] &= ~FUSION_PLACE_VALID;
			break;
		case 5:
			top.place[2] = some_place() & ~FUSION_PLACE_VALID;
			if (!top.place[2])
				top.place[2] = 1;
			break;
		case 6:
			top.place[r] |= 1ULL << (rnd_below(4) ?
						 54 + rnd_below(8) : 63);
			break;
		case 7:
			top.place[2] = some_place() | 1ULL << (54 + rnd_below(8));
			break;
		case 8:
			if (rnd_below(2))
				top.place[1] = top.place[0];
			else
				top.place[2] = top.place[r];
			break;
		}
		fusion_top_encode(&top, &disk);
		CHECK(fusion_top_decode(&disk, pages, &out) == -EINVAL, "%u", kind);
	}
}

/* Garbage is either refused or says what its bytes say. */
static void test_top_garbage(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct fusion_disk_top disk, again;
		struct fusion_top top;
		u64 words[5];

		for (int w = 0; w < 5; w++)
			words[w] = rnd_mask();
		memcpy(&disk, words, sizeof(disk));
		disk.reserved = 0;
		if (fusion_top_decode(&disk, 1 + rnd_below(64), &top)) {
			CHECK(1, "");
			continue;
		}
		fusion_top_encode(&top, &again);
		CHECK(!memcmp(&disk, &again, sizeof(disk)), "");
	}
}

/* ---- labels ---- */

/* A good, sealed label of a five-member pool. */
static void make_label(struct fusion_disk_label *label)
{
	memset(label, 0, sizeof(*label));
	for (int i = 0; i < FUSION_UUID_BYTES; i++) {
		label->pool_uuid[i] = rnd();
		label->member_uuid[i] = rnd();
	}
	memcpy(label->pool_name, "tank", 5);
	label->index = cpu_to_le16(3);
	label->members = cpu_to_le16(5);
	label->spares = cpu_to_le16(1);
	label->slice = cpu_to_le16(2);
	label->slices = cpu_to_le16(3);
	label->layout = cpu_to_le16(FUSION_LAYOUT_MOLS);
	label->block_sectors = cpu_to_le32(128);
	label->rmeta_offset_sectors = cpu_to_le64(2048);
	label->rmeta_sectors = cpu_to_le64(2048);
	label->slice_offset_sectors = cpu_to_le64(4096);
	label->slice_sectors = cpu_to_le64(61440);
	label->journal_offset_sectors = cpu_to_le64(65536);
	label->journal_sectors = cpu_to_le64(4096);
	label->data_offset_sectors = cpu_to_le64(69632);
	label->data_sectors = cpu_to_le64(128 * 5 * 3 * 48);
	label->member_sectors = cpu_to_le64(69632 + 128 * 5 * 3 * 48);
	label->created = cpu_to_le64(1700000000);
	fusion_label_seal(label);
}

/* Of a label, or a record: magic and version may be meant as they are. */
static void reseal(void *bytes)
{
	struct fusion_disk_label *label = bytes;

	label->crc = 0;
	label->crc = cpu_to_le32(fusion_crc32c_append(0, bytes, sizeof(*label)));
}

#define EXPECT(error, fmt, ...)						\
	do {								\
		enum fusion_label_error e_ = fusion_label_check(&label);	\
									\
		CHECK(e_ == FUSION_LABEL_##error, fmt ": %d", ##__VA_ARGS__, e_); \
	} while (0)

static void test_label_round_trip(void)
{
	struct fusion_disk_label label, before;

	for (int i = 0; i < 1000; i++) {
		make_label(&label);
		EXPECT(OK, "sealed");
		CHECK(!memcmp(label.magic, "dm-fusion member", 16), "");
		CHECK(label.version == cpu_to_le32(1), "");
		before = label;
		fusion_label_seal(&label);
		CHECK(!memcmp(&label, &before, sizeof(label)), "again");
		/* The checksum's definition. */
		reseal(&label);
		CHECK(!memcmp(&label, &before, sizeof(label)), "crc");

		/* What it does not interpret it keeps. */
		label.created = rnd();
		label.flags = rnd();
		label.compat = rnd();
		label.ro_compat = rnd();
		label.reserved[rnd_below(sizeof(label.reserved))] = rnd();
		before = label;
		fusion_label_seal(&label);
		EXPECT(OK, "compatible");
		before.crc = label.crc;
		CHECK(!memcmp(&label, &before, sizeof(label)), "kept");
	}
}

/* Every byte, every bit of it and some more. */
static void test_label_flips(void)
{
	struct fusion_disk_label label;
	u8 *bytes = (u8 *)&label;

	make_label(&label);
	for (size_t b = 0; b < sizeof(label); b++) {
		for (int bit = 0; bit < 9; bit++) {
			u8 flip = bit < 8 ? 1U << bit : 2 + rnd_below(254);

			bytes[b] ^= flip;
			if (b < 16)
				EXPECT(ABSENT, "byte %zu", b);
			else
				EXPECT(CORRUPT, "byte %zu", b);
			bytes[b] ^= flip;
		}
	}
	EXPECT(OK, "restored");
}

static void test_label_versions_and_features(void)
{
	struct fusion_disk_label label;

	make_label(&label);
	label.version = cpu_to_le32(2);
	reseal(&label);
	EXPECT(VERSION, "2");
	/* What a newer version means by its fields is not for us to judge. */
	label.members = 0;
	label.incompat = ~(__le32)0;
	memset(label.pool_name, 'x', sizeof(label.pool_name));
	reseal(&label);
	EXPECT(VERSION, "2 with other fields");
	label.version = ~(__le32)0;
	reseal(&label);
	EXPECT(VERSION, "all ones");
	label.crc ^= 1;
	EXPECT(CORRUPT, "2 with bad checksum");

	make_label(&label);
	label.version = 0;
	reseal(&label);
	EXPECT(CORRUPT, "0");

	for (int bit = 0; bit < 32; bit++) {
		make_label(&label);
		label.incompat = cpu_to_le32(1U << bit);
		reseal(&label);
		EXPECT(FEATURES, "incompat %d", bit);
		label.members = 0;
		reseal(&label);
		EXPECT(FEATURES, "incompat %d with other fields", bit);

		make_label(&label);
		label.ro_compat = cpu_to_le32(1U << bit);
		label.compat = cpu_to_le32(1U << bit);
		reseal(&label);
		EXPECT(OK, "compat %d", bit);
	}
}

/* A good label with one field set, sealed. */
#define WITH(bits, field, value)					\
	do {								\
		make_label(&label);					\
		label.field = cpu_to_le##bits(value);			\
		reseal(&label);						\
	} while (0)

static void test_label_name(void)
{
	struct fusion_disk_label label;

	for (unsigned int length = 0; length <= FUSION_NAME_BYTES; length++) {
		make_label(&label);
		memset(label.pool_name, 0, sizeof(label.pool_name));
		memset(label.pool_name, 'n', length);
		reseal(&label);
		if (length < FUSION_NAME_BYTES)
			EXPECT(OK, "length %u", length);
		else
			EXPECT(CORRUPT, "length %u", length);
	}
}

static void test_label_geometry(void)
{
	struct fusion_disk_label label;

	for (unsigned int i = 0; i < 65536; i += i < 300 || i > 65500 ? 1 : 97) {
		WITH(16, index, i);
		if (i < 5 || i == FUSION_NO_INDEX)
			EXPECT(OK, "index %u", i);
		else
			EXPECT(CORRUPT, "index %u", i);

		WITH(16, layout, i);
		if (i == FUSION_LAYOUT_MOLS)
			EXPECT(OK, "layout %u", i);
		else
			EXPECT(CORRUPT, "layout %u", i);

		make_label(&label);
		label.members = cpu_to_le16(i);
		label.data_sectors = cpu_to_le64(128 * i);
		label.member_sectors = cpu_to_le64(1ULL << 40);
		reseal(&label);
		if (i > 4 && fusion_layout_valid_order(i))
			EXPECT(OK, "members %u", i);
		else
			EXPECT(CORRUPT, "members %u", i);

		make_label(&label);
		label.spares = cpu_to_le16(i);
		label.data_sectors = cpu_to_le64(128 * (4 + i));
		label.member_sectors = cpu_to_le64(1ULL << 40);
		reseal(&label);
		if (i <= 1)
			EXPECT(OK, "spares %u", i);
		else
			EXPECT(CORRUPT, "spares %u", i);
	}

	for (u32 block = 0; block <= 2048; block++) {
		make_label(&label);
		label.block_sectors = cpu_to_le32(block);
		label.data_sectors = cpu_to_le64((u64)block * 5);
		label.member_sectors = cpu_to_le64(1ULL << 40);
		reseal(&label);
		if (block == 8 || block == 16 || block == 32 || block == 64 ||
		    block == 128 || block == 256 || block == 512)
			EXPECT(OK, "block %u", block);
		else
			EXPECT(CORRUPT, "block %u", block);
	}
	WITH(32, block_sectors, 1U << 31);
	EXPECT(CORRUPT, "block 2^31");
	WITH(32, block_sectors, ~0U);
	EXPECT(CORRUPT, "block ~0");
}

static void test_label_slices(void)
{
	struct fusion_disk_label label;

	for (unsigned int slices = 0; slices <= 70; slices++) {
		for (unsigned int slice = 0; slice <= 72; slice++) {
			bool none = slice == 72;

			make_label(&label);
			label.slices = cpu_to_le16(slices);
			label.slice = cpu_to_le16(none ? 0xffff : slice);
			reseal(&label);
			if (slices <= 64 && (none || slice < slices))
				EXPECT(OK, "slice %u of %u", slice, slices);
			else
				EXPECT(CORRUPT, "slice %u of %u", slice, slices);
		}
	}

	/* A slice takes room, and so does dm-raid's superblock. */
	WITH(64, slice_sectors, 0);
	EXPECT(CORRUPT, "empty slice");
	WITH(64, rmeta_sectors, 0);
	EXPECT(CORRUPT, "no rmeta");

	/* No slice: no areas needed, and offsets of nothing mean nothing. */
	make_label(&label);
	label.slice = 0xffff;
	label.slice_sectors = 0;
	label.rmeta_sectors = 0;
	label.slice_offset_sectors = 0;
	label.rmeta_offset_sectors = 0;
	reseal(&label);
	EXPECT(OK, "no slice");
	label.journal_sectors = 0;
	label.journal_offset_sectors = 1;
	reseal(&label);
	EXPECT(OK, "no journal");
	label.data_offset_sectors = cpu_to_le64(2048);
	reseal(&label);
	EXPECT(OK, "bands right behind the labels");
	label.data_offset_sectors = cpu_to_le64(2040);
	reseal(&label);
	EXPECT(CORRUPT, "bands over the labels");
}

static void test_label_areas(void)
{
	static const u64 far[] = {
		1ULL << 32, 1ULL << 62, 1ULL << 63, ~0ULL - 2047, ~0ULL - 7, ~0ULL
	};
	struct fusion_disk_label label;

	/* The good one has no room to spare anywhere: one more never fits. */
	WITH(64, rmeta_offset_sectors, 2047);
	EXPECT(CORRUPT, "rmeta over the labels");
	WITH(64, rmeta_offset_sectors, 0);
	EXPECT(CORRUPT, "rmeta over the first label");
	WITH(64, rmeta_offset_sectors, 2049);
	EXPECT(CORRUPT, "rmeta over the slice");
	WITH(64, rmeta_sectors, 2049);
	EXPECT(CORRUPT, "rmeta into the slice");
	WITH(64, rmeta_sectors, 2047);
	EXPECT(OK, "a gap");
	WITH(64, rmeta_offset_sectors, 69632);
	EXPECT(CORRUPT, "rmeta in the bands");
	WITH(64, slice_offset_sectors, 4095);
	EXPECT(CORRUPT, "slice over rmeta");
	WITH(64, slice_offset_sectors, 1024);
	EXPECT(CORRUPT, "slice over the labels");
	WITH(64, slice_offset_sectors, 4097);
	EXPECT(CORRUPT, "slice over the journal");
	WITH(64, slice_sectors, 61441);
	EXPECT(CORRUPT, "slice into the journal");
	WITH(64, slice_sectors, 61439);
	EXPECT(OK, "a gap");
	WITH(64, journal_offset_sectors, 65528);
	EXPECT(CORRUPT, "journal over the slice");
	WITH(64, journal_offset_sectors, 65544);
	EXPECT(CORRUPT, "journal over the bands");
	WITH(64, journal_sectors, 4104);
	EXPECT(CORRUPT, "journal into the bands");
	WITH(64, journal_sectors, 4088);
	EXPECT(OK, "a gap");
	WITH(64, journal_sectors, 4087);
	EXPECT(CORRUPT, "a journal of half pages");
	WITH(64, journal_sectors, 2040);
	EXPECT(CORRUPT, "too small a journal");
	WITH(64, journal_sectors, 0);
	EXPECT(OK, "no journal");
	WITH(64, data_offset_sectors, 69624);
	EXPECT(CORRUPT, "bands over the journal");
	WITH(64, data_offset_sectors, 0);
	EXPECT(CORRUPT, "bands over the labels");
	WITH(64, data_offset_sectors, 69640);
	EXPECT(CORRUPT, "bands over the end");
	WITH(64, data_sectors, 128 * 5 * (3 * 48 + 1));
	EXPECT(CORRUPT, "bands over the end");
	WITH(64, data_sectors, 128 * 5 * (3 * 48 - 1));
	EXPECT(OK, "a smaller one");
	WITH(64, data_sectors, 128 * 5 * 3 * 48 - 128);
	EXPECT(OK, "bands of fewer members");
	WITH(64, data_sectors, 128 * 5 * 3 * 48 - 64);
	EXPECT(CORRUPT, "not whole blocks");
	WITH(64, member_sectors, 69632 + 128 * 5 * 3 * 48 - 1);
	EXPECT(CORRUPT, "a smaller member");
	WITH(64, member_sectors, 69632 + 128 * 5 * 3 * 48 + 1);
	EXPECT(OK, "a larger member");
	WITH(64, member_sectors, ~0ULL);
	EXPECT(OK, "the largest member");

	make_label(&label);
	label.data_offset_sectors = cpu_to_le64(69633);
	label.member_sectors = cpu_to_le64(1ULL << 40);
	reseal(&label);
	EXPECT(CORRUPT, "half a page");

	WITH(64, data_sectors, 0);
	EXPECT(CORRUPT, "no bands");
	label.index = 0xffff;
	reseal(&label);
	EXPECT(OK, "no bands on a hot spare");

	/* No sum wraps. */
	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
		WITH(64, rmeta_offset_sectors, far[i]);
		EXPECT(CORRUPT, "rmeta at %" PRIx64, far[i]);
		WITH(64, rmeta_sectors, far[i]);
		EXPECT(CORRUPT, "rmeta of %" PRIx64, far[i]);
		WITH(64, slice_offset_sectors, far[i]);
		EXPECT(CORRUPT, "slice at %" PRIx64, far[i]);
		WITH(64, slice_sectors, far[i]);
		EXPECT(CORRUPT, "slice of %" PRIx64, far[i]);
		WITH(64, journal_offset_sectors, far[i]);
		EXPECT(CORRUPT, "journal at %" PRIx64, far[i]);
		WITH(64, journal_sectors, far[i]);
		EXPECT(CORRUPT, "journal of %" PRIx64, far[i]);
		WITH(64, data_offset_sectors, far[i]);
		EXPECT(CORRUPT, "bands at %" PRIx64, far[i]);
		WITH(64, data_sectors, far[i] / 640 * 640);
		EXPECT(CORRUPT, "bands of %" PRIx64, far[i]);
		make_label(&label);
		label.data_offset_sectors = cpu_to_le64(far[i] & ~7ULL);
		label.data_sectors = cpu_to_le64(-far[i] / 640 * 640);
		reseal(&label);
		EXPECT(CORRUPT, "bands at %" PRIx64 " around", far[i]);
	}
}

/* Garbage under a good magic and checksum never crashes and never slips by. */
static void test_label_garbage(void)
{
	struct fusion_disk_label label;
	u8 *bytes = (u8 *)&label;
	unsigned int good = 0;

	for (int i = 0; i < 20000; i++) {
		enum fusion_label_error error;

		make_label(&label);
		for (unsigned int b = 0; b < sizeof(label); b += 8) {
			u64 word = rnd();

			memcpy(bytes + b, &word, 8);
		}
		EXPECT(ABSENT, "noise");
		memcpy(label.magic, FUSION_LABEL_MAGIC, 16);
		EXPECT(CORRUPT, "noise with a magic");

		if (i % 2)
			label.version = cpu_to_le32(1 + rnd_below(2));
		if (i % 4)
			label.incompat = 0;
		label.pool_name[63] = 0;
		reseal(&label);
		error = fusion_label_check(&label);
		CHECK(error == FUSION_LABEL_CORRUPT ||
		      error == FUSION_LABEL_VERSION ||
		      error == FUSION_LABEL_FEATURES, "%d", error);
	}

	/* A good one with a few bytes changed: what passes keeps its promises. */
	for (int i = 0; i < 20000; i++) {
		u64 data, data_sectors, size;

		make_label(&label);
		for (int times = 1 + rnd_below(3); times--;)
			bytes[136 + rnd_below(80)] = rnd_mask();
		reseal(&label);
		if (fusion_label_check(&label) != FUSION_LABEL_OK)
			continue;
		good++;
		data = le64_to_cpu(label.data_offset_sectors);
		data_sectors = le64_to_cpu(label.data_sectors);
		size = le64_to_cpu(label.member_sectors);
		CHECK(data >= 2048 && data <= size && data_sectors <= size - data,
		      "");
		CHECK(le16_to_cpu(label.slice) == 0xffff ||
		      le16_to_cpu(label.slice) < le16_to_cpu(label.slices), "");
		CHECK(fusion_layout_valid_order(le16_to_cpu(label.members)), "");
	}
	CHECK(good > 100 && good < 19000, "%u", good);
}

/* All zeros, all ones: a blank device is no member. */
static void test_label_blank(void)
{
	struct fusion_disk_label label;

	memset(&label, 0, sizeof(label));
	EXPECT(ABSENT, "zeros");
	memset(&label, 0xff, sizeof(label));
	EXPECT(ABSENT, "ones");
}

static void test_label_strerror(void)
{
	for (int a = 0; a < 7; a++) {
		const char *text = fusion_label_strerror(a);

		CHECK(text && !strncmp(text, "has ", 4), "%d", a);
		for (int b = 0; b < a; b++)
			CHECK((a > 5 && b >= 5) ||
			      strcmp(text, fusion_label_strerror(b)), "%d", a);
	}
	CHECK(!strcmp(fusion_label_strerror(FUSION_LABEL_ABSENT),
		      "has no dm-fusion label"), "");
}

/* ---- records ---- */

static void make_record(struct fusion_disk_record *record)
{
	memset(record, 0, sizeof(*record));
	for (int i = 0; i < FUSION_UUID_BYTES; i++)
		record->pool_uuid[i] = rnd();
	record->generation = cpu_to_le64(0x123456789abcULL);
	record->members = cpu_to_le16(5);
	record->state[3] = FUSION_MEMBER_FAILED;
	fusion_record_seal(record);
}

static u64 generation_of(const struct fusion_disk_record *record, const u8 *uuid)
{
	return fusion_record_states(record, uuid).generation;
}

static void test_record(void)
{
	struct fusion_disk_record record, before;
	u8 uuid[FUSION_UUID_BYTES];

	for (int i = 0; i < 1000; i++) {
		make_record(&record);
		memcpy(uuid, record.pool_uuid, sizeof(uuid));
		CHECK(!memcmp(record.magic, "dm-fusion record", 16), "");
		CHECK(record.version == cpu_to_le32(1), "");
		CHECK(generation_of(&record, uuid) == 0x123456789abcULL, "");
		CHECK(fusion_record_states(&record, uuid).used == ~0x8ULL, "");
		before = record;
		reseal(&record);
		CHECK(!memcmp(&record, &before, sizeof(record)), "crc");
		/* of another pool */
		uuid[rnd_below(sizeof(uuid))] ^= 1U << rnd_below(8);
		CHECK(!generation_of(&record, uuid), "");
	}
	/* Of a newer format: what it means is not for us to judge, but it is newer. */
	record.version = cpu_to_le32(2);
	reseal(&record);
	CHECK(generation_of(&record, record.pool_uuid) == ~0ULL, "");
	record.crc ^= 1;
	CHECK(!generation_of(&record, record.pool_uuid), "");
}

/* Damaged, or a label, or nothing. */
static void test_record_flips(void)
{
	struct fusion_disk_record record;
	struct fusion_disk_label label;
	u8 uuid[FUSION_UUID_BYTES];
	u8 *bytes = (u8 *)&record;

	make_record(&record);
	memcpy(uuid, record.pool_uuid, sizeof(uuid));
	for (size_t b = 0; b < sizeof(record); b++) {
		for (int bit = 0; bit < 8; bit++) {
			bytes[b] ^= 1U << bit;
			CHECK(!generation_of(&record, uuid), "byte %zu", b);
			bytes[b] ^= 1U << bit;
		}
	}
	CHECK(generation_of(&record, uuid), "restored");
	make_label(&label);
	memcpy(&record, &label, sizeof(record));
	CHECK(!generation_of(&record, label.pool_uuid), "a label");
	memset(&record, 0, sizeof(record));
	CHECK(!generation_of(&record, record.pool_uuid), "blank");
}

/* So many members, each with a generation, and who that says are used; which counts. */
static void choose(unsigned int n, const struct fusion_states *states,
		   u64 generation, u64 used)
{
	struct fusion_states chosen = fusion_states_choose(states, n);

	CHECK(chosen.generation == generation && chosen.used == used,
	      "%llu of %llx, not %llu of %llx",
	      (unsigned long long)chosen.generation, (unsigned long long)chosen.used,
	      (unsigned long long)generation, (unsigned long long)used);
}

static void test_states_choose(void)
{
	const struct fusion_states none[4] = { { 0 } };
	const struct fusion_states equal[4] = {
		{ 1, 15 }, { 1, 15 }, { 1, 15 }, { 1, 15 }
	};
	/* member 3 was left out, and is old */
	const struct fusion_states old[4] = {
		{ 2, 7 }, { 2, 7 }, { 2, 7 }, { 1, 15 }
	};
	/* the power failed when two had recorded that */
	const struct fusion_states cut[4] = {
		{ 2, 7 }, { 2, 7 }, { 1, 15 }, { 1, 15 }
	};
	/* who may not have is away */
	const struct fusion_states away[4] = {
		{ 2, 7 }, { 2, 7 }, { 0 }, { 1, 15 }
	};
	/* it was acted upon, and the next change was cut short */
	const struct fusion_states next[5] = {
		{ 3, 7 }, { 3, 7 }, { 2, 15 }, { 2, 15 }, { 1, 31 }
	};
	/* one half was cut short, and the other went on */
	const struct fusion_states halves[5] = {
		{ 2, 11 }, { 2, 11 }, { 3, 28 }, { 2, 11 }, { 1, 31 }
	};
	/* none can have been acted upon */
	const struct fusion_states tie[5] = {
		{ 2, 28 }, { 2, 11 }, { 2, 28 }, { 2, 11 }, { 0 }
	};
	/* each could have been, as the others are away */
	const struct fusion_states tie_away[5] = {
		{ 0 }, { 2, 11 }, { 2, 28 }, { 0 }, { 0 }
	};
	const struct fusion_states newer[4] = {
		{ 2, 7 }, { ~0ULL, 0 }, { 2, 7 }, { 1, 15 }
	};

	choose(4, none, 0, 0);
	choose(4, equal, 1, 15);
	choose(4, old, 2, 7);
	choose(4, cut, 1, 15);
	choose(4, away, 2, 7);
	choose(5, next, 2, 15);
	choose(5, halves, 2, 11);
	choose(5, tie, 2, 11);
	choose(5, tie_away, 2, 11); /* the first: neither is of more than half */
	choose(4, newer, ~0ULL, 0);
}

int main(void)
{
	RUN(test_crc32c);
	RUN(test_mask);
	RUN(test_mask_run);
	RUN(test_mask_runs_cover);
	RUN(test_places);
	RUN(test_any_place);
	RUN(test_block_keys);
	RUN(test_top_round_trip);
	RUN(test_top_bytes);
	RUN(test_top_malformed);
	RUN(test_top_garbage);
	RUN(test_label_round_trip);
	RUN(test_label_flips);
	RUN(test_label_versions_and_features);
	RUN(test_label_name);
	RUN(test_label_geometry);
	RUN(test_label_slices);
	RUN(test_label_areas);
	RUN(test_label_garbage);
	RUN(test_label_blank);
	RUN(test_label_strerror);
	RUN(test_record);
	RUN(test_record_flips);
	RUN(test_states_choose);
	return tap_done();
}
