// SPDX-License-Identifier: GPL-2.0-only
/*
 * Codecs: map entries, member labels and records.
 */
#include "codec.h"

/* The sizes the format promises; tests/unit holds the offsets. */
static_assert(sizeof(struct fusion_disk_label) == FUSION_LABEL_BYTES, "label");
static_assert(sizeof(struct fusion_disk_record) == FUSION_LABEL_BYTES, "record");
static_assert(offsetof(struct fusion_disk_record, crc) ==
	      offsetof(struct fusion_disk_label, crc), "checksum");
static_assert(sizeof(struct fusion_disk_class) == 8, "class");
static_assert(sizeof(struct fusion_disk_member) == 32, "member");
static_assert(sizeof(struct fusion_disk_super) <= FUSION_META_BLOCK_BYTES,
	      "superblock");
static_assert(sizeof(struct fusion_disk_volume) == 120, "volume");
static_assert(sizeof(struct fusion_disk_band) == 8, "band");
static_assert(sizeof(struct fusion_disk_stripe) == 40, "stripe");
static_assert(sizeof(struct fusion_disk_base) == 512, "base");
static_assert(sizeof(struct fusion_disk_top) == 40, "top");

static_assert(FUSION_MAX_BAND_STRIPES == 1U << FUSION_STRIPE_INDEX_BITS,
	      "stripe index");
static_assert(FUSION_MAX_BANDS == 1U << FUSION_BAND_BITS, "band");
static_assert(FUSION_STRIPE_BITS ==
	      FUSION_STRIPE_INDEX_BITS + FUSION_BAND_BITS + 1, "generation");

/* ---- map entries ---- */

#define PLACE_BITS (FUSION_PLACE_VALID | \
		    ((1ULL << (FUSION_STRIPE_BITS + FUSION_SLOT_BITS)) - 1))

/* Could any pool have this place? */
static bool place_formed(u64 place)
{
	return (place & FUSION_PLACE_VALID) && !(place & ~PLACE_BITS);
}

void fusion_top_encode(const struct fusion_top *top,
		       struct fusion_disk_top *disk)
{
	unsigned int r;

	for (r = 0; r < FUSION_MAX_REPLICAS; r++)
		disk->place[r] = cpu_to_le64(top->place[r]);
	disk->mask = cpu_to_le64(top->mask);
	disk->generation = cpu_to_le32(top->generation);
	disk->reserved = 0;
}

int fusion_top_decode(const struct fusion_disk_top *disk, unsigned int pages,
		      struct fusion_top *top)
{
	unsigned int r;

	for (r = 0; r < FUSION_MAX_REPLICAS; r++)
		top->place[r] = le64_to_cpu(disk->place[r]);
	top->mask = le64_to_cpu(disk->mask);
	top->generation = le32_to_cpu(disk->generation);

	if (!top->mask || (top->mask & ~fusion_mask(0, pages)))
		return -EINVAL;
	if (!place_formed(top->place[0]) || !place_formed(top->place[1]) ||
	    top->place[0] == top->place[1])
		return -EINVAL;
	if (top->place[2] &&
	    (!place_formed(top->place[2]) || top->place[2] == top->place[0] ||
	     top->place[2] == top->place[1]))
		return -EINVAL;
	return 0;
}

bool fusion_place_valid(u64 place, u32 bands, u32 stripes, u32 slots)
{
	u64 stripe = fusion_place_stripe(place);

	return place_formed(place) && fusion_stripe_band(stripe) < bands &&
	       fusion_stripe_index(stripe) < stripes &&
	       fusion_place_slot(place) < slots;
}

/* ---- labels ---- */

/* Of a label or a record, whose checksums are at the same place. */
static u32 label_crc(const void *label)
{
	static const __le32 zero;
	const size_t after = offsetof(struct fusion_disk_label, version);
	u32 crc;

	crc = fusion_crc32c_append(0, label,
				   offsetof(struct fusion_disk_label, crc));
	crc = fusion_crc32c_append(crc, &zero, sizeof(zero));
	return fusion_crc32c_append(crc, (const u8 *)label + after,
				    FUSION_LABEL_BYTES - after);
}

void fusion_label_seal(struct fusion_disk_label *label)
{
	memcpy(label->magic, FUSION_LABEL_MAGIC, sizeof(label->magic));
	label->version = cpu_to_le32(FUSION_FORMAT_VERSION);
	label->crc = cpu_to_le32(label_crc(label));
}

/* Does the area lie within @low .. @high?  Without sums that could wrap. */
static bool area_within(u64 offset, u64 sectors, u64 low, u64 high)
{
	return offset >= low && offset <= high && sectors <= high - offset;
}

static bool geometry_ok(const struct fusion_disk_label *label)
{
	u16 members = le16_to_cpu(label->members);
	u16 spares = le16_to_cpu(label->spares);
	u16 index = le16_to_cpu(label->index);
	u32 block = le32_to_cpu(label->block_sectors);

	return le16_to_cpu(label->layout) == FUSION_LAYOUT_MOLS &&
	       fusion_layout_valid_order(members) &&
	       spares <= members - 1 - FUSION_MIN_WIDTH &&
	       (index < members || index == FUSION_NO_INDEX) &&
	       block >= FUSION_MIN_BLOCK_SECTORS &&
	       block <= FUSION_MAX_BLOCK_SECTORS && !(block & (block - 1));
}

static bool slices_ok(const struct fusion_disk_label *label)
{
	u16 slice = le16_to_cpu(label->slice);
	u16 slices = le16_to_cpu(label->slices);

	if (slices > FUSION_MAX_MEMBERS)
		return false;
	if (slice == FUSION_NO_INDEX)
		return true;
	return slice < slices && label->rmeta_sectors && label->slice_sectors;
}

/*
 * In this order, without overlap: label area, dm-raid's superblock, slice, journal,
 * bands.  A member may keep room for a slice that it does not have; only a hot
 * spare may be without bands.
 */
static bool areas_ok(const struct fusion_disk_label *label)
{
	u64 low = FUSION_LABEL_AREA >> 9;
	u64 data = le64_to_cpu(label->data_offset_sectors);
	u64 data_sectors = le64_to_cpu(label->data_sectors);
	u64 rmeta = le64_to_cpu(label->rmeta_offset_sectors);
	u64 rmeta_sectors = le64_to_cpu(label->rmeta_sectors);
	u64 slice = le64_to_cpu(label->slice_offset_sectors);
	u64 slice_sectors = le64_to_cpu(label->slice_sectors);
	u64 journal = le64_to_cpu(label->journal_offset_sectors);
	u64 journal_sectors = le64_to_cpu(label->journal_sectors);

	if (!area_within(data, data_sectors, low,
			 le64_to_cpu(label->member_sectors)) ||
	    data % FUSION_PAGE_SECTORS ||
	    data_sectors % le32_to_cpu(label->block_sectors))
		return false;
	if (!data_sectors && le16_to_cpu(label->index) != FUSION_NO_INDEX)
		return false;

	if (rmeta_sectors) {
		if (!area_within(rmeta, rmeta_sectors, low, data))
			return false;
		low = rmeta + rmeta_sectors;
	}
	if (slice_sectors) {
		if (!area_within(slice, slice_sectors, low, data))
			return false;
		low = slice + slice_sectors;
	}
	return !journal_sectors || (area_within(journal, journal_sectors, low, data) &&
				    fusion_journal_ring_ok(journal, journal_sectors));
}

enum fusion_label_error fusion_label_check(const struct fusion_disk_label *label)
{
	u32 version = le32_to_cpu(label->version);

	if (memcmp(label->magic, FUSION_LABEL_MAGIC, sizeof(label->magic)))
		return FUSION_LABEL_ABSENT;
	if (le32_to_cpu(label->crc) != label_crc(label))
		return FUSION_LABEL_CORRUPT;

	/* What follows is known only in this version, with these features. */
	if (version > FUSION_FORMAT_VERSION)
		return FUSION_LABEL_VERSION;
	if (version != FUSION_FORMAT_VERSION)
		return FUSION_LABEL_CORRUPT;
	if (le32_to_cpu(label->incompat) & ~FUSION_LABEL_INCOMPAT_KNOWN)
		return FUSION_LABEL_FEATURES;

	if (!memchr(label->pool_name, 0, sizeof(label->pool_name)) ||
	    !geometry_ok(label) || !slices_ok(label) || !areas_ok(label))
		return FUSION_LABEL_CORRUPT;
	return FUSION_LABEL_OK;
}

const char *fusion_label_strerror(enum fusion_label_error error)
{
	switch (error) {
	case FUSION_LABEL_OK:
		return "has a good dm-fusion label";
	case FUSION_LABEL_ABSENT:
		return "has no dm-fusion label";
	case FUSION_LABEL_CORRUPT:
		return "has a corrupt dm-fusion label";
	case FUSION_LABEL_VERSION:
		return "has a dm-fusion label of a newer version";
	case FUSION_LABEL_FEATURES:
		return "has a dm-fusion label with unknown features";
	}
	return "has a dm-fusion label that cannot be judged";
}

/* ---- records ---- */

void fusion_record_seal(struct fusion_disk_record *record)
{
	memcpy(record->magic, FUSION_RECORD_MAGIC, sizeof(record->magic));
	record->version = cpu_to_le32(FUSION_FORMAT_VERSION);
	record->crc = cpu_to_le32(label_crc(record));
}

struct fusion_states fusion_record_states(const struct fusion_disk_record *record,
					  const u8 *pool_uuid)
{
	struct fusion_states states = { 0 };
	unsigned int i;

	if (memcmp(record->magic, FUSION_RECORD_MAGIC, sizeof(record->magic)) ||
	    le32_to_cpu(record->crc) != label_crc(record) ||
	    memcmp(record->pool_uuid, pool_uuid, sizeof(record->pool_uuid)))
		return states;
	if (le32_to_cpu(record->version) != FUSION_FORMAT_VERSION) {
		states.generation = ~0ULL;
		return states;
	}
	states.generation = le64_to_cpu(record->generation);
	for (i = 0; i < FUSION_MAX_MEMBERS; i++)
		if (fusion_state_used(record->state[i]))
			states.used |= 1ULL << i;
	return states;
}

/* Do all that are there have what @s says, who it says are used, or something newer? */
static bool states_complete(const struct fusion_states *states, unsigned int n,
			    const struct fusion_states *s)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (states[i].generation && s->used >> i & 1 &&
		    states[i].generation <= s->generation &&
		    (states[i].generation != s->generation ||
		     states[i].used != s->used))
			return false;
	return true;
}

/* Of the same generation more than half of the members can be used by one only. */
static bool states_newer(const struct fusion_states *a,
			 const struct fusion_states *b, u64 there)
{
	return a->generation > b->generation ||
		(a->generation == b->generation &&
		 fusion_popcount64(a->used & there) >
		 fusion_popcount64(b->used & there));
}

struct fusion_states fusion_states_choose(const struct fusion_states *states,
					  unsigned int n)
{
	struct fusion_states chosen = { 0 }, newest = { 0 };
	unsigned int i;
	u64 there = 0;

	for (i = 0; i < n; i++)
		if (states[i].generation)
			there |= 1ULL << i;
	for (i = 0; i < n; i++) {
		if (states_newer(&states[i], &newest, there))
			newest = states[i];
		if (states_newer(&states[i], &chosen, there) &&
		    states_complete(states, n, &states[i]))
			chosen = states[i];
	}
	/* damaged, or made up: then nothing older may be used */
	return chosen.generation && newest.generation != ~0ULL ? chosen : newest;
}
