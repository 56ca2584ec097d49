// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writing the map's journal.  See journal.h.
 */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "hang.h"
#include "journal.h"
#include "journal-record.h"
#include "mode.h"
#include "private.h"

#define DM_MSG_PREFIX "fusion"

/* Records whose writes may be left at once: as many slow members, and one more. */
#define JOURNAL_BUFFERS	4

/* A record that is being written, or is still by members that were not waited for. */
struct journal_buffer {
	void *data;
	u64 left;		/* members that have not answered; under hang.lock, as all these */
	u64 done;		/* that have it */
};

/* One write of a record is under way on a member at most. */
struct journal_slice {
	struct fusion_pool *pool;
	struct journal_buffer *buffer;
	struct work_struct work;
	struct fusion_ticket ticket;
	struct bvec_iter iter;	/* of all of it */
	struct bio bio;
	struct bio_vec vec;
};

struct fusion_journal {
	u32 bytes;		/* of the ring */
	u32 at;			/* where the next record is to be, if there is room for it */
	u64 sequence;
	u64 transaction_id;	/* the last that has been committed; under hang.lock */
	/* what that does not have; likewise */
	u32 used;
	unsigned int changes;
	u64 busy;		/* members; likewise */
	unsigned int turn;	/* the member to begin with */
	unsigned int copies;	/* that make a record durable: more than may be lost */
	struct journal_buffer buffer[JOURNAL_BUFFERS];
	struct journal_slice slice[];
};

static void journal_end(struct journal_slice *slice, blk_status_t status)
{
	struct fusion_pool *pool = slice->pool;
	struct fusion_journal *j = pool->journal;
	unsigned int i = slice - j->slice;
	unsigned long flags;

	if (status)
		DMERR_LIMIT("%s: %pg: the journal could not be written", fusion_pool_name(pool),
			    pool->member[i].bdev);
	spin_lock_irqsave(&pool->hang.lock, flags);
	slice->buffer->left &= ~(1ULL << i);
	if (!status)
		slice->buffer->done |= 1ULL << i;
	j->busy &= ~(1ULL << i);
	/* with the lock: the pool is gone when who waits for its end has it */
	fusion_member_end(&pool->member[i], &slice->ticket);
	wake_up_all(&pool->hang.wait);
	spin_unlock_irqrestore(&pool->hang.lock, flags);
}

static void journal_end_io(struct bio *bio)
{
	struct journal_slice *slice = container_of(bio, struct journal_slice, bio);

	if (!fusion_sent_back(slice->pool, bio, &slice->iter, &slice->work))
		journal_end(slice, bio->bi_status);
}

static void journal_send(struct work_struct *work)
{
	fusion_send_waiting(&container_of(work, struct journal_slice, work)->bio);
}

/* Write @bytes of @buffer, which has it among those left, to member @i. */
static void journal_submit(struct fusion_pool *pool, struct journal_buffer *buffer, u32 bytes,
			   unsigned int i)
{
	struct fusion_journal *j = pool->journal;
	struct journal_slice *slice = &j->slice[i];
	struct fusion_member *m = &pool->member[i];
	const struct fusion_md_super *super = fusion_md_super(pool->md);

	slice->buffer = buffer;
	fusion_member_start(m, &slice->ticket);
	bio_init(&slice->bio, m->bdev, &slice->vec, 1, REQ_OP_WRITE | REQ_SYNC | REQ_FUA);
	slice->bio.bi_iter.bi_sector = super->journal_offset + (j->at >> SECTOR_SHIFT);
	slice->bio.bi_end_io = journal_end_io;
	__bio_add_page(&slice->bio, virt_to_page(buffer->data), bytes,
		       offset_in_page(buffer->data));
	slice->iter = slice->bio.bi_iter;
	fusion_send(pool, &slice->bio, &slice->work);
}

/* Members that are used, and do not hang.  Under hang.lock. */
static u64 journal_members(struct fusion_pool *pool)
{
	u64 members = 0;
	unsigned int i;

	lockdep_assert_held(&pool->hang.lock);
	for (i = 0; i < pool->layout->n; i++)
		if (READ_ONCE(pool->member[i].use) == FUSION_MEMBER_IN)
			members |= 1ULL << i;
	return members & ~pool->hang.hung;
}

static struct journal_buffer *journal_idle_buffer(struct fusion_journal *j)
{
	unsigned int i;

	for (i = 0; i < JOURNAL_BUFFERS; i++)
		if (!j->buffer[i].left)
			return &j->buffer[i];
	return NULL;
}

/* Can a record be written, or can it never?  Under hang.lock. */
static bool journal_ready(struct fusion_pool *pool, struct journal_buffer **buffer)
{
	struct fusion_journal *j = pool->journal;
	u64 members = journal_members(pool);

	*buffer = journal_idle_buffer(j);
	return hweight64(members) < j->copies ||
		(*buffer && hweight64(members & ~j->busy) >= j->copies);
}

/* Choose one more than need have it, of @members, the next ones in their turn. */
static u64 journal_choose(struct fusion_pool *pool, u64 members)
{
	struct fusion_journal *j = pool->journal;
	unsigned int n = pool->layout->n, count, i;
	u64 chosen = 0;

	for (i = 0, count = 0; i < n && count <= j->copies; i++) {
		unsigned int member = (j->turn + i) % n;

		if (!(members >> member & 1))
			continue;
		chosen |= 1ULL << member;
		count++;
	}
	j->turn = (j->turn + i) % n;
	return chosen;
}

/* The buffer to write, with the members that it is to go to among those left, or NULL. */
static struct journal_buffer *journal_take(struct fusion_pool *pool, u64 *transaction_id)
{
	struct fusion_journal *j = pool->journal;
	struct journal_buffer *buffer;
	u64 members;

	spin_lock_irq(&pool->hang.lock);
	wait_event_lock_irq(pool->hang.wait, journal_ready(pool, &buffer), pool->hang.lock);
	members = journal_members(pool) & ~j->busy;
	*transaction_id = j->transaction_id;
	if (buffer && hweight64(members) >= j->copies) {
		buffer->left = journal_choose(pool, members);
		buffer->done = 0;
		j->busy |= buffer->left;
	} else {
		buffer = NULL;
	}
	spin_unlock_irq(&pool->hang.lock);
	return buffer;
}

/* Have enough members it, or can they not? */
static bool journal_decided(struct fusion_pool *pool, const struct journal_buffer *buffer)
{
	unsigned int done = hweight64(buffer->done);
	u64 expected = buffer->left & journal_members(pool);

	return done >= pool->journal->copies ||
		done + hweight64(expected) < pool->journal->copies;
}

static int journal_wait(struct fusion_pool *pool, const struct journal_buffer *buffer)
{
	bool durable;

	spin_lock_irq(&pool->hang.lock);
	wait_event_lock_irq(pool->hang.wait, journal_decided(pool, buffer), pool->hang.lock);
	durable = hweight64(buffer->done) >= pool->journal->copies;
	spin_unlock_irq(&pool->hang.lock);
	return durable ? 0 : -EIO;
}

/* What is left of an epoch's records to be written. */
struct journal_cursor {
	const struct fusion_epoch_records *records;
	const struct fusion_change *change;	/* the head: all have been */
	const struct fusion_seal *seal;		/* likewise */
};

static void journal_cursor_begin(struct journal_cursor *at,
				 const struct fusion_epoch_records *records)
{
	at->records = records;
	at->change = list_first_entry(&records->changes, struct fusion_change, list);
	at->seal = list_first_entry(&records->seals, struct fusion_seal, list);
}

/* As much as there is room for.  True: something is left. */
static bool journal_fill(struct fusion_journal_writer *w, struct journal_cursor *at)
{
	const struct fusion_mapping *m;

	for (; !list_entry_is_head(at->change, &at->records->changes, list);
	     at->change = list_next_entry(at->change, list)) {
		m = &at->change->new;
		if (!fusion_journal_add_block(w, at->change->key, at->change->seq, m->base,
					      m->top.place[0] ? &m->top : NULL,
					      m->patches ? &m->patches->patches : NULL))
			return true;
	}
	for (; !list_entry_is_head(at->seal, &at->records->seals, list);
	     at->seal = list_next_entry(at->seal, list))
		if (!fusion_journal_add_seal(w, at->seal->stripe, at->seal->written))
			return true;
	return false;
}

/* Changes that may be in the journal, and not in the btrees: as many as an epoch may have. */
static unsigned int journal_limit(const struct fusion_pool *pool)
{
	return READ_ONCE(pool->shard_limit) * (pool->epochs.mask + 1);
}

/* Room for @bytes behind what is there, or else at the begin of the ring; it is in use then. */
static int journal_place(struct fusion_pool *pool, u32 bytes, unsigned int changes)
{
	struct fusion_journal *j = pool->journal;
	u32 behind = j->bytes - j->at, skipped = bytes > behind ? behind : 0;
	int r = -ENOSPC;

	spin_lock_irq(&pool->hang.lock);
	if (bytes + skipped <= j->bytes - j->used && j->changes + changes <= journal_limit(pool)) {
		j->used += bytes + skipped;
		j->changes += changes;
		r = 0;
	}
	spin_unlock_irq(&pool->hang.lock);
	if (!r && bytes > behind)
		j->at = 0;
	return r;
}

/* Classes may have come since.  False: records that would be behind too few copies are there. */
static bool journal_count_copies(struct fusion_pool *pool)
{
	struct fusion_class *const *class = pool->space.class;
	struct fusion_journal *j = pool->journal;
	unsigned int i, copies = 2;
	bool empty;

	for (i = 0; i < FUSION_MAX_CLASSES && class[i]; i++)
		copies = max(copies, class[i]->p + 1);
	spin_lock_irq(&pool->hang.lock);
	empty = !j->used;
	spin_unlock_irq(&pool->hang.lock);
	if (copies > j->copies && !empty)
		return false;
	j->copies = copies;
	return true;
}

bool fusion_journal_fits(struct fusion_pool *pool)
{
	bool all_ok;

	/* who has seen that a member is out has seen its number, too, by then: see failure_out() */
	spin_lock_irq(&pool->failures.lock);
	all_ok = !pool->space.spares.numbers;
	spin_unlock_irq(&pool->failures.lock);
	return all_ok;
}

/* @buffer, which was taken, is not written after all. */
static void journal_give_back(struct fusion_pool *pool, struct journal_buffer *buffer)
{
	spin_lock_irq(&pool->hang.lock);
	pool->journal->busy &= ~buffer->left;
	buffer->left = 0;
	spin_unlock_irq(&pool->hang.lock);
}

/* A record of what is next, and wait until it is durable.  *@more: something is left. */
static int journal_write_one(struct fusion_pool *pool, struct journal_cursor *at, bool *more)
{
	struct fusion_journal *j = pool->journal;
	struct fusion_journal_writer w;
	struct fusion_journal_id id;
	struct journal_buffer *buffer;
	u64 members, transaction_id;
	u32 bytes;
	int r;

	buffer = journal_take(pool, &transaction_id);
	if (!buffer)
		return -EIO;
	fusion_journal_begin(&w, buffer->data);
	*more = journal_fill(&w, at);
	bytes = fusion_journal_length(&w);
	r = journal_place(pool, bytes, w.entries);
	if (r) {
		journal_give_back(pool, buffer);
		return r;
	}
	fusion_md_pool_uuid(pool->md, id.pool_uuid);
	id.sequence = j->sequence;
	id.at = j->at;
	id.generation = pool->generation;
	fusion_journal_end(&w, &id, transaction_id, *more);
	/* they end as they are submitted, maybe */
	for (members = buffer->left; members; members &= members - 1)
		journal_submit(pool, buffer, bytes, fusion_ctz64(members));
	/* also if it fails: what some have of it must not be taken for another */
	j->sequence++;
	j->at += bytes;
	return journal_wait(pool, buffer);
}

int fusion_journal_write(struct fusion_pool *pool, const struct fusion_epoch_records *records)
{
	struct journal_cursor at;
	bool more = true;
	int r = 0;

	lockdep_assert_held(&pool->close_lock);
	if (!list_empty(&records->rows) || !list_empty(&records->spared) ||
	    !journal_count_copies(pool))
		return -EOPNOTSUPP;
	journal_cursor_begin(&at, records);
	while (!r && more)
		r = journal_write_one(pool, &at, &more);
	if (r == -EIO)
		DMERR_LIMIT("%s: the journal could not be written to %u members: flushes wait for commits",
			    fusion_pool_name(pool), pool->journal->copies);
	if (!r)
		WRITE_ONCE(pool->journal_records, pool->journal_records + 1);
	return r;
}

bool fusion_journal_crowded(struct fusion_pool *pool)
{
	struct fusion_journal *j = pool->journal;
	bool crowded;

	spin_lock_irq(&pool->hang.lock);
	crowded = j->used >= j->bytes / 2 || j->changes >= journal_limit(pool) / 2;
	spin_unlock_irq(&pool->hang.lock);
	return crowded;
}

void fusion_journal_take(struct fusion_pool *pool, struct fusion_journal_state *state)
{
	struct fusion_journal *j = pool->journal;

	lockdep_assert_held(&pool->close_lock);
	if (!j)
		return;
	spin_lock_irq(&pool->hang.lock);
	state->sequence = j->sequence;
	state->at = j->at;
	state->used = j->used;
	state->changes = j->changes;
	spin_unlock_irq(&pool->hang.lock);
}

void fusion_journal_applied(struct fusion_pool *pool, const struct fusion_journal_state *state)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	if (!pool->journal)
		return;
	super->journal_sequence = state->sequence;
	super->journal_at = state->at;
}

void fusion_journal_advance(struct fusion_pool *pool)
{
	lockdep_assert_held(&pool->commit_lock);
	if (!pool->journal)
		return;
	spin_lock_irq(&pool->hang.lock);
	pool->journal->transaction_id = fusion_md_transaction_id(pool->md);
	spin_unlock_irq(&pool->hang.lock);
}

void fusion_journal_committed(struct fusion_pool *pool, const struct fusion_journal_state *state)
{
	struct fusion_journal *j = pool->journal;

	if (!j)
		return;
	spin_lock_irq(&pool->hang.lock);
	j->used -= state->used;
	j->changes -= state->changes;
	spin_unlock_irq(&pool->hang.lock);
}

/* ---- life ---- */

int fusion_journal_init(struct fusion_pool *pool)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	struct fusion_journal *j;
	unsigned int i;

	if (!super->journal_sectors)
		return 0;
	/* of those that the pool grows by, too */
	j = kvzalloc(struct_size(j, slice, FUSION_MAX_MEMBERS), GFP_KERNEL);
	if (!j)
		return -ENOMEM;
	pool->journal = j;
	j->bytes = super->journal_sectors << SECTOR_SHIFT;
	j->at = super->journal_at;
	j->sequence = super->journal_sequence;
	j->transaction_id = fusion_md_transaction_id(pool->md);
	for (i = 0; i < FUSION_MAX_MEMBERS; i++) {
		j->slice[i].pool = pool;
		INIT_WORK(&j->slice[i].work, journal_send);
	}
	for (i = 0; i < JOURNAL_BUFFERS; i++) {
		j->buffer[i].data = alloc_pages_exact(FUSION_JOURNAL_MAX, GFP_KERNEL);
		if (!j->buffer[i].data) {
			fusion_journal_exit(pool);
			return -ENOMEM;
		}
	}
	return 0;
}

void fusion_journal_exit(struct fusion_pool *pool)
{
	struct fusion_journal *j = pool->journal;
	unsigned int i;

	if (!j)
		return;
	for (i = 0; i < JOURNAL_BUFFERS; i++)
		if (j->buffer[i].data)
			free_pages_exact(j->buffer[i].data, FUSION_JOURNAL_MAX);
	kvfree(j);
	pool->journal = NULL;
}
