// SPDX-License-Identifier: GPL-2.0-only
/*
 * The superblock.  See super.h.
 */
#include <linux/string.h>

#include "super.h"

void fusion_super_encode(const struct fusion_md_super *s, const u64 *root,
			 struct fusion_disk_super *disk)
{
	unsigned int i;

	disk->flags = cpu_to_le32(s->flags);
	disk->compat = cpu_to_le32(s->compat);
	disk->incompat = cpu_to_le32(s->incompat);
	disk->volumes_root = cpu_to_le64(root[FUSION_TREE_VOLUMES]);
	disk->bands_root = cpu_to_le64(root[FUSION_TREE_BANDS]);
	disk->stripes_root = cpu_to_le64(root[FUSION_TREE_STRIPES]);
	disk->base_root = cpu_to_le64(root[FUSION_TREE_BASE]);
	disk->tops_root = cpu_to_le64(root[FUSION_TREE_TOPS]);
	disk->patches_root = cpu_to_le64(root[FUSION_TREE_PATCHES]);
	disk->rows_root = cpu_to_le64(root[FUSION_TREE_ROWS]);
	disk->band_units = cpu_to_le32(s->band_units);
	disk->bands = cpu_to_le32(s->bands);
	disk->generation = cpu_to_le32(s->generation);
	disk->unsynced_generation = cpu_to_le32(s->unsynced_generation);
	disk->replica_stripes = cpu_to_le64(s->replica_stripes);
	disk->raid_stripes = cpu_to_le64(s->raid_stripes);
	disk->replica_live = cpu_to_le64(s->replica_live);
	disk->raid_live = cpu_to_le64(s->raid_live);
	disk->replica_slots = cpu_to_le64(s->replica_slots);
	disk->raid_slots = cpu_to_le64(s->raid_slots);
	disk->raid_parity_slots = cpu_to_le64(s->raid_parity_slots);
	disk->patch_pages = cpu_to_le64(s->patch_pages);
	disk->states_generation = cpu_to_le64(s->states_generation);
	disk->scrub_at = cpu_to_le64(s->scrub_at);
	disk->journal_offset = cpu_to_le64(s->journal_offset);
	disk->journal_sectors = cpu_to_le32(s->journal_sectors);
	disk->journal_at = cpu_to_le32(s->journal_at);
	disk->journal_sequence = cpu_to_le64(s->journal_sequence);
	disk->layout_generation = cpu_to_le16(s->layout_generation);
	disk->old_members = cpu_to_le16(s->old_members);
	disk->old_band_units = cpu_to_le32(s->old_band_units);
	disk->old_bands = cpu_to_le32(s->old_bands);
	memcpy(disk->classes, s->class, sizeof(disk->classes));
	for (i = 0; i < FUSION_MAX_MEMBERS; i++) {
		disk->member[i].state = cpu_to_le32(s->member[i]);
		disk->member[i].spare = cpu_to_le16(s->spare[i]);
		disk->member[i].left = cpu_to_le64(s->left[i]);
		disk->member[i].flags =
			cpu_to_le16((s->rebuilt >> i & 1) * FUSION_MEMBER_REBUILT |
				    (s->lost >> i & 1) * FUSION_MEMBER_LOST);
	}
}

void fusion_super_decode(const struct fusion_disk_super *disk,
			 struct fusion_md_super *s, u64 *root)
{
	unsigned int i;

	s->flags = le32_to_cpu(disk->flags);
	s->compat = le32_to_cpu(disk->compat);
	s->incompat = le32_to_cpu(disk->incompat);
	root[FUSION_TREE_VOLUMES] = le64_to_cpu(disk->volumes_root);
	root[FUSION_TREE_BANDS] = le64_to_cpu(disk->bands_root);
	root[FUSION_TREE_STRIPES] = le64_to_cpu(disk->stripes_root);
	root[FUSION_TREE_BASE] = le64_to_cpu(disk->base_root);
	root[FUSION_TREE_TOPS] = le64_to_cpu(disk->tops_root);
	root[FUSION_TREE_PATCHES] = le64_to_cpu(disk->patches_root);
	root[FUSION_TREE_ROWS] = le64_to_cpu(disk->rows_root);
	s->band_units = le32_to_cpu(disk->band_units);
	s->bands = le32_to_cpu(disk->bands);
	s->generation = le32_to_cpu(disk->generation);
	s->unsynced_generation = le32_to_cpu(disk->unsynced_generation);
	s->replica_stripes = le64_to_cpu(disk->replica_stripes);
	s->raid_stripes = le64_to_cpu(disk->raid_stripes);
	s->replica_live = le64_to_cpu(disk->replica_live);
	s->raid_live = le64_to_cpu(disk->raid_live);
	s->replica_slots = le64_to_cpu(disk->replica_slots);
	s->raid_slots = le64_to_cpu(disk->raid_slots);
	s->raid_parity_slots = le64_to_cpu(disk->raid_parity_slots);
	s->patch_pages = le64_to_cpu(disk->patch_pages);
	s->states_generation = le64_to_cpu(disk->states_generation);
	s->scrub_at = le64_to_cpu(disk->scrub_at);
	s->journal_offset = le64_to_cpu(disk->journal_offset);
	s->journal_sectors = le32_to_cpu(disk->journal_sectors);
	s->journal_at = le32_to_cpu(disk->journal_at);
	s->journal_sequence = le64_to_cpu(disk->journal_sequence);
	s->layout_generation = le16_to_cpu(disk->layout_generation);
	s->old_members = le16_to_cpu(disk->old_members);
	s->old_band_units = le32_to_cpu(disk->old_band_units);
	s->old_bands = le32_to_cpu(disk->old_bands);
	memcpy(s->class, disk->classes, sizeof(s->class));
	s->rebuilt = 0;
	s->lost = 0;
	for (i = 0; i < FUSION_MAX_MEMBERS; i++) {
		s->member[i] = le32_to_cpu(disk->member[i].state);
		s->spare[i] = le16_to_cpu(disk->member[i].spare);
		s->left[i] = le64_to_cpu(disk->member[i].left);
		if (le16_to_cpu(disk->member[i].flags) & FUSION_MEMBER_REBUILT)
			s->rebuilt |= 1ULL << i;
		if (le16_to_cpu(disk->member[i].flags) & FUSION_MEMBER_LOST)
			s->lost |= 1ULL << i;
	}
}

/*
 * States that this module knows, no two with the same number, and no more failed than a
 * class can do without: see fusion_failures_count().
 */
static bool super_members_ok(const struct fusion_disk_super *disk)
{
	unsigned int i, failed = 0, rebuilt = 0, parity = FUSION_MAX_PARITY;
	u32 state, spare, flags, numbers = 0;

	for (i = 0; i < le16_to_cpu(disk->members); i++) {
		state = le32_to_cpu(disk->member[i].state);
		spare = le16_to_cpu(disk->member[i].spare);
		flags = le16_to_cpu(disk->member[i].flags);
		if (state > FUSION_MEMBER_RETURNING || spare > FUSION_MAX_AREAS ||
		    flags & ~(FUSION_MEMBER_REBUILT | FUSION_MEMBER_LOST))
			return false;
		if (state == FUSION_MEMBER_OK && (spare || flags))
			return false;
		if (state == FUSION_MEMBER_RETURNING && !spare)
			return false;
		if (flags & FUSION_MEMBER_REBUILT) {
			if (!spare || spare > le16_to_cpu(disk->spares))
				return false;
			rebuilt++;
		} else {
			failed += state != FUSION_MEMBER_OK;
		}
		if (spare && numbers >> spare & 1)
			return false;
		numbers |= !!spare << spare;
	}
	for (i = 0; i < FUSION_MAX_CLASSES; i++)
		if (disk->classes[i].data && disk->classes[i].parity < parity)
			parity = disk->classes[i].parity;
	return failed + rebuilt / 2 <= parity;
}

bool fusion_super_has_members(const struct fusion_disk_super *disk,
			      const u8 uuid[][FUSION_UUID_BYTES])
{
	unsigned int i;

	for (i = 0; i < le16_to_cpu(disk->members); i++)
		/* nothing is read from one that is out: another may take its place */
		if (fusion_state_used(le32_to_cpu(disk->member[i].state)) &&
		    memchr_inv(uuid[i], 0, FUSION_UUID_BYTES) &&
		    memcmp(disk->member[i].uuid, uuid[i], FUSION_UUID_BYTES))
			return false;
	return true;
}

/* What is wrong with the journal: NULL, or a sentence. */
static char *super_verify_journal(const struct fusion_disk_super *disk,
				  const struct fusion_md_config *config)
{
	u32 sectors = le32_to_cpu(disk->journal_sectors), at = le32_to_cpu(disk->journal_at);

	if (!!(le32_to_cpu(disk->incompat) & FUSION_INCOMPAT_JOURNAL) != !!sectors)
		return "Metadata has a damaged journal";
	if (!sectors)
		return NULL;
	if (!config->journal_sectors)
		return "Pool has a journal, and the line does not say where";
	if (sectors != config->journal_sectors ||
	    le64_to_cpu(disk->journal_offset) != config->journal_offset)
		return "Journal is elsewhere than the metadata says";
	if (at % FUSION_JOURNAL_UNIT || at > (u64)sectors << 9)
		return "Metadata has a damaged journal";
	return NULL;
}

/* Could @bands of @units be those of a pool with this layout? */
static bool super_bands_ok(const struct fusion_layout *l, u32 units, u64 bands)
{
	return bands && bands <= FUSION_MAX_BANDS && units >= fusion_layout_max_width(l) &&
		(u64)(units / FUSION_MIN_WIDTH) * fusion_template_stripes(l) <=
		FUSION_MAX_BAND_STRIPES;
}

/* What is wrong with the layout that the pool grows from, if it does: NULL, or a sentence. */
static char *super_verify_growth(const struct fusion_disk_super *disk,
				 const struct fusion_md_config *config)
{
	u32 n = le16_to_cpu(disk->old_members), units = le32_to_cpu(disk->old_band_units);
	u64 bands = le32_to_cpu(disk->old_bands), chunks;
	const struct fusion_layout *l = config->layout;

	if (!(le32_to_cpu(disk->incompat) & FUSION_INCOMPAT_GROWTH))
		return n || disk->layout_generation ? "Metadata has a damaged layout" : NULL;
	if (!n)
		return NULL;
	if (n >= l->n || fusion_layout_init(config->old_layout, n, l->spares) ||
	    !super_bands_ok(config->old_layout, units, bands))
		return "Metadata has a damaged layout";
	chunks = bands * fusion_band_chunks(config->old_layout, units);
	if (chunks > config->member_chunks)
		return "A member is smaller than the metadata needs";
	return le32_to_cpu(disk->bands) *
		(u64)fusion_band_chunks(l, le32_to_cpu(disk->band_units)) > chunks ?
		"Metadata has a damaged layout" : NULL;
}

char *fusion_super_verify(const struct fusion_disk_super *disk,
			  const struct fusion_md_config *config)
{
	const struct fusion_layout *l = config->layout;
	u32 units = le32_to_cpu(disk->band_units);
	u64 bands = le32_to_cpu(disk->bands);
	unsigned int i;
	char *wrong;

	if (le32_to_cpu(disk->version) != FUSION_FORMAT_VERSION)
		return "Metadata is of a format this module does not know";
	if (le32_to_cpu(disk->incompat) & ~FUSION_INCOMPAT_KNOWN)
		return "Metadata has features this module does not know";
	if (le32_to_cpu(disk->ro_compat) & ~FUSION_RO_COMPAT_KNOWN)
		return "Metadata has features this module cannot write";
	if (le32_to_cpu(disk->shards) != 1 ||
	    le32_to_cpu(disk->metadata_block_sectors) !=
	    FUSION_META_BLOCK_BYTES / 512)
		return "Metadata has an unknown geometry";
	if (le32_to_cpu(disk->layout) != FUSION_LAYOUT_MOLS)
		return "Metadata has an unknown layout";
	if (le16_to_cpu(disk->members) != l->n)
		return "Number of members differs from the metadata's";
	if (le16_to_cpu(disk->spares) != l->spares)
		return "Number of spares differs from the metadata's";
	if (le32_to_cpu(disk->block_sectors) != config->block_sectors)
		return "Block size differs from the metadata's";
	if (!!(le32_to_cpu(disk->compat) & FUSION_COMPAT_LABELLED) !=
	    config->labelled)
		return config->labelled ?
			"Pool was formatted without labels: use feature unlabelled" :
			"Pool has labels: feature unlabelled is not allowed";
	if (config->labelled &&
	    memcmp(disk->pool_uuid, config->pool_uuid, FUSION_UUID_BYTES))
		return "Metadata belongs to another pool than the members";
	if (config->labelled &&
	    !fusion_super_has_members(disk, config->member_uuid))
		return "A member is not the one the metadata knows";
	if (le64_to_cpu(disk->states_generation) < config->states_generation)
		return "Metadata is older than what the members have recorded";
	if (!super_bands_ok(l, units, bands))
		return "Metadata has a damaged band geometry";
	if (bands * fusion_band_chunks(l, units) > config->member_chunks)
		return "A member is smaller than the metadata needs";
	wrong = super_verify_growth(disk, config);
	if (wrong)
		return wrong;
	for (i = 0; i < FUSION_MAX_CLASSES; i++) {
		unsigned int d = disk->classes[i].data;
		unsigned int p = disk->classes[i].parity;

		if (d && (!p || p > FUSION_MAX_PARITY ||
			  d < FUSION_MIN_DATA ||
			  d + p > fusion_layout_max_width(l)))
			return "Metadata has a damaged class table";
	}
	if (!super_members_ok(disk))
		return "Metadata has a damaged member table";
	return super_verify_journal(disk, config);
}
