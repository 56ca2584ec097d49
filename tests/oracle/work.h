/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What goes on in a pool when the power fails: the oracle's workload on all volumes, and work in
 * the background.
 */
#ifndef ORACLE_WORK_H
#define ORACLE_WORK_H

#include "rig.h"

enum work {
	WORK_WRITES,		/* no background */
	WORK_CONVERT,
	WORK_DESTAGE,
	WORK_SCRUB,
	WORK_RESYNC,
	WORK_DELETE,		/* of a volume that comes and goes, and discards passed down */
	WORK_ALL,		/* of these at once */
	WORK_FAIL,		/* a member does */
	WORK_REBUILD,
	WORK_GROW,		/* and all that goes on in a pool that has begun to */
	WORK_STALL,		/* of one SSD after the other, beside all of these, where they are spiky */
	NR_WORKS,
};

extern const char * const work_names[NR_WORKS];

/* Where the oracle is, and a directory for what it knows. */
void work_begin(const char *oracle, const char *directory);

/* Settings of @rig for @work, and what is to be there before it; seeded by *@random.  0 or -errno. */
int work_prepare(const struct rig *rig, enum work work, u64 *random);

/*
 * The oracle's workload begins: on the volumes of @rig, with what it knows in the file @state.
 * Returns when it has got somewhere.  @ops 0: until it is cut off.
 */
int oracle_begin(const struct rig *rig, const char *state, enum work work, u64 ops, u64 *random);
/* Has it ended by itself? */
bool oracle_ended(void);
/* What it has said. */
void oracle_tell(void);
/* Waits for its end; -EIO unless it was by @reason ("limit": its own, "cut": errors of I/O). */
int oracle_end(const char *reason);

struct verified {
	u64 pages;
	u64 garbage, lost, unstable;
	bool unreadable;
};

/* Looks at all pages; 0 if all is right. */
int oracle_verify(const struct rig *rig, const char *state, struct verified *v);

/* Work in the background begins, until there is nothing to send messages to, or it is ended. */
void background_begin(struct rig *rig, enum work work, u64 *random);
/* What it is at just now, as bits of enum work. */
unsigned int background_at(void);
/* Waits for its end; -EILSEQ if a scrub found what does not fit. */
int background_end(void);

#endif
