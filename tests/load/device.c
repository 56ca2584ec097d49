// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

#define DEPTH		1024		/* more are not under way: a device so late is overloaded */
#define EVENTS		64		/* taken at once */
#define BUFFER		(4u << 20)	/* the largest I/O */

/* An I/O that is under way, or one that is not. */
struct slot {
	struct iocb iocb;
	struct slot *next;		/* that is free */
	uint64_t came_ns;
	bool write;
};

/* What a thread runs on. */
struct run {
	struct device *device;
	uint64_t start_ns, ns;
	void *buffer;			/* that all write from, and all read to: nobody looks */
};

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void failed(struct device *d, const char *what, int e)
{
	if (!d->failed && asprintf(&d->failed, "%s: %s: %s", d->name, what, strerror(e)) < 0)
		d->failed = NULL;
}

static void submit(struct run *run, const struct arrival *a)
{
	struct device *d = run->device;
	struct slot *s = d->free;
	struct iocb *iocb = &s->iocb;
	uint64_t late;

	d->free = s->next;
	s->came_ns = run->start_ns + a->at_ns;
	s->write = a->write;
	*iocb = (struct iocb) {
		.aio_data = (uintptr_t)s,
		.aio_lio_opcode = a->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = d->fd,
		.aio_buf = (uintptr_t)run->buffer,
		.aio_nbytes = a->bytes,
		.aio_offset = a->offset,
	};
	late = now_ns() - s->came_ns;
	if (late > d->late_ns)
		d->late_ns = late;
	d->bytes[a->write] += a->bytes;
	if (syscall(SYS_io_submit, d->aio, 1L, &iocb) == 1) {
		d->pending++;
	} else {
		failed(d, "cannot submit", errno);
		s->next = d->free;
		d->free = s;
	}
}

/* Is @io one of the slowest? */
static void note_slow(struct device *d, const struct slow *io)
{
	unsigned int i = d->slow;

	if (i < DEVICE_SLOWEST)
		d->slow++;
	else if (io->ns <= d->slowest[--i].ns)
		return;
	for (; i && d->slowest[i - 1].ns < io->ns; i--)
		d->slowest[i] = d->slowest[i - 1];
	d->slowest[i] = *io;
}

/* What counts has ended: @s, after @ns. */
static void count(struct run *run, const struct slot *s, uint64_t ns)
{
	struct device *d = run->device;
	struct slow io = {
		.at_ns = s->came_ns - run->start_ns,
		.ns = ns,
		.offset = s->iocb.aio_offset,
		.bytes = s->iocb.aio_nbytes,
		.write = s->write,
	};

	if (latencies_add(&d->of[s->write], ns))
		failed(d, "latencies", ENOMEM);
	note_slow(d, &io);
}

/* It ended at @now. */
static void ended(struct run *run, const struct io_event *event, uint64_t now)
{
	struct slot *s = (struct slot *)(uintptr_t)event->data;
	struct device *d = run->device;
	uint64_t ns = now - s->came_ns;
	unsigned int at = (s->came_ns - run->start_ns) * DEVICE_TIMES / run->ns;

	if (event->res != (int64_t)s->iocb.aio_nbytes)
		failed(d, s->write ? "write" : "read", event->res < 0 ? -event->res : EIO);
	if (s->came_ns - run->start_ns >= d->ramp_ns)
		count(run, s, ns);
	if (at < DEVICE_TIMES && ns > d->worst_ns[at])
		d->worst_ns[at] = ns;
	s->next = d->free;
	d->free = s;
	d->pending--;
}

/* Wait until some have ended, or until @until. */
static void reap(struct run *run, uint64_t until)
{
	struct device *d = run->device;
	struct io_event events[EVENTS];
	uint64_t now = now_ns();
	struct timespec ts = {};
	long i, n;

	if (until > now) {
		ts.tv_sec = (until - now) / 1000000000;
		ts.tv_nsec = (until - now) % 1000000000;
	}
	n = syscall(SYS_io_getevents, d->aio, 1L, (long)EVENTS, events, &ts);
	now = now_ns();
	if (n < 0 && errno != EINTR)
		failed(d, "cannot wait", errno);
	for (i = 0; i < n; i++)
		ended(run, &events[i], now);
}

static void *device_run(void *data)
{
	struct run *run = data;
	struct device *d = run->device;
	struct arrival next;
	uint64_t second = 1000000000;
	int more;

	/* timers that are exact */
	prctl(PR_SET_TIMERSLACK, 1UL);
	more = arrivals_next(&d->arrivals, &next);
	while (!d->failed && more > 0 && next.at_ns < run->ns) {
		if (!d->free)
			reap(run, now_ns() + second);
		else if (run->start_ns + next.at_ns > now_ns())
			reap(run, run->start_ns + next.at_ns);
		else {
			submit(run, &next);
			more = arrivals_next(&d->arrivals, &next);
		}
	}
	if (more < 0 && asprintf(&d->failed, "line or record %" PRIu64 " of the trace is none",
				 d->arrivals.line) < 0)
		d->failed = NULL;
	while (d->pending)
		reap(run, now_ns() + second);
	free(run->buffer);
	free(run);
	return NULL;
}

int device_open(struct device *d, const char *name)
{
	unsigned int i;
	off_t size;

	*d = (struct device) { .name = name, .fd = open(name, O_RDWR | O_DIRECT | O_CLOEXEC) };
	if (d->fd < 0)
		return -1;
	size = lseek(d->fd, 0, SEEK_END);
	if (size < LOAD_PAGE || syscall(SYS_io_setup, DEPTH, &d->aio))
		return -1;
	d->size = size;
	d->slots = calloc(DEPTH, sizeof(*d->slots));
	if (!d->slots)
		return -1;
	for (i = 0; i < DEPTH; i++) {
		d->slots[i].next = d->free;
		d->free = &d->slots[i];
	}
	return 0;
}

int device_start(struct device *d, uint64_t start_ns, uint64_t ns)
{
	struct run *run = malloc(sizeof(*run));

	if (!run)
		return -1;
	*run = (struct run) { .device = d, .start_ns = start_ns, .ns = ns };
	errno = posix_memalign(&run->buffer, LOAD_PAGE, BUFFER);
	if (errno) {
		free(run);
		return -1;
	}
	memset(run->buffer, 0x5a, BUFFER);
	errno = pthread_create(&d->thread, NULL, device_run, run);
	if (!errno)
		return 0;
	free(run->buffer);
	free(run);
	return -1;
}

int device_join(struct device *d)
{
	pthread_join(d->thread, NULL);
	return d->failed ? -1 : 0;
}

void device_close(struct device *d)
{
	syscall(SYS_io_destroy, d->aio);
	close(d->fd);
	free(d->slots);
	free(d->failed);
	latencies_free(&d->of[0]);
	latencies_free(&d->of[1]);
}
