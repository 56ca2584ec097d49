// SPDX-License-Identifier: GPL-2.0-only
//! Is a pool's metadata right?
//!
//! Every block that is reached is looked at, and every entry. Then what the trees say of each
//! other: whoever refers to a slot finds it live, in a stripe of the right kind; what is live is
//! referred to once; all counts are what there is to count. This is what the module relies on
//! (`ledger.h`, `map-apply.c`, `space.c`, `row-apply.c`).

use std::collections::BTreeMap;

use fusion_format::place::{self, MAX_BLOCKS, show_patch, show_place, show_stripe};
use fusion_format::value::{Band, Patch, Row, Stripe, StripeState, Top, Volume};
use fusion_format::whole::{Counts, Tree, Whole};

use crate::Progress;
use crate::blocks::Source;
use crate::events::{Rows, entries, map_of, row_name, superblock};
use crate::findings::Findings;
use crate::geometry::Geometry;
use crate::map::{Map, Mapping};
use crate::space_map::SpaceMap;
use crate::stripes::{Referrer, Stripes, replicas};
use crate::trees::{Input, Observer};
use crate::walk::{Damage, Reached};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub superblock_only: bool,
    /// Only the superblock, volumes and bands.
    pub skip_mappings: bool,
}

/// What is needed to mend what is minor.
pub struct Checked {
    pub whole: Whole,
    reached: Reached,
    space_map: Option<SpaceMap>,
}

impl Checked {
    /// Makes the space map what it should be, in place: only after a check of everything that
    /// found nothing but what is minor.
    ///
    /// # Errors
    /// Of what is read or written.
    pub fn repair_space_map(
        &self,
        source: &dyn Source,
        target: &mut dyn crate::Target,
    ) -> crate::Result<()> {
        match &self.space_map {
            Some(map) if map.is_whole() => map.rewrite(&self.reached, &source.read(0)?[..], target),
            _ => crate::damaged("the space map is damaged"),
        }
    }
}

/// None: there is no superblock to begin with.
pub fn check(
    source: &dyn Source,
    options: Options,
    progress: Progress,
    findings: &mut Findings,
) -> Option<Checked> {
    let whole = match superblock(source) {
        Ok(whole) => whole,
        Err(error) => {
            findings.error(&error.to_string());
            return None;
        }
    };
    findings.error_unless(whole.metadata_blocks <= source.blocks(), || {
        format!(
            "its superblock is of {} blocks: there are {}",
            whole.metadata_blocks,
            source.blocks()
        )
    });
    let mut checked = Checked {
        reached: Reached::new(source.blocks(), progress),
        space_map: None,
        whole,
    };
    let geometry = match Geometry::new(&checked.whole) {
        Ok(geometry) => geometry,
        Err(error) => {
            findings.error(&error.to_string());
            return None;
        }
    };
    if options.superblock_only {
        return Some(checked);
    }
    let mut check = Check {
        source,
        reached: &mut checked.reached,
        damaged: false,
        findings,
        whole: &checked.whole,
        geometry,
        volumes: BTreeMap::new(),
        bands: BTreeMap::new(),
        stripes: Stripes::default(),
        counts: Counts::default(),
    };
    check.volumes();
    check.bands();
    if options.skip_mappings {
        return Some(checked);
    }
    check.stripes();
    check.map();
    check.rows();
    check.sums();
    let damaged = check.damaged;
    let map = SpaceMap::read(
        source,
        checked.whole.space_map,
        &mut checked.reached,
        findings,
    );
    map.compare(&checked.reached, !damaged, findings);
    checked.space_map = Some(map);
    Some(checked)
}

struct Check<'a, 'b> {
    source: &'a dyn Source,
    reached: &'a mut Reached,
    /// Not all blocks could be reached.
    damaged: bool,
    findings: &'a mut Findings<'b>,
    whole: &'a Whole,
    geometry: Geometry,
    /// With what of each is found in the map: mapped, tops, patched.
    volumes: BTreeMap<u32, (Volume, [u64; 3])>,
    /// With the stripes that are found in each.
    bands: BTreeMap<u64, (Band, u64)>,
    stripes: Stripes,
    counts: Counts,
}

/// Tells the findings.
struct Watch<'a, 'b> {
    damaged: &'a mut bool,
    findings: &'a mut Findings<'b>,
}

/// Of the record of a band.
pub(crate) const OTHER_LAYOUT: &str = "of another layout than its number says";

/// Keys from `first` to before `end`, for a message.
pub fn keys(tree: Tree, first: u64, end: Option<u64>) -> String {
    let last = end.map_or(u64::MAX, |end| end.saturating_sub(1));
    if first == 0 && last == u64::MAX {
        return "all of it".into();
    }
    let from = entry_name(tree, first);
    match end {
        Some(_) => format!("from {from} to {}", entry_name(tree, last)),
        None => format!("from {from} on"),
    }
}

/// Which node cannot be read, why, and what is lost with it.
pub fn damage_text(tree: Tree, damage: &Damage) -> String {
    format!(
        "block {}, node of the tree of {} ({}): {}",
        damage.block,
        tree.name(),
        keys(tree, damage.first, damage.end),
        damage.error
    )
}

/// What the entry with a key is of.
pub fn entry_name(tree: Tree, key: u64) -> String {
    let (volume, number) = (place::volume_of(key), place::block_of(key));
    match tree {
        Tree::Volumes => format!("volume {key}"),
        Tree::Bands => format!("band {key}"),
        Tree::Stripes => format!("stripe {}", show_stripe(key)),
        Tree::Base => format!(
            "volume {volume} block {}",
            number.saturating_mul(place::GROUP_BLOCKS)
        ),
        Tree::Tops | Tree::Patches => format!("volume {volume} block {number}"),
        Tree::Rows => row_name(key),
    }
}

impl Observer for Watch<'_, '_> {
    fn damage(&mut self, tree: Tree, damage: &Damage) {
        *self.damaged = true;
        self.findings.error(&damage_text(tree, damage));
    }

    fn malformed(&mut self, tree: Tree, key: u64, what: &str) {
        self.findings.error(&format!(
            "{} in the tree of {}: {what}",
            entry_name(tree, key),
            tree.name()
        ));
    }

    fn sparse(&mut self, tree: Tree, block: u64) {
        self.findings.minor(&format!(
            "block {block}, node of the tree of {}: has too few entries",
            tree.name()
        ));
    }
}

impl Check<'_, '_> {
    /// What `next` reads, whose trouble is a finding.
    fn read<T>(&mut self, next: impl FnOnce(&mut Input) -> T) -> T {
        let mut watch = Watch {
            damaged: &mut self.damaged,
            findings: self.findings,
        };
        next(&mut Input {
            source: self.source,
            reached: self.reached,
            observer: &mut watch,
        })
    }

    /// Does something with each entry of a tree.
    fn each(&mut self, tree: Tree, mut work: impl FnMut(&mut Self, u64, &[u8])) {
        let mut entries = entries(self.whole, tree);
        while let Some(key) = self.read(|input| entries.next(input)) {
            work(self, key, entries.value());
        }
    }

    fn malformed(&mut self, tree: Tree, key: u64, what: &str) {
        Watch {
            damaged: &mut self.damaged,
            findings: self.findings,
        }
        .malformed(tree, key, what);
    }

    fn volumes(&mut self) {
        self.each(Tree::Volumes, |this, key, value| {
            let id = u32::try_from(key)
                .ok()
                .filter(|&id| id <= fusion_format::MAX_VOLUME_ID);
            let (Some(id), Ok(volume)) = (id, Volume::decode(value)) else {
                this.malformed(Tree::Volumes, key, "impossible volume");
                return;
            };
            if volume.blocks == 0 || volume.blocks > MAX_BLOCKS {
                this.malformed(Tree::Volumes, key, "impossible size");
            }
            if this.geometry.class(volume.class).is_none() {
                this.malformed(Tree::Volumes, key, "no such class");
                return;
            }
            this.volumes.insert(id, (volume, [0; 3]));
        });
        let mut names: Vec<&str> = self
            .volumes
            .values()
            .map(|entry| entry.0.name.as_str())
            .collect();
        names.sort_unstable();
        let twins: Vec<String> = names
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].to_owned())
            .collect();
        for name in twins {
            self.findings
                .error(&format!("two volumes have the name {name}"));
        }
    }

    fn bands(&mut self) {
        self.each(Tree::Bands, |this, key, value| {
            let (number, band) = match (u32::try_from(key), Band::decode(value)) {
                (Ok(number), Ok(band)) if this.geometry.assign(number, band.class) => {
                    (number, band)
                }
                (_, Err(error)) => return this.malformed(Tree::Bands, key, error.0),
                _ => return this.malformed(Tree::Bands, key, "no such band, or class"),
            };
            if band.used == 0 || band.used > this.geometry.band_stripes(number, band.class) {
                this.malformed(Tree::Bands, key, "impossible count of stripes");
            }
            if this.geometry.generation(number) != Some(band.layout_generation) {
                this.malformed(Tree::Bands, key, OTHER_LAYOUT);
            }
            this.bands.insert(key, (band, 0));
        });
        for (band, old) in self.geometry.overlaps() {
            self.findings.error(&format!(
                "band {band}: band {old} of the old layout, which is not free, is at the same place"
            ));
        }
    }

    fn stripes(&mut self) {
        self.each(Tree::Stripes, |this, id, value| {
            let stripe = match Stripe::decode(value) {
                Ok(stripe) => stripe,
                Err(error) => return this.malformed(Tree::Stripes, id, error.0),
            };
            let class = this.geometry.class_of(id);
            let Some(class) = class.and_then(|class| this.geometry.class(class)) else {
                return this.malformed(Tree::Stripes, id, "the pool has no such stripe");
            };
            let slots = match stripe.state {
                StripeState::Mirror => class.width(),
                StripeState::Primary | StripeState::Raid => class.data,
            };
            if stripe.written >> slots != 0 {
                this.malformed(Tree::Stripes, id, "slots that it does not have");
                return;
            }
            if stripe.spared & !this.geometry.areas != 0 {
                this.malformed(Tree::Stripes, id, "in spares that are not in use");
            }
            if stripe.generation > this.whole.generation {
                this.malformed(Tree::Stripes, id, "younger than the pool");
            }
            let two = stripe.partner[1] != place::NO_STRIPE;
            if stripe.state == StripeState::Primary && two != (class.parity > 1) {
                this.malformed(
                    Tree::Stripes,
                    id,
                    "another number of mirrors than its class",
                );
            }
            this.stripes.add(id, &stripe, class.width());
            if let Some(band) = this.bands.get_mut(&place::band_of(id)) {
                band.1 += 1;
            }
            add_counts(&mut this.counts, &stripe, class);
        });
    }

    fn map(&mut self) {
        let mut map: Map = map_of(self.whole);
        while let Some(mapping) = self.read(|input| map.next(input)) {
            self.block(&mapping);
        }
    }

    fn block(&mut self, mapping: &Mapping) {
        let name = format_args!("volume {} block {}", mapping.volume, mapping.block).to_string();
        let Some((volume, counts)) = self.volumes.get_mut(&mapping.volume) else {
            self.findings
                .error(&format!("{name}: mapped, but there is no such volume"));
            return;
        };
        counts[0] += u64::from(mapping.base != 0 || mapping.top.is_some());
        counts[1] += u64::from(mapping.top.is_some());
        counts[2] += u64::from(mapping.patches.is_some());
        let (class, beyond, deleting) = (
            volume.class,
            mapping.block >= volume.blocks,
            volume.deleting,
        );
        if beyond {
            self.findings
                .error(&format!("{name}: mapped, but beyond the volume's end"));
        }
        if mapping.base != 0 {
            self.base(&name, mapping.base, class);
        }
        if let Some(top) = &mapping.top {
            self.top(&name, top, class);
        }
        let Some(patches) = &mapping.patches else {
            return;
        };
        if mapping.top.is_some() {
            self.findings
                .error(&format!("{name}: has a top and patches"));
        }
        if mapping.base == 0 && !deleting {
            self.findings
                .error(&format!("{name}: has patches, but no base"));
        }
        self.findings
            .error_unless(patches.generation <= self.whole.generation, || {
                format!("{name}: patches younger than the pool")
            });
        for patch in &patches.patch {
            self.patch(&name, patch, Some(class), Referrer::Block);
        }
    }

    fn base(&mut self, name: &str, at: u64, class: u16) {
        let shown = || format!("{name}: base {}", show_place(at));
        if self.geometry.place_class(at) != Some(class) {
            self.findings
                .error(&format!("{}: not a place of the volume's class", shown()));
            return;
        }
        if self.stripes.state(place::stripe_of(at)) != Some(StripeState::Raid) {
            self.findings
                .error(&format!("{}: its stripe has no parity", shown()));
            return;
        }
        self.see(at, class, &shown);
    }

    /// Whoever refers to a slot is the only one, and the slot is live.
    fn see(&mut self, at: u64, class: u16, shown: &dyn Fn() -> String) {
        let width = self.geometry.class(class).map_or(0, |class| class.width());
        let live = self.stripes.live(place::stripe_of(at)) >> place::slot_of(at) & 1 == 1;
        if !live {
            self.findings
                .error(&format!("{}: {} is not live", shown(), show_place(at)));
        }
        if self.stripes.see(at, width) {
            self.findings
                .error(&format!("{}: {} is used twice", shown(), show_place(at)));
        }
    }

    /// Are stripes what the replicas at `places` say?
    fn set(&mut self, places: &[u64; 3], shown: &dyn Fn() -> String) -> bool {
        let primary = place::stripe_of(places[0]);
        let partner = self.stripes.partner(primary);
        let good = self.stripes.state(primary) == Some(StripeState::Primary)
            && (1..3).all(|which| {
                let id = place::stripe_of(places[which]);
                let named = partner.map_or(0, |partner| partner[which - 1]);
                if places[which] == 0 {
                    return named == place::NO_STRIPE;
                }
                named == id
                    && self.stripes.state(id) == Some(StripeState::Mirror)
                    && self.stripes.partner(id).map(|partner| partner[0]) == Some(primary)
            });
        if !good {
            self.findings
                .error(&format!("{}: its stripes are not a set", shown()));
        }
        good
    }

    fn top(&mut self, name: &str, top: &Top, class: u16) {
        let shown = || format!("{name}: top at {}", show_place(top.place[0]));
        match self.geometry.replicas(&top.place) {
            Err(what) => return self.findings.error(&format!("{}: {what}", shown())),
            Ok(found) if found != class => {
                return self
                    .findings
                    .error(&format!("{}: not of the volume's class", shown()));
            }
            Ok(_) => {}
        }
        self.findings
            .error_unless(top.generation <= self.whole.generation, || {
                format!("{}: younger than the pool", shown())
            });
        if !self.set(&top.place, &shown) {
            return;
        }
        for at in top.place.iter().copied().filter(|&at| at != 0) {
            if self.stripes.patch_pages(place::stripe_of(at)) > 0 {
                self.findings
                    .error(&format!("{}: in a set for patches", shown()));
            }
            self.see(at, class, &shown);
        }
    }

    /// `class`: that it must be of.
    fn patch(&mut self, name: &str, patch: &Patch, class: Option<u16>, by: Referrer) {
        let shown = || format!("{name}: patch at {}", show_patch(patch[0]));
        let places = patch.map(|at| if at == 0 { 0 } else { place::patch_slot(at) });
        let found = match self.geometry.replicas(&places) {
            Ok(found) if class.is_none_or(|class| class == found) => found,
            Ok(_) => {
                return self
                    .findings
                    .error(&format!("{}: not of the right class", shown()));
            }
            Err(what) => return self.findings.error(&format!("{}: {what}", shown())),
        };
        if !self.set(&places, &shown) {
            return;
        }
        let width = self.geometry.class(found).map_or(0, |class| class.width());
        for at in replicas(patch) {
            let slot = place::patch_slot(at);
            let live = self.stripes.live(place::stripe_of(slot)) >> place::slot_of(slot) & 1 == 1;
            if !live {
                self.findings
                    .error(&format!("{}: {} is not live", shown(), show_place(slot)));
            }
            if self.stripes.see_patch(at, width, self.geometry.pages, by) {
                self.findings
                    .error(&format!("{}: {} is used twice", shown(), show_patch(at)));
            }
        }
        self.counts.patch_pages += 1;
    }

    fn rows(&mut self) {
        let mut rows = Rows::new(entries(self.whole, Tree::Rows));
        while let Some((key, bytes)) = self.read(|input| rows.next(input)) {
            self.row(key, &bytes);
        }
    }

    fn row(&mut self, key: u64, bytes: &[u8]) {
        let Some((row, class)) = decode_row(&self.geometry, key, bytes) else {
            return self.malformed(Tree::Rows, key, "impossible row");
        };
        let name = row_name(key);
        match self.stripes.state(row.stripe) {
            None | Some(StripeState::Raid) => {}
            Some(_) => self
                .findings
                .error(&format!("{name}: its stripe has no parity")),
        }
        for patch in row.parity.iter().chain(&row.patch) {
            self.patch(&name, patch, Some(class), Referrer::Row);
        }
    }

    /// What can be said when everything has been read.
    fn sums(&mut self) {
        // What is in damaged nodes would be missing everywhere.
        if self.damaged {
            return;
        }
        for id in self.stripes.ids() {
            self.stripe_sums(id);
        }
        for (number, (band, found)) in &self.bands {
            self.findings
                .error_unless(u64::from(band.used) == *found, || {
                    format!(
                        "band {number}: {} stripes counted, {found} found",
                        band.used
                    )
                });
        }
        for (id, (volume, found)) in &self.volumes {
            // Deleting does not count.
            if volume.deleting {
                continue;
            }
            let counted = [volume.mapped, volume.tops, volume.patched];
            for ((what, counted), found) in ["mapped blocks", "tops", "patched blocks"]
                .iter()
                .zip(counted)
                .zip(found)
            {
                self.findings.error_unless(counted == *found, || {
                    format!("volume {id}: {counted} {what} counted, {found} found")
                });
            }
        }
        let counted = self.whole.counts.fields();
        for ((what, counted), (_, found)) in counted.into_iter().zip(self.counts.fields()) {
            self.findings.error_unless(counted == found, || {
                format!("superblock: {what} is {counted}, {found} found")
            });
        }
    }

    fn stripe_sums(&mut self, id: u64) {
        let name = || format!("stripe {}", show_stripe(id));
        let Some(state) = self.stripes.state(id) else {
            return;
        };
        let (live, seen) = (self.stripes.live(id), self.stripes.seen(id));
        let pages = u64::from(self.stripes.patch_pages(id));
        let found = self.stripes.references(id);
        self.findings.error_unless(pages == found, || {
            format!("{}: {pages} patched pages counted, {found} found", name())
        });
        // Of a set for patches all stay live until there are none.
        let unseen = if pages > 0 { 0 } else { live & !seen };
        self.findings.error_unless(unseen == 0, || {
            format!(
                "{}: slots {unseen:#x} are live, but nothing refers to them",
                name()
            )
        });
        if state == StripeState::Raid {
            return;
        }
        let partner = self.stripes.partner(id).unwrap_or([place::NO_STRIPE; 2]);
        for other in partner
            .into_iter()
            .filter(|&other| other != place::NO_STRIPE)
        {
            let right = match state {
                StripeState::Primary => StripeState::Mirror,
                _ => StripeState::Primary,
            };
            let back = self.stripes.partner(other).unwrap_or([place::NO_STRIPE; 2]);
            let good = self.stripes.state(other) == Some(right)
                && back.contains(&id)
                && self.stripes.live(other).count_ones() == live.count_ones();
            self.findings.error_unless(good, || {
                format!(
                    "{}: does not fit its partner {}",
                    name(),
                    show_stripe(other)
                )
            });
        }
    }
}

/// Of which class it is, too: that of its patches.
pub(crate) fn decode_row(geometry: &Geometry, key: u64, bytes: &[u8]) -> Option<(Row, u16)> {
    let first = bytes.get(..Row::BYTES)?;
    let index = geometry.place_class(place::patch_slot(Row::first_place(first)))?;
    let class = geometry.class(index)?;
    let row = Row::decode(bytes, key, (class.data, class.parity), geometry.pages).ok()?;
    // The band of a stripe that is dead may be of another by now.
    let of = geometry.band_class(place::band_of(row.stripe));
    (of.is_none_or(|of| of == index && geometry.class_of(row.stripe).is_some()))
        .then_some((row, index))
}

/// Adds a stripe's record to the superblock's sums, but for patches.
pub(crate) fn add_counts(counts: &mut Counts, stripe: &Stripe, class: fusion_format::whole::Class) {
    let live = u64::from(stripe.live.count_ones());
    if stripe.state == StripeState::Raid {
        counts.raid_stripes += 1;
        counts.raid_slots += u64::from(class.width());
        counts.raid_parity_slots += u64::from(class.parity);
        counts.raid_live += live;
    } else {
        counts.replica_stripes += 1;
        counts.replica_slots += u64::from(class.width());
        counts.replica_live += live;
    }
}
