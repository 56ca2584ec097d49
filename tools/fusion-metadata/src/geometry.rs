// SPDX-License-Identifier: GPL-2.0-only
//! What a pool may have: which bands are of which class, and so which places there are.

use std::collections::HashMap;

use fusion_format::layout::Layout;
use fusion_format::place::{self, MAX_REPLICAS};
use fusion_format::whole::{Class, Whole};

use crate::{Result, damaged};

pub struct Geometry {
    layout: Layout,
    pub pages: u32,
    pub classes: Vec<Class>,
    /// Of a band, by class.
    stripes: Vec<u32>,
    bands: u32,
    /// Of those that are not free: index of the class.
    class_of: HashMap<u32, u16>,
    pub areas: u8,
}

impl Geometry {
    pub fn new(whole: &Whole) -> Result<Self> {
        let Some(layout) = whole.layout() else {
            return damaged("no pool has so many members");
        };
        let stripes = whole
            .classes
            .iter()
            .map(|class| layout.band_stripes(whole.band_units, class.width()))
            .collect();
        Ok(Self {
            layout,
            pages: whole.block_pages(),
            classes: whole.classes.clone(),
            stripes,
            bands: whole.bands,
            class_of: HashMap::new(),
            areas: whole.areas(),
        })
    }

    /// False: there is no such band, or class, or it is of one already.
    pub fn assign(&mut self, band: u32, class: u16) -> bool {
        band < self.bands
            && usize::from(class) < self.classes.len()
            && self.class_of.insert(band, class).is_none()
    }

    /// Stripes of a band of `class`.
    pub fn band_stripes(&self, class: u16) -> u32 {
        self.stripes.get(usize::from(class)).copied().unwrap_or(0)
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
        let class = self.band_class(place::band_of(stripe))?;
        (place::index_of(stripe) < self.band_stripes(class)).then_some(class)
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

    fn member(&self, place: u64, class: Class) -> u32 {
        let index = place::index_of(place::stripe_of(place));
        self.layout
            .home_member(class.width(), index, place::slot_of(place))
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
