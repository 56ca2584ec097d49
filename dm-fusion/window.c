// SPDX-License-Identifier: GPL-2.0-only
/*
 * The straggler window.  See window.h.
 */
#include "window.h"

#define MEDIANS		8
#define ENTER_MAX	6

void fusion_slot_clock_set(struct fusion_slot_clock *c, u64 now, u64 slot_ns)
{
	u32 next = fusion_slot(c, now) + 1, other = !(c->at & 1);

	WRITE_ONCE(c->is[other].base_ns, now);
	WRITE_ONCE(c->is[other].slots_per_ns, slot_ns > 1 ? ~0ULL / slot_ns : ~0ULL);
	WRITE_ONCE(c->is[other].base, next);
	/* a store that is seen late makes a wrong number: see fusion_slot() */
	WRITE_ONCE(c->at, other);
}

void fusion_window_leave(struct fusion_window *w, s64 cell)
{
	if (fusion_cell_issued(cell))
		atomic64_add(fusion_cell_issued(cell), &w->issued);
	if (fusion_cell_pending(cell))
		atomic64_add(fusion_cell_pending(cell), &w->stragglers);
}

/* Cell @i, if its slot has left the window. */
static void window_rotate_cell(struct fusion_window *w, unsigned int i, u32 slot,
			       unsigned int slots)
{
	s64 cell = atomic64_read(&w->cell[i]);
	s32 behind = slot - fusion_cell_slot(cell);

	/* who issues, or ends, may be faster: then it is seen next time, or it is his slot's */
	if (behind >= (s32)slots && fusion_cell_issued(cell) &&
	    atomic64_try_cmpxchg(&w->cell[i], &cell, FUSION_CELL(fusion_cell_slot(cell), 0, 0)))
		fusion_window_leave(w, cell);
}

s64 fusion_window_rotate(struct fusion_window *w, u32 slot, unsigned int slots)
{
	unsigned int i;

	WRITE_ONCE(w->rotated, slot);
	for (i = 0; i < FUSION_WINDOW_CELLS; i++)
		window_rotate_cell(w, i, slot, slots);
	return atomic64_read(&w->stragglers);
}

s64 fusion_window_advance(struct fusion_window *w, u32 slot, unsigned int slots)
{
	u32 left = READ_ONCE(w->rotated) - slots + 1;	/* the first that may have left since */

	if (slot - slots + 1 - left >= FUSION_WINDOW_CELLS)
		return fusion_window_rotate(w, slot, slots);
	WRITE_ONCE(w->rotated, slot);
	for (; left != slot - slots + 1; left++)
		window_rotate_cell(w, left % FUSION_WINDOW_CELLS, slot, slots);
	return atomic64_read(&w->stragglers);
}

struct fusion_window_sum fusion_window_sum(const struct fusion_window *w)
{
	struct fusion_window_sum sum = {
		.pending = atomic64_read(&w->stragglers),
		.issued = atomic64_read(&w->issued),
	};
	unsigned int i;

	for (i = 0; i < FUSION_WINDOW_CELLS; i++) {
		s64 cell = atomic64_read(&w->cell[i]);

		sum.pending += fusion_cell_pending(cell);
		sum.issued += fusion_cell_issued(cell);
	}
	return sum;
}

u64 fusion_window_ns(u64 read_ns, u64 write_ns, u64 min_ns, u64 max_ns)
{
	u64 ns = MEDIANS * (read_ns > write_ns ? read_ns : write_ns);

	if (ns < min_ns)
		ns = min_ns;
	return ns < max_ns ? ns : max_ns;
}

u32 fusion_window_enter(u64 per_s, u64 window_ns)
{
	u64 half = per_s * (window_ns / 2) / 1000000000;

	if (half < 1)
		return 1;
	return half < ENTER_MAX ? half : ENTER_MAX;
}
