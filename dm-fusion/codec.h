/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Codecs: page masks, map entries and member labels between their on-disk and
 * in-core forms, with every check a reader needs.  Pure; any context.
 */
#ifndef DM_FUSION_CODEC_H
#define DM_FUSION_CODEC_H

#include "format.h"

/* ---- page masks: bit p is page p of a block of at most 64 pages ---- */

/* Pages @first .. @first + @count - 1; @first + @count <= 64. */
static inline u64 fusion_mask(unsigned int first, unsigned int count)
{
	if (!count)
		return 0;
	return (~0ULL >> (64 - count)) << first;
}

/*
 * How many pages from @first on, at most @limit, are alike in @mask: all set
 * or all clear (bit @first says which).  @first + @limit <= 64, @limit > 0.
 */
static inline unsigned int fusion_mask_run(u64 mask, unsigned int first,
					   unsigned int limit)
{
	u64 m = mask >> first;

	if (m & 1)
		m = ~m;
	if (!m)
		return limit;
	m = fusion_ctz64(m);
	return m < limit ? m : limit;
}

/* ---- map entries ---- */

/* A top in core.  Places beyond the class's replicas are 0. */
struct fusion_top {
	u64 place[FUSION_MAX_REPLICAS];
	u64 mask;
	u32 generation;
};

/* How many replicas a top has: 2, or 3 in a class of two parities. */
static inline unsigned int fusion_top_replicas(const struct fusion_top *top)
{
	return top->place[2] ? 3 : 2;
}

void fusion_top_encode(const struct fusion_top *top,
		       struct fusion_disk_top *disk);

/*
 * -EINVAL if @disk cannot be a top of blocks of @pages (1 .. 64) pages: empty or
 * overlong mask, no primary or second place, a place without its valid bit or
 * with bits that mean nothing, two replicas at one place.  Whether the pool has
 * such places is for fusion_place_valid(); whether the class has a third
 * replica, for the caller.
 */
int fusion_top_decode(const struct fusion_disk_top *disk, unsigned int pages,
		      struct fusion_top *top);

/*
 * Is @place one that a pool of @bands bands, each of at most @stripes stripes
 * of at most @slots slots, can have?
 */
bool fusion_place_valid(u64 place, u32 bands, u32 stripes, u32 slots);

/* Could a journal's ring be there, and so long? */
static inline bool fusion_journal_ring_ok(u64 offset_sectors, u64 sectors)
{
	return !(offset_sectors % FUSION_PAGE_SECTORS) && !(sectors % FUSION_PAGE_SECTORS) &&
		sectors >= FUSION_JOURNAL_MIN_RING >> 9 &&
		sectors <= FUSION_JOURNAL_MAX_RING >> 9;
}

/* ---- labels ---- */

enum fusion_label_error {
	FUSION_LABEL_OK = 0,
	FUSION_LABEL_ABSENT,		/* no magic: not a member */
	FUSION_LABEL_CORRUPT,		/* checksum or a field's range */
	FUSION_LABEL_VERSION,		/* of a newer format */
	FUSION_LABEL_FEATURES,		/* unknown incompat features */
};

/* Fill in magic, version and checksum of @label. */
void fusion_label_seal(struct fusion_disk_label *label);

/*
 * Check one copy as it was read; nothing in it may be used unless OK.  Unknown
 * bits in ro_compat are OK: who wants to write the label looks at them.
 */
enum fusion_label_error fusion_label_check(const struct fusion_disk_label *label);

/* A sentence's end for each error: "has no dm-fusion label", ... */
const char *fusion_label_strerror(enum fusion_label_error error);

/* ---- member records ---- */

/* What a record says of the members' states, as far as it matters which record counts. */
struct fusion_states {
	u64 generation;			/* 0: no record; ~0: one of a newer format */
	u64 used;			/* members: fusion_state_used(), a bit each */
};

/* Fill in magic, version and checksum of @record. */
void fusion_record_seal(struct fusion_disk_record *record);

/*
 * Read one copy as it was read: if it is not one of the pool with that UUID, or damaged,
 * generation 0; if it is of a newer format ~0.
 */
struct fusion_states fusion_record_states(const struct fusion_disk_record *record,
					  const u8 *pool_uuid);

/*
 * Which of @n members' records counts: the newest that all members have that are there and
 * that it says are used, or a newer one.  Another was not acted upon: the power failed
 * while it was written, and others may have gone on without it.  So what counts is what was
 * acted upon last, if more than half of all members are there that it says are used: of
 * these at least one has acted upon whatever others have.
 *
 * Generation 0: there is none; ~0: there is one that is newer than this code.
 */
struct fusion_states fusion_states_choose(const struct fusion_states *states,
					  unsigned int n);

#endif /* DM_FUSION_CODEC_H */
