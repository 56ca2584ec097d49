// SPDX-License-Identifier: GPL-2.0-only
//! The shape of a new pool: how many members, where metadata and bands lie.

use anyhow::{Context, Result, bail};
use fusion_format::layout::{self, Bands};
use fusion_format::{Layout, MAX_BLOCK_SECTORS, PAGE_SECTORS, SECTOR_BYTES, label, metadata};

use crate::size;

const MIB_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;
const LABEL_AREA_SECTORS: u64 = label::LABEL_AREA_BYTES / SECTOR_BYTES;
/// For dm-raid's superblock and its bitmap of one bit for each 4 MiB.
const RMETA_SECTORS: u64 = MIB_SECTORS;
/// At the end of each member, of no use: others look there for what is theirs (md of format 1.0, DDF,
/// ZFS), and what a volume has must not be taken for that.
const TAIL_SECTORS: u64 = MIB_SECTORS;
/// Legs of the metadata mirror; every layout has more members.
pub const LEGS: u16 = 3;

/// Where everything lies, the same on all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    pub members: u32,
    pub spares: u32,
    pub block_sectors: u32,
    pub rmeta_offset_sectors: u64,
    pub rmeta_sectors: u64,
    pub slice_offset_sectors: u64,
    pub slice_sectors: u64,
    pub journal_offset_sectors: u64,
    pub journal_sectors: u64,
    pub data_offset_sectors: u64,
    pub bands: Bands,
}

/// What members have beside data.
#[derive(Clone, Copy, Debug)]
pub struct OnMembers {
    pub metadata: bool,
    pub journal: bool,
}

impl Geometry {
    pub fn data_sectors(&self) -> u64 {
        self.bands.member_chunks() * u64::from(self.block_sectors)
    }

    /// For a pool over `devices` devices, the smallest member of which has
    /// `member_sectors`.
    pub fn new(
        devices: u32,
        spares: Option<u32>,
        block_sectors: u32,
        member_sectors: u64,
        on_members: OnMembers,
    ) -> Result<Self> {
        let members = layout::largest_order(devices).with_context(|| {
            format!(
                "{devices} devices are too few: a pool has at least {} members",
                layout::MIN_MEMBERS
            )
        })?;
        let most = members - layout::MIN_MEMBERS;
        let spares = spares.unwrap_or(most.min(1));
        let layout = Layout::new(members, spares).with_context(|| {
            format!(
                "{members} members leave no room for {spares} spares: give --spares {most} or less"
            )
        })?;

        let slice_sectors = if on_members.metadata {
            slice_sectors(&layout, block_sectors, member_sectors)?
        } else {
            0
        };
        let rmeta_sectors = if on_members.metadata {
            RMETA_SECTORS
        } else {
            0
        };
        let slice_offset_sectors = LABEL_AREA_SECTORS + rmeta_sectors;
        let slice_end = (slice_offset_sectors + slice_sectors).next_multiple_of(MIB_SECTORS);
        let (journal_offset_sectors, journal_sectors) = if on_members.journal {
            (slice_end, journal_sectors(member_sectors))
        } else {
            (0, 0)
        };
        let data_offset_sectors = slice_end + journal_sectors;

        let beside_data = data_offset_sectors + TAIL_SECTORS;
        let chunks = member_sectors.saturating_sub(beside_data) / u64::from(block_sectors);
        let bands = layout.bands(chunks).with_context(|| {
            let least = beside_data + layout.min_member_chunks() * u64::from(block_sectors);
            format!(
                "the smallest member has {}, but a pool of {members} members with blocks of {} \
                 needs at least {} on each: use larger devices or smaller blocks",
                size::display_sectors(member_sectors),
                size::display_sectors(block_sectors.into()),
                size::display_sectors(least)
            )
        })?;
        Ok(Self {
            members,
            spares,
            block_sectors,
            rmeta_offset_sectors: LABEL_AREA_SECTORS,
            rmeta_sectors,
            slice_offset_sectors,
            slice_sectors,
            journal_offset_sectors,
            journal_sectors,
            data_offset_sectors,
            bands,
        })
    }
}

/// The size of the journal on each member: a little of a small one, and not more than a second of
/// flushes fills half of.
fn journal_sectors(member_sectors: u64) -> u64 {
    (member_sectors / 256)
        .next_multiple_of(MIB_SECTORS)
        .min(32 * MIB_SECTORS)
}

/// The size of the metadata on each leg.
fn slice_sectors(layout: &Layout, block_sectors: u32, member_sectors: u64) -> Result<u64> {
    let size = |block_sectors: u32| {
        let blocks = u64::from(layout.members()) * (member_sectors / u64::from(block_sectors));
        metadata::size_sectors(blocks, block_sectors / PAGE_SECTORS, member_sectors)
    };
    if size(block_sectors) <= metadata::MAX_SECTORS {
        return Ok(size(block_sectors));
    }
    let mut fitting = block_sectors;
    while fitting < MAX_BLOCK_SECTORS && size(fitting) > metadata::MAX_SECTORS {
        fitting *= 2;
    }
    let remedy = if size(fitting) <= metadata::MAX_SECTORS {
        format!(
            "--block-size {}K would fit",
            u64::from(fitting) * SECTOR_BYTES / 1024
        )
    } else {
        "make several pools of fewer or smaller members".into()
    };
    bail!(
        "with blocks of {} this pool would need {} of metadata, and {} is the most there can be: \
         {remedy}",
        size::display_sectors(block_sectors.into()),
        size::display_sectors(size(block_sectors)),
        size::display_sectors(metadata::MAX_SECTORS)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = (1 << 30) / SECTOR_BYTES;
    const ALL: OnMembers = OnMembers {
        metadata: true,
        journal: true,
    };

    #[test]
    fn typical() {
        let geometry = Geometry::new(8, None, 128, GIB, ALL).unwrap();
        assert_eq!((geometry.members, geometry.spares), (8, 1));
        assert_eq!(geometry.rmeta_offset_sectors, 2048);
        assert_eq!(geometry.slice_offset_sectors, 4096);
        assert_eq!(geometry.slice_sectors, 16 * MIB_SECTORS);
        assert_eq!(geometry.journal_offset_sectors, 18 * MIB_SECTORS);
        assert_eq!(geometry.journal_sectors, 4 * MIB_SECTORS);
        assert_eq!(geometry.data_offset_sectors, 22 * MIB_SECTORS);
        assert!(geometry.data_offset_sectors + geometry.data_sectors() <= GIB - MIB_SECTORS);
        assert!(geometry.bands.count >= 24, "{:?}", geometry.bands);
    }

    /// Whatever its size, as much as that is left free, and not more than it takes for a band.
    #[test]
    fn the_end_of_members() {
        for sectors in (64 * MIB_SECTORS..GIB).step_by(1237) {
            let geometry = Geometry::new(8, None, 128, sectors, ALL).unwrap();
            let end = geometry.data_offset_sectors + geometry.data_sectors();
            assert!(end + MIB_SECTORS <= sectors, "{sectors}");
        }
        let at_least = |sectors| Geometry::new(8, None, 128, sectors, ALL).is_ok();
        let least = (0..).find(|sectors| at_least(*sectors)).unwrap();
        let geometry = Geometry::new(8, None, 128, least, ALL).unwrap();
        let end = geometry.data_offset_sectors + geometry.data_sectors();
        assert_eq!(end + MIB_SECTORS, least);
    }

    #[test]
    fn metadata_elsewhere() {
        let journal_only = OnMembers {
            metadata: false,
            ..ALL
        };
        let geometry = Geometry::new(8, None, 128, GIB, journal_only).unwrap();
        assert_eq!(geometry.slice_sectors, 0);
        assert_eq!(geometry.journal_offset_sectors, MIB_SECTORS);
        assert_eq!(geometry.data_offset_sectors, 5 * MIB_SECTORS);
    }

    #[test]
    fn no_journal() {
        let metadata_only = OnMembers {
            journal: false,
            ..ALL
        };
        let geometry = Geometry::new(8, None, 128, GIB, metadata_only).unwrap();
        assert_eq!(
            (geometry.journal_offset_sectors, geometry.journal_sectors),
            (0, 0)
        );
        assert_eq!(geometry.data_offset_sectors, 18 * MIB_SECTORS);
    }

    #[test]
    fn odd_numbers_of_devices() {
        assert_eq!(Geometry::new(6, None, 128, GIB, ALL).unwrap().members, 5);
        let four = Geometry::new(4, None, 128, GIB, ALL).unwrap();
        assert_eq!((four.members, four.spares), (4, 0));
    }

    fn error(devices: u32, spares: Option<u32>, block: u32, sectors: u64) -> String {
        Geometry::new(devices, spares, block, sectors, ALL)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn refusals_name_the_remedy() {
        assert!(error(3, None, 128, GIB).contains("at least 4 members"));
        assert!(error(4, Some(1), 128, GIB).contains("--spares 0 or less"));
        assert!(error(8, None, 128, 12 * MIB_SECTORS).contains("needs at least"));
        let tib = 1024 * GIB;
        let large = error(16, None, 8, tib);
        assert!(large.contains("--block-size 64K would fit"), "{large}");
        assert!(error(64, None, 8, 1000 * tib).contains("several pools"));
    }
}
