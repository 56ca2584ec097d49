/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A device under load: a thread that submits each I/O when it comes, whether those before it have
 * ended or not.
 */
#ifndef LOAD_DEVICE_H
#define LOAD_DEVICE_H

#include <linux/aio_abi.h>
#include <pthread.h>

#include "arrivals.h"
#include "latencies.h"

#define DEVICE_TIMES	400	/* the run is cut into so many, */
#define DEVICE_SLOWEST	64	/* I/Os that are kept */

/* An I/O that has ended. */
struct slow {
	uint64_t at_ns, ns;		/* it came then, and took so long */
	uint64_t offset, bytes;
	bool write;
};

struct device {
	const char *name;
	int fd;
	uint64_t size;
	struct arrivals arrivals;
	uint64_t ramp_ns;		/* what comes before that is not counted */
	/* the thread's */
	pthread_t thread;
	aio_context_t aio;
	struct slot *slots;
	struct slot *free;
	unsigned int pending;
	char *failed;			/* what, if something has */
	/* what comes of it */
	struct latencies of[2];		/* of reads, and writes */
	uint64_t bytes[2];
	uint64_t late_ns;		/* an I/O was submitted so long after it came, at most */
	uint64_t worst_ns[DEVICE_TIMES];	/* in each of them the I/O took that took longest */
	struct slow slowest[DEVICE_SLOWEST];	/* longest first */
	unsigned int slow;			/* so many of them */
};

/* Open it.  -1, with errno. */
int device_open(struct device *d, const char *name);

/*
 * Run it from @start_ns, of CLOCK_MONOTONIC, for @ns, with I/O as d->arrivals say, and wait for
 * what is under way then.  -1: it could not be begun, with errno.
 */
int device_start(struct device *d, uint64_t start_ns, uint64_t ns);
/* Wait for its end.  -1: something has failed: d->failed. */
int device_join(struct device *d);
void device_close(struct device *d);

uint64_t now_ns(void);

#endif
