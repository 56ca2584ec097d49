// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is on a device.  See hand.h.
 */
#include "hand.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGE		4096
#define AT_ONCE		(1 << 20)	/* bytes that are compared, or made */

/* xorshift64*, of which each process has its own from the kernel: nobody writes the same twice. */
static void data_random(void *buffer, size_t bytes)
{
	static uint64_t state;
	uint64_t *word = buffer;
	size_t i;

	while (!state)
		if (getrandom(&state, sizeof(state), 0) < 0)
			abort();
	for (i = 0; i < bytes / sizeof(*word); i++) {
		state ^= state >> 12;
		state ^= state << 25;
		state ^= state >> 27;
		word[i] = state * 0x2545f4914f6cdd1dULL;
	}
}

/* Bytes, as dd has them: 64k. */
static int data_bytes(const char *text, unsigned long *bytes)
{
	char *end;

	errno = 0;
	*bytes = strtoul(text, &end, 10);
	if (*end == 'k' || *end == 'M')
		*bytes <<= *end++ == 'k' ? 10 : 20;
	return errno || end == text || *end ? -EINVAL : 0;
}

static int data_put(int fd, const char *buffer, size_t bytes, off_t at)
{
	ssize_t n;

	for (; bytes; bytes -= n, buffer += n, at += n) {
		n = pwrite(fd, buffer, bytes, at);
		if (n <= 0)
			return n ? -errno : -ENOSPC;
	}
	return 0;
}

/* As much as there is; returns how much. */
static ssize_t data_get(int fd, char *buffer, size_t bytes, off_t at)
{
	size_t done = 0;
	ssize_t n;

	while (done < bytes) {
		n = pread(fd, buffer + done, bytes - done, at + done);
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += n;
	}
	return done;
}

/* The two files, -1: there is none, and a buffer for each. */
struct data_pair {
	int device, model;
	char *of_device, *of_model;
};

static int data_close(struct data_pair *p, int error)
{
	if (p->device >= 0 && close(p->device) && !error)
		error = -errno;
	if (p->model >= 0 && close(p->model) && !error)
		error = -errno;
	free(p->of_device);
	free(p->of_model);
	return error;
}

static int data_open(struct data_pair *p, const char *device, int device_flags, const char *model,
		     int model_flags, size_t bytes)
{
	*p = (struct data_pair){ .device = -1, .model = -1 };
	p->device = open(device, device_flags | O_DIRECT | O_CLOEXEC);
	if (p->device < 0)
		return data_close(p, -errno);
	if (strcmp(model, "-")) {
		p->model = open(model, model_flags | O_CLOEXEC, 0600);
		if (p->model < 0)
			return data_close(p, -errno);
	}
	p->of_device = aligned_alloc(PAGE, bytes);
	p->of_model = aligned_alloc(PAGE, bytes);
	return p->of_device && p->of_model ? 0 : data_close(p, -ENOMEM);
}

int data_write(const char *device, const char *model, const char *page, const char *pages, const char *chunk)
{
	unsigned long at, left, part;
	struct data_pair p;
	int error;

	if (data_bytes(page, &at) || data_bytes(pages, &left) || data_bytes(chunk, &part) ||
	    !part || part % PAGE)
		return -EINVAL;
	error = data_open(&p, device, O_WRONLY, model, O_WRONLY | O_CREAT, part);
	if (error)
		return error;
	for (at *= PAGE, left *= PAGE; left && !error; left -= part, at += part) {
		if (part > left)
			part = left;
		data_random(p.of_device, part);
		error = data_put(p.device, p.of_device, part, at);
		if (!error && p.model >= 0)
			error = data_put(p.model, p.of_device, part, at);
	}
	return data_close(&p, error);
}

int data_flush(const char *device)
{
	int fd = open(device, O_RDONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd))
		error = -errno;
	close(fd);
	return error;
}

static void data_differ(const struct data_pair *p, const char *device, off_t at, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes && p->of_device[i] == p->of_model[i]; i++)
		;
	printf("%s is not what was written: byte %llu, of page %llu\n", device, (unsigned long long)(at + i),
	       (unsigned long long)(at + i) / PAGE);
}

int data_compare(const char *device, const char *model)
{
	ssize_t there, here;
	struct data_pair p;
	off_t at = 0;
	int error;

	error = data_open(&p, device, O_RDONLY, model, O_RDONLY, AT_ONCE);
	if (error)
		return error;
	do {
		there = data_get(p.device, p.of_device, AT_ONCE, at);
		here = data_get(p.model, p.of_model, AT_ONCE, at);
		if (there < 0 || here < 0)
			return data_close(&p, there < 0 ? there : here);
		if (there != here || memcmp(p.of_device, p.of_model, there)) {
			data_differ(&p, device, at, there < here ? there : here);
			return data_close(&p, 1);
		}
		at += there;
	} while (there);
	return data_close(&p, 0);
}
