// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool's table line.  See pool-table.h.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "pool-table.h"

#define DM_MSG_PREFIX "fusion"

static int parse_member(struct dm_target *ti, struct dm_arg_set *as,
			struct fusion_pool_table *t, unsigned int i)
{
	const char *path = dm_shift_arg(as);
	const char *offset = dm_shift_arg(as);
	struct block_device *bdev;
	unsigned int j;
	int r;

	if (!path || !offset) {
		ti->error = "Fewer members than their number says";
		return -EINVAL;
	}
	if (!strcmp(path, "-")) {
		if (!strcmp(offset, "0"))
			return 0;
		ti->error = "Data offset of a missing member must be 0";
		return -EINVAL;
	}
	if (kstrtou64(offset, 10, &t->member[i].offset_sectors) ||
	    t->member[i].offset_sectors & (FUSION_PAGE_SECTORS - 1)) {
		ti->error = "Data offset must be a number of sectors, a multiple of 8";
		return -EINVAL;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table),
			  &t->member[i].dev);
	if (r) {
		ti->error = "Could not open a member device";
		return r;
	}
	bdev = t->member[i].dev->bdev;
	if (bdev_logical_block_size(bdev) > 1 << FUSION_PAGE_SHIFT) {
		ti->error = "A member's logical blocks are larger than 4 KiB";
		return -EINVAL;
	}
	if (bdev == t->metadata_dev->bdev) {
		ti->error = "Metadata device is a member, too";
		return -EINVAL;
	}
	for (j = 0; j < i; j++)
		if (t->member[j].dev && t->member[j].dev->bdev == bdev) {
			ti->error = "The same device is a member twice";
			return -EINVAL;
		}
	return 0;
}

/* journal <offset> <sectors>, of which *@count is what is left of the feature arguments. */
static int parse_journal(struct dm_target *ti, struct dm_arg_set *as, unsigned int *count,
			 struct fusion_pool_table *t)
{
	if (*count < 2 || kstrtou64(dm_shift_arg(as), 10, &t->journal_offset) ||
	    kstrtou32(dm_shift_arg(as), 10, &t->journal_sectors) ||
	    !fusion_journal_ring_ok(t->journal_offset, t->journal_sectors)) {
		ti->error = "journal must be followed by its offset and length in sectors, multiples of 8, from 1 MiB to 1 GiB long";
		return -EINVAL;
	}
	*count -= 2;
	return 0;
}

static int parse_features(struct dm_target *ti, struct dm_arg_set *as,
			  struct fusion_pool_table *t)
{
	static const struct dm_arg count_arg = {
		0, 6, "Invalid number of feature arguments"
	};
	unsigned int count;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(&count_arg, as, &count, &ti->error);
	while (!r && count--) {
		const char *arg = dm_shift_arg(as);

		if (!strcasecmp(arg, "error_if_no_space")) {
			t->error_if_no_space = true;
		} else if (!strcasecmp(arg, "unlabelled")) {
			t->unlabelled = true;
		} else if (!strcasecmp(arg, "no_discard_passdown")) {
			t->no_discard_passdown = true;
		} else if (!strcasecmp(arg, "journal")) {
			r = parse_journal(ti, as, &count, t);
		} else {
			ti->error = "Unknown feature argument";
			r = -EINVAL;
		}
	}
	if (!r && as->argc) {
		ti->error = "Too many arguments";
		r = -EINVAL;
	}
	return r;
}

static int parse_u32(struct dm_target *ti, struct dm_arg_set *as, u32 *value,
		     char *error)
{
	const char *arg = dm_shift_arg(as);

	if (!arg || kstrtou32(arg, 10, value)) {
		ti->error = error;
		return -EINVAL;
	}
	return 0;
}

int fusion_pool_table_parse(struct fusion_pool_table *t, struct dm_target *ti,
			    struct dm_arg_set *as)
{
	const char *layout;
	unsigned int i;
	int r;

	if (as->argc < 5) {
		ti->error = "Fewer arguments than <metadata dev> <block sectors> <layout> <spares> <n>";
		return -EINVAL;
	}
	if (ti->len < FUSION_PAGE_SECTORS) {
		ti->error = "Pool device must be at least 8 sectors long";
		return -EINVAL;
	}
	r = dm_get_device(ti, dm_shift_arg(as), dm_table_get_mode(ti->table),
			  &t->metadata_dev);
	if (r) {
		ti->error = "Could not open the metadata device";
		return r;
	}
	r = parse_u32(ti, as, &t->block_sectors,
		      "Block size must be a number of sectors");
	if (r)
		return r;
	if (t->block_sectors < FUSION_MIN_BLOCK_SECTORS ||
	    t->block_sectors > FUSION_MAX_BLOCK_SECTORS ||
	    !is_power_of_2(t->block_sectors)) {
		ti->error = "Block size must be a power of two from 8 to 512 sectors";
		return -EINVAL;
	}
	layout = dm_shift_arg(as);
	if (strcasecmp(layout, "mols")) {
		ti->error = "Layout must be mols";
		return -EINVAL;
	}
	r = parse_u32(ti, as, &t->spares, "Number of spares must be a number");
	if (!r)
		r = parse_u32(ti, as, &t->n,
			      "Number of members must be a number");
	if (r)
		return r;
	if (!fusion_layout_valid_order(t->n)) {
		ti->error = "Number of members must be a prime power from 4 to 64";
		return -EINVAL;
	}
	if (t->spares > t->n - 1 - FUSION_MIN_WIDTH) {
		ti->error = "Too many spares for the number of members";
		return -EINVAL;
	}
	for (i = 0; i < t->n; i++) {
		r = parse_member(ti, as, t, i);
		if (r)
			return r;
	}
	return parse_features(ti, as, t);
}

/* What is wrong with the label of member @i; NULL: nothing. */
static char *label_wrong(const struct fusion_disk_label *label,
			 const struct fusion_pool_table *t, unsigned int i,
			 const struct fusion_pool_config *config)
{
	if (memcmp(config->pool_uuid, label->pool_uuid,
		   sizeof(config->pool_uuid)))
		return "A member's label is of another pool";
	if (le16_to_cpu(label->index) != i)
		return "A member's label has another index";
	/* one from before the pool has grown has fewer members */
	if (le16_to_cpu(label->members) > t->n ||
	    le16_to_cpu(label->spares) != t->spares ||
	    le32_to_cpu(label->block_sectors) != t->block_sectors ||
	    le64_to_cpu(label->data_offset_sectors) != t->member[i].offset_sectors ||
	    le64_to_cpu(label->journal_offset_sectors) != t->journal_offset ||
	    le64_to_cpu(label->journal_sectors) != t->journal_sectors)
		return "A member's label has another geometry";
	if (le32_to_cpu(label->ro_compat) & ~FUSION_RO_COMPAT_KNOWN)
		return "A member's label has features this module cannot write";
	return NULL;
}

/* The label and the record of member @i, by @page.  The @first's pool is that of all. */
static int check_label(struct dm_target *ti, const struct fusion_pool_table *t,
		       unsigned int i, bool first, struct page *page,
		       struct fusion_pool_config *config,
		       struct fusion_states *states)
{
	const struct fusion_disk_label *label = page_address(page);
	struct block_device *bdev = t->member[i].dev->bdev;
	const char *why;
	char *wrong;
	bool whole;
	int r;

	r = fusion_member_read_label(fusion_member_read, bdev, page, &why);
	if (r) {
		DMERR("member %u, %pg: label %s", i, bdev, why);
		ti->error = "A member has no good label";
		return r;
	}
	if (first)
		memcpy(config->pool_uuid, label->pool_uuid,
		       sizeof(config->pool_uuid));
	memcpy(config->member_uuid[i], label->member_uuid,
	       sizeof(config->member_uuid[i]));
	wrong = label_wrong(label, t, i, config);
	if (wrong) {
		DMERR("member %u, %pg: %s", i, bdev, wrong);
		ti->error = wrong;
		return -EINVAL;
	}
	*states = fusion_member_read_record(fusion_member_read, bdev, page, config->pool_uuid,
					     &whole);
	config->states_seen = max(config->states_seen, states->generation);
	if (whole)
		config->recorded[i] = states->generation;
	return 0;
}

/* Of all members that are there: against the table line and each other. */
static int check_labels(struct dm_target *ti, const struct fusion_pool_table *t,
			struct fusion_pool_config *config)
{
	struct fusion_states *states, chosen = { 0 };
	bool first = true;
	struct page *page;
	unsigned int i;
	int r = 0;

	page = alloc_page(GFP_KERNEL);
	states = kcalloc(t->n, sizeof(*states), GFP_KERNEL);
	if (!page || !states) {
		ti->error = "Out of memory";
		r = -ENOMEM;
	}
	for (i = 0; i < t->n && !r; i++) {
		if (!t->member[i].dev)
			continue;
		r = check_label(ti, t, i, first, page, config, &states[i]);
		first = false;
	}
	if (!r)
		chosen = fusion_states_choose(states, t->n);
	config->states_generation = chosen.generation;
	for (i = 0; i < t->n && !r; i++)
		/* the other one of two halves */
		if (states[i].generation == chosen.generation &&
		    states[i].used != chosen.used)
			config->recorded[i] = 0;
	kfree(states);
	if (page)
		__free_page(page);
	return r;
}

int fusion_pool_table_config(struct fusion_pool_table *t, struct dm_target *ti,
			     struct fusion_pool_config *config)
{
	unsigned int i;

	config->metadata_bdev = t->metadata_dev->bdev;
	config->block_sectors = t->block_sectors;
	config->members = t->n;
	config->spares = t->spares;
	config->labelled = !t->unlabelled;
	config->journal_offset = t->journal_offset;
	config->journal_sectors = t->journal_sectors;
	config->member_chunks = U64_MAX;
	for (i = 0; i < t->n; i++) {
		u64 offset = t->member[i].offset_sectors, sectors;

		if (!t->member[i].dev) {
			config->missing |= 1ULL << i;
			continue;
		}
		config->member_bdev[i] = t->member[i].dev->bdev;
		sectors = bdev_nr_sectors(t->member[i].dev->bdev);
		if (sectors <= offset) {
			ti->error = "A member ends before its data offset";
			return -EINVAL;
		}
		if (t->journal_offset > offset ||
		    t->journal_sectors > offset - t->journal_offset) {
			ti->error = "Journal must end before the members' data offsets";
			return -EINVAL;
		}
		config->member_chunks = min(config->member_chunks,
					    (sectors - offset) /
					    t->block_sectors);
	}
	return t->unlabelled ? 0 : check_labels(ti, t, config);
}

void fusion_pool_table_put(struct fusion_pool_table *t, struct dm_target *ti)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_MEMBERS; i++)
		if (t->member[i].dev)
			dm_put_device(ti, t->member[i].dev);
	if (t->metadata_dev)
		dm_put_device(ti, t->metadata_dev);
}

void fusion_pool_table_emit(const struct fusion_pool_table *t, char *result,
			    unsigned int maxlen)
{
	unsigned int i, sz = 0;

	DMEMIT("%s %u mols %u %u", t->metadata_dev->name, t->block_sectors,
	       t->spares, t->n);
	for (i = 0; i < t->n; i++)
		DMEMIT(" %s %llu", fusion_pool_table_name(t, i),
		       t->member[i].offset_sectors);
	i = t->error_if_no_space + t->unlabelled + t->no_discard_passdown +
		(t->journal_sectors ? 3 : 0);
	if (!i)
		return;
	DMEMIT(" %u%s%s%s", i,
	       t->error_if_no_space ? " error_if_no_space" : "",
	       t->unlabelled ? " unlabelled" : "",
	       t->no_discard_passdown ? " no_discard_passdown" : "");
	if (t->journal_sectors)
		DMEMIT(" journal %llu %u", t->journal_offset, t->journal_sectors);
}
