// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets for patches.  See patch-set.h.
 */
#include <linux/slab.h>

#include "monitor.h"
#include "patch-set.h"

#define OPEN_PATCH_SETS		4
/* At so many slots at most a draw looks; and on, while all are on members that are silent or worse. */
#define LOOKS			FUSION_OPEN_SETS

/* How many pages of each slot are drawn, behind the owners. */
static u8 *set_fill(struct fusion_set *set)
{
	return (u8 *)&set->owner[set->units];
}

static unsigned int slot_pages(const struct fusion_set *set)
{
	return set->units / set->class->d;
}

static bool patches_limited(const struct fusion_space *s)
{
	return atomic64_read(&s->patch_blocks) >= READ_ONCE(s->patch_limit);
}

static unsigned int patch_units(const struct fusion_space *s,
				const struct fusion_class *class)
{
	return class->d * (s->block_sectors / FUSION_PAGE_SECTORS);
}

/* And behind the owners how much of each slot is drawn. */
static size_t patch_set_bytes(const struct fusion_space *s,
			      const struct fusion_class *class)
{
	return struct_size((struct fusion_set *)NULL, owner,
			   patch_units(s, class)) + class->d;
}

static struct fusion_open *open_of(struct fusion_class *class, bool parity)
{
	return parity ? &class->parity : &class->patches;
}

static void patch_set_open(struct fusion_space *s, struct fusion_class *class,
			   bool parity)
{
	unsigned int units = patch_units(s, class);
	struct fusion_open *open = open_of(class, parity);
	struct fusion_set *set;

	lockdep_assert_held(&class->lock);
	if (!parity && patches_limited(s))
		return;
	set = kmalloc(patch_set_bytes(s, class), GFP_NOWAIT | __GFP_NOWARN);
	if (!set)
		swap(set, open->spare);
	if (!set || !fusion_set_begin(s, class, set, units, parity))
		return;
	set->patches = true;
	set->parity = parity;
	memset(set_fill(set), 0, class->d);
	fusion_set_count(s, set, 1);
	open->set[open->count++] = set;
}

/* One of the open sets, and a slot of it, with room for so many pages. */
struct room {
	unsigned int i;
	struct fusion_set *set;
	unsigned int slot;
};

/* The next, from number @from on of all slots; the number, or -1: there is none. */
static int find_room(const struct fusion_open *open, unsigned int d,
		     unsigned int from, unsigned int pages, struct room *room)
{
	unsigned int n, all = open->count * d;

	for (n = 0; n < all; n++) {
		unsigned int number = (from + n) % all;

		room->i = number / d;
		room->set = open->set[room->i];
		room->slot = number % d;
		if (set_fill(room->set)[room->slot] + pages <=
		    slot_pages(room->set))
			return number;
	}
	return -1;
}

/* The first slot with room that nothing burdens, or the least burdened of LOOKS; see set.c. */
static bool choose_room(struct fusion_space *s, struct fusion_class *class,
			struct fusion_open *open, unsigned int pages,
			struct room *room)
{
	int first, number, of_first, least, burden, looks = 1;
	struct room other;

	first = find_room(open, class->d, open->next, pages, room);
	if (first < 0)
		return false;
	open->next = first + 1;
	of_first = fusion_set_burden(s, room->set, room->slot);
	least = of_first;
	/* after the last of them comes the first again */
	for (number = first; least && (looks < LOOKS || least >= FUSION_BURDEN_SILENT); looks++) {
		number = find_room(open, class->d, number + 1, pages, &other);
		if (number == first)
			break;
		burden = fusion_set_burden(s, other.set, other.slot);
		if (burden < least) {
			least = burden;
			*room = other;
		}
	}
	fusion_monitor_chose(s->monitor, of_first, least, true);
	return true;
}

/*
 * Nothing is drawn any more from the fullest of the sets.  It, if nobody holds it:
 * then it is to be recorded; else the last who does will do that.
 */
static struct fusion_set *retire_fullest(struct fusion_open *open)
{
	struct fusion_set *set;
	unsigned int i, fullest = 0;

	for (i = 1; i < open->count; i++)
		if (open->set[i]->drawn > open->set[fullest]->drawn)
			fullest = i;
	set = open->set[fullest];
	set->drawn = set->units;
	fusion_open_remove(open, fullest);
	return set->in_flight ? NULL : set;
}

struct fusion_set *fusion_patch_draw(struct fusion_space *s,
				     struct fusion_class *class, u64 key,
				     unsigned int pages, bool parity,
				     struct fusion_patch *patch)
{
	struct fusion_open *open = open_of(class, parity);
	struct fusion_set *set = NULL, *retired = NULL;
	unsigned int page, i;
	unsigned long flags;
	struct room room;

	spin_lock_irqsave(&class->lock, flags);
	if (open->count < OPEN_PATCH_SETS)
		patch_set_open(s, class, parity);
	if (!choose_room(s, class, open, pages, &room)) {
		if (!open->count || (!parity && patches_limited(s)))
			goto out;
		retired = retire_fullest(open);
		patch_set_open(s, class, parity);
		if (!choose_room(s, class, open, pages, &room))
			goto out;
	}
	set = room.set;
	page = set_fill(set)[room.slot];
	memset(patch, 0, sizeof(*patch));
	for (i = 0; i < fusion_set_stripes(class); i++)
		patch->at[i] = fusion_patch_place(fusion_set_place(set, room.slot, i),
						  page);
	for (i = 0; i < pages; i++)
		set->owner[fusion_patch_unit(set, room.slot, page + i)] = key;
	set_fill(set)[room.slot] += pages;
	set->in_flight++;
	set->drawn += pages;
	if (set->drawn == set->units)
		fusion_open_remove(open, room.i);
out:
	spin_unlock_irqrestore(&class->lock, flags);
	if (retired)
		fusion_set_record(s, retired);
	return set;
}

int fusion_patch_refill(struct fusion_space *s, struct fusion_class *class,
			bool parity, struct mutex *commit_lock)
{
	int r;

	if (!parity && patches_limited(s))
		return -EDQUOT;
	r = fusion_open_spare(class, open_of(class, parity),
			      patch_set_bytes(s, class));
	if (r || (parity && READ_ONCE(class->free) >= fusion_set_stripes(class)))
		return r;
	return fusion_space_refill(s, class, fusion_set_stripes(class),
				   commit_lock);
}

bool fusion_patches_close_idle(struct fusion_space *s, struct fusion_class *class)
{
	bool any = fusion_sets_close_idle(s, class, &class->patches);

	return fusion_sets_close_idle(s, class, &class->parity) || any;
}
