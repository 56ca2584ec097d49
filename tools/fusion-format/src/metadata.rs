// SPDX-License-Identifier: GPL-2.0-only
//! How large a pool's metadata must be.

use crate::{SECTOR_BYTES, ffi};

const MIB_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;
const META_BLOCK_BYTES: u64 = ffi::FUSION_META_BLOCK_BYTES as u64;
const META_BLOCK_SECTORS: u64 = META_BLOCK_BYTES / SECTOR_BYTES;

/// What a pool of any size gets, and what small members get.
pub const MIN_SECTORS: u64 = 16 * MIB_SECTORS;
pub const TINY_SECTORS: u64 = 8 * MIB_SECTORS;

/// The largest device that dm-persistent-data's metadata space map can describe:
/// 255 index entries, each for one bitmap block of 16,320 blocks' counts.
pub const MAX_SECTORS: u64 = 255 * ((1 << 14) - 64) * META_BLOCK_SECTORS;

/// A b-tree node's header and one key.
const NODE_HEADER_BYTES: u64 = 32;
const KEY_BYTES: u64 = 8;

/// Stripes are fewer the wider they are; count with these.
const COUNTED_WIDTH: u64 = 4;
/// Tops exist for at most this part of the blocks.
const TOPS_PART: u64 = 10;
/// Patches take at most this part of the pool, their replicas and what is not data in
/// their stripes included: see `patch_percent`.
const PATCHES_PART: u64 = 100;

/// The sectors of metadata that a pool of `blocks` slots of all members needs.
///
/// Nodes of a b-tree are half to completely full; two thirds is what mixed
/// workloads settle at and what is counted with here. An eighth is added for the
/// copies that one epoch makes of the nodes it changes.
#[must_use]
pub fn need_sectors(blocks: u64) -> u64 {
    let groups = blocks.div_ceil(u64::from(ffi::FUSION_GROUP_BLOCKS));
    let trees = tree_blocks(groups, size_of::<ffi::fusion_disk_base>())
        + tree_blocks(
            blocks.div_ceil(COUNTED_WIDTH),
            size_of::<ffi::fusion_disk_stripe>(),
        )
        + tree_blocks(
            blocks.div_ceil(TOPS_PART),
            size_of::<ffi::fusion_disk_top>(),
        );
    let epoch = trees / 8 + 512;
    // Superblock, volumes, bands, the space map itself.
    let fixed = 512 + trees / 512;
    (trees + epoch + fixed) * META_BLOCK_SECTORS
}

/// The sectors for patches in a pool of `blocks` slots of `block_pages` pages: as many as
/// there may be, each in a block of its own. With less there are fewer patches.
fn patches_sectors(blocks: u64, block_pages: u32) -> u64 {
    let (data, replicas) = (COUNTED_WIDTH - 1, 2);
    let pages = blocks * u64::from(block_pages) / PATCHES_PART;
    let entries = (pages * data / (COUNTED_WIDTH * replicas)).min(blocks);
    // SAFETY: functions of their argument.
    let (most, bytes) = unsafe {
        (
            ffi::fusion_max_patches(block_pages),
            ffi::fusion_patches_bytes(block_pages),
        )
    };
    if most == 0 {
        return 0;
    }
    tree_blocks(entries, bytes as usize) * META_BLOCK_SECTORS
}

/// The size to give the metadata of a pool of `blocks` slots, of `block_pages` pages
/// each, on members of at least `member_sectors` each, in whole MiB. May exceed
/// `MAX_SECTORS`, but not for patches.
#[must_use]
pub fn size_sectors(blocks: u64, block_pages: u32, member_sectors: u64) -> u64 {
    let least = if member_sectors >= 32 * MIN_SECTORS {
        MIN_SECTORS
    } else {
        TINY_SECTORS
    };
    let need = need_sectors(blocks);
    (need + patches_sectors(blocks, block_pages))
        .min(MAX_SECTORS / MIB_SECTORS * MIB_SECTORS)
        .max(need)
        .max(least)
        .next_multiple_of(MIB_SECTORS)
}

/// Blocks of a tree of `entries` values of `value_bytes` bytes.
fn tree_blocks(entries: u64, value_bytes: usize) -> u64 {
    let mut level = entries.div_ceil(typical_entries(value_bytes as u64));
    let mut total = level;
    while level > 1 {
        level = level.div_ceil(typical_entries(size_of::<u64>() as u64));
        total += level;
    }
    total
}

/// Entries in a node that is two thirds full. Nodes hold a multiple of three.
fn typical_entries(value_bytes: u64) -> u64 {
    (META_BLOCK_BYTES - NODE_HEADER_BYTES) / (KEY_BYTES + value_bytes) / 3 * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_capacity() {
        assert_eq!(typical_entries(512), 4);
        assert_eq!(typical_entries(40), 56);
        assert_eq!(typical_entries(8), 168);
    }

    #[test]
    fn small_pools_get_the_minimum() {
        let tib = (1u64 << 40) / SECTOR_BYTES;
        assert_eq!(size_sectors(1000, 16, tib), MIN_SECTORS);
        assert_eq!(size_sectors(1000, 16, 200 * MIB_SECTORS), TINY_SECTORS);
    }

    #[test]
    fn patches_have_room() {
        let blocks = 1u64 << 25;
        let tib = (1u64 << 40) / SECTOR_BYTES;
        let bytes = patches_sectors(blocks, 16) * SECTOR_BYTES;
        // a hundredth of the pages, of which 3 of 8 are data, of 96 bytes and a half more
        assert!((8..10).contains(&(bytes / blocks)), "{}", bytes / blocks);
        assert!(size_sectors(blocks, 16, tib) > need_sectors(blocks) + bytes / SECTOR_BYTES - 1);
        assert_eq!(patches_sectors(blocks, 4), 0);
    }

    #[test]
    fn patches_do_without_room() {
        let mut blocks = 1u64 << 20;
        while need_sectors(blocks * 21 / 20) <= MAX_SECTORS {
            blocks = blocks * 21 / 20;
        }
        let size = size_sectors(blocks, 16, MAX_SECTORS);
        assert!(size <= MAX_SECTORS);
        assert!(size >= need_sectors(blocks));
        assert!(size < need_sectors(blocks) + patches_sectors(blocks, 16));
    }

    #[test]
    fn bytes_per_block() {
        let blocks = 1u64 << 28;
        let bytes = need_sectors(blocks) * SECTOR_BYTES;
        assert!((30..50).contains(&(bytes / blocks)), "{}", bytes / blocks);
    }

    #[test]
    fn monotonic() {
        let mut last = 0;
        for shift in 0..40 {
            let need = need_sectors(1 << shift);
            assert!(need >= last);
            last = need;
        }
        assert!(last > MAX_SECTORS);
    }
}
