/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Applying the changes of rows: what an epoch's records of them do to the metadata.
 * Under the commit mutex; sleeps; errors are the metadata's.
 */
#ifndef DM_FUSION_ROW_APPLY_H
#define DM_FUSION_ROW_APPLY_H

#include "ledger.h"

/*
 * Store the rows that are being written from now on, whose pages become live: before
 * anything of the epoch dies.
 */
int fusion_rows_begin(struct fusion_ledger *ledger, struct list_head *rows);
/* Remove those that have been written: after all that became live. */
int fusion_rows_end(struct fusion_ledger *ledger, struct list_head *rows);
/* Free the changes. */
void fusion_rows_forget(struct list_head *rows);

#endif /* DM_FUSION_ROW_APPLY_H */
