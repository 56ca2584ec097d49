// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a pool makes of its metadata: it is started, used in all ways, and removed.  See
 * usage.
 *
 * Each step may fail, but must end: another process looks at that, as one that hangs in
 * the kernel can be neither ended nor waited for.
 */
#define _GNU_SOURCE
#include "dm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <linux/fs.h>
#include <unistd.h>

#define PAGE		4096u
#define CHUNK		(1u << 16)
#define MAX_VOLUMES	4
/* Of those that are larger one chunk in sixteen is read. */
#define SMALL		(16u << 20)

static const char usage_text[] =
"Usage: bear read|use SECONDS NAME LENGTH PARAMETERS FILE...\n"
"\n"
"Makes the pool NAME of a table line, and of its volumes 0, 1, ... devices, of the size of\n"
"FILEs. All is removed at the end.\n"
"\n"
"read  reads the volumes: each page that can be read must be as in its FILE\n"
"use   reads, writes, discards, flushes, has the pool do all that there are messages for,\n"
"      suspends and resumes; what is read may be anything\n"
"\n"
"Prints what became of it: \"refused\", with the error, or the mode at the end. Exit status\n"
"1: something else was read; 3: a step did not end within SECONDS.\n";

static const char *pool, *params;
static struct {
	char name[32], path[64];
	uint64_t bytes;
	const char *expected;
	int fd;			/* -1: it could not be started */
} volume[MAX_VOLUMES];
static unsigned int volumes;
static char *buffer;
static unsigned int failed;

/* What the other process knows. */
static struct {
	char step[128], result[256];
	unsigned int wrong;
} *shared;

static void step(const char *what)
{
	snprintf(shared->step, sizeof(shared->step), "%s", what);
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	size_t bytes = strlen(shared->result);
	va_list args;

	va_start(args, format);
	vsnprintf(shared->result + bytes, sizeof(shared->result) - bytes, format, args);
	va_end(args);
}

/* ---- devices ---- */

/* What has it open lets it go, or never does. */
static void end(const char *name)
{
	while (dm_remove(name) == -EBUSY)
		usleep(1000);
}

static void start_volumes(void)
{
	char path[64], parameters[128];
	unsigned int i;

	if (dm_path(pool, path, sizeof(path)))
		return;
	for (i = 0; i < volumes; i++) {
		volume[i].fd = -1;
		snprintf(parameters, sizeof(parameters), "%s %u", path, i);
		if (!dm_make(volume[i].name, volume[i].bytes / 512, "fusion", parameters, NULL) &&
		    !dm_path(volume[i].name, volume[i].path, sizeof(volume[i].path)))
			volume[i].fd = open(volume[i].path, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (volume[i].fd < 0)
			failed++;
	}
}

static void end_volume(unsigned int i)
{
	if (volume[i].fd >= 0)
		close(volume[i].fd);
	volume[i].fd = -1;
	end(volume[i].name);
}

/* ---- what is done ---- */

/* @same: what can be read must be as it was. */
static void read_all(bool same)
{
	unsigned int i, page;
	uint64_t at;
	ssize_t r;

	for (i = 0; i < volumes; i++) {
		uint64_t step = volume[i].bytes > SMALL ? 16 * CHUNK : CHUNK;

		for (at = 0; volume[i].fd >= 0 && at < volume[i].bytes; at += step) {
			r = pread(volume[i].fd, buffer, CHUNK, at);
			if (r != CHUNK) {
				failed++;
				continue;
			}
			for (page = 0; same && page < CHUNK; page += PAGE)
				if (memcmp(buffer + page, volume[i].expected + at + page, PAGE)) {
					if (!shared->wrong++)
						say("volume %u, page %" PRIu64 ": something else is read, ",
						    i, (at + page) / PAGE);
				}
		}
	}
}

static void write_pages(unsigned int i, unsigned int page, unsigned int pages)
{
	uint64_t at = (uint64_t)page * PAGE;
	size_t bytes = (size_t)pages * PAGE;

	if (volume[i].fd < 0)
		return;
	/* the same as before, so far as it can matter */
	if (pwrite(volume[i].fd, volume[i].expected + at, bytes, at) != (ssize_t)bytes)
		failed++;
}

static void write_some(void)
{
	unsigned int n, i;

	for (i = 0; i < volumes; i++) {
		unsigned int pages = volume[i].bytes / PAGE;

		/* of one page: in all blocks' kinds; of a few; of whole blocks; of stripes */
		for (n = 0; n < 48; n++)
			write_pages(i, n * (pages / 48), 1);
		for (n = 0; n < 8; n++)
			write_pages(i, n * (pages / 8) + 5, 7);
		for (n = 0; n < 4; n++)
			write_pages(i, n * (pages / 4) + 32, 16);
		write_pages(i, 64, 128);
		write_pages(i, pages / 2 + 64, 192);
	}
}

static void discard(void)
{
	uint64_t range[2];
	unsigned int i, n;

	for (i = 0; i < volumes; i++)
		for (n = 0; volume[i].fd >= 0 && n < 4; n++) {
			range[0] = n * (volume[i].bytes / 4) + (n << 19);
			range[1] = 1 << 19;
			if (ioctl(volume[i].fd, BLKDISCARD, range))
				failed++;
		}
}

static void flush(void)
{
	unsigned int i;

	for (i = 0; i < volumes; i++)
		if (volume[i].fd >= 0 && fsync(volume[i].fd))
			failed++;
}

static void messages(const char * const *text)
{
	for (; *text; text++) {
		step(*text);
		if (dm_message(pool, "%s", *text))
			failed++;
	}
}

static void suspend_all(void)
{
	unsigned int i;

	step("suspend");
	for (i = 0; i < volumes; i++)
		dm_suspend(volume[i].name, true);
	dm_suspend(pool, true);
	step("resume");
	dm_suspend(pool, false);
	for (i = 0; i < volumes; i++)
		dm_suspend(volume[i].name, false);
}

static void use(void)
{
	static const char * const first[] = { "volumes", "settings", "resync", NULL };
	static const char * const all[] = {
		"convert", "scrub", "repair", "rebuild", "replace 2", "rebuild", "fail 4", "rebuild",
		"create_volume 9 nine 2048 3 1", "resize_volume 0 65536", NULL
	};
	static const char * const last[] = { "delete_volume 1", "delete_volume 9", "convert", "scrub", NULL };
	static char text[DM_TEXT_BYTES];

	messages(first);
	step("read");
	read_all(false);
	step("write");
	write_some();
	step("discard");
	discard();
	step("flush");
	flush();
	messages(all);
	step("write again");
	write_some();
	step("flush again");
	flush();
	suspend_all();
	step("status");
	dm_text(pool, DM_INFO, text, sizeof(text));
	step("remove a volume");
	end_volume(1);
	messages(last);
	step("read again");
	read_all(false);
}

static int bear(bool all, uint64_t length)
{
	static char text[DM_TEXT_BYTES];
	unsigned int i;
	int r;

	step("start the pool");
	r = dm_make(pool, length, "fusion-pool", params, NULL);
	if (r) {
		say("refused: %s", strerror(-r));
		return 0;
	}
	if (!all) {
		step("pause");
		dm_message(pool, "set paused 1");
	}
	step("start the volumes");
	start_volumes();
	step("read");
	if (all)
		use();
	else
		read_all(true);
	step("status");
	r = dm_text(pool, DM_INFO, text, sizeof(text));
	text[strcspn(text, " ")] = 0;
	step("remove the volumes");
	for (i = 0; i < volumes; i++)
		end_volume(i);
	step("remove the pool");
	end(pool);
	say("%s, %u calls failed, %u pages wrong", r ? "no status" : text, failed, shared->wrong);
	return shared->wrong ? 1 : 0;
}

static void add_volume(const char *path)
{
	unsigned int i = volumes++;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	snprintf(volume[i].name, sizeof(volume[i].name), "t-v%u", i);
	volume[i].fd = -1;
	volume[i].bytes = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	volume[i].expected = mmap(NULL, volume[i].bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (volume[i].expected == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	bool all = argc > 2 && !strcmp(argv[1], "use");
	unsigned int seconds, waited, i;
	int status;
	pid_t pid;

	if (argc < 7 || argc > 6 + MAX_VOLUMES || (!all && strcmp(argv[1], "read"))) {
		fputs(usage_text, stderr);
		return 2;
	}
	seconds = strtoul(argv[2], NULL, 10);
	pool = argv[3];
	params = argv[5];
	for (i = 6; i < (unsigned int)argc; i++)
		add_volume(argv[i]);
	buffer = aligned_alloc(PAGE, CHUNK);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!buffer || shared == MAP_FAILED) {
		perror("memory");
		return 2;
	}
	pid = fork();
	if (!pid) {
		/* who waits for the end of what we print does not wait for one that hangs */
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		_exit(bear(all, strtoull(argv[4], NULL, 10)));
	}
	for (waited = 0; waited < seconds * 1000; waited += 5) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			printf("%s%s\n", shared->result, WIFEXITED(status) ? "" : " killed");
			return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
		}
		usleep(5000);
	}
	printf("hangs: %s, process %d\n", shared->step, pid);
	return 3;
}
