// SPDX-License-Identifier: GPL-2.0-only
#include <linux/math64.h>

#include "time.h"

static struct ssd_io *ssd_time_first(struct ssd_time *t)
{
	struct timerqueue_node *node = timerqueue_getnext(&t->queue);

	return node ? container_of(node, struct ssd_io, node) : NULL;
}

static enum hrtimer_restart ssd_time_due(struct hrtimer *timer)
{
	struct ssd_time *t = container_of(timer, struct ssd_time, timer);
	ktime_t now = hrtimer_cb_get_time(timer);
	struct bio_list due = BIO_EMPTY_LIST;
	struct ssd_io *io;
	struct bio *bio;

	spin_lock(&t->lock);
	while ((io = ssd_time_first(t)) && io->node.expires <= now) {
		timerqueue_del(&t->queue, &io->node);
		bio_list_add(&due, io->bio);
	}
	/* not HRTIMER_RESTART: ssd_time_end() may have started it meanwhile */
	if (io)
		hrtimer_start(timer, io->node.expires, HRTIMER_MODE_ABS_HARD);
	spin_unlock(&t->lock);

	while ((bio = bio_list_pop(&due)))
		bio_endio(bio);
	return HRTIMER_NORESTART;
}

void ssd_time_init(struct ssd_time *t)
{
	spin_lock_init(&t->lock);
	timerqueue_init_head(&t->queue);
	hrtimer_init(&t->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	t->timer.function = ssd_time_due;
}

void ssd_time_exit(struct ssd_time *t)
{
	hrtimer_cancel(&t->timer);
}

void ssd_time_set(struct ssd_time *t, const u32 latency_us[2], const u32 mb_per_s[2])
{
	unsigned long flags;
	int i;

	spin_lock_irqsave(&t->lock, flags);
	for (i = 0; i < 2; i++) {
		t->speed[i].latency_ns = latency_us[i] * NSEC_PER_USEC;
		t->speed[i].ps_per_byte = mb_per_s[i] ? 1000000 / mb_per_s[i] : 0;
	}
	t->on = true;
	spin_unlock_irqrestore(&t->lock, flags);
}

void ssd_time_off(struct ssd_time *t)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	t->on = false;
	spin_unlock_irqrestore(&t->lock, flags);
}

u64 ssd_time_busy_us(struct ssd_time *t)
{
	unsigned long flags;
	u64 busy_ns;

	spin_lock_irqsave(&t->lock, flags);
	busy_ns = t->busy_ns;
	spin_unlock_irqrestore(&t->lock, flags);
	return div_u64(busy_ns, NSEC_PER_USEC);
}

/* When it ends.  Under t->lock. */
static ktime_t ssd_time_carry(struct ssd_time *t, bool write, unsigned int bytes)
{
	const struct ssd_speed *speed = &t->speed[write];
	ktime_t now = ktime_get();
	u64 ns = div_u64((u64)bytes * speed->ps_per_byte, 1000);

	if (t->busy_until < now)
		t->busy_until = now;
	t->busy_until = ktime_add_ns(t->busy_until, ns);
	t->busy_ns += ns;
	return ktime_add_ns(t->busy_until, speed->latency_ns);
}

void ssd_time_end(struct ssd_time *t, struct ssd_io *io, struct bio *bio, unsigned int bytes)
{
	unsigned long flags;
	bool on;

	spin_lock_irqsave(&t->lock, flags);
	on = t->on;
	if (on) {
		io->bio = bio;
		timerqueue_init(&io->node);
		io->node.expires = ssd_time_carry(t, op_is_write(bio_op(bio)), bytes);
		if (timerqueue_add(&t->queue, &io->node))
			hrtimer_start(&t->timer, io->node.expires, HRTIMER_MODE_ABS_HARD);
	}
	spin_unlock_irqrestore(&t->lock, flags);
	if (!on)
		bio_endio(bio);
}
