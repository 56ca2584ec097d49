// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records of the journal.
 */
#include "journal-record.h"
#include "some.h"
#include "tap.h"

#include <stdlib.h>

#define ROUNDS	3000

static u64 room[FUSION_JOURNAL_MAX / sizeof(u64)];
static unsigned int pages;

/* What was put into a record. */
struct said {
	enum fusion_journal_kind kind;
	u32 order;
	u64 key, value;
	struct fusion_top top;
	union fusion_patches_room patches;
};

static struct said said[FUSION_JOURNAL_MAX / sizeof(struct fusion_disk_journal_entry)];
static unsigned int said_count;
static bool more;
static u64 transaction_id;

static u64 some_place(void)
{
	return fusion_patch_slot(some_patch_place(0));
}

static struct fusion_top some_top(void)
{
	struct fusion_top top = { .generation = rnd_mask(), .mask = rnd_mask() };
	struct fusion_patch patch = some_patch(pages, 0);

	fusion_patch_slots(&patch, top.place);
	top.mask &= fusion_mask(0, pages);
	top.mask |= 1;
	return top;
}

static void some_patches(struct fusion_patches *patches)
{
	unsigned int i, count = 1 + rnd_below(fusion_max_patches(pages));

	patches->mask = 0;
	patches->generation = rnd_mask();
	while (fusion_popcount64(patches->mask) < count)
		patches->mask |= 1ULL << rnd_below(pages);
	for (i = 0; i < count; i++)
		patches->patch[i] = some_patch(pages, 0);
}

/* Add one more, if there is room. */
static bool say(struct fusion_journal_writer *w)
{
	struct said *s = &said[said_count];
	struct fusion_top *top = NULL;
	struct fusion_patches *patches = NULL;
	bool fits;

	memset(s, 0, sizeof(*s));
	s->kind = 1 + rnd_below(4);
	s->key = rnd_mask();
	s->value = rnd_below(2) ? some_place() : 0;
	if (s->kind == FUSION_JOURNAL_SEAL) {
		fits = fusion_journal_add_seal(w, s->key, s->value);
	} else {
		s->order = rnd_mask();
		if (s->kind == FUSION_JOURNAL_TOP) {
			s->top = some_top();
			top = &s->top;
		} else if (s->kind == FUSION_JOURNAL_PATCHES) {
			patches = &s->patches.patches;
			some_patches(patches);
		}
		fits = fusion_journal_add_block(w, s->key, s->order, s->value, top, patches);
	}
	said_count += fits;
	return fits;
}

static struct fusion_journal_id some_id(void)
{
	struct fusion_journal_id id = {
		.sequence = rnd_mask(), .at = rnd_mask(), .generation = rnd_mask(),
	};

	for (int i = 0; i < FUSION_UUID_BYTES; i++)
		id.pool_uuid[i] = rnd_below(256);
	return id;
}

/* A record of some entries, or of as many as there is room for; its length. */
static u32 some_record(const struct fusion_journal_id *id, bool full)
{
	struct fusion_journal_writer w;
	unsigned int count = rnd_below(60);
	u32 length;

	pages = 8 << rnd_below(4);
	said_count = 0;
	more = rnd_below(2);
	memset(room, 0xa5, sizeof(room));
	fusion_journal_begin(&w, room);
	while (full || said_count < count)
		if (!say(&w))
			break;
	length = fusion_journal_length(&w);
	transaction_id = rnd_mask();
	fusion_journal_end(&w, id, transaction_id, more);
	CHECK(w.bytes <= length && length - w.bytes < FUSION_JOURNAL_UNIT, "%u %u", w.bytes,
	      length);
	return length;
}

static void check_said(u32 length)
{
	struct fusion_journal_reader r;
	struct fusion_journal_entry e;
	unsigned int i;

	fusion_journal_read(&r, room, length, pages);
	CHECK(r.more == more, "");
	CHECK(fusion_journal_transaction_id(room) == transaction_id, "");
	for (i = 0; i < said_count; i++) {
		const struct said *s = &said[i];
		const struct fusion_patches *a = &s->patches.patches, *b = &e.patches.patches;

		memset(&e, 0, sizeof(e));
		CHECK(!fusion_journal_next(&r, &e), "%u of %u", i, said_count);
		CHECK(e.kind == s->kind && e.key == s->key && e.value == s->value &&
		      e.order == s->order, "%u", i);
		if (s->kind == FUSION_JOURNAL_TOP)
			CHECK(!memcmp(&e.top, &s->top, sizeof(e.top)), "%u", i);
		if (s->kind == FUSION_JOURNAL_PATCHES)
			CHECK(a->mask == b->mask && a->generation == b->generation &&
			      !memcmp(a->patch, b->patch, fusion_popcount64(a->mask) *
				      sizeof(a->patch[0])), "%u", i);
	}
	CHECK(fusion_journal_next(&r, &e) == -ENODATA, "");
}

static void round_trip(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct fusion_journal_id id = some_id();
		u32 length = some_record(&id, n % 100 == 0);

		CHECK(fusion_journal_bytes(room, &id) == length, "%u", length);
		CHECK(fusion_journal_whole(room, length), "");
		check_said(length);
	}
}

static void full(void)
{
	struct fusion_journal_id id = some_id();
	struct fusion_journal_writer w;
	unsigned int count = 0;

	fusion_journal_begin(&w, room);
	while (fusion_journal_add_seal(&w, count, 1))
		count++;
	CHECK(count == (FUSION_JOURNAL_MAX - sizeof(struct fusion_disk_journal)) /
	      sizeof(struct fusion_disk_journal_entry), "%u", count);
	CHECK(fusion_journal_length(&w) == FUSION_JOURNAL_MAX, "");
	fusion_journal_end(&w, &id, 0, false);
	CHECK(fusion_journal_bytes(room, &id) == FUSION_JOURNAL_MAX, "");
}

/* Another's, or an old one, is not the one that is looked for. */
static void others(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct fusion_journal_id id = some_id(), other = id;
		u32 length = some_record(&id, false);
		struct fusion_disk_journal *disk = (void *)room;

		switch (n % 7) {
		case 0: other.sequence++; break;
		case 1: other.at += FUSION_JOURNAL_UNIT; break;
		case 2: other.generation--; break;
		case 3: other.pool_uuid[rnd_below(FUSION_UUID_BYTES)] ^= 1; break;
		case 4: disk->magic ^= 1; break;
		case 5: disk->bytes = 0; break;
		case 6: disk->bytes = cpu_to_le32(length + 1 + rnd_below(FUSION_JOURNAL_UNIT - 1)); break;
		}
		CHECK(!fusion_journal_bytes(room, &other), "%d", n % 7);
	}
}

/* One that is torn, or has a bit that is wrong, is not whole. */
static void torn(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct fusion_journal_id id = some_id();
		u32 length = some_record(&id, n % 100 == 0);

		((u8 *)room)[rnd_below(length)] ^= 1 << rnd_below(8);
		CHECK(!fusion_journal_whole(room, length), "");
	}
}

/* Whatever is in it, with a right checksum: nothing is read that is not there. */
static void malformed(void)
{
	unsigned int bad = 0;

	for (int n = 0; n < ROUNDS * 4; n++) {
		struct fusion_journal_id id = some_id();
		u32 length = some_record(&id, n % 100 == 0), at;
		struct fusion_journal_reader r;
		struct fusion_journal_entry e;
		u8 *copy;
		int err;

		for (unsigned int i = 0; i < 1 + rnd_below(4); i++) {
			at = offsetof(struct fusion_disk_journal, entries) +
				rnd_below(n % 2 ? 200 : length - 64);
			((u8 *)room)[at] = rnd_below(256);
		}
		/* exactly so long: the sanitizer sees what is read behind it */
		copy = malloc(length);
		memcpy(copy, room, length);
		fusion_journal_read(&r, copy, length, pages);
		while (!(err = fusion_journal_next(&r, &e)))
			;
		CHECK(err == -ENODATA || err == -EINVAL, "%d", err);
		bad += err == -EINVAL;
		free(copy);
	}
	CHECK(bad > ROUNDS / 4, "%u", bad);
}

int main(void)
{
	RUN(round_trip);
	RUN(full);
	RUN(others);
	RUN(torn);
	RUN(malformed);
	return tap_done();
}
