// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O of single pages.  See pages.h.
 */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "pages.h"
#include "private.h"

/* For each member. */
#define PAGES_PENDING	4

struct page_io {
	struct fusion_pages *io;
	void **read;			/* where the page is; NULL: written */
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

static void page_end(void *owner, blk_status_t status, bool abandoned)
{
	struct page_io *p = owner;
	struct fusion_pages *io = p->io;
	unsigned long flags;

	if (status)
		fusion_pages_fail(io, -EIO);
	if (status && p->read)
		page_drop(p->read);
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
	io->most = PAGES_PENDING * pool->layout->n;
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
	struct fusion_private *private;
	struct fusion_member *m;
	sector_t sector;
	u32 member;

	if (!p) {
		fusion_pages_fail(io, -ENOMEM);
		if (read)
			page_drop(read);
		return;
	}
	p->io = io;
	p->read = read;
	sector = fusion_space_locate(&io->pool->space, place, &member);
	m = &io->pool->member[member];
	private = fusion_private_get(io->pool, read ? REQ_OP_READ : REQ_OP_WRITE, page_end, p);
	private->bio.bi_iter.bi_sector = sector + page * FUSION_PAGE_SECTORS;
	__bio_add_page(&private->bio, virt_to_page(data), 1 << FUSION_PAGE_SHIFT, 0);
	io->count[read ? READ : WRITE]++;
	fusion_member_background(m, 1 << FUSION_PAGE_SHIFT);
	spin_lock_irq(&io->lock);
	wait_event_lock_irq(io->room, io->pending < io->most, io->lock);
	io->pending++;
	spin_unlock_irq(&io->lock);
	fusion_private_submit(private, m);
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
