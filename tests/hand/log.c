// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's log.  See hand.h.
 */
#include "hand.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int kmsg = -1;

int log_open(void)
{
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0 || lseek(kmsg, 0, SEEK_END) < 0)
		return -errno;
	return 0;
}

int log_print(int skip)
{
	char record[8192], *text;
	ssize_t n;

	if (skip)
		return lseek(kmsg, 0, SEEK_END) < 0 ? -errno : 0;
	for (;;) {
		n = read(kmsg, record, sizeof(record) - 1);
		/* overwritten before it was read: go on with what is there */
		if (n < 0 && errno == EPIPE)
			continue;
		if (n <= 0)
			break;
		/* "level,number,time,flags;text", and lines of what it is about */
		record[n] = '\0';
		record[strcspn(record, "\n")] = '\0';
		text = strchr(record, ';');
		puts(text ? text + 1 : record);
	}
	return n < 0 && errno != EAGAIN ? -errno : 0;
}
