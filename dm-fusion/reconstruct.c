// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reconstruction.  See reconstruct.h.
 */
#include "mode.h"
#include "reconstruct.h"
#include "selection.h"

#define DM_MSG_PREFIX "fusion"

void fusion_reconstruct_count(struct fusion_reconstruct *r, u64 place, bool repaired)
{
	struct fusion_pool *pool = r->stripe->pool;
	u32 member;

	fusion_space_locate(&pool->space, place, &member);
	atomic64_add(r->src.pages, &pool->member[member].errors);
	if (repaired)
		atomic64_add(r->src.pages, &pool->recovered.repaired);
	DMERR_LIMIT("%s: %pg: %u pages could not be read, and have been %s",
		    fusion_pool_name(pool), pool->member[member].bdev,
		    r->src.pages, repaired ? "written again" :
		    "read elsewhere");
}

int fusion_reconstruct_look(struct fusion_reconstruct *r, struct fusion_volume *volume,
			    u64 block, unsigned int page, unsigned int pages,
			    unsigned int *grace)
{
	struct fusion_pool *pool = volume->pool;
	enum fusion_read_find found;

	*grace = fusion_grace_enter(&pool->grace);
	for (;;) {
		found = fusion_read_find(pool, volume->id, block, page, pages, &r->src);
		if (found != FUSION_READ_MISS)
			break;
		if (fusion_volume_load(volume, block, true)) {
			fusion_grace_leave(&pool->grace, *grace);
			return -EIO;
		}
	}
	r->unsynced = found == FUSION_READ_UNSYNCED;
	return 0;
}

/* ---- replicas ---- */

u64 fusion_replica(const struct fusion_reconstruct *r, unsigned int i)
{
	return i ? r->src.mirror[i - 1] : r->src.place;
}

unsigned int fusion_replicas(const struct fusion_reconstruct *r)
{
	unsigned int i, most = r->stripe->class->p + 1;

	for (i = 1; i < most && r->src.mirror[i - 1]; i++)
		;
	return i;
}

bool fusion_replica_io(struct fusion_reconstruct *r, unsigned int slot, unsigned int i,
		       blk_opf_t opf)
{
	fusion_stripe_begin(r->stripe, NULL);
	fusion_stripe_submit(r->stripe, slot, fusion_replica(r, i), r->src.page,
			     r->src.pages, opf);
	return !fusion_stripe_end(r->stripe);
}

int fusion_replica_read(struct fusion_reconstruct *r)
{
	unsigned int count = fusion_replicas(r), i;

	r->slot = 0;
	for (i = 0; i < count; i++)
		if (fusion_replica_io(r, 0, i, REQ_OP_READ))
			return i;
	return -EIO;
}

/* ---- stripes ---- */

int fusion_raid_enter(struct fusion_stripe *stripe, u64 id, u64 *written,
		      unsigned int *grace)
{
	struct fusion_pool *pool = stripe->pool;
	struct fusion_disk_stripe disk;
	u64 found = id;
	int r;

	mutex_lock(&pool->commit_lock);
	r = fusion_md_next_stripe(pool->md, &found, &disk);
	if (!r && (found != id ||
		   fusion_space_class_of(&pool->space, id) != stripe->class))
		r = -ENODATA;
	if (!r && disk.state != FUSION_STRIPE_RAID)
		r = -EBUSY;
	*written = r ? 0 : le64_to_cpu(disk.written);
	if (!r && (!*written || *written & ~fusion_mask(0, stripe->class->d)))
		r = -EIO;
	if (!r)
		*grace = fusion_grace_enter(&pool->grace);
	mutex_unlock(&pool->commit_lock);
	return r;
}

u64 fusion_slots_io(struct fusion_reconstruct *r, u64 id, u64 slots, blk_opf_t opf)
{
	u64 left, failed = 0;

	fusion_stripe_begin(r->stripe, NULL);
	for (left = slots; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		fusion_stripe_submit(r->stripe, i, fusion_place(id, i),
				     r->src.page, r->src.pages, opf);
	}
	if (!fusion_stripe_end(r->stripe))
		return 0;
	for (left = slots; left; left &= left - 1)
		if (r->stripe->slot[fusion_ctz64(left)].status)
			failed |= left & -left;
	return failed;
}

u64 fusion_slots_in(struct fusion_pool *pool, u64 id, u64 slots)
{
	u64 left;

	for (left = slots; left; left &= left - 1)
		if (fusion_member_out(fusion_member_at(pool,
						       fusion_place(id, fusion_ctz64(left)))))
			slots &= ~(left & -left);
	return slots;
}

/* The data slots in @lost are in memory: write them, too. */
static void slots_repair(struct fusion_reconstruct *r, u64 id, u64 lost)
{
	u64 failed;

	lost = fusion_slots_in(r->stripe->pool, id, lost);
	if (!lost || !fusion_pool_writable(r->stripe->pool))
		return;
	failed = fusion_slots_io(r, id, lost, REQ_OP_WRITE);
	for (; lost; lost &= lost - 1)
		fusion_reconstruct_count(r, fusion_place(id, fusion_ctz64(lost)),
					 !(failed & lost & -lost));
}

/* The slots of stripe @id whose members have that @burden, or more. */
static u64 slots_slow(struct fusion_pool *pool, u64 id, unsigned int k, int burden)
{
	unsigned int i;
	u64 slow = 0;

	for (i = 0; i < k; i++)
		if (fusion_member_burden(fusion_member_at(pool, fusion_place(id, i))) >= burden)
			slow |= 1ULL << i;
	return slow;
}

/* The slots that the parity of the source's stripe covers.  As fusion_reconstruct_stripe(). */
static int stripe_written(struct fusion_reconstruct *r, u64 *written)
{
	u64 id = fusion_place_stripe(r->src.place);
	struct fusion_md *md = r->stripe->pool->md;
	struct fusion_disk_stripe disk;
	int e;

	r->slot = fusion_place_slot(r->src.place);
	e = fusion_md_read_stripe(md, id, &disk);
	if (e == -ENODATA || (!e && disk.state != FUSION_STRIPE_RAID))
		return -ENODATA;
	*written = le64_to_cpu(disk.written);
	if (e || !(*written >> r->slot & 1) || *written & ~fusion_mask(0, r->stripe->class->d))
		return -EIO;
	/* rows that a start could not write again may be torn */
	return fusion_md_read_rows(md, id, r->src.page, r->src.pages) == -ENODATA ? 0 : -EIO;
}

/*
 * Compute what is in the slots of @lost, to which those are added that cannot be read, without
 * those of @avoid.  -EIO: too little is left.
 */
static int stripe_compute(struct fusion_reconstruct *r, u64 written, u64 *lost, u64 avoid)
{
	u64 id = fusion_place_stripe(r->src.place), have = 0, want, failed;
	struct fusion_class *class = r->stripe->class;

	for (;;) {
		want = fusion_recover_sources(written, *lost | avoid, class->d, class->p);
		if (!want)
			return -EIO;
		if (!(want & ~have))
			break;
		failed = fusion_slots_io(r, id, want & ~have, REQ_OP_READ);
		have |= want & ~failed;
		*lost |= failed;
	}
	fusion_stripe_recover(r->stripe, (*lost | avoid) & written, want, r->src.page,
			      r->src.pages);
	return 0;
}

int fusion_reconstruct_stripe(struct fusion_reconstruct *r)
{
	u64 id = fusion_place_stripe(r->src.place), written, lost;
	int e;

	e = stripe_written(r, &written);
	if (e)
		return e;
	lost = 1ULL << r->slot;
	e = stripe_compute(r, written, &lost, slots_slow(r->stripe->pool, id, r->stripe->class->k,
							 FUSION_BURDEN_UNRESPONSIVE));
	if (e)
		e = stripe_compute(r, written, &lost, 0);
	if (!e)
		slots_repair(r, id, lost & written);
	return e;
}

int fusion_reconstruct_around(struct fusion_reconstruct *r)
{
	struct fusion_pool *pool = r->stripe->pool;
	u64 id = fusion_place_stripe(r->src.place), written, lost;
	unsigned int k = r->stripe->class->k;

	if (stripe_written(r, &written))
		return -EAGAIN;
	lost = 1ULL << r->slot;
	if (!stripe_compute(r, written, &lost, slots_slow(pool, id, k, FUSION_BURDEN_SILENT)))
		return 0;
	/* to read another that is silent is better than one that is unresponsive only */
	if (fusion_member_burden(fusion_member_at(pool, r->src.place)) < FUSION_BURDEN_UNRESPONSIVE)
		return -EAGAIN;
	return stripe_compute(r, written, &lost,
			      slots_slow(pool, id, k, FUSION_BURDEN_UNRESPONSIVE)) ? -EAGAIN : 0;
}

void fusion_reconstruct_copy(struct bio *bio, struct bvec_iter *iter, const void *data,
			     unsigned int bytes)
{
	while (bytes) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);
		unsigned int n = min(bv.bv_len, bytes);

		if (data) {
			memcpy_to_page(bv.bv_page, bv.bv_offset, data, n);
			data += n;
		} else {
			memzero_page(bv.bv_page, bv.bv_offset, n);
		}
		bio_advance_iter_single(bio, iter, n);
		bytes -= n;
	}
}

/* ---- without waiting ---- */

static int reconstruct_stripe_now(struct fusion_reconstruct *r)
{
	u64 id = fusion_place_stripe(r->src.place);
	struct fusion_pool *pool = r->stripe->pool;
	int e;

	if (!fusion_gate_enter(&pool->gates, id, false))
		return -EAGAIN;
	e = fusion_reconstruct_stripe(r);
	fusion_gate_leave(&pool->gates, id);
	return e == -ENODATA ? -EAGAIN : e;
}

static int reconstruct_run(struct fusion_reconstruct *r, void *data)
{
	size_t from = r->src.page << FUSION_PAGE_SHIFT;
	int e;

	e = fusion_replicas(r) > 1 ? fusion_replica_read(r) : reconstruct_stripe_now(r);
	if (e < 0)
		return e;
	memcpy(data + from, r->stripe->slot[r->slot].data + from,
	       r->src.pages << FUSION_PAGE_SHIFT);
	atomic64_add(r->src.pages, &r->stripe->pool->recovered.pages);
	return 0;
}

int fusion_reconstruct(struct fusion_stripe_pool *sp,
		       const struct fusion_read_source *src, void *data)
{
	struct fusion_reconstruct r = { .src = *src };
	unsigned int end = src->page + src->pages;
	int e;

	/* who has the last one may be waiting for what the caller has */
	r.stripe = fusion_stripe_try(sp);
	if (!r.stripe)
		return -ENOMEM;
	e = reconstruct_run(&r, data);
	/* of several members each may have other pages that cannot be read */
	if (e == -EIO && r.src.pages > 1) {
		r.src.pages = 1;
		do {
			e = reconstruct_run(&r, data);
		} while (!e && ++r.src.page < end);
	}
	fusion_stripe_put(sp, r.stripe);
	return e;
}
