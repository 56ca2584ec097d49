// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ledger.  See ledger.h.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "ledger.h"
#include "region.h"
#include "set-table.h"
#include "spare.h"

int fusion_ledger_init(struct fusion_ledger *ledger, struct fusion_space *s)
{
	unsigned int i;

	ledger->space = s;
	ledger->entry = kvcalloc(FUSION_LEDGER_ENTRIES, sizeof(*ledger->entry),
				 GFP_KERNEL);
	if (!ledger->entry)
		return -ENOMEM;
	for (i = 0; i < FUSION_LEDGER_ENTRIES; i++)
		ledger->entry[i].stripe = FUSION_NO_STRIPE;
	return 0;
}

void fusion_ledger_exit(struct fusion_ledger *ledger)
{
	kvfree(ledger->entry);
}

static struct fusion_band *ledger_band(struct fusion_ledger *ledger, u64 stripe)
{
	return fusion_space_band(ledger->space, stripe);
}

/* Add (@sign 1) a record to the superblock's sums or take it out (-1). */
static void ledger_count(struct fusion_ledger *ledger, u64 stripe,
			 const struct fusion_disk_stripe *disk, int sign)
{
	struct fusion_md_super *super = fusion_md_super(ledger->space->md);
	struct fusion_class *class = ledger_band(ledger, stripe)->class;
	s64 live = sign * (s64)hweight64(le64_to_cpu(disk->live));
	s64 slots = sign * (s64)class->k, parity = sign * (s64)class->p;

	if (disk->state == FUSION_STRIPE_RAID) {
		super->raid_stripes += sign;
		super->raid_slots += slots;
		super->raid_parity_slots += parity;
		super->raid_live += live;
	} else {
		super->replica_stripes += sign;
		super->replica_slots += slots;
		super->replica_live += live;
	}
}

/*
 * A stripe of a band comes to be stored, or goes.  With the last of one that is not loaded all
 * of the band becomes free: none must be left.
 */
static int ledger_count_band(struct fusion_ledger *ledger, u64 stripe, int more)
{
	struct fusion_band *b = ledger_band(ledger, stripe);
	u32 number = fusion_stripe_band(stripe), max = b->stripes;
	struct fusion_disk_stripe disk;
	u64 next = fusion_stripe_id(number, 0);
	int r = -ENODATA;

	b->stored += more;
	b->stored_dirty = true;
	if (!b->stored) {
		r = fusion_md_next_stripe(ledger->space->md, &next, &disk);
		if (r && r != -ENODATA)
			return r;
	}
	if (b->stored <= max && (r || fusion_stripe_band(next) != number))
		return 0;
	fusion_md_damaged(ledger->space->md, "band %u has another number of stripes than it is said to have",
			  number);
	return -EIO;
}

static int ledger_write(struct fusion_ledger *ledger,
			struct fusion_ledger_entry *e)
{
	bool live = e->disk.live;
	int r;

	if (!e->dirty)
		return 0;
	e->dirty = false;
	if (live) {
		ledger_count(ledger, e->stripe, &e->disk, 1);
		fusion_space_note(ledger->space, e->stripe, &e->disk);
		r = fusion_md_put_stripe(ledger->space->md, e->stripe, &e->disk);
	} else if (e->stored) {
		r = fusion_md_put_stripe(ledger->space->md, e->stripe, NULL);
	} else {
		r = 0;
	}
	if (r)
		return r;
	if (live != e->stored) {
		r = ledger_count_band(ledger, e->stripe, live ? 1 : -1);
		if (r)
			return r;
	}
	e->stored = live;
	if (!live) {
		if (e->disk.state == FUSION_STRIPE_PRIMARY)
			fusion_sets_forget(ledger->space, e->stripe);
		fusion_space_note(ledger->space, e->stripe, NULL);
		fusion_space_release(ledger->space, e->stripe);
	}
	return 0;
}

/*
 * The entry of @stripe.  Its sums are out of the superblock's while it is
 * dirty; a stripe that is not stored has an empty record of state FREE.
 */
static int ledger_get(struct fusion_ledger *ledger, u64 stripe,
		      struct fusion_ledger_entry **entry)
{
	struct fusion_ledger_entry *e;
	int r;

	e = &ledger->entry[hash_64(stripe, ilog2(FUSION_LEDGER_ENTRIES))];
	*entry = e;
	if (e->stripe == stripe)
		return 0;
	if (e->stripe != FUSION_NO_STRIPE) {
		r = ledger_write(ledger, e);
		if (r)
			return r;
	}
	e->stripe = FUSION_NO_STRIPE;
	r = fusion_md_get_stripe(ledger->space->md, stripe, &e->disk);
	if (r && r != -ENODATA)
		return r;
	e->stored = !r;
	if (!r)
		r = fusion_space_check_stripe(ledger->space, stripe, &e->disk);
	else
		r = 0;
	if (r)
		return r;
	if (!e->stored)
		memset(&e->disk, 0, sizeof(e->disk));
	e->dirty = false;
	e->stripe = stripe;
	return 0;
}

static void ledger_dirty(struct fusion_ledger *ledger,
			 struct fusion_ledger_entry *e)
{
	if (!e->dirty && e->stored)
		ledger_count(ledger, e->stripe, &e->disk, -1);
	e->dirty = true;
}

/* The entry of the stripe of @place, which is going to be changed. */
static int ledger_edit(struct fusion_ledger *ledger, u64 place,
		       struct fusion_ledger_entry **entry)
{
	int r = ledger_get(ledger, fusion_place_stripe(place), entry);

	if (!r)
		ledger_dirty(ledger, *entry);
	return r;
}

/* @e has these bits of spare.h from now on, too, and not those in @clear. */
static void ledger_spare(struct fusion_ledger *ledger, struct fusion_ledger_entry *e, u8 set,
			 u8 clear)
{
	u8 spared = (e->disk.spared | set) & ~clear;

	if (spared == e->disk.spared)
		return;
	ledger_dirty(ledger, e);
	e->disk.spared = spared;
	fusion_stripe_spare(ledger->space, e->stripe, set, clear);
}

/* What is written of @e does not reach all members. */
static void ledger_stale(struct fusion_ledger *ledger, struct fusion_ledger_entry *e)
{
	ledger_spare(ledger, e,
		     fusion_spares_stale(ledger->space, e->stripe, e->disk.spared), 0);
}

static int ledger_live(struct fusion_ledger *ledger, u64 place,
		       enum fusion_stripe_state state, u64 partner, u64 second)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_edit(ledger, place, &e);
	if (r)
		return r;
	if (e->disk.state == FUSION_STRIPE_FREE) {
		e->disk.state = state;
		e->disk.spared = fusion_stripe_spared(ledger->space, e->stripe);
		ledger_stale(ledger, e);
		e->disk.generation =
			cpu_to_le32(fusion_md_super(ledger->space->md)->generation);
		e->disk.partner[0] = cpu_to_le64(partner);
		e->disk.partner[1] = cpu_to_le64(second);
	}
	e->disk.live |= cpu_to_le64(1ULL << fusion_place_slot(place));
	e->disk.written |= cpu_to_le64(1ULL << fusion_place_slot(place));
	return 0;
}

int fusion_ledger_base_live(struct fusion_ledger *ledger, u64 place)
{
	return ledger_live(ledger, place, FUSION_STRIPE_RAID, FUSION_NO_STRIPE,
			   FUSION_NO_STRIPE);
}

int fusion_ledger_top_live(struct fusion_ledger *ledger,
			   const struct fusion_top *top)
{
	unsigned int i, replicas = fusion_top_replicas(top);
	int r;

	r = ledger_live(ledger, top->place[0], FUSION_STRIPE_PRIMARY,
			fusion_place_stripe(top->place[1]), replicas > 2 ?
			fusion_place_stripe(top->place[2]) : FUSION_NO_STRIPE);
	for (i = 1; !r && i < replicas; i++)
		r = ledger_live(ledger, top->place[i], FUSION_STRIPE_MIRROR,
				fusion_place_stripe(top->place[0]),
				FUSION_NO_STRIPE);
	return r;
}

int fusion_ledger_dead(struct fusion_ledger *ledger, u64 place)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_edit(ledger, place, &e);
	if (!r)
		e->disk.live &= ~cpu_to_le64(1ULL << fusion_place_slot(place));
	return r;
}

int fusion_ledger_patch_live(struct fusion_ledger *ledger,
			     const struct fusion_patch *patch)
{
	struct fusion_ledger_entry *e;
	struct fusion_top top = { { 0 } };
	unsigned int i;
	int r;

	fusion_patch_slots(patch, top.place);
	r = fusion_ledger_top_live(ledger, &top);
	for (i = 0; !r && i < fusion_top_replicas(&top); i++) {
		r = ledger_edit(ledger, top.place[i], &e);
		if (!r)
			le16_add_cpu(&e->disk.patch_pages, 1);
	}
	if (!r)
		fusion_md_super(ledger->space->md)->patch_pages++;
	return r;
}

int fusion_ledger_patch_dead(struct fusion_ledger *ledger,
			     const struct fusion_patch *patch)
{
	struct fusion_ledger_entry *e;
	unsigned int i;
	int r;

	for (i = 0; i < FUSION_MAX_REPLICAS && patch->at[i]; i++) {
		r = ledger_edit(ledger, fusion_patch_slot(patch->at[i]), &e);
		if (r)
			return r;
		if (!e->disk.patch_pages)
			return -EINVAL;
		le16_add_cpu(&e->disk.patch_pages, -1);
		if (!e->disk.patch_pages)
			e->disk.live = 0;
	}
	fusion_md_super(ledger->space->md)->patch_pages--;
	return 0;
}

int fusion_ledger_seal(struct fusion_ledger *ledger, u64 a, u64 written)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_get(ledger, a, &e);
	if (r || !e->disk.live)
		return r;
	/* what is live and not in the parity could not be reconstructed: never in the trees */
	if (le64_to_cpu(e->disk.live) & ~written) {
		fusion_md_damaged(ledger->space->md, "stripe %llx has more that is live than its parity covers",
				  a);
		return -EIO;
	}
	ledger_dirty(ledger, e);
	e->disk.state = FUSION_STRIPE_RAID;
	e->disk.written = cpu_to_le64(written);
	e->disk.partner[0] = cpu_to_le64(FUSION_NO_STRIPE);
	e->disk.partner[1] = cpu_to_le64(FUSION_NO_STRIPE);
	ledger_stale(ledger, e);
	return 0;
}

int fusion_ledger_row(struct fusion_ledger *ledger, u64 stripe)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_get(ledger, stripe, &e);
	if (!r && e->disk.live)
		ledger_stale(ledger, e);
	return r;
}

int fusion_ledger_spare(struct fusion_ledger *ledger, const struct fusion_spared *spared)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_get(ledger, spared->stripe, &e);
	if (r || !e->disk.live)
		return r;
	ledger_spare(ledger, e, spared->stale << FUSION_MAX_AREAS, spared->gone);
	if (spared->generation == fusion_md_super(ledger->space->md)->states_generation)
		ledger_spare(ledger, e, spared->areas,
			     spared->home | spared->home << FUSION_MAX_AREAS);
	return 0;
}

int fusion_ledger_is_stored(struct fusion_ledger *ledger, u64 stripe,
			    bool *stored)
{
	struct fusion_ledger_entry *e;
	int r;

	r = ledger_get(ledger, stripe, &e);
	if (!r)
		*stored = e->disk.live;
	return r;
}

int fusion_ledger_finish(struct fusion_ledger *ledger)
{
	struct fusion_space *s = ledger->space;
	struct fusion_disk_band disk;
	struct fusion_band *b;
	unsigned int i;
	int r;

	for (i = 0; i < FUSION_LEDGER_ENTRIES; i++) {
		struct fusion_ledger_entry *e = &ledger->entry[i];

		if (e->stripe == FUSION_NO_STRIPE)
			continue;
		r = ledger_write(ledger, e);
		if (r)
			return r;
		/* nothing is kept: stripes' states change outside, too */
		e->stripe = FUSION_NO_STRIPE;
	}
	fusion_for_each_band(s, b) {
		if (!b->stored_dirty)
			continue;
		b->stored_dirty = false;
		memset(&disk, 0, sizeof(disk));
		disk.class = cpu_to_le16(b->class->index + 1);
		disk.layout_generation =
			cpu_to_le16(fusion_band_generation(s, b));
		disk.used = cpu_to_le32(b->stored);
		r = fusion_md_put_band(s->md, b->number, &disk);
		if (r)
			return r;
	}
	return 0;
}
