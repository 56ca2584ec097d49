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
	u8 ticket = io->ticket;

	private_drop_pages(&io->bio);
	bio_put(&io->bio);
	fusion_hang_late(pool, m, ticket);
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
		fusion_member_end_write(m, io->ticket);
	else
		fusion_member_end(m, io->ticket);
	status = bio->bi_status;
	/* the pool may be gone with the owner */
	bio_put(bio);
	end(owner, status, false);
}

struct fusion_private *fusion_private_get(struct fusion_pool *pool, blk_opf_t opf,
					  fusion_private_end_fn end, void *owner)
{
	struct bio *bio = bio_alloc_bioset(NULL, 1, opf, GFP_NOIO, &pool->private_bios);
	struct fusion_private *io = container_of(bio, struct fusion_private, bio);

	INIT_LIST_HEAD(&io->list);
	io->pool = pool;
	io->end = end;
	io->owner = owner;
	io->commit = false;
	io->abandoned = false;
	return io;
}

/* May who submits it wait?  A flush of a device without a cache the block layer itself answers. */
static bool private_may_wait(const struct fusion_private *io)
{
	return bio_sectors(&io->bio) || bdev_write_cache(io->bio.bi_bdev);
}

static void private_send(struct work_struct *work)
{
	struct fusion_private *io = container_of(work, struct fusion_private, work);

	submit_bio_noacct(&io->bio);
}

void fusion_private_submit(struct fusion_private *io, struct fusion_member *m)
{
	bio_set_dev(&io->bio, m->bdev);
	io->bio.bi_end_io = private_end_io;
	io->member = m;
	io->ticket = fusion_member_start(m);
	/* before it is seen whether @m is out: either that is seen, or this is abandoned */
	spin_lock_irq(&m->private_lock);
	list_add_tail(&io->list, &m->private);
	spin_unlock_irq(&m->private_lock);
	/* a record also to one that is out, and is used again when it has that */
	if (!io->commit) {
		fusion_member_submit(m, &io->bio);
	} else if (private_may_wait(io)) {
		INIT_WORK(&io->work, private_send);
		queue_work(io->pool->send_wq, &io->work);
	} else {
		submit_bio_noacct(&io->bio);
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
		destroy_workqueue(pool->send_wq);
	return r;
}

void fusion_private_exit(struct fusion_pool *pool)
{
	destroy_workqueue(pool->send_wq);
	bioset_exit(&pool->private_bios);
}
