// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spoil records of the journal: see usage.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format.h"
#include "mutate.h"

#define MAX_RECORDS	4096
#define HEAD		sizeof(struct fusion_disk_journal)

static const char usage_text[] =
"Usage: records RINGS COUNT SEED OUTPUT...\n"
"\n"
"RINGS is a file with what is in COUNT members' rings, one behind the other.  Puts together what\n"
"records they have, changes something, or some things, of what one of them says, gives that a right\n"
"checksum, and writes it all to the begin of each OUTPUT.  Prints what has been changed.\n";

static uint8_t rings[64 << 20];	/* the first is what becomes of them */
static size_t ring_bytes;
static struct fusion_disk_journal *record[MAX_RECORDS];
static unsigned int records;

static void __attribute__((noreturn)) die(const char *what)
{
	perror(what);
	exit(2);
}

static uint32_t crc_of(struct fusion_disk_journal *r)
{
	__le32 was = r->crc;
	uint32_t crc;

	r->crc = 0;
	crc = fusion_crc32c_append(0, r, r->bytes);
	r->crc = was;
	return crc;
}

static void read_rings(const char *path, unsigned long count)
{
	int fd = open(path, O_RDONLY);
	size_t bytes = 0;
	ssize_t got;

	if (fd < 0)
		die(path);
	while ((got = read(fd, rings + bytes, sizeof(rings) - bytes)) > 0)
		bytes += got;
	if (got < 0)
		die(path);
	close(fd);
	ring_bytes = count ? bytes / count : 0;
}

/* What begins @at in @ring, if that is a record. */
static struct fusion_disk_journal *record_at(uint8_t *ring, size_t at)
{
	struct fusion_disk_journal *r = (void *)(ring + at);

	return r->magic == FUSION_JOURNAL_MAGIC && r->bytes >= FUSION_JOURNAL_UNIT &&
		r->bytes <= ring_bytes - at && r->entries && crc_of(r) == r->crc ? r : NULL;
}

/* The newest of each place. */
static void merge(unsigned long count)
{
	size_t at;

	while (--count)
		for (at = 0; at < ring_bytes; at += FUSION_JOURNAL_UNIT) {
			struct fusion_disk_journal *r = record_at(rings, at);
			struct fusion_disk_journal *other = record_at(rings + count * ring_bytes, at);

			if (other && (!r || (int64_t)(other->sequence - r->sequence) > 0))
				memcpy(rings + at, other, other->bytes);
		}
}

static void find_records(void)
{
	struct fusion_disk_journal *r;
	size_t at;

	for (at = 0; at < ring_bytes && records < MAX_RECORDS; at += FUSION_JOURNAL_UNIT) {
		r = record_at(rings, at);
		if (r)
			record[records++] = r;
	}
	if (!records) {
		fprintf(stderr, "there are no records\n");
		exit(2);
	}
}

/* One of those of @r. */
static struct fusion_disk_journal_entry *some_entry(struct fusion_disk_journal *r)
{
	struct fusion_disk_journal_entry *entry = (void *)(r + 1);
	uint64_t n = random_below(r->entries);

	while (n-- && (uint8_t *)entry + entry->bytes + sizeof(*entry) <= (uint8_t *)r + r->bytes)
		entry = (void *)((uint8_t *)entry + entry->bytes);
	return entry;
}

/* What could be there, or nearly. */
static uint64_t some_number(uint64_t was, uint64_t other)
{
	switch (random_below(8)) {
	case 0:
		return 0;
	case 1:
		return was + 1;
	case 2:
		return was - 1;
	case 3:
		return ~0ULL >> random_below(64);
	case 4:
	case 5:
		return other;
	default:
		return was ^ 1ULL << random_below(64);
	}
}

static void change(void *at, const void *other, size_t bytes, const char *what)
{
	uint64_t was = 0, is = 0;

	memcpy(&was, at, bytes);
	memcpy(&is, other, bytes);
	is = some_number(was, is);
	printf(" %s %#" PRIx64 " -> %#" PRIx64, what, was, is);
	memcpy(at, &is, bytes);
}

static void spoil_head(struct fusion_disk_journal *r)
{
	struct fusion_disk_journal *other = record[random_below(records)];

	switch (random_below(4)) {
	case 0:
		change(&r->entries, &other->entries, sizeof(r->entries), "entries");
		break;
	case 1:
		change(&r->more, &other->more, sizeof(r->more), "more");
		break;
	case 2:
		change(&r->transaction_id, &other->transaction_id, sizeof(r->transaction_id),
		       "transaction");
		break;
	default:
		change(&r->sequence, &other->sequence, sizeof(r->sequence), "sequence");
		break;
	}
}

static void spoil_entry(struct fusion_disk_journal *r)
{
	struct fusion_disk_journal_entry *e = some_entry(r);
	struct fusion_disk_journal_entry *other = some_entry(record[random_below(records)]);
	size_t words = ((uint8_t *)r + r->bytes - (uint8_t *)(e + 1)) / sizeof(uint64_t), i;

	printf(" kind %u:", e->kind);
	switch (random_below(8)) {
	case 0:
		change(&e->kind, &other->kind, sizeof(e->kind), "kind");
		break;
	case 1:
		change(&e->bytes, &other->bytes, sizeof(e->bytes), "bytes");
		break;
	case 2:
		change(&e->key, &other->key, sizeof(e->key), "key");
		break;
	case 3:
		change(&e->value, &other->value, sizeof(e->value), "value");
		break;
	default:
		if (!words)
			break;
		i = random_below(words < 6 ? words : 6);
		change((uint64_t *)(e + 1) + i, (uint64_t *)(other + 1) + i, sizeof(uint64_t), "word");
		break;
	}
}

int main(int argc, char **argv)
{
	struct fusion_disk_journal *r;
	uint64_t count;
	int i, fd;

	if (argc < 5 || !strtoul(argv[2], NULL, 0)) {
		fputs(usage_text, stderr);
		return 2;
	}
	read_rings(argv[1], strtoul(argv[2], NULL, 0));
	merge(strtoul(argv[2], NULL, 0));
	find_records();
	random_seed(strtoull(argv[3], NULL, 0));
	r = record[random_below(records)];
	printf("record at %zu:", (size_t)((uint8_t *)r - rings));
	for (count = 1 + random_below(3); count; count--)
		random_below(6) ? spoil_entry(r) : spoil_head(r);
	printf("\n");
	r->crc = crc_of(r);
	for (i = 4; i < argc; i++) {
		fd = open(argv[i], O_WRONLY);
		if (fd < 0 || pwrite(fd, rings, ring_bytes, 0) != (ssize_t)ring_bytes ||
		    fsync(fd) || close(fd))
			die(argv[i]);
	}
	return 0;
}
