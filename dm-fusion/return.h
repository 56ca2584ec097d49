/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Members that come back: the same device, or another in its place.
 *
 * The table line has the device, and it is sent nothing but reads of its label and record, which
 * are given up if it hangs.  Then
 *
 *  1. what is at home on the member, and does not count, is marked as stale in the records of
 *     the stripes (spare.h), by changes of epochs.  If nothing counts that is all of it; if
 *     what was there when it was used last does, and the records of the stripes have said
 *     since then what has been written, only replicas: those may have been written in place.
 *     What is in areas there is not any more, for other members that are not OK.
 *  2. Who has found a place on the member before that has left, and all I/O on it has ended,
 *     also what was given up (hang.h).  So nobody reads what is stale, and nothing that is
 *     late is written, when
 *  3. the member is RETURNING, by a commit, and by the records of all (record.h), and is used
 *     from then on.  What is drawn now is at home there.  What was in its area stays there.
 *  4. Rebuild (rebuild.h) brings home what is in the area, or nowhere.  What is in sets is
 *     converted first.
 *  5. When nothing is elsewhere, nor nowhere, the member is OK, by a commit, and by the
 *     records.  Who has found a place in the area before that has left: so the area may
 *     serve another.
 *
 * A power cut before the commit of 3 leaves a member that is out, as it was, and marks that
 * only say that less of it counts.  After it, one that is returning: what is at home there
 * was flushed before the commit that says so, since the member is flushed like any other.  If
 * it fails, in between or again, it is out, with the number that it had: what has come home
 * by then is nowhere, and counts again if it comes back again.
 *
 * What was there counts if it is the same device, it has the record of the states of when it
 * was used last, or a newer one, and had a number all the time.  What it had not flushed when
 * it failed, and may have lost, is marked: what an epoch has of a stripe that was written before
 * is applied after the failure (failure.c).
 */
#ifndef DM_FUSION_RETURN_H
#define DM_FUSION_RETURN_H

#include "pool.h"

/*
 * Use member @i, which is out, again.  @keep: what was on it when it was used last counts; or
 * nothing that is on it does, and it may be another device.  0: it is returning, and is
 * rebuilt in the background.  -EINVAL: it is not out, or there is no device for it, or
 * what is on it cannot count; -EBUSY: too many members are not OK, or I/O
 * of before has not ended; -EIO, -ENOMEM, -EROFS; -EAGAIN:
 * it has failed again.  The log says why.  Sleeps.
 */
int fusion_return(struct fusion_pool *pool, unsigned int i, bool keep);

/*
 * Nothing that is at home on members that are returning is elsewhere, as long as the states
 * have *@generation: they are OK, and *@generation is that of the states then.  -EAGAIN: the
 * states have changed.  Sleeps.
 */
int fusion_return_all(struct fusion_pool *pool, u64 *generation);

#endif /* DM_FUSION_RETURN_H */
