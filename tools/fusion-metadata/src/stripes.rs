// SPDX-License-Identifier: GPL-2.0-only
//! All slots of all stripes, in a few bits each: which are live, and which have been seen to be
//! referred to.

use std::collections::HashMap;

use fusion_format::place;
use fusion_format::value::{Patch, Stripe, StripeState};

use crate::bits::Bits;

const CHUNK_BITS: u32 = 6;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Stripes of one class one behind the other.
struct Chunk {
    width: usize,
    state: [Option<StripeState>; CHUNK],
    live: Bits,
    seen: Bits,
}

/// Of a stripe that patches refer to: pages, by who refers to them.
struct Patched {
    by_block: Bits,
    by_row: Bits,
    references: u64,
}

/// Who refers to a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Referrer {
    Block,
    Row,
}

#[derive(Default)]
pub struct Stripes {
    chunks: HashMap<u64, Chunk>,
    /// Partners of stripes of sets, in order.
    partners: Vec<(u64, [u64; 2])>,
    patched: HashMap<u64, Patched>,
    /// What their records say.
    patch_pages: HashMap<u64, u16>,
}

fn split(stripe: u64) -> (u64, usize) {
    (
        stripe >> CHUNK_BITS,
        place::index_of(stripe) as usize & (CHUNK - 1),
    )
}

impl Stripes {
    fn chunk(&mut self, stripe: u64, width: u32) -> (&mut Chunk, usize) {
        let (number, at) = split(stripe);
        let width = width as usize;
        let chunk = self.chunks.entry(number).or_insert_with(|| Chunk {
            width,
            state: [None; CHUNK],
            live: Bits::new(width * CHUNK),
            seen: Bits::new(width * CHUNK),
        });
        (chunk, at)
    }

    /// The record of a stripe, of a class of `width`; they come in order.
    pub fn add(&mut self, id: u64, stripe: &Stripe, width: u32) {
        let (chunk, at) = self.chunk(id, width);
        chunk.state[at] = Some(stripe.state);
        chunk.live.add(at * chunk.width, chunk.width, stripe.live);
        if stripe.state != StripeState::Raid {
            self.partners.push((id, stripe.partner));
        }
        if stripe.patch_pages > 0 {
            self.patch_pages.insert(id, stripe.patch_pages);
        }
    }

    pub fn state(&self, id: u64) -> Option<StripeState> {
        let (number, at) = split(id);
        self.chunks.get(&number)?.state[at]
    }

    pub fn partner(&self, id: u64) -> Option<[u64; 2]> {
        let at = self
            .partners
            .binary_search_by_key(&id, |entry| entry.0)
            .ok()?;
        Some(self.partners[at].1)
    }

    pub fn live(&self, id: u64) -> u64 {
        let (number, at) = split(id);
        self.chunks
            .get(&number)
            .map_or(0, |chunk| chunk.live.range(at * chunk.width, chunk.width))
    }

    pub fn seen(&self, id: u64) -> u64 {
        let (number, at) = split(id);
        self.chunks
            .get(&number)
            .map_or(0, |chunk| chunk.seen.range(at * chunk.width, chunk.width))
    }

    /// A slot is referred to, in a class of `width`, which has it. Was it before?
    pub fn see(&mut self, at: u64, width: u32) -> bool {
        let slot = place::slot_of(at) as usize;
        let (chunk, index) = self.chunk(place::stripe_of(at), width);
        chunk.seen.set(index * chunk.width + slot)
    }

    /// A page of a slot is referred to, in one of its replicas. Was it before, by such a one?
    pub fn see_patch(&mut self, at: u64, width: u32, pages: u32, by: Referrer) -> bool {
        let slot = place::patch_slot(at);
        self.see(slot, width);
        let patched = self
            .patched
            .entry(place::stripe_of(slot))
            .or_insert_with(|| Patched {
                by_block: Bits::new((width * pages) as usize),
                by_row: Bits::new((width * pages) as usize),
                references: 0,
            });
        patched.references += 1;
        let bits = match by {
            Referrer::Block => &mut patched.by_block,
            Referrer::Row => &mut patched.by_row,
        };
        bits.set((place::slot_of(slot) * pages + place::patch_page(at)) as usize)
    }

    /// References to pages of it.
    pub fn references(&self, id: u64) -> u64 {
        self.patched
            .get(&id)
            .map_or(0, |patched| patched.references)
    }

    /// The same, as its record has it.
    pub fn patch_pages(&self, id: u64) -> u16 {
        self.patch_pages.get(&id).copied().unwrap_or(0)
    }

    /// Those that have a record, or are referred to, in order.
    pub fn ids(&self) -> Vec<u64> {
        let mut numbers: Vec<&u64> = self.chunks.keys().collect();
        numbers.sort_unstable();
        let mut ids = Vec::new();
        for number in numbers {
            let chunk = &self.chunks[number];
            for at in 0..CHUNK {
                if chunk.state[at].is_some() || chunk.seen.range(at * chunk.width, chunk.width) != 0
                {
                    ids.push(number << CHUNK_BITS | at as u64);
                }
            }
        }
        ids
    }
}

/// Replicas of a patch that there are.
pub fn replicas(patch: &Patch) -> impl Iterator<Item = u64> + '_ {
    patch.iter().copied().filter(|&at| at != 0)
}
