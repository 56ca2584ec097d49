// SPDX-License-Identifier: GPL-2.0-only
//! Stripe ids and places, as the map has them, in words.
//!
//! A stripe is `BAND:INDEX`, a place `BAND:INDEX:SLOT`, a patch place
//! `BAND:INDEX:SLOT:PAGE`. 0 is no place.

use crate::ffi;

pub const MAX_REPLICAS: usize = ffi::FUSION_MAX_REPLICAS as usize;
pub const MAX_PARITY: usize = ffi::FUSION_MAX_PARITY as usize;
/// `FUSION_NO_STRIPE`, which bindgen has as a signed number.
pub const NO_STRIPE: u64 = u64::MAX;

/// Blocks of a group of bases.
pub const GROUP_BLOCKS: u64 = ffi::FUSION_GROUP_BLOCKS as u64;
/// Blocks that a volume may have.
pub const MAX_BLOCKS: u64 = 1 << ffi::FUSION_BLOCK_BITS;

/// Bands that a layout may have.
pub const MAX_LAYOUT_BANDS: u32 = ffi::FUSION_MAX_BANDS;

const INDEX_BITS: u32 = ffi::FUSION_STRIPE_INDEX_BITS;
const STRIPE_BITS: u32 = ffi::FUSION_STRIPE_BITS;
const SLOT_BITS: u32 = ffi::FUSION_SLOT_BITS;
const PAGE_BITS: u32 = ffi::FUSION_PAGE_BITS;
const VALID: u64 = 1 << 62;

#[allow(clippy::cast_possible_truncation)]
const fn low(value: u64, bits: u32) -> u32 {
    (value & ((1 << bits) - 1)) as u32
}

#[must_use]
pub fn stripe(band: u32, index: u32) -> u64 {
    u64::from(band) << INDEX_BITS | u64::from(index)
}

/// Also of what no stripe can be.
#[must_use]
pub fn band_of(stripe: u64) -> u64 {
    stripe >> INDEX_BITS
}

#[must_use]
pub fn index_of(stripe: u64) -> u32 {
    low(stripe, INDEX_BITS)
}

/// The number of band `which` of the layout of a generation.
#[must_use]
pub fn band(generation: u16, which: u32) -> u32 {
    u32::from(generation & 1) << ffi::FUSION_BAND_BITS | which
}

/// Is the band of a layout of this generation, by its number? Every other one is.
#[must_use]
pub fn band_is_of(band: u32, generation: u16) -> bool {
    band >> ffi::FUSION_BAND_BITS == u32::from(generation & 1)
}

/// Which of its layout's bands it is.
#[must_use]
pub fn band_within(band: u32) -> u32 {
    low(band.into(), ffi::FUSION_BAND_BITS)
}

#[must_use]
pub fn place(stripe: u64, slot: u32) -> u64 {
    VALID | stripe << SLOT_BITS | u64::from(slot)
}

/// Could any pool have it?
#[must_use]
pub fn is_place(place: u64) -> bool {
    place & VALID != 0 && (place & !VALID) >> (STRIPE_BITS + SLOT_BITS) == 0
}

#[must_use]
pub fn stripe_of(place: u64) -> u64 {
    (place & !VALID) >> SLOT_BITS
}

#[must_use]
pub fn slot_of(place: u64) -> u32 {
    low(place, SLOT_BITS)
}

#[must_use]
pub fn patch_place(place: u64, page: u32) -> u64 {
    VALID | (place & !VALID) << PAGE_BITS | u64::from(page)
}

/// The slot that a patch place is in.
#[must_use]
pub fn patch_slot(patch: u64) -> u64 {
    VALID | (patch & !VALID) >> PAGE_BITS
}

#[must_use]
pub fn patch_page(patch: u64) -> u32 {
    low(patch, PAGE_BITS)
}

/// The key of a block in a tree of the map.
#[must_use]
pub fn block_key(volume: u32, block: u64) -> u64 {
    u64::from(volume) << ffi::FUSION_BLOCK_BITS | block
}

/// Also of what no volume can be.
#[must_use]
pub fn volume_of(key: u64) -> u64 {
    key >> ffi::FUSION_BLOCK_BITS
}

#[must_use]
pub fn block_of(key: u64) -> u64 {
    key & (MAX_BLOCKS - 1)
}

// ---- in words ----

#[must_use]
pub fn show_stripe(stripe: u64) -> String {
    format!("{}:{}", band_of(stripe), index_of(stripe))
}

#[must_use]
pub fn show_place(place: u64) -> String {
    format!("{}:{}", show_stripe(stripe_of(place)), slot_of(place))
}

#[must_use]
pub fn show_patch(patch: u64) -> String {
    format!("{}:{}", show_place(patch_slot(patch)), patch_page(patch))
}

/// `count` numbers with colons between them, each below its limit.
fn parse<const COUNT: usize>(text: &str, bits: [u32; COUNT]) -> Option<[u32; COUNT]> {
    let mut numbers = [0; COUNT];
    let mut parts = text.split(':');
    for (number, bits) in numbers.iter_mut().zip(bits) {
        let part = parts.next()?;
        let plain = part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| plain)?;
        if *number >> bits != 0 {
            return None;
        }
    }
    parts.next().is_none().then_some(numbers)
}

const BAND_BITS: u32 = STRIPE_BITS - INDEX_BITS;

#[must_use]
pub fn parse_stripe(text: &str) -> Option<u64> {
    let [band, index] = parse(text, [BAND_BITS, INDEX_BITS])?;
    Some(stripe(band, index))
}

#[must_use]
pub fn parse_place(text: &str) -> Option<u64> {
    let [band, index, slot] = parse(text, [BAND_BITS, INDEX_BITS, SLOT_BITS])?;
    Some(place(stripe(band, index), slot))
}

#[must_use]
pub fn parse_patch(text: &str) -> Option<u64> {
    let [band, index, slot, page] = parse(text, [BAND_BITS, INDEX_BITS, SLOT_BITS, PAGE_BITS])?;
    Some(patch_place(place(stripe(band, index), slot), page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_module_has_them() {
        let id = stripe(5, 70000);
        let at = place(id, 6);
        // SAFETY: functions of their arguments.
        unsafe {
            assert_eq!(id, ffi::fusion_stripe_id(5, 70000));
            assert_eq!(at, ffi::fusion_place(id, 6));
            assert_eq!(patch_place(at, 15), ffi::fusion_patch_place(at, 15));
            assert_eq!(block_key(3, 77), ffi::fusion_block_key(3, 77));
        }
        assert_eq!((stripe_of(at), slot_of(at)), (id, 6));
        assert_eq!(patch_slot(patch_place(at, 15)), at);
        assert_eq!(patch_page(patch_place(at, 15)), 15);
        assert_eq!(volume_of(block_key(3, 77)), 3);
        assert_eq!(block_of(block_key(3, 77)), 77);
    }

    #[test]
    fn bands_are_of_two_layouts() {
        for (generation, parity) in [(0, 0), (1, 1), (6, 0), (u16::MAX, 1)] {
            let number = band(generation, 5);
            assert!(band_is_of(number, generation) && !band_is_of(number, generation ^ 1));
            assert_eq!(band_within(number), 5);
            // SAFETY: a function of its argument.
            let module = unsafe { ffi::fusion_stripe_band(stripe(number, 70000)) };
            assert_eq!(module, parity << 23 | 5);
        }
        let last = band(1, MAX_LAYOUT_BANDS - 1);
        assert_eq!(last >> BAND_BITS, 0);
        assert!(band_is_of(last, 1));
        assert!(!band_is_of(1 << BAND_BITS, 0) && !band_is_of(1 << BAND_BITS, 1));
    }

    #[test]
    fn only_places_are() {
        assert!(is_place(place(stripe(0, 0), 0)));
        assert!(is_place(place(stripe(0xff_ffff, 0xff_ffff), 63)));
        for bad in [0, 1, 1 << 62 | 1 << 54, 1 << 63 | 1 << 62, u64::MAX] {
            assert!(!is_place(bad), "{bad:x}");
        }
    }

    #[test]
    fn words() {
        let at = place(stripe(5, 70000), 6);
        assert_eq!(show_place(at), "5:70000:6");
        assert_eq!(parse_place("5:70000:6"), Some(at));
        assert_eq!(show_patch(patch_place(at, 15)), "5:70000:6:15");
        assert_eq!(parse_patch("5:70000:6:15"), Some(patch_place(at, 15)));
        assert_eq!(parse_stripe("5:70000"), Some(stripe(5, 70000)));
        for bad in [
            "",
            "5",
            "5:",
            "5:+1",
            "5:1:2",
            "16777216:0",
            "0:16777216",
            "-1:0",
        ] {
            assert_eq!(parse_stripe(bad), None, "{bad}");
        }
        assert_eq!(parse_place("0:0:64"), None);
    }
}
