/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gates of RAID stripes: who moves blocks out of a stripe, compares its parity, or
 * computes from it what cannot be read, is in its gate beside others; who writes to it
 * in place is in it alone.  Readers wait to enter; the background leaves a stripe that it
 * cannot enter for later, and waits, if at all, when it has nothing else.
 *
 * Only stripes that somebody is in have a gate.  Everything sleeps, for memory.
 */
#ifndef DM_FUSION_GATE_H
#define DM_FUSION_GATE_H

#include <linux/types.h>
#include <linux/wait.h>
#include <linux/xarray.h>

struct fusion_gates {
	struct xarray in;		/* by stripe: how many, or ALONE */
	wait_queue_head_t left;		/* for who is alone to leave */
	bool broken;			/* it may be for ever */
};

void fusion_gates_init(struct fusion_gates *g);
/* Who is in one still has failed: see destage.c. */
void fusion_gates_exit(struct fusion_gates *g);

/* False: somebody is in it who cannot be there at once with us, or no memory. */
bool fusion_gate_enter(struct fusion_gates *g, u64 stripe, bool alone);
/* Is somebody alone in it? */
bool fusion_gate_alone(struct fusion_gates *g, u64 stripe);
void fusion_gate_leave(struct fusion_gates *g, u64 stripe);
/* Wait to enter it beside others.  -EIO: who is alone in it may never leave. */
int fusion_gate_enter_wait(struct fusion_gates *g, u64 stripe);
/* From now on that may be so.  Any context. */
void fusion_gates_break(struct fusion_gates *g);

#endif /* DM_FUSION_GATE_H */
