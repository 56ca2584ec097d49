// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O of single pages.  See pages.h.
 */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "io.h"
#include "pages.h"

/* For each member. */
#define PAGES_PENDING	4

struct page_io {
	struct fusion_pages *io;
	struct fusion_member *member;
	void **read;			/* where the page is; NULL: written */
	struct bio bio;
	struct bio_vec vec;
};

void fusion_pages_fail(struct fusion_pages *io, int error)
{
	cmpxchg(&io->error, 0, error);
}

/* What has not been read is not there. */
static void page_drop(void **read)
{
	free_page((unsigned long)*read);
	*read = NULL;
}

static void page_end_io(struct bio *bio)
{
	struct page_io *p = container_of(bio, struct page_io, bio);
	struct fusion_pages *io = p->io;
	unsigned long flags;

	if (fusion_write_aside(io->pool, p->member, bio))
		return;
	if (op_is_write(bio_op(bio)))
		fusion_member_end_write(p->member);
	else
		fusion_member_end_read(p->member);
	if (bio->bi_status)
		fusion_pages_fail(io, -EIO);
	if (bio->bi_status && p->read)
		page_drop(p->read);
	bio_uninit(bio);
	kfree(p);
	/* @io is gone as soon as its owner has the lock, and sees that it was the last */
	spin_lock_irqsave(&io->lock, flags);
	io->pending--;
	wake_up(&io->room);
	spin_unlock_irqrestore(&io->lock, flags);
}

void fusion_pages_begin(struct fusion_pages *io, struct fusion_pool *pool)
{
	io->pool = pool;
	io->error = 0;
	io->most = PAGES_PENDING * pool->layout.n;
	io->count[READ] = 0;
	io->count[WRITE] = 0;
	spin_lock_init(&io->lock);
	io->pending = 0;
	init_waitqueue_head(&io->room);
	blk_start_plug(&io->plug);
}

/* @data, to or from page @page of @place; it is @read's, if that is not NULL. */
static void page_submit(struct fusion_pages *io, u64 place, unsigned int page,
			void *data, void **read)
{
	struct page_io *p = data ? kmalloc(sizeof(*p), GFP_NOIO) : NULL;

	if (!p) {
		fusion_pages_fail(io, -ENOMEM);
		if (read)
			page_drop(read);
		return;
	}
	p->io = io;
	p->read = read;
	bio_init(&p->bio, io->pool->member[0].bdev, &p->vec, 1,
		 read ? REQ_OP_READ : REQ_OP_WRITE);
	p->member = fusion_aim(io->pool, &p->bio, place, page);
	p->bio.bi_end_io = page_end_io;
	__bio_add_page(&p->bio, virt_to_page(data), 1 << FUSION_PAGE_SHIFT, 0);
	io->count[read ? READ : WRITE]++;
	fusion_member_background(p->member, 1 << FUSION_PAGE_SHIFT);
	spin_lock_irq(&io->lock);
	wait_event_lock_irq(io->room, io->pending < io->most, io->lock);
	io->pending++;
	spin_unlock_irq(&io->lock);
	fusion_member_start(p->member);
	fusion_member_submit(p->member, &p->bio);
}

void fusion_pages_read(struct fusion_pages *io, u64 place, unsigned int page,
		       void **data)
{
	if (!*data)
		*data = (void *)__get_free_page(GFP_NOIO);
	page_submit(io, place, page, *data, data);
}

void fusion_pages_write(struct fusion_pages *io, u64 place, unsigned int page,
			void *data)
{
	page_submit(io, place, page, data, NULL);
}

int fusion_pages_end(struct fusion_pages *io)
{
	blk_finish_plug(&io->plug);
	spin_lock_irq(&io->lock);
	wait_event_lock_irq(io->room, !io->pending, io->lock);
	spin_unlock_irq(&io->lock);
	return io->error;
}
