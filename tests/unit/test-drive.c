// SPDX-License-Identifier: GPL-2.0-only
/* The model of a drive: tests/ssdsim/drive.c. */
#include <stdlib.h>
#include <string.h>

#include "../ssdsim/drive.h"
#include "tap.h"

#define US	1000ULL
#define MS	1000000ULL
#define S	1000000000ULL
#define MIB	(1ULL << 20)

static struct ssd_drive d;
static u64 now;
static u32 stopped;		/* units, by the last write_bytes() */
static u64 stopped_ns;		/* the longest stall since use() */

static void use(const char *name, const char *age, u32 slower, u64 seed)
{
	struct ssd_model model;

	CHECK(ssd_model_find(&model, name, age, slower), "%s %s", name, age);
	now = 17 * S;
	stopped_ns = 0;
	ssd_drive_init(&d, &model, seed, now);
}

/* How long it takes. */
static u64 io(bool write, u64 at, u64 bytes)
{
	u64 written = write ? bytes : 0;
	struct ssd_stall stall;
	u32 units;

	stopped = 0;
	for (; ssd_drive_written(&d, now, written, &stall); written = 0) {
		CHECK(stall.units, "%x", stall.units);
		stopped |= stall.units;
		if (stall.ns > stopped_ns)
			stopped_ns = stall.ns;
	}
	return ssd_drive_end(&d, now, write, at, bytes, &units) - now;
}

/* Write at a rate, 64 KiB a time. */
static void write_at_rate(u64 mib, u64 mb_per_s)
{
	u64 i;

	for (i = 0; i < mib * MIB / 65536; i++) {
		io(true, rnd_below(1 << 30), 65536);
		now += 65536 * 1000 / mb_per_s;
	}
}

static void drives(void)
{
	struct ssd_model model;

	CHECK(!ssd_model_find(&model, "B", "aged", 1), "there is no B");
	CHECK(!ssd_model_find(&model, "A", "old", 1), "there is no such age");
	use("A", "fresh", 1, 1);
	CHECK(io(false, 0, 0) == 50 * US, "%" PRIu64, io(false, 0, 0));
	use("E", "fresh", 3, 1);
	CHECK(io(true, 0, 0) == 3 * 37 * US, "%" PRIu64, io(true, 0, 0));
}

static void channel(void)
{
	u64 first, second;

	use("A", "fresh", 1, 1);
	/* 500 MB/s, then 60 us */
	first = io(true, 0, 100000);
	CHECK(first == 260 * US, "%" PRIu64, first);
	second = io(true, 0, 100000);
	CHECK(second == 460 * US, "%" PRIu64, second);
	now += S;
	CHECK(io(true, 0, 100000) == first, "it is free again");
	CHECK(d.busy_ns == 600 * US, "%" PRIu64, d.busy_ns);
}

/* Reads of one unit are one after the other, of several at once. */
static void units(void)
{
	u64 longest = 0, took = 0;
	int i;

	use("A", "fresh", 1, 1);
	for (i = 0; i < 10; i++)
		took = io(false, 0, 0);
	CHECK(took == 10 * 50 * US, "%" PRIu64, took);
	CHECK(io(true, 0, 0) == 60 * US, "a write does not wait for them");
	use("A", "fresh", 1, 1);
	for (i = 0; i < 400; i++) {
		took = io(false, (u64)i * SSD_UNIT_BYTES, 0);
		if (took > longest)
			longest = took;
	}
	/* a hundred each, more or less */
	CHECK(longest > 100 * 50 * US && longest < 140 * 50 * US, "%" PRIu64, longest);
}

static void buffer(void)
{
	u64 before, took = 0, i;

	use("A", "aged", 1, 5);
	before = d.buffered;
	write_at_rate(64, 5);
	CHECK(d.stalls[SSD_STALL_BUFFER] == (before + 64 * MIB) / (16 * MIB), "%" PRIu64,
	      d.stalls[SSD_STALL_BUFFER]);
	CHECK(d.stalled_ns >= d.stalls[SSD_STALL_BUFFER] * 3 * MS, "%" PRIu64, d.stalled_ns);
	use("A", "aged", 1, 5);
	for (i = 0; !stopped; i++)
		took = io(true, 0, MIB);
	CHECK(i == (16 * MIB - before + MIB - 1) / MIB, "%" PRIu64, i);
	CHECK(stopped == 15, "%x", stopped);
	CHECK(took >= 3 * MS, "%" PRIu64, took);
	CHECK(io(false, rnd_below(1 << 30), 0) >= took - 10 * US, "reads wait, too");
}

/* A consumer's: as a whole; a datacenter's: in some units, and in others meanwhile. */
static void garbage(void)
{
	u64 longest = 0, shortest = S, took;
	u32 once, both;
	int i;

	use("A", "aged", 1, 3);
	while (!d.stalls[SSD_STALL_GARBAGE])
		write_at_rate(1, 100);
	CHECK(stopped_ns >= 54 * MS && stopped_ns <= 216 * MS, "%" PRIu64, stopped_ns);

	use("E", "aged", 1, 3);
	do
		io(true, 0, MIB);
	while (stopped == 0 || stopped == 255);
	once = stopped;
	CHECK(__builtin_popcount(once) == 4, "%x", once);
	for (i = 0; i < 100; i++) {
		took = io(false, (u64)i * SSD_UNIT_BYTES, 0);
		if (took > longest)
			longest = took;
		if (took < shortest)
			shortest = took;
	}
	CHECK(longest >= 100 * MS, "%" PRIu64, longest);
	/* behind the channel */
	CHECK(shortest < d.channel_ns - now + 100 * 36 * US, "%" PRIu64, shortest);
	do
		io(true, 0, MIB);
	while (stopped == 0 || stopped == 255);
	both = once | stopped;
	CHECK(both == 255, "%x", both);
}

/* The rate decides, and the age. */
static void background(void)
{
	use("E", "aged", 1, 7);
	write_at_rate(4096, 39);
	CHECK(!d.stalls[SSD_STALL_GARBAGE], "%" PRIu64, d.stalls[SSD_STALL_GARBAGE]);
	CHECK(d.stalls[SSD_STALL_BUFFER] >= 16, "%" PRIu64, d.stalls[SSD_STALL_BUFFER]);
	CHECK(stopped_ns < 7 * MS, "%" PRIu64, stopped_ns);
	write_at_rate(4096, 200);
	/* four fifths are more than it regains, less what it had */
	CHECK(d.stalls[SSD_STALL_GARBAGE] >= 48 && d.stalls[SSD_STALL_GARBAGE] <= 53, "%" PRIu64,
	      d.stalls[SSD_STALL_GARBAGE]);
	CHECK(stopped_ns > 100 * MS, "%" PRIu64, stopped_ns);
	use("E", "fresh", 1, 7);
	write_at_rate(4096, 100);
	CHECK(!d.stalls[SSD_STALL_GARBAGE], "%" PRIu64, d.stalls[SSD_STALL_GARBAGE]);
	use("A", "fresh", 1, 7);
	write_at_rate(2048, 100);
	CHECK(!d.stalls[SSD_STALL_GARBAGE], "%" PRIu64, d.stalls[SSD_STALL_GARBAGE]);
}

static void discards(void)
{
	int i;

	use("A", "aged", 1, 2);
	ssd_drive_discarded(&d, d.model.spare_bytes);
	for (i = 0; i < 100; i++) {
		write_at_rate(16, 100);
		ssd_drive_discarded(&d, 16 * MIB);
		CHECK(d.spare <= d.model.spare_bytes, "%" PRIu64, d.spare);
	}
	CHECK(!d.stalls[SSD_STALL_GARBAGE], "%" PRIu64, d.stalls[SSD_STALL_GARBAGE]);
	/* no more than it can have */
	for (i = 0; i < 100; i++)
		ssd_drive_discarded(&d, 1ULL << 40);
	write_at_rate(d.model.spare_bytes / MIB + 1, 100);
	CHECK(d.stalls[SSD_STALL_GARBAGE] == 1, "%" PRIu64, d.stalls[SSD_STALL_GARBAGE]);
}

/* The same seed, the same stalls; another, others.  Slower: the same, so many times. */
static void seeds(void)
{
	struct ssd_drive first;
	u64 i;

	for (i = 0; i < 20; i++) {
		use("A", "aged", 1, i);
		write_at_rate(256, 100);
		first = d;
		use("A", "aged", 1, i);
		write_at_rate(256, 100);
		CHECK(d.stalled_ns == first.stalled_ns, "%" PRIu64, i);
		use("A", "aged", 10, i);
		write_at_rate(256, 10);
		CHECK(!memcmp(d.stalls, first.stalls, sizeof(d.stalls)), "%" PRIu64, i);
		CHECK(labs((long)(d.stalled_ns / 10 - first.stalled_ns)) < (long)US, "%" PRIu64, i);
		use("A", "aged", 1, i + 1000);
		write_at_rate(256, 100);
		CHECK(d.stalled_ns != first.stalled_ns, "%" PRIu64, i);
	}
}

/* Whatever was told before it ends after that, and no unit stands still that is not told to. */
static void told(void)
{
	struct ssd_stall stall;
	int i;

	use("A", "fresh", 1, 1);
	ssd_drive_stall(&d, now, SSD_MAX_UNITS, S, &stall);
	CHECK(stall.units == 15 && stall.ns == S, "%x", stall.units);
	CHECK(io(false, 0, 0) == S + 50 * US, "%" PRIu64, io(false, 0, 0));
	CHECK(io(true, 0, 0) == S + 60 * US, "%" PRIu64, io(true, 0, 0));
	/* after one another */
	ssd_drive_stall(&d, now, 1, S, &stall);
	CHECK(__builtin_popcount(stall.units) == 1, "%x", stall.units);
	for (i = 0; i < 100; i++) {
		u64 took = io(true, (u64)i * SSD_UNIT_BYTES, 0);

		CHECK(took == S + 60 * US || took == 2 * S + 60 * US, "%" PRIu64, took);
	}
	ssd_drive_stall(&d, now, 0, S, &stall);
	CHECK(!stall.units, "%x", stall.units);
	CHECK(d.stalls[SSD_STALL_TOLD] == 3, "%" PRIu64, d.stalls[SSD_STALL_TOLD]);
}

int main(void)
{
	RUN(drives);
	RUN(channel);
	RUN(units);
	RUN(buffer);
	RUN(garbage);
	RUN(background);
	RUN(discards);
	RUN(seeds);
	RUN(told);
	return tap_done();
}
