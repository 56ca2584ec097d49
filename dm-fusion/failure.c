// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members that fail.  See failure.h.
 */
#include "commit.h"
#include "failure.h"
#include "hang.h"
#include "mode.h"
#include "rebuild.h"
#include "record.h"
#include "set.h"
#include "spare.h"

#define DM_MSG_PREFIX "fusion"

/* Other errors say something about the request, or about memory. */
static bool status_counts(blk_status_t status)
{
	switch (status) {
	case BLK_STS_NOTSUPP:
	case BLK_STS_NOSPC:
	case BLK_STS_RESOURCE:
	case BLK_STS_DEV_RESOURCE:
	case BLK_STS_AGAIN:
		return false;
	default:
		return true;
	}
}

/* Members that are recorded as @state. */
static u64 failures_in(struct fusion_pool *pool, enum fusion_member_state state)
{
	u64 members = 0;
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (fusion_md_super(pool->md)->member[i] == state)
			members |= 1ULL << i;
	return members;
}

/* Members that are recorded as not OK. */
static u64 failures_recorded(struct fusion_pool *pool)
{
	return fusion_mask(0, pool->layout->n) & ~failures_in(pool, FUSION_MEMBER_OK);
}

u64 fusion_failures_returning(struct fusion_pool *pool)
{
	return failures_in(pool, FUSION_MEMBER_RETURNING);
}

/* Slots of a stripe that may be nowhere, if @recorded are not OK, of which @rebuilt are. */
static unsigned int failures_nowhere(u64 recorded, u64 rebuilt)
{
	return hweight64(recorded & ~rebuilt) + hweight64(rebuilt) / 2;
}

unsigned int fusion_failures_count(struct fusion_pool *pool)
{
	return failures_nowhere(failures_recorded(pool), fusion_md_super(pool->md)->rebuilt);
}

/*
 * No more slots of a stripe may be nowhere than its class has parities; and never is half
 * of all members out.
 */
bool fusion_failures_bear(struct fusion_pool *pool, u64 members)
{
	u64 recorded = failures_recorded(pool) | members;
	u64 out = (recorded & ~fusion_failures_returning(pool)) | members;
	u64 rebuilt = fusion_md_super(pool->md)->rebuilt & ~members;
	unsigned int i, max = FUSION_MAX_PARITY;

	for (i = 0; i < FUSION_MAX_CLASSES && pool->space.class[i]; i++)
		max = min(max, pool->space.class[i]->p);
	return failures_nowhere(recorded, rebuilt) <= max &&
		hweight64(out) <= (pool->layout->n - 1) / 2;
}

u64 fusion_failures_failing(const struct fusion_pool *pool)
{
	u64 members = 0;
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (READ_ONCE(pool->member[i].use) == FUSION_MEMBER_FAILING)
			members |= 1ULL << i;
	return members;
}

/* Member @i, which has no number, gets one, from the next commit on, if one is free. */
static void member_number(struct fusion_pool *pool, unsigned int i)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	super->spare[i] = fusion_spare_free(&pool->space);
	if (super->spare[i])
		super->incompat |= FUSION_INCOMPAT_SPARES | FUSION_INCOMPAT_STALE;
	/* nothing says what becomes out of date */
	else
		super->lost |= 1ULL << i;
}

/* Member @i is out, as @state says, from the next commit on. */
static void member_change(struct fusion_pool *pool, unsigned int i,
			  enum fusion_member_state state)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);

	super->member[i] = state;
	super->rebuilt &= ~(1ULL << i);
	super->left[i] = fusion_record_of(pool, i);
	super->states_generation++;
	super->incompat |= FUSION_INCOMPAT_FAILURES;
	/* one that was returning has its own */
	if (!super->spare[i])
		member_number(pool, i);
}

/* It may lack something.  Under failures.lock, or nothing else runs. */
static void failure_lacks(struct fusion_pool *pool, unsigned int i)
{
	u8 number = fusion_md_super(pool->md)->spare[i];

	WRITE_ONCE(pool->failures.lacking, pool->failures.lacking | 1ULL << i);
	if (number)
		fusion_spare_use(&pool->space, i, number);
}

static void failure_out(struct fusion_pool *pool, struct fusion_member *m)
{
	unsigned int i = m - pool->member;

	WRITE_ONCE(m->use, FUSION_MEMBER_OUT);
	WRITE_ONCE(pool->failures.out, pool->failures.out | 1ULL << i);
	failure_lacks(pool, i);
}

/* @m is @use, and who waited for that goes on. */
static void failure_settle(struct fusion_pool *pool, struct fusion_member *m,
			   enum fusion_member_use use)
{
	blk_status_t status = use == FUSION_MEMBER_OUT ? BLK_STS_OK : BLK_STS_IOERR;
	struct bio_list aside;
	struct bio *bio;

	spin_lock_irq(&pool->failures.lock);
	if (use == FUSION_MEMBER_OUT)
		failure_out(pool, m);
	else
		WRITE_ONCE(m->use, use);
	aside = m->aside;
	bio_list_init(&m->aside);
	spin_unlock_irq(&pool->failures.lock);
	if (m->spared) {
		/* new ones have places for what these have nowhere */
		fusion_sets_retire_all(&pool->space);
		fusion_rebuild_kick(pool);
	}
	if (use == FUSION_MEMBER_OUT)
		fusion_hang_give_up(pool, m);
	while ((bio = bio_list_pop(&aside))) {
		bio->bi_status = status;
		bio_endio(bio);
	}
}

/* The same as fusion_failures_flush(), whatever @members failed. */
static int failures_begin(struct fusion_pool *pool, u64 members)
{
	int r = 0;

	lockdep_assert_held(&pool->commit_lock);
	for (; members; members &= members - 1) {
		unsigned int i = fusion_ctz64(members);

		WRITE_ONCE(pool->member[i].use, FUSION_MEMBER_FAILING);
		if (fusion_failures_bear(pool, 1ULL << i) && fusion_pool_writable(pool)) {
			member_change(pool, i, FUSION_MEMBER_FAILED);
			pool->failures.begun |= 1ULL << i;
		} else {
			pool->failures.kept |= 1ULL << i;
			r = -EIO;
		}
	}
	return r;
}

int fusion_failures_flush(struct fusion_pool *pool, u64 members)
{
	/* that of others has been recorded since */
	int r = failures_begin(pool, members & ~fusion_members_out(pool));
	u64 left;

	/*
	 * What the cache has may be lost: what was written since the flush before this one.  All of
	 * that is in the epochs that are applied next, as every flush before the last commit has
	 * ended well, and becomes stale there if the number is in use by then.
	 */
	spin_lock_irq(&pool->failures.lock);
	for (left = members & pool->failures.begun; left; left &= left - 1)
		failure_lacks(pool, fusion_ctz64(left));
	spin_unlock_irq(&pool->failures.lock);
	return r;
}

int fusion_failures_record(struct fusion_pool *pool)
{
	u64 failed;
	int r = 0;

	lockdep_assert_held(&pool->commit_lock);
	while (!r) {
		failed = fusion_records_write(pool);
		if (!failed)
			return 0;
		r = failures_begin(pool, failed);
		if (!r)
			r = fusion_commit_transaction(pool);
	}
	DMERR("%s: a member cannot record what became of the others, and cannot be done without: the pool is read-only",
	      fusion_pool_name(pool));
	fusion_pool_set_mode(pool, FUSION_RO);
	return r;
}

void fusion_failures_end(struct fusion_pool *pool, int r)
{
	u64 begun = pool->failures.begun, changed = begun | pool->failures.kept, left;

	lockdep_assert_held(&pool->commit_lock);
	pool->failures.begun = 0;
	pool->failures.kept = 0;
	for (left = changed; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);
		struct fusion_member *m = &pool->member[i];
		bool failed = !r && begun >> i & 1;

		DMERR("%s: %pg has failed: %s", fusion_pool_name(pool), m->bdev,
		      failed ? "it is not used any more" :
		      fusion_pool_writable(pool) ?
		      "no more members can be done without: what it fails is answered with errors" :
		      "that cannot be recorded: what it fails is answered with errors");
		failure_settle(pool, m, failed ? FUSION_MEMBER_OUT :
			       FUSION_MEMBER_KEPT);
	}
	if (changed)
		fusion_pool_event(pool);
}

/* More members can be done without than before: those that were kept fail like others again. */
static void failures_keep_no_longer(struct fusion_pool *pool)
{
	u64 failing = fusion_failures_failing(pool);
	unsigned int i;

	lockdep_assert_held(&pool->commit_lock);
	for (i = 0; i < pool->layout->n && fusion_pool_writable(pool); i++) {
		struct fusion_member *m = &pool->member[i];

		if (READ_ONCE(m->use) != FUSION_MEMBER_KEPT ||
		    !fusion_failures_bear(pool, failing | 1ULL << i))
			continue;
		spin_lock_irq(&pool->failures.lock);
		WRITE_ONCE(m->use, FUSION_MEMBER_IN);
		spin_unlock_irq(&pool->failures.lock);
		DMINFO("%s: %pg, which has failed, can be done without again: it is not used any more if it fails once more",
		       fusion_pool_name(pool), m->bdev);
		fusion_pool_event(pool);
	}
}

/* Record that @members have failed. */
static int failures_record(struct fusion_pool *pool, u64 members)
{
	int r = failures_begin(pool, members), e = 0;

	if (pool->failures.begun)
		e = fusion_commit_transaction(pool);
	if (!e)
		e = fusion_failures_record(pool);
	fusion_failures_end(pool, e);
	return r ? r : e;
}

/* Those that hang, and that the pool can do without besides @members. */
static u64 failures_hung(struct fusion_pool *pool, u64 members)
{
	u64 hung = fusion_hung(pool) & ~members, found = 0;

	for (; hung && fusion_pool_writable(pool); hung &= hung - 1) {
		unsigned int i = fusion_ctz64(hung);
		struct fusion_member *m = &pool->member[i];

		if (READ_ONCE(m->use) != FUSION_MEMBER_IN)
			continue;
		if (fusion_failures_bear(pool, members | found | 1ULL << i))
			found |= 1ULL << i;
		else
			fusion_hang_tell(pool, m);
	}
	return found;
}

static void failures_work(struct work_struct *work)
{
	struct fusion_pool *pool = container_of(work, struct fusion_pool,
						failures.work);
	u64 members;

	mutex_lock(&pool->commit_lock);
	/* who fails from now on has the work queued again */
	fusion_grace_calm(&pool->grace);
	members = fusion_failures_failing(pool);
	members |= failures_hung(pool, members);
	if (members)
		failures_record(pool, members);
	mutex_unlock(&pool->commit_lock);
}

int fusion_failure_make(struct fusion_pool *pool, unsigned int i)
{
	int r;

	mutex_lock(&pool->commit_lock);
	if (!fusion_pool_writable(pool)) {
		r = -EROFS;
	} else if (fusion_member_out(&pool->member[i])) {
		DMERR("%s: member %u has failed already", fusion_pool_name(pool),
		      i);
		r = -EINVAL;
	} else if (!fusion_failures_bear(pool, fusion_failures_failing(pool) | 1ULL << i)) {
		DMERR("%s: member %u cannot be done without: as many have failed as each volume has parity for, or nearly half",
		      fusion_pool_name(pool), i);
		r = -EBUSY;
	} else {
		r = failures_record(pool, 1ULL << i);
	}
	mutex_unlock(&pool->commit_lock);
	return r;
}

void fusion_failures_kick(struct fusion_pool *pool)
{
	/* who waits for it may have a grace reference */
	fusion_grace_hurry(&pool->grace);
	queue_work(pool->commit_wq, &pool->failures.work);
}

static void failure_found(struct fusion_pool *pool, struct fusion_member *m)
{
	lockdep_assert_held(&pool->failures.lock);
	if (m->use != FUSION_MEMBER_IN)
		return;
	WRITE_ONCE(m->use, FUSION_MEMBER_FAILING);
	fusion_failures_kick(pool);
}

bool fusion_failure_aside(struct fusion_pool *pool, struct fusion_member *m,
			  struct bio *bio, blk_status_t *status)
{
	enum fusion_member_use use;
	unsigned long flags;

	spin_lock_irqsave(&pool->failures.lock, flags);
	if (status_counts(*status))
		failure_found(pool, m);
	use = m->use;
	if (use == FUSION_MEMBER_FAILING)
		bio_list_add(&m->aside, bio);
	spin_unlock_irqrestore(&pool->failures.lock, flags);
	/* it was under way when the member failed */
	if (use == FUSION_MEMBER_OUT)
		*status = BLK_STS_OK;
	return use == FUSION_MEMBER_FAILING;
}

u64 fusion_failures_spared(struct fusion_pool *pool)
{
	u64 members = 0;
	unsigned int i;

	for (i = 0; i < pool->layout->n; i++)
		if (fusion_spare_area(&pool->space, fusion_md_super(pool->md)->spare[i]))
			members |= 1ULL << i;
	return members & ~fusion_failures_returning(pool);
}

int fusion_failures_rebuilt(struct fusion_pool *pool, u64 generation)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	u64 rebuilt, out;
	int r = 0;

	mutex_lock(&pool->commit_lock);
	out = fusion_members_out(pool);
	rebuilt = fusion_failures_spared(pool) |
		(super->rebuilt & fusion_failures_returning(pool));
	if (super->states_generation != generation) {
		r = -EAGAIN;
	} else if (super->rebuilt != rebuilt) {
		super->rebuilt = rebuilt;
		r = fusion_commit_transaction(pool);
		if (!r)
			failures_keep_no_longer(pool);
	}
	mutex_unlock(&pool->commit_lock);
	if (r)
		return r;
	fusion_pool_event(pool);
	return out & ~rebuilt ? -ENOSPC : 0;
}

int fusion_failures_commit(struct fusion_pool *pool)
{
	int r = fusion_commit_transaction(pool);

	if (!r)
		r = fusion_failures_record(pool);
	fusion_failures_end(pool, r);
	if (!r)
		failures_keep_no_longer(pool);
	return r;
}

int fusion_failure_number(struct fusion_pool *pool, unsigned int i)
{
	int r;

	lockdep_assert_held(&pool->commit_lock);
	if (fusion_md_super(pool->md)->spare[i])
		return 0;
	member_number(pool, i);
	if (!fusion_md_super(pool->md)->spare[i])
		return -EBUSY;
	r = fusion_commit_transaction(pool);
	if (r)
		return r;
	spin_lock_irq(&pool->failures.lock);
	failure_lacks(pool, i);
	spin_unlock_irq(&pool->failures.lock);
	return 0;
}

void fusion_failure_in(struct fusion_pool *pool, unsigned int i)
{
	lockdep_assert_held(&pool->commit_lock);
	fusion_hang_forget(&pool->member[i]);
	fusion_monitor_forget(&pool->monitor, &pool->member[i]);
	spin_lock_irq(&pool->failures.lock);
	WRITE_ONCE(pool->member[i].use, FUSION_MEMBER_IN);
	WRITE_ONCE(pool->failures.out, pool->failures.out & ~(1ULL << i));
	spin_unlock_irq(&pool->failures.lock);
	/* who draws from now on has seen that */
	fusion_sets_retire_all(&pool->space);
	fusion_rebuild_kick(pool);
}

void fusion_failure_over(struct fusion_pool *pool, unsigned int i, u8 number)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);

	lockdep_assert_held(&pool->commit_lock);
	spin_lock_irq(&pool->failures.lock);
	/* who has failed meanwhile, this one or another, may have it */
	if (!memchr(super->spare, number, sizeof(super->spare)))
		fusion_spare_unuse(&pool->space, number);
	if (super->member[i] == FUSION_MEMBER_OK) {
		WRITE_ONCE(pool->member[i].spared, false);
		WRITE_ONCE(pool->failures.lacking,
			   pool->failures.lacking & ~(1ULL << i));
	}
	spin_unlock_irq(&pool->failures.lock);
}

void fusion_failures_load(struct fusion_pool *pool)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	unsigned int i;

	/* of a time when nothing said what is out of date */
	if (!(super->incompat & FUSION_INCOMPAT_STALE))
		super->lost |= failures_recorded(pool);
	for (i = 0; i < pool->layout->n; i++)
		if (super->member[i] == FUSION_MEMBER_RETURNING)
			failure_lacks(pool, i);
		else if (super->member[i] != FUSION_MEMBER_OK)
			failure_out(pool, &pool->member[i]);
}

void fusion_failures_missing(struct fusion_pool *pool, u64 missing)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	unsigned int i, beyond = 0;

	pool->failures.absent = missing;
	/* of a time when none was free */
	for (i = 0; i < pool->layout->n; i++)
		if (super->member[i] != FUSION_MEMBER_OK && !super->spare[i] &&
		    fusion_pool_writable(pool)) {
			member_number(pool, i);
			failure_out(pool, &pool->member[i]);
		}

	for (; missing; missing &= missing - 1) {
		i = fusion_ctz64(missing);
		if (fusion_member_out(&pool->member[i]))
			continue;
		DMERR("%s: member %u is missing", fusion_pool_name(pool), i);
		if (fusion_failures_bear(pool, 1ULL << i))
			member_change(pool, i, FUSION_MEMBER_MISSING);
		else
			beyond++;
		failure_out(pool, &pool->member[i]);
	}
	if (!beyond || !fusion_pool_writable(pool))
		return;
	DMERR("%s: %u members are missing that cannot be done without: the pool is read-only",
	      fusion_pool_name(pool), beyond);
	fusion_pool_set_mode(pool, FUSION_RO);
}

const char *fusion_failure_state(const struct fusion_pool *pool, unsigned int i)
{
	enum fusion_member_state state = fusion_md_super(pool->md)->member[i];
	enum fusion_member_use use = READ_ONCE(pool->member[i].use);

	if (use == FUSION_MEMBER_FAILING)
		return "failing";
	if (use == FUSION_MEMBER_KEPT)
		return "kept";
	/* also while that is being recorded, and it is not used yet */
	if (state == FUSION_MEMBER_RETURNING)
		return pool->failures.absent >> i & 1 ? "missing" : "returning";
	if (use == FUSION_MEMBER_IN)
		return "ok";
	return state == FUSION_MEMBER_FAILED ? "failed" : "missing";
}

void fusion_failures_init(struct fusion_pool *pool)
{
	unsigned int i;

	spin_lock_init(&pool->failures.lock);
	mutex_init(&pool->failures.return_lock);
	INIT_WORK(&pool->failures.work, failures_work);
	for (i = 0; i < FUSION_MAX_MEMBERS; i++)
		bio_list_init(&pool->member[i].aside);
	pool->member[FUSION_NOWHERE].use = FUSION_MEMBER_OUT;
}
