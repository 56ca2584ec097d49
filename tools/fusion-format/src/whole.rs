// SPDX-License-Identifier: GPL-2.0-only
//! All of the metadata's superblock.

use std::mem::offset_of;

use uuid::Uuid;

use crate::layout::Layout;
use crate::record::MemberState;
use crate::superblock::{self, SUPERBLOCK_BYTES};
use crate::value::Malformed;
use crate::{ffi, raw};

/// Bits of `incompat`: there are patches, or rows, or were.
pub const PATCHES: u32 = ffi::FUSION_INCOMPAT_PATCHES;
pub const ROWS: u32 = ffi::FUSION_INCOMPAT_ROWS;
/// There is a journal of the map.
pub const JOURNAL: u32 = ffi::FUSION_INCOMPAT_JOURNAL;
/// The pool grows, or has grown.
pub const GROWTH: u32 = ffi::FUSION_INCOMPAT_GROWTH;

/// The btrees, as the superblock has their roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tree {
    Volumes,
    Bands,
    Stripes,
    Base,
    Tops,
    Patches,
    Rows,
}

impl Tree {
    pub const ALL: [Self; 7] = [
        Self::Volumes,
        Self::Bands,
        Self::Stripes,
        Self::Base,
        Self::Tops,
        Self::Patches,
        Self::Rows,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Bands => "bands",
            Self::Stripes => "stripes",
            Self::Base => "base",
            Self::Tops => "tops",
            Self::Patches => "patches",
            Self::Rows => "rows",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    pub data: u32,
    pub parity: u32,
}

impl Class {
    #[must_use]
    pub fn width(self) -> u32 {
        self.data + self.parity
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub uuid: Uuid,
    pub state: MemberState,
    /// Its number, that of the area of spares that serves it if there is one, from 1; 0: none.
    pub spare: u16,
    pub rebuilt: bool,
    /// Nothing that is on it counts.
    pub lost: bool,
    /// The generation of the states that it had recorded, as it was used last.
    pub left: u64,
}

/// What the stripes' records say in sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub replica_stripes: u64,
    pub raid_stripes: u64,
    pub replica_live: u64,
    pub raid_live: u64,
    pub replica_slots: u64,
    pub raid_slots: u64,
    pub raid_parity_slots: u64,
    pub patch_pages: u64,
}

impl Counts {
    /// By name.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 8] {
        [
            ("replica_stripes", self.replica_stripes),
            ("raid_stripes", self.raid_stripes),
            ("replica_live", self.replica_live),
            ("raid_live", self.raid_live),
            ("replica_slots", self.replica_slots),
            ("raid_slots", self.raid_slots),
            ("raid_parity_slots", self.raid_parity_slots),
            ("patch_pages", self.patch_pages),
        ]
    }
}

/// The space map's own root, as dm-persistent-data has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceMapRoot {
    pub blocks: u64,
    pub allocated: u64,
    pub index: u64,
    pub ref_counts: u64,
}

/// More records than a ring can have.
const SEQUENCES: u64 = 1 << 32;

/// Where the map's journal is on each member, and which record comes next that the trees do not
/// have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Journal {
    pub offset_sectors: u64,
    /// 0: there is none.
    pub sectors: u32,
    /// Bytes into the ring.
    pub at: u32,
    pub sequence: u64,
}

/// The layout before the newest, of which bands are still in use: of the first `members` of all, and
/// with as many spares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OldLayout {
    /// 0: there is none.
    pub members: u16,
    pub band_units: u32,
    pub bands: u32,
}

/// A superblock that the module would accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    pub clean: bool,
    pub needs_check: bool,
    pub pool_uuid: Uuid,
    pub compat: u32,
    pub incompat: u32,
    pub transaction_id: u64,
    pub metadata_blocks: u64,
    pub space_map: SpaceMapRoot,
    /// As `Tree::ALL`; 0: an empty tree.
    pub roots: [u64; 7],
    pub spares: u16,
    pub block_sectors: u32,
    pub band_units: u32,
    pub bands: u32,
    pub generation: u32,
    pub unsynced_generation: u32,
    pub counts: Counts,
    pub states_generation: u64,
    pub scrub_at: u64,
    pub journal: Journal,
    /// Of the layout that `members`, `band_units` and `bands` are of.
    pub layout_generation: u16,
    pub old: OldLayout,
    pub classes: Vec<Class>,
    pub members: Vec<Member>,
}

fn check(good: bool, what: &'static str) -> Result<(), Malformed> {
    if good { Ok(()) } else { Err(Malformed(what)) }
}

/// May a layout have such bands, and so many?
fn bands_ok(layout: &Layout, units: u32, bands: u32) -> bool {
    let stripes = u64::from(units / ffi::FUSION_MIN_WIDTH) * u64::from(layout.template_stripes());
    bands > 0
        && bands <= ffi::FUSION_MAX_BANDS
        && units >= layout.max_width()
        && stripes <= u64::from(ffi::FUSION_MAX_BAND_STRIPES)
}

/// Blocks of each member that bands take, which `bands_ok()`.
fn chunks(layout: &Layout, units: u32, bands: u32) -> u64 {
    u64::from(layout.band_chunks(units)) * u64::from(bands)
}

impl Whole {
    /// # Errors
    /// What the module would refuse to start with, too.
    ///
    /// # Panics
    /// If `block` is shorter than a superblock.
    pub fn decode(block: &[u8]) -> Result<Self, Malformed> {
        check(
            superblock::decode(block).is_some(),
            "damaged, or of something else",
        )?;
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_super> =
            unsafe { raw::from_bytes(&block[..size_of::<ffi::fusion_disk_super>()]) };
        let le = u32::from_le;
        check(raw.blocknr == 0, "not in its place")?;
        check(
            le(raw.version) == ffi::FUSION_FORMAT_VERSION,
            "of a format that this version does not know",
        )?;
        check(
            le(raw.incompat) & !ffi::FUSION_INCOMPAT_KNOWN == 0,
            "with features that this version does not know",
        )?;
        check(
            le(raw.ro_compat) & !ffi::FUSION_RO_COMPAT_KNOWN == 0,
            "with features that this version cannot write",
        )?;
        check(
            le(raw.shards) == 1
                && u64::from(le(raw.metadata_block_sectors)) * crate::SECTOR_BYTES
                    == SUPERBLOCK_BYTES as u64
                && le(raw.layout) == ffi::FUSION_LAYOUT_MOLS,
            "of an unknown geometry",
        )?;
        let count = usize::from(u16::from_le(raw.members));
        check(count <= ffi::FUSION_MAX_MEMBERS as usize, "damaged members")?;
        let root = |at: usize| {
            u64::from_le_bytes(*raw.space_map_root[at * 8..].first_chunk().expect("longer"))
        };
        let whole = Self {
            clean: le(raw.flags) & ffi::FUSION_SUPER_CLEAN != 0,
            needs_check: le(raw.flags) & ffi::FUSION_SUPER_NEEDS_CHECK != 0,
            pool_uuid: Uuid::from_bytes(raw.pool_uuid),
            compat: le(raw.compat),
            incompat: le(raw.incompat),
            transaction_id: u64::from_le(raw.transaction_id),
            metadata_blocks: u64::from_le(raw.metadata_blocks),
            space_map: SpaceMapRoot {
                blocks: root(0),
                allocated: root(1),
                index: root(2),
                ref_counts: root(3),
            },
            roots: [
                raw.volumes_root,
                raw.bands_root,
                raw.stripes_root,
                raw.base_root,
                raw.tops_root,
                raw.patches_root,
                raw.rows_root,
            ]
            .map(u64::from_le),
            spares: u16::from_le(raw.spares),
            block_sectors: le(raw.block_sectors),
            band_units: le(raw.band_units),
            bands: le(raw.bands),
            generation: le(raw.generation),
            unsynced_generation: le(raw.unsynced_generation),
            counts: Counts {
                replica_stripes: u64::from_le(raw.replica_stripes),
                raid_stripes: u64::from_le(raw.raid_stripes),
                replica_live: u64::from_le(raw.replica_live),
                raid_live: u64::from_le(raw.raid_live),
                replica_slots: u64::from_le(raw.replica_slots),
                raid_slots: u64::from_le(raw.raid_slots),
                raid_parity_slots: u64::from_le(raw.raid_parity_slots),
                patch_pages: u64::from_le(raw.patch_pages),
            },
            states_generation: u64::from_le(raw.states_generation),
            scrub_at: u64::from_le(raw.scrub_at),
            journal: Journal {
                offset_sectors: u64::from_le(raw.journal_offset),
                sectors: le(raw.journal_sectors),
                at: le(raw.journal_at),
                sequence: u64::from_le(raw.journal_sequence),
            },
            layout_generation: u16::from_le(raw.layout_generation),
            old: OldLayout {
                members: u16::from_le(raw.old_members),
                band_units: le(raw.old_band_units),
                bands: le(raw.old_bands),
            },
            // The module stops at the first that is not in use.
            classes: raw
                .classes
                .iter()
                .take_while(|class| class.data != 0)
                .map(|class| Class {
                    data: class.data.into(),
                    parity: class.parity.into(),
                })
                .collect(),
            members: raw.member[..count]
                .iter()
                .map(member)
                .collect::<Result<_, _>>()?,
        };
        whole.verify()?;
        Ok(whole)
    }

    /// None: no pool has so many members, or spares.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        Layout::new(u32::try_from(self.members.len()).ok()?, self.spares.into())
    }

    /// None: there is none, or no pool has so many members.
    #[must_use]
    pub fn old_layout(&self) -> Option<Layout> {
        Layout::new(self.old.members.into(), self.spares.into())
    }

    /// Is it that of a layout that bands may be of?
    #[must_use]
    pub fn has_generation(&self, generation: u16) -> bool {
        generation == self.layout_generation
            || self.old.members != 0 && generation == self.old_generation()
    }

    #[must_use]
    pub fn old_generation(&self) -> u16 {
        self.layout_generation.wrapping_sub(1)
    }

    #[must_use]
    pub fn block_pages(&self) -> u32 {
        self.block_sectors / crate::PAGE_SECTORS
    }

    /// The bits that a stripe's `spared` may have: two for each number in use.
    #[must_use]
    pub fn areas(&self) -> u8 {
        let bit = |member: &Member| 1u16.checked_shl(u32::from(member.spare)).unwrap_or(0) >> 1;
        let bits = self
            .members
            .iter()
            .fold(0, |bits, member| bits | bit(member));
        ((bits | bits << ffi::FUSION_MAX_AREAS) & 0xff) as u8
    }

    /// What `fusion_super_verify()` looks at, but what the members' labels say.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), Malformed> {
        let layout = self.layout().ok_or(Malformed("damaged members"))?;
        check(
            (crate::MIN_BLOCK_SECTORS..=crate::MAX_BLOCK_SECTORS).contains(&self.block_sectors)
                && self.block_sectors.is_power_of_two(),
            "of an impossible block size",
        )?;
        check(
            bands_ok(&layout, self.band_units, self.bands),
            "with a damaged geometry of bands",
        )?;
        check(self.growth_ok(&layout), "with a damaged old layout")?;
        check(
            self.classes.len() <= ffi::FUSION_MAX_CLASSES as usize
                && self.classes.iter().all(|class| {
                    (1..=ffi::FUSION_MAX_PARITY).contains(&class.parity)
                        && class.data >= ffi::FUSION_MIN_DATA
                        && class.width() <= layout.max_width()
                }),
            "with a damaged table of classes",
        )?;
        check(self.journal_ok(), "with a damaged journal")?;
        check(self.members_ok(), "with a damaged table of members")
    }

    /// The new layout does not reach beyond the old one, which has fewer members.
    fn growth_ok(&self, layout: &Layout) -> bool {
        let old = &self.old;
        if self.incompat & GROWTH == 0 && self.layout_generation != 0 {
            return false;
        }
        if old.members == 0 {
            return *old == OldLayout::default();
        }
        let Some(old_layout) = self.old_layout() else {
            return false;
        };
        self.incompat & GROWTH != 0
            && old_layout.members() < layout.members()
            && bands_ok(&old_layout, old.band_units, old.bands)
            && chunks(layout, self.band_units, self.bands)
                <= chunks(&old_layout, old.band_units, old.bands)
    }

    /// See `super_verify_journal()`.
    fn journal_ok(&self) -> bool {
        let journal = &self.journal;
        let bytes = u64::from(journal.sectors) * crate::SECTOR_BYTES;
        (self.incompat & JOURNAL != 0) == (journal.sectors != 0)
            && journal.at.is_multiple_of(ffi::FUSION_JOURNAL_UNIT)
            && u64::from(journal.at) <= bytes
    }

    /// See `super_members_ok()`.
    fn members_ok(&self) -> bool {
        let mut numbers = 0u32;
        let (mut failed, mut rebuilt) = (0, 0);
        for member in &self.members {
            let flagged = member.rebuilt || member.lost;
            if member.state == MemberState::Ok && (flagged || member.spare != 0)
                || member.state == MemberState::Returning && member.spare == 0
                || u32::from(member.spare) > ffi::FUSION_MAX_AREAS
            {
                return false;
            }
            if member.rebuilt {
                if member.spare == 0 || member.spare > self.spares {
                    return false;
                }
                rebuilt += 1;
            } else {
                failed += u32::from(member.state != MemberState::Ok);
            }
            if member.spare != 0 {
                if numbers >> member.spare & 1 == 1 {
                    return false;
                }
                numbers |= 1 << member.spare;
            }
        }
        let parities = self.classes.iter().map(|class| class.parity);
        let least = parities.min().unwrap_or(ffi::FUSION_MAX_PARITY);
        failed + rebuilt / 2 <= least
    }

    /// The block to write.
    ///
    /// # Panics
    /// If there are more classes or members than there may be.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = Box::<ffi::fusion_disk_super>::default();
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        raw.flags = (flag(self.clean, ffi::FUSION_SUPER_CLEAN)
            | flag(self.needs_check, ffi::FUSION_SUPER_NEEDS_CHECK))
        .to_le();
        raw.pool_uuid = self.pool_uuid.into_bytes();
        raw.magic = ffi::FUSION_SUPER_MAGIC.to_le();
        raw.version = ffi::FUSION_FORMAT_VERSION.to_le();
        raw.compat = self.compat.to_le();
        raw.incompat = self.incompat.to_le();
        raw.transaction_id = self.transaction_id.to_le();
        raw.metadata_block_sectors =
            u32::try_from(SUPERBLOCK_BYTES as u64 / crate::SECTOR_BYTES).map_or(0, u32::to_le);
        raw.shards = 1u32.to_le();
        raw.metadata_blocks = self.metadata_blocks.to_le();
        let map = &self.space_map;
        for (at, value) in [map.blocks, map.allocated, map.index, map.ref_counts]
            .into_iter()
            .enumerate()
        {
            raw.space_map_root[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        let roots = self.roots.map(u64::to_le);
        [
            raw.volumes_root,
            raw.bands_root,
            raw.stripes_root,
            raw.base_root,
            raw.tops_root,
            raw.patches_root,
            raw.rows_root,
        ] = roots;
        raw.layout = ffi::FUSION_LAYOUT_MOLS.to_le();
        raw.members = u16::try_from(self.members.len())
            .expect("as many as there may be")
            .to_le();
        raw.spares = self.spares.to_le();
        raw.block_sectors = self.block_sectors.to_le();
        raw.band_units = self.band_units.to_le();
        raw.bands = self.bands.to_le();
        raw.generation = self.generation.to_le();
        raw.unsynced_generation = self.unsynced_generation.to_le();
        let counts = &self.counts;
        raw.replica_stripes = counts.replica_stripes.to_le();
        raw.raid_stripes = counts.raid_stripes.to_le();
        raw.replica_live = counts.replica_live.to_le();
        raw.raid_live = counts.raid_live.to_le();
        raw.replica_slots = counts.replica_slots.to_le();
        raw.raid_slots = counts.raid_slots.to_le();
        raw.raid_parity_slots = counts.raid_parity_slots.to_le();
        raw.patch_pages = counts.patch_pages.to_le();
        raw.states_generation = self.states_generation.to_le();
        raw.scrub_at = self.scrub_at.to_le();
        raw.journal_offset = self.journal.offset_sectors.to_le();
        raw.journal_sectors = self.journal.sectors.to_le();
        raw.journal_at = self.journal.at.to_le();
        raw.journal_sequence = self.journal.sequence.to_le();
        raw.layout_generation = self.layout_generation.to_le();
        raw.old_members = self.old.members.to_le();
        raw.old_band_units = self.old.band_units.to_le();
        raw.old_bands = self.old.bands.to_le();
        for (to, class) in raw.classes[..self.classes.len()]
            .iter_mut()
            .zip(&self.classes)
        {
            to.data = u8::try_from(class.data).expect("no wider than a pool");
            to.parity = u8::try_from(class.parity).expect("no more than two");
        }
        for (to, member) in raw.member[..self.members.len()]
            .iter_mut()
            .zip(&self.members)
        {
            to.uuid = member.uuid.into_bytes();
            to.state = state_number(member.state).to_le();
            to.spare = member.spare.to_le();
            to.flags = flags_of(member).to_le();
            to.left = member.left.to_le();
        }
        // SAFETY: integers without padding.
        let mut block = unsafe { raw::to_bytes(&*raw) };
        block.resize(SUPERBLOCK_BYTES, 0);
        superblock::seal(&mut block);
        block
    }

    /// Sets or clears a flag of a superblock in place: what this version does not know of it
    /// stays. None if it is no superblock.
    #[must_use]
    pub fn without_needs_check(block: &[u8]) -> Option<Vec<u8>> {
        superblock::decode(block)?;
        let mut block = block[..SUPERBLOCK_BYTES].to_vec();
        let at = offset_of!(ffi::fusion_disk_super, flags);
        let flags = u32::from_le_bytes(*block[at..].first_chunk()?);
        let flags = flags & !ffi::FUSION_SUPER_NEEDS_CHECK;
        block[at..at + size_of::<u32>()].copy_from_slice(&flags.to_le_bytes());
        superblock::seal(&mut block);
        Some(block)
    }

    /// The same so that no record that there is of the journal comes next: the start goes on as if
    /// the ring were empty.
    #[must_use]
    pub fn without_journal_records(block: &[u8]) -> Option<Vec<u8>> {
        superblock::decode(block)?;
        let mut block = block[..SUPERBLOCK_BYTES].to_vec();
        let at = offset_of!(ffi::fusion_disk_super, journal_sequence);
        let sequence = u64::from_le_bytes(*block[at..].first_chunk()?).wrapping_add(SEQUENCES);
        block[at..at + size_of::<u64>()].copy_from_slice(&sequence.to_le_bytes());
        superblock::seal(&mut block);
        Some(block)
    }

    /// The same with another count of allocated blocks.
    #[must_use]
    pub fn with_allocated(block: &[u8], allocated: u64) -> Option<Vec<u8>> {
        superblock::decode(block)?;
        let mut block = block[..SUPERBLOCK_BYTES].to_vec();
        let at = offset_of!(ffi::fusion_disk_super, space_map_root) + size_of::<u64>();
        block[at..at + size_of::<u64>()].copy_from_slice(&allocated.to_le_bytes());
        superblock::seal(&mut block);
        Some(block)
    }
}

fn member(raw: &ffi::fusion_disk_member) -> Result<Member, Malformed> {
    let flags = u32::from(u16::from_le(raw.flags));
    check(
        flags & !(ffi::FUSION_MEMBER_REBUILT | ffi::FUSION_MEMBER_LOST) == 0,
        "with a damaged table of members",
    )?;
    Ok(Member {
        uuid: Uuid::from_bytes(raw.uuid),
        state: match u32::from_le(raw.state) {
            ffi::FUSION_MEMBER_OK => MemberState::Ok,
            ffi::FUSION_MEMBER_MISSING => MemberState::Missing,
            ffi::FUSION_MEMBER_FAILED => MemberState::Failed,
            ffi::FUSION_MEMBER_RETURNING => MemberState::Returning,
            _ => return Err(Malformed("with a damaged table of members")),
        },
        spare: u16::from_le(raw.spare),
        rebuilt: flags & ffi::FUSION_MEMBER_REBUILT != 0,
        lost: flags & ffi::FUSION_MEMBER_LOST != 0,
        left: u64::from_le(raw.left),
    })
}

fn flags_of(member: &Member) -> u16 {
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let flags = flag(member.rebuilt, ffi::FUSION_MEMBER_REBUILT)
        | flag(member.lost, ffi::FUSION_MEMBER_LOST);
    u16::try_from(flags).expect("the flags there are")
}

fn state_number(state: MemberState) -> u32 {
    match state {
        MemberState::Ok => ffi::FUSION_MEMBER_OK,
        MemberState::Missing => ffi::FUSION_MEMBER_MISSING,
        MemberState::Failed => ffi::FUSION_MEMBER_FAILED,
        MemberState::Returning => ffi::FUSION_MEMBER_RETURNING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of eight members, which were seven; all bands fit just.
    fn example() -> Whole {
        let member = |index: u128| Member {
            uuid: Uuid::from_u128(index),
            state: MemberState::Ok,
            spare: 0,
            rebuilt: false,
            lost: false,
            left: 0,
        };
        Whole {
            clean: true,
            needs_check: false,
            pool_uuid: Uuid::from_u128(0xabcd),
            compat: 1,
            incompat: GROWTH,
            transaction_id: 7,
            metadata_blocks: 2048,
            space_map: SpaceMapRoot::default(),
            roots: [0; 7],
            spares: 1,
            block_sectors: 128,
            band_units: 70,
            bands: 8,
            generation: 3,
            unsynced_generation: 1,
            counts: Counts::default(),
            states_generation: 1,
            scrub_at: 0,
            journal: Journal::default(),
            layout_generation: 1,
            old: OldLayout {
                members: 7,
                band_units: 80,
                bands: 8,
            },
            // Wider than the old layout has room for.
            classes: vec![Class { data: 5, parity: 1 }],
            members: (0..8).map(member).collect(),
        }
    }

    #[test]
    fn a_pool_that_grows() {
        let whole = example();
        assert_eq!(Whole::decode(&whole.encode()), Ok(whole.clone()));
        assert_eq!(whole.old_layout().map(|old| old.max_width()), Some(5));
        for (generation, old) in [(0, u16::MAX), (1, 0), (u16::MAX, u16::MAX - 1)] {
            let whole = Whole {
                layout_generation: generation,
                ..whole.clone()
            };
            assert_eq!(Whole::decode(&whole.encode()), Ok(whole.clone()));
            assert!(whole.has_generation(generation) && whole.has_generation(old));
            assert!(!whole.has_generation(generation.wrapping_add(1)));
        }
        // It has grown.
        let grown = Whole {
            old: OldLayout::default(),
            ..whole
        };
        assert_eq!(Whole::decode(&grown.encode()), Ok(grown.clone()));
        assert!(grown.old_layout().is_none());
        assert!(grown.has_generation(1) && !grown.has_generation(0));
    }

    #[test]
    fn where_the_fields_are() {
        let block = example().encode();
        let at = offset_of!(ffi::fusion_disk_super, journal_sequence) + size_of::<u64>();
        assert_eq!(
            block[at..at + 16],
            [1, 0, 7, 0, 80, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn damaged_growth() {
        let refused = |change: &dyn Fn(&mut Whole), what: &str| {
            let mut whole = example();
            change(&mut whole);
            let error = Whole::decode(&whole.encode()).unwrap_err();
            assert!(error.0.contains(what), "{whole:?}: {error}");
        };
        let changes: [&dyn Fn(&mut Whole); 12] = [
            &|whole| whole.incompat = 0,
            &|whole| {
                whole.incompat = 0;
                whole.old = OldLayout::default();
            },
            &|whole| {
                whole.incompat = 0;
                whole.layout_generation = 0;
            },
            &|whole| whole.old.members = 0,
            &|whole| whole.old.members = 6,
            &|whole| whole.old.members = 8,
            &|whole| whole.old.members = 9,
            // No room for a spare.
            &|whole| whole.old.members = 4,
            &|whole| whole.old.bands = 0,
            &|whole| whole.old.band_units = 4,
            &|whole| whole.old.bands = ffi::FUSION_MAX_BANDS + 1,
            // The new layout would reach beyond it.
            &|whole| whole.bands = 9,
        ];
        for change in changes {
            refused(change, "old layout");
        }
        refused(&|whole| whole.band_units = 5, "geometry of bands");
        refused(&|whole| whole.classes[0].data = 6, "table of classes");
    }
}
