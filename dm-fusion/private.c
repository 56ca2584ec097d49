// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O of memory of our own.  See private.h.
 */
#include <linux/mm.h>

#include "hang.h"
#include "io.h"
#include "private.h"

/* What is under way needs no other that is not: two will do. */
#define PRIVATE_RESERVE		2

static void private_hold_pages(struct bio *bio)
{
	struct bvec_iter_all iter;
	struct bio_vec *bv;

	bio_for_each_segment_all(bv, bio, iter)
		get_page(bv->bv_page);
}

static void private_drop_pages(struct bio *bio)
{
	struct bvec_iter_all iter;
	struct bio_vec *bv;

	bio_for_each_segment_all(bv, bio, iter)
		put_page(bv->bv_page);
}

/* @io, which was abandoned, has come back. */
static void private_late(struct fusion_private *io)
{
	struct fusion_pool *pool = io->pool;
	struct fusion_member *m = io->member;
	struct fusion_ticket ticket = io->ticket;

	private_drop_pages(&io->bio);
	bio_put(&io->bio);
	fusion_hang_late(pool, m, &ticket);
}

static void private_end_io(struct bio *bio)
{
	struct fusion_private *io = container_of(bio, struct fusion_private, bio);
	fusion_private_end_fn end = io->end;
	struct fusion_member *m = io->member;
	void *owner = io->owner;
	blk_status_t status;
	unsigned long flags;
	bool abandoned;

	if (io->commit && fusion_sent_back(io->pool, bio, &io->iter, &io->work))
		return;
	spin_lock_irqsave(&m->private_lock, flags);
	abandoned = io->abandoned;
	list_del_init(&io->list);
	spin_unlock_irqrestore(&m->private_lock, flags);
	if (unlikely(abandoned)) {
		private_late(io);
		return;
	}
	if (!io->commit && fusion_write_aside(io->pool, m, bio))
		return;
	if (op_is_write(bio_op(bio)) && !io->commit)
		fusion_member_end_write(m, &io->ticket, bio);
	else
		fusion_member_end(m, &io->ticket);
	status = bio->bi_status;
	/* the pool may be gone with the owner */
	bio_put(bio);
	end(owner, status, false);
}

static struct fusion_private *private_init(struct bio *bio, struct fusion_pool *pool,
					   fusion_private_end_fn end, void *owner)
{
	struct fusion_private *io = container_of(bio, struct fusion_private, bio);

	INIT_LIST_HEAD(&io->list);
	io->pool = pool;
	io->end = end;
	io->owner = owner;
	io->commit = false;
	io->abandoned = false;
	return io;
}

struct fusion_private *fusion_private_get(struct fusion_pool *pool, blk_opf_t opf,
					  fusion_private_end_fn end, void *owner)
{
	return private_init(bio_alloc_bioset(NULL, 1, opf, GFP_NOIO, &pool->private_bios),
			    pool, end, owner);
}

struct fusion_private *fusion_private_try(struct fusion_pool *pool, blk_opf_t opf,
					  fusion_private_end_fn end, void *owner)
{
	struct bio *bio = bio_alloc_bioset(NULL, 1, opf, GFP_NOWAIT | __GFP_NOWARN,
					   &pool->try_bios);

	return bio ? private_init(bio, pool, end, owner) : NULL;
}

/* May who submits it wait?  A flush of a device without a cache the block layer itself answers. */
static bool send_may_wait(const struct bio *bio)
{
	return bio_sectors(bio) || bdev_write_cache(bio->bi_bdev);
}

void fusion_send_waiting(struct bio *bio)
{
	/* if it has ended before it belongs to no group any more, and may be of a partition */
	bio_set_dev(bio, bio->bi_bdev);
	submit_bio_noacct(bio);
}

/*
 * Does @bdev say that it takes nothing, of a whole bio?  What is split is not sent to request queues
 * without waiting; other devices may split it, and say so of a part.
 */
static bool send_comes_back(struct block_device *bdev)
{
	return queue_is_mq(bdev_get_queue(bdev)) && bdev_nowait(bdev);
}

void fusion_send(struct fusion_pool *pool, struct bio *bio, struct work_struct *work)
{
	if (send_may_wait(bio)) {
		if (!send_comes_back(bio->bi_bdev)) {
			queue_work(pool->send_wq, work);
			return;
		}
		/* writeback throttling makes all writes wait that are not idle, too (blk-wbt.c) */
		bio->bi_opf |= REQ_NOWAIT | REQ_IDLE;
	}
	submit_bio_noacct(bio);
}

bool fusion_sent_back(struct fusion_pool *pool, struct bio *bio, const struct bvec_iter *iter,
		      struct work_struct *work)
{
	if (likely(!bio->bi_status) || !(bio->bi_opf & REQ_NOWAIT))
		return false;
	/* or the device had another table just now, and knows no such thing any more */
	if (bio->bi_status != BLK_STS_AGAIN && bio->bi_status != BLK_STS_NOTSUPP)
		return false;
	bio->bi_opf &= ~REQ_NOWAIT;
	bio->bi_status = BLK_STS_OK;
	bio->bi_iter = *iter;
	queue_work(pool->send_wq, work);
	return true;
}

static void private_send(struct work_struct *work)
{
	struct fusion_private *io = container_of(work, struct fusion_private, work);

	fusion_send_waiting(&io->bio);
}

void fusion_private_submit(struct fusion_private *io, struct fusion_member *m)
{
	unsigned long flags;

	bio_set_dev(&io->bio, m->bdev);
	io->bio.bi_end_io = private_end_io;
	io->member = m;
	if (io->commit)
		fusion_member_start(m, &io->ticket);
	else
		fusion_member_start_data(m, &io->ticket, op_is_write(bio_op(&io->bio)));
	/* before it is seen whether @m is out: either that is seen, or this is abandoned */
	spin_lock_irqsave(&m->private_lock, flags);
	list_add_tail(&io->list, &m->private);
	spin_unlock_irqrestore(&m->private_lock, flags);
	/* a record also to one that is out, and is used again when it has that */
	if (!io->commit) {
		fusion_member_submit(m, &io->bio);
	} else {
		INIT_WORK(&io->work, private_send);
		io->iter = io->bio.bi_iter;
		fusion_send(io->pool, &io->bio, &io->work);
	}
}

/* The next to be abandoned, or NULL. */
static struct fusion_private *private_next(struct fusion_member *m, bool commit)
{
	struct fusion_private *io;

	list_for_each_entry(io, &m->private, list)
		if (!commit || io->commit)
			return io;
	return NULL;
}

void fusion_private_walk(struct fusion_member *m, fusion_private_end_fn end,
			 void (*fn)(void *owner, void *arg), void *arg)
{
	struct fusion_private *io;

	spin_lock_irq(&m->private_lock);
	list_for_each_entry(io, &m->private, list)
		if (io->end == end)
			fn(io->owner, arg);
	spin_unlock_irq(&m->private_lock);
}

void fusion_private_abandon(struct fusion_member *m, bool commit)
{
	struct fusion_private *io;
	fusion_private_end_fn end;
	blk_status_t status;
	void *owner;

	for (;;) {
		spin_lock_irq(&m->private_lock);
		io = private_next(m, commit);
		if (!io)
			break;
		list_del_init(&io->list);
		io->abandoned = true;
		private_hold_pages(&io->bio);
		end = io->end;
		owner = io->owner;
		status = io->commit ? BLK_STS_TIMEOUT :
			op_is_write(bio_op(&io->bio)) ? BLK_STS_OK : BLK_STS_IOERR;
		/* it may come back, and be gone, from here on */
		spin_unlock_irq(&m->private_lock);
		end(owner, status, true);
	}
	spin_unlock_irq(&m->private_lock);
}

int fusion_private_init(struct fusion_pool *pool)
{
	int r;

	/* as many at once as members, and those that hang have more */
	pool->send_wq = alloc_workqueue("fusion-send", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!pool->send_wq)
		return -ENOMEM;
	r = bioset_init(&pool->private_bios, PRIVATE_RESERVE,
			offsetof(struct fusion_private, bio), BIOSET_NEED_BVECS);
	if (r)
		goto bad_bios;
	/* apart, so that those who cannot do without have the reserve for themselves */
	r = bioset_init(&pool->try_bios, 1, offsetof(struct fusion_private, bio),
			BIOSET_NEED_BVECS);
	if (r)
		goto bad_try;
	return 0;

bad_try:
	bioset_exit(&pool->private_bios);
bad_bios:
	destroy_workqueue(pool->send_wq);
	return r;
}

void fusion_private_exit(struct fusion_pool *pool)
{
	destroy_workqueue(pool->send_wq);
	bioset_exit(&pool->try_bios);
	bioset_exit(&pool->private_bios);
}
