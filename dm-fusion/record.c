// SPDX-License-Identifier: GPL-2.0-only
/*
 * The members' records.  See record.h.
 */
#include <linux/mm.h>

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

u64 fusion_records_write(struct fusion_pool *pool)
{
	struct fusion_disk_record *record = page_address(pool->record);
	const struct fusion_md_super *super = fusion_md_super(pool->md);
	enum fusion_member_use use;
	unsigned int i;
	u64 used = 0;

	lockdep_assert_held(&pool->commit_lock);
	if (!(super->compat & FUSION_COMPAT_LABELLED))
		return 0;
	for (i = 0; i < pool->layout.n; i++) {
		use = READ_ONCE(pool->member[i].use);
		if (use != FUSION_MEMBER_OUT && use != FUSION_MEMBER_FAILING)
			used |= 1ULL << i;
	}
	fusion_md_pool_uuid(pool->md, record->pool_uuid);
	record->generation = cpu_to_le64(super->states_generation);
	record->members = cpu_to_le16(pool->layout.n);
	memcpy(record->state, super->member, sizeof(record->state));
	fusion_record_seal(record);
	return fusion_members_write_record(pool->member, used, pool->record);
}
