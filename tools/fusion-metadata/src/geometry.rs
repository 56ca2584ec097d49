// SPDX-License-Identifier: GPL-2.0-only
//! What a pool may have: which bands are of which class, and so which places there are.

use std::collections::HashMap;

use fusion_format::layout::Layout;
use fusion_format::place::{self, MAX_REPLICAS};
use fusion_format::whole::{Class, Whole};

use crate::{Result, damaged};

/// A layout, and the bands of it.
struct Bands {
    layout: Layout,
    generation: u16,
    count: u32,
    /// That one takes on each member.
    chunks: u64,
    /// Of one, by class; of a class that is wider than the layout allows there are none.
    stripes: Vec<u32>,
}

impl Bands {
    fn new(layout: Layout, generation: u16, (units, count): (u32, u32), classes: &[Class]) -> Self {
        let stripes = |class: &Class| match class.width() {
            width if width <= layout.max_width() => layout.band_stripes(units, width),
            _ => 0,
        };
        Self {
            generation,
            count,
            chunks: layout.band_chunks(units).into(),
            stripes: classes.iter().map(stripes).collect(),
            layout,
        }
    }

    fn has(&self, band: u32) -> bool {
        place::band_is_of(band, self.generation) && place::band_within(band) < self.count
    }

    /// Where a band is on each member: from there, to before there.
    fn range(&self, band: u32) -> (u64, u64) {
        let start = u64::from(place::band_within(band)) * self.chunks;
        (start, start + self.chunks)
    }
}

pub struct Geometry {
    newest: Bands,
    /// While the pool grows.
    old: Option<Bands>,
    pub pages: u32,
    pub classes: Vec<Class>,
    /// Of those that are not free: index of the class.
    class_of: HashMap<u32, u16>,
    pub areas: u8,
}

impl Geometry {
    pub fn new(whole: &Whole) -> Result<Self> {
        let Some(layout) = whole.layout() else {
            return damaged("no pool has so many members");
        };
        let newest = (whole.band_units, whole.bands);
        let old = (whole.old.band_units, whole.old.bands);
        let classes = &whole.classes;
        Ok(Self {
            newest: Bands::new(layout, whole.layout_generation, newest, classes),
            old: whole
                .old_layout()
                .map(|layout| Bands::new(layout, whole.old_generation(), old, classes)),
            pages: whole.block_pages(),
            classes: classes.clone(),
            class_of: HashMap::new(),
            areas: whole.areas(),
        })
    }

    /// None: there is no such band.
    fn layout_of(&self, band: u32) -> Option<&Bands> {
        let mut layouts = std::iter::once(&self.newest).chain(&self.old);
        layouts.find(|bands| bands.has(band))
    }

    /// Of the layout that a band is of; None: there is no such band.
    pub fn generation(&self, band: u32) -> Option<u16> {
        self.layout_of(band).map(|bands| bands.generation)
    }

    /// False: there is no such band, or class, or it is too wide for it, or it is of one already.
    pub fn assign(&mut self, band: u32, class: u16) -> bool {
        self.band_stripes(band, class) > 0 && self.class_of.insert(band, class).is_none()
    }

    /// The band is free again.
    pub fn release(&mut self, band: u32) {
        self.class_of.remove(&band);
    }

    /// Stripes of a band, if it is of `class`.
    pub fn band_stripes(&self, band: u32, class: u16) -> u32 {
        self.layout_of(band)
            .and_then(|bands| bands.stripes.get(usize::from(class)))
            .copied()
            .unwrap_or(0)
    }

    /// Bands of the newest layout and of the old one that are not free, and overlap.
    pub fn overlaps(&self) -> Vec<(u32, u32)> {
        let Some(old) = &self.old else {
            return Vec::new();
        };
        // In order of where they are.
        let (old_bands, new_bands): (Vec<u32>, Vec<u32>) = self
            .bands()
            .into_iter()
            .map(|(band, _)| band)
            .partition(|&band| old.has(band));
        let mut overlaps = Vec::new();
        for band in new_bands {
            let (start, end) = self.newest.range(band);
            let first = old_bands.partition_point(|&other| old.range(other).1 <= start);
            let others = old_bands[first..].iter();
            overlaps.extend(
                others
                    .take_while(|&&other| old.range(other).0 < end)
                    .map(|&other| (band, other)),
            );
        }
        overlaps
    }

    /// Index of the class of a band.
    pub fn band_class(&self, band: u64) -> Option<u16> {
        self.class_of.get(&u32::try_from(band).ok()?).copied()
    }

    /// Bands that are not free, in order.
    pub fn bands(&self) -> Vec<(u32, u16)> {
        let mut bands: Vec<_> = self.class_of.iter().map(|(&b, &c)| (b, c)).collect();
        bands.sort_unstable();
        bands
    }

    /// Index of the class of a stripe, if the pool has it.
    pub fn class_of(&self, stripe: u64) -> Option<u16> {
        let band = u32::try_from(place::band_of(stripe)).ok()?;
        let class = self.band_class(band.into())?;
        (place::index_of(stripe) < self.band_stripes(band, class)).then_some(class)
    }

    pub fn class(&self, index: u16) -> Option<Class> {
        self.classes.get(usize::from(index)).copied()
    }

    /// Index of the class of a place, if the pool has it.
    pub fn place_class(&self, place: u64) -> Option<u16> {
        let index = self.class_of(place::stripe_of(place))?;
        let class = self.class(index)?;
        (place::is_place(place) && place::slot_of(place) < class.width()).then_some(index)
    }

    /// Of a place that the pool has.
    fn member(&self, place: u64, class: Class) -> u32 {
        let stripe = place::stripe_of(place);
        let band = u32::try_from(place::band_of(stripe)).unwrap_or(u32::MAX);
        let bands = self.layout_of(band).unwrap_or(&self.newest);
        let (index, slot) = (place::index_of(stripe), place::slot_of(place));
        bands.layout.home_member(class.width(), index, slot)
    }

    /// The class that the replicas at `places` are of. An error says why they cannot be.
    pub fn replicas(&self, places: &[u64; MAX_REPLICAS]) -> std::result::Result<u16, &'static str> {
        let index = self
            .place_class(places[0])
            .ok_or("a place that the pool has not")?;
        let Some(class) = self.class(index) else {
            return Err("a place that the pool has not");
        };
        if place::slot_of(places[0]) >= class.data {
            return Err("its primary in a slot for parity");
        }
        let used = usize::try_from(class.parity).unwrap_or(0) + 1;
        let mut members = 0u64;
        for (which, &at) in places.iter().enumerate() {
            if which >= used {
                if at != 0 {
                    return Err("more replicas than its class");
                }
                continue;
            }
            if self.place_class(at) != Some(index) {
                return Err("replicas in different classes, or a place that the pool has not");
            }
            // With spares in use slots are not where their homes are.
            let member = 1 << self.member(at, class);
            if members & member != 0 && self.areas == 0 {
                return Err("two replicas on one member");
            }
            members |= member;
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{growing, head};

    /// Old bands are of 1920 chunks, new ones of 1800; there are four of each.
    fn geometry(generation: u16) -> Geometry {
        let mut whole = head(&growing(1));
        whole.layout_generation = generation;
        Geometry::new(&whole).unwrap()
    }

    #[test]
    fn bands_of_two_layouts() {
        for generation in [0, 1, 2, u16::MAX] {
            let mut pool = geometry(generation);
            let old = |which| place::band(generation ^ 1, which);
            let new = |which| place::band(generation, which);
            assert_eq!(pool.generation(new(3)), Some(generation));
            assert_eq!(pool.generation(old(3)), Some(generation.wrapping_sub(1)));
            for band in [new(4), old(4), 1 << 24, u32::MAX] {
                assert_eq!(pool.generation(band), None);
                assert!(!pool.assign(band, 0));
            }
            // A class may be too wide for the old layout.
            assert!(pool.assign(new(3), 2) && !pool.assign(old(0), 2));
            assert!(pool.assign(old(0), 1) && !pool.assign(old(1), 3));
            assert_eq!(pool.band_stripes(new(3), 2), 200 / 7 * 9 * 8);
            assert_eq!(pool.band_stripes(old(0), 1), 240 / 6 * 8 * 7);
            assert_eq!(pool.band_stripes(old(0), 2), 0);
            assert_eq!(pool.class_of(place::stripe(new(3), 2015)), Some(2));
            assert_eq!(pool.class_of(place::stripe(new(3), 2016)), None);
        }
    }

    #[test]
    fn members_are_those_of_the_bands_layout() {
        let mut pool = geometry(1);
        assert!(pool.assign(place::band(0, 0), 0) && pool.assign(place::band(1, 3), 0));
        let class = pool.class(0).unwrap();
        let members = |band: u32, pool: &Geometry| -> Vec<u32> {
            let stripes = 0..pool.band_stripes(band, 0);
            stripes
                .map(|index| pool.member(place::place(place::stripe(band, index), 0), class))
                .collect()
        };
        assert_eq!(members(place::band(0, 0), &pool).into_iter().max(), Some(7));
        assert_eq!(members(place::band(1, 3), &pool).into_iter().max(), Some(8));
    }

    #[test]
    fn overlaps() {
        let of_pool = |mut pool: Geometry, old: &[u32], new: &[u32]| {
            for &which in old {
                assert!(pool.assign(place::band(0, which), 0));
            }
            for &which in new {
                assert!(pool.assign(place::band(1, which), 0));
            }
            let pairs = pool.overlaps().into_iter();
            pairs
                .map(|(new, old)| (place::band_within(new), place::band_within(old)))
                .collect::<Vec<_>>()
        };
        let of = |old: &[u32], new: &[u32]| of_pool(geometry(1), old, new);
        assert_eq!(of(&[0, 1, 2, 3], &[]), []);
        assert_eq!(of(&[], &[0, 1, 2, 3]), []);
        assert_eq!(of(&[0, 1], &[3]), []);
        assert_eq!(of(&[1], &[0, 3]), []);
        assert_eq!(of(&[1], &[1, 2]), [(1, 1), (2, 1)]);
        assert_eq!(
            of(&[0, 1, 2, 3], &[0, 1, 2, 3]),
            [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
        );
        // Bands of 1440 chunks: four of them end where three of the old ones do.
        let mut whole = head(&growing(1));
        (whole.band_units, whole.bands) = (160, 5);
        let pool = || Geometry::new(&whole).unwrap();
        assert_eq!(of_pool(pool(), &[2, 3], &[3, 4]), [(3, 2), (4, 3)]);
        assert_eq!(of_pool(pool(), &[2], &[4]), []);
        assert_eq!(of_pool(pool(), &[3], &[3]), []);
        // Of a pool that does not grow there is one layout.
        let mut whole = head(&growing(1));
        whole.old = fusion_format::whole::OldLayout::default();
        let mut pool = Geometry::new(&whole).unwrap();
        assert!(!pool.assign(place::band(0, 0), 0) && pool.assign(place::band(1, 0), 0));
        assert_eq!(pool.overlaps(), []);
    }
}
