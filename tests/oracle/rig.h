/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A pool on simulated SSDs of its own, with three volumes, whose shape is drawn from a seed.
 * What cannot be done ends the life of the pool: see rig_broken.
 */
#ifndef ORACLE_RIG_H
#define ORACLE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint64_t u64;

#define RIG_VOLUMES	3
#define RIG_POOL	"t-pool"

enum rig_kind {
	RIG_RAID5,
	RIG_RAID6,
	RIG_BOTH,
	RIG_KINDS,
};

struct rig {
	enum rig_kind kind;
	unsigned int n, spares, block_sectors;
	unsigned int was;		/* its members, at first */
	unsigned int grows_to;		/* members, in time; or as many as there are */
	bool grows;			/* it has been told to */
	unsigned int journal_sectors;	/* 0: no journal; on each member, before its data */
	u64 member_blocks;
	bool tight;			/* hardly more space than the volumes need */
	bool spiky;			/* now and then an SSD stands still: see work.h */
	u64 volume_blocks[RIG_VOLUMES];
	unsigned int data[RIG_VOLUMES], parity[RIG_VOLUMES];
	/* of what is started */
	dev_t pool, volume[RIG_VOLUMES];
};

/* What status says. */
struct rig_status {
	char mode[16];
	char states[65];		/* of the members, a letter each */
	bool needs_check;
	u64 converted, compacted, destaged, passdowns, resynced, rebuilt, scrubbed, mismatches,
	    degraded, in_place, new_top, new_patch, large, hedged, grows_from;
};

u64 mix(u64 x);
/* A random number below @below, the next one of *@state. */
u64 draw(u64 *state, u64 below);

/* Says it on stdout, which is where all is told. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The shape of the pool number @life, and SSDs for it. */
int rig_make(struct rig *rig, u64 life, u64 seed);
void rig_unmake(struct rig *rig);

/* The pool and its volumes, without the members in the mask @missing; new ones if @fresh. */
int rig_start(struct rig *rig, u64 missing, bool fresh);
int rig_stop(void);
/* Have it grow, as it runs. */
int rig_grow(struct rig *rig);

int rig_status(struct rig_status *s);
/* "ok", or what is wrong, given the members in @out or some of these are. */
const char *rig_wrong(const struct rig_status *s, u64 out);
u64 rig_out(const struct rig_status *s);

/* How many members may be out. */
unsigned int rig_parity(const struct rig *rig);
u64 rig_pages(const struct rig *rig);

/* The power of all SSDs; @seed says what survives. */
void rig_cut(u64 seed);
void rig_power_on(const struct rig *rig);

#endif
