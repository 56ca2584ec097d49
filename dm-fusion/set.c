// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets.  See set.h.
 */
#include <linux/slab.h>

#include "pairing.h"
#include "set.h"

/* Sets looked at for one that can be taken. */
#define TAKE_TRIES	64

/* The stripes of a set, and the replicas of a block in it. */
static unsigned int set_stripes(const struct fusion_class *class)
{
	return class->p + 1;
}

/* Take the members of @stripe, slot by slot, into @members; their mask. */
static u64 stripe_members(struct fusion_space *s, struct fusion_class *class,
			  u64 stripe, u8 *members)
{
	return fusion_layout_members(s->layout, class->k,
				     fusion_stripe_index(stripe), members);
}

/* Find the mirrors' slots: all replicas of a slot are on different members. */
static int set_match(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_class *class = set->class;
	u64 avoid[FUSION_MAX_MEMBERS];
	u8 members[FUSION_MAX_MEMBERS];
	unsigned int m, i;
	int r = 0;

	stripe_members(s, class, set->stripe[0], members);
	for (i = 0; i < class->d; i++)
		avoid[i] = 1ULL << members[i];
	for (m = 0; !r && m < class->p; m++) {
		stripe_members(s, class, set->stripe[m + 1], members);
		r = fusion_pair_match(avoid, class->d, members, class->k,
				      set->slot_of[m]);
		for (i = 0; !r && i < class->d; i++)
			avoid[i] |= 1ULL << members[set->slot_of[m][i]];
	}
	return r;
}

/*
 * Draw stripes at random and keep those that share the fewest members.  The
 * rest goes back.
 */
static void set_draw_stripes(struct fusion_space *s, struct fusion_set *set)
{
	u64 stripe[FUSION_PAIR_DRAW_MAX], mask[FUSION_PAIR_DRAW_MAX];
	struct fusion_class *class = set->class;
	unsigned int chosen[FUSION_MAX_REPLICAS];
	u8 members[FUSION_MAX_MEMBERS];
	unsigned int count, i;

	for (count = 0; count < FUSION_PAIR_DRAW(set_stripes(class)); count++) {
		stripe[count] = fusion_space_draw_locked(s, class);
		if (stripe[count] == FUSION_NO_STRIPE)
			break;
		mask[count] = stripe_members(s, class, stripe[count], members);
	}
	fusion_pair_choose(mask, count, &chosen[0], &chosen[1]);
	if (class->p > 1)
		chosen[2] = fusion_pair_choose_third(mask, count, chosen[0],
						     chosen[1]);
	for (i = 0; i < set_stripes(class); i++) {
		set->stripe[i] = stripe[chosen[i]];
		stripe[chosen[i]] = FUSION_NO_STRIPE;
	}
	for (i = 0; i < count; i++)
		if (stripe[i] != FUSION_NO_STRIPE)
			fusion_space_free_locked(s, stripe[i]);
}

void fusion_sets_limit(struct fusion_space *s, const struct fusion_tunables *t)
{
	struct fusion_stock stock;

	fusion_space_stock(s, &stock);
	WRITE_ONCE(s->replica_limit, fusion_replica_limit(t, &stock));
	WRITE_ONCE(s->scarce, fusion_scarce(fusion_stock_available(&stock),
					    s->slow_zone));
}

/* Open one more set. */
static int set_open(struct fusion_space *s, struct fusion_class *class)
{
	struct fusion_set *set;
	unsigned int i;

	lockdep_assert_held(&class->lock);
	if (fusion_sets_limited(s))
		return -EAGAIN;
	set = kmalloc(struct_size(set, owner, class->d),
		      GFP_NOWAIT | __GFP_NOWARN);
	if (!set) {
		set = class->spare_set;
		class->spare_set = NULL;
	}
	if (!set)
		return -EAGAIN;
	if (!fusion_space_allows(s, class, set_stripes(class))) {
		kfree(set);
		return -EAGAIN;
	}
	set->class = class;
	set_draw_stripes(s, set);
	if (WARN_ON_ONCE(set_match(s, set))) {
		/* cannot be: see fusion_pair_match() */
		for (i = 0; i < set_stripes(class); i++)
			fusion_space_free_locked(s, set->stripe[i]);
		kfree(set);
		return -EAGAIN;
	}
	set->drawn = 0;
	set->in_flight = 0;
	set->given_up = 0;
	set->busy = false;
	set->gone = false;
	for (i = 0; i < class->d; i++)
		set->owner[i] = FUSION_NO_OWNER;
	class->open[class->open_count++] = set;
	return 0;
}

/* A set has joined the replicated area (@sign 1) or has left it (-1). */
static void set_count(struct fusion_space *s, struct fusion_set *set, int sign)
{
	int blocks = set_stripes(set->class) * set->class->k;

	atomic64_add(sign * blocks, &s->replica_blocks);
}

/* A set that has been closed is gone. */
static void set_free(struct fusion_space *s, struct fusion_set *set)
{
	set_count(s, set, -1);
	kfree(set);
}

/* The place of @set's next slot in its stripe number @i. */
static u64 set_place(const struct fusion_set *set, unsigned int i)
{
	return fusion_place(set->stripe[i], i ? set->slot_of[i - 1][set->drawn] :
			    set->drawn);
}

/* How busy the members of @set's next slot are. */
static int set_pending(struct fusion_space *s, struct fusion_set *set)
{
	unsigned int i;
	int pending = 0;
	u32 member;

	for (i = 0; i < set_stripes(set->class); i++) {
		fusion_space_locate(s, set_place(set, i), &member);
		pending += fusion_member_pending(&s->member[member]);
	}
	return pending;
}

struct fusion_set *fusion_set_draw(struct fusion_space *s,
				   struct fusion_class *class, u64 key,
				   struct fusion_top *top)
{
	struct fusion_set *set = NULL;
	unsigned int i, j;
	unsigned long flags;

	spin_lock_irqsave(&class->lock, flags);
	if (class->open_count < FUSION_OPEN_SETS)
		set_open(s, class);
	if (!class->open_count)
		goto out;
	i = class->next++ % class->open_count;
	j = class->next % class->open_count;
	if (i != j && set_pending(s, class->open[j]) <
	    set_pending(s, class->open[i]))
		i = j;
	set = class->open[i];
	memset(top->place, 0, sizeof(top->place));
	for (j = 0; j < set_stripes(class); j++)
		top->place[j] = set_place(set, j);
	set->owner[set->drawn] = key;
	set->in_flight++;
	if (++set->drawn == class->d) {
		class->open[i] = class->open[--class->open_count];
		set_count(s, set, 1);
	}
out:
	spin_unlock_irqrestore(&class->lock, flags);
	return set;
}

/* The epoch's commit will let @set go. */
static void set_record(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;

	shard = fusion_epoch_enter(s->epochs, &flags);
	list_add_tail(&set->list, &shard->closed_sets);
	fusion_epoch_exit(shard, flags);
}

bool fusion_set_put(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_class *class = set->class;
	unsigned long flags;
	bool closed;

	spin_lock_irqsave(&class->lock, flags);
	closed = !--set->in_flight && set->drawn == class->d;
	spin_unlock_irqrestore(&class->lock, flags);
	if (closed)
		set_record(s, set);
	return closed;
}

/* An open set of @class that nothing is being written to, taken out. */
static struct fusion_set *set_take_idle(struct fusion_class *class)
{
	struct fusion_set *set = NULL;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&class->lock, flags);
	for (i = 0; i < class->open_count; i++) {
		if (class->open[i]->in_flight)
			continue;
		set = class->open[i];
		class->open[i] = class->open[--class->open_count];
		break;
	}
	spin_unlock_irqrestore(&class->lock, flags);
	return set;
}

bool fusion_sets_close_idle(struct fusion_space *s, struct fusion_class *class)
{
	struct fusion_set *set;
	bool any = false;

	while ((set = set_take_idle(class))) {
		set_count(s, set, 1);
		set_record(s, set);
		any = true;
	}
	return any;
}

/* Memory for a set, for when a draw finds none. */
static int set_spare(struct fusion_class *class)
{
	struct fusion_set *set;
	unsigned long flags;

	if (READ_ONCE(class->spare_set))
		return 0;
	set = kmalloc(struct_size(set, owner, class->d), GFP_NOIO);
	if (!set)
		return -ENOMEM;
	spin_lock_irqsave(&class->lock, flags);
	swap(set, class->spare_set);
	spin_unlock_irqrestore(&class->lock, flags);
	kfree(set);
	return 0;
}

int fusion_set_refill(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock)
{
	int r;

	if (fusion_sets_limited(s))
		return -EDQUOT;
	r = set_spare(class);
	return r ? r : fusion_space_refill(s, class, set_stripes(class),
					   commit_lock);
}

/* ---- the table ---- */

void fusion_sets_init(struct fusion_space *s)
{
	mutex_init(&s->sets_lock);
	xa_init(&s->sets);
	INIT_LIST_HEAD(&s->sets_by_age);
}

void fusion_sets_exit(struct fusion_space *s)
{
	struct fusion_set *set;
	unsigned long index;
	unsigned int i, j;

	xa_for_each(&s->sets, index, set)
		kfree(set);
	xa_destroy(&s->sets);
	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
		for (j = 0; j < s->class[i]->open_count; j++)
			kfree(s->class[i]->open[j]);
		kfree(s->class[i]->spare_set);
	}
}

static void table_append(struct fusion_space *s, struct fusion_set *set)
{
	set->number = ++s->sets_number;
	set->since = jiffies;
	list_add_tail(&set->age, &s->sets_by_age);
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

	for (i = 0; i < set_stripes(set->class); i++)
		fusion_space_unhold(s, set->stripe[i], true);
	mutex_lock(&s->sets_lock);
	/* one that is missing in the table is only not converted till a start */
	if (!live || table_add(s, set))
		set_free(s, set);
	mutex_unlock(&s->sets_lock);
}

/* The set of @top's primary, in the table; or made, but for its owners. */
static struct fusion_set *sets_find(struct fusion_space *s,
				    const struct fusion_top *top)
{
	u64 a = fusion_place_stripe(top->place[0]);
	struct fusion_class *class = fusion_space_class_of(s, a);
	struct fusion_set *set = xa_load(&s->sets, a);
	unsigned int i;

	if (set)
		return set;
	set = kzalloc(struct_size(set, owner, class->d), GFP_NOIO);
	if (!set)
		return NULL;
	set->class = class;
	for (i = 0; i < set_stripes(class); i++)
		set->stripe[i] = fusion_place_stripe(top->place[i]);
	for (i = 0; i < class->d; i++)
		set->owner[i] = FUSION_NO_OWNER;
	if (table_add(s, set)) {
		kfree(set);
		return NULL;
	}
	set_count(s, set, 1);
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
	set = sets_find(s, top);
	if (set && slot < set->class->d)
		set->owner[slot] = key;
	mutex_unlock(&s->sets_lock);
	return set ? 0 : -ENOMEM;
}

void fusion_sets_forget(struct fusion_space *s, u64 a)
{
	struct fusion_set *set;

	mutex_lock(&s->sets_lock);
	set = xa_load(&s->sets, a);
	if (set) {
		table_remove(s, set);
		if (set->busy)
			set->gone = true;
		else
			set_free(s, set);
	}
	mutex_unlock(&s->sets_lock);
}

static u64 set_members(struct fusion_space *s, const struct fusion_set *set)
{
	u8 members[FUSION_MAX_MEMBERS];
	unsigned int i;
	u64 mask = 0;

	for (i = 0; i < set_stripes(set->class); i++)
		mask |= stripe_members(s, set->class, set->stripe[i], members);
	return mask;
}

static void table_take(struct fusion_set *set)
{
	set->busy = true;
	list_del_init(&set->age);
}

struct fusion_set *fusion_sets_take(struct fusion_space *s, u64 number,
				    u64 busy)
{
	struct fusion_set *set, *found = NULL;
	unsigned int tries = TAKE_TRIES;

	mutex_lock(&s->sets_lock);
	list_for_each_entry(set, &s->sets_by_age, age) {
		if (set->number > number || !tries--)
			break;
		if (busy && set_members(s, set) & busy)
			continue;
		table_take(set);
		found = set;
		break;
	}
	mutex_unlock(&s->sets_lock);
	return found;
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
		set_free(s, set);
	else
		table_append(s, set);
	mutex_unlock(&s->sets_lock);
}

void fusion_sets_put_back(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_set *after;

	mutex_lock(&s->sets_lock);
	set->busy = false;
	if (set->gone) {
		set_free(s, set);
	} else {
		/* few are older: it was taken from the front */
		list_for_each_entry(after, &s->sets_by_age, age)
			if (after->number > set->number)
				break;
		list_add_tail(&set->age, &after->age);
	}
	mutex_unlock(&s->sets_lock);
}

void fusion_sets_sealed(struct fusion_space *s, struct fusion_set *set)
{
	mutex_lock(&s->sets_lock);
	if (!set->gone)
		table_remove(s, set);
	set_free(s, set);
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

u64 fusion_sets_oldest_ms(struct fusion_space *s)
{
	struct fusion_set *set;
	u64 ms = 0;

	mutex_lock(&s->sets_lock);
	set = list_first_entry_or_null(&s->sets_by_age, struct fusion_set, age);
	if (set)
		ms = jiffies_to_msecs(jiffies - set->since);
	mutex_unlock(&s->sets_lock);
	return ms;
}
