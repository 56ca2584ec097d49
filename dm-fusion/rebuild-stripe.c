// SPDX-License-Identifier: GPL-2.0-only
/*
 * One stripe that is rebuilt.  See rebuild-stripe.h.
 */
#include "io.h"
#include "rebuild-stripe.h"
#include "reconstruct.h"
#include "spare.h"
#include "stripe.h"

/* Slots of a stripe that are not where they are to be, and where that is. */
struct rebuild_slots {
	u64 slots, members;
	unsigned int count;
	struct {
		unsigned int slot;
		u32 member;
		sector_t sector;
	} to[FUSION_MAX_AREAS];
};

static void rebuild_look_at(struct fusion_pool *pool, u64 id, u8 numbers, bool home,
			    struct rebuild_slots *to)
{
	for (; numbers; numbers &= numbers - 1) {
		unsigned int i = to->count++;

		to->to[i].slot = fusion_spare_slot(&pool->space, id, fusion_ctz64(numbers),
						   home, &to->to[i].member,
						   &to->to[i].sector);
		to->slots |= 1ULL << to->to[i].slot;
		to->members |= 1ULL << to->to[i].member;
	}
}

/* What is in an area, and not stale, is at home, too. */
static void rebuild_look(struct fusion_pool *pool, const struct fusion_spared *spared,
			 struct rebuild_slots *to)
{
	u8 stale = FUSION_STALE(fusion_stripe_spared(&pool->space, spared->stripe));

	*to = (struct rebuild_slots) { 0 };
	rebuild_look_at(pool, spared->stripe, spared->areas, false, to);
	rebuild_look_at(pool, spared->stripe, spared->home & stale, true, to);
}

/*
 * Of @id those of @slots are read, or, if they are not all there, nearly all that are, and @to
 * is written.  Before they are: what is done and not accounted looks like load.
 */
static u64 rebuild_account(struct fusion_pool *pool, u64 id, struct fusion_class *class,
			   u64 slots, const struct rebuild_slots *to)
{
	unsigned int bytes = pool->block_sectors << SECTOR_SHIFT;
	u8 members[FUSION_MAX_MEMBERS];
	u64 mask, left;

	mask = fusion_space_members(&pool->space, id, members);
	if (fusion_slots_in(pool, id, slots) == slots)
		for (mask = 0, left = slots; left; left &= left - 1)
			mask |= 1ULL << members[fusion_ctz64(left)];
	mask = (mask | to->members) & ~fusion_members_out(pool);
	for (left = mask; left; left &= left - 1)
		fusion_member_background(&pool->member[fusion_ctz64(left)], bytes);
	return hweight64(mask) * (bytes >> 10);
}

/* Those of @slots that are somewhere are read, as many pages at once as the source has; the others. */
static u64 rebuild_read(struct fusion_reconstruct *r, u64 id, u64 slots)
{
	unsigned int pages = r->stripe->pool->block_pages;
	u64 in = fusion_slots_in(r->stripe->pool, id, slots), lost = slots & ~in, failed;

	for (r->src.page = 0; in && r->src.page < pages; r->src.page += r->src.pages) {
		failed = fusion_slots_io(r, id, in, REQ_OP_READ);
		in &= ~failed;
		lost |= failed;
	}
	return lost;
}

/* Slot @slot is computed, as many pages at once as the source has. */
static int rebuild_reconstruct(struct fusion_reconstruct *r, u64 id, unsigned int slot)
{
	unsigned int pages = r->stripe->pool->block_pages;
	int e = 0;

	r->src.place = fusion_place(id, slot);
	for (r->src.page = 0; !e && r->src.page < pages; r->src.page += r->src.pages)
		e = fusion_reconstruct_stripe(r);
	return e;
}

/* @slots, which hold something, in memory. */
static int rebuild_compute(struct fusion_stripe *stripe, u64 id, u64 written, u64 slots,
			   unsigned int piece)
{
	struct fusion_class *class = stripe->class;
	struct fusion_reconstruct r = {
		.stripe = stripe,
		.src = { .pages = piece },
	};
	u64 lost = rebuild_read(&r, id, slots), data = lost & written;
	int e = 0;

	if (!lost)
		return 0;
	if (!data)
		data = rebuild_read(&r, id, written);
	if (data)
		e = rebuild_reconstruct(&r, id, fusion_ctz64(data));
	if (!e && slots & fusion_mask(class->d, class->p))
		fusion_stripe_parity(stripe, written);
	return e;
}

/* Those slots of @to that hold something, @piece pages at once. */
static int rebuild_write(struct fusion_stripe *stripe, u64 content,
			 const struct rebuild_slots *to, unsigned int piece)
{
	struct fusion_pool *pool = stripe->pool;
	unsigned int i, page;
	int r = 0;

	for (page = 0; !r && page < pool->block_pages; page += piece) {
		fusion_stripe_begin(stripe, NULL);
		for (i = 0; i < to->count; i++)
			if (content >> to->to[i].slot & 1)
				fusion_stripe_submit_to(stripe, to->to[i].slot,
							&pool->member[to->to[i].member],
							to->to[i].sector +
							page * FUSION_PAGE_SECTORS,
							page, piece, REQ_OP_WRITE);
		r = fusion_stripe_end(stripe);
	}
	return r;
}

/*
 * Will what is written to members in @to be there, as @spared says?  A write to one that is out
 * counts as done.  One that is not out now, but is later, has the states changed before: they
 * have another generation then than @spared, which does not count (ledger.h).
 */
static bool rebuild_reaches(struct fusion_pool *pool, const struct fusion_spared *spared,
			    const struct rebuild_slots *to)
{
	return !(to->members & fusion_members_out(pool)) && spared->generation ==
		READ_ONCE(fusion_md_super(pool->md)->states_generation);
}

static int rebuild_move(struct fusion_stripe *stripe, struct fusion_spared *spared,
			unsigned int piece, u64 *kib)
{
	struct fusion_pool *pool = stripe->pool;
	struct rebuild_slots to;
	unsigned int grace;
	u64 written, content;
	int r;

	r = fusion_raid_enter(stripe, spared->stripe, &written, &grace);
	if (r)
		return r;
	rebuild_look(pool, spared, &to);
	if (!rebuild_reaches(pool, spared, &to)) {
		fusion_grace_leave(&pool->grace, grace);
		return -EAGAIN;
	}
	content = written | fusion_mask(stripe->class->d, stripe->class->p);
	if (to.slots & content) {
		*kib = rebuild_account(pool, spared->stripe, stripe->class,
				       to.slots & content, &to);
		r = rebuild_compute(stripe, spared->stripe, written, to.slots & content,
				    piece);
	}
	if (!r)
		r = rebuild_write(stripe, content, &to, piece);
	/* by then somebody else may draw the stripe */
	if (!r)
		fusion_spared_enter(&pool->epochs, spared);
	fusion_grace_leave(&pool->grace, grace);
	/* it has died meanwhile */
	return r == -ENODATA ? -EBUSY : r;
}

int fusion_rebuild_stripe(struct fusion_stripe_pool *sp, struct fusion_spared *spared,
			  unsigned int piece, u64 *kib)
{
	struct fusion_stripe *stripe = fusion_stripe_get(sp);
	int r;

	*kib = 0;
	r = rebuild_move(stripe, spared, piece, kib);
	fusion_stripe_put(sp, stripe);
	return r;
}
