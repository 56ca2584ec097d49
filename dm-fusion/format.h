/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The on-disk format, version 1: the one definition for module and tools.
 * Everything is little-endian; sectors are 512 bytes; a block is
 * block_sectors long; pages are 4 KiB.
 *
 * A member:
 *
 *	0		label, first copy
 *	256 KiB		member record, first copy
 *	512 KiB		label, second copy
 *	768 KiB		member record, second copy
 *	1 MiB		dm-raid's superblock for the metadata slice, if any,
 *			then the slice itself
 *	journal_offset	the ring of the map's journal, if there is one, the same on
 *			all members
 *	data_offset	bands
 *			what is behind them is of no use; pools of the tool have 1 MiB of that at least
 *
 * The metadata device: block 0 is the superblock, the rest belongs to
 * dm-persistent-data's space map and these btrees:
 *
 *	volumes	volume id			-> fusion_disk_volume
 *	bands	band number			-> fusion_disk_band
 *	stripes	stripe id			-> fusion_disk_stripe; absent: FREE
 *	base	volume id, block / 64		-> 64 places; absent: none
 *	tops	volume id, block		-> fusion_disk_top; absent: none
 *	patches	volume id, block		-> fusion_disk_patches; absent: none
 *	rows	stripe id, row, part		-> fusion_disk_row; absent: none
 *
 * Keys of base, tops and patches carry the volume id in bits 40..63.  A root of
 * 0 is an empty tree.  A block has a top or patches or neither.
 */
#ifndef DM_FUSION_FORMAT_H
#define DM_FUSION_FORMAT_H

#include "layout.h"

#define FUSION_FORMAT_VERSION	1

#define FUSION_PAGE_SHIFT	12
#define FUSION_PAGE_SECTORS	8
#define FUSION_MIN_BLOCK_SECTORS	8	/* 4 KiB */
#define FUSION_MAX_BLOCK_SECTORS	512	/* 256 KiB */
#define FUSION_MAX_BLOCK_PAGES		64	/* a u64 mask */

#define FUSION_NAME_BYTES	64	/* with the terminating zero */
#define FUSION_UUID_BYTES	16

/* ---- identifiers ---- */

/*
 * A stripe id is its band (24 bits) and its index in the band (24 bits).  A
 * place is a slot of a stripe: what the map's entries hold.  0 is "none".
 *
 * The uppermost bit of a band's number is the lowest of the generation of its layout:
 * while a pool grows it has bands of two.
 */
#define FUSION_STRIPE_INDEX_BITS	24
#define FUSION_BAND_BITS		23
#define FUSION_STRIPE_BITS		48
#define FUSION_SLOT_BITS		6
#define FUSION_PLACE_VALID		(1ULL << 62)

static inline u64 fusion_stripe_id(u32 band, u32 index)
{
	return (u64)band << FUSION_STRIPE_INDEX_BITS | index;
}

static inline u32 fusion_stripe_band(u64 stripe)
{
	return stripe >> FUSION_STRIPE_INDEX_BITS;
}

/* The lowest bit of the generation of the layout that @stripe's band is of. */
static inline unsigned int fusion_stripe_region(u64 stripe)
{
	return stripe >> (FUSION_STRIPE_INDEX_BITS + FUSION_BAND_BITS);
}

static inline u32 fusion_stripe_index(u64 stripe)
{
	return stripe & (FUSION_MAX_BAND_STRIPES - 1);
}

static inline u64 fusion_place(u64 stripe, u32 slot)
{
	return FUSION_PLACE_VALID | stripe << FUSION_SLOT_BITS | slot;
}

static inline u64 fusion_place_stripe(u64 place)
{
	return (place & ~FUSION_PLACE_VALID) >> FUSION_SLOT_BITS;
}

static inline u32 fusion_place_slot(u64 place)
{
	return place & ((1U << FUSION_SLOT_BITS) - 1);
}

/*
 * A patch place is a page of a slot of a stripe: where a replica of a single page
 * is.  0 is "none".
 */
#define FUSION_PAGE_BITS	6

static inline u64 fusion_patch_place(u64 place, u32 page)
{
	return FUSION_PLACE_VALID |
		(place & ~FUSION_PLACE_VALID) << FUSION_PAGE_BITS | page;
}

/* The slot that a patch place is in, and the page of it. */
static inline u64 fusion_patch_slot(u64 patch)
{
	return FUSION_PLACE_VALID |
		(patch & ~FUSION_PLACE_VALID) >> FUSION_PAGE_BITS;
}

static inline u32 fusion_patch_page(u64 patch)
{
	return patch & ((1U << FUSION_PAGE_BITS) - 1);
}

/*
 * How many pages of a block of @pages pages may be patched: less than a quarter.
 * With more the block gets a top.
 */
#define FUSION_MAX_PATCHES	15	/* of 64 */

static inline u32 fusion_max_patches(u32 pages)
{
	return pages < 8 ? 0 : pages / 4 - 1;
}

#define FUSION_BLOCK_BITS	40
#define FUSION_MAX_BLOCKS	(1ULL << FUSION_BLOCK_BITS)
#define FUSION_MAX_VOLUME_ID	((1U << 24) - 1)

/* Base entries come in groups of this many blocks. */
#define FUSION_GROUP_SHIFT	6
#define FUSION_GROUP_BLOCKS	(1U << FUSION_GROUP_SHIFT)

static inline u64 fusion_block_key(u32 volume, u64 block)
{
	return (u64)volume << FUSION_BLOCK_BITS | block;
}

/* ---- label ---- */

#define FUSION_LABEL_MAGIC	"dm-fusion member"	/* 16 bytes, no zero */
#define FUSION_LABEL_BYTES	4096
#define FUSION_LABEL_COPY0	0			/* byte offsets */
#define FUSION_LABEL_COPY1	(512 * 1024)
#define FUSION_RECORD_COPY0	(256 * 1024)
#define FUSION_RECORD_COPY1	(768 * 1024)
#define FUSION_LABEL_AREA	(1024 * 1024)

/*
 * One of the two copies of a member's label.  @crc is the CRC-32C of the
 * 4096 bytes with @crc itself as zero.  A label with unknown bits in @incompat
 * must not be used; with unknown bits in @ro_compat must not be written.
 */
struct fusion_disk_label {
	u8 magic[16];
	__le32 crc;
	__le32 version;
	__le32 compat;
	__le32 ro_compat;
	__le32 incompat;
	__le32 flags;
	u8 pool_uuid[FUSION_UUID_BYTES];
	u8 member_uuid[FUSION_UUID_BYTES];
	char pool_name[FUSION_NAME_BYTES];
	__le16 index;			/* of this member; 0xffff: hot spare */
	__le16 members;			/* n */
	__le16 spares;
	__le16 slice;			/* of the metadata; 0xffff: none here */
	__le16 slices;
	__le16 layout;			/* FUSION_LAYOUT_* */
	__le32 block_sectors;
	__le64 data_offset_sectors;
	__le64 data_sectors;		/* whole bands, of the pool's first layout */
	__le64 rmeta_offset_sectors;	/* dm-raid's superblock of the slice */
	__le64 rmeta_sectors;
	__le64 slice_offset_sectors;
	__le64 slice_sectors;
	__le64 created;			/* seconds since 1970 */
	__le64 member_sectors;		/* size of the device when labelled */
	__le64 journal_offset_sectors;	/* the ring of the map's journal */
	__le64 journal_sectors;		/* 0: there is none */
	u8 reserved[FUSION_LABEL_BYTES - 232];
};

#define FUSION_NO_INDEX		0xffff

#define FUSION_LABEL_INCOMPAT_KNOWN	0U

/* label flags: the tools' own, the module does not look at them */
#define FUSION_LABEL_CREATING		1U	/* the pool is not complete yet */
#define FUSION_LABEL_ERROR_IF_NO_SPACE	2U	/* start it with this feature */
#define FUSION_LABEL_NO_DISCARD_PASSDOWN 4U	/* and with this */

#define FUSION_LAYOUT_MOLS	0

/* ---- member record ---- */

#define FUSION_RECORD_MAGIC	"dm-fusion record"	/* 16 bytes, no zero */

enum fusion_member_state {
	FUSION_MEMBER_OK = 0,
	FUSION_MEMBER_MISSING = 1,
	FUSION_MEMBER_FAILED = 2,
	FUSION_MEMBER_RETURNING = 3,	/* used, and gets back what was on it */
};

/* Is one that has this state used?  The others are out. */
static inline bool fusion_state_used(u32 state)
{
	return state == FUSION_MEMBER_OK || state == FUSION_MEMBER_RETURNING;
}

/* Flags of one that is not OK. */
#define FUSION_MEMBER_REBUILT	(1U << 0)	/* nothing is nowhere any more that was on it */
#define FUSION_MEMBER_LOST	(1U << 1)	/* nothing that is on it counts */

/*
 * One of the two copies of a member's record, which is the same on all members: which of
 * them are used.  The module writes it, after the metadata that says the same: metadata of
 * a lower generation than a record is old, and must not be used.  @crc is as the label's.
 */
struct fusion_disk_record {
	u8 magic[16];
	__le32 crc;
	__le32 version;
	u8 pool_uuid[FUSION_UUID_BYTES];
	__le64 generation;		/* of the states; from 1 */
	__le16 members;			/* n */
	u8 reserved0[6];
	u8 state[FUSION_MAX_MEMBERS];	/* enum fusion_member_state */
	u8 reserved[FUSION_LABEL_BYTES - 120];
};

/* ---- superblock ---- */

#define FUSION_SUPER_MAGIC	0x1f0510d2a1df05e1ULL
#define FUSION_SUPER_CSUM_XOR	0x66757369	/* "fusi" */
#define FUSION_META_BLOCK_BYTES	4096
#define FUSION_MAX_CLASSES	16
#define FUSION_SPACE_MAP_ROOT_BYTES	128

#define FUSION_SUPER_CLEAN		(1U << 0)	/* stopped cleanly */
#define FUSION_SUPER_NEEDS_CHECK	(1U << 1)

/* compat feature: the members carry labels that must agree */
#define FUSION_COMPAT_LABELLED		(1U << 0)

#define FUSION_COMPAT_KNOWN		FUSION_COMPAT_LABELLED
#define FUSION_RO_COMPAT_KNOWN		0U

/* incompat feature: there are patches, or were */
#define FUSION_INCOMPAT_PATCHES		(1U << 0)

/* incompat feature: there are records of rows, or were */
#define FUSION_INCOMPAT_ROWS		(1U << 1)

/* incompat feature: members are not OK, or were not */
#define FUSION_INCOMPAT_FAILURES	(1U << 2)

/* incompat feature: slots are in areas of spares, or were */
#define FUSION_INCOMPAT_SPARES		(1U << 3)

/* incompat feature: stripes say what is out of date on a member that is out */
#define FUSION_INCOMPAT_STALE		(1U << 4)

/* incompat feature: there is a journal of the map, whose records are newer than the btrees */
#define FUSION_INCOMPAT_JOURNAL		(1U << 5)

/* incompat feature: the pool grows, or has grown: there are bands of another layout than the first */
#define FUSION_INCOMPAT_GROWTH		(1U << 6)

#define FUSION_INCOMPAT_KNOWN		(FUSION_INCOMPAT_PATCHES | \
					 FUSION_INCOMPAT_ROWS | \
					 FUSION_INCOMPAT_FAILURES | \
					 FUSION_INCOMPAT_SPARES | \
					 FUSION_INCOMPAT_STALE | \
					 FUSION_INCOMPAT_JOURNAL | \
					 FUSION_INCOMPAT_GROWTH)

/*
 * Members that are not OK have a number, as long as there are some.  That of an area of
 * spares, if the layout has so many, which serves the member.
 */
#define FUSION_MAX_AREAS	4

struct fusion_disk_class {
	u8 data;			/* 0: entry not in use */
	u8 parity;
	__le16 flags;
	__le32 reserved;
};

struct fusion_disk_member {
	u8 uuid[FUSION_UUID_BYTES];	/* zero: no label */
	__le32 state;			/* enum fusion_member_state */
	__le16 spare;			/* not OK: its number, from 1; 0: none */
	__le16 flags;			/* FUSION_MEMBER_REBUILT, _LOST */
	__le64 left;			/* states that it has recorded, as it was used last */
};

struct fusion_disk_super {
	__le32 csum;			/* dm_bm_checksum of all that follows */
	__le32 flags;			/* FUSION_SUPER_* */
	__le64 blocknr;			/* 0 */
	u8 pool_uuid[FUSION_UUID_BYTES];
	__le64 magic;
	__le32 version;
	__le32 compat;
	__le32 ro_compat;
	__le32 incompat;
	__le64 transaction_id;

	__le32 metadata_block_sectors;
	__le32 shards;			/* metadata instances; 1 */
	__le64 metadata_blocks;
	u8 space_map_root[FUSION_SPACE_MAP_ROOT_BYTES];

	__le64 volumes_root;
	__le64 bands_root;
	__le64 stripes_root;
	__le64 base_root;
	__le64 tops_root;
	__le64 patches_root;
	__le64 rows_root;
	__le64 reserved_roots[3];

	__le32 layout;			/* FUSION_LAYOUT_* */
	__le16 members;
	__le16 spares;
	__le32 block_sectors;
	__le32 band_units;
	__le32 bands;
	/*
	 * Activations are counted.  A top whose generation is below
	 * unsynced_generation may have replicas that differ: the pool has
	 * stopped uncleanly since they were last known to be equal.
	 */
	__le32 generation;
	__le32 unsynced_generation;
	__le32 reserved0;

	/* In stripes and slots (blocks), for status. */
	__le64 replica_stripes;
	__le64 raid_stripes;
	__le64 replica_live;		/* slots, mirrors counted */
	__le64 raid_live;		/* data slots with a live block */
	__le64 replica_slots;		/* all slots of replica_stripes */
	__le64 raid_slots;		/* all slots of raid_stripes */
	__le64 raid_parity_slots;
	__le64 patch_pages;		/* mirrors not counted */
	__le64 states_generation;	/* of the members' states: see their records */
	__le64 scrub_at;		/* stripe that an interrupted scrub goes on at; 0: none */
	/* the journal: where on each member, and what comes next that is not in the btrees */
	__le64 journal_offset;		/* sectors */
	__le32 journal_sectors;		/* 0: there is none */
	__le32 journal_at;		/* bytes into the ring */
	__le64 journal_sequence;
	/*
	 * The layout above is of this generation; the one before it is of the first old_members
	 * members, and has the same number of spares.
	 */
	__le16 layout_generation;
	__le16 old_members;		/* 0: no band is of that any more */
	__le32 old_band_units;
	__le32 old_bands;
	__le32 reserved1;

	struct fusion_disk_class classes[FUSION_MAX_CLASSES];
	struct fusion_disk_member member[FUSION_MAX_MEMBERS];
};

/* ---- journal ---- */

#define FUSION_JOURNAL_MAGIC	0x6c6e726a6e737566ULL	/* "fusnjrnl" */
#define FUSION_JOURNAL_UNIT	4096		/* records are multiples of it */
#define FUSION_JOURNAL_MAX	(128 * 1024)	/* bytes of a record */
#define FUSION_JOURNAL_MIN_RING	(1024 * 1024)
#define FUSION_JOURNAL_MAX_RING	(1024 * 1024 * 1024)

/*
 * The begin of a record: what one epoch changes of the map, or if @more some of that, and the
 * next record has more: they count all or none.  It is at the same offset of the ring on each
 * member that has it, and counts if it is the one that the superblock says comes next, or comes
 * after one that counts, in the same activation: behind that, or if there was no room at the
 * begin of the ring.  @crc is the CRC-32C of all its bytes with @crc itself as zero.
 */
struct fusion_disk_journal {
	__le64 magic;
	__le32 crc;
	__le32 bytes;			/* a multiple of FUSION_JOURNAL_UNIT */
	u8 pool_uuid[FUSION_UUID_BYTES];
	__le64 sequence;
	__le32 at;			/* in the ring, bytes */
	__le32 generation;		/* of the activation */
	__le32 entries;
	__le32 more;			/* 0 or 1 */
	__le64 transaction_id;		/* that had been committed: no older metadata goes with it */
};

enum fusion_journal_kind {
	FUSION_JOURNAL_BASE = 1,	/* the block has a base, or nothing */
	FUSION_JOURNAL_TOP = 2,		/* and a top */
	FUSION_JOURNAL_PATCHES = 3,	/* and patches */
	FUSION_JOURNAL_SEAL = 4,	/* a stripe is RAID */
};

/* One behind the other, each a multiple of 8 bytes; of those of a block the last counts. */
struct fusion_disk_journal_entry {
	u8 kind;
	u8 reserved;
	__le16 bytes;			/* with what follows */
	__le32 order;			/* of those of a block; it may wrap */
	__le64 key;			/* fusion_block_key(), or the stripe */
	__le64 value;			/* base, or the slots that parity covers */
	/* fusion_disk_top; or fusion_disk_patches, only so many as there are */
};

/* ---- btree values ---- */

#define FUSION_VOLUME_DELETING	(1U << 0)

struct fusion_disk_volume {
	__le64 blocks;			/* size */
	__le64 mapped;			/* blocks with a base or a top */
	__le64 tops;			/* blocks with one */
	__le16 class;			/* index into the class table */
	__le16 flags;
	__le32 reserved0;
	char name[FUSION_NAME_BYTES];
	__le64 delete_cursor;		/* reserved */
	__le64 patched;			/* blocks with patches */
	__le64 reserved;
};

struct fusion_disk_band {
	__le16 class;			/* index + 1; 0: free */
	__le16 layout_generation;	/* of the layout that it is of */
	__le32 used;			/* stripes that are not FREE */
};

enum fusion_stripe_state {
	FUSION_STRIPE_FREE = 0,		/* never stored */
	FUSION_STRIPE_PRIMARY = 1,	/* REPLICA: A, holds the tops' places */
	FUSION_STRIPE_MIRROR = 2,	/* REPLICA: B or C */
	FUSION_STRIPE_RAID = 3,		/* sealed, parity valid */
};

/*
 * Of a stripe that holds patches (PRIMARY or MIRROR) the live pages are counted: its
 * slots stay live until there are none.
 *
 * @spared is of the slots at home on members that are not OK, by these members' numbers: see
 * spare.h.  The lower half has a bit for each of them that is in the area of spares of that
 * number, the upper half one for each that has been written, or may have been, but not at home.
 */
struct fusion_disk_stripe {
	u8 state;
	u8 spared;			/* FUSION_SPARED(), FUSION_STALE() */
	__le16 patch_pages;
	__le32 generation;		/* activation it was opened in */
	__le64 written;			/* RAID: slots that parity covers */
	__le64 live;			/* slots the map refers to */
	__le64 partner[FUSION_MAX_PARITY]; /* PRIMARY: B, C; MIRROR: A; none: ~0 */
};

#define FUSION_NO_STRIPE	(~0ULL)

#define FUSION_SPARED(spared)	((spared) & ((1U << FUSION_MAX_AREAS) - 1))
#define FUSION_STALE(spared)	((spared) >> FUSION_MAX_AREAS)

struct fusion_disk_base {
	__le64 place[FUSION_GROUP_BLOCKS];
};

struct fusion_disk_top {
	__le64 place[FUSION_MAX_REPLICAS]; /* in A, B and C; unused: 0 */
	__le64 mask;			/* pages the top holds, bit 0 the first */
	__le32 generation;		/* see unsynced_generation */
	__le32 reserved;
};

struct fusion_disk_patch {
	__le64 at[FUSION_MAX_REPLICAS];	/* patch places in A, B and C; unused: 0 */
};

/* As long as the pool's blocks need: fusion_patches_bytes(). */
struct fusion_disk_patches {
	__le64 mask;			/* pages that are patched, bit 0 the first */
	__le32 generation;		/* see unsynced_generation */
	__le32 reserved;
	struct fusion_disk_patch patch[]; /* for each bit of @mask; unused: 0 */
};

/*
 * A row of a RAID stripe, page so and so of each of its slots, that is being written
 * in place: some data pages, and the parity.  What is to be there is in patches, for
 * as long as the record is.  It is a reference to each of them, besides what the
 * blocks' patches say.
 */
#define FUSION_ROW_PATCHES	16	/* data pages of a row at once */

/*
 * A record is in as many parts as it takes, with keys one behind the other: few rows
 * take more than one.  The first part says what changes.  A patch of parity may hold it
 * in some of its replicas only, see destage.h.
 */
#define FUSION_PART_PATCHES	4
#define FUSION_PART_BITS	3
#define FUSION_MAX_PARTS	5	/* for all patches there can be */

struct fusion_disk_row {
	__le64 changed;			/* data slots whose pages are written */
	u8 copies[FUSION_MAX_PARITY];	/* replicas that the parity is in, bit 0: in A */
	u8 reserved[6];
	/* of the parity, then for each of @changed; unused: 0 */
	struct fusion_disk_patch patch[FUSION_PART_PATCHES];
};

/* That of the first part. */
static inline u64 fusion_row_key(u64 stripe, u32 row)
{
	return (stripe << FUSION_PAGE_BITS | row) << FUSION_PART_BITS;
}

static inline u32 fusion_patches_bytes(u32 pages)
{
	return sizeof(struct fusion_disk_patches) +
		fusion_max_patches(pages) * sizeof(struct fusion_disk_patch);
}

#endif /* DM_FUSION_FORMAT_H */
