// SPDX-License-Identifier: GPL-2.0-only
/*
 * The monitor.  See monitor.h.
 */
#include "monitor.h"
#include "trace.h"

#define SLOTS_DEFAULT	10
#define EXIT_PART	3		/* of what makes it unresponsive is what does not any more */
#define NEVER		U32_MAX		/* so many stragglers there are not */
#define NEVER_NS	S64_MAX
#define WINDOW_LEAST_NS	NSEC_PER_USEC
#define SILENT_SLOTS	2
#define STUCK_PART	2		/* of the window */
#define LOOKS		4		/* in each window, at most */
#define PERIOD_MIN_NS	(100 * NSEC_PER_USEC)
#define PERIOD_BLIND_NS	(20 * NSEC_PER_MSEC)	/* if nobody is to be found stuck */
#define KNOWN_MIN	32		/* latencies; fewer are kept */

static struct fusion_member *member_of(struct fusion_pulse *p)
{
	return container_of(p, struct fusion_member, pulse);
}

/* ---- who is unresponsive ---- */

/* With the lock: what was counted when it was taken is what counts. */
static bool pulse_turn(struct fusion_monitor *mon, struct fusion_pulse *p, s64 *stragglers)
{
	bool was = p->unresponsive, is;
	u64 now = ktime_get_ns();

	*stragglers = atomic64_read(&p->window.stragglers);
	is = fusion_unresponsive(was, *stragglers, READ_ONCE(p->enter), READ_ONCE(p->exit));
	if (is == was)
		return false;
	WRITE_ONCE(p->unresponsive, is);
	WRITE_ONCE(mon->unresponsive, mon->unresponsive ^ 1ULL << (member_of(p) - mon->member));
	if (is) {
		p->spikes++;
		p->since_ns = now;
	} else {
		p->spike_ns += now - p->since_ns;
	}
	return true;
}

static void monitor_tell(struct fusion_monitor *mon)
{
	if (mon->tell)
		mod_delayed_work(mon->tell_wq, mon->tell, 0);
}

static void pulse_judge(struct fusion_pulse *p, s64 stragglers)
{
	struct fusion_monitor *mon = p->monitor;
	bool is = READ_ONCE(p->unresponsive), turned;
	unsigned long flags;

	if (likely(is == fusion_unresponsive(is, stragglers, READ_ONCE(p->enter),
					     READ_ONCE(p->exit))))
		return;
	spin_lock_irqsave(&mon->lock, flags);
	turned = pulse_turn(mon, p, &stragglers);
	spin_unlock_irqrestore(&mon->lock, flags);
	if (!turned)
		return;
	is = READ_ONCE(p->unresponsive);
	trace_fusion_responsive(member_of(p)->bdev, !is, stragglers, READ_ONCE(p->window_ns));
	if (is)
		monitor_tell(mon);
}

/* Who starts an I/O in a new slot, and sees that the timer does not run, starts it. */
static void monitor_arm(struct fusion_monitor *mon)
{
	if (READ_ONCE(mon->armed) || READ_ONCE(mon->stopped) || xchg(&mon->armed, true))
		return;
	hrtimer_start(&mon->timer, ns_to_ktime(mon->period_ns), HRTIMER_MODE_REL_SOFT);
}

void fusion_pulse_first(struct fusion_pulse *p, u32 slot)
{
	pulse_judge(p, fusion_window_advance(&p->window, slot, READ_ONCE(p->slots)));
	monitor_arm(p->monitor);
}

void fusion_pulse_back(struct fusion_pulse *p, s64 left)
{
	pulse_judge(p, left);
}

void fusion_pulse_took(struct fusion_pulse *p, bool write, u64 start_ns)
{
	u32 *count = &p->latency[write].count[fusion_latency_bucket(ktime_get_ns() - start_ns)];

	/* if two do it at once one may be forgotten */
	WRITE_ONCE(*count, READ_ONCE(*count) + 1);
}

/* ---- parameters ---- */

static void pulse_thresholds(struct fusion_pulse *p, const struct fusion_tunables *t)
{
	u32 enter = READ_ONCE(t->straggler_enter), exit = READ_ONCE(t->straggler_exit);
	u64 silent_ns = div_u64(p->window_ns * SILENT_SLOTS, p->slots);
	u64 stuck_ns = p->window_ns / STUCK_PART;

	if (!READ_ONCE(t->monitor)) {
		enter = NEVER;
		exit = NEVER;
		silent_ns = NEVER_NS;
		stuck_ns = NEVER_NS;
	} else if (!enter) {
		enter = fusion_window_enter(p->per_s, p->window_ns);
		exit = enter / EXIT_PART;
	}
	WRITE_ONCE(p->enter, enter);
	WRITE_ONCE(p->exit, min(exit, enter));
	WRITE_ONCE(p->silent_ns, silent_ns);
	WRITE_ONCE(p->stuck_ns, stuck_ns);
}

/* As it is, while nothing is known. */
static u64 window_of(const struct fusion_pulse *p, const struct fusion_tunables *t)
{
	u64 min_ns = READ_ONCE(t->window_min_us) * (u64)NSEC_PER_USEC;
	u64 max_ns = READ_ONCE(t->window_max_us) * (u64)NSEC_PER_USEC;
	u64 read_ns = fusion_latency_percentile(&p->latency[0], 500);
	u64 write_ns = fusion_latency_percentile(&p->latency[1], 500);

	return read_ns || write_ns ? fusion_window_ns(read_ns, write_ns, min_ns, max_ns) :
		p->window_ns;
}

static void pulse_window(struct fusion_pulse *p, const struct fusion_tunables *t, u64 now)
{
	u64 ns = READ_ONCE(t->window_us) * (u64)NSEC_PER_USEC;
	u32 slots = READ_ONCE(t->window_slots) ?: SLOTS_DEFAULT;

	if (!ns)
		ns = max_t(u64, window_of(p, t), WINDOW_LEAST_NS);
	/* a little is not worth what it costs: what is pending is in slots of the old length */
	if (slots == p->slots && ns > p->window_ns - p->window_ns / 8 &&
	    ns < p->window_ns + p->window_ns / 8)
		return;
	WRITE_ONCE(p->window_ns, ns);
	WRITE_ONCE(p->slots, slots);
	fusion_slot_clock_set(&p->clock, now, div_u64(ns, slots));
}

/* Once a second, or more: for a burst is no rate. */
static void pulse_sample(struct fusion_pulse *p, u64 now)
{
	s64 issued = fusion_window_sum(&p->window).issued;
	int i;

	p->per_s = div64_u64((issued - p->issued) * NSEC_PER_SEC, now - p->tuned_ns);
	p->issued = issued;
	p->tuned_ns = now;
	for (i = 0; i < 2; i++)
		if (fusion_latency_total(&p->latency[i]) >= KNOWN_MIN)
			fusion_latency_age(&p->latency[i]);
}

static void pulse_tune(struct fusion_pulse *p, const struct fusion_tunables *t, u64 now, bool due)
{
	pulse_window(p, t, now);
	if (due)
		pulse_sample(p, now);
	pulse_thresholds(p, t);
}

/* Those whose settings have changed, and one that is due, so that nobody waits for all of these. */
static void monitor_tune(struct fusion_monitor *mon, u64 now)
{
	unsigned int i;

	mon->next = (mon->next + 1) % mon->count;
	for (i = 0; i < mon->count; i++) {
		struct fusion_pulse *p = &mon->member[i].pulse;
		bool due = i == mon->next && now - p->tuned_ns >= NSEC_PER_SEC;

		if (due || READ_ONCE(p->retune)) {
			WRITE_ONCE(p->retune, false);
			pulse_tune(p, mon->tunables, now, due);
		}
	}
}

/* ---- the timer ---- */

/* So long from @now on it is not stuck, which it is not yet: half a window, if it has just answered. */
static s64 pulse_safe_ns(const struct fusion_pulse *p, u64 now)
{
	s64 stuck_ns = READ_ONCE(p->stuck_ns);
	s64 silent_ns = READ_ONCE(p->answered) ? 0 : now - READ_ONCE(p->asked_ns);

	if (stuck_ns == NEVER_NS)
		return NEVER_NS;
	return stuck_ns - clamp_t(s64, silent_ns, 0, stuck_ns);
}

/* Rotates all windows.  Is something pending?  *@issued: in all, so far. */
static bool monitor_look(struct fusion_monitor *mon, u64 now, s64 *issued)
{
	s64 safe_ns = NEVER_NS, shortest_ns = NEVER_NS;
	bool pending = false, stuck = false, is;
	unsigned int i;

	*issued = 0;
	for (i = 0; i < mon->count; i++) {
		struct fusion_member *m = &mon->member[i];
		struct fusion_pulse *p = &m->pulse;
		struct fusion_window_sum sum;

		pulse_judge(p, fusion_window_rotate(&p->window, fusion_slot(&p->clock, now),
						    p->slots));
		sum = fusion_window_sum(&p->window);
		pending |= sum.pending > 0;
		*issued += sum.issued;
		shortest_ns = min_t(s64, shortest_ns, p->window_ns);
		/* what waited for it has been given up */
		if (fusion_member_out(m))
			continue;
		/* what has been sent to it since it was found to be stuck is to be told of, too */
		is = fusion_member_stuck(m, now);
		stuck |= is;
		safe_ns = min(safe_ns, is ? 0 : pulse_safe_ns(p, now));
	}
	mon->period_ns = safe_ns == NEVER_NS ? PERIOD_BLIND_NS :
		max3(safe_ns, shortest_ns / LOOKS, (s64)PERIOD_MIN_NS);
	if (stuck)
		monitor_tell(mon);
	return pending;
}

static enum hrtimer_restart monitor_timer(struct hrtimer *timer)
{
	struct fusion_monitor *mon = container_of(timer, struct fusion_monitor, timer);
	u64 now = ktime_get_ns();
	s64 issued;
	bool going;

	/* what was issued since the last look may be in a slot that is not over: others join it unseen */
	going = monitor_look(mon, now, &issued);
	going |= issued != mon->issued;
	mon->issued = issued;
	monitor_tune(mon, now);
	if (!going) {
		WRITE_ONCE(mon->armed, false);
		/* pairs with the exchange of who issues: either he sees that, or this sees his I/O */
		smp_mb();
		going = monitor_look(mon, now, &issued) && !xchg(&mon->armed, true);
	}
	if (!going)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(mon->period_ns));
	return HRTIMER_RESTART;
}

/* ---- life ---- */

static void pulse_init(struct fusion_pulse *p, struct fusion_monitor *mon, u64 now)
{
	p->monitor = mon;
	p->slots = SLOTS_DEFAULT;
	/* until something is known */
	p->window_ns = READ_ONCE(mon->tunables->window_max_us) * (u64)NSEC_PER_USEC;
	p->enter = NEVER;
	p->exit = NEVER;
	p->silent_ns = NEVER_NS;
	p->stuck_ns = NEVER_NS;
	p->answered = true;
	fusion_slot_clock_set(&p->clock, now, div_u64(p->window_ns, p->slots));
	p->tuned_ns = now;
}

void fusion_monitor_init(struct fusion_monitor *mon, struct fusion_member *member,
			 unsigned int count, const struct fusion_tunables *tunables)
{
	u64 now = ktime_get_ns();
	unsigned int i;

	mon->member = member;
	mon->count = count;
	mon->tunables = tunables;
	mon->stopped = true;
	mon->period_ns = PERIOD_MIN_NS;
	spin_lock_init(&mon->lock);
	hrtimer_init(&mon->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	mon->timer.function = monitor_timer;
	for (i = 0; i <= FUSION_MAX_MEMBERS; i++)
		pulse_init(&member[i].pulse, mon, now);
}

void fusion_monitor_tell(struct fusion_monitor *mon, struct workqueue_struct *wq,
			 struct delayed_work *work)
{
	mon->tell_wq = wq;
	mon->tell = work;
}

u64 fusion_monitor_stuck(const struct fusion_monitor *mon)
{
	u64 stuck = 0, now = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < mon->count; i++)
		if (fusion_member_stuck(&mon->member[i], now))
			stuck |= 1ULL << i;
	return stuck;
}

void fusion_monitor_start(struct fusion_monitor *mon)
{
	WRITE_ONCE(mon->stopped, false);
}

void fusion_monitor_stop(struct fusion_monitor *mon)
{
	WRITE_ONCE(mon->stopped, true);
	hrtimer_cancel(&mon->timer);
	WRITE_ONCE(mon->armed, false);
}

void fusion_monitor_kick(struct fusion_monitor *mon)
{
	unsigned int i;

	for (i = 0; i < mon->count; i++)
		WRITE_ONCE(mon->member[i].pulse.retune, true);
}

void fusion_monitor_forget(struct fusion_monitor *mon, struct fusion_member *m)
{
	struct fusion_pulse *p = &m->pulse;
	unsigned int i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < FUSION_LATENCY_BUCKETS; j++)
			WRITE_ONCE(p->latency[i].count[j], 0);
	WRITE_ONCE(p->retune, true);
}

u64 fusion_monitor_spikes(struct fusion_monitor *mon)
{
	unsigned int i;
	u64 spikes = 0;

	for (i = 0; i < mon->count; i++)
		spikes += READ_ONCE(mon->member[i].pulse.spikes);
	return spikes;
}

void fusion_monitor_report(struct fusion_monitor *mon, const struct fusion_member *m,
			   struct fusion_pulse_report *report)
{
	const struct fusion_pulse *p = &m->pulse;
	u64 now = ktime_get_ns();
	int i;

	spin_lock_irq(&mon->lock);
	report->unresponsive = p->unresponsive;
	report->spikes = p->spikes;
	report->spike_ns = p->spike_ns + (p->unresponsive ? now - p->since_ns : 0);
	spin_unlock_irq(&mon->lock);
	report->stragglers = fusion_stragglers(m);
	for (i = 0; i < 2; i++) {
		report->of[i].median = fusion_latency_percentile(&p->latency[i], 500);
		report->of[i].p99 = fusion_latency_percentile(&p->latency[i], 990);
	}
	report->window_ns = READ_ONCE(p->window_ns);
	report->enter = READ_ONCE(p->enter);
	report->exit = READ_ONCE(p->exit);
	if (report->enter == NEVER)
		report->enter = report->exit = 0;
	report->per_s = READ_ONCE(p->per_s);
}
