// SPDX-License-Identifier: GPL-2.0-only
//! What the tools know of a pool's on-disk format: member labels and records, the
//! layout's arithmetic, the size of the metadata, its superblock and the values of its
//! btrees.
//!
//! The definitions are the module's own headers and C files; this crate only
//! wraps them.

#[allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]
mod ffi {
    include!(concat!(env!("OUT_DIR"), "/ffi.rs"));
}

mod crc;
pub mod journal;
pub mod label;
pub mod layout;
pub mod metadata;
pub mod place;
mod raw;
pub mod record;
pub mod superblock;
pub mod value;
pub mod whole;

pub use label::{Label, LabelError, Ring, Slice};
pub use layout::Layout;
pub use record::{MemberState, Record};

/// Bytes in the unit all sizes and offsets of the format are in.
pub const SECTOR_BYTES: u64 = 512;

pub const MIN_BLOCK_SECTORS: u32 = ffi::FUSION_MIN_BLOCK_SECTORS;
pub const PAGE_SECTORS: u32 = ffi::FUSION_PAGE_SECTORS;
pub const MAX_BLOCK_SECTORS: u32 = ffi::FUSION_MAX_BLOCK_SECTORS;
pub const MAX_VOLUME_ID: u32 = ffi::FUSION_MAX_VOLUME_ID;
/// Longest name of a pool or volume.
pub const MAX_NAME_BYTES: usize = ffi::FUSION_NAME_BYTES as usize - 1;

/// A pool's or a volume's name: 1 to 63 characters of `A-Z a-z 0-9 _ . + -`, not
/// starting with `-` or `.`.
#[must_use]
pub fn name_is_valid(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.+-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["p", "pool-1", "a.b+c_d", &"x".repeat(63)] {
            assert!(name_is_valid(good), "{good}");
        }
        for bad in ["", "-p", ".p", "a/b", "a b", "é", &"x".repeat(64)] {
            assert!(!name_is_valid(bad), "{bad}");
        }
    }
}
