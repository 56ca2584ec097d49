/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a test asks of device-mapper, without a process for each.  All of it may be called by
 * several threads at once.
 */
#ifndef ORACLE_DM_H
#define ORACLE_DM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A device of one target, running; its number, for tables and as that of /dev/dm-<number>, into
 * @minor.  0 or -errno.
 */
int dm_make(const char *name, uint64_t sectors, const char *target, const char *parameters,
	    unsigned int *minor);

/* 0, also if there is none; -errno.  Waits for those who look at the device for a moment. */
int dm_unmake(const char *name);

/* Returns what the target returned: 0, or -errno. */
int dm_message(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The target's status, without a flush; 0 or -errno. */
int dm_status(const char *name, char *text, size_t size);

/* The major number of all these devices. */
unsigned int dm_major(void);

#endif
