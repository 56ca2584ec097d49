/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Latencies, all of them, and what they come to.
 */
#ifndef LOAD_LATENCIES_H
#define LOAD_LATENCIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct latencies {
	uint64_t *ns;
	size_t count, room;
	bool sorted;
};

/* -1: no memory. */
int latencies_add(struct latencies *l, uint64_t ns);
int latencies_add_all(struct latencies *l, const struct latencies *other);
void latencies_free(struct latencies *l);

/* At most so long @part (0 to 1) of them took; 0 if there is none. */
uint64_t latencies_percentile(struct latencies *l, double part);
/* The mean of the slowest @part of them, one at least. */
double latencies_slowest(struct latencies *l, double part);

/* All that as a JSON object, in ns; with their distribution if @cdf. */
void latencies_print(struct latencies *l, bool cdf, FILE *out);

#endif
