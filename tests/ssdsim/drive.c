// SPDX-License-Identifier: GPL-2.0-only
#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#else
#include <string.h>
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#endif

#include "drive.h"

#define MIB		(1ULL << 20)

/* What takes a second for so many MB takes so many ps for each of its bytes. */
#define MB_PER_S(mb)	(1000000ULL / (mb))

/*
 * Rates and latencies are those of the paper's table 3.  Consumers' drives flush their buffer for
 * 3 to 12 ms, and collect garbage for 18 times as long (section 2.2); the others' spikes have a
 * mean of 3.79 ms, and more than 100 ms if more is written than they erase meanwhile.  After
 * how many bytes is not in the paper: chosen so that arrays of them have the spikes it shows.
 */
static const struct drive {
	const char *name;
	struct ssd_model model;		/* without what depends on its age */
} drives[] = {
	{
		.name = "A",
		.model = {
			.latency_ns = { 50 * NSEC_PER_USEC, 60 * NSEC_PER_USEC },
			.ps_per_byte = { MB_PER_S(550), MB_PER_S(500) },
			.busy_ns = 50 * NSEC_PER_USEC,
			.units = 4,
			.buffer = { 0, 3 * NSEC_PER_MSEC, 12 * NSEC_PER_MSEC, 4 },
			.garbage = { 0, 54 * NSEC_PER_MSEC, 216 * NSEC_PER_MSEC, 4 },
		},
	}, {
		.name = "E",
		.model = {
			.latency_ns = { 36 * NSEC_PER_USEC, 37 * NSEC_PER_USEC },
			.ps_per_byte = { MB_PER_S(560), MB_PER_S(280) },
			.busy_ns = 36 * NSEC_PER_USEC,
			.units = 8,
			.buffer = { 0, 1500 * NSEC_PER_USEC, 6080 * NSEC_PER_USEC, 8 },
			.garbage = { 0, 100 * NSEC_PER_MSEC, 250 * NSEC_PER_MSEC, 4 },
		},
	},
};

static const struct age {
	const char *drive, *name;
	u64 buffer_bytes, garbage_bytes, spare_bytes, worn_bytes;
	u64 regain_ps_per_byte;
} ages[] = {
	{ "A", "fresh", 64 * MIB, 1024 * MIB, 4096 * MIB, 2048 * MIB, 0 },
	{ "A", "aged", 16 * MIB, 64 * MIB, 64 * MIB, 64 * MIB, 0 },
	{ "E", "fresh", 1024 * MIB, 64 * MIB, 4096 * MIB, 2048 * MIB, MB_PER_S(100) },
	{ "E", "aged", 256 * MIB, 64 * MIB, 128 * MIB, 64 * MIB, MB_PER_S(40) },
};

static void slow_down(struct ssd_stall_model *stalls, u32 slower)
{
	stalls->min_ns *= slower;
	stalls->max_ns *= slower;
}

static const struct drive *find_drive(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(drives); i++)
		if (!strcmp(drives[i].name, name))
			return &drives[i];
	return NULL;
}

static const struct age *find_age(const char *drive, const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ages); i++)
		if (!strcmp(ages[i].drive, drive) && !strcmp(ages[i].name, name))
			return &ages[i];
	return NULL;
}

bool ssd_model_find(struct ssd_model *model, const char *name, const char *age_name, u32 slower)
{
	const struct drive *drive = find_drive(name);
	const struct age *age = find_age(name, age_name);
	int kind;

	if (!drive || !age)
		return false;
	*model = drive->model;
	model->buffer.bytes = age->buffer_bytes;
	model->garbage.bytes = age->garbage_bytes;
	model->spare_bytes = age->spare_bytes;
	model->worn_bytes = age->worn_bytes;
	model->regain_ps_per_byte = age->regain_ps_per_byte * slower;
	for (kind = 0; kind < 2; kind++) {
		model->latency_ns[kind] *= slower;
		model->ps_per_byte[kind] *= slower;
	}
	model->busy_ns *= slower;
	slow_down(&model->buffer, slower);
	slow_down(&model->garbage, slower);
	return true;
}

u64 ssd_mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* From 0 to @most. */
static u64 draw(struct ssd_drive *d, u64 most)
{
	d->random += 0x9e3779b97f4a7c15ull;
	return ssd_mix(d->random) % (most + 1);
}

void ssd_drive_init(struct ssd_drive *d, const struct ssd_model *model, u64 seed, u64 now)
{
	memset(d, 0, sizeof(*d));
	d->model = *model;
	d->seed = seed;
	d->random = ssd_mix(seed);
	/* not all drives of an array at once */
	d->buffered = draw(d, model->buffer.bytes);
	d->spare = model->spare_bytes - draw(d, model->worn_bytes);
	d->next_unit = draw(d, model->units - 1);
	d->regained_ns = now;
}

/* ---- stalls ---- */

static u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u32 all_units(const struct ssd_drive *d)
{
	return ~0U >> (32 - d->model.units);
}

/* It counts once, and each unit stands still for it after what it stands still for already. */
static void stand_still(struct ssd_drive *d, u64 now, u32 units, u64 ns, struct ssd_stall *stall)
{
	u32 i;

	stall->units = 0;
	stall->ns = ns;
	for (i = 0; i < units && i < d->model.units; i++) {
		u32 unit = (d->next_unit + i) % d->model.units;

		stall->units |= 1U << unit;
		d->read_ns[unit] = later(d->read_ns[unit], now) + ns;
		d->write_ns[unit] = later(d->write_ns[unit], now) + ns;
	}
	d->next_unit = (d->next_unit + i) % d->model.units;
	if (stall->units == all_units(d))
		d->channel_ns = later(d->channel_ns, now) + ns;
	d->stalled_ns += ns;
}

static void stall_of(struct ssd_drive *d, u64 now, enum ssd_stall_kind kind,
		     const struct ssd_stall_model *m, struct ssd_stall *stall)
{
	d->stalls[kind]++;
	/* a slower drive draws the same */
	stand_still(d, now, m->units, m->min_ns + (m->max_ns - m->min_ns) / 1024 * draw(d, 1024), stall);
}

static void regain(struct ssd_drive *d, u64 now)
{
	u64 ps = d->model.regain_ps_per_byte, bytes;

	if (!ps || now <= d->regained_ns)
		return;
	bytes = (now - d->regained_ns) * 1000 / ps;
	if (d->spare + bytes >= d->model.spare_bytes) {
		d->spare = d->model.spare_bytes;
		d->regained_ns = now;
	} else {
		/* what is less than a byte is not lost */
		d->spare += bytes;
		d->regained_ns += bytes * ps / 1000;
	}
}

bool ssd_drive_written(struct ssd_drive *d, u64 now, u64 bytes, struct ssd_stall *stall)
{
	const struct ssd_model *m = &d->model;

	if (m->garbage.bytes) {
		regain(d, now);
		/* one for each so many bytes that are missing */
		if (d->spare < bytes) {
			d->spare += m->garbage.bytes;
			d->spare = d->spare < bytes ? 0 : d->spare - bytes;
			d->buffered += bytes;
			stall_of(d, now, SSD_STALL_GARBAGE, &m->garbage, stall);
			return true;
		}
		d->spare -= bytes;
	}
	d->buffered += bytes;
	if (!m->buffer.bytes || d->buffered < m->buffer.bytes)
		return false;
	d->buffered -= m->buffer.bytes;
	stall_of(d, now, SSD_STALL_BUFFER, &m->buffer, stall);
	return true;
}

void ssd_drive_discarded(struct ssd_drive *d, u64 bytes)
{
	u64 room = d->model.spare_bytes - d->spare;

	d->spare += bytes < room ? bytes : room;
}

void ssd_drive_stall(struct ssd_drive *d, u64 now, u32 units, u64 ns, struct ssd_stall *stall)
{
	d->stalls[SSD_STALL_TOLD]++;
	stand_still(d, now, units, ns, stall);
}

/* ---- I/O ---- */

u64 ssd_drive_end(struct ssd_drive *d, u64 now, bool write, u64 at, u64 bytes, u32 *units)
{
	const struct ssd_model *m = &d->model;
	u64 ns = bytes * m->ps_per_byte[write] / 1000, piece = at / SSD_UNIT_BYTES;
	u64 last = bytes ? (at + bytes - 1) / SSD_UNIT_BYTES : piece, start, ready;

	d->channel_ns = later(d->channel_ns, now) + ns;
	d->busy_ns += ns;
	ready = d->channel_ns;
	*units = 0;
	for (; piece <= last && *units != all_units(d); piece++) {
		u32 unit = ssd_mix(d->seed ^ piece) % m->units;

		if (*units & (1U << unit))
			continue;
		*units |= 1U << unit;
		start = later(d->channel_ns, write ? d->write_ns[unit] : d->read_ns[unit]);
		if (!write)
			d->read_ns[unit] = start + m->busy_ns;
		ready = later(ready, start);
	}
	return ready + m->latency_ns[write];
}
