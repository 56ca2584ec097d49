/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A member's pulse: is it as quick as ever (design: stragglers; FusionRAID, section 3.4)?
 *
 * Each I/O of data is counted in the member's straggler window (window.h), and the first in eight
 * slots in its latencies (latency.h): of a member with little to do all are.
 * From these the monitor (monitor.h) sets the window.  With as many stragglers as its threshold a
 * member is unresponsive, which whoever chooses among members sees; it is seen to be
 *
 *  - when an I/O is issued in a new slot, or a straggler comes back;
 *  - for members that neither of it happens to, by the monitor's timer.
 *
 * Before that it is silent: it has been sent something, and has answered nothing since, for two slots.
 * Who has a choice sees that, too, and takes another if that costs nothing: it may be wrong.  After half
 * a window it is stuck, and what it holds up is worth a second attempt (hedge.h): of a few I/Os that are
 * under way there, there may never be as many stragglers as make it unresponsive.
 *
 * Flushes, discards and what commits write are not counted here: they take what they take.
 *
 * Cost: one clock reading and one compare-and-exchange when an I/O starts, another when it ends, on
 * lines of the member's own.
 */
#ifndef DM_FUSION_PULSE_H
#define DM_FUSION_PULSE_H

#include <linux/cache.h>
#include <linux/timekeeping.h>

#include "latency.h"
#include "window.h"

/* An I/O is timed if none has been in so many slots. */
#define FUSION_PULSE_SAMPLE	8

struct fusion_monitor;

struct fusion_pulse {
	/* Read on every I/O; the monitor's. */
	struct fusion_monitor *monitor;
	struct fusion_slot_clock clock;
	u32 slots;			/* of the window */
	u32 enter, exit;		/* stragglers: see fusion_unresponsive() */
	u64 silent_ns, stuck_ns;
	bool unresponsive;		/* changed under the monitor's lock */

	/* Written on every I/O: lines of the member's own. */
	struct fusion_window window ____cacheline_aligned_in_smp;
	u64 asked_ns;			/* when it was sent the first since it answered, */
	bool answered;			/* and it has since */
	u32 timed;			/* the last slot of which an I/O was */
	struct fusion_latency latency[2];	/* of reads, and of writes */

	/* under the monitor's lock */
	u64 spikes;			/* times it became unresponsive */
	u64 spike_ns;			/* for so long in sum, without this one, */
	u64 since_ns;			/* that began then */
	/* the monitor's timer's */
	u64 window_ns;
	u64 per_s;			/* I/Os issued a second, */
	u64 tuned_ns;			/* as of then, */
	s64 issued;			/* when there had been so many */
	bool retune;			/* settings have changed; anybody's to set */
};

/* Of one I/O, from its start to its end. */
struct fusion_beat {
	u64 start_ns;			/* 0: it is not timed */
	u32 slot;
};

/* The first in @slot has been issued. */
void fusion_pulse_first(struct fusion_pulse *p, u32 slot);
/* A straggler has come back, and @left are others. */
void fusion_pulse_back(struct fusion_pulse *p, s64 left);
/* One that is timed has ended. */
void fusion_pulse_took(struct fusion_pulse *p, bool write, u64 start_ns);

/* An I/O is about to be submitted.  Any context. */
static inline void fusion_pulse_start(struct fusion_pulse *p, struct fusion_beat *beat)
{
	u64 now = ktime_get_ns();

	if (READ_ONCE(p->answered)) {
		WRITE_ONCE(p->asked_ns, now);
		WRITE_ONCE(p->answered, false);
	}
	beat->slot = fusion_slot(&p->clock, now);
	beat->start_ns = 0;
	if (!fusion_window_issue(&p->window, beat->slot))
		return;
	if (beat->slot - READ_ONCE(p->timed) >= FUSION_PULSE_SAMPLE) {
		WRITE_ONCE(p->timed, beat->slot);
		beat->start_ns = now;
	}
	fusion_pulse_first(p, beat->slot);
}

/* Has it at @now answered nothing for @ns?  Any context. */
static inline bool fusion_pulse_silent_for(const struct fusion_pulse *p, u64 now, u64 ns)
{
	/* who has just asked may be seen to have asked when the one before did */
	return !READ_ONCE(p->answered) && (s64)(now - READ_ONCE(p->asked_ns)) > (s64)ns;
}

/* Is it silent?  The clock is only read if it may be.  Any context. */
static inline bool fusion_pulse_silent(const struct fusion_pulse *p)
{
	return !READ_ONCE(p->answered) &&
		fusion_pulse_silent_for(p, ktime_get_ns(), READ_ONCE(p->silent_ns));
}

/* Is it stuck at @now?  Any context. */
static inline bool fusion_pulse_stuck(const struct fusion_pulse *p, u64 now)
{
	return fusion_pulse_silent_for(p, now, READ_ONCE(p->stuck_ns));
}

/* It has ended.  Any context. */
static inline void fusion_pulse_end(struct fusion_pulse *p, const struct fusion_beat *beat,
				    bool write)
{
	s64 left;

	if (!READ_ONCE(p->answered))
		WRITE_ONCE(p->answered, true);
	if (unlikely(fusion_window_end(&p->window, beat->slot, &left)))
		fusion_pulse_back(p, left);
	if (beat->start_ns)
		fusion_pulse_took(p, write, beat->start_ns);
}

#endif /* DM_FUSION_PULSE_H */
