/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Write selection: what is read to compute the new parity of a row of pages, one of
 * each slot of a stripe, when some of them change.  Pure; any context.
 *
 *	rmw	read-modify-write: the old data of the pages that change, and the
 *		old parity; what changes in the data changes the parity
 *	rcw	reconstruct-write: the pages that do not change
 *
 * Both write the same.  md takes what reads less, and rcw if that is equal.
 * RAID4S-modthresh (Wacha, UC Santa Cruz) takes rmw up to one read more: fewer of
 * the drives with data are read then, and the one with the parity is more.
 *
 * And what is read instead of what cannot be.
 */
#ifndef DM_FUSION_SELECTION_H
#define DM_FUSION_SELECTION_H

#include "codec.h"

enum fusion_select {
	FUSION_SELECT_COUNT,		/* by the reads, and the bias */
	FUSION_SELECT_RMW,		/* always: RAID4S-modified */
	FUSION_SELECT_RCW,
	FUSION_SELECTS
};

struct fusion_selection {
	enum fusion_select mode;
	u32 bias;			/* reads; 0: md, 1: RAID4S-modthresh */
};

/* @changed: the slots whose pages change, of those that parity covers. */
static inline unsigned int fusion_rmw_reads(u64 changed, unsigned int p)
{
	return fusion_popcount64(changed) + p;
}

static inline unsigned int fusion_rcw_reads(u64 written, u64 changed)
{
	return fusion_popcount64(written & ~changed);
}

/*
 * Is the parity of a row of a stripe with @p parities, which cover the slots in
 * @written, computed by rmw when the pages in @changed, of these, change?
 */
static inline bool fusion_select_rmw(const struct fusion_selection *s,
				     u64 written, u64 changed, unsigned int p)
{
	unsigned int rmw = fusion_rmw_reads(changed, p);
	unsigned int rcw = fusion_rcw_reads(written, changed);

	if (s->mode != FUSION_SELECT_COUNT)
		return s->mode == FUSION_SELECT_RMW;
	return rmw < rcw || (s->bias && rmw <= rcw + s->bias);
}

/*
 * What cannot be read: the slots that say what was in those of @lost, of a stripe with @d
 * data slots and @p parities, which cover the slots in @written: what is left of these,
 * and as many parities as data slots are lost.  0: more is lost than there are parities.
 */
static inline u64 fusion_recover_sources(u64 written, u64 lost, unsigned int d,
					 unsigned int p)
{
	unsigned int n = fusion_popcount64(written & lost);
	u64 parity = fusion_mask(d, p) & ~lost, sources = written & ~lost;

	for (; n && parity; n--, parity &= parity - 1)
		sources |= parity & -parity;
	return n ? 0 : sources;
}

#endif /* DM_FUSION_SELECTION_H */
