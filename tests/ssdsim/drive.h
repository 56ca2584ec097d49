/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a drive takes: a model of an SSD's inside, in time that the caller tells.
 *
 * Its channel carries the bytes of one I/O after the other, at the rate of their kind; behind it
 * are units (dies, or groups of them), over which the address space is spread, in pieces of
 * SSD_UNIT_BYTES.  An I/O ends its kind's latency after the channel and its units were there for
 * it.  A read keeps its units busy, a write does not: it ends in the drive's buffer.
 *
 * Twice the drive is busy with itself, and units stand still, with all that is on its way to them,
 * which then comes at once:
 *
 *  - when its buffer is full: each time so many bytes were written;
 *  - when it has no erased blocks left, and must collect garbage.  Writes take of the spare bytes,
 *    discards give some back, and so does time, when the drive does it in the background.
 *
 * A consumer's drive stands still as a whole.  A datacenter's collects garbage in some units
 * while the others go on, and begins in others before these have ended: so its spikes overlap.
 * (FusionRAID, sections 2.2 and 5.1; its table 3 has the drives.)
 *
 * Compiled into the module and into userspace tests.  Nothing here sleeps or locks.
 */
#ifndef SSDSIM_DRIVE_H
#define SSDSIM_DRIVE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint32_t u32;
typedef uint64_t u64;
#endif

/* The finalizer of splitmix64: of numbers near each other it makes some that are not. */
u64 ssd_mix(u64 x);

#define SSD_MAX_UNITS	32
#define SSD_UNIT_BYTES	65536

/* Why units stand still. */
enum ssd_stall_kind {
	SSD_STALL_BUFFER,		/* the buffer is being flushed */
	SSD_STALL_GARBAGE,
	SSD_STALL_TOLD,			/* by whoever uses the drive */
	SSD_NR_STALL_KINDS,
};

/* One stall. */
struct ssd_stall {
	u32 units;			/* as bits */
	u64 ns;
};

/* The stalls of one kind. */
struct ssd_stall_model {
	u64 bytes;			/* written from one to the next; 0: there are none */
	u64 min_ns, max_ns;
	u32 units;
};

struct ssd_model {
	u64 latency_ns[2];		/* of reads, and of writes */
	u64 ps_per_byte[2];
	u64 busy_ns;			/* a read keeps a unit so long */
	u32 units;			/* 1 to SSD_MAX_UNITS */
	struct ssd_stall_model buffer, garbage;
	u64 spare_bytes;		/* at most, */
	u64 worn_bytes;			/* of which so many are used up at the start, at most */
	u64 regain_ps_per_byte;		/* in the background; 0: not at all */
};

struct ssd_drive {
	struct ssd_model model;
	u64 seed;
	u64 random;
	u64 channel_ns;			/* when it is free */
	u64 read_ns[SSD_MAX_UNITS];	/* when the unit is free for a read, */
	u64 write_ns[SSD_MAX_UNITS];	/* for a write */
	u32 next_unit;			/* where garbage is collected next */
	u64 buffered;			/* bytes in the buffer */
	u64 spare;
	u64 regained_ns;		/* until when that was regained */

	u64 busy_ns;			/* the channel, so far */
	u64 stalls[SSD_NR_STALL_KINDS];	/* so many, so far */
	u64 stalled_ns;			/* in sum */
};

/*
 * The drive called @name (A or E) and @age (fresh or aged), @slower times slower, with the same
 * stalls for the same bytes.  False: there is none.
 */
bool ssd_model_find(struct ssd_model *model, const char *name, const char *age, u32 slower);

/* It is at rest; its stalls are a function of @seed and of what is written. */
void ssd_drive_init(struct ssd_drive *d, const struct ssd_model *model, u64 seed, u64 now);

/*
 * @bytes are written at @now.  True: so *@stall begins; the caller delays by it what is on its way
 * to these units.  To be called until it is false, with 0 bytes from the second time on, and
 * before ssd_drive_end().
 */
bool ssd_drive_written(struct ssd_drive *d, u64 now, u64 bytes, struct ssd_stall *stall);

/* @bytes are discarded. */
void ssd_drive_discarded(struct ssd_drive *d, u64 bytes);

/* As if it were busy with itself: @units units from now on (or all), for @ns. */
void ssd_drive_stall(struct ssd_drive *d, u64 now, u32 units, u64 ns, struct ssd_stall *stall);

/* When I/O of @bytes at byte @at ends that comes at @now; *@units: as bits. */
u64 ssd_drive_end(struct ssd_drive *d, u64 now, bool write, u64 at, u64 bytes, u32 *units);

#endif
