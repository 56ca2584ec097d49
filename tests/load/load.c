// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O on block devices as it comes: each at its time, whether those before it have ended or not, so
 * that what is slow does not hold back what would have found it slow.  Latency counts from the time
 * at which it came.  See usage().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"

#define MAX_DEVICES	64

static struct device devices[MAX_DEVICES];
static struct {
	double seconds, ramp, slower;
	uint64_t seed;
	bool cdf;
} opt = { .seconds = 10, .slower = 1, .seed = 1 };

static void usage(FILE *out)
{
	fprintf(out,
"Usage: load [OPTION...] DEVICE:LOAD...\n"
"\n"
"Reads and writes the devices, all at once, and writes as JSON how long it took.  What is\n"
"on them is lost.  A LOAD is\n"
"\n"
"  IOPS:WRITES:KB     at random, so many a second, so many percent of them writes, of so\n"
"                     many KB in the mean, half of them smaller and a fifth larger\n"
"  IOPS:WRITES:KB:same\n"
"                     the same, all of so many KB, as whole pages\n"
"  FORMAT:FILE        as a trace says: msr, spc or blktrace\n"
"\n"
"  --seconds N        for so long, and until the last has ended (10)\n"
"  --ramp N           what comes in the first N seconds of these does not count (0)\n"
"  --slower N         come N times slower (1)\n"
"  --seed N           of what is random (1)\n"
"  --cdf              with the distributions, the longest I/O of each 400th of the time, and\n"
"                     the 64 longest of each device\n"
"  --help             this text\n"
"\n"
"Times are nanoseconds.\n");
}

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "load: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	exit(2);
}

static double positive(const char *name, const char *text)
{
	char *end;
	double n = strtod(text, &end);

	if (*end || end == text || !(n > 0) || n > 1e9)
		die("%s: '%s' is not a number above 0", name, text);
	return n;
}

/* Of a load that begins with one and a colon; -1: of none. */
static int format_of(const char *load)
{
	static const char * const formats[] = {
		[TRACE_MSR] = "msr", [TRACE_SPC] = "spc", [TRACE_BLKTRACE] = "blktrace",
	};
	unsigned int i;
	size_t n;

	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		n = strlen(formats[i]);
		if (!strncmp(formats[i], load, n) && load[n] == ':')
			return i;
	}
	return -1;
}

static void use_trace(struct device *d, enum trace_format format, const char *path)
{
	FILE *trace = fopen(path, "r");

	if (!trace)
		die("%s: %s", path, strerror(errno));
	arrivals_read(&d->arrivals, trace, format, d->size, opt.slower);
}

static void use_load(struct device *d, unsigned int number, const char *text)
{
	struct load load;
	int end = 0;

	if (sscanf(text, "%lf:%u:%lf%n", &load.iops, &load.writes, &load.kb, &end) == 3)
		load.same = !strcmp(text + end, ":same");
	if (!end || (text[end] && !load.same) ||
	    !(load.iops > 0 && load.iops < 1e9 && load.writes <= 100 && load.kb > 0 && load.kb <= 1400))
		die("'%s' is no load: try --help", text);
	arrivals_draw(&d->arrivals, &load, d->size, opt.slower, opt.seed * MAX_DEVICES + number);
}

/* DEVICE:LOAD */
static void use(struct device *d, unsigned int number, char *text)
{
	char *load = strchr(text, ':');
	int format;

	if (!load)
		die("'%s' is without a load: try --help", text);
	*load++ = '\0';
	if (device_open(d, text))
		die("%s: %s", text, strerror(errno));
	d->ramp_ns = opt.ramp * 1e9;
	format = format_of(load);
	if (format >= 0)
		use_trace(d, format, strchr(load, ':') + 1);
	else
		use_load(d, number, load);
}

static void print_times(const struct device *d)
{
	unsigned int i;

	printf(",\"worst\":[");
	for (i = 0; i < DEVICE_TIMES; i++)
		printf("%s%" PRIu64, i ? "," : "", d->worst_ns[i]);
	printf("]");
}

static void print_slowest(const struct device *d)
{
	const struct slow *s;

	printf(",\"slowest\":[");
	for (s = d->slowest; s < d->slowest + d->slow; s++)
		printf("%s{\"at\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64
		       ",\"write\":%s}", s == d->slowest ? "" : ",", s->at_ns, s->ns, s->offset, s->bytes,
		       s->write ? "true" : "false");
	printf("]");
}

static void print_latencies(const char *name, struct latencies *l)
{
	printf(",\"%s\":", name);
	latencies_print(l, opt.cdf, stdout);
}

/* All that was read and written. */
static void print_all(const char *name, struct latencies *const *l, unsigned int count)
{
	struct latencies all = {};
	unsigned int i;

	for (i = 0; i < count; i++)
		if (latencies_add_all(&all, l[i]))
			die("out of memory");
	print_latencies(name, &all);
	latencies_free(&all);
}

static void print_device(struct device *d)
{
	struct latencies *both[] = { &d->of[0], &d->of[1] };

	printf("{\"device\":\"%s\",\"read_bytes\":%" PRIu64 ",\"write_bytes\":%" PRIu64 ",\"late_ns\":%"
	       PRIu64, d->name, d->bytes[0], d->bytes[1], d->late_ns);
	print_latencies("read", &d->of[0]);
	print_latencies("write", &d->of[1]);
	print_all("all", both, 2);
	if (opt.cdf) {
		print_times(d);
		print_slowest(d);
	}
	printf("}");
}

static void print(unsigned int count)
{
	struct latencies *all[2 * MAX_DEVICES];
	unsigned int i;

	printf("{\"seconds\":%g,\"slower\":%g,\"seed\":%" PRIu64 ",\"devices\":[", opt.seconds, opt.slower,
	       opt.seed);
	for (i = 0; i < count; i++) {
		printf("%s", i ? "," : "");
		print_device(&devices[i]);
		all[2 * i] = &devices[i].of[0];
		all[2 * i + 1] = &devices[i].of[1];
	}
	printf("]");
	print_all("all", all, 2 * count);
	printf("}\n");
}

static int run(unsigned int count)
{
	uint64_t start = now_ns() + 20000000;	/* threads start meanwhile */
	unsigned int i;
	int e = 0;

	for (i = 0; i < count; i++)
		if (device_start(&devices[i], start, opt.seconds * 1e9))
			die("%s: %s", devices[i].name, strerror(errno));
	for (i = 0; i < count; i++)
		if (device_join(&devices[i])) {
			fprintf(stderr, "load: %s\n", devices[i].failed);
			e = 1;
		}
	return e;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "ramp", required_argument, NULL, 'r' },
		{ "slower", required_argument, NULL, 'l' },
		{ "seed", required_argument, NULL, 'e' },
		{ "cdf", no_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	unsigned int count, i;
	int c, e;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': opt.seconds = positive("--seconds", optarg); break;
		case 'r': opt.ramp = positive("--ramp", optarg); break;
		case 'l': opt.slower = positive("--slower", optarg); break;
		case 'e': opt.seed = positive("--seed", optarg); break;
		case 'c': opt.cdf = true; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	count = argc - optind;
	if (!count || count > MAX_DEVICES)
		die("1 to %d devices: try --help", MAX_DEVICES);
	/* nothing of it comes from a disk while it runs */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	for (i = 0; i < count; i++)
		use(&devices[i], i, argv[optind + i]);
	e = run(count);
	print(count);
	for (i = 0; i < count; i++) {
		if (devices[i].arrivals.trace)
			fclose(devices[i].arrivals.trace);
		device_close(&devices[i]);
	}
	return e;
}
