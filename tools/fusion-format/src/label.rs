// SPDX-License-Identifier: GPL-2.0-only
//! Member labels: the 4 KiB that make a block device a member of a pool.

use std::ffi::CStr;
use std::mem::{offset_of, size_of};

use thiserror::Error;
use uuid::Uuid;

use crate::{ffi, raw};

pub const LABEL_BYTES: usize = ffi::FUSION_LABEL_BYTES as usize;
/// Byte offsets of the two copies.
pub const COPY_OFFSETS: [u64; 2] = [
    ffi::FUSION_LABEL_COPY0 as u64,
    ffi::FUSION_LABEL_COPY1 as u64,
];
/// Bytes at the start of a member that hold labels and member records.
pub const LABEL_AREA_BYTES: u64 = ffi::FUSION_LABEL_AREA as u64;

/// Bit of `flags`: the pool's creation has not come to its end. Only the tools look
/// at it; the module formats the metadata of such a pool like any other's.
const FLAG_CREATING: u32 = ffi::FUSION_LABEL_CREATING;
/// Bit of `flags`: start the pool with `error_if_no_space`. The tools' as well.
const FLAG_ERROR_IF_NO_SPACE: u32 = ffi::FUSION_LABEL_ERROR_IF_NO_SPACE;
/// Bit of `flags`: start the pool with `no_discard_passdown`.
const FLAG_NO_DISCARD_PASSDOWN: u32 = ffi::FUSION_LABEL_NO_DISCARD_PASSDOWN;

const NONE: u16 = ffi::FUSION_NO_INDEX as u16;

const _: () = assert!(size_of::<ffi::fusion_disk_label>() == LABEL_BYTES);

/// Why a copy of a label cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelError {
    #[error("{0}")]
    Absent(String),
    #[error("{0}")]
    Invalid(String),
}

/// Where a member's share of the metadata lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Whether the metadata uses it, and as which leg.
    pub leg: Option<u16>,
    pub rmeta_offset_sectors: u64,
    pub rmeta_sectors: u64,
    pub offset_sectors: u64,
    pub sectors: u64,
}

/// Where the ring of the map's journal lies, the same on all members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ring {
    pub offset_sectors: u64,
    /// 0: there is none.
    pub sectors: u64,
}

/// A member's label, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub pool_uuid: Uuid,
    pub member_uuid: Uuid,
    pub pool_name: String,
    /// None: a hot spare.
    pub index: Option<u16>,
    pub members: u16,
    pub spares: u16,
    /// Legs of the metadata mirror; 0: the metadata is on a device of its own.
    pub legs: u16,
    pub slice: Slice,
    pub journal: Ring,
    pub block_sectors: u32,
    pub data_offset_sectors: u64,
    pub data_sectors: u64,
    /// Seconds since 1970.
    pub created: u64,
    pub member_sectors: u64,
    /// Writes that find no space fail at once instead of waiting.
    pub error_if_no_space: bool,
    /// Members are not told which space is free.
    pub no_discard_passdown: bool,
    /// The pool's creation has not come to its end: no pool yet.
    pub creating: bool,
}

impl Label {
    /// The 4 KiB to write, with magic, version and checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut flags = 0;
        if self.creating {
            flags |= FLAG_CREATING;
        }
        if self.error_if_no_space {
            flags |= FLAG_ERROR_IF_NO_SPACE;
        }
        if self.no_discard_passdown {
            flags |= FLAG_NO_DISCARD_PASSDOWN;
        }
        let mut raw = ffi::fusion_disk_label {
            flags: flags.to_le(),
            pool_uuid: self.pool_uuid.into_bytes(),
            member_uuid: self.member_uuid.into_bytes(),
            index: self.index.unwrap_or(NONE).to_le(),
            members: self.members.to_le(),
            spares: self.spares.to_le(),
            slice: self.slice.leg.unwrap_or(NONE).to_le(),
            slices: self.legs.to_le(),
            layout: (ffi::FUSION_LAYOUT_MOLS as u16).to_le(),
            block_sectors: self.block_sectors.to_le(),
            data_offset_sectors: self.data_offset_sectors.to_le(),
            data_sectors: self.data_sectors.to_le(),
            rmeta_offset_sectors: self.slice.rmeta_offset_sectors.to_le(),
            rmeta_sectors: self.slice.rmeta_sectors.to_le(),
            slice_offset_sectors: self.slice.offset_sectors.to_le(),
            slice_sectors: self.slice.sectors.to_le(),
            journal_offset_sectors: self.journal.offset_sectors.to_le(),
            journal_sectors: self.journal.sectors.to_le(),
            created: self.created.to_le(),
            member_sectors: self.member_sectors.to_le(),
            ..Default::default()
        };
        // The last byte stays zero.
        for (to, from) in raw.pool_name[..ffi::FUSION_NAME_BYTES as usize - 1]
            .iter_mut()
            .zip(self.pool_name.bytes())
        {
            *to = from as std::ffi::c_char;
        }
        // SAFETY: a whole label, exclusively ours.
        unsafe { ffi::fusion_label_seal(&raw mut raw) };
        // SAFETY: plain integers without padding (its size is checked above).
        let bytes: [u8; LABEL_BYTES] = unsafe { std::mem::transmute(raw) };
        bytes.to_vec()
    }

    /// Checks and decodes one copy as it was read.
    ///
    /// # Errors
    /// The copy is no label, damaged, or of a format this version does not know.
    ///
    /// # Panics
    /// If `bytes` is not `LABEL_BYTES` long.
    pub fn decode(bytes: &[u8]) -> Result<Self, LabelError> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_label> = unsafe { raw::from_bytes(bytes) };
        // SAFETY: reads the label only.
        let error = unsafe { ffi::fusion_label_check(&raw const *raw) };
        if error == ffi::FUSION_LABEL_ABSENT {
            return Err(LabelError::Absent(error_text(error)));
        } else if error != ffi::FUSION_LABEL_OK {
            return Err(LabelError::Invalid(error_text(error)));
        }

        let name = &bytes[offset_of!(ffi::fusion_disk_label, pool_name)..]
            [..ffi::FUSION_NAME_BYTES as usize];
        let pool_name = CStr::from_bytes_until_nul(name)
            .ok()
            .and_then(|name| name.to_str().ok())
            .filter(|name| crate::name_is_valid(name))
            .ok_or_else(|| LabelError::Invalid("has a label with an invalid pool name".into()))?;

        let flags = u32::from_le(raw.flags);
        let index = |raw: u16| Some(u16::from_le(raw)).filter(|&index| index != NONE);
        Ok(Self {
            pool_uuid: Uuid::from_bytes(raw.pool_uuid),
            member_uuid: Uuid::from_bytes(raw.member_uuid),
            pool_name: pool_name.to_owned(),
            index: index(raw.index),
            members: u16::from_le(raw.members),
            spares: u16::from_le(raw.spares),
            legs: u16::from_le(raw.slices),
            slice: Slice {
                leg: index(raw.slice),
                rmeta_offset_sectors: u64::from_le(raw.rmeta_offset_sectors),
                rmeta_sectors: u64::from_le(raw.rmeta_sectors),
                offset_sectors: u64::from_le(raw.slice_offset_sectors),
                sectors: u64::from_le(raw.slice_sectors),
            },
            journal: Ring {
                offset_sectors: u64::from_le(raw.journal_offset_sectors),
                sectors: u64::from_le(raw.journal_sectors),
            },
            block_sectors: u32::from_le(raw.block_sectors),
            data_offset_sectors: u64::from_le(raw.data_offset_sectors),
            data_sectors: u64::from_le(raw.data_sectors),
            created: u64::from_le(raw.created),
            member_sectors: u64::from_le(raw.member_sectors),
            error_if_no_space: flags & FLAG_ERROR_IF_NO_SPACE != 0,
            no_discard_passdown: flags & FLAG_NO_DISCARD_PASSDOWN != 0,
            creating: flags & FLAG_CREATING != 0,
        })
    }
}

fn error_text(error: ffi::fusion_label_error) -> String {
    // SAFETY: returns a static, terminated string for every error.
    unsafe { CStr::from_ptr(ffi::fusion_label_strerror(error)) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Label {
        Label {
            pool_uuid: Uuid::from_u128(0x1111),
            member_uuid: Uuid::from_u128(0x2222),
            pool_name: "pool".into(),
            index: Some(3),
            members: 8,
            spares: 1,
            legs: 3,
            slice: Slice {
                leg: None,
                rmeta_offset_sectors: 2048,
                rmeta_sectors: 2048,
                offset_sectors: 4096,
                sectors: 28672,
            },
            journal: Ring {
                offset_sectors: 32768,
                sectors: 4096,
            },
            block_sectors: 128,
            data_offset_sectors: 36864,
            data_sectors: 2_048_000,
            created: 1_700_000_000,
            member_sectors: 2_097_152,
            error_if_no_space: false,
            no_discard_passdown: false,
            creating: false,
        }
    }

    #[test]
    fn round_trip() {
        let mut label = example();
        assert_eq!(Label::decode(&label.encode()), Ok(label.clone()));
        label.index = None;
        label.creating = true;
        label.error_if_no_space = true;
        assert_eq!(Label::decode(&label.encode()), Ok(label.clone()));
        label.no_discard_passdown = true;
        label.pool_name = "x".repeat(63);
        assert_eq!(Label::decode(&label.encode()), Ok(label));
    }

    /// Its bands are of the layout that the pool had first.
    #[test]
    fn a_member_that_came_later() {
        let label = Label {
            members: 9,
            index: Some(8),
            data_sectors: 128 * 8 * 100,
            ..example()
        };
        assert_eq!(Label::decode(&label.encode()), Ok(label));
    }

    #[test]
    fn zeros_are_no_label() {
        assert!(matches!(
            Label::decode(&[0; LABEL_BYTES]),
            Err(LabelError::Absent(_))
        ));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = example().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Label::decode(&damaged).is_err(), "bit {bit}");
        }
    }
}
