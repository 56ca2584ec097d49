// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arrivals.h"

#define SECTOR		512
#define MAX_BYTES	(4u << 20)

/* ---- drawn ---- */

/* splitmix64 */
static uint64_t draw(struct arrivals *a)
{
	uint64_t z = a->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* From 0 to 1, without both. */
static double draw_part(struct arrivals *a)
{
	return ((draw(a) >> 11) + 0.5) / (1ull << 53);
}

void arrivals_draw(struct arrivals *a, const struct load *load, uint64_t size, double slower,
		   uint64_t seed)
{
	*a = (struct arrivals) {
		.size = size, .slower = slower, .load = *load, .random = seed,
	};
}

static uint32_t draw_bytes(struct arrivals *a)
{
	unsigned int of = draw(a) % 10;
	double part = a->load.same ? 1 : of < 5 ? 0.4 : of < 8 ? 0.8 : 2.8;
	uint32_t pages = a->load.kb * 1000 * part / LOAD_PAGE + 0.5;

	return (pages ? pages : 1) * LOAD_PAGE;
}

static void draw_next(struct arrivals *a, struct arrival *next)
{
	a->at_ns += -log(draw_part(a)) * 1e9 / a->load.iops * a->slower;
	next->at_ns = a->at_ns;
	next->write = draw(a) % 100 < a->load.writes;
	next->bytes = draw_bytes(a);
	next->offset = draw(a);
}

/* ---- read ---- */

void arrivals_read(struct arrivals *a, FILE *trace, enum trace_format format, uint64_t size,
		   double slower)
{
	*a = (struct arrivals) {
		.size = size, .slower = slower, .trace = trace, .format = format,
		.first_ns = UINT64_MAX,
	};
}

/* What a trace says; bytes 0: something else. */
struct record {
	uint64_t ns, offset, bytes;
	bool write;
};

static int read_msr(const char *line, struct record *r)
{
	uint64_t ticks;			/* of 100 ns, since 1601 */
	char type[8];

	if (sscanf(line, "%" SCNu64 ",%*[^,],%*[^,],%7[^,],%" SCNu64 ",%" SCNu64, &ticks, type,
		   &r->offset, &r->bytes) != 4)
		return -1;
	r->ns = ticks * 100;		/* which fits until 2185 */
	r->write = type[0] == 'W' || type[0] == 'w';
	return r->write || type[0] == 'R' || type[0] == 'r' ? 1 : -1;
}

static int read_spc(const char *line, struct record *r)
{
	unsigned int asu;
	uint64_t lba;
	double s;
	char op;

	if (sscanf(line, "%u,%" SCNu64 ",%" SCNu64 ",%c,%lf", &asu, &lba, &r->bytes, &op, &s) != 5 ||
	    s < 0)
		return -1;
	/* application storage units one behind the other would need their sizes: side by side */
	r->offset = lba * SECTOR + ((uint64_t)asu << 32);
	r->ns = s * 1e9;
	r->write = op == 'W' || op == 'w';
	return r->write || op == 'R' || op == 'r' ? 1 : -1;
}

static int read_line(struct arrivals *a, struct record *r)
{
	char line[512];

	do {
		a->line++;
		if (!fgets(line, sizeof(line), a->trace))
			return ferror(a->trace) ? -1 : 0;
	} while (line[strspn(line, " \t\r\n")] == '\0');
	return a->format == TRACE_MSR ? read_msr(line, r) : read_spc(line, r);
}

/* include/uapi/linux/blktrace_api.h, which says "private": of the machine that it is read on. */
#define BLK_MAGIC	0x65617400
#define BLK_VERSION	7
#define BLK_QUEUE	1		/* the low half of the action */
#define BLK_WRITE	(1u << 17)	/* its categories, from bit 16 on */
#define BLK_DISCARD	(1u << 28)

struct blk_record {
	uint32_t magic, sequence;
	uint64_t time, sector;
	uint32_t bytes, action, pid, device, cpu;
	uint16_t error, more;
};

static int read_blktrace(struct arrivals *a, struct record *r)
{
	struct blk_record b;
	unsigned int i;

	a->line++;
	if (fread(&b, sizeof(b), 1, a->trace) != 1)
		return ferror(a->trace) || !feof(a->trace) ? -1 : 0;
	if (b.magic != (BLK_MAGIC | BLK_VERSION))
		return -1;
	for (i = 0; i < b.more; i++)
		if (fgetc(a->trace) == EOF)
			return -1;
	r->ns = b.time;
	r->offset = b.sector * SECTOR;
	r->write = b.action & BLK_WRITE;
	r->bytes = (b.action & 0xffff) == BLK_QUEUE && !(b.action & BLK_DISCARD) ? b.bytes : 0;
	return 1;
}

static int read_next(struct arrivals *a, struct arrival *next)
{
	struct record r;
	int n;

	do {
		n = a->format == TRACE_BLKTRACE ? read_blktrace(a, &r) : read_line(a, &r);
		if (n <= 0)
			return n;
	} while (!r.bytes);
	if (a->first_ns == UINT64_MAX)
		a->first_ns = r.ns;
	/* what is a little out of order comes at once */
	if (r.ns > a->first_ns && (r.ns - a->first_ns) * a->slower > a->at_ns)
		a->at_ns = (r.ns - a->first_ns) * a->slower;
	next->at_ns = a->at_ns;
	next->write = r.write;
	next->bytes = r.bytes < MAX_BYTES ? (r.bytes + LOAD_PAGE - 1) / LOAD_PAGE * LOAD_PAGE : MAX_BYTES;
	next->offset = r.offset / LOAD_PAGE * LOAD_PAGE;
	return 1;
}

/* ---- either ---- */

int arrivals_next(struct arrivals *a, struct arrival *next)
{
	uint64_t pages = a->size / LOAD_PAGE, end;
	int n = 1;

	if (a->trace)
		n = read_next(a, next);
	else
		draw_next(a, next);
	if (n <= 0)
		return n;
	if (next->bytes > a->size)
		next->bytes = pages * LOAD_PAGE;
	end = pages - next->bytes / LOAD_PAGE + 1;
	/* a trace's places near each other stay so */
	next->offset = (a->trace ? next->offset / LOAD_PAGE % end : next->offset % end) * LOAD_PAGE;
	return 1;
}
