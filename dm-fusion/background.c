// SPDX-License-Identifier: GPL-2.0-only
/*
 * Background work.  See background.h.
 */
#include <linux/sched.h>

#include "background.h"

static void background_work(struct work_struct *work)
{
	struct fusion_background *b = container_of(work,
						   struct fusion_background,
						   work);
	u64 requested;

	do {
		requested = atomic64_read(&b->requested);
		b->error = b->pass(b);
		/* release: the error before the answer */
		smp_store_release(&b->served, requested);
		wake_up_all(&b->wait);
	} while (!fusion_background_stopping(b) &&
		 requested != atomic64_read(&b->requested));
}

int fusion_background_run(struct fusion_background *b,
			  struct workqueue_struct *wq)
{
	u64 ticket;
	int r;

	if (READ_ONCE(b->stop))
		return -EINTR;
	/* before the request: a pass that gave up for want of waiters is older */
	atomic_inc(&b->waiters);
	ticket = atomic64_inc_return(&b->requested);
	queue_work(wq, &b->work);
	r = wait_event_interruptible(b->wait, READ_ONCE(b->stop) ||
				     /* acquire: see background_work() */
				     smp_load_acquire(&b->served) >= ticket);
	if (r || READ_ONCE(b->stop))
		r = -EINTR;
	else
		r = READ_ONCE(b->error);
	atomic_dec(&b->waiters);
	return r;
}

void fusion_background_start(struct fusion_background *b)
{
	WRITE_ONCE(b->stop, false);
}

void fusion_background_end(struct fusion_background *b)
{
	WRITE_ONCE(b->stop, true);
	wake_up_all(&b->wait);
}

void fusion_background_stop(struct fusion_background *b)
{
	fusion_background_end(b);
	cancel_work_sync(&b->work);
}

void fusion_background_init(struct fusion_background *b,
			    int (*pass)(struct fusion_background *b))
{
	b->pass = pass;
	b->stop = true;
	INIT_WORK(&b->work, background_work);
	init_waitqueue_head(&b->wait);
}
