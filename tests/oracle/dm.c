// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device-mapper's ioctls.  See dm.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "dm.h"

#define ROOM		16384

/* To udev: it has nothing to do with these devices (libdevmapper's flags). */
#define NO_UDEV		(0x4fu << 16)

struct request {
	struct dm_ioctl head;
	char data[ROOM];
};

static int fd = -1;
static unsigned int major_number;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_control(void)
{
	fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
}

static int ask(unsigned long command, struct request *r, const char *name, unsigned int flags)
{
	pthread_once(&once, open_control);
	r->head.version[0] = DM_VERSION_MAJOR;
	r->head.version[1] = 0;
	r->head.version[2] = 0;
	r->head.data_size = sizeof(*r);
	r->head.data_start = offsetof(struct request, data);
	r->head.flags = flags;
	r->head.event_nr = NO_UDEV;
	snprintf(r->head.name, sizeof(r->head.name), "%s", name);
	return ioctl(fd, command, r) ? -errno : 0;
}

static int load(struct request *r, const char *name, uint64_t sectors, const char *target,
		const char *parameters)
{
	struct dm_target_spec *spec = (void *)r->data;

	if (sizeof(*spec) + strlen(parameters) >= ROOM)
		return -E2BIG;
	memset(r, 0, sizeof(*r));
	r->head.target_count = 1;
	spec->length = sectors;
	snprintf(spec->target_type, sizeof(spec->target_type), "%s", target);
	strcpy((char *)(spec + 1), parameters);
	return ask(DM_TABLE_LOAD, r, name, 0);
}

int dm_make(const char *name, uint64_t sectors, const char *target, const char *parameters,
	    unsigned int *minor_number)
{
	struct request r = { };
	int error = ask(DM_DEV_CREATE, &r, name, 0);

	if (error)
		return error;
	major_number = major(r.head.dev);
	*minor_number = minor(r.head.dev);
	error = load(&r, name, sectors, target, parameters);
	if (!error) {
		memset(&r, 0, sizeof(r));
		error = ask(DM_DEV_SUSPEND, &r, name, 0);
	}
	if (error)
		dm_unmake(name);
	return error;
}

int dm_unmake(const char *name)
{
	struct timespec tick = { .tv_nsec = 20000000 };
	struct request r;
	int error, tries;

	for (tries = 0; tries < 500; tries++) {
		memset(&r, 0, sizeof(r));
		error = ask(DM_DEV_REMOVE, &r, name, 0);
		if (error != -EBUSY)
			break;
		nanosleep(&tick, NULL);
	}
	return error == -ENXIO ? 0 : error;
}

int dm_message(const char *name, const char *format, ...)
{
	struct request r = { };
	struct dm_target_msg *message = (void *)r.data;
	va_list args;

	va_start(args, format);
	vsnprintf(message->message, ROOM - sizeof(*message), format, args);
	va_end(args);
	return ask(DM_TARGET_MSG, &r, name, 0);
}

int dm_status(const char *name, char *text, size_t size)
{
	struct request r = { };
	int error = ask(DM_TABLE_STATUS, &r, name, DM_NOFLUSH_FLAG);

	if (!error)
		snprintf(text, size, "%s",
			 (char *)&r + r.head.data_start + sizeof(struct dm_target_spec));
	return error;
}

unsigned int dm_major(void)
{
	return major_number;
}
