/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records of the map's journal: between memory and what the map is told.  Pure; any context.
 */
#ifndef DM_FUSION_JOURNAL_RECORD_H
#define DM_FUSION_JOURNAL_RECORD_H

#include "patch.h"

/* A record that is being written: @data has room for FUSION_JOURNAL_MAX bytes. */
struct fusion_journal_writer {
	u8 *data;
	u32 bytes, entries;
};

/* What makes a record the one that is looked for. */
struct fusion_journal_id {
	u8 pool_uuid[FUSION_UUID_BYTES];
	u64 sequence;
	u32 at;
	u32 generation;
};

void fusion_journal_begin(struct fusion_journal_writer *w, void *data);
/*
 * The block with @key is at @base (0: nowhere), and at @top, or has @patches; NULL: not.  Of what
 * is said of a block what has the last @order counts.  False: there is no room.
 */
bool fusion_journal_add_block(struct fusion_journal_writer *w, u64 key, u32 order, u64 base,
			      const struct fusion_top *top,
			      const struct fusion_patches *patches);
bool fusion_journal_add_seal(struct fusion_journal_writer *w, u64 stripe, u64 written);
/* How long it is, in bytes: it is whole, once it knows where it is to be. */
u32 fusion_journal_length(const struct fusion_journal_writer *w);
/* After @transaction_id was committed.  @more: the next record belongs to it. */
void fusion_journal_end(struct fusion_journal_writer *w, const struct fusion_journal_id *id,
			u64 transaction_id, bool more);

/*
 * Of what begins a record at @data, FUSION_JOURNAL_UNIT bytes: how long it is, in bytes; 0: it is
 * not the one with @id.
 */
u32 fusion_journal_bytes(const void *data, const struct fusion_journal_id *id);
/* And of all of it: is it whole? */
bool fusion_journal_whole(const void *data, u32 bytes);
/* The transaction that it comes after. */
u64 fusion_journal_transaction_id(const void *data);

/* A record, which is whole, that is being read. */
struct fusion_journal_reader {
	const u8 *data;
	u32 bytes, at, left;
	unsigned int pages;		/* of a block */
	bool more;			/* the next record belongs to it */
};

/* What an entry says, decoded. */
struct fusion_journal_entry {
	enum fusion_journal_kind kind;
	u32 order;			/* these as in fusion_disk_journal_entry */
	u64 key, value;
	struct fusion_top top;
	union fusion_patches_room patches;
};

void fusion_journal_read(struct fusion_journal_reader *r, const void *data, u32 bytes,
			 unsigned int pages);
/*
 * The next entry.  -ENODATA: there is none; -EINVAL: it cannot be one, for reasons that codec.h
 * and patch.h have.  Whether the pool has its places is not known here.
 */
int fusion_journal_next(struct fusion_journal_reader *r, struct fusion_journal_entry *entry);

#endif /* DM_FUSION_JOURNAL_RECORD_H */
