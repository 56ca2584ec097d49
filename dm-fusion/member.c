// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members: labels and records.  See member.h.
 */
#include <linux/mm.h>

#include "member.h"

void fusion_member_give_up_reads(struct fusion_member *m, unsigned int reads[2])
{
	unsigned int turn;
	s64 pending;

	reads[0] = 0;
	reads[1] = 0;
	for (turn = 0; turn < 2; turn++) {
		/* who ends, or starts, from here on sees it */
		pending = atomic64_fetch_or(FUSION_PENDING_GIVEN_UP, &m->pending[turn]);
		if (pending < 0)
			continue;
		reads[0] += fusion_pending_of(pending, 0);
		reads[1] += fusion_pending_of(pending, 1);
	}
}

bool fusion_members_dirty(struct fusion_member *members, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (READ_ONCE(members[i].dirty) && !fusion_member_out(&members[i]))
			return true;
	return false;
}

int fusion_page_io(struct block_device *bdev, sector_t sector,
		   struct page *page, unsigned int bytes, blk_opf_t opf)
{
	struct bio_vec vec;
	struct bio bio;
	int r;

	bio_init(&bio, bdev, &vec, 1, opf | REQ_SYNC);
	bio.bi_iter.bi_sector = sector;
	__bio_add_page(&bio, page, bytes, 0);
	r = submit_bio_wait(&bio);
	bio_uninit(&bio);
	return r;
}

int fusion_member_read(void *bdev, sector_t sector, struct page *page)
{
	return fusion_page_io(bdev, sector, page, FUSION_LABEL_BYTES, REQ_OP_READ);
}

int fusion_member_read_label(fusion_member_read_fn read, void *from, struct page *page,
			     const char **error)
{
	static const u32 copy[] = { FUSION_LABEL_COPY0, FUSION_LABEL_COPY1 };
	enum fusion_label_error e;
	unsigned int i;
	int r = 0;

	*error = "cannot be read";
	for (i = 0; i < ARRAY_SIZE(copy); i++) {
		r = read(from, copy[i] >> SECTOR_SHIFT, page);
		if (r)
			continue;
		e = fusion_label_check(page_address(page));
		if (e == FUSION_LABEL_OK)
			break;
		*error = fusion_label_strerror(e);
		r = -EINVAL;
	}
	return r;
}

struct fusion_states fusion_member_read_record(fusion_member_read_fn read, void *from,
					       struct page *page,
					       const u8 *pool_uuid, bool *whole)
{
	static const u32 copy[] = { FUSION_RECORD_COPY0, FUSION_RECORD_COPY1 };
	struct fusion_states states[ARRAY_SIZE(copy)] = { { 0 } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(copy); i++)
		if (!read(from, copy[i] >> SECTOR_SHIFT, page))
			states[i] = fusion_record_states(page_address(page),
							 pool_uuid);
	*whole = states[0].generation == states[1].generation &&
		states[0].used == states[1].used;
	return states[states[1].generation > states[0].generation];
}
