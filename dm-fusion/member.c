// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members: flushes, labels and records.  See member.h.
 */
#include <linux/completion.h>
#include <linux/mm.h>

#include "member.h"

#define DM_MSG_PREFIX "fusion"

struct member_io {
	atomic_t pending;
	struct completion done;
};

static void member_io_put(struct member_io *io)
{
	if (atomic_dec_and_test(&io->pending))
		complete(&io->done);
}

static void member_io_end(struct bio *bio)
{
	member_io_put(bio->bi_private);
}

/* Write @page, if there is one, to each of @which, all at once; those that failed. */
static u64 members_write(struct fusion_member *members, u64 which, blk_opf_t opf,
			 struct page *page, sector_t sector)
{
	struct bio bios[8];
	struct bio_vec vecs[ARRAY_SIZE(bios)];
	u8 member[ARRAY_SIZE(bios)];
	struct member_io io;
	u64 failed = 0;
	unsigned int n;

	while (which) {
		atomic_set(&io.pending, 1);
		init_completion(&io.done);
		for (n = 0; which && n < ARRAY_SIZE(bios); n++) {
			member[n] = fusion_ctz64(which);
			which &= which - 1;
			bio_init(&bios[n], members[member[n]].bdev, &vecs[n], 1,
				 REQ_OP_WRITE | REQ_SYNC | opf);
			if (page) {
				bios[n].bi_iter.bi_sector = sector;
				__bio_add_page(&bios[n], page, FUSION_LABEL_BYTES, 0);
			}
			bios[n].bi_end_io = member_io_end;
			bios[n].bi_private = &io;
			atomic_inc(&io.pending);
			submit_bio(&bios[n]);
		}
		member_io_put(&io);
		wait_for_completion_io(&io.done);
		while (n--) {
			if (bios[n].bi_status)
				failed |= 1ULL << member[n];
			bio_uninit(&bios[n]);
		}
	}
	return failed;
}

u64 fusion_members_flush(struct fusion_member *members, unsigned int count)
{
	u64 dirty = 0, failed, left;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (!READ_ONCE(members[i].dirty) || fusion_member_out(&members[i]))
			continue;
		WRITE_ONCE(members[i].dirty, false);
		dirty |= 1ULL << i;
	}
	/* the marks are clear before the flushes are issued */
	smp_mb();
	failed = members_write(members, dirty, REQ_PREFLUSH, NULL, 0);
	for (left = failed; left; left &= left - 1) {
		struct fusion_member *m = &members[fusion_ctz64(left)];

		DMERR_LIMIT("%pg: flush failed", m->bdev);
		WRITE_ONCE(m->dirty, true);
	}
	return failed;
}

u64 fusion_members_write_record(struct fusion_member *members, u64 which,
				struct page *record)
{
	u64 failed;

	failed = members_write(members, which, REQ_FUA, record,
			       FUSION_RECORD_COPY0 >> SECTOR_SHIFT);
	return failed & members_write(members, which, REQ_FUA, record,
				      FUSION_RECORD_COPY1 >> SECTOR_SHIFT);
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

int fusion_member_read_label(struct block_device *bdev, struct page *page,
			     const char **error)
{
	static const u32 copy[] = { FUSION_LABEL_COPY0, FUSION_LABEL_COPY1 };
	enum fusion_label_error e;
	unsigned int i;
	int r = 0;

	*error = "cannot be read";
	for (i = 0; i < ARRAY_SIZE(copy); i++) {
		r = fusion_page_io(bdev, copy[i] >> SECTOR_SHIFT, page,
				   FUSION_LABEL_BYTES, REQ_OP_READ);
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

struct fusion_states fusion_member_read_record(struct block_device *bdev,
					       struct page *page,
					       const u8 *pool_uuid, bool *whole)
{
	static const u32 copy[] = { FUSION_RECORD_COPY0, FUSION_RECORD_COPY1 };
	struct fusion_states states[ARRAY_SIZE(copy)] = { { 0 } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(copy); i++)
		if (!fusion_page_io(bdev, copy[i] >> SECTOR_SHIFT, page,
				    FUSION_LABEL_BYTES, REQ_OP_READ))
			states[i] = fusion_record_states(page_address(page),
							 pool_uuid);
	*whole = states[0].generation == states[1].generation &&
		states[0].used == states[1].used;
	return states[states[1].generation > states[0].generation];
}
