// SPDX-License-Identifier: GPL-2.0-only
/* What comes of a load, and what its latencies come to: tests/load. */
#include <stdlib.h>
#include <string.h>

#include "../load/arrivals.h"
#include "../load/latencies.h"
#include "tap.h"

#define SIZE	(1ULL << 30)

static const struct load exchange = { .iops = 846, .writes = 70, .kb = 13 };

static bool same_arrival(const struct arrival *a, const struct arrival *b)
{
	return a->at_ns == b->at_ns && a->offset == b->offset && a->bytes == b->bytes &&
		a->write == b->write;
}

static void drawn(void)
{
	struct arrival next, again;
	struct arrivals a, b;
	uint64_t bytes = 0, writes = 0, last = 0;
	const int n = 100000;
	int i;

	arrivals_draw(&a, &exchange, SIZE, 1, 7);
	arrivals_draw(&b, &exchange, SIZE, 1, 7);
	for (i = 0; i < n; i++) {
		CHECK(arrivals_next(&a, &next) == 1 && arrivals_next(&b, &again) == 1, "%d", i);
		CHECK(same_arrival(&next, &again), "%d", i);
		CHECK(next.at_ns >= last, "%d", i);
		CHECK(next.bytes && next.bytes % LOAD_PAGE == 0 && next.offset % LOAD_PAGE == 0, "%d", i);
		CHECK(next.offset + next.bytes <= SIZE, "%d", i);
		last = next.at_ns;
		bytes += next.bytes;
		writes += next.write;
	}
	/* 4 KiB, 12 KiB and 36 KiB are what these are in whole pages */
	CHECK(bytes / n > 12000 && bytes / n < 14000, "%" PRIu64, bytes / n);
	CHECK(writes > n * 0.69 && writes < n * 0.71, "%" PRIu64, writes);
	CHECK(last > n / 846.0 * 0.98e9 && last < n / 846.0 * 1.02e9, "%" PRIu64, last);
}

/* Others come with another seed, and the same slower. */
static void seeds(void)
{
	struct arrival x = {}, y = {}, z = {};
	struct arrivals a, b, c;
	int i, other = 0;

	arrivals_draw(&a, &exchange, SIZE, 1, 1);
	arrivals_draw(&b, &exchange, SIZE, 1, 2);
	arrivals_draw(&c, &exchange, SIZE, 8, 1);
	for (i = 0; i < 1000; i++) {
		arrivals_next(&a, &x);
		arrivals_next(&b, &y);
		arrivals_next(&c, &z);
		other += x.offset != y.offset;
		CHECK(x.offset == z.offset && x.bytes == z.bytes && x.write == z.write, "%d", i);
		CHECK(llabs((long long)(x.at_ns * 8 - z.at_ns)) < 16, "%d", i);
	}
	CHECK(other > 990, "%d", other);
}

static void same(void)
{
	static const struct load pages = { .iops = 100, .writes = 100, .kb = 4.096, .same = true };
	struct arrival next;
	struct arrivals a;
	int i;

	arrivals_draw(&a, &pages, SIZE, 1, 1);
	for (i = 0; i < 100; i++)
		CHECK(arrivals_next(&a, &next) == 1 && next.bytes == LOAD_PAGE && next.write, "%u", next.bytes);
}

/* A device smaller than an I/O. */
static void small(void)
{
	static const struct load large = { .iops = 1, .writes = 0, .kb = 500 };
	struct arrival next;
	struct arrivals a;
	int i;

	arrivals_draw(&a, &large, 3 * LOAD_PAGE + 17, 1, 1);
	for (i = 0; i < 100; i++) {
		CHECK(arrivals_next(&a, &next) == 1, "%d", i);
		CHECK(!next.offset && next.bytes == 3 * LOAD_PAGE, "%u", next.bytes);
	}
}

static void is_next(struct arrivals *a, uint64_t at_ns, bool write, uint64_t offset, uint32_t bytes)
{
	struct arrival next = {};

	CHECK(arrivals_next(a, &next) == 1, "line %" PRIu64, a->line);
	CHECK(next.at_ns == at_ns && next.write == write && next.offset == offset && next.bytes == bytes,
	      "%" PRIu64 " %d %" PRIu64 " %u", next.at_ns, next.write, next.offset, next.bytes);
}

static FILE *text(const char *s)
{
	return fmemopen((void *)s, strlen(s), "r");
}

static void msr(void)
{
	FILE *f = text("128166372003061629,usr,0,Read,7014609920,24576,41286\n"
		       "128166372003062629,usr,0,Write,4097,1,100\n"
		       "\n"
		       "128166372003062000,usr,0,Write,0,8192,100\n"
		       "128166372003062000,usr,0,Trim,0,8192,100\n");
	struct arrival next;
	struct arrivals a;

	arrivals_read(&a, f, TRACE_MSR, 8 * SIZE, 1);
	is_next(&a, 0, false, 7014608896, 24576);
	is_next(&a, 100000, true, 4096, 4096);
	/* too late: at once */
	is_next(&a, 100000, true, 0, 8192);
	CHECK(arrivals_next(&a, &next) == -1 && a.line == 5, "%" PRIu64, a.line);
	fclose(f);
}

static void spc(void)
{
	FILE *f = text("0,20941264,8192,W,0.551706\n"
		       "1,8,512,r,0.551707\n");
	struct arrival next;
	struct arrivals a;

	arrivals_read(&a, f, TRACE_SPC, 16384ULL * SIZE, 2);
	is_next(&a, 0, true, 20941264ULL * 512, 8192);
	is_next(&a, 2000, false, (1ULL << 32) + 4096, 4096);
	CHECK(arrivals_next(&a, &next) == 0, "an end");
	fclose(f);
}

static void blktrace(void)
{
	struct record {
		uint32_t magic, sequence;
		uint64_t time, sector;
		uint32_t bytes, action, pid, device, cpu;
		uint16_t error, more;
	} trace[] = {
		{ .magic = 0x65617407, .time = 5000, .sector = 80, .bytes = 4096, .action = 1 << 16 | 1 },
		/* merged, and completed */
		{ .magic = 0x65617407, .time = 6000, .sector = 80, .bytes = 4096, .action = 1 << 16 | 2 },
		{ .magic = 0x65617407, .time = 7000, .sector = 80, .bytes = 4096, .action = 1 << 16 | 8 },
		/* discarded */
		{ .magic = 0x65617407, .time = 7500, .sector = 8, .bytes = 4096, .action = 1 << 28 | 1 << 17 | 1 },
		{ .magic = 0x65617407, .time = 8000, .sector = 8, .bytes = 1 << 20, .action = 1 << 17 | 1 },
		{ .magic = 0x12345678 },
	};
	FILE *f = fmemopen(trace, sizeof(trace), "r");
	struct arrival next;
	struct arrivals a;

	arrivals_read(&a, f, TRACE_BLKTRACE, SIZE, 1);
	is_next(&a, 0, false, 40960, 4096);
	is_next(&a, 3000, true, 4096, 1 << 20);
	CHECK(arrivals_next(&a, &next) == -1 && a.line == 6, "%" PRIu64, a.line);
	fclose(f);
	/* cut off in the midst of a record */
	f = fmemopen(trace, sizeof(trace[0]) + 7, "r");
	arrivals_read(&a, f, TRACE_BLKTRACE, SIZE, 1);
	is_next(&a, 0, false, 40960, 4096);
	CHECK(arrivals_next(&a, &next) <= 0, "an end");
	fclose(f);
}

static void percentiles(void)
{
	struct latencies l = {}, all = {};
	uint64_t i;

	CHECK(!latencies_percentile(&l, 0.5) && !latencies_slowest(&l, 0.1), "none");
	for (i = 0; i < 10000; i++)
		latencies_add(&l, (i * 7919) % 10000);
	CHECK(latencies_percentile(&l, 0) == 0, "least");
	CHECK(latencies_percentile(&l, 0.5) == 5000, "%" PRIu64, latencies_percentile(&l, 0.5));
	CHECK(latencies_percentile(&l, 0.999) == 9990, "%" PRIu64, latencies_percentile(&l, 0.999));
	CHECK(latencies_percentile(&l, 1) == 9999, "most");
	CHECK(latencies_slowest(&l, 1) == 4999.5, "%f", latencies_slowest(&l, 1));
	CHECK(latencies_slowest(&l, 0.001) == 9994.5, "%f", latencies_slowest(&l, 0.001));
	latencies_add(&l, 1000000);
	CHECK(latencies_percentile(&l, 1) == 1000000, "it is sorted again");
	latencies_add_all(&all, &l);
	latencies_add_all(&all, &l);
	CHECK(all.count == 2 * l.count && latencies_percentile(&all, 1) == 1000000, "%zu", all.count);
	latencies_free(&l);
	latencies_free(&all);
}

static void printed(void)
{
	struct latencies l = {};
	char line[16384] = "";
	FILE *f = fmemopen(line, sizeof(line), "w");
	int i;

	latencies_print(&l, true, f);
	for (i = 1; i <= 1000; i++)
		latencies_add(&l, i * 10);
	latencies_print(&l, false, f);
	latencies_print(&l, true, f);
	fclose(f);
	latencies_free(&l);
	CHECK(strstr(line, "{\"ios\":0,") == line, "%s", line);
	CHECK(strstr(line, "\"p50\":5010,\"p90\":9010,\"p99\":9910,\"p999\":10000,\"max\":10000,"), "%s", line);
	CHECK(strstr(line, "\"slowest1\":9955,\"slowest01\":10000,\"cdf\":[[0,10],[0.100000,1000],"), "%s", line);
}

int main(void)
{
	RUN(drawn);
	RUN(seeds);
	RUN(same);
	RUN(small);
	RUN(msr);
	RUN(spc);
	RUN(blktrace);
	RUN(percentiles);
	RUN(printed);
	return tap_done();
}
