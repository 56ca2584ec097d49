// SPDX-License-Identifier: GPL-2.0-only
/*
 * Members: flushes and labels.  See member.h.
 */
#include <linux/completion.h>
#include <linux/mm.h>

#include "codec.h"
#include "member.h"

#define DM_MSG_PREFIX "fusion"

struct member_flush {
	atomic_t pending;
	struct completion done;
};

static void member_flush_put(struct member_flush *flush)
{
	if (atomic_dec_and_test(&flush->pending))
		complete(&flush->done);
}

static void member_flush_end(struct bio *bio)
{
	member_flush_put(bio->bi_private);
}

u64 fusion_members_flush(struct fusion_member *members, unsigned int count)
{
	struct bio bios[8];
	struct member_flush flush;
	unsigned int first, i, batch;
	u64 failed = 0;

	for (first = 0; first < count; first += batch) {
		u8 flushed[ARRAY_SIZE(bios)];
		unsigned int n = 0;

		batch = min_t(unsigned int, count - first, ARRAY_SIZE(bios));
		atomic_set(&flush.pending, 1);
		init_completion(&flush.done);
		for (i = first; i < first + batch; i++) {
			struct fusion_member *m = &members[i];

			if (!READ_ONCE(m->dirty) || fusion_member_out(m))
				continue;
			WRITE_ONCE(m->dirty, false);
			/* the mark is clear before the flush is issued */
			smp_mb();
			bio_init(&bios[n], m->bdev, NULL, 0,
				 REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC);
			bios[n].bi_end_io = member_flush_end;
			bios[n].bi_private = &flush;
			flushed[n] = i - first;
			atomic_inc(&flush.pending);
			submit_bio(&bios[n]);
			n++;
		}
		member_flush_put(&flush);
		wait_for_completion_io(&flush.done);
		for (i = 0; i < n; i++) {
			struct fusion_member *m = &members[first + flushed[i]];

			if (bios[i].bi_status) {
				DMERR_LIMIT("%pg: flush failed", m->bdev);
				WRITE_ONCE(m->dirty, true);
				failed |= 1ULL << (first + flushed[i]);
			}
			bio_uninit(&bios[i]);
		}
	}
	return failed;
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

int fusion_member_read_label(struct block_device *bdev,
			     struct fusion_disk_label *label,
			     const char **error)
{
	static const u32 copy[] = { FUSION_LABEL_COPY0, FUSION_LABEL_COPY1 };
	enum fusion_label_error e = FUSION_LABEL_ABSENT;
	struct page *page;
	unsigned int i;
	int r = 0;

	page = alloc_page(GFP_KERNEL);
	if (!page) {
		*error = "out of memory";
		return -ENOMEM;
	}
	*error = "cannot be read";
	for (i = 0; i < ARRAY_SIZE(copy); i++) {
		r = fusion_page_io(bdev, copy[i] >> SECTOR_SHIFT, page,
				   FUSION_LABEL_BYTES, REQ_OP_READ);
		if (r)
			continue;
		memcpy(label, page_address(page), sizeof(*label));
		e = fusion_label_check(label);
		if (e == FUSION_LABEL_OK)
			break;
		*error = fusion_label_strerror(e);
		r = -EINVAL;
	}
	__free_page(page);
	return r;
}
