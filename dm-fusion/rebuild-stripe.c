// SPDX-License-Identifier: GPL-2.0-only
/*
 * One stripe that is rebuilt.  See rebuild-stripe.h.
 */
#include "io.h"
#include "rebuild-stripe.h"
#include "reconstruct.h"
#include "spare.h"
#include "stripe.h"

/* Slots of a stripe that are nowhere, and where they go. */
struct rebuild_slots {
	u64 slots, members;
	unsigned int count;
	struct {
		unsigned int slot;
		u32 member;
		sector_t sector;
	} to[FUSION_MAX_AREAS];
};

/* Those of @id that @areas are for. */
static void rebuild_look(struct fusion_pool *pool, u64 id, u8 areas,
			 struct rebuild_slots *to)
{
	u32 left, i = 0;

	to->slots = 0;
	to->members = 0;
	for (left = areas; left; left &= left - 1, i++) {
		to->to[i].slot = fusion_spare_slot(&pool->space, id, fusion_ctz64(left),
						   &to->to[i].member, &to->to[i].sector);
		to->slots |= 1ULL << to->to[i].slot;
		to->members |= 1ULL << to->to[i].member;
	}
	to->count = i;
}

/*
 * Of @id all slots that are there are read, or nearly, and @to written.  Before they are: what
 * is done and not accounted looks like load.
 */
static u64 rebuild_account(struct fusion_pool *pool, u64 id, struct fusion_class *class,
			   const struct rebuild_slots *to)
{
	unsigned int bytes = pool->block_sectors << SECTOR_SHIFT;
	u8 members[FUSION_MAX_MEMBERS];
	u64 mask, left;

	mask = fusion_space_members(&pool->space, class, id, members) | to->members;
	mask &= ~fusion_members_out(pool);
	for (left = mask; left; left &= left - 1)
		fusion_member_background(&pool->member[fusion_ctz64(left)], bytes);
	return hweight64(mask) * (bytes >> 10);
}

/* The lost ones of @slots, in memory: those that hold something. */
static int rebuild_compute(struct fusion_stripe *stripe, u64 id, u64 written, u64 slots)
{
	struct fusion_class *class = stripe->class;
	struct fusion_reconstruct r = {
		.stripe = stripe,
		.src = { .pages = stripe->pool->block_pages },
	};
	u64 data = slots & written;
	int e = 0;

	if (!(slots & (written | fusion_mask(class->d, class->p))))
		return 0;
	if (!data)
		data = fusion_slots_io(&r, id, written, REQ_OP_READ);
	if (data) {
		r.src.place = fusion_place(id, fusion_ctz64(data));
		e = fusion_reconstruct_stripe(&r);
	}
	if (!e && slots & fusion_mask(class->d, class->p))
		fusion_stripe_parity(stripe, written);
	return e;
}

/* Those slots of @to that hold something. */
static int rebuild_write(struct fusion_stripe *stripe, u64 written,
			 const struct rebuild_slots *to)
{
	struct fusion_pool *pool = stripe->pool;
	u64 content = written | fusion_mask(stripe->class->d, stripe->class->p);
	unsigned int i;

	fusion_stripe_begin(stripe, NULL);
	for (i = 0; i < to->count; i++)
		if (content >> to->to[i].slot & 1)
			fusion_stripe_submit_to(stripe, to->to[i].slot,
						&pool->member[to->to[i].member],
						to->to[i].sector, 0, pool->block_pages,
						REQ_OP_WRITE);
	return fusion_stripe_end(stripe);
}

static int rebuild_move(struct fusion_stripe *stripe, u64 id, u8 areas, u64 *kib)
{
	struct fusion_pool *pool = stripe->pool;
	struct rebuild_slots to;
	unsigned int grace;
	u64 written;
	int r;

	r = fusion_raid_enter(stripe, id, &written, &grace);
	if (r)
		return r;
	rebuild_look(pool, id, areas, &to);
	*kib = rebuild_account(pool, id, stripe->class, &to);
	r = rebuild_compute(stripe, id, written, to.slots);
	if (!r)
		r = rebuild_write(stripe, written, &to);
	fusion_grace_leave(&pool->grace, grace);
	/* it has died meanwhile */
	return r == -ENODATA ? -EBUSY : r;
}

int fusion_rebuild_stripe(struct fusion_stripe_pool *sp, u64 id, u8 areas, u64 *kib)
{
	struct fusion_stripe *stripe = fusion_stripe_get(sp);
	int r;

	*kib = 0;
	r = rebuild_move(stripe, id, areas, kib);
	fusion_stripe_put(sp, stripe);
	return r;
}
