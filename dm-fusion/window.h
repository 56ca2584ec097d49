/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The straggler window of a member (FusionRAID, section 3.4): has what it was sent a while ago not
 * come back?
 *
 * Time is cut into slots.  An I/O counts in the slot that it was issued in.  As many slots as the
 * window has, the one that is now among them, are the window; when a slot leaves it, what is still
 * pending of it joins the stragglers.  What comes back leaves whichever of the two counts it is in.
 *
 * A cell has the number of its slot and what is pending of it, in one word, so that nothing here
 * locks: who issues adds to the cell of his slot, and if it is another's still, moves that to the
 * stragglers; who ends subtracts from the cell if that is his slot's and has something, and from
 * the stragglers if not.  So at any time, and whatever slots the callers say that it is, the
 * cells and the stragglers are in sum what is pending.  Between two steps of who moves something
 * the stragglers may be too few, even less than none.
 *
 * A cell also counts what was issued in its slot, for the rate.
 *
 * Pure; any context.
 */
#ifndef DM_FUSION_WINDOW_H
#define DM_FUSION_WINDOW_H

#include "pure-atomic.h"

/* Cells; more than the window has slots, so that a clock that is late disturbs nothing. */
#define FUSION_WINDOW_CELLS	16
#define FUSION_WINDOW_SLOTS_MAX	12

struct fusion_window {
	atomic64_t cell[FUSION_WINDOW_CELLS];
	atomic64_t stragglers;
	atomic64_t issued;		/* in slots that have left the window */
	u32 rotated;			/* as of this slot; who does it says so before he does */
};

/* The number of a slot, from a time: changed rarely, by one at a time; see fusion_slot(). */
struct fusion_slot_clock {
	u32 at;				/* which of these holds */
	struct {
		u64 base_ns;
		u64 slots_per_ns;	/* in 2^-64 */
		u32 base;
	} is[2];
};

/* From @now on slots are so long; it is in a new one.  Callers exclude each other. */
void fusion_slot_clock_set(struct fusion_slot_clock *c, u64 now, u64 slot_ns);

/*
 * Whoever is late to read the clock, by two changes, gets a wrong number; then some I/Os are taken
 * for stragglers, or not, that are none, or are.
 */
static inline u32 fusion_slot(const struct fusion_slot_clock *c, u64 now)
{
	u32 at = READ_ONCE(c->at) & 1;
	s64 ns = now - READ_ONCE(c->is[at].base_ns);

	return READ_ONCE(c->is[at].base) +
		(ns > 0 ? (u32)fusion_mul_high(ns, READ_ONCE(c->is[at].slots_per_ns)) : 0);
}

/* A cell: its slot's number, what was issued in it, and what is pending of that. */
#define FUSION_CELL(slot, issued, pending) \
	((s64)((u64)(slot) << 32 | (u64)(issued) << 16 | (pending)))
#define FUSION_CELL_MAX		0xffff

static inline u32 fusion_cell_slot(s64 cell)
{
	return (u64)cell >> 32;
}

static inline unsigned int fusion_cell_issued(s64 cell)
{
	return cell >> 16 & FUSION_CELL_MAX;
}

static inline unsigned int fusion_cell_pending(s64 cell)
{
	return cell & FUSION_CELL_MAX;
}

/* What was in a cell that is another slot's now joins the stragglers. */
void fusion_window_leave(struct fusion_window *w, s64 cell);

/*
 * An I/O is issued in @slot.  True: it is the first of it, or of a window that was rotated, and the
 * caller calls fusion_window_advance().
 */
static inline bool fusion_window_issue(struct fusion_window *w, u32 slot)
{
	atomic64_t *cell = &w->cell[slot % FUSION_WINDOW_CELLS];
	s64 old = atomic64_read(cell);
	bool ours;

	do {
		/* one that is full is as good as another slot's */
		ours = fusion_cell_slot(old) == slot &&
			fusion_cell_issued(old) < FUSION_CELL_MAX;
	} while (!atomic64_try_cmpxchg(cell, &old, ours ? old + FUSION_CELL(0, 1, 1) :
				       FUSION_CELL(slot, 1, 1)));
	if (likely(ours))
		return !fusion_cell_issued(old);
	fusion_window_leave(w, old);
	return true;
}

/*
 * An I/O that was issued in @slot has ended.  True: it was a straggler, and *@left are others.
 */
static inline bool fusion_window_end(struct fusion_window *w, u32 slot, s64 *left)
{
	atomic64_t *cell = &w->cell[slot % FUSION_WINDOW_CELLS];
	s64 old = atomic64_read(cell);

	while (likely(fusion_cell_slot(old) == slot && fusion_cell_pending(old)))
		if (likely(atomic64_try_cmpxchg(cell, &old, old - FUSION_CELL(0, 0, 1))))
			return false;
	*left = atomic64_dec_return(&w->stragglers);
	return true;
}

/*
 * It is @slot: what has left a window of @slots slots joins the stragglers.  Returns how many there
 * are then.  Whatever may be in it; and what has left it since this was called last.
 */
s64 fusion_window_rotate(struct fusion_window *w, u32 slot, unsigned int slots);
s64 fusion_window_advance(struct fusion_window *w, u32 slot, unsigned int slots);

/* All that is pending, and was issued before; exact if nothing is issued or ends meanwhile. */
struct fusion_window_sum {
	s64 pending, issued;
};

struct fusion_window_sum fusion_window_sum(const struct fusion_window *w);

/* ---- what is a spike ---- */

/*
 * Of a member whose reads and writes take so long in the median (0: not known): the window, in ns,
 * and in these bounds.
 */
u64 fusion_window_ns(u64 read_ns, u64 write_ns, u64 min_ns, u64 max_ns);

/*
 * At so many stragglers a member that is sent @per_s I/Os a second is unresponsive: as many as half
 * a window brings, but six at most, the paper's number.
 */
u32 fusion_window_enter(u64 per_s, u64 window_ns);

/*
 * Is a member unresponsive that was, or was not, and has so many stragglers?  It becomes so at
 * @enter, and responsive at @exit or fewer, or if these are the same at fewer than that.
 */
static inline bool fusion_unresponsive(bool was, s64 stragglers, u32 enter, u32 exit)
{
	return stragglers >= (s64)enter || (was && stragglers > (s64)exit);
}

#endif /* DM_FUSION_WINDOW_H */
