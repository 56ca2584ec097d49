// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each allocation of a call fails once, each time another: for n = 1, 2, ... the call is
 * made with its n-th allocation failing, until it makes no more than n.
 *
 * Which allocations count is set in debugfs by the caller: failslab and fail_page_alloc.
 * The call may end with an error, or without.  Made again with nothing failing it may
 * not, but for a pool that has become read-only: that ends the round, and who called
 * starts the pool anew and goes on after that.
 */
#define _GNU_SOURCE
#include "dm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE		4096u
#define MAX_PAGES	256u

static const char usage_text[] =
"Usage: nth N NAME load START LENGTH TARGET PARAMETERS\n"
"       nth N NAME start START LENGTH TARGET PARAMETERS\n"
"       nth N NAME message TEXT [UNDO]\n"
"       nth N NAME read|write PAGE PAGES\n"
"\n"
"From the N-th allocation on:\n"
"load     into NAME, which is there: it is loaded at the end\n"
"start    of NAME, made for it and removed: a resume after a load, of which nothing fails\n"
"message  to NAME; if it was taken, the message UNDO makes that it can be sent again\n"
"read     of the device NAME, past the page cache; what was read must be the same\n"
"write    of what says which time it is; what was written must be what is read\n"
"\n"
"Prints how many allocations failed, and how often the call did.  Exit status: 1: the\n"
"call failed also without that, or did what it should not; 3: likewise, of a pool that\n"
"may have become read-only.  Then the last line is the number to go on with.\n";

static const char *name;
static struct dm_line line;
static const char *text, *undo;
static int device;
static off_t offset;
static size_t bytes;
static char *buffer, *expected;
static unsigned int writes;

static int fail_nth(unsigned int n)
{
	char number[16];
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC), length;

	length = snprintf(number, sizeof(number), "%u", n);
	if (fd < 0 || write(fd, number, length) != length) {
		perror("/proc/thread-self/fail-nth");
		exit(2);
	}
	return fd;
}

/* How many allocations were left to be made; none fails from here on. */
static unsigned int left(int fd)
{
	char number[16] = "";

	if (pread(fd, number, sizeof(number) - 1, 0) <= 0 || pwrite(fd, "0", 1, 0) != 1) {
		perror("/proc/thread-self/fail-nth");
		exit(2);
	}
	close(fd);
	return strtoul(number, NULL, 10);
}

static void wrong(const char *what, unsigned int n)
{
	printf("%s, when allocation %u had failed\n", what, n);
	exit(1);
}

/* ---- the calls: before one, it, after it: what it did is taken back ---- */

static void nothing(void)
{
}

static int load(void)
{
	return dm_load(name, &line);
}

static void load_undo(void)
{
	dm_clear(name);
}

static void start_remove(void)
{
	/* udev looks at it */
	while (dm_remove(name) == -EBUSY)
		usleep(1000);
}

static void start_prepare(void)
{
	int r = dm_create(name, NULL);

	if (!r)
		r = dm_load(name, &line);
	if (r) {
		printf("%s cannot be loaded: %s\n", name, strerror(-r));
		exit(1);
	}
}

static int start(void)
{
	return dm_suspend(name, false);
}

static int message(void)
{
	return dm_message(name, "%s", text);
}

static void message_undo(void)
{
	if (undo)
		dm_message(name, "%s", undo);
}

static int transfer(ssize_t r)
{
	if (r < 0)
		return -errno;
	return (size_t)r == bytes ? 0 : -EIO;
}

static int read_pages(void)
{
	return transfer(pread(device, buffer, bytes, offset));
}

static void read_check(void)
{
	if (memcmp(buffer, expected, bytes))
		wrong("something else was read", 0);
}

static void write_prepare(void)
{
	size_t i;

	writes++;
	for (i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *)expected)[i] = (uint64_t)writes << 32 | i;
}

static int write_pages(void)
{
	return transfer(pwrite(device, expected, bytes, offset));
}

static void write_check(void)
{
	memset(buffer, 0, bytes);
	if (read_pages())
		wrong("what was written cannot be read", 0);
	read_check();
}

struct call {
	const char *name;
	int arguments;
	void (*prepare)(void);
	int (*call)(void);
	void (*done)(void);
	/* what makes it possible to try again: if it failed, too */
	void (*after)(void);
	bool again;		/* a failed one is tried again, at once */
};

static const struct call calls[] = {
	{ "load", 4, nothing, load, load_undo, nothing, false },
	{ "start", 4, start_prepare, start, nothing, start_remove, false },
	{ "message", 1, nothing, message, message_undo, nothing, true },
	{ "message", 2, nothing, message, message_undo, nothing, true },
	{ "read", 2, nothing, read_pages, read_check, nothing, true },
	{ "write", 2, write_prepare, write_pages, write_check, nothing, true },
};

static int each(const struct call *c, unsigned int first)
{
	unsigned int n, failed = 0, rest;
	int fd, r, again;

	for (n = first; ; n++) {
		c->prepare();
		fd = fail_nth(n);
		r = c->call();
		rest = left(fd);
		if (rest)
			break;
		if (r) {
			failed++;
			again = c->again ? c->call() : -ECANCELED;
			if (!again) {
				c->done();
			} else if (c->again) {
				printf("allocation %u failed; then: %s\n%u\n", n,
				       strerror(-again), n + 1);
				return 3;
			}
		} else {
			c->done();
		}
		c->after();
	}
	printf("%u allocations failed, and the call %u times\n", n - first, failed);
	if (r) {
		printf("it fails also without that: %s\n", strerror(-r));
		return 1;
	}
	if (c->again)
		c->done();
	c->after();
	return 0;
}

static void open_device(char **argv)
{
	char path[256];

	offset = strtoull(argv[0], NULL, 10) * PAGE;
	bytes = strtoul(argv[1], NULL, 10) * PAGE;
	snprintf(path, sizeof(path), "/dev/mapper/%s", name);
	device = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (device < 0 || bytes > MAX_PAGES * PAGE) {
		perror(path);
		exit(2);
	}
	buffer = aligned_alloc(PAGE, MAX_PAGES * PAGE);
	expected = aligned_alloc(PAGE, MAX_PAGES * PAGE);
	if (!buffer || !expected || read_pages()) {
		perror(path);
		exit(2);
	}
	memcpy(expected, buffer, bytes);
}

int main(int argc, char **argv)
{
	const struct call *c;

	if (argc < 5)
		goto usage;
	name = argv[2];
	for (c = calls; c < calls + sizeof(calls) / sizeof(calls[0]); c++)
		if (!strcmp(c->name, argv[3]) && c->arguments == argc - 4)
			break;
	if (c == calls + sizeof(calls) / sizeof(calls[0]))
		goto usage;
	if (c->arguments == 4) {
		line.start = strtoull(argv[4], NULL, 10);
		line.length = strtoull(argv[5], NULL, 10);
		strncpy(line.target, argv[6], sizeof(line.target) - 1);
		snprintf(line.params, sizeof(line.params), "%s", argv[7]);
	} else if (c->call == message) {
		text = argv[4];
		undo = argv[5];
	} else {
		open_device(argv + 4);
	}
	return each(c, strtoul(argv[1], NULL, 10));
usage:
	fputs(usage_text, stderr);
	return 2;
}
