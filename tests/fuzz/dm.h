/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device-mapper's ioctls, one call each, without a library in between: what is
 * sent is what the kernel gets, and thousands are sent a second.
 *
 * All return 0, or a negative errno.
 */
#ifndef FUZZ_DM_H
#define FUZZ_DM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest table line or message that is sent, with its end. */
#define DM_TEXT_BYTES	8192

struct dm_line {
	uint64_t start, length;	/* in sectors */
	char target[16];	/* as much of its name as fits, and zeros */
	char params[DM_TEXT_BYTES];
};

void dm_open(void);

int dm_create(const char *name);
/* The path of its node, which the kernel makes, and not udev. */
int dm_path(const char *name, char *path, size_t bytes);
int dm_remove(const char *name);
int dm_load(const char *name, const struct dm_line *line);
/* Drop what was loaded and not resumed. */
int dm_clear(const char *name);
int dm_suspend(const char *name, bool suspend);
int dm_message(const char *name, const char *message);

/*
 * The parameters of the table: of that which is loaded and not resumed, or of the
 * other; or the status.
 */
enum dm_what { DM_LOADED, DM_LIVE, DM_INFO };
int dm_text(const char *name, enum dm_what what, char *text, size_t bytes);

#endif
