/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The monitor: which members are unresponsive (pulse.h), and what makes them so.
 *
 * One timer for the pool rotates the windows of members that are sent nothing, and finds who is
 * stuck.  It comes when the first may be, which is each half of the shortest window while all answer,
 * but four times in that at most; it runs while I/O is pending, and until none has been issued
 * between two looks.
 * Each member's parameters are set again once a second, from its own latencies and rate (window.h),
 * or are what the settings say.
 */
#ifndef DM_FUSION_MONITOR_H
#define DM_FUSION_MONITOR_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "member.h"
#include "policy.h"

struct fusion_monitor {
	/* Constant. */
	struct fusion_member *member;
	unsigned int count;
	const struct fusion_tunables *tunables;
	/* Read on every I/O; changed under the lock, a few times a second. */
	u64 unresponsive;		/* members */
	bool stopped;			/* the timer may not run any more */
	bool armed;			/* it does */
	/* Constant while it runs: to be queued when a member is found stuck; NULL: nothing. */
	struct workqueue_struct *tell_wq;
	struct delayed_work *tell;

	struct hrtimer timer ____cacheline_aligned_in_smp;
	spinlock_t lock;		/* of members becoming unresponsive, or responsive */
	atomic64_t avoided[2];		/* reads, and writes, that went elsewhere for that */
	/* the timer's */
	s64 issued;			/* as of the last look */
	unsigned int next;		/* the member whose turn it is to be tuned */
	u64 period_ns;
};

/* For @member, of which those after the first @count are not looked at; @tunables are set. */
void fusion_monitor_init(struct fusion_monitor *mon, struct fusion_member *member,
			 unsigned int count, const struct fusion_tunables *tunables);
/* Before it is started: queue @work whenever a member has become unresponsive, or is stuck (pulse.h). */
void fusion_monitor_tell(struct fusion_monitor *mon, struct workqueue_struct *wq,
			 struct delayed_work *work);
void fusion_monitor_start(struct fusion_monitor *mon);
/* No I/O is under way.  Sleeps. */
void fusion_monitor_stop(struct fusion_monitor *mon);
/* Settings have changed. */
void fusion_monitor_kick(struct fusion_monitor *mon);
/* Nothing is known of @m any more: it may be another device. */
void fusion_monitor_forget(struct fusion_monitor *mon, struct fusion_member *m);

/* Members that are unresponsive. */
static inline u64 fusion_unresponsive_members(const struct fusion_monitor *mon)
{
	return READ_ONCE(mon->unresponsive);
}

/* Those, and those that are stuck, but none that is out. */
u64 fusion_monitor_stuck(const struct fusion_monitor *mon);

/* A read, or @write, has gone elsewhere as a member is unresponsive, or silent.  Any context. */
static inline void fusion_monitor_avoided(struct fusion_monitor *mon, bool write)
{
	atomic64_inc(&mon->avoided[write]);
}

/*
 * It goes to members whose burdens are @chosen in sum, where otherwise it would have gone to those
 * with @first: count that if it is why.  Any context.
 */
static inline void fusion_monitor_chose(struct fusion_monitor *mon, int first, int chosen,
					bool write)
{
	if (unlikely(first >= FUSION_BURDEN_SILENT && first < FUSION_BURDEN_OUT &&
		     chosen < FUSION_BURDEN_SILENT))
		fusion_monitor_avoided(mon, write);
}

/* Times that members became unresponsive. */
u64 fusion_monitor_spikes(struct fusion_monitor *mon);

/* I/Os of @m that are older than its window. */
static inline s64 fusion_stragglers(const struct fusion_member *m)
{
	return max_t(s64, 0, atomic64_read(&m->pulse.window.stragglers));
}

/* What is known of a member; times in ns. */
struct fusion_pulse_report {
	bool unresponsive;
	s64 stragglers;
	u64 spikes, spike_ns;
	struct {
		u64 median, p99;
	} of[2];			/* reads, and writes; 0: none */
	u64 window_ns;
	u32 enter, exit;		/* 0: it is never unresponsive */
	u64 per_s;
};

void fusion_monitor_report(struct fusion_monitor *mon, const struct fusion_member *m,
			   struct fusion_pulse_report *report);

#endif /* DM_FUSION_MONITOR_H */
