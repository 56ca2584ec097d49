// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "latencies.h"

int latencies_add(struct latencies *l, uint64_t ns)
{
	size_t room = l->room ? l->room * 2 : 4096;
	uint64_t *more;

	if (l->count == l->room) {
		more = realloc(l->ns, room * sizeof(*more));
		if (!more)
			return -1;
		l->ns = more;
		l->room = room;
	}
	l->ns[l->count++] = ns;
	l->sorted = false;
	return 0;
}

int latencies_add_all(struct latencies *l, const struct latencies *other)
{
	size_t i;

	for (i = 0; i < other->count; i++)
		if (latencies_add(l, other->ns[i]))
			return -1;
	return 0;
}

void latencies_free(struct latencies *l)
{
	free(l->ns);
	*l = (struct latencies) {};
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void sort(struct latencies *l)
{
	if (!l->sorted)
		qsort(l->ns, l->count, sizeof(*l->ns), compare);
	l->sorted = true;
}

/* The number of the first of the slowest 1 - @part. */
static size_t behind(const struct latencies *l, double part)
{
	size_t i = part * l->count;

	return i < l->count ? i : l->count - 1;
}

uint64_t latencies_percentile(struct latencies *l, double part)
{
	if (!l->count)
		return 0;
	sort(l);
	return l->ns[behind(l, part)];
}

double latencies_slowest(struct latencies *l, double part)
{
	size_t first, i;
	double sum = 0;

	if (!l->count)
		return 0;
	sort(l);
	first = behind(l, 1 - part);
	for (i = first; i < l->count; i++)
		sum += l->ns[i];
	return sum / (l->count - first);
}

void latencies_print(struct latencies *l, bool cdf, FILE *out)
{
	static const struct {
		const char *name;
		double part;
	} percentiles[] = {
		{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 },
	}, slowest[] = {
		{ "mean", 1 }, { "slowest10", 0.1 }, { "slowest1", 0.01 }, { "slowest01", 0.001 },
	};
	double left;
	size_t i;

	fprintf(out, "{\"ios\":%zu", l->count);
	for (i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
		fprintf(out, ",\"%s\":%" PRIu64, percentiles[i].name,
			latencies_percentile(l, percentiles[i].part));
	for (i = 0; i < sizeof(slowest) / sizeof(slowest[0]); i++)
		fprintf(out, ",\"%s\":%.0f", slowest[i].name, latencies_slowest(l, slowest[i].part));
	if (cdf) {
		/* so that each tenth of what is left has as many points: [part, ns] */
		fprintf(out, ",\"cdf\":[[0,%" PRIu64 "]", latencies_percentile(l, 0));
		for (left = 0.9; left * l->count >= 1; left *= left > 0.5 ? 0.95 : 0.891)
			fprintf(out, ",[%.6f,%" PRIu64 "]", 1 - left, latencies_percentile(l, 1 - left));
		fprintf(out, "]");
	}
	fprintf(out, "}");
}
