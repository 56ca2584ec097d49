/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a simulated SSD takes: I/O whose work is done ends when its drive's model says so.
 * FLUSH, DISCARD and WRITE_ZEROES are writes of no bytes.
 */
#ifndef SSDSIM_TIME_H
#define SSDSIM_TIME_H

#include <linux/bio.h>
#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>

#include "drive.h"

struct ssd_time {
	spinlock_t lock;		/* guards all below; taken in interrupts */
	bool on;
	struct ssd_drive drive;
	struct timerqueue_head queue;	/* struct ssd_io that end later */
	struct hrtimer timer;
};

/* What each bio of the target carries. */
struct ssd_io {
	struct timerqueue_node node;
	struct bio *bio;
	u32 units;			/* of the drive, that it needs */
};

void ssd_time_init(struct ssd_time *t);
/* No I/O is under way. */
void ssd_time_exit(struct ssd_time *t);

/* From now on it is such a drive. */
void ssd_time_set(struct ssd_time *t, const struct ssd_model *model, u64 seed);
/* Nothing takes time from now on. */
void ssd_time_off(struct ssd_time *t);

/* @units of the drive's units (or all) stand still from now on.  -EINVAL: it takes no time. */
int ssd_time_stall(struct ssd_time *t, u32 units, u64 ns);

/* What has been counted, since it was set last (busy_us: ever). */
struct ssd_time_counts {
	u64 busy_us;
	u64 stalls[SSD_NR_STALL_KINDS];
	u64 stalled_us;
};

void ssd_time_count(struct ssd_time *t, struct ssd_time_counts *counts);

/* End @bio, whose work is done, when the SSD would: now, or later in a hard interrupt. */
void ssd_time_end(struct ssd_time *t, struct ssd_io *io, struct bio *bio);

#endif
