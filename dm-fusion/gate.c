// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gates of stripes.  See gate.h.
 */
#include <linux/sched.h>

#include "gate.h"

#define ALONE	LONG_MAX

void fusion_gates_init(struct fusion_gates *g)
{
	xa_init(&g->in);
	init_waitqueue_head(&g->left);
	g->broken = false;
}

void fusion_gates_exit(struct fusion_gates *g)
{
	xa_destroy(&g->in);
}

/* How many are in it; under the array's lock, or RCU. */
static unsigned long gate_in(struct fusion_gates *g, u64 stripe)
{
	void *entry = xa_load(&g->in, stripe);

	return entry ? xa_to_value(entry) : 0;
}

bool fusion_gate_enter(struct fusion_gates *g, u64 stripe, bool alone)
{
	unsigned long in;
	void *old;

	do {
		in = gate_in(g, stripe);
		if (in && (alone || in == ALONE))
			return false;
		old = xa_cmpxchg(&g->in, stripe, in ? xa_mk_value(in) : NULL,
				 xa_mk_value(alone ? ALONE : in + 1), GFP_NOIO);
		if (xa_is_err(old))
			return false;
	} while (old != (in ? xa_mk_value(in) : NULL));
	return true;
}

bool fusion_gate_alone(struct fusion_gates *g, u64 stripe)
{
	return gate_in(g, stripe) == ALONE;
}

void fusion_gate_leave(struct fusion_gates *g, u64 stripe)
{
	unsigned long in;
	void *next;

	do {
		in = gate_in(g, stripe);
		next = in == ALONE || in == 1 ? NULL : xa_mk_value(in - 1);
		/* what is there is replaced, or erased: that takes no memory */
	} while (xa_cmpxchg(&g->in, stripe, xa_mk_value(in), next, GFP_NOIO) !=
		 xa_mk_value(in));
	/* wq_has_sleeper(): pairs with who begins to wait, and then looks */
	if (in == ALONE && wq_has_sleeper(&g->left))
		wake_up_all(&g->left);
}

int fusion_gate_enter_wait(struct fusion_gates *g, u64 stripe)
{
	while (!fusion_gate_enter(g, stripe, false)) {
		wait_event(g->left, !fusion_gate_alone(g, stripe) ||
			   READ_ONCE(g->broken));
		if (READ_ONCE(g->broken))
			return -EIO;
		/* somebody else is alone in it by now, or there was no memory */
		cond_resched();
	}
	return 0;
}

void fusion_gates_break(struct fusion_gates *g)
{
	WRITE_ONCE(g->broken, true);
	/* pairs with who begins to wait */
	smp_mb();
	wake_up_all(&g->left);
}
