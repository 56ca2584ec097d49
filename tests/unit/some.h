/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Some patch, well formed and otherwise random.
 */
#ifndef SOME_H
#define SOME_H

#include "patch.h"
#include "tap.h"

static inline u64 some_patch_place(unsigned int page)
{
	u64 stripe = fusion_stripe_id(rnd_mask() % FUSION_MAX_BANDS,
				      rnd_mask() % FUSION_MAX_BAND_STRIPES);

	return fusion_patch_place(fusion_place(stripe, rnd_below(64)), page);
}

/* Of two replicas or three; 0: of either. */
static inline struct fusion_patch some_patch(unsigned int pages,
					     unsigned int replicas)
{
	unsigned int page = rnd_below(pages);
	struct fusion_patch patch;
	u64 *at = patch.at;

	do {
		for (int r = 0; r < 3; r++)
			at[r] = some_patch_place(page);
		if (replicas == 2 || (!replicas && rnd_below(2)))
			at[2] = 0;
	} while (at[0] == at[1] || at[0] == at[2] || at[1] == at[2]);
	return patch;
}

#endif /* SOME_H */
