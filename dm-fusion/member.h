/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members: the devices of a pool, what is pending on them, and their flushes.
 *
 * A member's dirty mark says that writes have completed on it since its last
 * flush began.  It is cleared before a flush is issued and set by every later
 * completion, so a write is flushed by the first flush issued after it
 * completed.
 */
#ifndef DM_FUSION_MEMBER_H
#define DM_FUSION_MEMBER_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/cache.h>
#include <linux/device-mapper.h>

#include "codec.h"

/* What a member is used for: see failure.h. */
enum fusion_member_use {
	FUSION_MEMBER_IN,		/* everything */
	FUSION_MEMBER_FAILING,		/* everything, until its failure is recorded */
	FUSION_MEMBER_OUT,		/* nothing: it has failed, or is missing */
	FUSION_MEMBER_KEPT,		/* everything, though it fails writes */
};

struct fusion_member {
	/* Read on every I/O; changed only while the pool is suspended. */
	struct block_device *bdev;
	sector_t offset_sectors;	/* of the first band */
	/* These once or twice in a member's life: see failure.c. */
	enum fusion_member_use use;
	bool spared;			/* what is at home here may be elsewhere: spare.h */
	struct bio_list aside;		/* under failures.lock; see there */

	/* Written on every I/O: a line of the member's own. */
	atomic_t pending ____cacheline_aligned_in_smp;
	bool dirty;

	/* I/O of the background, to tell it from load. */
	atomic64_t background_bytes ____cacheline_aligned_in_smp;
	u64 load_bytes;			/* of others, when last looked at */
	atomic64_t errors;		/* pages that it could not read */
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

/* Count an I/O that is about to be submitted to @m. */
static inline void fusion_member_start(struct fusion_member *m)
{
	atomic_inc(&m->pending);
}

/* @bytes of background I/O are submitted to @m. */
static inline void fusion_member_background(struct fusion_member *m,
					    unsigned int bytes)
{
	atomic64_add(bytes, &m->background_bytes);
}

/* A read has ended.  Any context. */
static inline void fusion_member_end_read(struct fusion_member *m)
{
	atomic_dec(&m->pending);
}

/* A write has ended, with success or not.  Any context. */
static inline void fusion_member_end_write(struct fusion_member *m)
{
	if (!READ_ONCE(m->dirty))
		WRITE_ONCE(m->dirty, true);
	/* the mark is visible before whoever waits for this write goes on */
	smp_mb__before_atomic();
	atomic_dec(&m->pending);
}

static inline int fusion_member_pending(struct fusion_member *m)
{
	return atomic_read(&m->pending);
}

/*
 * Flush those of @count members that are dirty and not out, all at once, and wait.
 * Returns those whose flush failed, which are dirty again.  Sleeps.
 */
u64 fusion_members_flush(struct fusion_member *members, unsigned int count);

/* Is any member dirty that is not out? */
bool fusion_members_dirty(struct fusion_member *members, unsigned int count);

/*
 * Read or write @bytes, a page at most, of any device, from or to the begin of
 * @page, and wait.  Sleeps.
 */
int fusion_page_io(struct block_device *bdev, sector_t sector,
		   struct page *page, unsigned int bytes, blk_opf_t opf);

/*
 * Write @record to those members in @which, all at once: one copy after the other, so that
 * a power cut leaves one of them whole, unless the first has failed.  Returns those that
 * failed both.  Sleeps.
 */
u64 fusion_members_write_record(struct fusion_member *members, u64 which,
				struct page *record);

/*
 * Read and check the label of a member, to the begin of @page: the first copy that is good.
 * On error *@error says why neither is.  Sleeps.
 */
int fusion_member_read_label(struct block_device *bdev, struct page *page,
			     const char **error);

/*
 * The newer copy of a member's record, as fusion_record_states().  @whole: so is the other.
 * Sleeps.
 */
struct fusion_states fusion_member_read_record(struct block_device *bdev,
					       struct page *page,
					       const u8 *pool_uuid, bool *whole);

#endif /* DM_FUSION_MEMBER_H */
