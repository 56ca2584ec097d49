// SPDX-License-Identifier: GPL-2.0-only
//! The map, block by block: bases, tops and patches together.

use fusion_format::place::{GROUP_BLOCKS, MAX_BLOCKS, block_key, block_of, is_place, volume_of};
use fusion_format::value::{BASE_BYTES, Patches, Top, base_place};
use fusion_format::whole::Tree;

use crate::trees::{Entries, Input};

/// A block that has any of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub volume: u32,
    pub block: u64,
    /// 0: none.
    pub base: u64,
    pub top: Option<Top>,
    pub patches: Option<Patches>,
}

impl Mapping {
    pub fn new(volume: u32, block: u64) -> Self {
        Self {
            volume,
            block,
            base: 0,
            top: None,
            patches: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.base == 0 && self.top.is_none() && self.patches.is_none()
    }
}

/// Base entries, from their groups.
struct Bases {
    entries: Entries,
    group: [u8; BASE_BYTES],
    /// The key of the group's first block, and the place to be looked at next.
    at: Option<(u64, usize)>,
}

impl Bases {
    fn next(&mut self, input: &mut Input) -> Option<(u64, u64)> {
        loop {
            if let Some((first, which)) = &mut self.at {
                while *which < GROUP_BLOCKS as usize {
                    let (key, place) = (*first + *which as u64, base_place(&self.group, *which));
                    *which += 1;
                    if place == 0 {
                        continue;
                    }
                    if is_place(place) {
                        return Some((key, place));
                    }
                    input
                        .observer
                        .malformed(Tree::Base, key, "impossible place");
                }
                self.at = None;
            }
            let key = self.entries.next(input)?;
            let group = block_of(key);
            if group >= MAX_BLOCKS / GROUP_BLOCKS {
                input
                    .observer
                    .malformed(Tree::Base, key, "beyond any volume");
                continue;
            }
            self.group.copy_from_slice(self.entries.value());
            if self.group.iter().all(|&byte| byte == 0) {
                input
                    .observer
                    .malformed(Tree::Base, key, "a group without places");
                continue;
            }
            let volume = u32::try_from(volume_of(key)).unwrap_or(u32::MAX);
            self.at = Some((block_key(volume, group * GROUP_BLOCKS), 0));
        }
    }
}

pub struct Map {
    pages: u32,
    bases: Bases,
    tops: Entries,
    patches: Entries,
    base: Option<(u64, u64)>,
    top: Option<(u64, Top)>,
    patched: Option<(u64, Patches)>,
    begun: bool,
}

impl Map {
    pub fn new(base: Entries, tops: Entries, patches: Entries, pages: u32) -> Self {
        Self {
            pages,
            bases: Bases {
                entries: base,
                group: [0; BASE_BYTES],
                at: None,
            },
            tops,
            patches,
            base: None,
            top: None,
            patched: None,
            begun: false,
        }
    }

    fn next_top(&mut self, input: &mut Input) -> Option<(u64, Top)> {
        loop {
            let key = self.tops.next(input)?;
            match Top::decode(self.tops.value(), self.pages) {
                Ok(top) => return Some((key, top)),
                Err(error) => input.observer.malformed(Tree::Tops, key, error.0),
            }
        }
    }

    fn next_patches(&mut self, input: &mut Input) -> Option<(u64, Patches)> {
        loop {
            let key = self.patches.next(input)?;
            match Patches::decode(self.patches.value(), self.pages) {
                Ok(patches) => return Some((key, patches)),
                Err(error) => input.observer.malformed(Tree::Patches, key, error.0),
            }
        }
    }

    /// The next block that is mapped.
    pub fn next(&mut self, input: &mut Input) -> Option<Mapping> {
        if !self.begun {
            self.begun = true;
            self.base = self.bases.next(input);
            self.top = self.next_top(input);
            self.patched = self.next_patches(input);
        }
        let key = [
            self.base.as_ref().map(|entry| entry.0),
            self.top.as_ref().map(|entry| entry.0),
            self.patched.as_ref().map(|entry| entry.0),
        ]
        .into_iter()
        .flatten()
        .min()?;
        let mut mapping = Mapping::new(
            u32::try_from(volume_of(key)).unwrap_or(u32::MAX),
            block_of(key),
        );
        if let Some((_, place)) = self.base.take_if(|entry| entry.0 == key) {
            mapping.base = place;
            self.base = self.bases.next(input);
        }
        if let Some((_, top)) = self.top.take_if(|entry| entry.0 == key) {
            mapping.top = Some(top);
            self.top = self.next_top(input);
        }
        if let Some((_, patches)) = self.patched.take_if(|entry| entry.0 == key) {
            mapping.patches = Some(patches);
            self.patched = self.next_patches(input);
        }
        Some(mapping)
    }
}
