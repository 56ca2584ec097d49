/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: what the background does, one event for each stripe.  Their
 * fields are in docs/dm-fusion.rst, and only ever appended to.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dm_fusion

#if !defined(DM_FUSION_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DM_FUSION_TRACE_H

#include <linux/tracepoint.h>

#include "move.h"

TRACE_DEFINE_ENUM(FUSION_REST);
TRACE_DEFINE_ENUM(FUSION_YIELD);
TRACE_DEFINE_ENUM(FUSION_INSIST);

/* The conversion of a set has ended; @m has not yet. */
TRACE_EVENT(fusion_convert,
	TP_PROTO(const struct fusion_move *m, bool frozen, int result),
	TP_ARGS(m, frozen, result),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, stripe)
		__field(unsigned int, live)
		__field(int, result)
		__field(bool, frozen)
		__field(u64, read_pages)
		__field(u64, written_pages)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(m->pool->md_owner));
		__entry->stripe = m->to;
		__entry->live = hweight64(m->live);
		__entry->result = result;
		__entry->frozen = frozen;
		__entry->read_pages = m->read_pages;
		__entry->written_pages = m->written_pages;
	),
	TP_printk("%d,%d stripe=%llu live=%u result=%d frozen=%d read=%llu written=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->stripe,
		  __entry->live, __entry->result, __entry->frozen,
		  __entry->read_pages, __entry->written_pages)
);

/* The filling of a fresh stripe has ended, of @sets sets; @m has not yet. */
TRACE_EVENT(fusion_compact,
	TP_PROTO(const struct fusion_move *m, unsigned int sets, int result),
	TP_ARGS(m, sets, result),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, stripe)
		__field(unsigned int, moved)
		__field(unsigned int, hot)
		__field(unsigned int, sets)
		__field(int, result)
		__field(u64, read_pages)
		__field(u64, written_pages)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(m->pool->md_owner));
		__entry->stripe = m->to;
		__entry->moved = result ? 0 : hweight64(m->live);
		__entry->hot = m->given_up;
		__entry->sets = sets;
		__entry->result = result;
		__entry->read_pages = m->read_pages;
		__entry->written_pages = m->written_pages;
	),
	TP_printk("%d,%d stripe=%llu moved=%u hot=%u sets=%u result=%d read=%llu written=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->stripe,
		  __entry->moved, __entry->hot, __entry->sets, __entry->result,
		  __entry->read_pages, __entry->written_pages)
);

/* The background works harder from now on, or less hard. */
TRACE_EVENT(fusion_reclaim,
	TP_PROTO(const struct fusion_pool *pool, enum fusion_effort effort),
	TP_ARGS(pool, effort),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, effort)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(pool->md_owner));
		__entry->effort = effort;
	),
	TP_printk("%d,%d effort=%s",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->effort,
				   { FUSION_REST, "rest" },
				   { FUSION_YIELD, "yield" },
				   { FUSION_INSIST, "insist" }))
);

/* A member is unresponsive from now on, or responsive again. */
TRACE_EVENT(fusion_responsive,
	TP_PROTO(const struct block_device *member, bool responsive, s64 stragglers,
		 u64 window_ns),
	TP_ARGS(member, responsive, stragglers, window_ns),
	TP_STRUCT__entry(
		__field(dev_t, member)
		__field(bool, responsive)
		__field(s64, stragglers)
		__field(u64, window_ns)
	),
	TP_fast_assign(
		__entry->member = member->bd_dev;
		__entry->responsive = responsive;
		__entry->stragglers = stragglers;
		__entry->window_ns = window_ns;
	),
	TP_printk("member=%d,%d responsive=%d stragglers=%lld window=%llu",
		  MAJOR(__entry->member), MINOR(__entry->member), __entry->responsive,
		  __entry->stragglers, __entry->window_ns)
);

#endif /* DM_FUSION_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
