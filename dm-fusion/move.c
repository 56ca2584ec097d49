// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves.  See move.h.
 */
#include "commit.h"
#include "io.h"
#include "move.h"
#include "reconstruct.h"
#include "volume-table.h"

/* What holds a block longer may do so for ever: a write to a member that hangs. */
#define HOLD_TIMEOUT	HZ

void fusion_move_init(struct fusion_move *m, struct fusion_pool *pool)
{
	memset(m, 0, sizeof(*m));
	m->pool = pool;
}

bool fusion_move_set(struct fusion_move *m, unsigned int i, u64 key, u64 from)
{
	struct fusion_move_block *b = &m->slot[i];

	b->volume = fusion_volume_get(m->pool, key >> FUSION_BLOCK_BITS);
	b->block = key & (FUSION_MAX_BLOCKS - 1);
	b->from = from;
	b->mask = 0;
	b->base = 0;
	memset(b->mirror, 0, sizeof(b->mirror));
	b->unsynced = false;
	b->gated = false;
	/* a volume that was made since, with the same number */
	if (b->volume && b->volume->class != m->stripe->class) {
		fusion_volume_put(b->volume);
		b->volume = NULL;
	}
	return b->volume;
}

void fusion_move_clear(struct fusion_move *m, unsigned int i)
{
	struct fusion_update *u = &m->stripe->slot[i].update;

	m->live &= ~(1ULL << i);
	if (u->chunk)
		fusion_update_cancel(&m->pool->map, u);
	if (m->slot[i].volume)
		fusion_volume_put(m->slot[i].volume);
	m->slot[i].volume = NULL;
	if (m->slot[i].gated)
		fusion_gate_leave(&m->pool->gates,
				  fusion_place_stripe(m->slot[i].from));
	m->slot[i].gated = false;
}

/* ---- the map ---- */

/* What is at @from; under rcu_read_lock(), or with the chunk pinned and held. */
enum move_found { MOVE_MISS, MOVE_GONE, MOVE_BASE, MOVE_TOP };

static enum move_found move_find(struct fusion_move *m, unsigned int i,
				 struct fusion_overlay **ov)
{
	struct fusion_move_block *b = &m->slot[i];
	u64 entry;

	entry = fusion_map_entry(&m->pool->map, b->volume->id, b->block);
	if (entry == FUSION_ENTRY_MISS)
		return MOVE_MISS;
	*ov = fusion_entry_overlay(entry);
	if (!*ov)
		return fusion_entry_place(entry) == b->from ? MOVE_BASE :
			MOVE_GONE;
	if ((*ov)->top.place[0] == b->from)
		return MOVE_TOP;
	return READ_ONCE((*ov)->base) == b->from ? MOVE_BASE : MOVE_GONE;
}

int fusion_move_there(struct fusion_move *m, unsigned int i)
{
	struct fusion_move_block *b = &m->slot[i];
	struct fusion_overlay *ov;
	enum move_found found;
	int r;

	for (;;) {
		rcu_read_lock();
		found = move_find(m, i, &ov);
		rcu_read_unlock();
		if (found != MOVE_MISS)
			return found != MOVE_GONE;
		r = fusion_volume_load(b->volume, b->block, true);
		if (r)
			return r;
	}
}

int fusion_move_look(struct fusion_move *m, unsigned int i)
{
	struct fusion_update *u = &m->stripe->slot[i].update;
	struct fusion_move_block *b = &m->slot[i];
	struct fusion_overlay *ov;
	enum move_found found;
	int r;

	r = fusion_volume_prepare(b->volume, b->block, FUSION_UPDATE_ENTRY, u);
	if (r)
		return r;
	b->need = fusion_mask(0, m->pool->block_pages);
	/* the chunk is pinned and the block held: the overlay stays */
	rcu_read_lock();
	found = move_find(m, i, &ov);
	if (found == MOVE_TOP) {
		b->mask = ov->top.mask;
		b->base = ov->base;
		memcpy(b->mirror, &ov->top.place[1], sizeof(b->mirror));
		b->unsynced = fusion_unsynced(m->pool,
					      READ_ONCE(ov->top.generation));
		WRITE_ONCE(ov->converting, true);
	}
	rcu_read_unlock();
	if (found == MOVE_TOP || found == MOVE_BASE)
		m->live |= 1ULL << i;
	else
		fusion_update_cancel(&m->pool->map, u);
	return 0;
}

/* ---- holds ---- */

static u64 move_key(const struct fusion_move *m, unsigned int i)
{
	return fusion_block_key(m->slot[i].volume->id, m->slot[i].block);
}

bool fusion_move_hold(struct fusion_move *m, unsigned int i)
{
	if (!fusion_hold_take(&m->pool->locks, &m->stripe->slot[i].hold,
			      move_key(m, i), FUSION_HOLD_EXCLUSIVE, NULL)) {
		m->hot |= 1ULL << i;
		return false;
	}
	m->held |= 1ULL << i;
	return true;
}

void fusion_move_drop(struct fusion_move *m, u64 slots)
{
	for (slots &= m->held; slots; slots &= slots - 1) {
		unsigned int i = fusion_ctz64(slots);

		m->held &= ~(1ULL << i);
		fusion_hold_drop(&m->pool->locks, &m->stripe->slot[i].hold);
	}
}

static bool move_hold_wait(struct fusion_move *m, unsigned int i)
{
	bool held = fusion_hold_take_timeout(&m->pool->locks, &m->stripe->slot[i].hold,
					     move_key(m, i), FUSION_HOLD_EXCLUSIVE,
					     HOLD_TIMEOUT);

	if (held)
		m->held |= 1ULL << i;
	return held;
}

bool fusion_move_hold_wait(struct fusion_move *m)
{
	u8 order[FUSION_MAX_MEMBERS];
	unsigned int i, j, n = 0;

	/* by insertion: they are few */
	for (i = 0; i < m->stripe->class->d; i++) {
		if (!m->slot[i].volume)
			continue;
		for (j = n++; j && move_key(m, order[j - 1]) > move_key(m, i); j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
	/* who writes now may do so to a member that hangs: nobody is to wait for us then */
	for (i = 0; i < n; i++) {
		if (!move_hold_wait(m, order[i]))
			return false;
		fusion_move_drop(m, 1ULL << order[i]);
	}
	for (i = 0; i < n; i++)
		if (!move_hold_wait(m, order[i]))
			return false;
	return true;
}

/* ---- I/O ---- */

static void move_submit(struct fusion_move *m, unsigned int i, u64 place,
			unsigned int first, unsigned int pages, blk_opf_t opf)
{
	struct fusion_stripe *stripe = m->stripe;

	if (op_is_write(opf))
		m->written_pages += pages;
	else
		m->read_pages += pages;
	fusion_stripe_submit(stripe, i, place, first, pages, opf);
	fusion_member_background(stripe->slot[i].member,
				 pages << FUSION_PAGE_SHIFT);
}

/* Slot @i's next run of needed pages that are in one place. */
static void move_read_run(struct fusion_move *m, unsigned int i)
{
	struct fusion_move_block *b = &m->slot[i];
	struct fusion_read_source *run = &b->run;

	run->page = fusion_ctz64(b->need);
	run->pages = fusion_mask_run(b->need, run->page,
				     m->pool->block_pages - run->page);
	run->place = b->from;
	memcpy(run->mirror, b->mirror, sizeof(run->mirror));
	if (b->mask) {
		run->pages = fusion_mask_run(b->mask, run->page, run->pages);
		if (!(b->mask & (1ULL << run->page))) {
			run->place = b->base;
			run->mirror[0] = 0;
		}
	}
	b->need &= ~fusion_mask(run->page, run->pages);
	if (run->place)
		move_submit(m, i, run->place, run->page, run->pages, REQ_OP_READ);
	else
		memset(m->stripe->slot[i].data +
		       (run->page << FUSION_PAGE_SHIFT), 0,
		       run->pages << FUSION_PAGE_SHIFT);
}

/*
 * The run of slot @i, which could not be read.  What is still in the primary that parity is
 * computed for must not differ.
 */
static int move_reconstruct(struct fusion_move *m, unsigned int i)
{
	struct fusion_move_block *b = &m->slot[i];
	struct fusion_stripe_pool *sp;

	if (b->unsynced && b->run.place == b->from &&
	    !fusion_member_out(fusion_member_at(m->pool, b->from)))
		return -EIO;
	m->wait = fusion_place_stripe(b->run.place);
	sp = fusion_stripe_background(m->pool, m->stripe->class);
	return sp ? fusion_reconstruct(sp, &b->run, m->stripe->slot[i].data) : -ENOMEM;
}

/* The runs of @slots that could not be read. */
static int move_reconstruct_all(struct fusion_move *m, u64 slots)
{
	int r = 0;

	for (; !r && slots; slots &= slots - 1) {
		unsigned int i = fusion_ctz64(slots);

		if (m->slot[i].run.place && m->stripe->slot[i].status)
			r = move_reconstruct(m, i);
	}
	return r;
}

int fusion_move_read(struct fusion_move *m, u64 slots)
{
	u64 left, sent;
	int r = 0;

	/* a slot has one I/O at a time */
	while (!r && slots) {
		sent = 0;
		fusion_stripe_begin(m->stripe, NULL);
		for (left = slots; left; left &= left - 1) {
			unsigned int i = fusion_ctz64(left);

			if (m->slot[i].need) {
				move_read_run(m, i);
				sent |= 1ULL << i;
			}
			if (!m->slot[i].need)
				slots &= ~(1ULL << i);
		}
		if (fusion_stripe_end(m->stripe))
			r = move_reconstruct_all(m, sent);
	}
	return r;
}

int fusion_move_write(struct fusion_move *m, u64 slots)
{
	fusion_stripe_begin(m->stripe, NULL);
	for (; slots; slots &= slots - 1)
		move_submit(m, fusion_ctz64(slots),
			    fusion_place(m->to, fusion_ctz64(slots)), 0,
			    m->pool->block_pages, REQ_OP_WRITE);
	return fusion_stripe_end(m->stripe);
}

int fusion_move_write_pages(struct fusion_move *m, unsigned int i,
			    unsigned int first, unsigned int pages)
{
	fusion_stripe_begin(m->stripe, NULL);
	move_submit(m, i, fusion_place(m->to, i), first, pages, REQ_OP_WRITE);
	return fusion_stripe_end(m->stripe);
}

/* ---- the switch ---- */

void fusion_move_close(struct fusion_move *m)
{
	struct fusion_overlay *ov;
	u64 left;

	for (left = m->live; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		enum move_found found;

		if (!(m->held & (1ULL << i)) && !fusion_move_hold(m, i))
			continue;
		rcu_read_lock();
		found = move_find(m, i, &ov);
		if (found == MOVE_TOP && !READ_ONCE(ov->converting))
			m->hot |= 1ULL << i;
		rcu_read_unlock();
		/* pinned: it is no miss */
		if (found != (m->slot[i].mask ? MOVE_TOP : MOVE_BASE))
			m->live &= ~(1ULL << i);
	}
	m->live &= ~m->hot;
}

void fusion_move_switch(struct fusion_move *m, struct fusion_seal *seal)
{
	struct fusion_pool *pool = m->pool;
	struct fusion_epoch_shard *shard;
	unsigned long flags;
	u64 left;

	shard = fusion_epoch_enter(&pool->epochs, &flags);
	for (left = m->live; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		struct fusion_update *u = &m->stripe->slot[i].update;

		if (m->slot[i].mask)
			fusion_update_base(&pool->map, shard, u,
					   fusion_place(m->to, i));
		else
			fusion_update_rebase(&pool->map, shard, u,
					     fusion_place(m->to, i));
	}
	list_add_tail(&seal->list, &shard->seals);
	/* what was drawn for this is live now, or never will be: for none it is neither */
	if (!seal->set)
		fusion_space_unhold(&pool->space, m->to, true);
	fusion_epoch_exit(shard, flags);
	fusion_commit_soon(pool);
}

void fusion_move_end(struct fusion_move *m)
{
	unsigned int i;

	fusion_move_drop(m, m->held);
	for (i = 0; i < m->stripe->class->d; i++)
		fusion_move_clear(m, i);
}
