// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records of the map's journal.  See journal-record.h.
 */
#include "journal-record.h"

static_assert(sizeof(struct fusion_disk_journal) == 64, "journal");
static_assert(sizeof(struct fusion_disk_journal_entry) == 24, "journal entry");

/* ---- writing ---- */

void fusion_journal_begin(struct fusion_journal_writer *w, void *data)
{
	w->data = data;
	w->bytes = sizeof(struct fusion_disk_journal);
	w->entries = 0;
}

/* An entry with room for @more bytes behind it, or NULL. */
static struct fusion_disk_journal_entry *
journal_add(struct fusion_journal_writer *w, enum fusion_journal_kind kind, u64 key, u64 value,
	    u32 more)
{
	struct fusion_disk_journal_entry *entry = (void *)(w->data + w->bytes);
	u32 bytes = sizeof(*entry) + more;

	if (bytes > FUSION_JOURNAL_MAX - w->bytes)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	entry->kind = kind;
	entry->bytes = cpu_to_le16(bytes);
	entry->key = cpu_to_le64(key);
	entry->value = cpu_to_le64(value);
	w->bytes += bytes;
	w->entries++;
	return entry;
}

static u32 journal_patches_bytes(u64 mask)
{
	return sizeof(struct fusion_disk_patches) +
		fusion_popcount64(mask) * sizeof(struct fusion_disk_patch);
}

bool fusion_journal_add_block(struct fusion_journal_writer *w, u64 key, u32 order, u64 base,
			      const struct fusion_top *top,
			      const struct fusion_patches *patches)
{
	enum fusion_journal_kind kind = top ? FUSION_JOURNAL_TOP : patches ?
		FUSION_JOURNAL_PATCHES : FUSION_JOURNAL_BASE;
	struct fusion_disk_journal_entry *entry;
	struct fusion_disk_patches *disk;
	unsigned int i;

	entry = journal_add(w, kind, key, base, top ? sizeof(struct fusion_disk_top) :
			    patches ? journal_patches_bytes(patches->mask) : 0);
	if (!entry)
		return false;
	entry->order = cpu_to_le32(order);
	if (top) {
		fusion_top_encode(top, (void *)(entry + 1));
	} else if (patches) {
		disk = (void *)(entry + 1);
		disk->mask = cpu_to_le64(patches->mask);
		disk->generation = cpu_to_le32(patches->generation);
		disk->reserved = 0;
		for (i = 0; i < fusion_popcount64(patches->mask); i++)
			fusion_patch_encode(&patches->patch[i], &disk->patch[i]);
	}
	return true;
}

bool fusion_journal_add_seal(struct fusion_journal_writer *w, u64 stripe, u64 written)
{
	return journal_add(w, FUSION_JOURNAL_SEAL, stripe, written, 0);
}

u32 fusion_journal_length(const struct fusion_journal_writer *w)
{
	return (w->bytes + FUSION_JOURNAL_UNIT - 1) / FUSION_JOURNAL_UNIT * FUSION_JOURNAL_UNIT;
}

static u32 journal_crc(const void *data, u32 bytes)
{
	static const __le32 zero;
	const size_t at = offsetof(struct fusion_disk_journal, crc), after = at + sizeof(zero);
	u32 crc;

	crc = fusion_crc32c_append(0, data, at);
	crc = fusion_crc32c_append(crc, &zero, sizeof(zero));
	return fusion_crc32c_append(crc, (const u8 *)data + after, bytes - after);
}

void fusion_journal_end(struct fusion_journal_writer *w, const struct fusion_journal_id *id,
			u64 transaction_id, bool more)
{
	struct fusion_disk_journal *disk = (void *)w->data;
	u32 bytes = fusion_journal_length(w);

	memset(w->data + w->bytes, 0, bytes - w->bytes);
	memset(disk, 0, sizeof(*disk));
	disk->magic = cpu_to_le64(FUSION_JOURNAL_MAGIC);
	disk->bytes = cpu_to_le32(bytes);
	memcpy(disk->pool_uuid, id->pool_uuid, sizeof(disk->pool_uuid));
	disk->sequence = cpu_to_le64(id->sequence);
	disk->at = cpu_to_le32(id->at);
	disk->generation = cpu_to_le32(id->generation);
	disk->entries = cpu_to_le32(w->entries);
	disk->more = cpu_to_le32(more);
	disk->transaction_id = cpu_to_le64(transaction_id);
	disk->crc = cpu_to_le32(journal_crc(disk, bytes));
}

/* ---- reading ---- */

u32 fusion_journal_bytes(const void *data, const struct fusion_journal_id *id)
{
	const struct fusion_disk_journal *disk = data;
	u32 bytes = le32_to_cpu(disk->bytes);

	if (le64_to_cpu(disk->magic) != FUSION_JOURNAL_MAGIC ||
	    memcmp(disk->pool_uuid, id->pool_uuid, sizeof(disk->pool_uuid)) ||
	    le64_to_cpu(disk->sequence) != id->sequence ||
	    le32_to_cpu(disk->at) != id->at ||
	    le32_to_cpu(disk->generation) != id->generation)
		return 0;
	if (!bytes || bytes % FUSION_JOURNAL_UNIT || bytes > FUSION_JOURNAL_MAX)
		return 0;
	return bytes;
}

bool fusion_journal_whole(const void *data, u32 bytes)
{
	const struct fusion_disk_journal *disk = data;

	return le32_to_cpu(disk->crc) == journal_crc(disk, bytes);
}

u64 fusion_journal_transaction_id(const void *data)
{
	const struct fusion_disk_journal *disk = data;

	return le64_to_cpu(disk->transaction_id);
}

void fusion_journal_read(struct fusion_journal_reader *r, const void *data, u32 bytes,
			 unsigned int pages)
{
	const struct fusion_disk_journal *disk = data;

	r->data = data;
	r->bytes = bytes;
	r->at = sizeof(*disk);
	r->left = le32_to_cpu(disk->entries);
	r->pages = pages;
	r->more = le32_to_cpu(disk->more);
}

/* A block's entry, with @more bytes behind @disk. */
static int journal_decode_block(const struct fusion_journal_reader *r,
				const struct fusion_disk_journal_entry *disk, u32 more,
				struct fusion_journal_entry *entry)
{
	const struct fusion_disk_patches *patches = (const void *)(disk + 1);
	union fusion_disk_patches_room room;

	switch (disk->kind) {
	case FUSION_JOURNAL_TOP:
		if (more != sizeof(struct fusion_disk_top))
			return -EINVAL;
		return fusion_top_decode((const void *)(disk + 1), r->pages, &entry->top);
	case FUSION_JOURNAL_PATCHES:
		if (more < sizeof(*patches) || more > sizeof(room) ||
		    more != journal_patches_bytes(le64_to_cpu(patches->mask)))
			return -EINVAL;
		memset(&room, 0, sizeof(room));
		memcpy(&room, patches, more);
		return fusion_patches_decode(&room.patches, r->pages, &entry->patches.patches);
	default:
		return more ? -EINVAL : 0;
	}
}

int fusion_journal_next(struct fusion_journal_reader *r, struct fusion_journal_entry *entry)
{
	const struct fusion_disk_journal_entry *disk = (const void *)(r->data + r->at);
	u32 bytes;

	if (!r->left)
		return -ENODATA;
	if (r->bytes - r->at < sizeof(*disk))
		return -EINVAL;
	bytes = le16_to_cpu(disk->bytes);
	if (bytes < sizeof(*disk) || bytes > r->bytes - r->at || bytes % sizeof(u64) ||
	    disk->kind < FUSION_JOURNAL_BASE || disk->kind > FUSION_JOURNAL_SEAL)
		return -EINVAL;
	r->at += bytes;
	r->left--;
	entry->kind = disk->kind;
	entry->order = le32_to_cpu(disk->order);
	entry->key = le64_to_cpu(disk->key);
	entry->value = le64_to_cpu(disk->value);
	return journal_decode_block(r, disk, bytes - sizeof(*disk), entry);
}
