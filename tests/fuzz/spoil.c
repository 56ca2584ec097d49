// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spoil a pool's metadata: see usage.
 *
 * What dm-persistent-data itself cannot bear is left out, whatever the seed says, as no
 * target can keep it from reading on.  Its nodes' checksums are looked at, and little
 * behind them (node_check()).  So, where the checksum is right:
 *
 * - A node that is below itself is gone round in for ever: btree_lookup_raw(), or until
 *   the stack is full: dm_btree_lookup_next_single().
 * - Of a leaf whose values are of another size than the tree's, what is behind the block
 *   is read (btree_lookup_raw()) and written (insert_at()).  Likewise of an inner node
 *   whose children are not of eight bytes, value64().
 *
 * Only along the first nodes of each tree it is not: that path the module looks at itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "format.h"
#include "mutate.h"

#define BLOCK		4096
#define MAX_BLOCKS	(1 << 14)
#define MAX_DEPTH	16

/* struct node_header of dm-persistent-data */
struct header {
	__le32 csum;
	__le32 flags;
	__le64 blocknr;
	__le32 entries;
	__le32 max_entries;
	__le32 value_bytes;
	__le32 padding;
};

#define INTERNAL	1
#define LEAF		2

/* struct disk_sm_root: what space_map_root is */
struct space_map_root {
	__le64 blocks;
	__le64 allocated;
	__le64 bitmap_root;
	__le64 counts_root;
};

/* struct disk_metadata_index */
struct index {
	__le32 csum;
	__le32 padding;
	__le64 blocknr;
	struct {
		__le64 blocknr;
		__le32 nr_free;
		__le32 none_free_before;
	} entry[(BLOCK - 16) / 16];
};

/* The btrees, that of the space map last, and what is no tree. */
enum { VOLUMES, BANDS, STRIPES, BASE, TOPS, PATCHES, ROWS, COUNTS, TREES, SUPER = TREES, INDEX, BITMAP,
	PARTS };

static const char * const part_name[PARTS] = {
	"volumes", "bands", "stripes", "base", "tops", "patches", "rows", "counts of the space map",
	"superblock", "index of the space map", "bitmap of the space map",
};

static const char usage_text[] =
"Usage: spoil IMAGE OLDER SEED OUTPUT [--found | --all]\n"
"       spoil IMAGE OLDER PART,ENTRY,WHAT,AT,BYTES,NUMBER OUTPUT\n"
"       spoil IMAGE\n"
"\n"
"Writes metadata to OUTPUT, a file or a device: IMAGE, with one block spoiled, or some.\n"
"OLDER is an image of the same metadata, of some time before. Says what was done.\n"
"\n"
"What to do can be said instead: in the first leaf of the tree PART (volumes, bands, ...)\n"
"ENTRY's key or value is changed, from its byte AT on; or the header, or of the superblock.\n"
"The last entry of the tree is -1.\n"
"\n"
"With an IMAGE alone nothing is spoiled: its blocks are listed, each with what it is of.\n"
"\n"
"--found  what is done is what a checksum finds\n"
"--all    also what dm-persistent-data cannot bear\n";

static u8 *image, *older, *spoiled;
static u64 blocks;
/* Of @image: which part a block is of, 0: none. */
static u8 part_of[MAX_BLOCKS];
static bool inner[MAX_BLOCKS];

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static u8 *block_of(u8 *of, u64 number)
{
	return of + number * BLOCK;
}

static u32 checksum(const u8 *block, u32 xor)
{
	/* dm_bm_checksum() has no last inversion */
	return ~fusion_crc32c_append(0, block + 4, BLOCK - 4) ^ xor;
}

static u32 xor_of(unsigned int part)
{
	return part == SUPER ? FUSION_SUPER_CSUM_XOR : part == INDEX ? 160478 :
		part == BITMAP ? 240779 : 121107;
}

static bool whole(u8 *of, u64 number, unsigned int part)
{
	struct header *h = (struct header *)block_of(of, number);

	/* checksum and number are where all kinds have them */
	return le32toh(h->csum) == checksum((u8 *)h, xor_of(part)) && le64toh(h->blocknr) == number;
}

static void mend(u64 number, unsigned int part)
{
	struct header *h = (struct header *)block_of(spoiled, number);

	h->blocknr = htole64(number);
	h->csum = htole32(checksum((u8 *)h, xor_of(part)));
}

/* ---- what there is ---- */

static u64 root_of(u8 *of, unsigned int tree)
{
	struct fusion_disk_super *s = (struct fusion_disk_super *)of;
	struct space_map_root *map = (struct space_map_root *)s->space_map_root;

	/* the roots are one behind the other, in this order */
	return le64toh(tree == COUNTS ? map->counts_root : (&s->volumes_root)[tree]);
}

static u32 value_bytes(unsigned int tree)
{
	static const u32 bytes[TREES] = {
		[VOLUMES] = sizeof(struct fusion_disk_volume),
		[BANDS] = sizeof(struct fusion_disk_band),
		[STRIPES] = sizeof(struct fusion_disk_stripe),
		[BASE] = sizeof(struct fusion_disk_base),
		[TOPS] = sizeof(struct fusion_disk_top),
		[ROWS] = sizeof(struct fusion_disk_row),
		[COUNTS] = 4,
	};
	struct fusion_disk_super *s = (struct fusion_disk_super *)image;

	return tree == PATCHES ? fusion_patches_bytes(le32toh(s->block_sectors) / FUSION_PAGE_SECTORS) :
		bytes[tree];
}

static u8 *value_of(struct header *h, unsigned int entry)
{
	return (u8 *)(h + 1) + le32toh(h->max_entries) * 8 + entry * le32toh(h->value_bytes);
}

static __le64 *key_of(struct header *h, unsigned int entry)
{
	return (__le64 *)(h + 1) + entry;
}

/* As the kernel looks at a node, when it reads it. */
static bool readable(u64 number)
{
	struct header *h;

	if (number >= blocks || !whole(spoiled, number, VOLUMES))
		return false;
	h = (struct header *)block_of(spoiled, number);
	return le32toh(h->flags) & (INTERNAL | LEAF) &&
		le32toh(h->entries) <= le32toh(h->max_entries) &&
		sizeof(*h) + (8 + (u64)le32toh(h->value_bytes)) * le32toh(h->max_entries) <= BLOCK;
}

static bool sizes_fit(struct header *h, unsigned int tree)
{
	return le32toh(h->value_bytes) == (le32toh(h->flags) & INTERNAL ? 8 : value_bytes(tree));
}

/* Does the module refuse the tree, by its first nodes? */
static bool refused(unsigned int tree)
{
	u64 number = root_of(spoiled, tree);
	unsigned int depth;
	struct header *h;

	if (tree == COUNTS || (!number && tree >= PATCHES))
		return false;
	for (depth = 0; depth < MAX_DEPTH; depth++) {
		/* who reads it finds that */
		if (!readable(number))
			return false;
		h = (struct header *)block_of(spoiled, number);
		if (!sizes_fit(h, tree) || (le32toh(h->flags) & INTERNAL && !h->entries))
			return true;
		if (!(le32toh(h->flags) & INTERNAL))
			return false;
		number = le64toh(*(__le64 *)value_of(h, 0));
	}
	return true;
}

/* Can dm-persistent-data bear what is at @number and below? */
static bool bearable(unsigned int tree, u64 number, u8 *path)
{
	struct header *h = (struct header *)block_of(spoiled, number);
	bool good = true;
	unsigned int i;

	if (!readable(number))
		return true;
	if (path[number] || !sizes_fit(h, tree))
		return false;
	if (!(le32toh(h->flags) & INTERNAL))
		return true;
	path[number] = 1;
	/* what is behind the entries can come to be used by a change of them: not here */
	for (i = 0; good && i < le32toh(h->entries); i++)
		good = bearable(tree, le64toh(*(__le64 *)value_of(h, i)), path);
	path[number] = 0;
	return good;
}

static bool all_bearable(void)
{
	static u8 path[MAX_BLOCKS];
	unsigned int tree;

	if (!whole(spoiled, 0, SUPER))
		return true;
	for (tree = 0; tree < TREES; tree++)
		if (refused(tree))
			return true;
	for (tree = 0; tree < TREES; tree++)
		if (!bearable(tree, root_of(spoiled, tree), path))
			return false;
	return true;
}

static void find_nodes(unsigned int tree, u64 number)
{
	struct header *h = (struct header *)block_of(image, number);
	unsigned int i;

	if (number >= blocks || part_of[number] || !whole(image, number, tree)) {
		fprintf(stderr, "the image is not right: block %" PRIu64 " of %s\n", number, part_name[tree]);
		exit(2);
	}
	part_of[number] = tree + 1;
	inner[number] = le32toh(h->flags) & INTERNAL;
	for (i = 0; inner[number] && i < le32toh(h->entries); i++)
		find_nodes(tree, le64toh(*(__le64 *)value_of(h, i)));
}

static void find_all(void)
{
	struct fusion_disk_super *s = (struct fusion_disk_super *)image;
	struct space_map_root *map = (struct space_map_root *)s->space_map_root;
	u64 at = le64toh(map->bitmap_root);
	struct index *index = (struct index *)block_of(image, at);
	unsigned int tree, i;

	part_of[0] = SUPER + 1;
	for (tree = 0; tree < TREES; tree++)
		if (root_of(image, tree))
			find_nodes(tree, root_of(image, tree));
	part_of[at] = INDEX + 1;
	for (i = 0; i < sizeof(index->entry) / sizeof(*index->entry) && index->entry[i].blocknr; i++)
		part_of[le64toh(index->entry[i].blocknr)] = BITMAP + 1;
}

/* A block of @part; of any: PARTS. */
static u64 some_block(unsigned int part)
{
	u64 count = 0, number;

	for (number = 0; number < blocks; number++)
		count += part_of[number] && (part == PARTS || part_of[number] == part + 1);
	if (!count)
		return 0;
	count = random_below(count) + 1;
	for (number = 0; count; number++)
		count -= part_of[number] && (part == PARTS || part_of[number] == part + 1);
	return number - 1;
}

/* ---- what is done ---- */

static char done[512];
static size_t done_bytes;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	done_bytes += vsnprintf(done + done_bytes, sizeof(done) - done_bytes, format, args);
	va_end(args);
}

/* @like: the same number of another one, or NULL. */
static void change_number(u8 *p, unsigned int size, const u8 *like)
{
	u64 most = ~0ULL >> (64 - 8 * size), was = 0, now;

	memcpy(&was, p, size);
	do {
		now = was;
		switch (random_below(8)) {
		case 0:
			now ^= 1ULL << random_below(size * 8);
			break;
		case 1:
			now = 0;
			break;
		case 2:
			now = most;
			break;
		case 3:
			now++;
			break;
		case 4:
			now--;
			break;
		case 5:
			now = random_below(64);
			break;
		case 6:
			now = random_below(most);
			break;
		default:
			if (like)
				memcpy(&now, like, size);
			else
				now <<= 1;
		}
		now &= most;
	} while (now == was);
	memcpy(p, &now, size);
	say(", %u bytes: %" PRIx64 " becomes %" PRIx64, size, was, now);
}

static unsigned int some_size(unsigned int bytes)
{
	unsigned int size;

	do
		size = 1 << random_below(4);
	while (bytes % size);
	return size;
}

/* Not if it has been spoiled before. */
static bool has_entries(const struct header *h)
{
	u64 entries = le32toh(h->entries), most = le32toh(h->max_entries), bytes = le32toh(h->value_bytes);

	return entries && entries <= most && bytes && most * (8 + bytes) <= BLOCK - sizeof(*h);
}

static void change_node(u64 number)
{
	struct header *h = (struct header *)block_of(spoiled, number);
	unsigned int entries = le32toh(h->entries), bytes = le32toh(h->value_bytes);
	unsigned int entry, size, at, in;

	if (!has_entries(h) || !random_below(5)) {
		static const struct {
			const char *name;
			unsigned int at;
		} field[] = {
			{ "flags", offsetof(struct header, flags) },
			{ "entries", offsetof(struct header, entries) },
			{ "entries", offsetof(struct header, entries) },
			{ "max_entries", offsetof(struct header, max_entries) },
			{ "value_bytes", offsetof(struct header, value_bytes) },
		};
		unsigned int i = random_below(5);

		say(" %s", field[i].name);
		change_number((u8 *)h + field[i].at, 4, (u8 *)&h->max_entries);
		return;
	}
	entry = random_below(entries);
	at = random_below(entries);
	if (!random_below(3)) {
		say(" key of entry %u", entry);
		change_number((u8 *)key_of(h, entry), some_size(8), (u8 *)key_of(h, at));
		return;
	}
	if (inner[number] && random_below(2)) {
		u64 child = some_block(random_below(2) ? PARTS : part_of[number] - 1u);

		say(" child %u becomes block %" PRIu64, entry, child);
		*(__le64 *)value_of(h, entry) = htole64(child);
		return;
	}
	size = some_size(bytes);
	in = random_below(bytes / size) * size;
	say(" value of entry %u at %u", entry, in);
	/* what another one refers to is there */
	change_number(value_of(h, entry) + in, size, value_of(h, at) + in);
}

static void change_super(void)
{
	struct fusion_disk_super *s = (struct fusion_disk_super *)block_of(spoiled, 0);
	struct space_map_root *map = (struct space_map_root *)s->space_map_root;
#define FIELD(name) { #name, offsetof(struct fusion_disk_super, name), sizeof(s->name) }
	static const struct {
		const char *name;
		unsigned int at, size;
	} field[] = {
		FIELD(flags), FIELD(version), FIELD(compat), FIELD(ro_compat), FIELD(incompat),
		FIELD(transaction_id), FIELD(metadata_block_sectors), FIELD(shards),
		FIELD(metadata_blocks), FIELD(layout), FIELD(members), FIELD(spares),
		FIELD(block_sectors), FIELD(band_units), FIELD(bands), FIELD(generation),
		FIELD(unsynced_generation), FIELD(replica_stripes), FIELD(raid_stripes),
		FIELD(replica_live), FIELD(raid_live), FIELD(replica_slots), FIELD(raid_slots),
		FIELD(raid_parity_slots), FIELD(patch_pages), FIELD(states_generation), FIELD(scrub_at),
	};
	unsigned int i, at;
	u8 *p;

	switch (random_below(6)) {
	case 0:
		i = random_below(ROWS + 1);
		at = random_below(ROWS + 1);
		say(" root of %s", part_name[i]);
		change_number((u8 *)(&s->volumes_root + i), 8, (u8 *)(&s->volumes_root + at));
		return;
	case 1:
		i = random_below(4);
		say(" space map, number %u", i);
		change_number((u8 *)map + 8 * i, 8, (u8 *)map + 8 * random_below(4));
		return;
	case 2:
		i = random_below(4);
		say(" class %u", i);
		p = (u8 *)&s->classes[i] + random_below(2);
		change_number(p, 1, NULL);
		return;
	case 3:
		i = random_below(8);
		p = (u8 *)&s->member[i] + FUSION_UUID_BYTES + random_below(8) * 2;
		say(" member %u at %u", i, (unsigned int)(p - (u8 *)&s->member[i]));
		change_number(p, 2, NULL);
		return;
	default:
		i = random_below(sizeof(field) / sizeof(*field));
		say(" %s", field[i].name);
		change_number((u8 *)s + field[i].at, field[i].size, NULL);
	}
}

static void change_map(u64 number, bool index)
{
	struct index *map = (struct index *)block_of(spoiled, number);
	unsigned int i = random_below(4), at;

	if (index) {
		/* most are not in use */
		i = random_below(2) ? 0 : i;
		at = 4 * random_below(4);
		say(" entry %u at %u", i, at);
		change_number((u8 *)&map->entry[i] + at, 4, NULL);
		return;
	}
	/* two bits a block, of those in use and not: most of those in use are the first */
	at = 16 + 8 * random_below(random_below(2) ? 8 : (BLOCK - 16) / 8);
	say(" at %u", at);
	change_number((u8 *)map + at, some_size(8), NULL);
}

static void spoil(bool found)
{
	unsigned int part = random_below(PARTS), kind = random_below(found ? 5 : 10), n, i, at;
	u64 number = some_block(part), other;
	u8 *block = block_of(spoiled, number), room[BLOCK];
	bool mended = !found && (kind > 4 || random_below(2));

	part = part_of[number] - 1;
	say("block %" PRIu64 ", %s%s:", number, inner[number] ? "inner node of " : "", part_name[part]);
	switch (kind) {
	case 0:
		n = 1 + random_below(64);
		at = random_below(BLOCK - n);
		say(" %u random bytes at %u", n, at);
		for (i = 0; i < n; i++)
			block[at + i] = random_below(256);
		break;
	case 1:
		n = 1 + random_below(8);
		say(" bits at");
		for (i = 0; i < n; i++) {
			at = random_below(BLOCK);
			block[at] ^= 1 << random_below(8);
			say(" %u", at);
		}
		break;
	case 2:
		say(" zeros");
		memset(block, 0, BLOCK);
		break;
	case 3:
		other = some_block(random_below(2) ? part : PARTS);
		say(" swapped with block %" PRIu64, other);
		memcpy(room, block, BLOCK);
		memcpy(block, block_of(spoiled, other), BLOCK);
		memcpy(block_of(spoiled, other), room, BLOCK);
		if (mended)
			mend(other, part_of[other] - 1);
		break;
	case 4:
		if (found) {
			/* it would be right in itself */
			say(" a page of another block");
			memcpy(block + BLOCK / 2, block_of(spoiled, some_block(PARTS)), BLOCK / 2);
			break;
		}
		say(" as it was before");
		memcpy(block, block_of(older, number), BLOCK);
		break;
	default:
		if (part == SUPER)
			change_super();
		else if (part < TREES)
			change_node(number);
		else
			change_map(number, part == INDEX);
	}
	if (mended)
		mend(number, part);
	say("%s; ", mended ? ", checksum mended" : "");
}

/* What @text says, with nothing left to chance. */
static void spoil_that(const char *text)
{
	unsigned long long number;
	unsigned int part, at, size;
	char name[32], what[8];
	struct header *h;
	int entry;
	u64 block;
	u8 *p;

	if (sscanf(text, "%31[^,],%d,%7[^,],%u,%u,%lli", name, &entry, what, &at, &size, &number) != 6)
		fail(text);
	for (part = 0; part < TREES && strcmp(name, part_name[part]); part++)
		;
	block = part == TREES ? 0 : root_of(image, part);
	h = (struct header *)block_of(spoiled, block);
	while (block && inner[block]) {
		block = le64toh(*(__le64 *)value_of(h, entry < 0 ? le32toh(h->entries) - 1 : 0));
		h = (struct header *)block_of(spoiled, block);
	}
	if (entry < 0)
		entry += le32toh(h->entries);
	if (block && (entry < 0 || entry >= (int)le32toh(h->entries))) {
		fprintf(stderr, "%s: there is no such entry\n", text);
		exit(2);
	}
	p = !block || *what == 'h' ? (u8 *)h : *what == 'k' ? (u8 *)key_of(h, entry) : value_of(h, entry);
	memcpy(p + at, &number, size);
	mend(block, part_of[block] - 1);
	say("block %" PRIu64, block);
}

static void list_all(void)
{
	u64 number;

	for (number = 0; number < blocks; number++)
		if (part_of[number])
			printf("%" PRIu64 " %s%s\n", number, inner[number] ? "inner nodes of " : "",
			       part_name[part_of[number] - 1]);
}

static u8 *read_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	u8 *of;

	if (bytes <= 0 || bytes % BLOCK || bytes / BLOCK > MAX_BLOCKS || (blocks && bytes != (off_t)blocks * BLOCK))
		fail(path);
	blocks = bytes / BLOCK;
	of = aligned_alloc(BLOCK, bytes);
	if (!of || pread(fd, of, bytes, 0) != bytes)
		fail(path);
	close(fd);
	return of;
}

static void write_image(const char *path)
{
	int fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || pwrite(fd, spoiled, blocks * BLOCK, 0) != (ssize_t)blocks * BLOCK || fsync(fd))
		fail(path);
	close(fd);
}

int main(int argc, char **argv)
{
	bool found = argc == 6 && !strcmp(argv[5], "--found"), all = argc == 6 && !strcmp(argv[5], "--all");
	unsigned int times, i;

	if (argc != 2 && argc != 5 && !found && !all) {
		fputs(usage_text, stderr);
		return 2;
	}
	image = read_image(argv[1]);
	if (argc == 2) {
		find_all();
		list_all();
		return 0;
	}
	older = read_image(argv[2]);
	spoiled = aligned_alloc(BLOCK, blocks * BLOCK);
	if (!spoiled)
		fail("memory");
	find_all();
	if (strchr(argv[3], ',')) {
		memcpy(spoiled, image, blocks * BLOCK);
		spoil_that(argv[3]);
		goto out;
	}
	random_seed(strtoull(argv[3], NULL, 10));
	do {
		memcpy(spoiled, image, blocks * BLOCK);
		done_bytes = 0;
		times = random_below(4) ? 1 : 2 + random_below(3);
		for (i = 0; i < times; i++)
			spoil(found);
		/* with nothing changed it would be no test */
	} while (!memcmp(spoiled, image, blocks * BLOCK) || (!all && !all_bearable()));
out:
	printf("%s: %s\n", argv[3], done);
	write_image(argv[4]);
	return 0;
}
