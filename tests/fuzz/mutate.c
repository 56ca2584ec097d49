// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text that is nearly right.  See mutate.h.
 */
#define _GNU_SOURCE
#include "mutate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a line: more is cut off. */
#define MAX_ARGS	400
#define WORD_BYTES	300

static uint64_t state;

void random_seed(uint64_t seed)
{
	state = seed;
}

uint64_t random_below(uint64_t below)
{
	uint64_t x = state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return (x ^ (x >> 31)) % below;
}

static void add_word(struct examples *e, const char *word)
{
	unsigned int i;

	for (i = 0; i < e->words; i++)
		if (!strcmp(e->word[i], word))
			return;
	if (e->words < MAX_WORDS)
		e->word[e->words++] = strdup(word);
}

void examples_read(struct examples *e, const char *path)
{
	FILE *f = fopen(path, "r");
	char *line = NULL, *copy, *word, *rest;
	size_t size = 0;

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	while (getline(&line, &size, f) > 0 && e->lines < MAX_EXAMPLES) {
		line[strcspn(line, "\n")] = 0;
		if (!*line)
			continue;
		e->line[e->lines++] = strdup(line);
		rest = copy = strdup(line);
		while ((word = strsep(&rest, " ")))
			add_word(e, word);
		free(copy);
	}
	free(line);
	fclose(f);
	if (!e->lines) {
		fprintf(stderr, "%s: no examples\n", path);
		exit(2);
	}
}

/* ---- words ---- */

static const char *const odd[] = {
	"", "-", "--", "0", "00", "-0", "+1", "-1", "1", "2", "3", "4", "5", "6", "7", "8", "9",
	"15", "16", "17", "31", "32", "63", "64", "65", "127", "128", "129", "255", "256", "257",
	"511", "512", "513", "1024", "4095", "4096", "65535", "65536", "16777215", "16777216",
	"2147483647", "2147483648", "4294967295", "4294967296", "281474976710656",
	"9007199254740991", "36028797018963967", "36028797018963968",
	"9223372036854775807", "9223372036854775808", "18446744073709551608",
	"18446744073709551615", "18446744073709551616", "99999999999999999999999999",
	"0x10", "0x", "1.5", "1e3", "1k", " ", "\\", "\\ ", "\\\\", "\t", "\n", "\x7f", "\xff\xfe",
	"%s", "%n%n", "/", "/dev", "/dev/null", "/dev/mapper/control", "/dev/mapper/none", "..",
	"1:1", "0:0", "4294967295:4294967295", "@", "@cancel_deferred_remove", "mols", "MOLS",
	"error_if_no_space", "unlabelled", "no_discard_passdown",
};

static char *arg[MAX_ARGS];
static unsigned int args;

static void set_arg(unsigned int i, const char *word)
{
	char *old = arg[i];

	/* it may be what word is part of */
	arg[i] = strdup(word);
	if (strlen(arg[i]) > WORD_BYTES)
		arg[i][WORD_BYTES] = 0;
	free(old);
}

static const char *some_word(const struct examples *e)
{
	static char text[WORD_BYTES + 1];
	unsigned int i, n;

	switch (random_below(4)) {
	case 0:
		return e->word[random_below(e->words)];
	case 1:
		/* as many digits as come */
		snprintf(text, sizeof(text), "%" PRIu64,
			 random_below(1ULL << random_below(64)));
		return text;
	case 2:
		if (random_below(8))
			break;
		n = random_below(WORD_BYTES);
		for (i = 0; i < n; i++)
			text[i] = random_below(2) ? 'a' : 1 + random_below(255);
		text[n] = 0;
		return text;
	}
	return odd[random_below(sizeof(odd) / sizeof(*odd))];
}

/* A number becomes its neighbour, or twice or half of it, or one with another bit. */
static bool change_number(unsigned int i)
{
	char text[32], *end;
	uint64_t n;

	errno = 0;
	n = strtoull(arg[i], &end, 10);
	if (errno || *end || end == arg[i])
		return false;
	switch (random_below(5)) {
	case 0:
		n++;
		break;
	case 1:
		n--;
		break;
	case 2:
		n *= 2;
		break;
	case 3:
		n /= 2;
		break;
	case 4:
		n ^= 1ULL << random_below(64);
		break;
	}
	snprintf(text, sizeof(text), "%" PRIu64, n);
	set_arg(i, text);
	return true;
}

static void change_byte(unsigned int i)
{
	size_t n = strlen(arg[i]);

	if (!n)
		set_arg(i, "x");
	else
		arg[i][random_below(n)] ^= 1 << random_below(7);
}

static void insert(unsigned int i, const char *word)
{
	if (args == MAX_ARGS)
		return;
	memmove(&arg[i + 1], &arg[i], (args - i) * sizeof(*arg));
	arg[i] = NULL;
	args++;
	set_arg(i, word);
}

static void erase(unsigned int i)
{
	free(arg[i]);
	args--;
	memmove(&arg[i], &arg[i + 1], (args - i) * sizeof(*arg));
}

static void split(const char *line)
{
	char *copy = strdup(line), *rest = copy, *word;

	while (args)
		erase(args - 1);
	while ((word = strsep(&rest, " ")))
		insert(args, word);
	free(copy);
}

static void change(const struct examples *e)
{
	unsigned int i, j;
	char *t;

	if (!args) {
		insert(0, some_word(e));
		return;
	}
	i = random_below(args);
	switch (random_below(8)) {
	case 0:
		insert(i, some_word(e));
		break;
	case 1:
		erase(i);
		break;
	case 2:
		j = random_below(args);
		t = arg[i];
		arg[i] = arg[j];
		arg[j] = t;
		break;
	case 3:
		change_byte(i);
		break;
	case 4:
		insert(i, arg[random_below(args)]);
		break;
	case 5:
		/* the end, now and then */
		if (random_below(4))
			set_arg(i, some_word(e));
		else
			while (args > i)
				erase(args - 1);
		break;
	default:
		if (!change_number(i))
			set_arg(i, some_word(e));
	}
}

void mutate(const struct examples *e, char *text, size_t bytes)
{
	unsigned int i, changes = 0;
	size_t n = 0;

	split(e->line[random_below(e->lines)]);
	/* one in 16 is right; most of the others have one or two mistakes */
	if (random_below(16))
		do {
			change(e);
		} while (random_below(3) == 0 || ++changes < random_below(3));
	*text = 0;
	for (i = 0; i < args && n + strlen(arg[i]) + 2 < bytes; i++)
		n += sprintf(text + n, "%s%s", i ? " " : "", arg[i]);
}
