// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members that come back.  See return.h.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "commit.h"
#include "failure.h"
#include "flush.h"
#include "hang.h"
#include "mode.h"
#include "return.h"
#include "spare.h"

#define DM_MSG_PREFIX "fusion"

/* Stripes that are marked in one epoch. */
#define RETURN_BATCH	4096

/* ---- may it come back? ---- */

/* A member that is read from. */
struct return_from {
	struct fusion_pool *pool;
	unsigned int member;
	bool given_up;			/* one was, and its page may change */
};

static int return_read_page(void *owner, sector_t sector, struct page *page)
{
	struct return_from *from = owner;
	int r;

	if (from->given_up)
		return -ETIMEDOUT;
	r = fusion_member_read_page(from->pool, from->member, sector, page);
	from->given_up = r == -ETIMEDOUT;
	return r;
}

/*
 * What the device says that is to be member @i: its UUID, and *@generation, of the states in
 * its record.
 */
static int return_read(struct fusion_pool *pool, unsigned int i, u8 *uuid, u64 *generation)
{
	struct return_from from = { .pool = pool, .member = i };
	struct block_device *bdev = pool->member[i].bdev;
	u8 pool_uuid[FUSION_UUID_BYTES];
	const struct fusion_disk_label *label;
	struct page *page;
	const char *why;
	bool whole;
	int r;

	page = alloc_page(GFP_NOIO);
	if (!page)
		return -ENOMEM;
	fusion_hang_returns(pool, i, true);
	r = fusion_member_read_label(return_read_page, &from, page, &why);
	if (!r) {
		label = page_address(page);
		memcpy(uuid, label->member_uuid, FUSION_UUID_BYTES);
		fusion_md_pool_uuid(pool->md, pool_uuid);
		*generation = fusion_member_read_record(return_read_page, &from, page, pool_uuid,
							&whole).generation;
	} else if (!from.given_up) {
		DMERR("%s: member %u, %pg: label %s", fusion_pool_name(pool), i, bdev, why);
	}
	fusion_hang_returns(pool, i, false);
	__free_page(page);
	if (!from.given_up)
		return r;
	if (!READ_ONCE(pool->active))
		return -EAGAIN;
	DMERR("%s: member %u, %pg, hangs: try again when it answers, or has been reset",
	      fusion_pool_name(pool), i, bdev);
	return -EBUSY;
}

/* Why nothing that is on member @i counts; NULL: it does. */
static const char *return_lost(struct fusion_pool *pool, unsigned int i, const u8 *uuid,
			       u64 generation)
{
	const struct fusion_md_super *super = fusion_md_super(pool->md);

	if (!(super->compat & FUSION_COMPAT_LABELLED))
		return "the pool has no labels, which would say that it is the same";
	if (memcmp(uuid, fusion_md_member_uuid(pool->md, i), FUSION_UUID_BYTES))
		return "it is another device than it was";
	if (super->lost >> i & 1)
		return "what it lacks is not recorded: too many others were out when it failed";
	if (generation < super->left[i])
		return "it is older than it was when it was used last";
	if (generation > super->states_generation)
		return "it is newer than the pool, which is a copy of an earlier time then";
	return NULL;
}

static int return_check(struct fusion_pool *pool, unsigned int i)
{
	lockdep_assert_held(&pool->commit_lock);
	if (!fusion_pool_writable(pool))
		return -EROFS;
	/* suspended meanwhile */
	if (!READ_ONCE(pool->active))
		return -EAGAIN;
	if (!fusion_member_out(&pool->member[i])) {
		DMERR("%s: member %u is used: fail it first, if it is to be replaced",
		      fusion_pool_name(pool), i);
		return -EINVAL;
	}
	if (fusion_md_super(pool->md)->member[i] == FUSION_MEMBER_OK) {
		DMERR("%s: member %u was missing and cannot be done without: stop the pool and start it with all members",
		      fusion_pool_name(pool), i);
		return -EINVAL;
	}
	if (pool->failures.absent >> i & 1) {
		DMERR("%s: the table has no device for member %u: reload it with one",
		      fusion_pool_name(pool), i);
		return -EINVAL;
	}
	return 0;
}

/* The same, knowing what is on it; if that is to count, @keep, it must. */
static int return_check_all(struct fusion_pool *pool, unsigned int i, bool keep, const u8 *uuid,
			    u64 generation)
{
	int r = return_check(pool, i);
	const char *why;

	if (r)
		return r;
	why = keep ? return_lost(pool, i, uuid, generation) : NULL;
	if (!why)
		return 0;
	DMERR("%s: what is on member %u cannot be used, as %s: replace it",
	      fusion_pool_name(pool), i, why);
	return -EINVAL;
}

/* A number for member @i, if it has none.  Under the commit mutex. */
static int return_number(struct fusion_pool *pool, unsigned int i)
{
	int r = fusion_failure_number(pool, i);

	if (r == -EBUSY)
		DMERR("%s: %u members are not OK: one of the others has to come back before member %u",
		      fusion_pool_name(pool), FUSION_MAX_AREAS, i);
	return r;
}

/* ---- marks ---- */

/* What is on the member with @number, and does not count, is marked. */
static int return_mark_all(struct fusion_pool *pool, u8 number, bool all)
{
	unsigned int count = 0;
	bool more = true;
	u64 id;
	int r;

	r = fusion_space_load_all(&pool->space, &pool->commit_lock);
	/* what has been done is known, so that RAID stripes are known to be that */
	if (!r)
		r = fusion_commit(pool);
	for (id = 0; !r && more; id++) {
		/* before it is marked in core: what is there, and not on disk, nobody would mark again */
		struct fusion_spared *mark = kmalloc(sizeof(*mark), GFP_NOIO);

		if (!mark)
			return -ENOMEM;
		more = fusion_spare_mark_next(&pool->space, &pool->epochs, &id, number, all,
					      mark);
		if (!more)
			kfree(mark);
		else if (++count % RETURN_BATCH == 0)
			r = fusion_commit(pool);
		if (!r && !READ_ONCE(pool->active))
			r = -EAGAIN;
	}
	return r ? r : fusion_commit(pool);
}

/* ---- coming back ---- */

/* Has all ended that it was sent before?  Sleeps; not under the commit mutex. */
static int return_idle(struct fusion_pool *pool, unsigned int i)
{
	if (fusion_hang_over(pool, &pool->member[i]))
		return 0;
	if (!READ_ONCE(pool->active))
		return -EAGAIN;
	DMERR("%s: member %u, %pg, has not answered all that it was sent before it failed: try again when it has, or has been reset",
	      fusion_pool_name(pool), i, pool->member[i].bdev);
	return -EBUSY;
}

/* Member @i is returning.  Under the commit mutex. */
static int return_begin(struct fusion_pool *pool, unsigned int i, const u8 *uuid)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	int r;

	if (super->compat & FUSION_COMPAT_LABELLED)
		fusion_md_replace_member(pool->md, i, uuid);
	super->member[i] = FUSION_MEMBER_RETURNING;
	super->lost &= ~(1ULL << i);
	super->states_generation++;
	fusion_hang_returns(pool, i, true);
	r = fusion_failures_commit(pool);
	fusion_hang_returns(pool, i, false);
	if (r)
		return r;
	/* it could not record that */
	if (super->member[i] != FUSION_MEMBER_RETURNING)
		return -EAGAIN;
	fusion_failure_in(pool, i);
	return 0;
}

/* Under return_lock: what another marks may be less than what is to be. */
static int return_member(struct fusion_pool *pool, unsigned int i, bool keep)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	u8 uuid[FUSION_UUID_BYTES] = { 0 }, number;
	u64 generation = 0;
	int r;

	mutex_lock(&pool->commit_lock);
	r = return_check(pool, i);
	mutex_unlock(&pool->commit_lock);
	if (!r)
		r = return_idle(pool, i);
	if (!r && super->compat & FUSION_COMPAT_LABELLED)
		r = return_read(pool, i, uuid, &generation);
	if (r)
		return r;
	mutex_lock(&pool->commit_lock);
	r = return_check_all(pool, i, keep, uuid, generation);
	if (!r)
		r = return_number(pool, i);
	number = super->spare[i];
	mutex_unlock(&pool->commit_lock);
	if (r)
		return r;
	r = return_mark_all(pool, number, !keep);
	if (r)
		return r;
	fusion_commit_quiesce(pool);
	r = return_idle(pool, i);
	if (r)
		return r;
	mutex_lock(&pool->commit_lock);
	/* it may not be as it was */
	r = return_check_all(pool, i, keep, uuid, generation);
	if (!r)
		r = return_begin(pool, i, uuid);
	mutex_unlock(&pool->commit_lock);
	if (r)
		return r;
	DMINFO("%s: member %u, %pg, is back: what belongs there is being written",
	       fusion_pool_name(pool), i, pool->member[i].bdev);
	fusion_pool_event(pool);
	return 0;
}

int fusion_return(struct fusion_pool *pool, unsigned int i, bool keep)
{
	int r;

	mutex_lock(&pool->failures.return_lock);
	r = return_member(pool, i, keep);
	mutex_unlock(&pool->failures.return_lock);
	return r;
}

/* ---- all is there ---- */

/*
 * @members are OK.  *@generation is that of the states by this: others may fail as they are to
 * record it, and nothing of these is rebuilt.  Under the commit mutex.
 */
static int return_end(struct fusion_pool *pool, u64 members, u64 *generation)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	u8 number[FUSION_MAX_MEMBERS];
	u64 left;
	int r;

	for (left = members; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		number[i] = super->spare[i];
		super->spare[i] = 0;
		super->left[i] = 0;
		super->member[i] = FUSION_MEMBER_OK;
	}
	super->rebuilt &= ~members;
	*generation = ++super->states_generation;
	r = fusion_failures_commit(pool);
	if (r)
		return r;
	for (left = members; left; left &= left - 1) {
		unsigned int i = fusion_ctz64(left);

		fusion_failure_over(pool, i, number[i]);
		if (super->member[i] == FUSION_MEMBER_OK)
			DMINFO("%s: member %u, %pg, has all that belongs there",
			       fusion_pool_name(pool), i, pool->member[i].bdev);
	}
	return 0;
}

int fusion_return_all(struct fusion_pool *pool, u64 *generation)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	u64 members;
	int r = 0;

	mutex_lock(&pool->commit_lock);
	members = fusion_failures_returning(pool);
	mutex_unlock(&pool->commit_lock);
	if (!members)
		return 0;
	/* who reads from an area: another may use that */
	fusion_commit_quiesce(pool);
	mutex_lock(&pool->commit_lock);
	if (super->states_generation != *generation)
		r = -EAGAIN;
	else
		r = return_end(pool, members, generation);
	mutex_unlock(&pool->commit_lock);
	if (!r)
		fusion_pool_event(pool);
	return r;
}
