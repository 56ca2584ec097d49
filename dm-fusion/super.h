/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The superblock of the metadata: between its on-disk and in-core forms, with
 * every check that later code relies on.
 */
#ifndef DM_FUSION_SUPER_H
#define DM_FUSION_SUPER_H

#include "codec.h"

/* The btrees, in the order of the arrays of their roots. */
enum fusion_tree {
	FUSION_TREE_VOLUMES,
	FUSION_TREE_BANDS,
	FUSION_TREE_STRIPES,
	FUSION_TREE_BASE,
	FUSION_TREE_TOPS,
	FUSION_TREE_PATCHES,
	FUSION_TREE_ROWS,
	FUSION_TREES
};

/* What the table line and the labels say; checked against the superblock. */
struct fusion_md_config {
	const struct fusion_layout *layout;	/* of all members */
	struct fusion_layout *old_layout;	/* made by fusion_super_verify(), if the pool grows */
	u32 block_sectors;
	u64 member_chunks;		/* blocks that fit the smallest member */
	bool incomplete;		/* members are missing: their uuids are zero */
	bool labelled;
	u64 states_generation;		/* of the members' records; 0: there are none */
	u64 journal_offset;		/* sectors */
	u32 journal_sectors;		/* 0: none is named */
	u8 pool_uuid[FUSION_UUID_BYTES];
	u8 member_uuid[FUSION_MAX_MEMBERS][FUSION_UUID_BYTES];
};

/* The superblock's plain fields in core; the writer changes them freely. */
struct fusion_md_super {
	u32 flags;
	u32 compat;
	u32 incompat;
	u32 band_units;
	u32 bands;
	u32 generation;
	u32 unsynced_generation;
	u64 replica_stripes;
	u64 raid_stripes;
	u64 replica_live;
	u64 raid_live;
	u64 replica_slots;
	u64 raid_slots;
	u64 raid_parity_slots;
	u64 patch_pages;
	u64 states_generation;		/* counts changes of @member */
	u64 scrub_at;			/* stripe; 0: it begins anew */
	u64 journal_offset;		/* sectors */
	u32 journal_sectors;		/* 0: there is none */
	u32 journal_at;			/* bytes into the ring */
	u64 journal_sequence;
	u16 layout_generation;		/* of the layout with @band_units and @bands */
	u16 old_members;		/* of the one before it; 0: it has no bands any more */
	u32 old_band_units;
	u32 old_bands;
	struct fusion_disk_class class[FUSION_MAX_CLASSES];
	u8 member[FUSION_MAX_MEMBERS];	/* enum fusion_member_state */
	u8 spare[FUSION_MAX_MEMBERS];	/* number, from 1; 0: none */
	u64 left[FUSION_MAX_MEMBERS];	/* generation of states */
	u64 rebuilt, lost;		/* members, a bit each */
};

/* The fields of @disk that @s and the trees' roots have; the rest is kept. */
void fusion_super_encode(const struct fusion_md_super *s, const u64 *root,
			 struct fusion_disk_super *disk);
void fusion_super_decode(const struct fusion_disk_super *disk,
			 struct fusion_md_super *s, u64 *root);

/*
 * Check @disk against the table line and the labels.  NULL, or the sentence
 * that says what is wrong.
 */
char *fusion_super_verify(const struct fusion_disk_super *disk,
			  const struct fusion_md_config *config);

/*
 * Are these the UUIDs of its members, as far as they are used?  Of more than it has, those behind
 * them are not looked at.
 */
bool fusion_super_has_members(const struct fusion_disk_super *disk,
			      const u8 uuid[][FUSION_UUID_BYTES]);

#endif /* DM_FUSION_SUPER_H */
