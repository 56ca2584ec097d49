/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Background work that is asked for: passes of a worker, and those who wait for
 * them.  Requests made before a pass begins share it.  A pass goes on as long as
 * somebody waits: who is interrupted, and was the only one, ends it.
 */
#ifndef DM_FUSION_BACKGROUND_H
#define DM_FUSION_BACKGROUND_H

#include <linux/atomic.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct fusion_background {
	/* One pass; -EINTR early if fusion_background_stopping(). */
	int (*pass)(struct fusion_background *b);
	struct work_struct work;
	wait_queue_head_t wait;
	bool stop;
	atomic_t waiters;
	atomic64_t requested;
	u64 served;			/* requests up to this one */
	int error;			/* of the last pass */
};

/* Stopped at first. */
void fusion_background_init(struct fusion_background *b,
			    int (*pass)(struct fusion_background *b));

void fusion_background_start(struct fusion_background *b);
/* Have the pass that is under way end early; who waits for it gets -EINTR. */
void fusion_background_end(struct fusion_background *b);
/* And wait until it has. */
void fusion_background_stop(struct fusion_background *b);

static inline bool fusion_background_stopping(const struct fusion_background *b)
{
	return READ_ONCE(b->stop) || !atomic_read(&b->waiters);
}

/*
 * Have a pass begin, in a worker of @wq, after this call, and wait for its end:
 * what it returned, or -EINTR.
 */
int fusion_background_run(struct fusion_background *b,
			  struct workqueue_struct *wq);

#endif /* DM_FUSION_BACKGROUND_H */
