// SPDX-License-Identifier: GPL-2.0-only
/*
 * Space.  See space.h.
 */
#include <linux/bitmap.h>
#include <linux/device-mapper.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "monitor.h"
#include "region.h"
#include "spare.h"

/* Draws to find a stripe of which no unresponsive, or no silent, member has a slot. */
#define DRAW_TRIES	5

/* ---- bands ---- */

static int band_alloc_bits(struct fusion_band *b, u32 stripes)
{
	u32 templates = stripes / fusion_template_stripes(b->layout);
	size_t longs = BITS_TO_LONGS(stripes), more = BITS_TO_LONGS(templates);
	unsigned long *bits;

	/* a template has fewer than FUSION_MAX_MEMBERS squared stripes */
	BUILD_BUG_ON(FUSION_MAX_MEMBERS * FUSION_MAX_MEMBERS > U16_MAX);
	bits = kvcalloc(4 * longs + more +
			DIV_ROUND_UP(templates * sizeof(u16), sizeof(*bits)),
			sizeof(*bits), GFP_NOIO);
	b->live = kvmalloc(stripes, GFP_NOIO);
	b->spared = kvzalloc(stripes, GFP_NOIO);
	if (!bits || !b->live || !b->spared) {
		kvfree(bits);
		fusion_band_unload(b);
		return -ENOMEM;
	}
	memset(b->live, FUSION_LIVE_OTHER, stripes);
	b->held_bits = bits + longs;
	b->dying_bits = bits + 2 * longs;
	b->burying_bits = bits + 3 * longs;
	b->emptied_bits = bits + 4 * longs;
	b->template_used = (u16 *)(bits + 4 * longs + more);
	b->bits = bits;
	return 0;
}

void fusion_band_unload(struct fusion_band *b)
{
	kvfree(b->bits);
	kvfree(b->live);
	kvfree(b->spared);
	b->live = NULL;
	b->spared = NULL;
	b->bits = NULL;
	b->used_bits = NULL;
	b->held_bits = NULL;
	b->dying_bits = NULL;
	b->burying_bits = NULL;
	b->emptied_bits = NULL;
	b->template_used = NULL;
}

/* A band is loaded: it goes to the draws of its class. */
static void band_publish(struct fusion_band *b)
{
	struct fusion_class *class = b->class;
	unsigned long flags;

	spin_lock_irqsave(&class->lock, flags);
	/* release: who sees that it is loaded sees what has been */
	smp_store_release(&b->used_bits, b->bits);
	if (!b->evacuated)
		class->free += b->stripes - b->used;
	list_add_tail(&b->list, b->used < b->stripes && !b->evacuated ?
		      &class->bands : &class->full);
	spin_unlock_irqrestore(&class->lock, flags);
}

/* A free band becomes one of @class.  Under space->lock. */
static int band_assign(struct fusion_space *s, struct fusion_class *class)
{
	u32 stripes = fusion_region_stripes(s->newest, class);
	struct fusion_band *b;
	int r;

	b = list_first_entry_or_null(&s->free_bands, struct fusion_band, list);
	if (!b)
		return -ENOSPC;
	r = band_alloc_bits(b, stripes);
	if (r)
		return r;
	list_del(&b->list);
	s->free_band_count--;
	b->class = class;
	b->stripes = stripes;
	b->used = 0;
	class->stripes += b->stripes;
	band_publish(b);
	return 0;
}

/*
 * Find out which stripes of a band are in use: those that are stored.  No
 * commit may be under way and no grace period: a stripe in one is not stored
 * any more but may still be read.  Under space->lock.
 */
static int band_load(struct fusion_space *s, struct fusion_band *b)
{
	u64 stripe = fusion_stripe_id(b->number, 0);
	struct fusion_disk_stripe disk;
	unsigned int used = 0;
	int r;

	r = band_alloc_bits(b, b->stripes);
	if (r)
		return r;
	for (;; stripe++) {
		r = fusion_md_next_stripe(s->md, &stripe, &disk);
		if (r || fusion_stripe_band(stripe) != b->number)
			break;
		r = fusion_space_check_stripe(s, stripe, &disk);
		if (r)
			break;
		if (!fusion_spared_ok(s, disk.spared)) {
			fusion_md_damaged(s->md, "stripe %llx is in spares that are not in use",
					  stripe);
			r = -EIO;
			break;
		}
		b->spared[fusion_stripe_index(stripe)] = disk.spared;
		__set_bit(fusion_stripe_index(stripe), b->bits);
		b->live[fusion_stripe_index(stripe)] = fusion_stripe_live(&disk);
		++*fusion_band_template(b, fusion_stripe_index(stripe));
		used++;
	}
	/* what is in use is counted with each change: to free one more loses what it has */
	if ((!r || r == -ENODATA) && used != b->stored) {
		fusion_md_damaged(s->md, "band %u has %u stripes, and is said to have %u",
				  b->number, used, b->stored);
		r = -EIO;
	}
	if (r && r != -ENODATA) {
		fusion_band_unload(b);
		return r;
	}
	if (!b->evacuated)
		WRITE_ONCE(b->class->unloaded,
			   b->class->unloaded - (b->stripes - b->used));
	b->used = used;
	band_publish(b);
	return 0;
}

/* ---- what may be drawn ---- */

static u64 class_reserve(const struct fusion_class *class)
{
	return fusion_reserve_stripes(READ_ONCE(class->stripes));
}

/* What those who write leave: beside the reserve, what old bands are moved into. */
static u64 class_kept(struct fusion_space *s, const struct fusion_class *class)
{
	return class_reserve(class) + (likely(!READ_ONCE(class->old_bands)) ? 0 :
				       s->moving_bands *
				       (u64)fusion_region_stripes(s->newest, class));
}

/* Free bands that @class may have: not those that others need for what they are to keep. */
static u32 class_bands(struct fusion_space *s, const struct fusion_class *class)
{
	u64 bands = READ_ONCE(s->free_band_count), kept, free, needed;
	unsigned int i;

	if (likely(!fusion_space_growing(s)))
		return bands;
	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
		if (s->class[i] == class || !READ_ONCE(s->class[i]->old_bands))
			continue;
		kept = class_kept(s, s->class[i]);
		free = READ_ONCE(s->class[i]->free);
		needed = kept <= free ? 0 :
			DIV_ROUND_UP_ULL(kept - free, fusion_region_stripes(s->newest, s->class[i]));
		bands -= min(bands, needed);
	}
	return bands;
}

/* Free to those who write, in stripes: loaded or not, and of free bands. */
static u64 class_available(struct fusion_space *s, struct fusion_class *class)
{
	u64 free = READ_ONCE(class->free) + READ_ONCE(class->unloaded) +
		(u64)class_bands(s, class) * fusion_region_stripes(s->newest, class);
	u64 kept = class_kept(s, class);

	return free > kept ? free - kept : 0;
}

u64 fusion_space_available_blocks(struct fusion_space *s,
				  struct fusion_class *class)
{
	return class_available(s, class) * class->k;
}

bool fusion_space_may_grow(struct fusion_space *s, struct fusion_class *class)
{
	u32 margin = fusion_class_margin(class);

	return READ_ONCE(class->free) >= class_kept(s, class) + margin ||
		class_available(s, class) >= margin;
}

/* So little is free that those who write get of what becomes free. */
static bool class_slow(struct fusion_space *s, struct fusion_class *class)
{
	return READ_ONCE(s->reclaimable) &&
		fusion_space_available_blocks(s, class) < s->slow_zone;
}

bool fusion_space_allows(struct fusion_space *s, struct fusion_class *class,
			 unsigned int count)
{
	s64 blocks = count * class->k;

	lockdep_assert_held(&class->lock);
	if (class->free < class_kept(s, class) + count)
		return false;
	if (!class_slow(s, class) ||
	    atomic64_sub_return(blocks, &s->budget) >= 0)
		return true;
	atomic64_add(blocks, &s->budget);
	return false;
}

/* As above, without a lock and without drawing. */
static bool class_has(struct fusion_space *s, struct fusion_class *class,
		      unsigned int count)
{
	return READ_ONCE(class->free) >= class_kept(s, class) + count &&
		(!class_slow(s, class) ||
		 atomic64_read(&s->budget) >= count * class->k);
}

/* Could @b be loaded for @class?  Under space->lock. */
static bool band_loadable(const struct fusion_band *b,
			  const struct fusion_class *class)
{
	return b->class == class && !fusion_band_loaded(b) &&
		!fusion_band_emptied(b);
}

/* Have no stripe dying, under the commit mutex; false: let that go, and wait for the calm. */
static bool space_bury_all(struct fusion_space *s)
{
	if (!fusion_grace_wait_hurried(s->grace))
		return false;
	if (!s->has_dying)
		return true;
	/* what died while that period was under way */
	fusion_space_begin_bury(s);
	fusion_grace_start(s->grace);
	return fusion_grace_wait_hurried(s->grace);
}

/*
 * Load one more band of @class; if @room, one that has free stripes.
 * -ENOENT: there is none.
 *
 * Not after a commit that failed: what it released, the metadata that the next
 * start finds refers to, and the trees that are open say something else.
 */
static int class_load(struct fusion_space *s, struct fusion_class *class,
		      bool room, struct mutex *commit_lock)
{
	struct fusion_band *b;
	int r = -ENOENT;

	mutex_lock(commit_lock);
	while (!READ_ONCE(s->frozen) && !space_bury_all(s)) {
		mutex_unlock(commit_lock);
		fusion_grace_wait_calm(s->grace);
		mutex_lock(commit_lock);
	}
	if (READ_ONCE(s->frozen)) {
		mutex_unlock(commit_lock);
		return -EIO;
	}
	mutex_lock(&s->lock);
	fusion_for_each_band(s, b) {
		if (!band_loadable(b, class) ||
		    (room && (b->used == b->stripes || b->evacuated)))
			continue;
		r = band_load(s, b);
		break;
	}
	mutex_unlock(&s->lock);
	mutex_unlock(commit_lock);
	return r;
}

int fusion_space_refill(struct fusion_space *s, struct fusion_class *class,
			unsigned int need, struct mutex *commit_lock)
{
	int r = 0;

	while (!r && READ_ONCE(class->free) < class_kept(s, class) + need) {
		mutex_lock(&s->lock);
		/* another may have been here first */
		if (READ_ONCE(class->free) < class_kept(s, class) + need)
			r = class_bands(s, class) ? band_assign(s, class) : -ENOSPC;
		mutex_unlock(&s->lock);
		if (r == -ENOSPC)
			r = class_load(s, class, true, commit_lock);
	}
	if (r && r != -ENOENT)
		return r;
	return class_has(s, class, need) ? 0 : -ENOSPC;
}

static bool class_unloaded(struct fusion_space *s, struct fusion_class *class)
{
	struct fusion_band *b;
	bool any = false;

	mutex_lock(&s->lock);
	fusion_for_each_band(s, b) {
		any = band_loadable(b, class);
		if (any)
			break;
	}
	mutex_unlock(&s->lock);
	return any;
}

int fusion_space_load(struct fusion_space *s, struct fusion_class *class,
		      struct mutex *commit_lock)
{
	int r = 0;

	while (!r && class_unloaded(s, class)) {
		r = class_load(s, class, false, commit_lock);
		cond_resched();
	}
	return r == -ENOENT ? 0 : r;
}

int fusion_space_load_all(struct fusion_space *s, struct mutex *commit_lock)
{
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < FUSION_MAX_CLASSES && s->class[i]; i++)
		r = fusion_space_load(s, s->class[i], commit_lock);
	return r;
}

int fusion_space_adopt(struct fusion_space *s, struct fusion_class *class, u64 stripe)
{
	struct fusion_band *b;
	u32 stripes;

	if (!fusion_band_exists(s, fusion_stripe_band(stripe)))
		return -EINVAL;
	b = fusion_space_band(s, stripe);
	stripes = fusion_region_stripes(fusion_band_region(s, b), class);
	if (fusion_stripe_index(stripe) >= stripes)
		return -EINVAL;
	if (b->class == class)
		return 0;
	/* an old one gets no class any more; nor does one that old ones in use overlap */
	if (fusion_band_old(s, b) || b->below)
		return -EINVAL;
	/* one that has been emptied is stored as one of the class that it was of */
	if (b->class && b->stored)
		return -EINVAL;
	if (!b->class)
		list_del(&b->list);
	b->class = class;
	b->stripes = stripes;
	return 0;
}

bool fusion_space_place_ok(const struct fusion_space *s, u64 place)
{
	u64 stripe = fusion_place_stripe(place);
	const struct fusion_band *b;

	if (!(place & FUSION_PLACE_VALID) || place >= FUSION_PLACE_VALID << 1 ||
	    !fusion_band_exists(s, fusion_stripe_band(stripe)))
		return false;
	b = fusion_space_band(s, stripe);
	return b->class && fusion_stripe_index(stripe) < b->stripes &&
		fusion_place_slot(place) < b->class->k;
}

int fusion_space_check_stripe(const struct fusion_space *s, u64 stripe,
			      const struct fusion_disk_stripe *disk)
{
	u64 live = le64_to_cpu(disk->live), written = le64_to_cpu(disk->written), slots;
	const struct fusion_class *class;
	bool ok = stripe < 1ULL << FUSION_STRIPE_BITS &&
		fusion_space_place_ok(s, fusion_place(stripe, 0));

	if (ok) {
		class = fusion_space_class_of(s, stripe);
		slots = fusion_mask(0, disk->state == FUSION_STRIPE_MIRROR ? class->k : class->d);
		ok = disk->state >= FUSION_STRIPE_PRIMARY && disk->state <= FUSION_STRIPE_RAID &&
			live && !(live & ~written) && !(written & ~slots);
	}
	if (ok)
		return 0;
	fusion_md_damaged(s->md, "stripe %llx cannot be what it is said to be", stripe);
	return -EIO;
}

bool fusion_space_base_ok(const struct fusion_space *s, const struct fusion_class *class,
			  u64 place)
{
	return fusion_space_place_ok(s, place) && fusion_place_slot(place) < class->d &&
		fusion_space_class_of(s, fusion_place_stripe(place)) == class;
}

bool fusion_space_replicas_ok(const struct fusion_space *s, const struct fusion_class *class,
			      const u64 *place)
{
	unsigned int i;

	if (!fusion_space_base_ok(s, class, place[0]))
		return false;
	for (i = 1; i <= class->p; i++)
		if (!fusion_space_place_ok(s, place[i]) ||
		    fusion_space_class_of(s, fusion_place_stripe(place[i])) !=
		    class)
			return false;
	return i == FUSION_MAX_REPLICAS || !place[i];
}

int fusion_space_decode_top(const struct fusion_space *s,
			    const struct fusion_class *class,
			    const struct fusion_disk_top *disk,
			    struct fusion_top *top)
{
	if (fusion_top_decode(disk, s->block_sectors / FUSION_PAGE_SECTORS,
			      top) ||
	    !fusion_space_replicas_ok(s, class, top->place))
		return -EINVAL;
	return 0;
}

int fusion_space_decode_patches(const struct fusion_space *s,
				const struct fusion_class *class,
				const struct fusion_disk_patches *disk,
				struct fusion_patches *patches)
{
	u64 place[FUSION_MAX_REPLICAS];
	unsigned int n;

	if (fusion_patches_decode(disk, s->block_sectors / FUSION_PAGE_SECTORS,
				  patches))
		return -EINVAL;
	for (n = 0; n < fusion_popcount64(patches->mask); n++) {
		fusion_patch_slots(&patches->patch[n], place);
		if (!fusion_space_replicas_ok(s, class, place))
			return -EINVAL;
	}
	return 0;
}

int fusion_space_next_patches(const struct fusion_space *s, u32 volume,
			      const struct fusion_class *class, u64 *block,
			      struct fusion_patches *patches)
{
	union fusion_disk_patches_room disk;
	int r;

	r = fusion_md_next_patches(s->md, volume, block, &disk.patches);
	if (r)
		return r;
	if (!fusion_space_decode_patches(s, class, &disk.patches, patches))
		return 0;
	fusion_md_damaged(s->md, "volume %u block %llu has impossible patches", volume, *block);
	return -EIO;
}

/* The class says how many parities a row has: that of the patches, if all are of one. */
int fusion_space_decode_row(const struct fusion_space *s,
			    const struct fusion_disk_row *disk, u64 key,
			    struct fusion_row *row)
{
	u64 place[FUSION_MAX_REPLICAS];
	struct fusion_patch first;
	struct fusion_class *class;
	unsigned int i, pages = s->block_sectors / FUSION_PAGE_SECTORS;

	if (fusion_patch_decode(&disk->patch[0], pages, &first))
		return -EINVAL;
	fusion_patch_slots(&first, place);
	if (!fusion_space_place_ok(s, place[0]))
		return -EINVAL;
	class = fusion_space_class_of(s, fusion_place_stripe(place[0]));
	if (fusion_row_decode(disk, key, class->d, class->p, pages, row))
		return -EINVAL;
	/* its stripe is of that class, if the band still is of one */
	if (!fusion_band_exists(s, fusion_stripe_band(row->stripe)) ||
	    (fusion_space_class_of(s, row->stripe) &&
	     fusion_space_class_of(s, row->stripe) != class))
		return -EINVAL;
	for (i = 0; i < class->p + fusion_popcount64(row->changed); i++) {
		fusion_patch_slots(i < class->p ? &row->parity[i] :
				   &row->patch[i - class->p], place);
		if (!fusion_space_replicas_ok(s, class, place))
			return -EINVAL;
	}
	return 0;
}

/* ---- drawing ---- */

static u32 class_random(struct fusion_class *class)
{
	u32 x = class->random;

	/* xorshift32 (Marsaglia): balance comes from the layout, not from this */
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return class->random = x;
}

u64 fusion_space_draw_locked(struct fusion_space *s, struct fusion_class *class)
{
	struct fusion_band *b;
	u32 start, i;

	lockdep_assert_held(&class->lock);
	b = list_first_entry_or_null(&class->bands, struct fusion_band, list);
	if (!b)
		return FUSION_NO_STRIPE;
	start = (u64)class_random(class) * b->stripes >> 32;
	i = find_next_zero_bit(b->used_bits, b->stripes, start);
	if (i >= b->stripes)
		i = find_first_zero_bit(b->used_bits, b->stripes);
	__set_bit(i, b->used_bits);
	__set_bit(i, b->held_bits);
	WRITE_ONCE(b->spared[i], fusion_spares_draw(s, b, i));
	++*fusion_band_template(b, i);
	fusion_band_use(b, 1);
	return fusion_stripe_id(b->number, i);
}

void fusion_space_free_locked(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	u32 i = fusion_stripe_index(stripe);

	lockdep_assert_held(&b->class->lock);
	__clear_bit(i, b->used_bits);
	__clear_bit(i, b->held_bits);
	b->live[i] = FUSION_LIVE_OTHER;
	--*fusion_band_template(b, i);
	fusion_band_use(b, -1);
}

/* The most that speaks against a member of @stripe that is not out: see fusion_member_burden(). */
static int space_burden(struct fusion_space *s, struct fusion_class *class, u64 stripe)
{
	u8 members[FUSION_MAX_MEMBERS];
	int burden, most = 0;
	unsigned int i;

	fusion_space_members(s, stripe, members);
	for (i = 0; i < class->k; i++) {
		burden = fusion_member_burden(&s->member[members[i]]);
		if (likely(burden < FUSION_BURDEN_OUT))
			most = max(most, burden);
	}
	return most;
}

u64 fusion_space_draw_responsive(struct fusion_space *s, struct fusion_class *class)
{
	u64 stripe = fusion_space_draw_locked(s, class);
	unsigned int tries;
	int first, most;

	if (stripe == FUSION_NO_STRIPE)
		return stripe;
	first = space_burden(s, class, stripe);
	most = first;
	/* one without silent members, or then as long one without unresponsive ones */
	for (tries = 1; tries < 2 * DRAW_TRIES - 1; tries++) {
		if (likely(most < (tries < DRAW_TRIES ? FUSION_BURDEN_SILENT :
				   FUSION_BURDEN_UNRESPONSIVE)))
			break;
		fusion_space_free_locked(s, stripe);
		stripe = fusion_space_draw_locked(s, class);
		if (stripe == FUSION_NO_STRIPE)
			return stripe;
		most = space_burden(s, class, stripe);
	}
	fusion_monitor_chose(s->monitor, first, most, true);
	return stripe;
}

int fusion_space_draw_stripe(struct fusion_space *s, struct fusion_class *class,
			     u64 *stripe)
{
	unsigned long flags;

	spin_lock_irqsave(&class->lock, flags);
	*stripe = fusion_space_allows(s, class, 1) ?
		fusion_space_draw_responsive(s, class) : FUSION_NO_STRIPE;
	spin_unlock_irqrestore(&class->lock, flags);
	return *stripe == FUSION_NO_STRIPE ? -EAGAIN : 0;
}

/* Draw one, and leave @keep. */
static int space_draw(struct fusion_space *s, struct fusion_class *class, u64 keep,
		      u64 *stripe)
{
	unsigned long flags;
	int r = 0;

	while (!r) {
		spin_lock_irqsave(&class->lock, flags);
		*stripe = class->free > keep ? fusion_space_draw_locked(s, class) :
			FUSION_NO_STRIPE;
		spin_unlock_irqrestore(&class->lock, flags);
		if (*stripe != FUSION_NO_STRIPE)
			return 0;
		mutex_lock(&s->lock);
		if (READ_ONCE(class->free) <= keep)
			r = !keep || class_bands(s, class) ? band_assign(s, class) : -ENOSPC;
		mutex_unlock(&s->lock);
	}
	return r;
}

int fusion_space_draw_reserved(struct fusion_space *s,
			       struct fusion_class *class, u64 *stripe)
{
	return space_draw(s, class, 0, stripe);
}

int fusion_space_draw_moved(struct fusion_space *s, struct fusion_class *class, u64 *stripe)
{
	return space_draw(s, class, class_reserve(class), stripe);
}

bool fusion_space_may_move(struct fusion_space *s, struct fusion_class *class)
{
	return READ_ONCE(class->free) > class_reserve(class) || class_bands(s, class);
}

u64 fusion_space_grow_bands(struct fusion_space *s, const struct fusion_region *g,
			    const struct fusion_class *class)
{
	u32 stripes = fusion_region_stripes(g, class);

	/* to move into, and what those who write need, and leave */
	return fusion_region_moving(g, s->newest) +
		DIV_ROUND_UP_ULL(class_reserve(class) + fusion_class_margin(class) + 1,
				 stripes);
}

void fusion_space_unhold(struct fusion_space *s, u64 stripe, bool live)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	unsigned long flags;

	spin_lock_irqsave(&b->class->lock, flags);
	if (live)
		__clear_bit(fusion_stripe_index(stripe), b->held_bits);
	else
		fusion_space_free_locked(s, stripe);
	spin_unlock_irqrestore(&b->class->lock, flags);
}

void fusion_space_hold(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	unsigned long flags;

	spin_lock_irqsave(&b->class->lock, flags);
	WARN_ON_ONCE(__test_and_set_bit(fusion_stripe_index(stripe), b->held_bits));
	spin_unlock_irqrestore(&b->class->lock, flags);
}

bool fusion_space_held(struct fusion_space *s, u64 stripe)
{
	struct fusion_band *b = fusion_space_band(s, stripe);
	unsigned long flags;
	bool held;

	/* a band is loaded under the commit mutex, with nothing held */
	if (!fusion_band_loaded(b))
		return false;
	spin_lock_irqsave(&b->class->lock, flags);
	held = test_bit(fusion_stripe_index(stripe), b->held_bits);
	spin_unlock_irqrestore(&b->class->lock, flags);
	return held;
}

/* ---- set-up and status ---- */

static struct fusion_class *class_new(unsigned int index, unsigned int d,
					 unsigned int p)
{
	struct fusion_class *class = kzalloc(sizeof(*class), GFP_KERNEL);

	if (!class)
		return NULL;
	class->index = index;
	class->d = d;
	class->p = p;
	class->k = d + p;
	class->random = get_random_u32() | 1;
	class->fruitless = 1;
	spin_lock_init(&class->lock);
	INIT_LIST_HEAD(&class->bands);
	INIT_LIST_HEAD(&class->full);
	return class;
}

struct fusion_class *fusion_space_class(struct fusion_space *s, unsigned int d,
					unsigned int p)
{
	struct fusion_disk_class *disk = fusion_md_super(s->md)->class;
	struct fusion_class *class;
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++)
		if (s->class[i]->d == d && s->class[i]->p == p)
			return s->class[i];
	if (i == FUSION_MAX_CLASSES)
		return NULL;
	class = class_new(i, d, p);
	if (!class)
		return NULL;
	disk[i].data = d;
	disk[i].parity = p;
	s->class[i] = class;
	return class;
}

static int band_get(struct fusion_space *s, const struct fusion_region *g,
		    struct fusion_band *b)
{
	struct fusion_disk_band disk;
	u32 used, stripes;
	unsigned int c;
	int r;

	r = fusion_md_get_band(s->md, b->number, &disk);
	c = le16_to_cpu(disk.class);
	if (r || !c)
		return r;
	used = le32_to_cpu(disk.used);
	stripes = c <= FUSION_MAX_CLASSES && s->class[c - 1] ?
		fusion_region_stripes(g, s->class[c - 1]) : 0;
	if (!used || used > stripes ||
	    le16_to_cpu(disk.layout_generation) != fusion_band_generation(s, b)) {
		fusion_md_damaged(s->md, "band %u cannot be what it is said to be", b->number);
		return -EINVAL;
	}
	b->class = s->class[c - 1];
	b->stripes = stripes;
	b->stored = used;
	b->used = used;
	b->class->stripes += b->stripes;
	b->class->unloaded += b->stripes - b->used;
	return 0;
}

static int space_load_bands(struct fusion_space *s)
{
	struct fusion_band *b;
	int r = 0;

	fusion_for_each_band(s, b) {
		r = band_get(s, fusion_band_region(s, b), b);
		if (r)
			return r;
	}
	return fusion_region_find_free(s);
}

static int space_make_regions(struct fusion_space *s)
{
	const struct fusion_md_super *super = fusion_md_super(s->md);
	unsigned int generation = super->layout_generation;
	int r;

	s->newest = &s->region[generation & 1];
	r = fusion_region_make(s->newest, s->layout, generation, super->band_units,
			       super->bands);
	if (!r && super->old_members)
		r = fusion_region_make(fusion_space_old(s), s->old_layout, generation - 1,
				       super->old_band_units, super->old_bands);
	return r;
}

void fusion_space_stock(struct fusion_space *s, struct fusion_stock *stock)
{
	unsigned int i;

	memset(stock, 0, sizeof(*stock));
	stock->total = fusion_region_blocks(s->newest);
	stock->free = fusion_region_band_blocks(s->newest) * READ_ONCE(s->free_band_count);
	for (i = 0; i < FUSION_MAX_CLASSES && s->class[i]; i++) {
		struct fusion_class *class = s->class[i];

		stock->free += (READ_ONCE(class->free) +
				READ_ONCE(class->unloaded)) * class->k;
		if (READ_ONCE(class->stripes))
			stock->reserve += class_kept(s, class) * class->k;
	}
	stock->replicated = atomic64_read(&s->replica_blocks);
	stock->patched = atomic64_read(&s->patch_blocks);
	stock->growing = fusion_space_growing(s);
}

int fusion_space_init(struct fusion_space *s)
{
	struct fusion_md_super *super = fusion_md_super(s->md);
	unsigned int i;
	int r;

	mutex_init(&s->lock);
	INIT_LIST_HEAD(&s->free_bands);
	INIT_LIST_HEAD(&s->emptied_bands);
	r = space_make_regions(s);
	if (r)
		goto bad;
	s->slow_zone = fusion_slow_zone(fusion_region_blocks(s->newest));
	for (i = 0; i < FUSION_MAX_CLASSES && super->class[i].data; i++) {
		s->class[i] = class_new(i, super->class[i].data,
					   super->class[i].parity);
		if (!s->class[i]) {
			r = -ENOMEM;
			goto bad;
		}
	}
	r = space_load_bands(s);
	if (r)
		goto bad;
	return 0;
bad:
	fusion_space_exit(s);
	return r;
}

void fusion_space_exit(struct fusion_space *s)
{
	unsigned int i;

	for (i = 0; i < FUSION_MAX_CLASSES; i++)
		kfree(s->class[i]);
	for (i = 0; i < ARRAY_SIZE(s->region); i++)
		fusion_region_free(&s->region[i]);
}

void fusion_space_blocks(struct fusion_space *s, u64 *free_blocks,
			 u64 *used_blocks)
{
	struct fusion_band *b;

	*free_blocks = fusion_region_band_blocks(s->newest) * READ_ONCE(s->free_band_count);
	*used_blocks = 0;
	fusion_for_each_band(s, b) {
		struct fusion_class *class = READ_ONCE(b->class);
		u64 used = READ_ONCE(b->used);

		if (!class)
			continue;
		*used_blocks += used * class->k;
		if (!fusion_band_old(s, b))
			*free_blocks += (b->stripes - used) * class->k;
	}
}

u64 fusion_space_old_blocks(struct fusion_space *s)
{
	struct fusion_region *old = fusion_space_old(s);
	u64 blocks = 0;
	u32 i;

	/* pairs with fusion_region_grow() */
	for (i = 0; i < smp_load_acquire(&old->count); i++) {
		struct fusion_class *class = READ_ONCE(old->band[i].class);

		if (class)
			blocks += (u64)READ_ONCE(old->band[i].used) * class->k;
	}
	return blocks;
}
