// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes and records.  See flush.h.
 */
#include "failure.h"
#include "flush.h"
#include "hang.h"
#include "private.h"

#define DM_MSG_PREFIX "fusion"

/* On the stack of who waits; the masks under hang.lock. */
struct members_io {
	struct fusion_pool *pool;
	u64 left, failed, abandoned;
	u8 index[FUSION_MAX_MEMBERS];	/* the number of each: what its I/O knows */
};

static void members_end(void *owner, blk_status_t status, bool abandoned)
{
	u8 *index = owner;
	struct members_io *io = container_of(index - *index, struct members_io, index[0]);
	struct fusion_pool *pool = io->pool;
	unsigned long flags;

	spin_lock_irqsave(&pool->hang.lock, flags);
	io->left &= ~(1ULL << *index);
	if (status)
		io->failed |= 1ULL << *index;
	if (abandoned)
		io->abandoned |= 1ULL << *index;
	/* with the lock: @io is gone when who waits has it */
	wake_up_all(&pool->hang.wait);
	spin_unlock_irqrestore(&pool->hang.lock, flags);
}

static void members_submit(struct members_io *io, unsigned int i, blk_opf_t opf,
			   struct page *page, sector_t sector)
{
	struct fusion_private *p;

	io->index[i] = i;
	p = fusion_private_get(io->pool, opf | REQ_SYNC, members_end, &io->index[i]);
	p->commit = true;
	if (page) {
		p->bio.bi_iter.bi_sector = sector;
		__bio_add_page(&p->bio, page, FUSION_LABEL_BYTES, 0);
	}
	fusion_private_submit(p, &io->pool->member[i]);
}

/*
 * Those in @hung: the pool does without them, if it can, and else waits for them.  Under the commit
 * mutex.
 */
static void members_give_up(struct members_io *io, u64 hung, u64 failed)
{
	struct fusion_pool *pool = io->pool;

	for (; hung; hung &= hung - 1) {
		struct fusion_member *m = &pool->member[fusion_ctz64(hung)];
		u64 with = failed | 1ULL << fusion_ctz64(hung);
		/*
		 * If its cache is lost with it none that is failing can be done without.  Of one
		 * that is to be used again nothing is lost.
		 */
		u64 failing = fusion_member_out(m) ? 0 : fusion_failures_failing(pool);

		if (!fusion_failures_bear(pool, with | failing)) {
			fusion_hang_tell(pool, m);
			continue;
		}
		failed = with;
		fusion_private_abandon(m, true);
	}
}

/* Without it. */
static void members_give_up_unlocked(struct members_io *io, u64 hung, u64 failed)
{
	mutex_lock(&io->pool->commit_lock);
	members_give_up(io, hung, failed);
	mutex_unlock(&io->pool->commit_lock);
}

/*
 * Wait for all of @io.  Those that hang @give_up sees to, who is told of those that have @failed
 * meanwhile or before.
 */
static void members_wait(struct members_io *io, u64 failed,
			 void (*give_up)(struct members_io *io, u64 hung, u64 failed))
{
	struct fusion_pool *pool = io->pool;
	u64 looked = 0, hung;

	spin_lock_irq(&pool->hang.lock);
	for (;;) {
		wait_event_lock_irq(pool->hang.wait, !io->left ||
				    io->left & pool->hang.hung & ~looked,
				    pool->hang.lock);
		if (!io->left)
			break;
		hung = io->left & pool->hang.hung & ~looked;
		looked |= hung;
		failed |= io->failed;
		spin_unlock_irq(&pool->hang.lock);
		give_up(io, hung, failed);
		spin_lock_irq(&pool->hang.lock);
	}
	spin_unlock_irq(&pool->hang.lock);
}

/* Write @page to each of @which, all at once; those that failed.  Of @failed that is known already. */
static u64 members_write(struct fusion_pool *pool, u64 which, u64 failed, struct page *page,
			 sector_t sector)
{
	struct members_io io = { .pool = pool, .left = which };

	for (; which; which &= which - 1)
		members_submit(&io, fusion_ctz64(which), REQ_OP_WRITE | REQ_FUA, page, sector);
	members_wait(&io, failed, members_give_up);
	return io.failed;
}

/* Flush each of @which; those that failed, but those that are out by now, and were given up. */
static u64 members_flush(struct fusion_pool *pool, u64 which)
{
	struct members_io io = { .pool = pool, .left = which };
	u64 left;

	for (left = which; left; left &= left - 1)
		members_submit(&io, fusion_ctz64(left), REQ_OP_WRITE | REQ_PREFLUSH, NULL, 0);
	/* who went out before that was on its way has not been given up with the rest */
	for (left = which; left; left &= left - 1) {
		struct fusion_member *m = &pool->member[fusion_ctz64(left)];

		if (fusion_member_out(m))
			fusion_private_abandon(m, true);
	}
	members_wait(&io, 0, members_give_up_unlocked);
	return io.failed & ~(io.abandoned & fusion_members_out(pool));
}

u64 fusion_members_flush(struct fusion_pool *pool)
{
	u64 dirty = 0, failed, left;
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++) {
		struct fusion_member *m = &pool->member[i];

		if (!READ_ONCE(m->dirty) || fusion_member_out(m))
			continue;
		WRITE_ONCE(m->dirty, false);
		dirty |= 1ULL << i;
	}
	/* the marks are clear before the flushes are issued */
	smp_mb();
	failed = members_flush(pool, dirty);
	for (left = failed; left; left &= left - 1) {
		struct fusion_member *m = &pool->member[fusion_ctz64(left)];

		DMERR_LIMIT("%pg: flush failed", m->bdev);
		WRITE_ONCE(m->dirty, true);
	}
	return failed;
}

u64 fusion_members_write_record(struct fusion_pool *pool, u64 which, struct page *record)
{
	u64 failed;

	failed = members_write(pool, which, 0, record, FUSION_RECORD_COPY0 >> SECTOR_SHIFT);
	return failed & members_write(pool, which, failed, record,
				      FUSION_RECORD_COPY1 >> SECTOR_SHIFT);
}

int fusion_member_read_page(struct fusion_pool *pool, unsigned int i, sector_t sector,
			    struct page *page)
{
	struct members_io io = { .pool = pool, .left = 1ULL << i };

	members_submit(&io, i, REQ_OP_READ, page, sector);
	spin_lock_irq(&pool->hang.lock);
	wait_event_lock_irq(pool->hang.wait, !io.left || io.left & pool->hang.hung ||
			    !READ_ONCE(pool->active), pool->hang.lock);
	if (io.left) {
		spin_unlock_irq(&pool->hang.lock);
		fusion_private_abandon(&pool->member[i], true);
		spin_lock_irq(&pool->hang.lock);
		/* or who ended it meanwhile has not been here */
		wait_event_lock_irq(pool->hang.wait, !io.left, pool->hang.lock);
	}
	spin_unlock_irq(&pool->hang.lock);
	if (io.abandoned)
		return -ETIMEDOUT;
	return io.failed ? -EIO : 0;
}
