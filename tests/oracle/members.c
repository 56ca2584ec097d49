// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the members of a pool without labels hold, by their bytes alone: the
 * metadata is not looked at.  The layout is the module's own; the parity is
 * computed here once more, by the definition, so that the module's is compared
 * with another one.
 *
 * What has been freed is still there.  So the pool must be a young one, on
 * members that were zeros, and what was written must be random.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/fs.h>

#include "layout.h"

#define PAGE	4096u
#define CHUNK	(1u << 20)

static const char usage_text[] =
"Usage: members copies MEMBER...\n"
"       members parity DATA PARITY SPARES BLOCK_SECTORS MEMBER...\n"
"\n"
"copies  how many different pages are on how many different members: a line each,\n"
"        \"MEMBERS PAGES\"; pages of zeros do not count\n"
"parity  all bands are of the one class: for each stripe that holds something and\n"
"        whose first parity fits, a line \"good\" or, if the second one does not,\n"
"        \"bad\", and then for each slot \"MEMBER:SECTOR\"\n"
"\n"
"Exit status: 0; 2: it could not be done.\n";

static unsigned int members;
static u8 *content[FUSION_MAX_MEMBERS];
static u64 size;			/* bytes of each */

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void read_members(unsigned int count, char **path)
{
	if (!count || count > FUSION_MAX_MEMBERS) {
		fputs(usage_text, stderr);
		exit(2);
	}
	for (members = 0; members < count; members++) {
		/* past the page cache, which knows nothing of the pool's I/O */
		int fd = open(path[members], O_RDONLY | O_DIRECT);
		u64 bytes;

		if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
			die(path[members]);
		if (!members)
			size = bytes / CHUNK * CHUNK;
		content[members] = aligned_alloc(CHUNK, size);
		if (!content[members])
			die("memory");
		for (u64 at = 0; at < size; at += CHUNK)
			if (pread(fd, content[members] + at, CHUNK, at) != CHUNK)
				die(path[members]);
		close(fd);
	}
}

static bool is_zero(const u8 *data, size_t bytes)
{
	return !*data && !memcmp(data, data + 1, bytes - 1);
}

/* ---- copies ---- */

struct found {
	u64 hash;
	unsigned int member;
};

static u64 hash(const u8 *page)
{
	u64 h = 0xcbf29ce484222325, word;

	for (unsigned int i = 0; i < PAGE; i += sizeof(word)) {
		memcpy(&word, page + i, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15;
		h ^= h >> 29;
	}
	return h;
}

static int compare(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (int)x->member - (int)y->member;
}

static void copies(void)
{
	struct found *found = malloc(members * (size / PAGE) * sizeof(*found));
	u64 on[FUSION_MAX_MEMBERS + 1] = { 0 };
	size_t count = 0;

	if (!found)
		die("memory");
	for (unsigned int m = 0; m < members; m++)
		for (u64 at = 0; at < size; at += PAGE)
			if (!is_zero(content[m] + at, PAGE))
				found[count++] = (struct found) {
					.hash = hash(content[m] + at),
					.member = m,
				};
	qsort(found, count, sizeof(*found), compare);
	for (size_t i = 0, j; i < count; i = j) {
		unsigned int different = 1;

		for (j = i + 1; j < count && found[j].hash == found[i].hash; j++)
			different += found[j].member != found[j - 1].member;
		on[different]++;
	}
	for (unsigned int m = 1; m <= FUSION_MAX_MEMBERS; m++)
		if (on[m])
			printf("%u %" PRIu64 "\n", m, on[m]);
	free(found);
}

/* ---- parity ---- */

/* Twice @x in the field of RAID-6: GF(256) modulo x^8 + x^4 + x^3 + x^2 + 1. */
static u8 twice(u8 x)
{
	return x << 1 ^ (x & 0x80 ? 0x1d : 0);
}

/* Is parity @number (0: P, 1: Q) of the data slots in @slot[@d + number]? */
static bool parity_fits(u8 **slot, unsigned int d, unsigned int number,
			size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		u8 sum = 0;

		/* sum of g^s times slot s, by Horner's rule */
		for (unsigned int s = d; s--;)
			sum = (number ? twice(sum) : sum) ^ slot[s][i];
		if (sum != slot[d + number][i])
			return false;
	}
	return true;
}

static void parity(unsigned int d, unsigned int p, unsigned int spares,
		   unsigned int block_sectors)
{
	static struct fusion_layout l;
	size_t bytes = (size_t)block_sectors << 9;
	unsigned int k = d + p;
	u64 bands;
	u32 units;

	if (!bytes || bytes % PAGE || d < FUSION_MIN_DATA || !p ||
	    p > FUSION_MAX_PARITY || fusion_layout_init(&l, members, spares) ||
	    k > fusion_layout_max_width(&l)) {
		fputs("there is no such pool\n", stderr);
		exit(2);
	}
	units = fusion_band_units(&l, size / bytes);
	if (!units) {
		fputs("the members are too small\n", stderr);
		exit(2);
	}
	bands = size / bytes / fusion_band_chunks(&l, units);
	for (u64 band = 0; band < bands; band++) {
		for (u32 i = 0; i < fusion_band_stripes(&l, units, k); i++) {
			struct fusion_spot spot[FUSION_MAX_MEMBERS];
			u8 *slot[FUSION_MAX_MEMBERS];
			u64 sector[FUSION_MAX_MEMBERS];
			bool zero = true;

			for (unsigned int s = 0; s < k; s++) {
				spot[s] = fusion_layout_home(&l, k, i, s);
				sector[s] = (band * fusion_band_chunks(&l, units) +
					     spot[s].chunk) * block_sectors;
				slot[s] = content[spot[s].member] +
					  (sector[s] << 9);
				zero = zero && is_zero(slot[s], bytes);
			}
			if (zero || !parity_fits(slot, d, 0, bytes))
				continue;
			fputs(p == 1 || parity_fits(slot, d, 1, bytes) ?
			      "good" : "bad", stdout);
			for (unsigned int s = 0; s < k; s++)
				printf(" %u:%" PRIu64, spot[s].member,
				       sector[s]);
			putchar('\n');
		}
	}
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "copies")) {
		read_members(argc - 2, argv + 2);
		copies();
		return 0;
	}
	if (argc > 6 && !strcmp(argv[1], "parity")) {
		read_members(argc - 6, argv + 6);
		parity(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]),
		       atoi(argv[5]));
		return 0;
	}
	fputs(usage_text, stderr);
	return 2;
}
