/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What commits send to many members at once: flushes, and the members' records; and what is
 * read from one before it is used again.
 *
 * They wait for all.  One that hangs (hang.h) is given up if the pool can do without that
 * member: it has failed, and what was sent to it is abandoned.
 *
 * All sleep.
 */
#ifndef DM_FUSION_FLUSH_H
#define DM_FUSION_FLUSH_H

#include "pool.h"

/*
 * Flush those members that are dirty and not out.  Returns those whose flush failed, which
 * are dirty again.  Under close_lock, and not the commit mutex.
 */
u64 fusion_members_flush(struct fusion_pool *pool);

/*
 * Write @record to those members in @which: one copy after the other, so that a power cut
 * leaves one of them whole, unless the first has failed.  Returns those that failed both.
 * Under the commit mutex.
 */
u64 fusion_members_write_record(struct fusion_pool *pool, u64 which, struct page *record);

/*
 * Read one page of member @i, which is out: fusion_hang_returns() has said that it is watched.
 * -EIO; -ETIMEDOUT: it hangs, or the pool is not active any more, and @page may still change at
 * any time.
 */
int fusion_member_read_page(struct fusion_pool *pool, unsigned int i, sector_t sector,
			    struct page *page);

#endif /* DM_FUSION_FLUSH_H */
