// SPDX-License-Identifier: GPL-2.0-only
//! The legs of the metadata mirror after a crash.
//!
//! Blocks that were being written when the machine stopped may differ between the
//! legs. dm-persistent-data writes every block but the superblock to a place that
//! the last committed transaction does not use, and flushes all legs before it
//! writes the superblock. So blocks that differ are never read again before they
//! are written again - except the superblock: one leg may hold the last
//! transaction's and another the one's before. Each is good, but the mirror may
//! return now this one and now that one: an old transaction could come back after
//! a later one has reused its blocks. Therefore the superblocks are made equal
//! before the mirror is started. The newer one wins: what it refers to was flushed
//! before it was written.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use fusion_format::superblock::{self, SUPERBLOCK_BYTES};

use crate::block::BlockDevice;
use crate::names::{dm_path, image_name, rmeta_name};

/// dm-raid's superblock, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaidSuper {
    pub events: u64,
    /// Legs, a bit each.
    pub failed: u64,
    pub recovered: bool,
}

impl RaidSuper {
    pub const BYTES: usize = 40;
    const MAGIC: u32 = 0x6452_6d44;

    /// None: dm-raid has not been here yet.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let u64_at = |offset: usize| {
            let field = bytes.get(offset..)?.first_chunk().copied()?;
            Some(u64::from_le_bytes(field))
        };
        let magic = u32::from_le_bytes(bytes.first_chunk().copied()?);
        (magic == Self::MAGIC).then_some(())?;
        Some(Self {
            events: u64_at(16)?,
            failed: u64_at(24)?,
            recovered: u64_at(32)? == u64::MAX,
        })
    }
}

/// Makes the superblocks the same on those of the legs that dm-raid counts as good.
pub fn equalise(pool: &str, legs: impl Iterator<Item = usize>) -> Result<()> {
    let mut supers = Vec::new();
    let mut images = BTreeMap::new();
    for leg in legs {
        let rmeta = BlockDevice::open_read(Path::new(&dm_path(&rmeta_name(pool, leg))))?;
        supers.push((leg, RaidSuper::parse(&rmeta.read_at(0, RaidSuper::BYTES)?)));
        let image = BlockDevice::open_write(Path::new(&dm_path(&image_name(pool, leg))))?;
        images.insert(leg, image);
    }
    let good = good_legs(&supers);
    if good.is_empty() && supers.iter().any(|(_, found)| found.is_some()) {
        bail!(
            "no slice of the metadata of pool {pool} that is there is in sync: attach the members \
             that are missing and try again"
        );
    }
    let blocks = good
        .iter()
        .map(|leg| images[leg].read_at(0, SUPERBLOCK_BYTES))
        .collect::<Result<Vec<_>>>()?;
    let Some(newest) = newest(&blocks) else {
        return Ok(());
    };
    for (&leg, block) in good.iter().zip(&blocks) {
        if block != newest {
            images[&leg].write_at(0, newest)?;
            images[&leg].sync()?;
        }
    }
    Ok(())
}

/// The legs that dm-raid will read from: those that the newest of its superblocks
/// does not call failed, and that are not being rebuilt.
pub fn good_legs(supers: &[(usize, Option<RaidSuper>)]) -> Vec<usize> {
    // Of equals the first counts, as in dm-raid.
    let newest = supers
        .iter()
        .rev()
        .filter_map(|(_, found)| found.as_ref())
        .max_by_key(|found| found.events);
    let failed = newest.map_or(0, |found| found.failed);
    supers
        .iter()
        .filter(|(leg, found)| {
            failed >> leg & 1 == 0 && found.as_ref().is_some_and(|found| found.recovered)
        })
        .map(|&(leg, _)| leg)
        .collect()
}

/// The superblock of the last transaction; None if there is none.
fn newest(blocks: &[Vec<u8>]) -> Option<&Vec<u8>> {
    blocks
        .iter()
        .filter_map(|block| Some((superblock::decode(block)?.transaction_id, block)))
        .max_by_key(|(transaction, _)| *transaction)
        .map(|(_, block)| block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(events: u64, failed: u64, recovered: u64) -> Option<RaidSuper> {
        let mut bytes = RaidSuper::MAGIC.to_le_bytes().to_vec();
        bytes.extend([0; 12]);
        for field in [events, failed, recovered] {
            bytes.extend(field.to_le_bytes());
        }
        RaidSuper::parse(&bytes)
    }

    #[test]
    fn only_good_legs_count() {
        let all = u64::MAX;
        let good = |legs: Vec<Option<RaidSuper>>| {
            good_legs(&legs.into_iter().enumerate().collect::<Vec<_>>())
        };
        assert_eq!(
            good(vec![leg(5, 0, all), leg(6, 0, all), leg(5, 0, all)]),
            [0, 1, 2]
        );
        assert_eq!(
            good(vec![leg(5, 0, all), leg(6, 1, all), leg(6, 1, all)]),
            [1, 2]
        );
        assert_eq!(good(vec![leg(5, 0, 100), None, leg(6, 0, all)]), [2]);
        assert_eq!(good(vec![None, None]), [0usize; 0]);
        // Leg 1 is missing, and leg 0 failed before.
        let two = [(0, leg(5, 0, all)), (2, leg(6, 3, all))];
        assert_eq!(good_legs(&two), [2]);
        assert!(RaidSuper::parse(&[0; 40]).is_none());
    }
}
