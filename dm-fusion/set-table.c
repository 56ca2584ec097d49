// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of sets.  See set-table.h.
 */
#include <linux/slab.h>

#include "patch-set.h"
#include "set-table.h"

/* Sets looked at for one that can be taken. */
#define TAKE_TRIES	64

void fusion_set_table_init(struct fusion_space *s)
{
	mutex_init(&s->sets_lock);
	xa_init(&s->sets);
	INIT_LIST_HEAD(&s->sets_by_age);
	INIT_LIST_HEAD(&s->patch_sets_by_age);
}

void fusion_set_table_exit(struct fusion_space *s)
{
	struct fusion_set *set;
	unsigned long index;

	xa_for_each(&s->sets, index, set)
		kfree(set);
	xa_destroy(&s->sets);
}

/* A set that has been closed is gone. */
static void set_free(struct fusion_space *s, struct fusion_set *set)
{
	fusion_set_count(s, set, -1);
	kfree(set);
}

static struct list_head *table_of(struct fusion_space *s, bool patches)
{
	return patches ? &s->patch_sets_by_age : &s->sets_by_age;
}

static void table_append(struct fusion_space *s, struct fusion_set *set)
{
	set->number = ++s->sets_number;
	set->since = jiffies;
	list_add_tail(&set->age, table_of(s, set->patches));
}

static int table_add(struct fusion_space *s, struct fusion_set *set)
{
	int r;

	lockdep_assert_held(&s->sets_lock);
	r = xa_err(xa_store(&s->sets, set->stripe[0], set, GFP_NOIO));
	if (r)
		return r;
	table_append(s, set);
	return 0;
}

static void table_remove(struct fusion_space *s, struct fusion_set *set)
{
	xa_erase(&s->sets, set->stripe[0]);
	list_del_init(&set->age);
}

void fusion_set_close(struct fusion_space *s, struct fusion_set *set, bool live)
{
	unsigned int i;

	for (i = 0; i < fusion_set_stripes(set->class); i++)
		fusion_space_unhold(s, set->stripe[i], true);
	mutex_lock(&s->sets_lock);
	/*
	 * One that is missing in the table is only not converted till a start.  What is in
	 * those with parity goes with its rows.
	 */
	if (!live || set->parity || table_add(s, set))
		set_free(s, set);
	mutex_unlock(&s->sets_lock);
}

/*
 * The set of which a slot and its mirrors' are at @place, in the table; or made with
 * @units, but for their owners.
 */
static struct fusion_set *sets_find(struct fusion_space *s, const u64 *place,
				    unsigned int units, bool patches)
{
	u64 a = fusion_place_stripe(place[0]);
	struct fusion_class *class = fusion_space_class_of(s, a);
	struct fusion_set *set = xa_load(&s->sets, a);
	unsigned int i;

	if (set)
		return set->patches == patches ? set : ERR_PTR(-EINVAL);
	set = kzalloc(struct_size(set, owner, units), GFP_NOIO);
	if (!set)
		return ERR_PTR(-ENOMEM);
	set->class = class;
	set->patches = patches;
	set->units = units;
	for (i = 0; i < fusion_set_stripes(class); i++)
		set->stripe[i] = fusion_place_stripe(place[i]);
	for (i = 0; i < units; i++)
		set->owner[i] = FUSION_NO_OWNER;
	if (table_add(s, set)) {
		kfree(set);
		return ERR_PTR(-ENOMEM);
	}
	fusion_set_count(s, set, 1);
	return set;
}

int fusion_sets_found(struct fusion_space *s, u64 key,
		      const struct fusion_top *top)
{
	u64 a = fusion_place_stripe(top->place[0]);
	u32 slot = fusion_place_slot(top->place[0]);
	struct fusion_set *set;

	/* an open one is not closed under the commit mutex */
	if (fusion_space_held(s, a))
		return 0;
	mutex_lock(&s->sets_lock);
	set = sets_find(s, top->place, fusion_space_class_of(s, a)->d, false);
	if (!IS_ERR(set) && slot < set->units)
		set->owner[slot] = key;
	mutex_unlock(&s->sets_lock);
	return PTR_ERR_OR_ZERO(set);
}

int fusion_sets_found_patch(struct fusion_space *s, u64 key,
			    const struct fusion_patch *patch)
{
	unsigned int pages = s->block_sectors / FUSION_PAGE_SECTORS, slot;
	u64 place[FUSION_MAX_REPLICAS];
	struct fusion_class *class;
	struct fusion_set *set;

	fusion_patch_slots(patch, place);
	if (fusion_space_held(s, fusion_place_stripe(place[0])))
		return 0;
	class = fusion_space_class_of(s, fusion_place_stripe(place[0]));
	slot = fusion_place_slot(place[0]);
	mutex_lock(&s->sets_lock);
	set = sets_find(s, place, class->d * pages, true);
	if (!IS_ERR(set) && slot < class->d)
		set->owner[fusion_patch_unit(set, slot, fusion_patch_at(patch))] = key;
	mutex_unlock(&s->sets_lock);
	return PTR_ERR_OR_ZERO(set);
}

void fusion_sets_forget(struct fusion_space *s, u64 a)
{
	struct fusion_set *set;

	mutex_lock(&s->sets_lock);
	set = xa_load(&s->sets, a);
	if (set) {
		table_remove(s, set);
		/* its area is smaller at once: that is when those who wait are told */
		fusion_set_count(s, set, -1);
		if (set->busy)
			set->gone = true;
		else
			kfree(set);
	}
	mutex_unlock(&s->sets_lock);
}

static u64 set_members(struct fusion_space *s, const struct fusion_set *set)
{
	u8 members[FUSION_MAX_MEMBERS];
	unsigned int i;
	u64 mask = 0;

	for (i = 0; i < fusion_set_stripes(set->class); i++)
		mask |= fusion_space_members(s, set->stripe[i], members);
	return mask;
}

static void table_take(struct fusion_set *set)
{
	set->busy = true;
	list_del_init(&set->age);
}

/* Of the sets in @table, up to @number: of @class, unless NULL, on no member in @busy. */
static struct fusion_set *sets_take(struct fusion_space *s,
				    struct list_head *table, u64 number,
				    const struct fusion_class *class, u64 busy)
{
	struct fusion_set *set, *found = NULL;
	unsigned int tries = TAKE_TRIES;

	mutex_lock(&s->sets_lock);
	list_for_each_entry(set, table, age) {
		if (set->number > number || !tries--)
			break;
		if ((class && set->class != class) ||
		    (busy && set_members(s, set) & busy))
			continue;
		table_take(set);
		found = set;
		break;
	}
	mutex_unlock(&s->sets_lock);
	return found;
}

struct fusion_set *fusion_sets_take(struct fusion_space *s, u64 number,
				    u64 busy)
{
	return sets_take(s, &s->sets_by_age, number, NULL, busy);
}

struct fusion_set *fusion_sets_take_patches(struct fusion_space *s, u64 number,
					    const struct fusion_class *class)
{
	return sets_take(s, &s->patch_sets_by_age, number, class, 0);
}

unsigned int fusion_sets_take_sparse(struct fusion_space *s,
				     struct fusion_set **sets,
				     unsigned int max)
{
	unsigned int tries = TAKE_TRIES, count = 0, slots = 0, live;
	struct fusion_class *class = NULL;
	struct fusion_set *set, *next;

	mutex_lock(&s->sets_lock);
	list_for_each_entry_safe(set, next, &s->sets_by_age, age) {
		if (!tries-- || count == max)
			break;
		if (class && set->class != class)
			continue;
		live = fusion_space_live(s, set->stripe[0]);
		if (!fusion_set_sparse(live, set->class->d) ||
		    slots + live > set->class->d)
			continue;
		class = set->class;
		slots += live;
		sets[count++] = set;
	}
	if (count < 2 || 2 * slots < class->d)
		count = 0;
	for (tries = 0; tries < count; tries++)
		table_take(sets[tries]);
	mutex_unlock(&s->sets_lock);
	return count;
}

bool fusion_sets_enter(struct fusion_space *s, struct fusion_set *set,
		       unsigned int *grace)
{
	bool there;

	/* a commit that finds nothing live says so before its grace period */
	mutex_lock(&s->sets_lock);
	there = !set->gone;
	if (there)
		*grace = fusion_grace_enter(s->grace);
	mutex_unlock(&s->sets_lock);
	return there;
}

void fusion_sets_give_back(struct fusion_space *s, struct fusion_set *set)
{
	mutex_lock(&s->sets_lock);
	set->busy = false;
	if (set->gone)
		kfree(set);
	else
		table_append(s, set);
	mutex_unlock(&s->sets_lock);
}

void fusion_sets_put_back(struct fusion_space *s, struct fusion_set *set)
{
	struct list_head *table = table_of(s, set->patches);
	struct fusion_set *after;

	mutex_lock(&s->sets_lock);
	set->busy = false;
	if (set->gone) {
		kfree(set);
	} else {
		/* few are older: it was taken from the front */
		list_for_each_entry(after, table, age)
			if (after->number > set->number)
				break;
		list_add_tail(&set->age, &after->age);
	}
	mutex_unlock(&s->sets_lock);
}

void fusion_sets_sealed(struct fusion_space *s, struct fusion_set *set)
{
	mutex_lock(&s->sets_lock);
	if (set->gone) {
		kfree(set);
	} else {
		table_remove(s, set);
		set_free(s, set);
	}
	mutex_unlock(&s->sets_lock);
}

u64 fusion_sets_youngest(struct fusion_space *s)
{
	u64 number;

	mutex_lock(&s->sets_lock);
	number = s->sets_number;
	mutex_unlock(&s->sets_lock);
	return number;
}

u64 fusion_sets_oldest_ms(struct fusion_space *s, bool patches)
{
	struct fusion_set *set;
	u64 ms = 0;

	mutex_lock(&s->sets_lock);
	set = list_first_entry_or_null(table_of(s, patches), struct fusion_set,
				       age);
	if (set)
		ms = jiffies_to_msecs(jiffies - set->since);
	mutex_unlock(&s->sets_lock);
	return ms;
}
