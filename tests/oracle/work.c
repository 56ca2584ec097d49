// SPDX-License-Identifier: GPL-2.0-only
/*
 * See work.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dm.h"
#include "work.h"

#define PASSING		9	/* the volume that comes and goes */

const char * const work_names[NR_WORKS] = {
	[WORK_WRITES] = "writes",
	[WORK_CONVERT] = "convert",
	[WORK_DESTAGE] = "destage",
	[WORK_SCRUB] = "scrub",
	[WORK_RESYNC] = "resync",
	[WORK_DELETE] = "delete",
	[WORK_ALL] = "all",
	[WORK_FAIL] = "fail",
	[WORK_REBUILD] = "rebuild",
	[WORK_GROW] = "grow",
	[WORK_STALL] = "stall",
};

static const char *oracle, *directory;
static char ready_path[256], output_path[256];
static pid_t oracle_pid;

void work_begin(const char *oracle_path, const char *in)
{
	oracle = oracle_path;
	directory = in;
	snprintf(ready_path, sizeof(ready_path), "%s/ready", directory);
	snprintf(output_path, sizeof(output_path), "%s/output", directory);
}

static int set(const char *name, u64 value)
{
	return dm_message(RIG_POOL, "set %s %llu", name, (unsigned long long)value);
}

/* What an SSD that stands still holds up is hedged, and as often as it can be. */
static int prepare_spikes(void)
{
	return set("straggler_enter", 1) | set("straggler_exit", 0) | set("window_us", 2000);
}

int work_prepare(const struct rig *rig, enum work work, u64 *random)
{
	static const unsigned int limits[] = { 1, 3, 10 };
	bool idle = work == WORK_WRITES;
	int error = 0;

	error |= set("paused", idle);
	error |= set("age_s", idle ? 0 : 1);
	error |= set("idle_ms", idle ? 0 : 20);
	error |= set("soft_percent", draw(random, 2) * 25);
	error |= set("limit_percent", limits[draw(random, 3)]);
	error |= set("patch_percent", work == WORK_DESTAGE ? 20 : draw(random, 3) * 5);
	error |= set("write_select", draw(random, 3));
	error |= set("rebuild_kib", 0);
	if (rig->spiky)
		error |= prepare_spikes();
	if (error)
		return -EINVAL;
	/* patches are of blocks that are in stripes */
	return work == WORK_DESTAGE ? dm_message(RIG_POOL, "convert") : 0;
}

/* ---- the oracle ---- */

static int spawn(char **argv)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	int error;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, output_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	error = posix_spawn(&oracle_pid, oracle, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error) {
		oracle_pid = 0;
		say("# cannot start %s: %s", oracle, strerror(error));
	}
	return -error;
}

void oracle_tell(void)
{
	char line[512];
	FILE *f = fopen(output_path, "r");

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		say("#   %s", line);
	}
	if (f)
		fclose(f);
}

/* The devices of @rig, from argv[count] on. */
static void volumes(const struct rig *rig, char **argv, unsigned int count)
{
	static char path[RIG_VOLUMES][24];
	unsigned int i;

	for (i = 0; i < RIG_VOLUMES; i++) {
		snprintf(path[i], sizeof(path[i]), "/dev/dm-%u", minor(rig->volume[i]));
		argv[count++] = path[i];
	}
	argv[count] = NULL;
}

int oracle_begin(const struct rig *rig, const char *state, enum work work, u64 ops, u64 *random)
{
	static const char * const sizes[] = { "65536", "262144", "1572864" };
	static const char * const small[] = { "4096", "8192", "16384" };
	char seed[24], threads[24], limit[24], block[24];
	char *argv[24] = {
		(char *)oracle, "run", "--state", (char *)state, "--seed", seed,
		"--threads", threads, "--ops", limit, "--ready", ready_path,
		"--discard-block", block, "--max-size",
		(char *)(work == WORK_DESTAGE ? small : sizes)[draw(random, 3)],
	};
	struct timespec tick = { .tv_nsec = 2000000 };

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)draw(random, 1ULL << 40));
	snprintf(threads, sizeof(threads), "%u", 1 + (unsigned int)draw(random, 6));
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)ops);
	snprintf(block, sizeof(block), "%u", rig->block_sectors << 9);
	volumes(rig, argv, 16);
	unlink(ready_path);
	if (spawn(argv))
		return -ECHILD;
	while (access(ready_path, F_OK) && !oracle_ended())
		nanosleep(&tick, NULL);
	return 0;
}

bool oracle_ended(void)
{
	siginfo_t info = { };

	return !oracle_pid ||
	       (!waitid(P_PID, oracle_pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid);
}

static int wait_for_it(void)
{
	int status = 0;

	while (oracle_pid && waitpid(oracle_pid, &status, 0) < 0 && errno == EINTR)
		;
	oracle_pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool output_has(const char *text)
{
	char line[512];
	FILE *f = fopen(output_path, "r");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, text);
	if (f)
		fclose(f);
	return found;
}

int oracle_end(const char *reason)
{
	const char *text = strcmp(reason, "cut") ? "ended by: limit" :
						   "failed: Input/output error";
	int status = wait_for_it();

	if (!status && output_has(text))
		return 0;
	say("# the workload ended with %d:", status);
	oracle_tell();
	return -EIO;
}

int oracle_verify(const struct rig *rig, const char *state, struct verified *v)
{
	char *argv[16] = { (char *)oracle, "verify", "--state", (char *)state };
	char line[512];
	u64 n[3];
	int status;
	FILE *f;

	memset(v, 0, sizeof(*v));
	volumes(rig, argv, 4);
	if (spawn(argv))
		return -ECHILD;
	status = wait_for_it();
	v->pages = rig_pages(rig);
	if (!status)
		return 0;
	v->unreadable = status != 1;
	f = fopen(output_path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lu garbage, %lu lost, %lu unstable", &n[0], &n[1], &n[2]) == 3) {
			v->garbage = n[0];
			v->lost = n[1];
			v->unstable = n[2];
		}
	if (f)
		fclose(f);
	say("# verify ended with %d:", status);
	oracle_tell();
	return -EIO;
}

/* ---- in the background ---- */

struct worker {
	pthread_t thread;
	bool running;
	enum work work;		/* which this is */
	int (*step)(struct worker *w);	/* again and again */
	const char *message;	/* tell_pool() */
	u64 member, delay_us;	/* WORK_FAIL */
	bool by_errors;
	u64 random;		/* WORK_STALL */
	struct rig *rig;
};

#define MOST_WORKERS	6

static struct worker worker[MOST_WORKERS];
static atomic_uint at;
static atomic_bool ending, does_not_fit;

static void sleep_us(u64 us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

/* There is a volume, written with anything, and then there is none. */
static int pass(struct worker *w)
{
	static char buffer[65536] __attribute__((aligned(4096))) = "anything";
	const struct rig *rig = w->rig;
	u64 sectors = 24 * rig->block_sectors, done = 0;
	unsigned int data = rig->data[2], parity = rig->parity[2];
	char path[32], table[32];
	dev_t dev;
	ssize_t wrote;
	int fd, error;

	error = dm_message(RIG_POOL, "create_volume %u passing %llu %u %u", PASSING,
			   (unsigned long long)sectors, data, parity);
	if (error) {
		/* one that a power cut has left */
		dm_message(RIG_POOL, "delete_volume %u", PASSING);
		return error;
	}
	snprintf(table, sizeof(table), "%u:%u %u", major(rig->pool), minor(rig->pool), PASSING);
	error = dm_make("t-v9", sectors, "fusion", table, &dev);
	if (error)
		return error;
	snprintf(path, sizeof(path), "/dev/dm-%u", minor(dev));
	fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	while (fd >= 0 && done < sectors << 9) {
		wrote = pwrite(fd, buffer, 65536, done);
		if (wrote <= 0)
			break;
		done += wrote;
	}
	close(fd);
	error = dm_unmake("t-v9");
	return error ? error : dm_message(RIG_POOL, "delete_volume %u", PASSING);
}

static void fail_member(const struct worker *w)
{
	char name[16];

	sleep_us(w->delay_us);
	at |= 1u << WORK_FAIL;
	if (!w->by_errors) {
		dm_message(RIG_POOL, "fail %llu", (unsigned long long)w->member);
		return;
	}
	snprintf(name, sizeof(name), "t-s%llu", (unsigned long long)w->member);
	dm_message(name, "fail reads yes");
	dm_message(name, "fail flushes yes");
	dm_message(name, "fail writes yes");
}

/* One of the SSDs stands still for longer than a window is, and then it is the next one's turn. */
static int stall(struct worker *w)
{
	char name[16];
	int error;

	snprintf(name, sizeof(name), "t-s%u", (unsigned int)draw(&w->random, w->rig->n));
	error = dm_message(name, "stall %u", 3000 + (unsigned int)draw(&w->random, 30000));
	sleep_us(draw(&w->random, 40000));
	return error;
}

/* Once: what the pool does then goes on by itself. */
static int grow(struct worker *w)
{
	int error = rig_grow(w->rig);

	w->step = NULL;
	return error;
}

static int tell_pool(struct worker *w)
{
	return dm_message(RIG_POOL, "%s", w->message);
}

static void *go_on(void *arg)
{
	struct worker *w = arg;
	int error = 0;

	if (w->work == WORK_FAIL)
		fail_member(w);
	while (w->step && !ending) {
		at |= 1u << w->work;
		error = w->step(w);
		at &= ~(1u << w->work);
		if (error == -EILSEQ)
			does_not_fit = true;
		/* what else may be is told by those who verify */
		if (error == -EIO || error == -ENXIO || error == -EROFS || error == -EILSEQ)
			break;
		if (error)
			sleep_us(1000);
	}
	return NULL;
}

static struct worker *begin(struct rig *rig, enum work work, int (*step)(struct worker *w))
{
	unsigned int i;

	for (i = 0; i < MOST_WORKERS && worker[i].running; i++)
		;
	worker[i].rig = rig;
	worker[i].work = work;
	worker[i].step = step;
	worker[i].running = true;
	return &worker[i];
}

static void begin_message(struct rig *rig, enum work work, const char *message)
{
	begin(rig, work, tell_pool)->message = message;
}

void background_begin(struct rig *rig, enum work work, u64 *random)
{
	struct worker *w;
	unsigned int i;

	ending = false;
	does_not_fit = false;
	at = 0;
	if (work == WORK_RESYNC)
		begin_message(rig, WORK_RESYNC, "resync");
	if (work == WORK_GROW)
		begin(rig, WORK_GROW, grow);
	if (work == WORK_CONVERT || work == WORK_DELETE || work == WORK_ALL || work == WORK_SCRUB ||
	    (work == WORK_GROW && draw(random, 2)))
		begin_message(rig, WORK_CONVERT, "convert");
	if (work == WORK_DESTAGE)
		begin_message(rig, WORK_DESTAGE, "convert");
	if (work == WORK_SCRUB || work == WORK_ALL)
		begin_message(rig, WORK_SCRUB, "scrub");
	if (work == WORK_DELETE || work == WORK_ALL || (work == WORK_GROW && draw(random, 2)))
		begin(rig, WORK_DELETE, pass);
	if (work == WORK_REBUILD)
		begin_message(rig, WORK_REBUILD, "rebuild");
	if (work == WORK_FAIL) {
		w = begin(rig, WORK_FAIL, NULL);
		w->member = draw(random, rig->n);
		w->by_errors = draw(random, 2);
		w->delay_us = draw(random, 300000);
	}
	if (rig->spiky)
		begin(rig, WORK_STALL, stall)->random = draw(random, 1ULL << 40);
	for (i = 0; i < MOST_WORKERS; i++)
		if (worker[i].running && pthread_create(&worker[i].thread, NULL, go_on, &worker[i]))
			abort();
}

unsigned int background_at(void)
{
	return at;
}

int background_end(void)
{
	unsigned int i;

	ending = true;
	for (i = 0; i < MOST_WORKERS; i++)
		if (worker[i].running) {
			pthread_join(worker[i].thread, NULL);
			worker[i].running = false;
		}
	return does_not_fit ? -EILSEQ : 0;
}
