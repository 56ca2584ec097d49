// SPDX-License-Identifier: GPL-2.0-only
/*
 * Power cuts over everything at once.
 *
 * A life is that of a pool whose shape is drawn from the seed and the number of the life.  It has
 * rounds: volumes are written, something goes on in the background, the power fails on all SSDs
 * at one instant, the pool is started again, all pages are looked at, and all parity.  Some
 * rounds are followed by a sweep: from what is on the SSDs then, the same pool goes on without
 * each member, or without each of some pairs, in turn, and all pages are looked at again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dm.h"
#include "work.h"

static const char usage_text[] =
"Usage: cuts --oracle PATH [OPTION...]\n"
"\n"
"  --seed N       (1)\n"
"  --first N      the first life (0): a life is repeated by its number and the seed\n"
"  --lives N      (1)\n"
"  --rounds N     power cuts in each (10)\n"
"  --sets N       sets of members in each sweep (0: each member; as many pairs)\n"
"  --instant MS   the power fails at most so long after the workload is under way (600)\n"
"  --seconds N    begin no life after this time (0: no limit)\n"
"\n"
"Exit status: 0; 1: something was lost, or did not work; 2: it could not be done.\n";

/* Pools that grow begin to in this one. */
#define GROW_ROUND	3

static u64 seed = 1, first, lives = 1, rounds = 10, most_sets, instant_ms = 600, seconds;
static char directory[] = "/tmp/cuts.XXXXXX";
static char state_path[64], sweep_path[64];

static struct {
	u64 cuts, by_work[NR_WORKS], at[NR_WORKS];
	u64 pages, garbage, lost, unstable, unreadable, mismatches;
	u64 singles, pairs, under_load, failures;
	u64 began_to_grow, grown;	/* pools */
	struct rig_status done;
} total;

struct life {
	struct rig rig;
	u64 number, round, out, random;
	unsigned int sweeps;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int wrong(const struct life *l, const char *what)
{
	say("FAILED life %lu round %lu: %s", l->number, l->round, what);
	return -EIO;
}

static void add_work(const struct rig_status *s)
{
	total.done.converted += s->converted;
	total.done.compacted += s->compacted;
	total.done.destaged += s->destaged;
	total.done.passdowns += s->passdowns;
	total.done.resynced += s->resynced;
	total.done.rebuilt += s->rebuilt;
	total.done.scrubbed += s->scrubbed;
	total.done.in_place += s->in_place;
	total.done.new_top += s->new_top;
	total.done.new_patch += s->new_patch;
	total.done.large += s->large;
	total.done.hedged += s->hedged;
	total.mismatches += s->mismatches;
}

/* ---- what is there ---- */

static int verify(struct life *l, const char *state)
{
	struct verified v;
	int error = oracle_verify(&l->rig, state, &v);

	total.pages += v.pages;
	total.garbage += v.garbage;
	total.lost += v.lost;
	total.unstable += v.unstable;
	total.unreadable += v.unreadable;
	return error ? wrong(l, "pages are wrong") : 0;
}

/* The pool's state, in which only the members @out are out, and all of @must. */
static int look(struct life *l, u64 out, u64 must)
{
	const char *what;
	struct rig_status s;

	if (rig_status(&s))
		return wrong(l, "no status");
	add_work(&s);
	what = rig_wrong(&s, out);
	if (what)
		return wrong(l, what);
	if (must & ~rig_out(&s))
		return wrong(l, "a member that has failed is not out");
	return 0;
}

static int scrub(struct life *l)
{
	int error;

	dm_message(RIG_POOL, "scrub_restart");
	error = dm_message(RIG_POOL, "scrub");
	/* how much does not fit is in the status */
	return error && error != -EILSEQ ? wrong(l, "scrub does not work") : 0;
}

static int stop(struct life *l)
{
	return rig_stop() ? wrong(l, "the pool cannot be stopped") : 0;
}

static int start(struct life *l, u64 missing)
{
	return rig_start(&l->rig, missing, false) ? wrong(l, "the pool cannot be started") : 0;
}

/* ---- sweeps ---- */

enum sweep {
	SWEEP_CUT,		/* as the power cut has left it */
	SWEEP_STOPPED,		/* after a clean stop */
	SWEEP_LOAD,		/* failing while the volumes are written */
};

static int copy_state(void)
{
	char buffer[65536];
	FILE *in = fopen(state_path, "r"), *out = fopen(sweep_path, "w");
	size_t bytes = 1;

	while (in && out && (bytes = fread(buffer, 1, sizeof(buffer), in)))
		if (fwrite(buffer, 1, bytes, out) != bytes)
			break;
	if (in)
		fclose(in);
	if (!out || fclose(out) || bytes) {
		say("# cannot copy %s", state_path);
		return -EIO;
	}
	return 0;
}

static int fail_under_load(struct life *l, u64 set)
{
	bool by_errors = draw(&l->random, 2);
	struct rig_status s;
	unsigned int m;
	char name[16];

	if (work_prepare(&l->rig, WORK_ALL, &l->random) ||
	    oracle_begin(&l->rig, sweep_path, WORK_ALL, 80 + draw(&l->random, 80), &l->random))
		return wrong(l, "the workload does not begin");
	for (m = 0; m < l->rig.n; m++) {
		if (!(set >> m & 1))
			continue;
		snprintf(name, sizeof(name), "t-s%u", m);
		if (by_errors) {
			dm_message(name, "fail reads yes");
			dm_message(name, "fail flushes yes");
			dm_message(name, "fail writes yes");
		} else if (dm_message(RIG_POOL, "fail %u", m)) {
			wrong(l, "a member cannot be failed");
		}
	}
	if (oracle_end("limit"))
		return wrong(l, "the workload does not end");
	if (rig_status(&s))
		return wrong(l, "no status");
	/* one that nothing was written to */
	for (m = 0; m < l->rig.n; m++)
		if (set & ~rig_out(&s) & 1ULL << m && dm_message(RIG_POOL, "fail %u", m))
			wrong(l, "a member cannot be failed");
	total.under_load++;
	return 0;
}

static int sweep_set(struct life *l, enum sweep sweep, u64 set, bool rebuild)
{
	int error;

	if (dm_message("t-s0", "restore_all") || copy_state())
		return wrong(l, "the SSDs cannot be put back");
	error = start(l, sweep == SWEEP_LOAD ? 0 : set);
	if (!error && sweep == SWEEP_LOAD)
		error = fail_under_load(l, set);
	if (!error)
		error = verify(l, sweep_path);
	if (!error && rebuild) {
		/* what has no place need not be */
		error = dm_message(RIG_POOL, "rebuild");
		error = error && error != -ENOSPC ? wrong(l, "rebuild does not work") : 0;
		error = error ?: scrub(l);
		error = error ?: verify(l, sweep_path);
	}
	if (!error)
		error = look(l, l->out | set, set);
	error = stop(l) ?: error;
	rig_power_on(&l->rig);
	if (__builtin_popcountll(set) == 1)
		total.singles++;
	else
		total.pairs++;
	if (!error) {
		unsigned int a = __builtin_ctzll(set), b = 63 - __builtin_clzll(set);

		say("without %u %u %u%s", l->rig.n, a, b, sweep == SWEEP_LOAD ? " under load" : "");
	}
	return error;
}

/* Pair number @i of all: (0,1), (0,2), (1,2), (0,3) ... */
static u64 pair(unsigned int i)
{
	unsigned int b = 1;

	while (i >= b)
		i -= b++;
	return 1ULL << i | 1ULL << b;
}

/* The SSDs are as they were then, after it.  The pool is stopped. */
static int sweep(struct life *l, enum sweep kind, unsigned int allowed)
{
	unsigned int n = l->rig.n, all = allowed == 2 ? n * (n - 1) / 2 : n, sets, i, at;
	int error = 0;
	u64 set;

	if (!allowed)
		return 0;
	sets = most_sets && most_sets < n ? most_sets : n;
	/* of pairs the next ones of the next life of that kind */
	at = kind == SWEEP_LOAD ? l->number / (4 * RIG_KINDS) * sets : draw(&l->random, all);
	if (dm_message("t-s0", "save_all"))
		return wrong(l, "the SSDs cannot be saved");
	for (i = 0; i < sets && !error; i++) {
		set = allowed == 2 ? pair((at + i) % all) : 1ULL << (at + i) % all;
		if (!(set & l->out))
			error = sweep_set(l, kind, set, !i && kind != SWEEP_CUT);
	}
	if (dm_message("t-s0", "restore_all"))
		return wrong(l, "the SSDs cannot be put back");
	dm_message("t-s0", "forget_all");
	return error;
}

/* ---- rounds ---- */

static void sleep_ms(u64 ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* Each of them, in an order of the life's own; a pool grows among them, and members fail at last. */
static enum work plan(const struct life *l)
{
	enum work order[] = { WORK_WRITES, WORK_CONVERT, WORK_DESTAGE, WORK_SCRUB, WORK_RESYNC,
			      WORK_DELETE, WORK_ALL };
	u64 random = mix(seed ^ mix(l->number + 77)), i, j;
	enum work other;
	const u64 n = sizeof(order) / sizeof(*order);

	if (rounds > 3 && l->round + 3 >= rounds)
		return l->round + 3 == rounds ? WORK_FAIL :
		       l->round + 2 == rounds ? WORK_REBUILD : WORK_ALL;
	if (l->round == GROW_ROUND && l->rig.grows_to > l->rig.was)
		return WORK_GROW;
	for (i = n - 1; i; i--) {
		j = draw(&random, i + 1);
		other = order[i];
		order[i] = order[j];
		order[j] = other;
	}
	/* there is nothing to be made equal at first */
	if (order[0] == WORK_RESYNC) {
		order[0] = order[1];
		order[1] = WORK_RESYNC;
	}
	return order[l->round % n];
}

static enum work next_plan(const struct life *l)
{
	struct life next = *l;

	next.round++;
	return next.round < rounds ? plan(&next) : NR_WORKS;
}

static int fail_one(struct life *l)
{
	unsigned int m = draw(&l->random, l->rig.n), tries;

	for (tries = 0; l->out >> m & 1 && tries < l->rig.n; tries++)
		m = (m + 1) % l->rig.n;
	if (dm_message(RIG_POOL, "fail %u", m))
		return wrong(l, "a member cannot be failed");
	l->out |= 1ULL << m;
	return 0;
}

/* The power fails among it; the pool is stopped and the SSDs have power, then. */
static int cut(struct life *l, enum work work)
{
	unsigned int at, w;
	struct rig_status s;
	int error = 0;

	if (work_prepare(&l->rig, work, &l->random))
		return wrong(l, "it cannot be set");
	if (work == WORK_REBUILD && __builtin_popcountll(l->out) < (int)rig_parity(&l->rig) &&
	    fail_one(l))
		return -EIO;
	if (oracle_begin(&l->rig, state_path, work, 0, &l->random))
		return wrong(l, "the workload does not begin");
	background_begin(&l->rig, work, &l->random);
	sleep_ms(draw(&l->random, work == WORK_RESYNC ? instant_ms / 4 : instant_ms));
	if (oracle_ended()) {
		oracle_tell();
		error = wrong(l, "the workload has ended before");
	}
	at = background_at();
	rig_cut(draw(&l->random, 1ULL << 40));
	total.cuts++;
	total.by_work[work]++;
	for (w = 0; w < NR_WORKS; w++)
		total.at[w] += at >> w & 1;
	/* who waits for space does not notice: a commit does */
	if (!dm_message(RIG_POOL, "create_volume 1000 none 2048 2 1"))
		error = wrong(l, "there is still power");
	if (oracle_end("cut"))
		error = wrong(l, "the workload ends otherwise");
	if (background_end())
		error = wrong(l, "scrub has found what does not fit");
	if (!rig_status(&s))
		add_work(&s);
	error = stop(l) ?: error;
	rig_power_on(&l->rig);
	return error;
}

/* After the last round, with members that have failed: what can be is rebuilt. */
static int rebuild(struct life *l)
{
	int error = dm_message(RIG_POOL, "rebuild");

	if (error && error != -ENOSPC)
		return wrong(l, "rebuild does not work");
	return scrub(l) ?: look(l, l->out, l->out);
}

/*
 * After a power cut: the pool is started then.  Of three sweeps two are before members fail,
 * the third is when some have and are rebuilt.
 */
static int check(struct life *l)
{
	bool last = l->round + 1 == rounds, due = l->sweeps < 2 && l->round >= 2 + 2 * l->sweeps;
	u64 may = plan(l) == WORK_FAIL ? (1ULL << l->rig.n) - 1 : l->out;
	unsigned int parity = rig_parity(&l->rig);
	enum sweep kind = l->sweeps ? SWEEP_STOPPED : SWEEP_LOAD;
	struct rig_status s;
	int error = 0;

	if (due && l->sweeps && !may && draw(&l->random, 3)) {
		l->sweeps++;
		due = false;
		error = sweep(l, SWEEP_CUT, parity);
	}
	error = error ?: start(l, 0);
	error = error ?: verify(l, state_path);
	error = error ?: scrub(l);
	error = error ?: look(l, may, l->out);
	if (error)
		return error;
	rig_status(&s);
	l->out = rig_out(&s);
	if (last && l->out) {
		error = rebuild(l);
		if (error)
			return error;
		rig_status(&s);
	}
	if (!last && (!due || l->out))
		return 0;
	l->sweeps++;
	return stop(l) ?: sweep(l, kind, parity - s.degraded) ?: start(l, 0) ?: verify(l, state_path);
}

static int live(struct life *l)
{
	double began = now();
	struct rig_status s;
	int error;

	unlink(state_path);
	if (rig_make(&l->rig, l->number, seed) || rig_start(&l->rig, 0, true))
		return wrong(l, "there is no pool");
	for (; l->round < rounds; l->round++) {
		l->random = mix(seed ^ mix(l->number ^ mix(l->round)));
		error = cut(l, plan(l));
		if (error)
			return error;
		/* replicas are made equal while they are written, at the next one */
		error = next_plan(l) == WORK_RESYNC ? start(l, 0) : check(l);
		if (error)
			return error;
		say("life %lu round %lu: n=%u %s %uK%s%s %s: good, %.1f s", l->number, l->round,
		    l->rig.n, l->rig.kind == RIG_RAID5 ? "raid5" : l->rig.kind == RIG_RAID6 ?
		    "raid6" : "both", l->rig.block_sectors / 2, l->rig.tight ? " tight" : "",
		    l->rig.spiky ? " spiky" : "", work_names[plan(l)], now() - began);
		began = now();
	}
	if (l->rig.n == l->rig.was)
		return 0;
	if (rig_status(&s))
		return wrong(l, "no status");
	total.began_to_grow++;
	total.grown += !s.grows_from;
	return 0;
}

/* ---- the end ---- */

static void tell_works(const char *name, const u64 *count)
{
	unsigned int w;

	printf("\"%s\":{", name);
	for (w = 0; w < NR_WORKS; w++)
		printf("%s\"%s\":%lu", w ? "," : "", work_names[w], count[w]);
	printf("},");
}

static void tell(double took)
{
	printf("{\"cuts\":%lu,", total.cuts);
	tell_works("rounds_of", total.by_work);
	tell_works("under_way_at_the_cut", total.at);
	printf("\"done\":{\"converted\":%lu,\"compacted\":%lu,\"destaged\":%lu,\"passdowns\":%lu,\"resynced\":%lu,\"rebuilt\":%lu,\"scrubbed\":%lu,\"in_place\":%lu,\"new_top\":%lu,\"new_patch\":%lu,\"large\":%lu,\"hedged\":%lu},",
	       total.done.converted, total.done.compacted, total.done.destaged,
	       total.done.passdowns, total.done.resynced, total.done.rebuilt, total.done.scrubbed,
	       total.done.in_place, total.done.new_top, total.done.new_patch, total.done.large,
	       total.done.hedged);
	printf("\"pages_checked\":%lu,\"lost\":%lu,\"garbage\":%lu,\"unstable\":%lu,\"unreadable\":%lu,\"mismatches\":%lu,\"members_failed\":%lu,\"pairs_failed\":%lu,\"under_load\":%lu,\"began_to_grow\":%lu,\"grown\":%lu,\"failures\":%lu,\"seconds\":%.0f}\n",
	       total.pages, total.lost, total.garbage, total.unstable, total.unreadable,
	       total.mismatches, total.singles, total.pairs, total.under_load,
	       total.began_to_grow, total.grown, total.failures, took);
	fflush(stdout);
}

static u64 number(const char *text)
{
	char *end;
	u64 value = strtoull(text, &end, 0);

	if (end == text || *end) {
		say("'%s' is not a number", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "oracle", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' },
		{ "first", required_argument, NULL, 'f' },
		{ "lives", required_argument, NULL, 'l' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "sets", required_argument, NULL, 't' },
		{ "instant", required_argument, NULL, 'i' },
		{ "seconds", required_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	const char *oracle = NULL;
	double began = now();
	u64 i;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'o': oracle = optarg; break;
		case 's': seed = number(optarg); break;
		case 'f': first = number(optarg); break;
		case 'l': lives = number(optarg); break;
		case 'r': rounds = number(optarg); break;
		case 't': most_sets = number(optarg); break;
		case 'i': instant_ms = number(optarg); break;
		case 'e': seconds = number(optarg); break;
		case 'h': fputs(usage_text, stdout); return 0;
		default: fputs(usage_text, stderr); return 2;
		}
	}
	if (!oracle || optind < argc || !rounds || !instant_ms) {
		fputs(usage_text, stderr);
		return 2;
	}
	if (!mkdtemp(directory)) {
		perror(directory);
		return 2;
	}
	snprintf(state_path, sizeof(state_path), "%s/state", directory);
	snprintf(sweep_path, sizeof(sweep_path), "%s/sweep", directory);
	work_begin(oracle, directory);
	for (i = first; i < first + lives; i++) {
		struct life l = { .number = i };

		if (seconds && now() - began > seconds)
			break;
		if (live(&l)) {
			total.failures++;
			say("again: --seed %lu --first %lu --rounds %lu --sets %lu", seed, i, rounds,
			    most_sets);
		}
		rig_unmake(&l.rig);
	}
	tell(now() - began);
	return total.failures ? 1 : 0;
}
