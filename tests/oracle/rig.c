// SPDX-License-Identifier: GPL-2.0-only
/*
 * See rig.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "dm.h"
#include "rig.h"

#define MOST_MEMBERS	16
#define META_SECTORS	(8u << 11)

static dev_t ssd_dev[MOST_MEMBERS], meta_dev;

u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

u64 draw(u64 *state, u64 below)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return mix(*state) % below;
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static int failed(const char *what, int error)
{
	say("# cannot %s: %s", what, strerror(-error));
	return error;
}

/* Sizes in blocks: of small ones there are more. */
static void shape(struct rig *rig, u64 life, u64 seed)
{
	static const unsigned int orders[] = { 8, 7, 13, 9 }, grown[] = { 8, 8, 13, 11 };
	static const unsigned int sizes[] = { 128, 32, 128, 512, 64, 8 };
	u64 state = mix(seed ^ mix(life)), blocks, need = 0, templates;
	unsigned int i, widest;

	memset(rig, 0, sizeof(*rig));
	rig->n = orders[life % 4];
	rig->was = rig->n;
	rig->kind = life / 4 % RIG_KINDS;
	/* half of them; the smallest ring there can be */
	rig->journal_sectors = life / 5 % 2 ? 2048 : 0;
	rig->spiky = life / 2 % 2;
	rig->spares = rig->kind == RIG_RAID6 && rig->n > 7 ? 1 + draw(&state, 2) : 1;
	rig->block_sectors = sizes[draw(&state, sizeof(sizes) / sizeof(*sizes))];
	rig->tight = rig->n <= 8 && rig->block_sectors <= 128 && draw(&state, 3) == 0;
	blocks = rig->block_sectors >= 512 ? 40 : rig->block_sectors >= 128 ? 64 :
		 rig->block_sectors >= 32 ? 192 : 512;
	widest = rig->n - 1 - rig->spares;
	for (i = 0; i < RIG_VOLUMES; i++) {
		bool two = rig->kind == RIG_RAID6 || (rig->kind == RIG_BOTH && i == 1);

		rig->parity[i] = 1 + two;
		/* a stripe as wide as can be, and others */
		rig->data[i] = i == 2 ? widest - rig->parity[i] :
			       2 + draw(&state, widest - rig->parity[i] - 1);
		rig->volume_blocks[i] = rig->tight ? 200 : blocks;
		need += rig->volume_blocks[i] * (rig->data[i] + rig->parity[i]) / rig->data[i];
	}
	/* those of the widest class: (n - 1 + spares) * k blocks of a member */
	templates = (rig->tight ? 4 : 8) * (rig->n - 1 + rig->spares) * widest;
	rig->member_blocks = need * (rig->tight ? 5 : 8) / 2 / rig->n;
	if (rig->member_blocks < templates)
		rig->member_blocks = templates;
	rig->grows_to = rig->tight ? rig->n : grown[life % 4];
	/* each class needs a new band to begin with */
	if (rig->grows_to > rig->n)
		rig->member_blocks *= 3;
}

int rig_make(struct rig *rig, u64 life, u64 seed)
{
	unsigned int i;
	char name[16], seed_text[24];
	int error;

	shape(rig, life, seed);
	for (i = 0; i < rig->grows_to; i++) {
		snprintf(name, sizeof(name), "t-s%u", i);
		snprintf(seed_text, sizeof(seed_text), "%u", i + 1);
		error = dm_make(name, rig->journal_sectors + rig->member_blocks * rig->block_sectors,
				"ssdsim", seed_text, &ssd_dev[i]);
		/* one that stands still takes some time else, too */
		if (!error && rig->spiky)
			error = dm_message(name, "time 30 30 0 0");
		if (error)
			return failed("make an SSD", error);
	}
	error = dm_make("t-smeta", META_SECTORS, "ssdsim", "99", &meta_dev);
	return error ? failed("make the metadata's SSD", error) : 0;
}

void rig_unmake(struct rig *rig)
{
	char name[16];
	unsigned int i;

	rig_stop();
	for (i = 0; i < rig->grows_to; i++) {
		snprintf(name, sizeof(name), "t-s%u", i);
		dm_unmake(name);
	}
	dm_unmake("t-smeta");
}

static int start_volume(struct rig *rig, unsigned int i, bool fresh)
{
	u64 sectors = rig->volume_blocks[i] * rig->block_sectors;
	char name[16], table[64];
	int error = 0;

	if (fresh)
		error = dm_message(RIG_POOL, "create_volume %u v%u %llu %u %u", i, i,
				   (unsigned long long)sectors, rig->data[i], rig->parity[i]);
	if (error)
		return failed("create a volume", error);
	snprintf(name, sizeof(name), "t-v%u", i);
	snprintf(table, sizeof(table), "%u:%u %u", major(rig->pool), minor(rig->pool), i);
	error = dm_make(name, sectors, "fusion", table, &rig->volume[i]);
	return error ? failed("start a volume", error) : 0;
}

/* What a pool with @n members is. */
static void pool_table(const struct rig *rig, unsigned int n, u64 missing, char *table)
{
	char *at = table;
	unsigned int i;

	at += sprintf(at, "%u:%u %u mols %u %u", major(meta_dev), minor(meta_dev),
		      rig->block_sectors, rig->spares, n);
	for (i = 0; i < n; i++)
		at += missing >> i & 1 ? sprintf(at, " - 0") :
					 sprintf(at, " %u:%u %u", major(ssd_dev[i]), minor(ssd_dev[i]),
						 rig->journal_sectors);
	if (rig->journal_sectors)
		sprintf(at, " 4 unlabelled journal 0 %u", rig->journal_sectors);
	else
		sprintf(at, " 1 unlabelled");
}

static int start_pool(struct rig *rig, unsigned int n, u64 missing)
{
	char table[1024];

	pool_table(rig, n, missing, table);
	return dm_make(RIG_POOL, 8, "fusion-pool", table, &rig->pool);
}

int rig_start(struct rig *rig, u64 missing, bool fresh)
{
	unsigned int i;
	int error;

	error = start_pool(rig, rig->n, missing);
	/* the metadata knows whether it came to that */
	if (error && rig->grows && rig->n < rig->grows_to) {
		error = start_pool(rig, rig->grows_to, missing);
		if (!error)
			rig->n = rig->grows_to;
	}
	if (error)
		return failed("start the pool", error);
	for (i = 0; i < RIG_VOLUMES && !error; i++)
		error = start_volume(rig, i, fresh);
	return error;
}

int rig_stop(void)
{
	char name[16];
	unsigned int i;
	int error = 0;

	for (i = 0; i < RIG_VOLUMES && !error; i++) {
		snprintf(name, sizeof(name), "t-v%u", i);
		error = dm_unmake(name);
	}
	if (!error)
		error = dm_unmake("t-v9");
	if (!error)
		error = dm_unmake(RIG_POOL);
	return error ? failed("stop the pool", error) : 0;
}

int rig_grow(struct rig *rig)
{
	struct dm_line line = { .length = 8, .target = "fusion-pool" };
	int error;

	pool_table(rig, rig->grows_to, 0, line.params);
	rig->grows = true;
	error = dm_load(RIG_POOL, &line);
	if (!error)
		error = dm_suspend(RIG_POOL, false);
	if (!error)
		return 0;
	/* it may be suspended now: as it was */
	pool_table(rig, rig->n, 0, line.params);
	if (!dm_load(RIG_POOL, &line))
		dm_suspend(RIG_POOL, false);
	return error;
}

static u64 counter(const char *text, const char *name)
{
	char pattern[48];
	const char *found;

	snprintf(pattern, sizeof(pattern), " %s ", name);
	found = strstr(text, pattern);
	return found ? strtoull(found + strlen(pattern), NULL, 10) : 0;
}

/* How rig_status.states has it, if @word is the state of a member. */
static char state_letter(const char *word)
{
	static const char *const in[] = { "ok", "failing", "kept", "returning" };
	unsigned int i;

	for (i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!strcmp(word, in[i]))
			return 'o';
	return !strcmp(word, "failed") || !strcmp(word, "missing") ? *word : '\0';
}

int rig_status(struct rig_status *s)
{
	static char text[16384];
	char check[16], *word;
	unsigned int i = 0;
	int error = dm_text(RIG_POOL, DM_INFO_AS_IT_IS, text, sizeof(text));

	memset(s, 0, sizeof(*s));
	if (error)
		return failed("ask for the status", error);
	if (sscanf(text, "%15s %15s", s->mode, check) != 2)
		return -EINVAL;
	s->needs_check = strcmp(check, "-");
	s->converted = counter(text, "converted");
	s->compacted = counter(text, "compacted");
	s->destaged = counter(text, "destaged");
	s->passdowns = counter(text, "passdowns");
	s->resynced = counter(text, "resynced");
	s->rebuilt = counter(text, "rebuilt");
	s->scrubbed = counter(text, "scrubbed");
	s->mismatches = counter(text, "scrub_mismatches");
	s->degraded = counter(text, "degraded");
	s->in_place = counter(text, "in_place");
	s->new_top = counter(text, "new_top");
	s->new_patch = counter(text, "new_patch");
	s->large = counter(text, "large");
	s->hedged = counter(text, "hedged_writes");
	s->grows_from = counter(text, "grows_from");
	for (word = strtok(text, " "); word; word = strtok(NULL, " "))
		if (state_letter(word) && i < sizeof(s->states) - 1)
			s->states[i++] = state_letter(word);
	return 0;
}

u64 rig_out(const struct rig_status *s)
{
	unsigned int i;
	u64 out = 0;

	for (i = 0; s->states[i]; i++)
		out |= (u64)(s->states[i] != 'o') << i;
	return out;
}

const char *rig_wrong(const struct rig_status *s, u64 out)
{
	if (strcmp(s->mode, "rw"))
		return s->mode;
	if (s->needs_check)
		return "needs_check";
	if (s->mismatches)
		return "parity mismatches";
	if (rig_out(s) & ~out)
		return "another member is out";
	return NULL;
}

unsigned int rig_parity(const struct rig *rig)
{
	return rig->kind == RIG_RAID6 ? 2 : 1;
}

u64 rig_pages(const struct rig *rig)
{
	u64 blocks = 0;
	unsigned int i;

	for (i = 0; i < RIG_VOLUMES; i++)
		blocks += rig->volume_blocks[i];
	return blocks * rig->block_sectors / 8;
}

void rig_cut(u64 seed)
{
	dm_message("t-s0", "power_cut_all %llu", (unsigned long long)seed);
}

void rig_power_on(const struct rig *rig)
{
	static const char * const kinds[] = { "reads", "writes", "flushes" };
	char name[16];
	unsigned int i, k;

	dm_message("t-s0", "power_on_all");
	for (i = 0; i < rig->grows_to; i++)
		for (k = 0; k < 3; k++) {
			snprintf(name, sizeof(name), "t-s%u", i);
			dm_message(name, "fail %s no", kinds[k]);
		}
}
