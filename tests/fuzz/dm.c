// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device-mapper's ioctls.  See dm.h.
 */
#include "dm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <linux/dm-ioctl.h>

static int control = -1;

/* Room for any answer, and for any line. */
static union {
	struct dm_ioctl head;
	char bytes[sizeof(struct dm_ioctl) + 4 * DM_TEXT_BYTES];
} arg;

void dm_open(void)
{
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0) {
		perror("/dev/mapper/control");
		exit(2);
	}
}

static void *prepare(const char *name, unsigned int flags)
{
	memset(&arg.head, 0, sizeof(arg.head));
	arg.head.version[0] = 4;
	arg.head.data_size = sizeof(arg.bytes);
	arg.head.data_start = sizeof(arg.head);
	arg.head.flags = flags;
	snprintf(arg.head.name, sizeof(arg.head.name), "%s", name);
	return arg.bytes + sizeof(arg.head);
}

static int call(unsigned long request)
{
	return ioctl(control, request, &arg) ? -errno : 0;
}

int dm_create(const char *name)
{
	prepare(name, 0);
	return call(DM_DEV_CREATE);
}

int dm_path(const char *name, char *path, size_t bytes)
{
	int r;

	prepare(name, 0);
	r = call(DM_DEV_STATUS);
	if (!r)
		snprintf(path, bytes, "/dev/dm-%u", minor(arg.head.dev));
	return r;
}

int dm_remove(const char *name)
{
	prepare(name, 0);
	return call(DM_DEV_REMOVE);
}

int dm_load(const char *name, const struct dm_line *line)
{
	struct dm_target_spec *spec = prepare(name, 0);
	size_t bytes = strlen(line->params) + 1;

	arg.head.target_count = 1;
	memset(spec, 0, sizeof(*spec));
	spec->sector_start = line->start;
	spec->length = line->length;
	spec->next = (sizeof(*spec) + bytes + 7) & ~7u;
	memcpy(spec->target_type, line->target, sizeof(spec->target_type));
	memcpy(spec + 1, line->params, bytes);
	return call(DM_TABLE_LOAD);
}

int dm_clear(const char *name)
{
	prepare(name, 0);
	return call(DM_TABLE_CLEAR);
}

int dm_suspend(const char *name, bool suspend)
{
	prepare(name, suspend ? DM_SUSPEND_FLAG : 0);
	return call(DM_DEV_SUSPEND);
}

int dm_message(const char *name, const char *message)
{
	struct dm_target_msg *msg = prepare(name, 0);

	msg->sector = 0;
	strcpy(msg->message, message);
	return call(DM_TARGET_MSG);
}

int dm_text(const char *name, enum dm_what what, char *text, size_t bytes)
{
	struct dm_target_spec *spec;
	int r;

	spec = prepare(name, what == DM_INFO ? 0 : DM_STATUS_TABLE_FLAG |
		       (what == DM_LOADED ? DM_QUERY_INACTIVE_TABLE_FLAG : 0));
	r = call(DM_TABLE_STATUS);
	if (r)
		return r;
	if (!arg.head.target_count || strlen((char *)(spec + 1)) >= bytes)
		return -ENODATA;
	strcpy(text, (char *)(spec + 1));
	return 0;
}
