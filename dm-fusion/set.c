// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets.  See set.h.
 */
#include <linux/slab.h>

#include "monitor.h"
#include "pairing.h"
#include "set.h"

/*
 * Members that have no other replica of what is on @member: itself, or, if that is out, all
 * that are, so that of no slot more than one replica is nowhere.
 */
static u64 set_avoid(struct fusion_space *s, unsigned int member)
{
	u64 out = 0;
	unsigned int i;

	if (likely(!fusion_member_out(&s->member[member])))
		return 1ULL << member;
	for (i = 0; i < s->layout->n; i++)
		if (fusion_member_out(&s->member[i]))
			out |= 1ULL << i;
	return out;
}

/* Find the mirrors' slots: all replicas of a slot are on different members. */
static int set_match(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_class *class = set->class;
	u64 avoid[FUSION_MAX_MEMBERS];
	u8 members[FUSION_MAX_MEMBERS];
	unsigned int m, i;
	int r = 0;

	fusion_space_members(s, set->stripe[0], members);
	for (i = 0; i < class->d; i++)
		avoid[i] = set_avoid(s, members[i]);
	for (m = 0; !r && m < class->p; m++) {
		fusion_space_members(s, set->stripe[m + 1], members);
		r = fusion_pair_match(avoid, class->d, members, class->k,
				      set->slot_of[m]);
		for (i = 0; !r && i < class->d; i++)
			avoid[i] |= set_avoid(s, members[set->slot_of[m][i]]);
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

	for (count = 0; count < FUSION_PAIR_DRAW(fusion_set_stripes(class)); count++) {
		stripe[count] = fusion_space_draw_responsive(s, class);
		if (stripe[count] == FUSION_NO_STRIPE)
			break;
		mask[count] = fusion_space_members(s, stripe[count], members);
	}
	fusion_pair_choose(mask, count, &chosen[0], &chosen[1]);
	if (class->p > 1)
		chosen[2] = fusion_pair_choose_third(mask, count, chosen[0],
						     chosen[1]);
	for (i = 0; i < fusion_set_stripes(class); i++) {
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
	WRITE_ONCE(s->patch_limit, fusion_patch_limit(t, &stock));
	WRITE_ONCE(s->scarce, fusion_scarce(fusion_stock_available(&stock),
					    s->slow_zone));
}

bool fusion_set_begin(struct fusion_space *s, struct fusion_class *class,
		      struct fusion_set *set, unsigned int units, bool over)
{
	unsigned int i;

	lockdep_assert_held(&class->lock);
	if (over ? class->free < fusion_set_stripes(class) :
	    !fusion_space_allows(s, class, fusion_set_stripes(class))) {
		kfree(set);
		return false;
	}
	set->class = class;
	set_draw_stripes(s, set);
	if (set_match(s, set)) {
		/* cannot be where all members are in: see fusion_pair_match() */
		for (i = 0; i < fusion_set_stripes(class); i++)
			fusion_space_free_locked(s, set->stripe[i]);
		kfree(set);
		return false;
	}
	set->patches = false;
	set->parity = false;
	set->units = units;
	set->drawn = 0;
	set->in_flight = 0;
	set->epoch = 0;
	set->given_up = 0;
	set->waited = 0;
	set->busy = false;
	set->gone = false;
	for (i = 0; i < units; i++)
		set->owner[i] = FUSION_NO_OWNER;
	return true;
}

/* Open one more set for tops, if that can be. */
static void set_open(struct fusion_space *s, struct fusion_class *class)
{
	struct fusion_set *set;

	lockdep_assert_held(&class->lock);
	if (fusion_sets_limited(s))
		return;
	set = kmalloc(struct_size(set, owner, class->d),
		      GFP_NOWAIT | __GFP_NOWARN);
	if (!set)
		swap(set, class->tops.spare);
	if (set && fusion_set_begin(s, class, set, class->d, false))
		class->tops.set[class->tops.count++] = set;
}

int fusion_set_burden(struct fusion_space *s, const struct fusion_set *set,
		      unsigned int slot)
{
	int burden = 0;
	unsigned int i;
	u32 member;

	for (i = 0; i < fusion_set_stripes(set->class); i++) {
		fusion_space_locate(s, fusion_set_place(set, slot, i), &member);
		burden += fusion_member_burden(&s->member[member]);
	}
	return burden;
}

/*
 * The first of the sets from @first on whose next slot nothing burdens, or the least burdened: a write
 * waits for the longest of the queues that it is sent to, so that of two sets both are mostly worse
 * than of all.  When little is pending, that is the first.
 */
static unsigned int set_least(struct fusion_space *s, const struct fusion_open *open,
			      unsigned int first, int *least)
{
	int burden, of_first = fusion_set_burden(s, open->set[first], open->set[first]->drawn);
	unsigned int n, j, chosen = first;

	*least = of_first;
	for (n = 1; n < open->count && *least; n++) {
		j = (first + n) % open->count;
		burden = fusion_set_burden(s, open->set[j], open->set[j]->drawn);
		if (burden < *least) {
			*least = burden;
			chosen = j;
		}
	}
	fusion_monitor_chose(s->monitor, of_first, *least, true);
	return chosen;
}

/*
 * The set to draw from.  Those whose next slot is on an unresponsive member have their turn again
 * when all others had it; where they are all like that one more is opened, which is elsewhere.  If
 * that cannot be: -1, or @any of them.
 */
static int set_choose(struct fusion_space *s, struct fusion_class *class,
		      struct fusion_open *open, bool any)
{
	unsigned int first = open->next++ % open->count, count = open->count, chosen;
	int least, new;

	chosen = set_least(s, open, first, &least);
	if (likely(least < FUSION_BURDEN_UNRESPONSIVE) || least >= FUSION_BURDEN_OUT ||
	    count == FUSION_OPEN_MAX)
		return chosen;
	set_open(s, class);
	if (open->count == count)
		return any ? chosen : -1;
	chosen = set_least(s, open, count, &new);
	fusion_monitor_chose(s->monitor, least, new, true);
	return chosen;
}

struct fusion_set *fusion_set_draw(struct fusion_space *s,
				   struct fusion_class *class, u64 key, bool any,
				   struct fusion_top *top)
{
	struct fusion_open *open = &class->tops;
	struct fusion_set *set = NULL;
	unsigned long flags;
	unsigned int j;
	int i;

	spin_lock_irqsave(&class->lock, flags);
	if (open->count < FUSION_OPEN_SETS)
		set_open(s, class);
	if (!open->count)
		goto out;
	i = set_choose(s, class, open, any);
	if (i < 0)
		goto out;
	set = open->set[i];
	memset(top->place, 0, sizeof(top->place));
	for (j = 0; j < fusion_set_stripes(class); j++)
		top->place[j] = fusion_set_place(set, set->drawn, j);
	set->owner[set->drawn] = key;
	set->in_flight++;
	if (++set->drawn == set->units) {
		fusion_open_remove(open, i);
		fusion_set_count(s, set, 1);
	}
out:
	spin_unlock_irqrestore(&class->lock, flags);
	return set;
}

void fusion_set_record(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_epoch_shard *shard;
	unsigned long flags;

	shard = fusion_epoch_enter(s->epochs, &flags);
	if (set->patches && !set->parity)
		atomic64_inc(&s->patches_closed);
	list_add_tail(&set->list, &shard->closed_sets);
	fusion_epoch_exit(shard, flags);
}

bool fusion_set_put(struct fusion_space *s, struct fusion_set *set)
{
	struct fusion_class *class = set->class;
	unsigned long flags;
	bool closed;

	spin_lock_irqsave(&class->lock, flags);
	closed = !--set->in_flight && set->drawn == set->units;
	set->epoch = READ_ONCE(s->epochs->current_number);
	spin_unlock_irqrestore(&class->lock, flags);
	if (closed)
		fusion_set_record(s, set);
	return closed;
}

/* An open set of @open that nothing is being written to, taken out. */
static struct fusion_set *set_take_idle(struct fusion_class *class,
					struct fusion_open *open)
{
	struct fusion_set *set = NULL;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&class->lock, flags);
	for (i = 0; i < open->count; i++) {
		if (open->set[i]->in_flight)
			continue;
		set = open->set[i];
		fusion_open_remove(open, i);
		break;
	}
	spin_unlock_irqrestore(&class->lock, flags);
	return set;
}

bool fusion_sets_close_idle(struct fusion_space *s, struct fusion_class *class,
			    struct fusion_open *open)
{
	struct fusion_set *set;
	bool any = false;

	while ((set = set_take_idle(class, open))) {
		if (!set->patches)
			fusion_set_count(s, set, 1);
		fusion_set_record(s, set);
		any = true;
	}
	return any;
}

/* Any set of @open, taken out; *@idle: nothing is being written to it. */
static struct fusion_set *set_take_any(struct fusion_space *s, struct fusion_class *class,
				       struct fusion_open *open, bool *idle)
{
	struct fusion_set *set = NULL;
	unsigned long flags;

	spin_lock_irqsave(&class->lock, flags);
	if (open->count) {
		set = open->set[0];
		fusion_open_remove(open, 0);
		set->drawn = set->units;
		*idle = !set->in_flight;
		if (!set->patches)
			fusion_set_count(s, set, 1);
	}
	spin_unlock_irqrestore(&class->lock, flags);
	return set;
}

static void sets_retire(struct fusion_space *s, struct fusion_class *class,
			struct fusion_open *open)
{
	struct fusion_set *set;
	bool idle;

	while ((set = set_take_any(s, class, open, &idle)))
		if (idle)
			fusion_set_record(s, set);
}

void fusion_sets_retire_all(struct fusion_space *s)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
		sets_retire(s, s->class[i], &s->class[i]->tops);
		sets_retire(s, s->class[i], &s->class[i]->patches);
		sets_retire(s, s->class[i], &s->class[i]->parity);
	}
}

int fusion_open_spare(struct fusion_class *class, struct fusion_open *open,
		      size_t bytes)
{
	struct fusion_set *set;
	unsigned long flags;

	if (READ_ONCE(open->spare))
		return 0;
	set = kmalloc(bytes, GFP_NOIO);
	if (!set)
		return -ENOMEM;
	spin_lock_irqsave(&class->lock, flags);
	swap(set, open->spare);
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
	r = fusion_open_spare(class, &class->tops,
			      struct_size((struct fusion_set *)NULL, owner,
					  class->d));
	return r ? r : fusion_space_refill(s, class, fusion_set_stripes(class),
					   commit_lock);
}

static void open_exit(struct fusion_open *open)
{
	while (open->count)
		kfree(open->set[--open->count]);
	kfree(open->spare);
}

void fusion_sets_exit(struct fusion_space *s)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
		open_exit(&s->class[i]->tops);
		open_exit(&s->class[i]->patches);
		open_exit(&s->class[i]->parity);
	}
}
