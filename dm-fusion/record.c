// SPDX-License-Identifier: GPL-2.0-only
/*
 * The members' records.  See record.h.
 */
#include <linux/mm.h>

#include "flush.h"
#include "record.h"

int fusion_records_init(struct fusion_pool *pool)
{
	pool->record = alloc_page(GFP_KERNEL | __GFP_ZERO);
	return pool->record ? 0 : -ENOMEM;
}

void fusion_records_exit(struct fusion_pool *pool)
{
	__free_page(pool->record);
}

/* The page is written to, unless a member may still read it (private.h): then another. */
static struct fusion_disk_record *record_begin(struct fusion_pool *pool)
{
	if (page_count(pool->record) > 1) {
		__free_page(pool->record);
		pool->record = alloc_page(GFP_NOIO | __GFP_ZERO | __GFP_NOFAIL);
	}
	return page_address(pool->record);
}

u64 fusion_records_write(struct fusion_pool *pool)
{
	struct fusion_disk_record *record;
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	u64 todo = 0, failed;
	unsigned int i;

	lockdep_assert_held(&pool->commit_lock);
	/* what could not be committed is not to be: the pool is read-only */
	if (!(super->compat & FUSION_COMPAT_LABELLED) ||
	    super->states_generation != pool->states_committed)
		return 0;
	for (i = 0; i < pool->layout->n; i++)
		if (fusion_state_used(super->member[i]) &&
		    pool->recorded[i] != super->states_generation)
			todo |= 1ULL << i;
	if (!todo)
		return 0;
	record = record_begin(pool);
	fusion_md_pool_uuid(pool->md, record->pool_uuid);
	record->generation = cpu_to_le64(super->states_generation);
	record->members = cpu_to_le16(pool->layout->n);
	memcpy(record->state, super->member, sizeof(record->state));
	fusion_record_seal(record);
	failed = fusion_members_write_record(pool, todo, pool->record);
	for (todo &= ~failed; todo; todo &= todo - 1)
		pool->recorded[fusion_ctz64(todo)] = super->states_generation;
	return failed;
}

u64 fusion_record_of(const struct fusion_pool *pool, unsigned int i)
{
	/* one that could not be told of this generation has failed with the one before */
	return pool->recorded[i] ? pool->recorded[i] : pool->states_committed;
}
