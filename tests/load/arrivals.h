/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When which I/O of a load comes: drawn from a seed, or read from a trace.
 */
#ifndef LOAD_ARRIVALS_H
#define LOAD_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LOAD_PAGE	4096

struct arrival {
	uint64_t at_ns;		/* since the start */
	uint64_t offset;	/* bytes; whole pages */
	uint32_t bytes;
	bool write;
};

/*
 * A load as of FusionRAID's table 4.  I/Os come at random, none waits for another; half of them
 * have 0.4 times the mean's bytes, three tenths 0.8 times, and a fifth 2.8 times; each is anywhere,
 * at a multiple of a page.
 */
struct load {
	double iops;
	unsigned int writes;	/* percent */
	double kb;		/* 1000 bytes, in the mean */
	bool same;		/* all are as large */
};

enum trace_format {
	TRACE_MSR,		/* MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime */
	TRACE_SPC,		/* ASU,LBA,Size,Opcode,Timestamp */
	TRACE_BLKTRACE,		/* blktrace's own, of one CPU or merged (blkparse -d); what was queued */
};

struct arrivals {
	uint64_t size;		/* of the device: offsets are below, lengths too */
	double slower;		/* times between arrivals are so many times longer */
	/* drawn */
	struct load load;
	uint64_t random;
	double at_ns;
	/* read */
	FILE *trace;		/* NULL: drawn */
	enum trace_format format;
	uint64_t first_ns;	/* the trace's time of the first; ~0: none was read */
	uint64_t line;
};

/* Of a @load, from @seed on. */
void arrivals_draw(struct arrivals *a, const struct load *load, uint64_t size, double slower,
		   uint64_t seed);
/* Of @trace, which stays the caller's. */
void arrivals_read(struct arrivals *a, FILE *trace, enum trace_format format, uint64_t size,
		   double slower);

/* 1: *@next is the next, not before the one before; 0: there is none; -1: @a->line is none. */
int arrivals_next(struct arrivals *a, struct arrival *next);

#endif
