// SPDX-License-Identifier: GPL-2.0-only
//! The layout's arithmetic: how many bands, stripes and slots fit.

use crate::ffi;

pub const MIN_MEMBERS: u32 = ffi::FUSION_MIN_MEMBERS;
pub const MAX_MEMBERS: u32 = ffi::FUSION_MAX_MEMBERS;
pub const MIN_DATA: u32 = ffi::FUSION_MIN_DATA;

/// The largest number of members, at most `devices`, that a layout exists for.
#[must_use]
pub fn largest_order(devices: u32) -> Option<u32> {
    // SAFETY: a pure function of its argument.
    match unsafe { ffi::fusion_layout_largest_order(devices) } {
        0 => None,
        n => Some(n),
    }
}

/// The next larger number of members that a layout exists for.
#[must_use]
pub fn next_order(members: u32) -> Option<u32> {
    (members + 1..=MAX_MEMBERS).find(|&more| largest_order(more) == Some(more))
}

/// A layout over `members` members with room for `spares` failed ones.
pub struct Layout {
    raw: Box<ffi::fusion_layout>,
}

impl Layout {
    /// None if there is no layout for these numbers.
    #[must_use]
    pub fn new(members: u32, spares: u32) -> Option<Self> {
        let mut raw = Box::new(ffi::fusion_layout::default());
        // SAFETY: `raw` is a whole fusion_layout, to be filled in.
        let error = unsafe { ffi::fusion_layout_init(&raw mut *raw, members, spares) };
        (error == 0).then_some(Self { raw })
    }

    #[must_use]
    pub fn members(&self) -> u32 {
        self.raw.n
    }

    #[must_use]
    pub fn spares(&self) -> u32 {
        self.raw.spares
    }

    /// The widest stripe (data and parity together).
    #[must_use]
    pub fn max_width(&self) -> u32 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_layout_max_width(&raw const *self.raw) }
    }

    /// How members of `member_chunks` blocks each are cut into bands; None if not
    /// even one band fits.
    #[must_use]
    pub fn bands(&self, member_chunks: u64) -> Option<Bands> {
        // SAFETY: reads the layout only.
        let (units, chunks) = unsafe {
            let units = ffi::fusion_band_units(&raw const *self.raw, member_chunks);
            if units == 0 {
                return None;
            }
            let chunks = ffi::fusion_band_chunks(&raw const *self.raw, units);
            (units, u64::from(chunks))
        };
        let count = (member_chunks / chunks).min(u64::from(ffi::FUSION_MAX_BANDS));
        (count > 0).then_some(Bands {
            units,
            chunks,
            count,
        })
    }

    /// Stripes of width `width` in a band of `units`.
    #[must_use]
    pub fn band_stripes(&self, units: u32, width: u32) -> u32 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_band_stripes(&raw const *self.raw, units, width) }
    }

    /// Blocks that a band of `units` takes on each member.
    #[must_use]
    pub fn band_chunks(&self, units: u32) -> u32 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_band_chunks(&raw const *self.raw, units) }
    }

    /// Stripes in a template.
    #[must_use]
    pub fn template_stripes(&self) -> u32 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_template_stripes(&raw const *self.raw) }
    }

    /// The member that slot `slot` of stripe number `index` of a band is at home on, in a class
    /// of width `width`. Both numbers are within what the class has.
    #[must_use]
    pub fn home_member(&self, width: u32, index: u32, slot: u32) -> u32 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_layout_home(&raw const *self.raw, width, index, slot).member }
    }

    /// Chunks that a member must have so that one band fits.
    #[must_use]
    pub fn min_member_chunks(&self) -> u64 {
        // SAFETY: reads the layout only.
        unsafe { ffi::fusion_band_chunks(&raw const *self.raw, self.max_width()).into() }
    }
}

/// The cut of every member into bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bands {
    pub units: u32,
    /// Blocks that one band takes on each member.
    pub chunks: u64,
    pub count: u64,
}

impl Bands {
    /// Blocks of each member that belong to bands.
    #[must_use]
    pub fn member_chunks(&self) -> u64 {
        self.chunks * self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        assert_eq!(largest_order(3), None);
        for (devices, order) in [
            (4, 4),
            (6, 5),
            (7, 7),
            (10, 9),
            (15, 13),
            (64, 64),
            (70, 64),
        ] {
            assert_eq!(largest_order(devices), Some(order), "{devices} devices");
        }
    }

    #[test]
    fn next_orders() {
        for (members, next) in [(4, 5), (5, 7), (8, 9), (9, 11), (61, 64)] {
            assert_eq!(next_order(members), Some(next), "{members} members");
        }
        assert_eq!(next_order(MAX_MEMBERS), None);
    }

    #[test]
    fn no_layout() {
        assert!(Layout::new(6, 0).is_none());
        assert!(Layout::new(4, 1).is_none());
        assert!(Layout::new(4, 0).is_some());
    }

    #[test]
    fn bands_fit_their_members() {
        let layout = Layout::new(8, 1).unwrap();
        assert_eq!(layout.max_width(), 6);
        for chunks in [layout.min_member_chunks(), 4096, 16384, 1 << 24] {
            let bands = layout.bands(chunks).unwrap();
            assert!(bands.member_chunks() <= chunks);
            assert!(chunks - bands.member_chunks() < bands.chunks);
        }
        assert!(layout.bands(layout.min_member_chunks() - 1).is_none());
    }
}
