/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The members' records: which of them are used, on each of them.
 *
 * The metadata may come back old: a slice of it, on a member that was away while others
 * were used; or a copy that somebody made.  It would refer to what has been overwritten
 * since, and count members as good that are not.  So each change of a member's state
 *
 *  1. is committed in the metadata, with the next generation of the states;
 *  2. is written, with that generation, to the record of each member that is used: one that
 *     cannot be has failed, too, and if it cannot be done without, the pool is read-only;
 *  3. is acted upon.
 *
 * A power cut between 1 and 2 leaves metadata that is newer than the records: it is right,
 * or, where another slice that is older is used instead, nobody has been told otherwise.
 * After 2 metadata of a lower generation is refused as long as one member is there that
 * was used then (super.h).  A cut within 2 leaves both kinds of records: which of them
 * counts, fusion_states_choose() says.  Each start writes what is not there, or not in both
 * copies.
 */
#ifndef DM_FUSION_RECORD_H
#define DM_FUSION_RECORD_H

#include "pool.h"

int fusion_records_init(struct fusion_pool *pool);
void fusion_records_exit(struct fusion_pool *pool);

/*
 * Write what the last commit says of the members to those that are used, if they have labels
 * and have not got it.  Returns those that failed that.  Under the commit mutex; sleeps.
 */
u64 fusion_records_write(struct fusion_pool *pool);
/*
 * The generation of the newest record that member @i, which is used, is known to have: one that fails as it
 * is to be told of another's failure has the one before.  Under the commit mutex.
 */
u64 fusion_record_of(const struct fusion_pool *pool, unsigned int i);

#endif /* DM_FUSION_RECORD_H */
