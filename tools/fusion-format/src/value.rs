// SPDX-License-Identifier: GPL-2.0-only
//! The values of the metadata's btrees.
//!
//! What is decoded is well-formed: whether a pool has such places and stripes is for others to
//! look at. Encoding gives the bytes that the module would write.

use std::mem::offset_of;

use thiserror::Error;

use crate::place::{MAX_PARITY, MAX_REPLICAS, NO_STRIPE};
use crate::{ffi, name_is_valid, raw};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

fn check(good: bool, what: &'static str) -> Result<(), Malformed> {
    if good { Ok(()) } else { Err(Malformed(what)) }
}

// ---- volumes ----

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub blocks: u64,
    pub mapped: u64,
    pub tops: u64,
    pub patched: u64,
    /// Index into the table of classes.
    pub class: u16,
    pub deleting: bool,
    pub name: String,
}

impl Volume {
    pub const BYTES: usize = size_of::<ffi::fusion_disk_volume>();

    /// # Errors
    /// A field that no volume has.
    ///
    /// # Panics
    /// If `bytes` are not `BYTES`, here and below.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_volume> = unsafe { raw::from_bytes(bytes) };
        let start = offset_of!(ffi::fusion_disk_volume, name);
        let name = std::ffi::CStr::from_bytes_until_nul(
            &bytes[start..start + ffi::FUSION_NAME_BYTES as usize],
        )
        .ok()
        .and_then(|name| name.to_str().ok())
        .filter(|name| name_is_valid(name))
        .ok_or(Malformed("impossible name"))?;
        let flags = u16::from_le(raw.flags);
        check(
            u32::from(flags) & !ffi::FUSION_VOLUME_DELETING == 0,
            "unknown flags",
        )?;
        Ok(Self {
            blocks: u64::from_le(raw.blocks),
            mapped: u64::from_le(raw.mapped),
            tops: u64::from_le(raw.tops),
            patched: u64::from_le(raw.patched),
            class: u16::from_le(raw.class),
            deleting: flags != 0,
            name: name.to_owned(),
        })
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = ffi::fusion_disk_volume {
            blocks: self.blocks.to_le(),
            mapped: self.mapped.to_le(),
            tops: self.tops.to_le(),
            patched: self.patched.to_le(),
            class: self.class.to_le(),
            flags: u16::from(self.deleting).to_le(),
            ..Default::default()
        };
        for (to, from) in raw.name[..ffi::FUSION_NAME_BYTES as usize - 1]
            .iter_mut()
            .zip(self.name.bytes())
        {
            *to = from as std::ffi::c_char;
        }
        // SAFETY: integers without padding.
        unsafe { raw::to_bytes(&raw) }
    }
}

// ---- bands ----

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// Index into the table of classes.
    pub class: u16,
    /// Of the layout that it is of.
    pub layout_generation: u16,
    /// Stripes that are stored.
    pub used: u32,
}

impl Band {
    pub const BYTES: usize = size_of::<ffi::fusion_disk_band>();

    /// # Errors
    /// Of no class.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_band> = unsafe { raw::from_bytes(bytes) };
        let class = u16::from_le(raw.class)
            .checked_sub(1)
            .ok_or(Malformed("stored, but free"))?;
        Ok(Self {
            class,
            layout_generation: u16::from_le(raw.layout_generation),
            used: u32::from_le(raw.used),
        })
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // SAFETY: integers without padding.
        unsafe {
            raw::to_bytes(&ffi::fusion_disk_band {
                class: (self.class + 1).to_le(),
                layout_generation: self.layout_generation.to_le(),
                used: self.used.to_le(),
            })
        }
    }
}

// ---- stripes ----

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StripeState {
    Primary,
    Mirror,
    Raid,
}

impl StripeState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Mirror => "mirror",
            Self::Raid => "raid",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    pub state: StripeState,
    /// Areas of spares that slots are in, a bit each.
    pub spared: u8,
    pub patch_pages: u16,
    pub generation: u32,
    pub written: u64,
    pub live: u64,
    /// `NO_STRIPE`: none.
    pub partner: [u64; MAX_PARITY],
}

impl Stripe {
    pub const BYTES: usize = size_of::<ffi::fusion_disk_stripe>();

    /// # Errors
    /// Of no state, with nothing live, or with live slots that are not written; partners or
    /// patches that its state cannot have.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_stripe> = unsafe { raw::from_bytes(bytes) };
        let state = match u32::from(raw.state) {
            ffi::FUSION_STRIPE_PRIMARY => StripeState::Primary,
            ffi::FUSION_STRIPE_MIRROR => StripeState::Mirror,
            ffi::FUSION_STRIPE_RAID => StripeState::Raid,
            _ => return Err(Malformed("unknown state")),
        };
        let stripe = Self {
            state,
            spared: raw.spared,
            patch_pages: u16::from_le(raw.patch_pages),
            generation: u32::from_le(raw.generation),
            written: u64::from_le(raw.written),
            live: u64::from_le(raw.live),
            partner: raw.partner.map(u64::from_le),
        };
        check(stripe.live != 0, "stored, but nothing of it is live")?;
        check(
            stripe.live & !stripe.written == 0,
            "slots are live that were never written",
        )?;
        check(
            stripe.patch_pages == 0 || state != StripeState::Raid,
            "patches in a stripe with parity",
        )?;
        check(
            stripe.patch_pages == 0 || stripe.live == stripe.written,
            "dead slots in a set for patches",
        )?;
        let partners = stripe.partner.map(|partner| partner != NO_STRIPE);
        let possible = match state {
            StripeState::Primary => partners[0],
            StripeState::Mirror => partners == [true, false],
            StripeState::Raid => partners == [false, false],
        };
        check(possible, "partners that its state cannot have")?;
        Ok(stripe)
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let state = match self.state {
            StripeState::Primary => ffi::FUSION_STRIPE_PRIMARY,
            StripeState::Mirror => ffi::FUSION_STRIPE_MIRROR,
            StripeState::Raid => ffi::FUSION_STRIPE_RAID,
        };
        // SAFETY: integers without padding.
        unsafe {
            raw::to_bytes(&ffi::fusion_disk_stripe {
                state: state as u8,
                spared: self.spared,
                patch_pages: self.patch_pages.to_le(),
                generation: self.generation.to_le(),
                written: self.written.to_le(),
                live: self.live.to_le(),
                partner: self.partner.map(u64::to_le),
            })
        }
    }
}

// ---- bases ----

pub const BASE_BYTES: usize = size_of::<ffi::fusion_disk_base>();

/// Place number `which` of a group.
#[must_use]
pub fn base_place(group: &[u8], which: usize) -> u64 {
    u64::from_le_bytes(
        *group[which * size_of::<u64>()..]
            .first_chunk()
            .expect("a group has that many"),
    )
}

// ---- tops ----

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// Unused: 0.
    pub place: [u64; MAX_REPLICAS],
    pub mask: u64,
    pub generation: u32,
}

impl Top {
    pub const BYTES: usize = size_of::<ffi::fusion_disk_top>();

    /// In a pool whose blocks have `pages` pages.
    ///
    /// # Errors
    /// See `codec.h`.
    pub fn decode(bytes: &[u8], pages: u32) -> Result<Self, Malformed> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_top> = unsafe { raw::from_bytes(bytes) };
        let mut top = ffi::fusion_top::default();
        // SAFETY: both are whole.
        let error = unsafe { ffi::fusion_top_decode(&raw const *raw, pages, &raw mut top) };
        check(error == 0 && raw.reserved == 0, "impossible top")?;
        Ok(Self {
            place: top.place,
            mask: top.mask,
            generation: top.generation,
        })
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let top = ffi::fusion_top {
            place: self.place,
            mask: self.mask,
            generation: self.generation,
        };
        let mut raw = ffi::fusion_disk_top::default();
        // SAFETY: both are whole; integers without padding.
        unsafe {
            ffi::fusion_top_encode(&raw const top, &raw mut raw);
            raw::to_bytes(&raw)
        }
    }
}

// ---- patches ----

/// Where the replicas of a page are; unused: 0.
pub type Patch = [u64; MAX_REPLICAS];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patches {
    pub mask: u64,
    pub generation: u32,
    /// One for each bit of `mask`.
    pub patch: Vec<Patch>,
}

/// Bytes of the patches of a block of `pages` pages.
#[must_use]
pub fn patches_bytes(pages: u32) -> usize {
    // SAFETY: a function of its argument.
    unsafe { ffi::fusion_patches_bytes(pages) as usize }
}

/// How many pages of a block may be patched.
#[must_use]
pub fn max_patches(pages: u32) -> u32 {
    // SAFETY: a function of its argument.
    unsafe { ffi::fusion_max_patches(pages) }
}

/// Room for whatever is encoded as patches, aligned as they are.
#[repr(C, align(8))]
struct Room([u8; ROOM_BYTES]);
const ROOM_BYTES: usize = size_of::<ffi::fusion_disk_patches>()
    + ffi::FUSION_MAX_PATCHES as usize * size_of::<ffi::fusion_disk_patch>();
const _: () = assert!(
    size_of::<ffi::fusion_patches>()
        + ffi::FUSION_MAX_PATCHES as usize * size_of::<ffi::fusion_patch>()
        <= ROOM_BYTES
);

impl Patches {
    /// # Errors
    /// See `patch.h`.
    pub fn decode(bytes: &[u8], pages: u32) -> Result<Self, Malformed> {
        assert_eq!(bytes.len(), patches_bytes(pages), "all of them");
        let mut disk = Room([0; ROOM_BYTES]);
        disk.0[..bytes.len()].copy_from_slice(bytes);
        let mut core = Room([0; ROOM_BYTES]);
        let patches = (&raw mut core).cast::<ffi::fusion_patches>();
        // SAFETY: both have room for what blocks of any size have.
        let error = unsafe { ffi::fusion_patches_decode((&raw const disk).cast(), pages, patches) };
        check(error == 0, "impossible patches")?;
        // SAFETY: decoded.
        let (mask, generation) = unsafe { ((*patches).mask, (*patches).generation) };
        let start = offset_of!(ffi::fusion_patches, patch);
        let patch = core.0[start..]
            .chunks_exact(size_of::<ffi::fusion_patch>())
            .take(mask.count_ones() as usize)
            .map(|bytes| {
                let mut at = [0; MAX_REPLICAS];
                for (at, bytes) in at.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
                    *at = u64::from_ne_bytes(*bytes.first_chunk().expect("as many"));
                }
                at
            })
            .collect();
        Ok(Self {
            mask,
            generation,
            patch,
        })
    }

    #[must_use]
    pub fn encode(&self, pages: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(patches_bytes(pages));
        bytes.extend(self.mask.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend([0; 4]);
        for at in self.patch.iter().flatten() {
            bytes.extend(at.to_le_bytes());
        }
        bytes.resize(patches_bytes(pages), 0);
        bytes
    }
}

// ---- rows ----

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub stripe: u64,
    pub page: u32,
    pub changed: u64,
    pub copies: [u8; MAX_PARITY],
    /// As many as its class has parities.
    pub parity: Vec<Patch>,
    /// One for each bit of `changed`.
    pub patch: Vec<Patch>,
}

/// The key of the first part of row `page` of a stripe.
#[must_use]
pub fn row_key(stripe: u64, page: u32) -> u64 {
    // SAFETY: a function of its arguments.
    unsafe { ffi::fusion_row_key(stripe, page) }
}

impl Row {
    /// Of one part.
    pub const BYTES: usize = size_of::<ffi::fusion_disk_row>();
    pub const MAX_PARTS: usize = ffi::FUSION_MAX_PARTS as usize;
    /// Data pages of one.
    pub const MAX_PATCHES: u32 = ffi::FUSION_ROW_PATCHES;

    /// Is it the key of a first part?
    #[must_use]
    pub fn is_first(key: u64) -> bool {
        key & ((1 << ffi::FUSION_PART_BITS) - 1) == 0
    }

    /// How many parts the row has of which `first` is the first; 0: it cannot be one.
    #[must_use]
    pub fn parts(first: &[u8]) -> usize {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_row> = unsafe { raw::from_bytes(first) };
        // SAFETY: it is whole.
        unsafe { ffi::fusion_row_parts(&raw const *raw) as usize }
    }

    /// The place that says which class it is of: the first replica of its first parity.
    #[must_use]
    pub fn first_place(first: &[u8]) -> u64 {
        let start = offset_of!(ffi::fusion_disk_row, patch);
        u64::from_le_bytes(*first[start..].first_chunk().expect("a row is longer"))
    }

    /// All parts of it, in a class of `data` and `parity` slots.
    ///
    /// # Errors
    /// See `row.h`.
    pub fn decode(
        parts: &[u8],
        key: u64,
        (data, parity): (u32, u32),
        pages: u32,
    ) -> Result<Self, Malformed> {
        let mut disk = vec![ffi::fusion_disk_row::default(); Self::MAX_PARTS];
        for (to, from) in disk.iter_mut().zip(parts.chunks_exact(Self::BYTES)) {
            // SAFETY: integers only.
            *to = *unsafe { raw::from_bytes(from) };
        }
        check(
            Self::parts(&parts[..Self::BYTES]) * Self::BYTES == parts.len(),
            "not all parts of a row",
        )?;
        let mut row = ffi::fusion_row::default();
        // SAFETY: as many parts as there can be.
        let error = unsafe {
            ffi::fusion_row_decode(disk.as_ptr(), key, data, parity, pages, &raw mut row)
        };
        check(error == 0, "impossible row")?;
        let at = |patch: &ffi::fusion_patch| patch.at;
        Ok(Self {
            stripe: row.stripe,
            page: row.page,
            changed: row.changed,
            copies: row.copies,
            parity: row.parity[..parity as usize].iter().map(at).collect(),
            patch: row.patch[..row.changed.count_ones() as usize]
                .iter()
                .map(at)
                .collect(),
        })
    }

    /// All parts.
    #[must_use]
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let mut row = ffi::fusion_row {
            stripe: self.stripe,
            page: self.page,
            changed: self.changed,
            copies: self.copies,
            ..Default::default()
        };
        for (to, at) in row.parity.iter_mut().zip(&self.parity) {
            to.at = *at;
        }
        for (to, at) in row.patch.iter_mut().zip(&self.patch) {
            to.at = *at;
        }
        let mut disk = vec![ffi::fusion_disk_row::default(); Self::MAX_PARTS];
        // SAFETY: as many parts as there can be.
        let parts = unsafe { ffi::fusion_row_encode(&raw const row, disk.as_mut_ptr()) };
        disk[..parts as usize]
            .iter()
            // SAFETY: integers without padding.
            .map(|part| unsafe { raw::to_bytes(part) })
            .collect()
    }
}
