/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a simulated SSD takes.
 *
 * Its channel carries one I/O after the other, each for as long as its bytes take
 * at the rate of its kind.  An I/O ends when the channel has carried it, and its
 * kind's latency later: so latencies overlap, and what is in the queue before it
 * delays an I/O.  FLUSH, DISCARD and WRITE_ZEROES are writes of no bytes.
 */
#ifndef SSDSIM_TIME_H
#define SSDSIM_TIME_H

#include <linux/bio.h>
#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>

/* Of reads, and of writes. */
struct ssd_speed {
	u32 latency_ns;
	u32 ps_per_byte;		/* 0: as fast as can be */
};

struct ssd_time {
	spinlock_t lock;		/* guards all below; taken in interrupts */
	bool on;
	struct ssd_speed speed[2];	/* by op_is_write() */
	ktime_t busy_until;		/* the channel */
	u64 busy_ns;			/* so far */
	struct timerqueue_head queue;	/* struct ssd_io that end later */
	struct hrtimer timer;
};

/* What each bio of the target carries. */
struct ssd_io {
	struct timerqueue_node node;
	struct bio *bio;
};

void ssd_time_init(struct ssd_time *t);
/* No I/O is under way. */
void ssd_time_exit(struct ssd_time *t);

/* From now on: latencies in microseconds, rates in MB/s (0: no limit). */
void ssd_time_set(struct ssd_time *t, const u32 latency_us[2], const u32 mb_per_s[2]);
/* Nothing takes time from now on. */
void ssd_time_off(struct ssd_time *t);

/* How long the channel has been busy. */
u64 ssd_time_busy_us(struct ssd_time *t);

/*
 * End @bio, which came with @bytes of data and whose work is done, when the SSD
 * would: now, or later in a hard interrupt.
 */
void ssd_time_end(struct ssd_time *t, struct ssd_io *io, struct bio *bio, unsigned int bytes);

#endif
