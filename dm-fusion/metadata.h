/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Metadata: the pool's btrees.  The only file that knows dm-persistent-data.
 *
 * There is one open transaction, changed by one writer at a time: every
 * function below that says "writer" is called under the pool's commit mutex.
 * Readers of the map run beside it on the roots of the last commit, between
 * fusion_md_read_begin() and fusion_md_read_end().  A commit makes its roots
 * visible only when no reader of the old ones is left, and the next
 * transaction, the first that may reuse the old roots' blocks, starts after
 * that; so what a reader walks is never overwritten.
 *
 * Errors: an error of a function that changes or commits breaks the
 * transaction.  From then on all of them return -EIO, readers go on with the
 * last commit, and needs_check is set in the superblock if the device still
 * takes it.  An error of one that only reads (but -ENODATA) changes nothing;
 * the caller stops committing what it has half made.
 *
 * Everything may sleep and do I/O except reads with @may_block false.
 */
#ifndef DM_FUSION_METADATA_H
#define DM_FUSION_METADATA_H

#include <linux/blkdev.h>

#include "super.h"

struct fusion_md;

/*
 * Open the metadata on @bdev, or format it if its superblock is all zero.
 * On error *@error is a sentence for ti->error.
 */
struct fusion_md *fusion_md_open(struct block_device *bdev,
				 const struct fusion_md_config *config,
				 char **error);
void fusion_md_close(struct fusion_md *md);

/* The writer's fields; also read without a lock by status. */
struct fusion_md_super *fusion_md_super(struct fusion_md *md);
u64 fusion_md_transaction_id(struct fusion_md *md);
/*
 * What has been read cannot be so: a line in the log says what, of which device, and what can
 * be done.  The caller takes none of it.  Any context.
 */
__printf(2, 3)
void fusion_md_damaged(struct fusion_md *md, const char *format, ...);
/* Broken, or marked needs_check: nothing can be changed. */
bool fusion_md_read_only(struct fusion_md *md);
/* Free and all blocks of the metadata device. */
int fusion_md_usage(struct fusion_md *md, u64 *free_blocks, u64 *blocks);

/* Are these the UUIDs of the pool, and of its members as far as they are used? */
bool fusion_md_same_members(struct fusion_md *md, const u8 *pool_uuid,
			    const u8 uuid[][FUSION_UUID_BYTES]);
/* Of member @i: FUSION_UUID_BYTES; and another, from the next commit on. */
const u8 *fusion_md_member_uuid(struct fusion_md *md, unsigned int i);
void fusion_md_replace_member(struct fusion_md *md, unsigned int i, const u8 *uuid);
/* There are @members from the next commit on. */
void fusion_md_set_members(struct fusion_md *md, unsigned int members);
/* Of the pool: FUSION_UUID_BYTES. */
void fusion_md_pool_uuid(struct fusion_md *md, u8 *uuid);

/* ---- readers of the last commit ---- */

/* -EWOULDBLOCK only if !@may_block. */
int fusion_md_read_begin(struct fusion_md *md, bool may_block);
void fusion_md_read_end(struct fusion_md *md);

/* The places of a group of blocks; all zero if there are none. */
int fusion_md_read_base(struct fusion_md *md, bool may_block, u32 volume,
			u64 group, struct fusion_disk_base *base);

/*
 * By itself, sleeping: is one of @count rows of @stripe, from @first on, being written in
 * place?  0: yes; -ENODATA: no.
 */
int fusion_md_read_rows(struct fusion_md *md, u64 stripe, unsigned int first,
			unsigned int count);

/* By itself, sleeping: what is known of @stripe; -ENODATA: nothing. */
int fusion_md_read_stripe(struct fusion_md *md, u64 stripe,
			  struct fusion_disk_stripe *disk);

/*
 * The first top of @volume at or after *@block: -ENODATA if there is none
 * below @end.
 */
int fusion_md_read_next_top(struct fusion_md *md, bool may_block, u32 volume,
			    u64 *block, u64 end, struct fusion_disk_top *top);

/* As above, patches, into fusion_patches_bytes(). */
int fusion_md_read_next_patches(struct fusion_md *md, bool may_block, u32 volume,
				u64 *block, u64 end,
				struct fusion_disk_patches *patches);

/* The first group of @volume at or after *@group; -ENODATA: there is none. */
int fusion_md_read_next_base(struct fusion_md *md, bool may_block, u32 volume,
			     u64 *group, struct fusion_disk_base *base);

/* ---- writer ---- */

int fusion_md_get_base(struct fusion_md *md, u32 volume, u64 group,
		       struct fusion_disk_base *base);
/* All zero: removed. */
int fusion_md_put_base(struct fusion_md *md, u32 volume, u64 group,
		       struct fusion_disk_base *base);
/* First group of @volume at or after *@group: -ENODATA if none. */
int fusion_md_next_base(struct fusion_md *md, u32 volume, u64 *group,
			struct fusion_disk_base *base);

/* @top NULL: removed. */
int fusion_md_put_top(struct fusion_md *md, u32 volume, u64 block,
		      struct fusion_disk_top *top);
int fusion_md_next_top(struct fusion_md *md, u32 volume, u64 *block,
		       struct fusion_disk_top *top);

/* @patches NULL: removed.  They are fusion_patches_bytes() long. */
int fusion_md_put_patches(struct fusion_md *md, u32 volume, u64 block,
			  struct fusion_disk_patches *patches);
int fusion_md_next_patches(struct fusion_md *md, u32 volume, u64 *block,
			   struct fusion_disk_patches *patches);

/* The part with @key of the record of a row; @row NULL: removed. */
int fusion_md_put_row(struct fusion_md *md, u64 key, struct fusion_disk_row *row);
/* The first at or after *@key; -ENODATA: there is none. */
int fusion_md_next_row(struct fusion_md *md, u64 *key, struct fusion_disk_row *row);

/* -ENODATA: FREE. */
int fusion_md_get_stripe(struct fusion_md *md, u64 stripe,
			 struct fusion_disk_stripe *disk);
/* @disk NULL: removed. */
int fusion_md_put_stripe(struct fusion_md *md, u64 stripe,
			 struct fusion_disk_stripe *disk);
/* First stored stripe at or after *@stripe: -ENODATA if none.  Its record is not looked at. */
int fusion_md_next_stripe(struct fusion_md *md, u64 *stripe,
			  struct fusion_disk_stripe *disk);

/* Bands not stored are free. */
int fusion_md_get_band(struct fusion_md *md, u32 band,
		       struct fusion_disk_band *disk);
int fusion_md_put_band(struct fusion_md *md, u32 band,
		       struct fusion_disk_band *disk);

/* -ENODATA: no such volume. */
int fusion_md_get_volume(struct fusion_md *md, u32 volume,
			 struct fusion_disk_volume *disk);
/* @disk NULL: removed. */
int fusion_md_put_volume(struct fusion_md *md, u32 volume,
			 struct fusion_disk_volume *disk);
int fusion_md_next_volume(struct fusion_md *md, u32 *volume,
			  struct fusion_disk_volume *disk);

/*
 * Make the transaction durable: btree blocks, flush, superblock with FUA.  The
 * data that the new entries refer to must be durable already.
 */
int fusion_md_commit(struct fusion_md *md);

#endif /* DM_FUSION_METADATA_H */
