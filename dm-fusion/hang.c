// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members that hang.  See hang.h.
 */
#include "failure.h"
#include "hang.h"
#include "mode.h"
#include "passdown.h"
#include "private.h"

#define DM_MSG_PREFIX "fusion"

#define HANG_LOOKS	8

static u32 hang_ms(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->reclaim.tunables.hang_ms);
}

/* ---- the watch ---- */

static bool hang_overdue(struct fusion_member *m)
{
	u8 before = !m->turn;

	if (!(atomic64_read(&m->pending[before]) & ~FUSION_PENDING_GIVEN_UP)) {
		m->hang.age = 0;
		WRITE_ONCE(m->turn, before);
		return false;
	}
	return ++m->hang.age >= HANG_LOOKS;
}

/* Does member @i hang? */
static bool hang_look_at(struct fusion_pool *pool, unsigned int i)
{
	struct fusion_member *m = &pool->member[i];
	bool out = fusion_member_out(m);
	bool watched = hang_ms(pool) && (!out || READ_ONCE(m->hang.returning));
	bool hung = watched && hang_overdue(m);

	if (hung && !m->hang.hung)
		DMERR("%s: %pg has not answered for %u ms",
		      fusion_pool_name(pool), m->bdev, hang_ms(pool));
	else if (!hung && m->hang.told && !out)
		DMINFO("%s: %pg answers again", fusion_pool_name(pool), m->bdev);
	if (!hung)
		m->hang.told = false;
	m->hang.hung = hung;
	return hung;
}

/* From one look to the next, in jiffies; 0: there is none. */
static unsigned long hang_period(const struct fusion_pool *pool)
{
	u32 ms = hang_ms(pool);

	return ms ? max(msecs_to_jiffies(ms) / HANG_LOOKS, 1UL) : 0;
}

static void hang_queue(struct fusion_pool *pool, unsigned long delay)
{
	if (READ_ONCE(pool->hang.watching))
		queue_delayed_work(pool->hang.wq, &pool->hang.work, delay);
}

static void hang_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(to_delayed_work(work), struct fusion_pool,
						hang.work);
	unsigned long period = hang_period(pool), now = jiffies;
	unsigned long due = pool->hang.looked + period;
	u64 hung = 0;
	unsigned int i;

	/* kicked: what is looked at once more has not grown older by that */
	if (period && time_before(now, due)) {
		hang_queue(pool, due - now);
		return;
	}
	pool->hang.looked = now;
	for (i = 0; i < pool->layout->n; i++)
		if (hang_look_at(pool, i))
			hung |= 1ULL << i;
	spin_lock_irq(&pool->hang.lock);
	pool->hang.hung = hung;
	if (hung)
		wake_up_all(&pool->hang.wait);
	spin_unlock_irq(&pool->hang.lock);
	/* whether it can be done without may change */
	if (hung)
		fusion_failures_kick(pool);
	if (period)
		hang_queue(pool, period);
}

u64 fusion_hung(struct fusion_pool *pool)
{
	u64 hung;

	spin_lock_irq(&pool->hang.lock);
	hung = pool->hang.hung;
	spin_unlock_irq(&pool->hang.lock);
	return hung;
}

void fusion_hang_tell(struct fusion_pool *pool, struct fusion_member *m)
{
	if (xchg(&m->hang.told, true))
		return;
	DMERR("%s: %pg hangs, and cannot be done without: it is waited for until it answers, is reset or taken away",
	      fusion_pool_name(pool), m->bdev);
}

void fusion_hang_kick(struct fusion_pool *pool)
{
	if (READ_ONCE(pool->hang.watching))
		mod_delayed_work(pool->hang.wq, &pool->hang.work, 0);
}

/* ---- what is under way ---- */

void fusion_hang_give_up(struct fusion_pool *pool, struct fusion_member *m)
{
	unsigned int i, reads[2], pending = fusion_member_pending(m);

	m->hang.over = jiffies + (m->hang.hung ? 0 : msecs_to_jiffies(hang_ms(pool)));
	if (pending && m->hang.hung)
		DMWARN("%s: what is under way on %pg, %u I/Os, ends when it answers, is reset or taken away",
		       fusion_pool_name(pool), m->bdev, pending);
	fusion_member_give_up_reads(m, reads);
	for (i = 0; i < 2; i++)
		fusion_grace_leave_many(&pool->grace, i, reads[i]);
	fusion_private_abandon(m, false);
	fusion_passdown_abandon(pool, m - pool->member);
	/* who counts on it for the journal */
	wake_up_all(&pool->hang.wait);
}

void fusion_hang_late(struct fusion_pool *pool, struct fusion_member *m,
		      const struct fusion_ticket *ticket)
{
	unsigned long flags;

	/* the pool is gone as soon as who waits for its end has the lock */
	spin_lock_irqsave(&pool->hang.lock, flags);
	fusion_member_end(m, ticket);
	wake_up_all(&pool->hang.wait);
	spin_unlock_irqrestore(&pool->hang.lock, flags);
}

static bool hang_idle(struct fusion_pool *pool)
{
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (fusion_member_pending(&pool->member[i]))
			return false;
	return true;
}

bool fusion_hang_left(struct fusion_pool *pool)
{
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (fusion_member_out(&pool->member[i]) &&
		    fusion_member_pending(&pool->member[i]))
			return true;
	return false;
}

bool fusion_hang_over(struct fusion_pool *pool, struct fusion_member *m)
{
	/* nobody is woken by what ends as ever */
	do {
		wait_event_timeout(pool->hang.wait, !fusion_member_pending(m) ||
				   !READ_ONCE(pool->active), HZ);
		if (!fusion_member_pending(m))
			return true;
	} while (time_before(jiffies, m->hang.over) && READ_ONCE(pool->active));
	return false;
}

void fusion_hang_let_go(struct fusion_pool *pool)
{
	wake_up_all(&pool->hang.wait);
}

void fusion_hang_returns(struct fusion_pool *pool, unsigned int i, bool returns)
{
	spin_lock_irq(&pool->hang.lock);
	pool->hang.hung &= ~(1ULL << i);
	spin_unlock_irq(&pool->hang.lock);
	WRITE_ONCE(pool->member[i].hang.returning, returns);
}

void fusion_hang_forget(struct fusion_member *m)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		atomic64_and(~FUSION_PENDING_GIVEN_UP, &m->pending[i]);
	m->hang.age = 0;
}

/* ---- life ---- */

void fusion_hang_start(struct fusion_pool *pool)
{
	pool->hang.looked = jiffies;
	WRITE_ONCE(pool->hang.watching, true);
	hang_queue(pool, hang_period(pool));
}

void fusion_hang_stop(struct fusion_pool *pool)
{
	WRITE_ONCE(pool->hang.watching, false);
	cancel_delayed_work_sync(&pool->hang.work);
	spin_lock_irq(&pool->hang.lock);
	pool->hang.hung = 0;
	wait_event_lock_irq(pool->hang.wait, hang_idle(pool), pool->hang.lock);
	spin_unlock_irq(&pool->hang.lock);
}

void fusion_hang_init(struct fusion_pool *pool)
{
	struct fusion_hangs *h = &pool->hang;
	unsigned int i;

	spin_lock_init(&h->lock);
	init_waitqueue_head(&h->wait);
	INIT_DELAYED_WORK(&h->work, hang_work);
	for (i = 0; i <= FUSION_NOWHERE; i++) {
		spin_lock_init(&pool->member[i].private_lock);
		INIT_LIST_HEAD(&pool->member[i].private);
	}
}
