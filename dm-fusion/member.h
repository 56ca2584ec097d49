/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members: the devices of a pool, what is pending on them, and their marks.
 *
 * What is pending is counted apart by *turn*, the one in which it was started.  The watch
 * (hang.h) changes a member's turn when nothing is left of the one before: so it knows that
 * what is left was started before the last change, without a list of what is under way.
 * In each turn three kinds are counted: reads with a reference of one of the two counts of
 * the grace period, which can then be put for them (fusion_member_give_up_reads()), and all
 * else.  An I/O keeps the ticket of its start, and ends with it.
 *
 * I/O of data is counted once more: by the member's pulse (pulse.h).
 *
 * A member's dirty mark says that writes have completed on it since its last
 * flush began.  It is cleared before a flush is issued and set by every later
 * completion, unless it had FUA, so a write is flushed by the first flush issued after it
 * completed.
 */
#ifndef DM_FUSION_MEMBER_H
#define DM_FUSION_MEMBER_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/cache.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/spinlock.h>

#include "codec.h"
#include "pulse.h"

/* What a member is used for: see failure.h. */
enum fusion_member_use {
	FUSION_MEMBER_IN,		/* everything */
	FUSION_MEMBER_FAILING,		/* everything, until its failure is recorded */
	FUSION_MEMBER_OUT,		/* nothing: it has failed, or is missing */
	FUSION_MEMBER_KEPT,		/* everything, though it fails writes */
};

/* hang.c: what the watch knows of a member. */
struct fusion_hang {
	unsigned int age;		/* looks since the turn changed */
	bool hung;			/* something is older than it may be */
	bool told;			/* that it is waited for */
	bool returning;			/* it is out, and sent what is needed to use it again */
	unsigned long over;		/* it is out: what has not ended then hangs; in jiffies */
};

struct fusion_member {
	/* Read on every I/O; changed only while the pool is suspended. */
	struct block_device *bdev;
	sector_t offset_sectors;	/* of the first band */
	/* These once or twice in a member's life: see failure.c. */
	enum fusion_member_use use;
	bool spared;			/* what is at home here may be elsewhere: spare.h */
	u8 turn;			/* see above; changed by the watch */
	struct bio_list aside;		/* under failures.lock; see there */
	struct fusion_hang hang;

	/* Written on every I/O: a line of the member's own. */
	atomic64_t pending[2] ____cacheline_aligned_in_smp;	/* of each turn */
	bool dirty;
	struct fusion_pulse pulse;

	/* I/O of the background, to tell it from load. */
	atomic64_t background_bytes ____cacheline_aligned_in_smp;
	u64 load_bytes;			/* of others, when last looked at */
	atomic64_t errors;		/* pages that it could not read */
	/*
	 * What is under way and may be abandoned: private.c.  A small write to a new place
	 * takes it twice on each of its members, as often as it counts itself in @pending.
	 */
	spinlock_t private_lock;
	struct list_head private;
};

/* Is it sent nothing? */
static inline bool fusion_member_out(const struct fusion_member *m)
{
	return unlikely(READ_ONCE(m->use) == FUSION_MEMBER_OUT);
}

/*
 * Submit @bio, which is counted, to @m.  If that is out a write has been done, and a read
 * has failed.
 */
static inline void fusion_member_submit(struct fusion_member *m, struct bio *bio)
{
	if (fusion_member_out(m)) {
		bio->bi_status = op_is_write(bio_op(bio)) ? BLK_STS_OK :
			BLK_STS_IOERR;
		bio_endio(bio);
	} else {
		submit_bio_noacct(bio);
	}
}

/* What is counted apart, in fields of 21 bits; and that reads were given up, the sign. */
#define FUSION_PENDING_BITS	21
#define FUSION_PENDING_OTHER	2	/* reads: 0 and 1, their grace reference */
#define FUSION_PENDING_GIVEN_UP	(1ULL << 63)

#define FUSION_PENDING_UNIT(kind)	(1LL << (kind) * FUSION_PENDING_BITS)

/* Of an I/O on a member, from its start to its end. */
struct fusion_ticket {
	struct fusion_beat beat;
	u8 turn;
	u8 kind;			/* FUSION_PENDING_OTHER, or a read's grace reference */
	bool beats;			/* it is of data */
	bool write;
};

static inline void fusion_ticket_beat(struct fusion_member *m, struct fusion_ticket *t, bool write)
{
	t->beats = true;
	t->write = write;
	fusion_pulse_start(&m->pulse, &t->beat);
}

/* Count an I/O that is about to be submitted to @m.  Any context. */
static inline void fusion_member_start(struct fusion_member *m, struct fusion_ticket *t)
{
	t->turn = READ_ONCE(m->turn);
	t->kind = FUSION_PENDING_OTHER;
	t->beats = false;
	atomic64_add(FUSION_PENDING_UNIT(FUSION_PENDING_OTHER), &m->pending[t->turn]);
}

/* The same for one of data. */
static inline void fusion_member_start_data(struct fusion_member *m, struct fusion_ticket *t,
					    bool write)
{
	fusion_member_start(m, t);
	fusion_ticket_beat(m, t, write);
}

/*
 * The same for a read with grace reference @grace.  False: @m is out, and nothing is
 * counted.
 */
static inline bool fusion_member_start_read(struct fusion_member *m, unsigned int grace,
					    struct fusion_ticket *t)
{
	t->turn = READ_ONCE(m->turn);
	t->kind = grace;
	if (likely(atomic64_fetch_add(FUSION_PENDING_UNIT(grace), &m->pending[t->turn]) >= 0)) {
		fusion_ticket_beat(m, t, false);
		return true;
	}
	atomic64_sub(FUSION_PENDING_UNIT(grace), &m->pending[t->turn]);
	return false;
}

/* @bytes of background I/O are submitted to @m. */
static inline void fusion_member_background(struct fusion_member *m,
					    unsigned int bytes)
{
	atomic64_add(bytes, &m->background_bytes);
}

/* The pool may be gone when all that was counted has been subtracted: that is last. */
static inline s64 fusion_member_subtract(struct fusion_member *m, const struct fusion_ticket *t)
{
	if (t->beats)
		fusion_pulse_end(&m->pulse, &t->beat, t->write);
	return atomic64_fetch_sub(FUSION_PENDING_UNIT(t->kind), &m->pending[t->turn]);
}

/* What left nothing that must be flushed has ended.  Any context. */
static inline void fusion_member_end(struct fusion_member *m, const struct fusion_ticket *t)
{
	fusion_member_subtract(m, t);
}

/*
 * A read with a grace reference has ended.  False: that has been put for it, and what was
 * read may be anything.  Any context.
 */
static inline bool fusion_member_end_read(struct fusion_member *m, const struct fusion_ticket *t)
{
	return likely(fusion_member_subtract(m, t) >= 0);
}

/* A write, @bio, has ended, with success or not.  Any context. */
static inline void fusion_member_end_write(struct fusion_member *m, const struct fusion_ticket *t,
					   const struct bio *bio)
{
	bool durable = unlikely(bio->bi_opf & REQ_FUA) && !bio->bi_status;

	if (!durable && !READ_ONCE(m->dirty))
		WRITE_ONCE(m->dirty, true);
	/* the mark is visible before whoever waits for this write goes on */
	smp_mb__before_atomic();
	fusion_member_end(m, t);
}

static inline unsigned int fusion_pending_of(s64 pending, unsigned int kind)
{
	return pending >> kind * FUSION_PENDING_BITS & ((1 << FUSION_PENDING_BITS) - 1);
}

/* How much is under way. */
static inline int fusion_member_pending(const struct fusion_member *m)
{
	/* no field is so full that this would carry */
	s64 both = atomic64_read(&m->pending[0]) + atomic64_read(&m->pending[1]);

	return fusion_pending_of(both, 0) + fusion_pending_of(both, 1) +
		fusion_pending_of(both, FUSION_PENDING_OTHER);
}

/*
 * What speaks against sending something to @m: what is pending; that it is silent, more than any of
 * that; that it is unresponsive; and most that it is out.
 */
#define FUSION_BURDEN_SILENT		(1 << 20)
#define FUSION_BURDEN_UNRESPONSIVE	(1 << 24)
#define FUSION_BURDEN_OUT		(1 << 27)

static inline int fusion_member_burden(const struct fusion_member *m)
{
	if (fusion_member_out(m))
		return FUSION_BURDEN_OUT;
	if (unlikely(READ_ONCE(m->pulse.unresponsive)))
		return FUSION_BURDEN_UNRESPONSIVE + fusion_member_pending(m);
	return fusion_member_pending(m) +
		(unlikely(fusion_pulse_silent(&m->pulse)) ? FUSION_BURDEN_SILENT : 0);
}

/*
 * Is what waits for @m at @now worth a second attempt elsewhere?  If it is out nothing waits: that
 * has been given up.  Any context.
 */
static inline bool fusion_member_stuck(const struct fusion_member *m, u64 now)
{
	return !fusion_member_out(m) &&
		(unlikely(READ_ONCE(m->pulse.unresponsive)) || fusion_pulse_stuck(&m->pulse, now));
}

/*
 * @m is out, and its reads are not waited for any more: how many there are with either
 * grace reference, which are the caller's to put.
 */
void fusion_member_give_up_reads(struct fusion_member *m, unsigned int reads[2]);

/* Is any member dirty that is not out? */
bool fusion_members_dirty(struct fusion_member *members, unsigned int count);

/*
 * Read or write @bytes, a page at most, of any device, from or to the begin of
 * @page, and wait.  Sleeps.
 */
int fusion_page_io(struct block_device *bdev, sector_t sector,
		   struct page *page, unsigned int bytes, blk_opf_t opf);

/* Reads FUSION_LABEL_BYTES of what is a label's, or a record's, at @sector, and waits. */
typedef int (*fusion_member_read_fn)(void *from, sector_t sector, struct page *page);
/* That of a struct block_device that nothing else is known of. */
int fusion_member_read(void *bdev, sector_t sector, struct page *page);

/*
 * Read and check the label of a member, to the begin of @page: the first copy that is good.
 * On error *@error says why neither is.  Sleeps.
 */
int fusion_member_read_label(fusion_member_read_fn read, void *from, struct page *page,
			     const char **error);

/*
 * The newer copy of a member's record, as fusion_record_states().  @whole: so is the other.
 * Sleeps.
 */
struct fusion_states fusion_member_read_record(fusion_member_read_fn read, void *from,
					       struct page *page,
					       const u8 *pool_uuid, bool *whole);

#endif /* DM_FUSION_MEMBER_H */
