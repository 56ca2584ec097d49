// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages to the pool.  Reasons of failures are in the kernel's log.
 */
#include "commit.h"
#include "failure.h"
#include "io.h"
#include "mode.h"
#include "pools.h"
#include "rebuild.h"
#include "reclaim.h"
#include "return.h"
#include "scrub.h"
#include "settings.h"
#include "volume-table.h"
#include "volumes.h"

#define DM_MSG_PREFIX "fusion"

static int parse_u32(struct fusion_pool *pool, const char *what,
		     const char *arg, u32 *value)
{
	if (!kstrtou32(arg, 10, value))
		return 0;
	DMERR("%s: %s must be a number, not '%s'", fusion_pool_name(pool), what,
	      arg);
	return -EINVAL;
}

static int parse_u64(struct fusion_pool *pool, const char *what,
		     const char *arg, u64 *value)
{
	if (!kstrtou64(arg, 10, value))
		return 0;
	DMERR("%s: %s must be a number, not '%s'", fusion_pool_name(pool), what,
	      arg);
	return -EINVAL;
}

/* The number of a member. */
static int parse_member(struct fusion_pool *pool, const char *arg, u32 *member)
{
	if (parse_u32(pool, "member", arg, member))
		return -EINVAL;
	if (*member < pool->layout->n)
		return 0;
	DMERR("%s: there are members 0 to %u, not %u", fusion_pool_name(pool),
	      pool->layout->n - 1, *member);
	return -EINVAL;
}

static int msg_create_volume(struct fusion_pool *pool, char **argv)
{
	u32 id, data, parity;
	u64 sectors;

	if (parse_u32(pool, "volume id", argv[1], &id) ||
	    parse_u64(pool, "size", argv[3], &sectors) ||
	    parse_u32(pool, "data slots", argv[4], &data) ||
	    parse_u32(pool, "parity slots", argv[5], &parity))
		return -EINVAL;
	return fusion_volume_create(pool, id, argv[2], sectors, data, parity);
}

static int msg_delete_volume(struct fusion_pool *pool, char **argv)
{
	struct fusion_volume *v;
	u32 id;
	int r;

	if (parse_u32(pool, "volume id", argv[1], &id))
		return -EINVAL;
	mutex_lock(&fusion_pools_lock);
	mutex_lock(&pool->commit_lock);
	v = fusion_volume_find(pool, id);
	r = v && v->users ? -EBUSY : 0;
	if (r)
		DMERR("%s: volume %s is in use: remove its device first",
		      fusion_pool_name(pool), v->name);
	mutex_unlock(&pool->commit_lock);
	if (!r)
		r = fusion_volume_mark_deleted(pool, id);
	mutex_unlock(&fusion_pools_lock);
	return r ? r : fusion_volumes_delete_marked(pool);
}

static int msg_resize_volume(struct fusion_pool *pool, char **argv)
{
	u64 sectors;
	u32 id;

	if (parse_u32(pool, "volume id", argv[1], &id) ||
	    parse_u64(pool, "size", argv[2], &sectors))
		return -EINVAL;
	return fusion_volume_resize(pool, id, sectors);
}

static int msg_commit(struct fusion_pool *pool, char **argv)
{
	return fusion_commit(pool);
}

static int msg_resync(struct fusion_pool *pool, char **argv)
{
	return fusion_resync_wait(pool);
}

static int msg_convert(struct fusion_pool *pool, char **argv)
{
	return fusion_reclaim_all(pool);
}

static int msg_fail(struct fusion_pool *pool, char **argv)
{
	u32 member;

	if (parse_member(pool, argv[1], &member))
		return -EINVAL;
	return fusion_failure_make(pool, member);
}

static int msg_return(struct fusion_pool *pool, const char *member, bool keep)
{
	u32 i;

	if (parse_member(pool, member, &i))
		return -EINVAL;
	return fusion_return(pool, i, keep);
}

static int msg_readd(struct fusion_pool *pool, char **argv)
{
	return msg_return(pool, argv[1], true);
}

static int msg_replace(struct fusion_pool *pool, char **argv)
{
	return msg_return(pool, argv[1], false);
}

static int msg_set(struct fusion_pool *pool, char **argv)
{
	u64 value;
	u32 max;
	int r;

	if (parse_u64(pool, argv[1], argv[2], &value))
		return -EINVAL;
	r = fusion_set_setting(pool, argv[1], value, &max);
	if (r == -ENOENT)
		DMERR("%s: there is no setting '%s'", fusion_pool_name(pool),
		      argv[1]);
	else if (r)
		DMERR("%s: %s must be 0 to %u, not %llu",
		      fusion_pool_name(pool), argv[1], max, value);
	return r ? -EINVAL : 0;
}

static int msg_scrub(struct fusion_pool *pool, char **argv)
{
	return fusion_scrub_all(pool, false);
}

static int msg_scrub_restart(struct fusion_pool *pool, char **argv)
{
	fusion_scrub_restart(pool);
	return 0;
}

static int msg_rebuild(struct fusion_pool *pool, char **argv)
{
	return fusion_rebuild_all(pool);
}

static int msg_repair(struct fusion_pool *pool, char **argv)
{
	return fusion_scrub_all(pool, true);
}

/* Answers with a line for each volume: 1, or 2 if there was no room. */
static int msg_volumes(struct fusion_pool *pool, char *result,
		       unsigned int maxlen)
{
	struct fusion_volume *v;
	unsigned int sz = 0;

	mutex_lock(&pool->commit_lock);
	list_for_each_entry(v, &pool->volumes, list)
		DMEMIT("%u %s %llu %u %u %llu %llu %s\n", v->id, v->name,
		       v->blocks << pool->block_shift, v->class->d,
		       v->class->p, v->mapped, v->tops,
		       v->deleting ? "deleting" : "ok");
	mutex_unlock(&pool->commit_lock);
	/* an answer may not be empty: dm would take it for none */
	if (!sz)
		DMEMIT("\n");
	return 1;
}

/* As msg_volumes(): a line for each setting. */
static int msg_settings(struct fusion_pool *pool, char *result,
			unsigned int maxlen)
{
	const char *name;
	unsigned int i, sz = 0;
	u32 value;

	for (i = 0; (name = fusion_setting(pool, i, &value)); i++)
		DMEMIT("%s %u\n", name, value);
	return 1;
}

/* As msg_volumes(): a line for each member; times in microseconds. */
static int msg_pulse(struct fusion_pool *pool, char *result, unsigned int maxlen)
{
	struct fusion_pulse_report r;
	unsigned int i, sz = 0;

	for (i = 0; i < pool->layout->n; i++) {
		fusion_monitor_report(&pool->monitor, &pool->member[i], &r);
		DMEMIT("%u %s %lld %llu %llu %llu %llu %llu %llu %llu %u %u %llu\n", i,
		       r.unresponsive ? "unresponsive" : "responsive", r.stragglers, r.spikes,
		       div_u64(r.spike_ns, NSEC_PER_USEC),
		       div_u64(r.of[0].median, NSEC_PER_USEC), div_u64(r.of[0].p99, NSEC_PER_USEC),
		       div_u64(r.of[1].median, NSEC_PER_USEC), div_u64(r.of[1].p99, NSEC_PER_USEC),
		       div_u64(r.window_ns, NSEC_PER_USEC), r.enter, r.exit, r.per_s);
	}
	return 1;
}

static const struct {
	const char *name;
	unsigned int argc;
	bool changes;
	const char *usage;
	int (*fn)(struct fusion_pool *pool, char **argv);
} messages[] = {
	{ "create_volume", 6, true,
	  "create_volume <id> <name> <sectors> <data> <parity>",
	  msg_create_volume },
	{ "delete_volume", 2, true, "delete_volume <id>", msg_delete_volume },
	{ "resize_volume", 3, true, "resize_volume <id> <sectors>",
	  msg_resize_volume },
	{ "commit", 1, true, "commit", msg_commit },
	{ "resync", 1, false, "resync", msg_resync },
	{ "convert", 1, true, "convert", msg_convert },
	{ "fail", 2, true, "fail <member>", msg_fail },
	{ "readd", 2, true, "readd <member>", msg_readd },
	{ "replace", 2, true, "replace <member>", msg_replace },
	{ "set", 3, false, "set <name> <value>", msg_set },
	{ "scrub", 1, false, "scrub", msg_scrub },
	{ "scrub_restart", 1, false, "scrub_restart", msg_scrub_restart },
	{ "repair", 1, true, "repair", msg_repair },
	{ "rebuild", 1, true, "rebuild", msg_rebuild },
};

int fusion_pool_message(struct fusion_pool *pool, unsigned int argc,
			char **argv, char *result, unsigned int bytes)
{
	unsigned int i;

	if (!READ_ONCE(pool->active)) {
		DMERR("%s: the pool is suspended: resume it first",
		      fusion_pool_name(pool));
		return -EAGAIN;
	}
	if (argc == 1 && !strcasecmp(argv[0], "volumes"))
		return msg_volumes(pool, result, bytes);
	if (argc == 1 && !strcasecmp(argv[0], "settings"))
		return msg_settings(pool, result, bytes);
	if (argc == 1 && !strcasecmp(argv[0], "pulse"))
		return msg_pulse(pool, result, bytes);
	for (i = 0; i < ARRAY_SIZE(messages); i++) {
		if (strcasecmp(argv[0], messages[i].name))
			continue;
		if (argc != messages[i].argc) {
			DMERR("%s: usage: %s", fusion_pool_name(pool),
			      messages[i].usage);
			return -EINVAL;
		}
		if (messages[i].changes && !fusion_pool_writable(pool)) {
			DMERR("%s: the pool is read-only: %s is not possible",
			      fusion_pool_name(pool), messages[i].name);
			return -EROFS;
		}
		return messages[i].fn(pool, argv);
	}
	DMERR("%s: unknown message '%s'", fusion_pool_name(pool), argv[0]);
	return -EINVAL;
}
