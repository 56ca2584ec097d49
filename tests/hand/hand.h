/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests do often: a process for each is what takes most of their time in an emulated machine.
 *
 * All return 0, or a negative errno; what they say goes to standard output.
 */
#ifndef TESTS_HAND_H
#define TESTS_HAND_H

/* --- data: pages of 4 KiB of a device, written and read past the page cache --- */

/*
 * Write @pages random pages to @device, from @page on, with as many at once as @chunk says, which
 * is as dd's bs.  What has been written is written to the file @model at the same place, "-": none.
 */
int data_write(const char *device, const char *model, const char *page, const char *pages, const char *chunk);

/* Is @device, all of it, what the file @model is?  1: no, and it says where. */
int data_compare(const char *device, const char *model);

/* Flush @device. */
int data_flush(const char *device);

/* --- the kernel's log --- */

/* What comes from now on is for log_print(). */
int log_open(void);

/* What has come since the last time, a line each; with @skip it is not printed. */
int log_print(int skip);

#endif
