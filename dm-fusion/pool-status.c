// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool's status line.  See pool-status.h.
 */
#include "counters.h"
#include "failure.h"
#include "mode.h"
#include "pool-status.h"
#include "region.h"

static const char *mode_name(enum fusion_mode mode)
{
	switch (mode) {
	case FUSION_RW:
		return "rw";
	case FUSION_OUT_OF_SPACE:
		return "out_of_space";
	case FUSION_RO:
		return "ro";
	case FUSION_FAIL:
		break;
	}
	return "fail";
}

static void emit_space(struct fusion_pool *pool, char *result,
		       unsigned int maxlen, unsigned int *at)
{
	struct fusion_md_super *super = fusion_md_super(pool->md);
	struct fusion_space *s = &pool->space;
	unsigned int sz = *at;
	u64 total, nonfree, replicated, raid, dead, space;

	total = (u64)s->newest->count * s->newest->chunks * s->newest->layout->n;
	replicated = READ_ONCE(super->replica_live);
	raid = READ_ONCE(super->raid_live) + READ_ONCE(super->raid_parity_slots);
	/* slots in use in core, committed or not; what is not live is dead */
	fusion_space_blocks(s, &space, &nonfree);
	dead = nonfree > replicated + raid ? nonfree - replicated - raid : 0;
	space = min(space, total - min(total, replicated + raid + dead));
	DMEMIT("%llu %llu %llu %llu %llu %llu ", total, space, replicated, raid,
	       dead, total - space - replicated - raid - dead);
	*at = sz;
}

/*
 * Without the commit mutex: a commit may wait for a member that hangs, and this says so.  Each
 * number has been right at some time of its own.
 */
void fusion_pool_status(struct fusion_pool *pool,
			const struct fusion_pool_table *t, char *result,
			unsigned int maxlen)
{
	struct fusion_counters c;
	struct fusion_stock stock;
	u64 blocks = READ_ONCE(pool->metadata_blocks);
	unsigned int i, sz = 0;

	fusion_counters_sum(pool, &c);
	fusion_space_stock(&pool->space, &stock);
	DMEMIT("%s %s %llu %llu/%llu %u %s %s ",
	       mode_name(fusion_pool_mode(pool)),
	       fusion_md_read_only(pool->md) ? "needs_check" : "-",
	       fusion_md_transaction_id(pool->md), blocks - READ_ONCE(pool->metadata_free), blocks,
	       pool->block_sectors, pool->error_if_no_space ?
	       "error_if_no_space" : "queue_if_no_space",
	       READ_ONCE(pool->unsynced_generation) == 1 ? "synced" :
	       "resyncing");
	emit_space(pool, result, maxlen, &sz);
	DMEMIT("50 reads %llu large %llu in_place %llu new_top %llu discards %llu flushes %llu commits %llu resynced %llu converted %llu convert_gave_up %llu convert_read_pages %llu convert_written_pages %llu scrubbed %llu scrub_mismatches %llu passdowns %llu passdown_blocks %llu compacted %llu compact_gave_up %llu compact_read_pages %llu compact_written_pages %llu reserve %llu replica_area %llu replica_limit %llu grouped %llu low_water %u new_patch %llu patch_area %llu patch_limit %llu destaged %llu destage_rmw %llu destage_rcw %llu destage_read_pages %llu destage_written_pages %llu recovered %llu repaired %llu scrub_repaired %llu rebuilt %llu rebuild_todo %llu degraded %u scrub_blocks %llu scrub_at %u scrub_end %u journal_records %llu spikes %llu avoided_reads %llu avoided_writes %llu hedged_writes %llu hedges_won %llu grows_from %u growing_blocks %llu ",
	       c.reads, c.large, c.in_place, c.new_top, c.discards, c.flushes,
	       pool->commits, READ_ONCE(pool->resynced),
	       atomic64_read(&pool->converted.done),
	       atomic64_read(&pool->converted.given_up),
	       atomic64_read(&pool->converted.read_pages),
	       atomic64_read(&pool->converted.written_pages),
	       READ_ONCE(pool->scrub.stripes),
	       READ_ONCE(pool->scrub.mismatches),
	       READ_ONCE(pool->passdown.ranges),
	       READ_ONCE(pool->passdown.blocks),
	       atomic64_read(&pool->compacted.done),
	       atomic64_read(&pool->compacted.given_up),
	       atomic64_read(&pool->compacted.read_pages),
	       atomic64_read(&pool->compacted.written_pages),
	       stock.reserve, stock.replicated,
	       READ_ONCE(pool->space.replica_limit), c.grouped,
	       READ_ONCE(pool->reclaim.low_water), c.new_patch,
	       atomic64_read(&pool->space.patch_blocks),
	       READ_ONCE(pool->space.patch_limit),
	       atomic64_read(&pool->destage.pages),
	       atomic64_read(&pool->destage.rmw),
	       atomic64_read(&pool->destage.rcw),
	       atomic64_read(&pool->destage.read_pages),
	       atomic64_read(&pool->destage.written_pages),
	       atomic64_read(&pool->recovered.pages),
	       atomic64_read(&pool->recovered.repaired),
	       READ_ONCE(pool->scrub.repaired),
	       READ_ONCE(pool->rebuild.stripes),
	       READ_ONCE(pool->rebuild.todo),
	       fusion_failures_count(pool),
	       READ_ONCE(pool->scrub.blocks),
	       fusion_band_rank(&pool->space,
				fusion_stripe_band(fusion_md_super(pool->md)->scrub_at)),
	       fusion_band_rank(&pool->space, U32_MAX), READ_ONCE(pool->journal_records),
	       fusion_monitor_spikes(&pool->monitor),
	       atomic64_read(&pool->monitor.avoided[0]),
	       atomic64_read(&pool->monitor.avoided[1]),
	       c.hedged_writes, c.hedges_won,
	       fusion_md_super(pool->md)->old_members,
	       fusion_space_old_blocks(&pool->space));
	DMEMIT("%u", t->n);
	for (i = 0; i < t->n; i++)
		DMEMIT(" %s %s %d %lld %llu", fusion_pool_table_name(t, i),
		       fusion_failure_state(pool, i),
		       fusion_member_pending(&pool->member[i]),
		       fusion_stragglers(&pool->member[i]),
		       atomic64_read(&pool->member[i].errors));
}
