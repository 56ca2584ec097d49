// SPDX-License-Identifier: GPL-2.0-only
//! The metadata's own space map, as dm-persistent-data keeps it.
//!
//! An index block refers to bitmaps, which have two bits for each block: how often it is referred
//! to, 3 meaning that a btree has the number. Nothing in the metadata of a pool is referred to
//! twice; so what is right is 1 for each block that is reached, and for the superblock.

use fusion_format::whole::{SpaceMapRoot, Whole};

use crate::blocks::{self, BLOCK_BYTES, Block, Kind, Source, Target, le32, le64, put};
use crate::findings::Findings;
use crate::walk::{Reached, Step, Walk};
use crate::{Error, Result};

pub const MAX_BITMAPS: usize = 255;
pub const HEADER_BYTES: usize = 16;
pub const ENTRY_BYTES: usize = 16;
const PER_BYTE: usize = 4;
/// Blocks that a bitmap is of.
pub const PER_BITMAP: u64 = ((BLOCK_BYTES - HEADER_BYTES) * PER_BYTE) as u64;
pub const MAX_BLOCKS: u64 = MAX_BITMAPS as u64 * PER_BITMAP;
pub const REF_COUNT_BYTES: usize = size_of::<u32>();

struct Bitmap {
    block: u64,
    free: u32,
    none_free_before: u32,
    /// None: it is damaged.
    bytes: Option<Box<Block>>,
}

pub struct SpaceMap {
    root: SpaceMapRoot,
    index: Option<Box<Block>>,
    bitmaps: Vec<Bitmap>,
}

/// The higher of the two bits is the first.
fn get(bytes: &Block, at: usize) -> u8 {
    let pair = bytes[HEADER_BYTES + at / PER_BYTE] >> (2 * (at % PER_BYTE));
    (pair & 1) << 1 | (pair >> 1 & 1)
}

pub fn set(bytes: &mut Block, at: usize, count: u8) {
    let shift = 2 * (at % PER_BYTE);
    let byte = &mut bytes[HEADER_BYTES + at / PER_BYTE];
    *byte = *byte & !(3 << shift) | (count >> 1 | (count & 1) << 1) << shift;
}

impl SpaceMap {
    /// Reads all of it that can be read.
    pub fn read(
        source: &dyn Source,
        root: SpaceMapRoot,
        reached: &mut Reached,
        findings: &mut Findings,
    ) -> Self {
        let mut map = Self {
            root,
            index: None,
            bitmaps: Vec::new(),
        };
        if root.blocks == 0 || root.blocks > source.blocks().min(MAX_BLOCKS) {
            findings.error(&format!(
                "the space map is of {} blocks: there are {}",
                root.blocks,
                source.blocks()
            ));
            return map;
        }
        map.index = part(source, root.index, Kind::Index, reached, findings);
        if let Some(index) = &map.index {
            let count = usize::try_from(root.blocks.div_ceil(PER_BITMAP)).unwrap_or(0);
            for at in 0..count {
                let entry = &index[HEADER_BYTES + at * ENTRY_BYTES..];
                let block = le64(entry, 0);
                map.bitmaps.push(Bitmap {
                    block,
                    free: le32(entry, 8),
                    none_free_before: le32(entry, 12),
                    bytes: part(source, block, Kind::Bitmap, reached, findings),
                });
            }
        }
        walk_ref_counts(source, root.ref_counts, reached, findings);
        map
    }

    /// Can all of it be read?
    pub fn is_whole(&self) -> bool {
        self.index.is_some() && self.bitmaps.iter().all(|bitmap| bitmap.bytes.is_some())
    }

    /// How often `block` is referred to, 3 for more; None: not known.
    pub fn count(&self, block: u64) -> Option<u8> {
        if block >= self.root.blocks {
            return None;
        }
        let bitmap = self
            .bitmaps
            .get(usize::try_from(block / PER_BITMAP).ok()?)?;
        Some(get(
            bitmap.bytes.as_ref()?,
            usize::try_from(block % PER_BITMAP).ok()?,
        ))
    }

    /// Blocks of bitmap `which`.
    fn range(&self, which: usize) -> std::ops::Range<u64> {
        let first = which as u64 * PER_BITMAP;
        first..(first + PER_BITMAP).min(self.root.blocks)
    }

    /// Compares it with what is reached; `all`: everything that can be has been.
    pub fn compare(&self, reached: &Reached, all: bool, findings: &mut Findings) {
        let mut lost = Runs::default();
        let mut leaked = Runs::default();
        let mut allocated = 0;
        for (which, bitmap) in self.bitmaps.iter().enumerate() {
            let Some(bytes) = &bitmap.bytes else {
                continue;
            };
            let mut used = 0;
            let mut first_free = None;
            for (at, block) in self.range(which).enumerate() {
                let count = get(bytes, at);
                if count == 0 {
                    first_free.get_or_insert(at);
                }
                used += u32::from(count > 0);
                let right = u8::from(block == 0 || reached.has(block));
                if count < right {
                    lost.add(block);
                } else if count > right {
                    leaked.add(block);
                }
            }
            allocated += u64::from(used);
            self.compare_entry(which, used, first_free, findings);
        }
        lost.tell(|text| {
            findings.error(&format!(
                "{text} of the metadata: used, but free in the space map"
            ));
        });
        if !all {
            return;
        }
        leaked.tell(|text| {
            findings.minor(&format!(
                "{text} of the metadata: not used, or once, but counted more"
            ));
        });
        if self.is_whole() && allocated != self.root.allocated {
            findings.minor(&format!(
                "the space map counts {} blocks of the metadata, and {allocated} are in its bitmaps",
                self.root.allocated
            ));
        }
    }

    /// The index's entry of a bitmap with `used` blocks. The kernel counts the last one's as if it
    /// were of as many as the others.
    fn compare_entry(
        &self,
        which: usize,
        used: u32,
        first_free: Option<usize>,
        findings: &mut Findings,
    ) {
        let bitmap = &self.bitmaps[which];
        let range = self.range(which);
        let possible = [PER_BITMAP, range.end - range.start];
        if !possible.contains(&(u64::from(bitmap.free) + u64::from(used))) {
            findings.minor(&format!(
                "bitmap {which} of the space map has {used} used blocks, and {} are said to be free",
                bitmap.free
            ));
        }
        if first_free.is_some_and(|free| (free as u64) < u64::from(bitmap.none_free_before)) {
            findings.minor(&format!(
                "bitmap {which} of the space map has free blocks that would not be found"
            ));
        }
    }

    /// Makes it what is reached, in place; it is whole, and nothing reached is free in it. The
    /// superblock, which has a count, too, is the last.
    ///
    /// # Errors
    /// Of what is written.
    pub fn rewrite(
        &self,
        reached: &Reached,
        superblock: &[u8],
        target: &mut dyn Target,
    ) -> Result<()> {
        let mut index = self
            .index
            .clone()
            .ok_or_else(|| Error::Damaged("the space map cannot be read".into()))?;
        let mut allocated = 0;
        for (which, bitmap) in self.bitmaps.iter().enumerate() {
            let Some(old) = &bitmap.bytes else {
                continue;
            };
            let mut bytes = old.clone();
            let (mut used, mut free) = (0u32, None);
            for (at, block) in self.range(which).enumerate() {
                let right = u8::from(block == 0 || reached.has(block));
                used += u32::from(right);
                if right == 0 {
                    free.get_or_insert(at);
                }
                set(&mut bytes, at, right);
            }
            allocated += u64::from(used);
            blocks::seal(&mut bytes, Kind::Bitmap, bitmap.block);
            target.write(bitmap.block, &bytes)?;
            let most = u32::try_from(PER_BITMAP).unwrap_or(0);
            let entry = entry(
                bitmap.block,
                most - used,
                free.and_then(|at| u32::try_from(at).ok()).unwrap_or(most),
            );
            put(&mut index[..], HEADER_BYTES + which * ENTRY_BYTES, &entry);
        }
        blocks::seal(&mut index, Kind::Index, self.root.index);
        target.write(self.root.index, &index)?;
        target.sync()?;
        let block = Whole::with_allocated(superblock, allocated)
            .ok_or_else(|| Error::Damaged("the superblock cannot be read".into()))?;
        let mut bytes = [0; BLOCK_BYTES];
        bytes.copy_from_slice(&block);
        target.write(0, &bytes)?;
        target.sync()?;
        Ok(())
    }
}

pub fn entry(block: u64, free: u32, none_free_before: u32) -> Vec<u8> {
    let mut bytes = block.to_le_bytes().to_vec();
    bytes.extend(free.to_le_bytes());
    bytes.extend(none_free_before.to_le_bytes());
    bytes
}

fn part(
    source: &dyn Source,
    block: u64,
    kind: Kind,
    reached: &mut Reached,
    findings: &mut Findings,
) -> Option<Box<Block>> {
    if let Err(error) = reached.add(block) {
        findings.error(&format!("block {block}, {}: {error}", kind.name()));
        return None;
    }
    match source.read(block) {
        Ok(bytes) if blocks::is_whole(&bytes, kind, block) => return Some(bytes),
        Ok(_) => findings.error(&format!("block {block}, {}: is damaged", kind.name())),
        Err(error) => findings.error(&format!(
            "block {block}, {}: cannot be read: {error}",
            kind.name()
        )),
    }
    None
}

fn walk_ref_counts(source: &dyn Source, root: u64, reached: &mut Reached, findings: &mut Findings) {
    if root == 0 {
        findings.error("the space map has no counts");
        return;
    }
    let mut walk = Walk::new(root, REF_COUNT_BYTES);
    walk.sparse_matters = false;
    loop {
        match walk.step(source, reached) {
            Step::Entry | Step::Sparse(_) => {}
            Step::Damage(damage) => findings.error(&format!(
                "block {}, counts of the space map: {}",
                damage.block, damage.error
            )),
            Step::End => return,
        }
    }
}

/// Neighbours are told of together.
#[derive(Default)]
struct Runs(Vec<(u64, u64)>);

impl Runs {
    fn add(&mut self, block: u64) {
        match self.0.last_mut() {
            Some((_, end)) if *end == block => *end += 1,
            _ => self.0.push((block, block + 1)),
        }
    }

    fn tell(&self, mut tell: impl FnMut(&str)) {
        for &(first, end) in &self.0 {
            if end - first == 1 {
                tell(&format!("block {first}"));
            } else {
                tell(&format!("blocks {first} to {}", end - 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bits_each() {
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        for at in 0..16 {
            set(&mut bytes, at, (at % 4) as u8);
        }
        for at in 0..16 {
            assert_eq!(get(&bytes, at), (at % 4) as u8);
        }
        // As the kernel's sm_set_bitmap() has them: 1 is the second of the bits, 2 the first.
        assert_eq!(bytes[HEADER_BYTES], 0b11_01_10_00);
    }
}
