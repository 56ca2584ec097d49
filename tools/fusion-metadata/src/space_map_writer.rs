// SPDX-License-Identifier: GPL-2.0-only
//! A new space map of new metadata.

use fusion_format::whole::SpaceMapRoot;

use crate::Result;
use crate::allocator::Allocator;
use crate::blocks::{self, BLOCK_BYTES, Kind, put};
use crate::node;
use crate::space_map::{
    ENTRY_BYTES, HEADER_BYTES, MAX_BLOCKS, PER_BITMAP, REF_COUNT_BYTES, entry, set,
};

/// Writes one in which all blocks are used that are allocated, itself included.
///
/// # Errors
/// Of what is written; no room.
pub fn write(allocator: &mut Allocator, blocks: u64) -> Result<SpaceMapRoot> {
    let blocks = blocks.min(MAX_BLOCKS);
    let count = blocks.div_ceil(PER_BITMAP);
    let ref_counts = allocator.take()?;
    allocator.write(
        ref_counts,
        &node::encode(true, REF_COUNT_BYTES, &[], &[], ref_counts),
    )?;
    let mut own = Vec::new();
    for _ in 0..count {
        own.push(allocator.take()?);
    }
    let at = allocator.take()?;
    let allocated = allocator.taken();
    let mut index = Box::new([0; BLOCK_BYTES]);
    for (which, &block) in own.iter().enumerate() {
        let first = which as u64 * PER_BITMAP;
        let used = allocated.saturating_sub(first).min(PER_BITMAP);
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        for at in 0..usize::try_from(used).unwrap_or(0) {
            set(&mut bytes, at, 1);
        }
        blocks::seal(&mut bytes, Kind::Bitmap, block);
        allocator.write(block, &bytes)?;
        let used = u32::try_from(used).unwrap_or(0);
        let free = u32::try_from(PER_BITMAP).unwrap_or(0) - used;
        put(
            &mut index[..],
            HEADER_BYTES + which * ENTRY_BYTES,
            &entry(block, free, used),
        );
    }
    blocks::seal(&mut index, Kind::Index, at);
    allocator.write(at, &index)?;
    Ok(SpaceMapRoot {
        blocks,
        allocated,
        index: at,
        ref_counts,
    })
}
