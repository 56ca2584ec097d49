// SPDX-License-Identifier: GPL-2.0-only
/*
 * Passing down.  See passdown.h.
 *
 * A power cut in the middle, before, or after does no harm: the templates are
 * free in the last commit and all that follow until they are returned, so no
 * metadata that a start may find refers to them.
 */
#include <linux/blkdev.h>

#include "hang.h"
#include "mode.h"
#include "passdown.h"
#include "waiters.h"

#define DM_MSG_PREFIX "fusion"

/* Any context. */
static void passdown_put(struct fusion_passdown *p)
{
	if (atomic_dec_and_test(&p->pending))
		complete(&p->done);
}

static struct fusion_member *passdown_member(const struct fusion_passdown_member *pm)
{
	return &pm->pool->member[pm - pm->pool->passdown.member];
}

static void passdown_end(struct fusion_passdown_member *pm, blk_status_t status)
{
	struct fusion_member *m = passdown_member(pm);
	struct fusion_pool *pool = pm->pool;

	if (!xchg(&pm->under_way, false)) {
		fusion_hang_late(pool, m, &pm->ticket);
		return;
	}
	pm->status = status;
	/* a discard leaves nothing that must be flushed */
	fusion_member_end(m, &pm->ticket);
	passdown_put(&pool->passdown);
}

static void passdown_end_io(struct bio *bio)
{
	struct fusion_passdown_member *pm = bio->bi_private;
	blk_status_t status = bio->bi_status;

	bio_put(bio);
	passdown_end(pm, status);
}

void fusion_passdown_abandon(struct fusion_pool *pool, unsigned int i)
{
	if (xchg(&pool->passdown.member[i].under_way, false))
		passdown_put(&pool->passdown);
}

/* In a worker of the member's own, which the device may keep. */
static void passdown_send(struct work_struct *work)
{
	struct fusion_passdown_member *pm =
		container_of(work, struct fusion_passdown_member, work);
	struct block_device *bdev = passdown_member(pm)->bdev;
	struct bio *bio = NULL;
	int r;

	/* cut as the device wants it: this is the last of a chain */
	r = __blkdev_issue_discard(bdev, pm->sector, pm->sectors, GFP_NOIO, &bio);
	if (!bio) {
		passdown_end(pm, errno_to_blk_status(r ?: -ENOMEM));
		return;
	}
	bio->bi_private = pm;
	bio->bi_end_io = passdown_end_io;
	submit_bio(bio);
}

static void passdown_submit(struct fusion_pool *pool, unsigned int i,
			    const struct fusion_emptied *e)
{
	struct fusion_passdown_member *pm = &pool->passdown.member[i];
	struct fusion_member *m = &pool->member[i];

	pm->status = BLK_STS_NOTSUPP;
	if (fusion_member_out(m) || !bdev_max_discard_sectors(m->bdev))
		return;
	pm->sector = m->offset_sectors + e->sector;
	pm->sectors = e->sectors;
	atomic_inc(&pool->passdown.pending);
	fusion_member_start(m, &pm->ticket);
	WRITE_ONCE(pm->under_way, true);
	/* either who gives @m up sees that, or it is seen here that @m is out */
	smp_mb();
	if (fusion_member_out(m)) {
		fusion_passdown_abandon(pool, i);
		fusion_hang_late(pool, m, &pm->ticket);
		return;
	}
	queue_work(pool->send_wq, &pm->work);
}

/* What became of it on one member. */
static bool passdown_judge(struct fusion_pool *pool, unsigned int i)
{
	struct fusion_passdown_member *pm = &pool->passdown.member[i];
	struct block_device *bdev = pool->member[i].bdev;

	if (!pm->status)
		return true;
	if (!pm->complained && !fusion_member_out(&pool->member[i]) &&
	    bdev_max_discard_sectors(bdev)) {
		pm->complained = true;
		DMWARN("%s: a discard failed on %pg (%d): the SSD does not know that this space is free; this is said once",
		       fusion_pool_name(pool), bdev,
		       blk_status_to_errno(pm->status));
	}
	return false;
}

static void passdown_range(struct fusion_pool *pool,
			   const struct fusion_emptied *e)
{
	struct fusion_passdown *p = &pool->passdown;
	unsigned int i, done = 0;

	atomic_set(&p->pending, 1);
	reinit_completion(&p->done);
	for (i = 0; i < e->band->layout->n; i++)
		passdown_submit(pool, i, e);
	passdown_put(p);
	wait_for_completion_io(&p->done);
	for (i = 0; i < e->band->layout->n; i++)
		done += passdown_judge(pool, i);
	if (done)
		WRITE_ONCE(p->ranges, p->ranges + 1);
	WRITE_ONCE(p->blocks, p->blocks + done * e->blocks);
}

static void passdown_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool,
						passdown.work);
	struct fusion_emptied e;

	while (READ_ONCE(pool->serving) &&
	       fusion_space_take_emptied(&pool->space, &e)) {
		/*
		 * With its metadata in trouble a pool may have to go back to
		 * an older state of it.
		 */
		if (pool->space.passdown && fusion_pool_writable(pool))
			passdown_range(pool, &e);
		fusion_space_return_emptied(&pool->space, &e);
		fusion_waiters_returned(pool, e.templates);
		wake_up_all(&pool->passdown.wait);
	}
}

void fusion_passdown_kick(struct fusion_pool *pool)
{
	queue_work(pool->passdown.wq, &pool->passdown.work);
}

void fusion_passdown_wait(struct fusion_pool *pool)
{
	wait_event(pool->passdown.wait, !atomic_read(&pool->space.emptied) ||
		   !READ_ONCE(pool->active));
}

void fusion_passdown_let_go(struct fusion_pool *pool)
{
	wake_up_all(&pool->passdown.wait);
}

void fusion_passdown_drain(struct fusion_pool *pool)
{
	cancel_work_sync(&pool->passdown.work);
}

int fusion_passdown_init(struct fusion_pool *pool)
{
	struct fusion_passdown *p = &pool->passdown;
	unsigned int i;

	INIT_WORK(&p->work, passdown_work);
	init_waitqueue_head(&p->wait);
	init_completion(&p->done);
	for (i = 0; i < FUSION_MAX_MEMBERS; i++) {
		p->member[i].pool = pool;
		INIT_WORK(&p->member[i].work, passdown_send);
	}
	/* those who wait for space wait for it, too */
	p->wq = alloc_workqueue("fusion-passdown",
				WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	return p->wq ? 0 : -ENOMEM;
}

void fusion_passdown_exit(struct fusion_pool *pool)
{
	destroy_workqueue(pool->passdown.wq);
}
