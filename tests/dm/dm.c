// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device-mapper's ioctls.  See dm.h.
 */
#include "dm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>

/* libdevmapper's flags: no rules of udev's. */
#define NO_UDEV		(0x4fu << 16)

/* Room for any answer, and for any line. */
struct request {
	struct dm_ioctl head;
	char data[4 * DM_TEXT_BYTES];
};

static int control = -1;

static void open_control(void)
{
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0) {
		perror("/dev/mapper/control");
		exit(2);
	}
}

/* What is sent beside the name is in @r->data already. */
static int ask(struct request *r, unsigned long command, const char *name, unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_control);
	memset(&r->head, 0, sizeof(r->head));
	r->head.version[0] = DM_VERSION_MAJOR;
	r->head.data_size = sizeof(*r);
	r->head.data_start = offsetof(struct request, data);
	r->head.target_count = command == DM_TABLE_LOAD;
	r->head.flags = flags;
	r->head.event_nr = NO_UDEV;
	snprintf(r->head.name, sizeof(r->head.name), "%s", name);
	return ioctl(control, command, r) ? -errno : 0;
}

int dm_create(const char *name, dev_t *dev)
{
	struct request r;
	int error = ask(&r, DM_DEV_CREATE, name, 0);

	if (!error && dev)
		*dev = r.head.dev;
	return error;
}

int dm_path(const char *name, char *path, size_t bytes)
{
	struct request r;
	int error = ask(&r, DM_DEV_STATUS, name, 0);

	if (!error)
		snprintf(path, bytes, "/dev/dm-%u", minor(r.head.dev));
	return error;
}

int dm_remove(const char *name)
{
	struct request r;

	return ask(&r, DM_DEV_REMOVE, name, 0);
}

int dm_load(const char *name, const struct dm_line *line)
{
	size_t bytes = strlen(line->params) + 1;
	struct dm_target_spec *spec;
	struct request r;

	spec = (struct dm_target_spec *)r.data;
	memset(spec, 0, sizeof(*spec));
	spec->sector_start = line->start;
	spec->length = line->length;
	spec->next = (sizeof(*spec) + bytes + 7) & ~7u;
	memcpy(spec->target_type, line->target, sizeof(spec->target_type));
	memcpy(spec + 1, line->params, bytes);
	return ask(&r, DM_TABLE_LOAD, name, 0);
}

int dm_clear(const char *name)
{
	struct request r;

	return ask(&r, DM_TABLE_CLEAR, name, 0);
}

int dm_suspend(const char *name, bool suspend)
{
	struct request r;

	return ask(&r, DM_DEV_SUSPEND, name, suspend ? DM_SUSPEND_FLAG : 0);
}

int dm_ask(const char *name, const char *message, char *answer, size_t bytes)
{
	struct dm_target_msg *sent;
	struct request r;
	int error;

	sent = (struct dm_target_msg *)r.data;
	sent->sector = 0;
	snprintf(sent->message, DM_TEXT_BYTES, "%s", message);
	error = ask(&r, DM_TARGET_MSG, name, 0);
	if (!error)
		snprintf(answer, bytes, "%s", r.head.flags & DM_DATA_OUT_FLAG ? r.data : "");
	return error;
}

int dm_message(const char *name, const char *format, ...)
{
	char message[DM_TEXT_BYTES], answer[1];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	return dm_ask(name, message, answer, sizeof(answer));
}

int dm_text(const char *name, enum dm_what what, char *text, size_t bytes)
{
	static const unsigned int flags[] = {
		[DM_LOADED] = DM_STATUS_TABLE_FLAG | DM_QUERY_INACTIVE_TABLE_FLAG,
		[DM_LIVE] = DM_STATUS_TABLE_FLAG,
		[DM_INFO] = 0,
		[DM_INFO_AS_IT_IS] = DM_NOFLUSH_FLAG,
	};
	const char *found;
	struct request r;
	int error;

	error = ask(&r, DM_TABLE_STATUS, name, flags[what]);
	if (error)
		return error;
	found = r.data + sizeof(struct dm_target_spec);
	if (!r.head.target_count || strlen(found) >= bytes)
		return -ENODATA;
	strcpy(text, found);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct dm_name_list *const *x = a, *const *y = b;

	return (*x)->dev < (*y)->dev ? 1 : -1;
}

int dm_list(void (*each)(const char *name, void *data), void *data)
{
	const struct dm_name_list *all[sizeof(((struct request *)0)->data) / sizeof(struct dm_name_list)], *at;
	struct request r;
	size_t count = 0, i;
	int error = ask(&r, DM_LIST_DEVICES, "", 0);

	if (error)
		return error;
	if (r.head.flags & DM_BUFFER_FULL_FLAG)
		return -ENODATA;
	at = (const struct dm_name_list *)r.data;
	while (at->dev) {
		all[count++] = at;
		if (!at->next)
			break;
		at = (const struct dm_name_list *)((const char *)at + at->next);
	}
	qsort(all, count, sizeof(*all), by_number);
	for (i = 0; i < count; i++)
		each(all[i]->name, data);
	return 0;
}

int dm_has_target(const char *name, const char *target)
{
	const struct dm_target_spec *spec;
	struct request r;
	size_t at = 0;
	unsigned int i;
	int error;

	error = ask(&r, DM_TABLE_STATUS, name, DM_STATUS_TABLE_FLAG | DM_NOFLUSH_FLAG);
	if (error)
		return error;
	for (i = 0; i < r.head.target_count; i++, at = spec->next) {
		spec = (const struct dm_target_spec *)(r.data + at);
		if (!strncmp(spec->target_type, target, sizeof(spec->target_type)))
			return 1;
	}
	return 0;
}

int dm_is_suspended(const char *name)
{
	struct request r;
	int error = ask(&r, DM_DEV_STATUS, name, 0);

	return error ? error : !!(r.head.flags & DM_SUSPEND_FLAG);
}

int dm_make(const char *name, uint64_t sectors, const char *target, const char *params, dev_t *dev)
{
	struct dm_line line = { .length = sectors };
	int error;

	if (strlen(params) >= sizeof(line.params) || strlen(target) >= sizeof(line.target))
		return -E2BIG;
	strcpy(line.target, target);
	strcpy(line.params, params);
	error = dm_create(name, dev);
	if (error)
		return error;
	error = dm_load(name, &line);
	if (!error)
		error = dm_suspend(name, false);
	if (error)
		dm_unmake(name);
	return error;
}

int dm_unmake(const char *name)
{
	struct timespec tick = { .tv_nsec = 20000000 };
	int error, tries;

	for (tries = 0; tries < 500; tries++) {
		error = dm_remove(name);
		if (error != -EBUSY)
			break;
		nanosleep(&tick, NULL);
	}
	return error == -ENXIO ? 0 : error;
}
