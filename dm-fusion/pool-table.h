/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pool's table line:
 *
 *	<start> <len> fusion-pool <metadata dev> <block sectors> <layout>
 *		<spares> <n> { <member dev> <data offset> } x n
 *		[<#feature args> [<feature arg>]*]
 *
 * Feature arguments: error_if_no_space, unlabelled, no_discard_passdown, and
 * journal <offset> <sectors>, of the map's journal (journal.h) on each member.
 *
 * A missing member is "- 0".
 *
 * Errors set ti->error to a sentence.
 */
#ifndef DM_FUSION_POOL_TABLE_H
#define DM_FUSION_POOL_TABLE_H

#include "pools.h"

/* One line, parsed; the devices are open. */
struct fusion_pool_table {
	struct dm_dev *metadata_dev;
	u32 block_sectors;
	unsigned int spares;
	unsigned int n;
	bool error_if_no_space;
	bool unlabelled;
	bool no_discard_passdown;
	u64 journal_offset;		/* sectors; from each member's begin */
	u32 journal_sectors;		/* 0: there is none */
	struct {
		struct dm_dev *dev;	/* NULL: it is missing */
		u64 offset_sectors;
	} member[FUSION_MAX_MEMBERS];
};

/*
 * Parse, and open the devices.  Also on error @t, zeroed before, is to be
 * given to fusion_pool_table_put().
 */
int fusion_pool_table_parse(struct fusion_pool_table *t, struct dm_target *ti,
			    struct dm_arg_set *as);
void fusion_pool_table_put(struct fusion_pool_table *t, struct dm_target *ti);

/* Device of member @i, for dmsetup. */
static inline const char *fusion_pool_table_name(const struct fusion_pool_table *t,
						 unsigned int i)
{
	return t->member[i].dev ? t->member[i].dev->name : "-";
}

/*
 * What the line, the sizes of the members and their labels say of the pool.
 * Labels must agree with the line and with each other.
 */
int fusion_pool_table_config(struct fusion_pool_table *t, struct dm_target *ti,
			     struct fusion_pool_config *config);

/* Print the line, from <metadata dev> on. */
void fusion_pool_table_emit(const struct fusion_pool_table *t, char *result,
			    unsigned int maxlen);

#endif /* DM_FUSION_POOL_TABLE_H */
