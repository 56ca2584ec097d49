// SPDX-License-Identifier: GPL-2.0-only
/*
 * Table lines and messages that are nearly right, as many a second as go.
 *
 * The kernel may refuse them, or do what they say.  What must not be is found by
 * others: the kernel's log, and who looks at the data of the pools that are there.
 * What is checked here: a table that was loaded is shown as a line that can be
 * loaded, and that is shown as itself.
 *
 * All that is refused is logged, far more than the log's buffer holds.  So the log is
 * followed: what is not of device-mapper is printed.
 */
#define _GNU_SOURCE
#include "dm.h"
#include "mutate.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage_text[] =
"Usage: fuzz tables [OPTION...] --examples FILE NAME\n"
"       fuzz messages [OPTION...] --examples FILE NAME\n"
"\n"
"tables    loads table lines like those in FILE for a device NAME, which it makes\n"
"          and removes\n"
"messages  sends messages like those in FILE to the device NAME\n"
"\n"
"  --seed N        (1)\n"
"  --seconds S     for so long (10)\n"
"  --least N       but at least so many (0)\n"
"  --count N       no more than so many (no limit)\n"
"  --resume PREFIX tables on devices whose paths begin so, and no others, are\n"
"                  resumed, too, and removed\n"
"  --not WORDS     messages that begin so are left out; may be repeated\n"
"  --print         only print them\n"
"\n"
"Exit status: 0; 1: a table was not shown as it was loaded; 2: something is missing.\n";

static struct examples examples;
static uint64_t seed = 1, least, most = UINT64_MAX, sent, taken, resumed;
static double seconds = 10;
static const char *resume_prefix, *name;
static const char *unwanted[16];
static unsigned int nunwanted;
static bool print;

/* ---- the kernel's log ---- */

static int kmsg = -1;

static void log_open(void)
{
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg >= 0)
		lseek(kmsg, 0, SEEK_END);
}

static void log_follow(void)
{
	static char record[8192 + 1];
	char *text, *end;
	ssize_t n;

	for (;;) {
		n = read(kmsg, record, sizeof(record) - 1);
		/* overwritten before it was read: that is never to be */
		if (n < 0 && errno == EPIPE) {
			printf("the kernel's log was too fast\n");
			continue;
		}
		if (n <= 0)
			return;
		record[n] = 0;
		text = strchr(record, ';');
		if (!text)
			continue;
		end = strchr(++text, '\n');
		if (end)
			*end = 0;
		if (strncmp(text, "device-mapper: ", 15))
			printf("log: %s\n", text);
	}
}

/* ---- tables ---- */

static const char *next_word(const char **rest, char *word, size_t bytes)
{
	size_t n = strcspn(*rest, " ");

	snprintf(word, bytes, "%.*s", (int)n, *rest);
	*rest += n;
	*rest += **rest == ' ';
	return word;
}

static void parse(const char *text, struct dm_line *line)
{
	char word[64];

	line->start = strtoull(next_word(&text, word, sizeof(word)), NULL, 0);
	line->length = strtoull(next_word(&text, word, sizeof(word)), NULL, 0);
	memset(line->target, 0, sizeof(line->target));
	next_word(&text, line->target, sizeof(line->target));
	snprintf(line->params, sizeof(line->params), "%s", text);
}

/* Nothing but devices that may be used. */
static bool may_resume(const char *params)
{
	char word[DM_TEXT_BYTES];

	if (!resume_prefix || strpbrk(params, ":\\\t\n"))
		return false;
	while (*params) {
		next_word(&params, word, sizeof(word));
		if (strchr(word, '/') && strncmp(word, resume_prefix, strlen(resume_prefix)))
			return false;
	}
	return true;
}

static void wrong(const char *what, int r, const char *line)
{
	printf("seed %" PRIu64 ", line %" PRIu64 ": %s (%s): %s\n", seed, sent, what,
	       strerror(-r), line);
	exit(1);
}

/* What was loaded is shown as a line that can be loaded, and shown as itself. */
static void check_shown(struct dm_line *line)
{
	char first[DM_TEXT_BYTES];
	int r;

	r = dm_text(name, DM_LOADED, line->params, sizeof(line->params));
	if (r)
		wrong("it is loaded, and not shown", r, "");
	strcpy(first, line->params);
	r = dm_load(name, line);
	if (r)
		wrong("what is shown cannot be loaded", r, first);
	r = dm_text(name, DM_LOADED, line->params, sizeof(line->params));
	if (r || strcmp(first, line->params))
		wrong("what is shown is loaded and shown differently", r, line->params);
}

static void resume(const struct dm_line *line)
{
	char text[DM_TEXT_BYTES];

	if (dm_suspend(name, false))
		return;
	resumed++;
	dm_text(name, DM_LIVE, text, sizeof(text));
	dm_text(name, DM_INFO, text, sizeof(text));
	dm_message(name, "create_volume 1 one 2048 2 1");
	dm_message(name, "delete_volume 1");
	/* over a table that is in use */
	dm_load(name, line);
	dm_suspend(name, true);
	dm_suspend(name, false);
	while (dm_remove(name) == -EBUSY)
		/* udev looks at it */
		usleep(1000);
	if (dm_create(name, NULL))
		wrong("cannot make the device again", 0, name);
}

static void try_table(const char *text)
{
	struct dm_line line;
	bool free;

	parse(text, &line);
	if (dm_load(name, &line))
		return;
	taken++;
	free = may_resume(line.params);
	check_shown(&line);
	if (free)
		resume(&line);
	dm_clear(name);
}

/* ---- messages ---- */

static bool is_unwanted(const char *text)
{
	unsigned int i;

	for (i = 0; i < nunwanted; i++)
		if (!strncasecmp(text, unwanted[i], strlen(unwanted[i])))
			return true;
	return false;
}

static void try_message(const char *text)
{
	if (!dm_message(name, "%s", text))
		taken++;
}

/* ---- all ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void run(void (*try)(const char *text))
{
	double begun = now(), over;
	char text[DM_TEXT_BYTES];

	random_seed(seed);
	while (sent < most && (sent < least || now() - begun < seconds)) {
		mutate(&examples, text, sizeof(text));
		if (is_unwanted(text))
			continue;
		sent++;
		if (print) {
			printf("%s\n", text);
			continue;
		}
		try(text);
		if (!(sent % 16))
			log_follow();
	}
	if (print)
		return;
	log_follow();
	over = now() - begun;
	printf("seed %" PRIu64 ": %" PRIu64 " in %.1f s, %.0f a second; %" PRIu64 " were taken, %"
	       PRIu64 " resumed\n", seed, sent, over, sent / over, taken, resumed);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "examples", required_argument, NULL, 'e' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "least", required_argument, NULL, 'l' },
		{ "count", required_argument, NULL, 'c' },
		{ "resume", required_argument, NULL, 'r' },
		{ "not", required_argument, NULL, 'n' },
		{ "print", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	bool tables;
	int c, r;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (c) {
		case 'e':
			examples_read(&examples, optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 't':
			seconds = strtod(optarg, NULL);
			break;
		case 'c':
			most = strtoull(optarg, NULL, 10);
			break;
		case 'l':
			least = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			resume_prefix = optarg;
			break;
		case 'n':
			if (nunwanted < sizeof(unwanted) / sizeof(*unwanted))
				unwanted[nunwanted++] = optarg;
			break;
		case 'p':
			print = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		default:
			return 2;
		}
	if (argc - optind != 2 || !examples.lines) {
		fputs(usage_text, stderr);
		return 2;
	}
	tables = !strcmp(argv[optind], "tables");
	if (!tables && strcmp(argv[optind], "messages")) {
		fputs(usage_text, stderr);
		return 2;
	}
	name = argv[optind + 1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (print) {
		run(NULL);
		return 0;
	}
	log_open();
	if (tables) {
		r = dm_create(name, NULL);
		if (r) {
			fprintf(stderr, "%s: cannot make it: %s\n", name, strerror(-r));
			return 2;
		}
	}
	run(tables ? try_table : try_message);
	if (tables)
		while (dm_remove(name) == -EBUSY)
			usleep(1000);
	return 0;
}
