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

void ssd_time_set(struct ssd_time *t, const struct ssd_model *model, u64 seed)
{
	unsigned long flags;
	u64 busy_ns;

	spin_lock_irqsave(&t->lock, flags);
	busy_ns = t->drive.busy_ns;
	ssd_drive_init(&t->drive, model, seed, ktime_get_ns());
	t->drive.busy_ns = busy_ns;
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

void ssd_time_count(struct ssd_time *t, struct ssd_time_counts *counts)
{
	unsigned long flags;
	int i;

	spin_lock_irqsave(&t->lock, flags);
	counts->busy_us = div_u64(t->drive.busy_ns, NSEC_PER_USEC);
	counts->stalled_us = div_u64(t->drive.stalled_ns, NSEC_PER_USEC);
	for (i = 0; i < SSD_NR_STALL_KINDS; i++)
		counts->stalls[i] = t->drive.stalls[i];
	spin_unlock_irqrestore(&t->lock, flags);
}

/* What is on its way to units that stand still comes later.  Under t->lock. */
static void ssd_time_delay(struct ssd_time *t, const struct ssd_stall *stall)
{
	struct timerqueue_head queue;
	struct ssd_io *io;

	timerqueue_init_head(&queue);
	while ((io = ssd_time_first(t))) {
		timerqueue_del(&t->queue, &io->node);
		if (io->units & stall->units)
			io->node.expires = ktime_add_ns(io->node.expires, stall->ns);
		timerqueue_add(&queue, &io->node);
	}
	t->queue = queue;
	/* the timer may be due too early now: then it goes on to the first */
}

int ssd_time_stall(struct ssd_time *t, u32 units, u64 ns)
{
	struct ssd_stall stall;
	unsigned long flags;
	bool on;

	spin_lock_irqsave(&t->lock, flags);
	on = t->on;
	if (on) {
		ssd_drive_stall(&t->drive, ktime_get_ns(), units, ns, &stall);
		ssd_time_delay(t, &stall);
	}
	spin_unlock_irqrestore(&t->lock, flags);
	return on ? 0 : -EINVAL;
}

/* When @bio ends.  Under t->lock. */
static ktime_t ssd_time_of(struct ssd_time *t, struct ssd_io *io, struct bio *bio)
{
	u64 now = ktime_get_ns(), bytes = bio_has_data(bio) ? bio->bi_iter.bi_size : 0;
	bool write = op_is_write(bio_op(bio));
	struct ssd_stall stall;
	u64 written = write ? bytes : 0;

	for (; ssd_drive_written(&t->drive, now, written, &stall); written = 0)
		ssd_time_delay(t, &stall);
	if (bio_op(bio) == REQ_OP_DISCARD)
		ssd_drive_discarded(&t->drive, bio->bi_iter.bi_size);
	return ns_to_ktime(ssd_drive_end(&t->drive, now, write,
					 bio->bi_iter.bi_sector << SECTOR_SHIFT, bytes, &io->units));
}

void ssd_time_end(struct ssd_time *t, struct ssd_io *io, struct bio *bio)
{
	unsigned long flags;
	bool on;

	spin_lock_irqsave(&t->lock, flags);
	on = t->on;
	if (on) {
		io->bio = bio;
		timerqueue_init(&io->node);
		io->node.expires = ssd_time_of(t, io, bio);
		if (timerqueue_add(&t->queue, &io->node))
			hrtimer_start(&t->timer, io->node.expires, HRTIMER_MODE_ABS_HARD);
	}
	spin_unlock_irqrestore(&t->lock, flags);
	if (!on)
		bio_endio(bio);
}
