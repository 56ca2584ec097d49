/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text that is nearly right: words of examples, with some of them changed.
 *
 * What comes is a function of the seed, of the examples and of how often it was
 * asked for, and of nothing else.
 */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#define MAX_EXAMPLES	64
#define MAX_WORDS	256

struct examples {
	char *line[MAX_EXAMPLES];
	unsigned int lines;
	/* all words of all lines, each once */
	char *word[MAX_WORDS];
	unsigned int words;
};

/* A line each; none are empty. */
void examples_read(struct examples *e, const char *path);

void random_seed(uint64_t seed);
uint64_t random_below(uint64_t below);

/* One example, changed, or not. */
void mutate(const struct examples *e, char *text, size_t bytes);

#endif
