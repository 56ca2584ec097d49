// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stripe in memory.  See stripe.h.
 */
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "io.h"
#include "private.h"
#include "stripe.h"

#define STRIPE_POOL_MIN	2

/*
 * Stripes that have been used are kept, up to this many bytes for a pool:
 * many kernels clear each page they hand out, which costs a quarter of a full
 * stripe's write.
 */
#define STRIPE_KEPT_BYTES	SZ_8M

/* ---- memory ---- */

static void stripe_free(void *element, void *context)
{
	struct fusion_stripe_pool *sp = context;
	struct fusion_stripe *stripe = element;
	unsigned int i;

	for (i = 0; i < sp->class->k; i++)
		free_pages((unsigned long)stripe->slot[i].data, sp->order);
	kvfree(element - sp->front);
}

static void *stripe_alloc(gfp_t gfp, void *context)
{
	struct fusion_stripe_pool *sp = context;
	struct fusion_stripe *stripe;
	unsigned int i;
	void *memory;

	/* compound: pages can be kept for who still uses them (private.h) */
	gfp |= __GFP_NOWARN | __GFP_COMP;
	memory = kvzalloc(sp->front + struct_size(stripe, slot, sp->class->k),
			  gfp);
	if (!memory)
		return NULL;
	stripe = memory + sp->front;
	stripe->pool = sp->pool;
	stripe->class = sp->class;
	for (i = 0; i < sp->class->k; i++) {
		stripe->slot[i].stripe = stripe;
		stripe->slot[i].data = (void *)__get_free_pages(gfp, sp->order);
		if (!stripe->slot[i].data) {
			/* free_pages() takes the empty ones */
			stripe_free(stripe, context);
			return NULL;
		}
	}
	return stripe;
}

int fusion_stripe_pool_init(struct fusion_stripe_pool *sp,
			    struct fusion_pool *pool,
			    struct fusion_class *class, size_t front)
{
	if (mempool_initialized(&sp->pool_of))
		return 0;
	sp->pool = pool;
	sp->class = class;
	sp->front = front;
	sp->order = get_order(pool->block_sectors << SECTOR_SHIFT);
	sp->kept_max = STRIPE_KEPT_BYTES / (class->k * PAGE_SIZE << sp->order);
	spin_lock_init(&sp->lock);
	INIT_LIST_HEAD(&sp->kept);
	return mempool_init(&sp->pool_of, STRIPE_POOL_MIN, stripe_alloc,
			    stripe_free, sp);
}

void fusion_stripe_pool_exit(struct fusion_stripe_pool *sp)
{
	struct fusion_stripe *stripe, *next;

	if (!mempool_initialized(&sp->pool_of))
		return;
	list_for_each_entry_safe(stripe, next, &sp->kept, list)
		stripe_free(stripe, sp);
	mempool_exit(&sp->pool_of);
}

struct fusion_stripe_pool *
fusion_stripe_background(struct fusion_pool *pool, struct fusion_class *class)
{
	struct fusion_stripe_pool *sp = &pool->background_pool[class->index];
	unsigned int noio;
	int r;

	noio = memalloc_noio_save();
	mutex_lock(&pool->background_lock);
	r = fusion_stripe_pool_init(sp, pool, class, 0);
	mutex_unlock(&pool->background_lock);
	memalloc_noio_restore(noio);
	return r ? NULL : sp;
}

void fusion_stripe_background_exit(struct fusion_pool *pool)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES; i++)
		fusion_stripe_pool_exit(&pool->background_pool[i]);
}

static struct fusion_stripe *stripe_kept(struct fusion_stripe_pool *sp)
{
	struct fusion_stripe *stripe;
	unsigned long flags;

	spin_lock_irqsave(&sp->lock, flags);
	stripe = list_first_entry_or_null(&sp->kept, struct fusion_stripe,
					  list);
	if (stripe) {
		list_del(&stripe->list);
		sp->kept_count--;
	}
	spin_unlock_irqrestore(&sp->lock, flags);
	return stripe;
}

struct fusion_stripe *fusion_stripe_get(struct fusion_stripe_pool *sp)
{
	struct fusion_stripe *stripe = stripe_kept(sp);

	return stripe ? stripe : mempool_alloc(&sp->pool_of, GFP_NOIO);
}

struct fusion_stripe *fusion_stripe_try(struct fusion_stripe_pool *sp)
{
	struct fusion_stripe *stripe = stripe_kept(sp);

	return stripe ? stripe : stripe_alloc(GFP_NOIO | __GFP_NORETRY, sp);
}

void fusion_stripe_put(struct fusion_stripe_pool *sp,
		       struct fusion_stripe *stripe)
{
	unsigned long flags;

	/* somebody may sleep until the reserve is whole again */
	if (READ_ONCE(sp->pool_of.curr_nr) == sp->pool_of.min_nr) {
		spin_lock_irqsave(&sp->lock, flags);
		if (sp->kept_count < sp->kept_max) {
			list_add(&stripe->list, &sp->kept);
			sp->kept_count++;
			stripe = NULL;
		}
		spin_unlock_irqrestore(&sp->lock, flags);
	}
	if (stripe)
		mempool_free(stripe, &sp->pool_of);
}

/* ---- parity ---- */

/* Add the slots of @slots to @to. */
static void stripe_xor(struct fusion_stripe *stripe, void *to, u64 slots)
{
	size_t bytes = stripe->pool->block_sectors << SECTOR_SHIFT;
	void *src[MAX_XOR_BLOCKS];
	unsigned int n = 0;

	for (; slots; slots &= slots - 1) {
		src[n++] = stripe->slot[fusion_ctz64(slots)].data;
		if (n < MAX_XOR_BLOCKS && slots & (slots - 1))
			continue;
		xor_blocks(n, bytes, to, src);
		n = 0;
	}
}

/*
 * P and Q of the slots in @written, into the parity slots.  A slot's number is
 * its coefficient's exponent, so those that are not written are zeros in their
 * place.
 */
static void stripe_syndrome(struct fusion_stripe *stripe, u64 written)
{
	unsigned int d = stripe->class->d, k = stripe->class->k, page, i;
	void *zero = page_address(ZERO_PAGE(0));
	void *ptrs[FUSION_MAX_MEMBERS];

	for (page = 0; page < stripe->pool->block_pages; page++) {
		for (i = 0; i < k; i++)
			ptrs[i] = i >= d || written >> i & 1 ?
				stripe->slot[i].data +
				(page << FUSION_PAGE_SHIFT) : zero;
		raid6_call.gen_syndrome(k, 1 << FUSION_PAGE_SHIFT, ptrs);
	}
}

void fusion_stripe_parity(struct fusion_stripe *stripe, u64 written)
{
	size_t bytes = stripe->pool->block_sectors << SECTOR_SHIFT;
	void *parity = stripe->slot[stripe->class->d].data;

	if (stripe->class->p > 1) {
		stripe_syndrome(stripe, written);
		return;
	}
	memcpy(parity, stripe->slot[fusion_ctz64(written)].data, bytes);
	stripe_xor(stripe, parity, written & (written - 1));
}

/*
 * Does Q fit the slots in @written?  The coefficient of slot 0 is 1: with Q
 * added to that slot, the sum is zero if it does.  So no other buffer is needed.
 */
static bool stripe_q_fits(struct fusion_stripe *stripe, u64 written)
{
	size_t bytes = stripe->pool->block_sectors << SECTOR_SHIFT;
	unsigned int q = stripe->class->d + 1;

	if (written & 1)
		stripe_xor(stripe, stripe->slot[0].data, 1ULL << q);
	else
		memcpy(stripe->slot[0].data, stripe->slot[q].data, bytes);
	stripe_syndrome(stripe, written | 1);
	return !memchr_inv(stripe->slot[q].data, 0, bytes);
}

bool fusion_stripe_fits(struct fusion_stripe *stripe, u64 written)
{
	size_t bytes = stripe->pool->block_sectors << SECTOR_SHIFT;
	void *parity = stripe->slot[stripe->class->d].data;

	stripe_xor(stripe, parity, written);
	if (memchr_inv(parity, 0, bytes))
		return false;
	return stripe->class->p == 1 || stripe_q_fits(stripe, written);
}

void fusion_page_recover(const struct fusion_class *class, void **ptrs, u64 lost,
			 u64 sources)
{
	int a = fusion_ctz64(lost), k = class->k;

	if (lost & (lost - 1)) {
		raid6_2data_recov(k, PAGE_SIZE, a, fusion_ctz64(lost & (lost - 1)),
				  ptrs);
	} else if (sources >> class->d & 1) {
		memset(ptrs[a], 0, PAGE_SIZE);
		for (; sources; sources &= sources - 1)
			xor_blocks(1, PAGE_SIZE, ptrs[a],
				   &ptrs[fusion_ctz64(sources)]);
	} else {
		raid6_datap_recov(k, PAGE_SIZE, a, ptrs);
	}
}

void fusion_stripe_recover(struct fusion_stripe *stripe, u64 lost, u64 sources,
			   unsigned int first, unsigned int pages)
{
	u64 used = lost | sources | fusion_mask(stripe->class->d, stripe->class->p);
	void *zero = page_address(ZERO_PAGE(0)), *ptrs[FUSION_MAX_MEMBERS];
	unsigned int page, i;

	for (page = first; page < first + pages; page++) {
		for (i = 0; i < stripe->class->k; i++)
			ptrs[i] = used >> i & 1 ? stripe->slot[i].data +
				(page << FUSION_PAGE_SHIFT) : zero;
		fusion_page_recover(stripe->class, ptrs, lost, sources);
	}
}

/* ---- I/O ---- */

static void stripe_drop(struct fusion_stripe *stripe)
{
	if (atomic_dec_and_test(&stripe->pending))
		stripe->done(stripe);
}

static void stripe_waited(struct fusion_stripe *stripe)
{
	complete(&stripe->waited);
}

static void slot_end(void *owner, blk_status_t status, bool abandoned)
{
	struct fusion_slot *slot = owner;
	struct fusion_stripe *stripe = slot->stripe;

	slot->status = status;
	if (status) {
		WRITE_ONCE(stripe->status, status);
		slot->lost = abandoned;
	}
	stripe_drop(stripe);
}

/* A member may still read into a slot's buffer, which it keeps: another for us. */
static void stripe_replace_lost(struct fusion_stripe *stripe)
{
	unsigned int order = get_order(stripe->pool->block_sectors << SECTOR_SHIFT), i;
	gfp_t gfp = GFP_NOIO | __GFP_COMP | __GFP_NOWARN;

	for (i = 0; i < stripe->class->k; i++) {
		struct fusion_slot *slot = &stripe->slot[i];

		if (!slot->lost)
			continue;
		free_pages((unsigned long)slot->data, order);
		for (;;) {
			slot->data = (void *)__get_free_pages(gfp, order);
			if (slot->data)
				break;
			memalloc_retry_wait(gfp);
		}
		slot->lost = false;
	}
}

void fusion_stripe_begin(struct fusion_stripe *stripe,
			 void (*done)(struct fusion_stripe *stripe))
{
	stripe->status = BLK_STS_OK;
	atomic_set(&stripe->pending, 1);
	stripe->done = done ? done : stripe_waited;
	if (!done)
		init_completion(&stripe->waited);
}

void fusion_stripe_submit(struct fusion_stripe *stripe, unsigned int i,
			  u64 place, unsigned int first, unsigned int pages,
			  blk_opf_t opf)
{
	struct fusion_pool *pool = stripe->pool;
	sector_t sector;
	u32 member;

	sector = fusion_space_locate(&pool->space, place, &member);
	fusion_stripe_submit_to(stripe, i, &pool->member[member],
				sector + first * FUSION_PAGE_SECTORS, first, pages, opf);
}

void fusion_stripe_submit_to(struct fusion_stripe *stripe, unsigned int i,
			     struct fusion_member *m, sector_t sector, unsigned int first,
			     unsigned int pages, blk_opf_t opf)
{
	struct fusion_slot *slot = &stripe->slot[i];
	struct fusion_private *io;

	io = fusion_private_get(stripe->pool, opf, slot_end, slot);
	io->bio.bi_iter.bi_sector = sector;
	__bio_add_page(&io->bio, virt_to_page(slot->data),
		       pages << FUSION_PAGE_SHIFT, first << FUSION_PAGE_SHIFT);
	slot->member = m;
	atomic_inc(&stripe->pending);
	fusion_private_submit(io, m);
}

int fusion_stripe_end(struct fusion_stripe *stripe)
{
	bool wait = stripe->done == stripe_waited;

	/* without waiting, the stripe may be gone after this */
	stripe_drop(stripe);
	if (!wait)
		return 0;
	wait_for_completion_io(&stripe->waited);
	if (unlikely(stripe->status))
		stripe_replace_lost(stripe);
	/* and no other: a medium error would be -ENODATA, which says something else */
	return stripe->status ? -EIO : 0;
}

struct stripe_walk {
	void (*done)(struct fusion_stripe *stripe);
	void (*fn)(struct fusion_stripe *stripe, void *arg);
	void *arg;
};

static void stripe_visit(void *owner, void *arg)
{
	struct fusion_slot *slot = owner;
	struct stripe_walk *w = arg;

	if (slot->stripe->done == w->done)
		w->fn(slot->stripe, w->arg);
}

void fusion_stripe_walk(struct fusion_member *m, void (*done)(struct fusion_stripe *stripe),
			void (*fn)(struct fusion_stripe *stripe, void *arg), void *arg)
{
	struct stripe_walk w = { .done = done, .fn = fn, .arg = arg };

	fusion_private_walk(m, slot_end, stripe_visit, &w);
}
