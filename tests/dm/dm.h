/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device-mapper's ioctls, one call each, without a library or a process in between: what is
 * sent is what the kernel gets, and thousands are sent a second.  Any thread may call.
 *
 * All return 0, or a negative errno, but where it is said.  udev is told that the devices are
 * none of its business.
 */
#ifndef TESTS_DM_H
#define TESTS_DM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The longest table line or message that is sent, with its end. */
#define DM_TEXT_BYTES	8192

struct dm_line {
	uint64_t start, length;	/* in sectors */
	char target[16];	/* as much of its name as fits, and zeros */
	char params[DM_TEXT_BYTES];
};

/* @dev: its number, or NULL. */
int dm_create(const char *name, dev_t *dev);
/* The path of its node, which the kernel makes, and not udev. */
int dm_path(const char *name, char *path, size_t bytes);
int dm_remove(const char *name);
int dm_load(const char *name, const struct dm_line *line);
/* Drop what was loaded and not resumed. */
int dm_clear(const char *name);
int dm_suspend(const char *name, bool suspend);
/* Return what the target returned; what it answers, "" or as much of it as there is room for, is in @answer. */
int dm_ask(const char *name, const char *message, char *answer, size_t bytes);
int dm_message(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The parameters of the table: of that which is loaded and not resumed, or of the other; or
 * the status, for which the target may flush first, or not.  -ENODATA: there is none, or not
 * so much room.
 */
enum dm_what { DM_LOADED, DM_LIVE, DM_INFO, DM_INFO_AS_IT_IS };
int dm_text(const char *name, enum dm_what what, char *text, size_t bytes);

/* Call @each with all devices, the last that was made first. */
int dm_list(void (*each)(const char *name, void *data), void *data);
/* 1: its table, the live one, has such a target; 0: it has none. */
int dm_has_target(const char *name, const char *target);
/* 1 or 0. */
int dm_is_suspended(const char *name);

/* A device of one target, running; @dev: its number. */
int dm_make(const char *name, uint64_t sectors, const char *target, const char *params, dev_t *dev);
/* Waits for those who look at it for a moment.  0 also if there is none. */
int dm_unmake(const char *name);

#endif
