/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ledger: what a commit does to the stripes' records.
 *
 * A stripe is stored on disk exactly while a slot of it is live, that is,
 * referred to by a stored map entry.  A slot becomes live once and dies once
 * in the life of a stripe (a top that becomes a base in its place stays live),
 * and so does a page of a patch, so a commit first takes all that became live and
 * then all that died, each in any order.  Records in work are kept in a small table and written
 * back when another stripe needs the place and at the end.  Everything runs
 * under the commit mutex and may sleep; errors are the metadata's.
 */
#ifndef DM_FUSION_LEDGER_H
#define DM_FUSION_LEDGER_H

#include "space.h"

#define FUSION_LEDGER_ENTRIES	1024

struct fusion_ledger_entry {
	u64 stripe;			/* FUSION_NO_STRIPE: not in use */
	bool dirty;
	bool stored;
	struct fusion_disk_stripe disk;
};

struct fusion_ledger {
	struct fusion_space *space;
	struct fusion_ledger_entry *entry;
};

int fusion_ledger_init(struct fusion_ledger *ledger, struct fusion_space *s);
void fusion_ledger_exit(struct fusion_ledger *ledger);

/* Slot of a RAID stripe written directly became live. */
int fusion_ledger_base_live(struct fusion_ledger *ledger, u64 place);
/* All replicas of @top became live. */
int fusion_ledger_top_live(struct fusion_ledger *ledger,
			   const struct fusion_top *top);
/* The slot at @place is dead. */
int fusion_ledger_dead(struct fusion_ledger *ledger, u64 place);
/*
 * The same for a page in all replicas of a slot: @patch.  The stripes that hold it
 * count their live pages, and their slots stay live until there are none.
 * -EINVAL: the metadata counts less than there are.
 */
int fusion_ledger_patch_live(struct fusion_ledger *ledger,
			     const struct fusion_patch *patch);
int fusion_ledger_patch_dead(struct fusion_ledger *ledger,
			     const struct fusion_patch *patch);
/*
 * Stripe @a, a primary, is RAID now: its parity covers the slots in @written.
 * After the slots that died and became live.  Nothing if none of it is live;
 * -EIO if something is that is not in @written.
 */
int fusion_ledger_seal(struct fusion_ledger *ledger, u64 a, u64 written);
/*
 * Rows of @stripe are written: where that does not reach a member it is stale.  Nothing if
 * none of it is live.
 */
int fusion_ledger_row(struct fusion_ledger *ledger, u64 stripe);
/*
 * Slots are where @spared says, on disk and in core.  Before what became live in the same epoch.
 * Nothing if none of the stripe is live; and but for what does not count nothing if the members'
 * states have changed since it was written: if one of them was out meanwhile it may have lost
 * that, or never got it.
 */
int fusion_ledger_spare(struct fusion_ledger *ledger, const struct fusion_spared *spared);
/* Is anything of @stripe live? */
int fusion_ledger_is_stored(struct fusion_ledger *ledger, u64 stripe,
			    bool *stored);

/* Write back all records and the bands' counts. */
int fusion_ledger_finish(struct fusion_ledger *ledger);

#endif /* DM_FUSION_LEDGER_H */
