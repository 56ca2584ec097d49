// SPDX-License-Identifier: GPL-2.0-only
//! What can be saved of damaged metadata.
//!
//! All that is read is what good leaves say (`salvage.rs`). What contradicts something else is
//! left out: two blocks at one place, say, are lost, both of them. Records of stripes and bands
//! that are damaged are made again from the map; nothing else is made up. The space map and all
//! counts are new anyway. Who repairs is told of everything that is left out, or made again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fusion_format::place::{
    NO_STRIPE, band_of, patch_page, patch_slot, show_patch, show_place, show_stripe, slot_of,
    stripe, stripe_of,
};
use fusion_format::value::{Band, Patch, Patches, Row, Stripe, StripeState, Top, Volume};
use fusion_format::whole::{Tree, Whole};

use crate::blocks::Source;
use crate::check::{OTHER_LAYOUT, decode_row, entry_name};
use crate::events::{Rows, Sink, row_name, superblock};
use crate::geometry::Geometry;
use crate::map::{Map, Mapping};
use crate::restore::{self, MAX_METADATA_BLOCKS, Medium};
use crate::salvage::{Remains, salvage};
use crate::stripes::{Referrer, Stripes, replicas};
use crate::trees::{Input, Observer};
use crate::walk::{Damage, Reached};
use crate::{Error, Progress, Result};

fn needed(source: &dyn Source) -> Result<Whole> {
    superblock(source).map_err(|error| {
        Error::Damaged(format!(
            "{error}, and nothing can be found without it: if it was on several members, try the \
             slices of the others"
        ))
    })
}

/// How many blocks the metadata has.
///
/// # Errors
/// Its superblock is damaged.
pub fn blocks_of(source: &dyn Source) -> Result<u64> {
    Ok(needed(source)?
        .metadata_blocks
        .clamp(2, MAX_METADATA_BLOCKS))
}

/// Writes what can be saved of `source` to `medium`, and tells what cannot, or is made again.
///
/// # Errors
/// The superblock is damaged; `medium` has no room, or cannot be written.
pub fn repair(
    source: &dyn Source,
    medium: &mut dyn Medium,
    progress: Progress,
    tell: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut whole = needed(source)?;
    let geometry = Geometry::new(&whole)?;
    let mut reached = Reached::new(source.blocks(), progress);
    let remains = salvage(source, &whole, &mut reached, tell);
    let mut repair = Repair {
        source,
        reached,
        remains,
        geometry,
        generation: whole.generation,
        volumes: BTreeMap::new(),
        stripes: BTreeMap::new(),
        made: HashSet::new(),
        seen: Stripes::default(),
        twice: HashSet::new(),
        twice_patched: HashSet::new(),
        last: false,
        tell,
    };
    repair.load();
    repair.complete();
    repair.separate();
    // Once to see what contradicts itself, and once more without that.
    repair.all(&mut Nowhere)?;
    repair.tell_made();
    repair.last = true;
    repair.seen = Stripes::default();
    whole.needs_check = false;
    whole.transaction_id += 1;
    whole.scrub_at = 0;
    // Replicas are made equal by the next start.
    whole.clean = false;
    restore::build(medium, Progress::default(), &mut |sink| {
        sink.begin(&whole)?;
        for (band, class) in repair.geometry.bands() {
            sink.band(band, class)?;
        }
        for (&id, volume) in &repair.volumes {
            sink.volume(id, volume)?;
        }
        repair.all(sink)?;
        for (&id, stripe) in &repair.stripes {
            if let Some(stripe) = repair.live(id, stripe) {
                sink.stripe(id, &stripe)?;
            }
        }
        sink.end()
    })
}

/// What is sent here is only looked at.
struct Nowhere;

impl Sink for Nowhere {
    fn begin(&mut self, _whole: &Whole) -> Result<()> {
        Ok(())
    }
    fn band(&mut self, _band: u32, _class: u16) -> Result<()> {
        Ok(())
    }
    fn volume(&mut self, _id: u32, _volume: &Volume) -> Result<()> {
        Ok(())
    }
    fn block(&mut self, _mapping: &Mapping) -> Result<()> {
        Ok(())
    }
    fn row(&mut self, _row: &Row) -> Result<()> {
        Ok(())
    }
    fn stripe(&mut self, _id: u64, _stripe: &Stripe) -> Result<()> {
        Ok(())
    }
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Tells of entries that cannot be.
#[derive(Default)]
struct Malformed(Vec<(Tree, String)>);

impl Observer for Malformed {
    fn damage(&mut self, _tree: Tree, _damage: &Damage) {}

    fn malformed(&mut self, tree: Tree, key: u64, what: &str) {
        self.0
            .push((tree, format!("{} is lost: {what}", entry_name(tree, key))));
    }

    fn sparse(&mut self, _tree: Tree, _block: u64) {}
}

struct Repair<'a> {
    source: &'a dyn Source,
    reached: Reached,
    remains: Vec<Remains>,
    geometry: Geometry,
    generation: u32,
    volumes: BTreeMap<u32, Volume>,
    /// Those that there are, and those made from the map.
    stripes: BTreeMap<u64, Stripe>,
    made: HashSet<u64>,
    seen: Stripes,
    /// Slots, and patches by who refers to them, that are referred to twice.
    twice: HashSet<u64>,
    twice_patched: HashSet<(u64, bool)>,
    /// It is known what is.
    last: bool,
    tell: &'a mut dyn FnMut(&str),
}

fn place_of(tree: Tree) -> usize {
    Tree::ALL
        .iter()
        .position(|other| *other == tree)
        .unwrap_or(0)
}

/// Slots that the replicas of a patch are in.
fn slots(patch: &Patch) -> Patch {
    patch.map(|at| if at == 0 { 0 } else { patch_slot(at) })
}

fn partners(places: &[u64; 3]) -> [u64; 2] {
    let stripe = |at: u64| if at == 0 { NO_STRIPE } else { stripe_of(at) };
    [stripe(places[1]), stripe(places[2])]
}

impl Repair<'_> {
    fn tell(&mut self, text: &str) {
        (self.tell)(text);
    }

    fn is_damaged(&self, tree: Tree) -> bool {
        self.remains[place_of(tree)].is_damaged()
    }

    /// Does something with what is left of a tree; an error says what is wrong with an entry.
    fn each(
        &mut self,
        tree: Tree,
        mut work: impl FnMut(&mut Self, u64, &[u8]) -> std::result::Result<(), &'static str>,
    ) {
        let mut entries = self.remains[place_of(tree)].entries();
        loop {
            let mut nobody = Malformed::default();
            let mut input = Input {
                source: self.source,
                reached: &mut self.reached,
                observer: &mut nobody,
            };
            let Some(key) = entries.next(&mut input) else {
                return;
            };
            if let Err(what) = work(self, key, entries.value()) {
                self.remains[place_of(tree)].set_malformed();
                self.tell(&format!("{} is lost: {what}", entry_name(tree, key)));
            }
        }
    }

    /// Volumes, bands and stripes.
    fn load(&mut self) {
        let mut names = HashSet::new();
        self.each(Tree::Volumes, |this, key, value| {
            let mut volume = Volume::decode(value).map_err(|error| error.0)?;
            let id = u32::try_from(key)
                .ok()
                .filter(|&id| id <= fusion_format::MAX_VOLUME_ID)
                .ok_or("no volume has that number")?;
            if this.geometry.class(volume.class).is_none() {
                return Err("no such class");
            }
            if volume.blocks == 0 || volume.blocks > fusion_format::place::MAX_BLOCKS {
                return Err("impossible size");
            }
            if !names.insert(volume.name.clone()) {
                volume.name = format!("lost-{id}");
            }
            this.volumes.insert(id, volume);
            Ok(())
        });
        self.each(Tree::Bands, |this, key, value| {
            let band = Band::decode(value).map_err(|error| error.0)?;
            let number = u32::try_from(key).map_err(|_| "no such band")?;
            let generation = this.geometry.generation(number);
            if generation.is_some_and(|generation| generation != band.layout_generation) {
                return Err(OTHER_LAYOUT);
            }
            if this.geometry.assign(number, band.class) {
                Ok(())
            } else {
                Err("no such band, or class")
            }
        });
        let bands_damaged = self.is_damaged(Tree::Bands);
        self.each(Tree::Stripes, |this, id, value| {
            let mut stripe = Stripe::decode(value).map_err(|error| error.0)?;
            // What class it is of may still be found.
            let known = this.geometry.band_class(band_of(id)).is_some() || !bands_damaged;
            if known && !this.stripe_fits(id, &stripe) {
                return Err("the pool has no such stripe");
            }
            stripe.generation = stripe.generation.min(this.generation);
            stripe.spared &= this.geometry.areas;
            this.stripes.insert(id, stripe);
            Ok(())
        });
    }

    fn stripe_fits(&self, id: u64, stripe: &Stripe) -> bool {
        let class = self.geometry.class_of(id);
        let Some(class) = class.and_then(|class| self.geometry.class(class)) else {
            return false;
        };
        let slots = match stripe.state {
            StripeState::Mirror => class.width(),
            StripeState::Primary | StripeState::Raid => class.data,
        };
        let two = stripe.partner[1] != NO_STRIPE;
        stripe.written >> slots == 0
            && (stripe.state != StripeState::Primary || two == (class.parity > 1))
    }

    fn map(&self) -> Map {
        let entries = |tree| self.remains[place_of(tree)].entries();
        Map::new(
            entries(Tree::Base),
            entries(Tree::Tops),
            entries(Tree::Patches),
            self.geometry.pages,
        )
    }

    fn next(&mut self, map: &mut Map) -> Option<Mapping> {
        let mut malformed = Malformed::default();
        let mut input = Input {
            source: self.source,
            reached: &mut self.reached,
            observer: &mut malformed,
        };
        let mapping = map.next(&mut input);
        if !self.last {
            for (tree, text) in malformed.0 {
                self.remains[place_of(tree)].set_malformed();
                self.tell(&text);
            }
        }
        mapping
    }

    /// Volumes and bands whose records are lost, from the map.
    fn complete(&mut self) {
        let (volumes, bands) = (self.is_damaged(Tree::Volumes), self.is_damaged(Tree::Bands));
        if !volumes && !bands {
            return;
        }
        let only = (self.geometry.classes.len() == 1).then_some(0u16);
        let was_last = std::mem::replace(&mut self.last, true);
        let mut lost: BTreeMap<u32, Volume> = BTreeMap::new();
        let mut map = self.map();
        while let Some(mapping) = self.next(&mut map) {
            let places = [
                mapping.base,
                mapping.top.map_or(0, |top| top.place[0]),
                mapping.top.map_or(0, |top| top.place[1]),
                mapping.top.map_or(0, |top| top.place[2]),
            ];
            let places = places.into_iter().filter(|&at| at != 0);
            let known = places
                .clone()
                .find_map(|at| self.geometry.place_class(at))
                .or(only);
            let record = self.volumes.get(&mapping.volume).map(|volume| volume.class);
            let Some(class) = record.or(known) else {
                continue;
            };
            if bands {
                for at in places {
                    let band = band_of(stripe_of(at));
                    if self.geometry.band_class(band).is_none() {
                        if let Ok(band) = u32::try_from(band) {
                            if self.geometry.assign(band, class) {
                                self.tell(&format!("band {band}: its record is made again"));
                            }
                        }
                    }
                }
            }
            if volumes && record.is_none() {
                let volume = lost.entry(mapping.volume).or_insert_with(|| Volume {
                    blocks: 0,
                    mapped: 0,
                    tops: 0,
                    patched: 0,
                    class,
                    deleting: false,
                    name: format!("lost-{}", mapping.volume),
                });
                volume.blocks = volume.blocks.max(mapping.block + 1);
            }
        }
        self.last = was_last;
        for (id, volume) in lost {
            self.tell(&format!(
                "volume {id}: its record is made again; its name is {} now, and its size {} blocks, \
                 which may be less than it was",
                volume.name, volume.blocks
            ));
            self.volumes.insert(id, volume);
        }
        // Now it is known of all that can be known.
        let unfit: Vec<u64> = self
            .stripes
            .iter()
            .filter(|(id, stripe)| !self.stripe_fits(**id, stripe))
            .map(|(id, _)| *id)
            .collect();
        for id in unfit {
            self.stripes.remove(&id);
        }
    }

    /// Of bands of two layouts that are at the same place those that nothing is known of are free;
    /// if that is none of them, nobody knows which counts.
    fn separate(&mut self) {
        let known = !self.remains[place_of(Tree::Stripes)].lacks_blocks();
        let mut lost = BTreeSet::new();
        for (band, old) in self.geometry.overlaps() {
            let empty = |band| known && self.stripes_of(band).next().is_none();
            match (empty(band), empty(old)) {
                (true, false) => lost.extend([band]),
                (false, true) => lost.extend([old]),
                _ => lost.extend([band, old]),
            }
        }
        for band in lost {
            let stripes: Vec<u64> = self.stripes_of(band).collect();
            for id in &stripes {
                self.stripes.remove(id);
            }
            self.geometry.release(band);
            self.tell(&format!(
                "band {band} and the {} stripes of it are lost: a band of another layout is at the \
                 same place",
                stripes.len()
            ));
        }
    }

    fn stripes_of(&self, band: u32) -> impl Iterator<Item = u64> + '_ {
        let first = stripe(band, 0);
        let range = self.stripes.range(first..stripe(band + 1, 0));
        range.map(|(&id, _)| id)
    }

    /// The map and the rows, as far as they can be.
    fn all(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let mut map = self.map();
        while let Some(mapping) = self.next(&mut map) {
            if let Some(mapping) = self.block(mapping) {
                sink.block(&mapping)?;
            }
        }
        let mut rows = Rows::new(self.remains[place_of(Tree::Rows)].entries());
        loop {
            let mut malformed = Malformed::default();
            let mut input = Input {
                source: self.source,
                reached: &mut self.reached,
                observer: &mut malformed,
            };
            let Some((key, bytes)) = rows.next(&mut input) else {
                return Ok(());
            };
            if let Some(row) = self.row(key, &bytes) {
                sink.row(&row)?;
            }
        }
    }

    /// Something is left out; told of once.
    fn drop(&mut self, text: &str, why: &str) {
        // All that is left out is known in the last pass only.
        if self.last {
            self.tell(&format!("{text} is lost: {why}"));
        }
    }

    /// What can be kept of a block.
    fn block(&mut self, mut mapping: Mapping) -> Option<Mapping> {
        let name = format!("volume {} block {}", mapping.volume, mapping.block);
        let Some(volume) = self.volumes.get(&mapping.volume) else {
            self.drop(&name, "there is no such volume");
            return None;
        };
        let (class, deleting) = (volume.class, volume.deleting);
        if mapping.block >= volume.blocks {
            self.drop(&name, "it is beyond the volume's end");
            return None;
        }
        if mapping.base != 0 {
            if let Err(why) = self.base(mapping.base, class) {
                self.drop(&format!("{name}: base {}", show_place(mapping.base)), why);
                mapping.base = 0;
            }
        }
        if let Some(top) = &mut mapping.top {
            top.generation = top.generation.min(self.generation);
            let top = *top;
            if let Err(why) = self.top(&top, class) {
                self.drop(&format!("{name}: top {}", show_place(top.place[0])), why);
                mapping.top = None;
            }
        }
        if let Some(patches) = mapping.patches.take() {
            if mapping.top.is_some() {
                self.drop(&format!("{name}: patches"), "the block has a top");
            } else if mapping.base == 0 && !deleting {
                self.drop(&format!("{name}: patches"), "there is no base under them");
            } else {
                mapping.patches = self.patches(&name, &patches, class);
            }
        }
        (!mapping.is_empty()).then_some(mapping)
    }

    /// Sees a slot; an error if it is used twice.
    fn see(&mut self, at: u64, width: u32) -> std::result::Result<(), &'static str> {
        if self.last {
            if self.twice.contains(&at) {
                return Err(TWICE);
            }
            self.seen.see(at, width);
        } else if self.seen.see(at, width) {
            self.twice.insert(at);
        }
        Ok(())
    }

    fn width(&self, class: u16) -> u32 {
        self.geometry.class(class).map_or(0, |class| class.width())
    }

    /// The record of a stripe; one that is lost is made again.
    fn record(&mut self, id: u64, like: Stripe) -> std::result::Result<&mut Stripe, &'static str> {
        if !self.stripes.contains_key(&id) {
            if !self.is_damaged(Tree::Stripes) && !self.is_damaged(Tree::Bands) || self.last {
                return Err("its stripe is free");
            }
            self.made.insert(id);
            self.stripes.insert(id, like);
        }
        self.stripes.get_mut(&id).ok_or("its stripe is free")
    }

    fn base(&mut self, at: u64, class: u16) -> std::result::Result<(), &'static str> {
        let data = self.geometry.class(class).map_or(0, |class| class.data);
        if self.geometry.place_class(at) != Some(class) || slot_of(at) >= data {
            return Err("the pool has no such place");
        }
        let id = stripe_of(at);
        let like = Stripe {
            state: StripeState::Raid,
            spared: 0,
            patch_pages: 0,
            generation: self.generation,
            written: 0,
            live: 0,
            partner: [NO_STRIPE; 2],
        };
        let made = self.made.contains(&id) || !self.stripes.contains_key(&id);
        let stripe = self.record(id, like)?;
        if stripe.state != StripeState::Raid {
            return Err("its stripe has no parity");
        }
        let bit = 1 << slot_of(at);
        if made {
            stripe.written |= bit;
        } else if stripe.written & bit == 0 {
            return Err("it was never written");
        }
        self.see(at, self.width(class))
    }

    /// Do the places fit the records of their stripes, of a set for patches or for tops?
    fn set(
        &mut self,
        places: &[u64; 3],
        class: Option<u16>,
        patches: bool,
    ) -> std::result::Result<u16, &'static str> {
        let found = self.geometry.replicas(places)?;
        if class.is_some_and(|class| class != found) {
            return Err("it is not of the volume's class");
        }
        let primary = stripe_of(places[0]);
        for (which, &at) in places.iter().enumerate().filter(|(_, at)| **at != 0) {
            let (state, partner) = match which {
                0 => (StripeState::Primary, partners(places)),
                _ => (StripeState::Mirror, [primary, NO_STRIPE]),
            };
            let id = stripe_of(at);
            let like = Stripe {
                state,
                spared: 0,
                patch_pages: patches.into(),
                generation: self.generation,
                written: 0,
                live: 0,
                partner,
            };
            let made = self.made.contains(&id) || !self.stripes.contains_key(&id);
            let stripe = self.record(id, like)?;
            if stripe.state != state || stripe.partner != partner {
                return Err("its stripes are not a set");
            }
            if (stripe.patch_pages > 0) != patches {
                return Err("its set is of another kind");
            }
            let bit = 1 << slot_of(at);
            if made {
                stripe.written |= bit;
            } else if stripe.written & bit == 0 {
                return Err("it was never written");
            }
        }
        Ok(found)
    }

    fn top(&mut self, top: &Top, class: u16) -> std::result::Result<(), &'static str> {
        self.set(&top.place, Some(class), false)?;
        let width = self.width(class);
        // All or none of them.
        if self.last && replicas(&top.place).any(|at| self.twice.contains(&at)) {
            return Err(TWICE);
        }
        for at in replicas(&top.place) {
            self.see(at, width)?;
        }
        Ok(())
    }

    fn patch(
        &mut self,
        patch: &Patch,
        class: Option<u16>,
        by: Referrer,
    ) -> std::result::Result<(), &'static str> {
        let found = self.set(&slots(patch), class, true)?;
        let (width, pages) = (self.width(found), self.geometry.pages);
        if replicas(patch).any(|at| patch_page(at) >= pages) {
            return Err("the pool's blocks have no such page");
        }
        let key = |at: u64| (at, by == Referrer::Row);
        if self.last && replicas(patch).any(|at| self.twice_patched.contains(&key(at))) {
            return Err(TWICE);
        }
        for at in replicas(patch) {
            if self.seen.see_patch(at, width, pages, by) && !self.last {
                self.twice_patched.insert(key(at));
            }
        }
        Ok(())
    }

    /// Those pages that can be kept.
    fn patches(&mut self, name: &str, patches: &Patches, class: u16) -> Option<Patches> {
        let mut kept = Patches {
            mask: 0,
            generation: patches.generation.min(self.generation),
            patch: Vec::new(),
        };
        let pages = (0..64).filter(|page| patches.mask >> page & 1 == 1);
        for (page, patch) in pages.zip(&patches.patch) {
            match self.patch(patch, Some(class), Referrer::Block) {
                Ok(()) => {
                    kept.mask |= 1 << page;
                    kept.patch.push(*patch);
                }
                Err(why) => self.drop(
                    &format!("{name} page {page}: patch {}", show_patch(patch[0])),
                    why,
                ),
            }
        }
        (kept.mask != 0).then_some(kept)
    }

    fn row(&mut self, key: u64, bytes: &[u8]) -> Option<Row> {
        let name = format!(
            "{}, which was being written, and may be torn: its record",
            row_name(key)
        );
        let Some((row, class)) = decode_row(&self.geometry, key, bytes) else {
            self.drop(&name, "it cannot be a row");
            return None;
        };
        let state = self.stripes.get(&row.stripe).map(|stripe| stripe.state);
        if state.is_some_and(|state| state != StripeState::Raid) {
            self.drop(&name, "its stripe has no parity");
            return None;
        }
        let patches: Vec<Patch> = row.parity.iter().chain(&row.patch).copied().collect();
        if self.last {
            let twice = patches
                .iter()
                .flat_map(replicas)
                .any(|at| self.twice_patched.contains(&(at, true)));
            if twice {
                self.drop(&name, TWICE);
                return None;
            }
        }
        for patch in &patches {
            let places = slots(patch);
            if let Err(why) = self.set(&places, Some(class), true) {
                self.drop(&name, why);
                return None;
            }
        }
        for patch in &patches {
            if let Err(why) = self.patch(patch, Some(class), Referrer::Row) {
                self.drop(&name, why);
                return None;
            }
        }
        Some(row)
    }

    /// Of stripes that are made again.
    fn tell_made(&mut self) {
        let (mut raid, mut sets) = (Vec::new(), 0u64);
        for &id in &self.made {
            match self.stripes.get(&id).map(|stripe| stripe.state) {
                Some(StripeState::Raid) => raid.push(id),
                _ => sets += 1,
            }
        }
        if sets > 0 {
            self.tell(&format!(
                "the records of {sets} stripes of replicas are made again"
            ));
        }
        raid.sort_unstable();
        if let Some(first) = raid.first() {
            let first = show_stripe(*first);
            self.tell(&format!(
                "the records of {} stripes with parity ({first} and so on) are made again: whether \
                 their parity fits is not known; start the pool with all members, and let fusion \
                 scrub --repair write it again before one fails",
                raid.len()
            ));
        }
    }

    /// A stripe as it is stored; None: nothing refers to it any more.
    fn live(&self, id: u64, stripe: &Stripe) -> Option<Stripe> {
        let seen = self.seen.seen(id);
        if seen == 0 {
            return None;
        }
        let mut stripe = *stripe;
        let primary = match stripe.state {
            StripeState::Raid => return Some(stripe),
            StripeState::Primary => id,
            StripeState::Mirror => stripe.partner[0],
        };
        // A set of which some is made again has no more than what is known of all of it.
        let mut set = vec![primary];
        if let Some(first) = self.stripes.get(&primary) {
            set.extend(first.partner);
        }
        if stripe.patch_pages > 0 && set.iter().any(|id| self.made.contains(id)) {
            stripe.written = seen;
        }
        Some(stripe)
    }
}

const TWICE: &str = "something else is at the same place";
