// SPDX-License-Identifier: GPL-2.0-only
//! New metadata from a dump.
//!
//! Everything is written one behind the other, the superblock, which makes it count, at the end;
//! before that all of it is checked. So a dump that contradicts itself is refused, whoever wrote
//! it, and a restore that is cut short leaves no metadata at all.

use std::io::{self, BufRead};

use fusion_format::place::{block_key, block_of, show_stripe, volume_of};
use fusion_format::value::{
    BASE_BYTES, Band, Row, Stripe, StripeState, Volume, patches_bytes, row_key,
};
use fusion_format::whole::{Counts, Tree, Whole};

use crate::allocator::Allocator;
use crate::blocks::{BLOCK_BYTES, Block, Source, Target};
use crate::check::{Options, add_counts, check, decode_row};
use crate::events::Sink;
use crate::findings::Findings;
use crate::geometry::Geometry;
use crate::map::Mapping;
use crate::parse;
use crate::space_map_writer;
use crate::stripes::{Referrer, Stripes, replicas};
use crate::tree_writer::TreeWriter;
use crate::trees::value_bytes;
use crate::{Error, Progress, Result, damaged};

/// The most that the kernel gives to metadata: it says so in the superblock.
pub const MAX_METADATA_BLOCKS: u64 = 255 << 14;

/// Both at once: what was written is read again.
pub trait Medium: Source + Target {
    fn as_source(&self) -> &dyn Source;
    fn as_target(&mut self) -> &mut dyn Target;
}

impl<T: Source + Target> Medium for T {
    fn as_source(&self) -> &dyn Source {
        self
    }

    fn as_target(&mut self) -> &mut dyn Target {
        self
    }
}

/// How many blocks the metadata had that a dump is of.
///
/// # Errors
/// It is no dump.
pub fn blocks_of(dump: &mut dyn BufRead) -> Result<u64> {
    Ok(parse::head(dump)?
        .metadata_blocks
        .clamp(2, MAX_METADATA_BLOCKS))
}

/// Writes what `dump` says to `medium`.
///
/// # Errors
/// A line that no dump has; what cannot be in a pool; no room.
pub fn restore(dump: &mut dyn BufRead, medium: &mut dyn Medium, progress: Progress) -> Result<()> {
    build(medium, progress, &mut |sink| parse::parse(dump, sink))
}

/// Writes what `send` sends.
pub(crate) fn build(
    medium: &mut dyn Medium,
    progress: Progress,
    send: &mut dyn FnMut(&mut dyn Sink) -> Result<()>,
) -> Result<()> {
    let target = medium.as_target();
    if target.blocks() < 2 {
        return Err(Error::NoRoom(target.blocks()));
    }
    // Nothing that is there counts from here on.
    target.write(0, &[0; BLOCK_BYTES])?;
    target.sync()?;
    let mut builder = Builder::new(target);
    send(&mut builder)?;
    let Some(superblock) = builder.superblock.take() else {
        return damaged("nothing came");
    };
    verify(medium.as_source(), &superblock, progress)?;
    let target = medium.as_target();
    target.sync()?;
    target.write(0, &superblock)?;
    target.sync()?;
    Ok(())
}

/// As if the superblock had been written.
struct WithSuperblock<'a> {
    source: &'a dyn Source,
    superblock: &'a Block,
}

impl Source for WithSuperblock<'_> {
    fn blocks(&self) -> u64 {
        self.source.blocks()
    }

    fn read(&self, block: u64) -> io::Result<Box<Block>> {
        if block == 0 {
            return Ok(Box::new(*self.superblock));
        }
        self.source.read(block)
    }
}

fn verify(source: &dyn Source, superblock: &Block, progress: Progress) -> Result<()> {
    let mut first = None;
    let mut tell = |_, text: &str| {
        first.get_or_insert_with(|| text.to_owned());
    };
    let mut findings = Findings::new(&mut tell);
    let source = WithSuperblock { source, superblock };
    check(&source, Options::default(), progress, &mut findings);
    let wrong = findings.errors + findings.minor;
    match first {
        Some(text) if wrong > 1 => damaged(format!("{text}; and {} more", wrong - 1)),
        Some(text) => damaged(text),
        None => Ok(()),
    }
}

/// A group of bases that is being filled.
struct Group {
    key: u64,
    bytes: [u8; BASE_BYTES],
}

struct Builder<'a> {
    allocator: Allocator<'a>,
    whole: Option<(Whole, Geometry)>,
    volumes: Vec<(u32, Volume)>,
    writers: Vec<TreeWriter>,
    group: Option<Group>,
    stripes: Stripes,
    band: Option<(u32, Band)>,
    superblock: Option<Block>,
}

impl<'a> Builder<'a> {
    fn new(target: &'a mut dyn Target) -> Self {
        Self {
            allocator: Allocator::new(target),
            whole: None,
            volumes: Vec::new(),
            writers: Vec::new(),
            group: None,
            stripes: Stripes::default(),
            band: None,
            superblock: None,
        }
    }

    fn add(&mut self, tree: Tree, key: u64, value: &[u8]) -> Result<()> {
        let at = Tree::ALL.iter().position(|other| *other == tree);
        match at.and_then(|at| self.writers.get_mut(at)) {
            Some(writer) => writer.add(&mut self.allocator, key, value),
            None => damaged("the pool is not first"),
        }
    }

    fn geometry(&self) -> Result<&Geometry> {
        match &self.whole {
            Some((_, geometry)) => Ok(geometry),
            None => damaged("the pool is not first"),
        }
    }

    /// The width of the stripe that a place is in.
    fn width(&self, at: u64) -> Result<u32> {
        let geometry = self.geometry()?;
        geometry
            .place_class(at)
            .and_then(|class| geometry.class(class))
            .map(|class| class.width())
            .ok_or_else(|| Error::Damaged("has a place that the pool has not".into()))
    }

    fn see(&mut self, at: u64) -> Result<()> {
        let width = self.width(at)?;
        self.stripes.see(at, width);
        Ok(())
    }

    fn see_patch(&mut self, patch: &[u64; 3], by: Referrer) -> Result<()> {
        let pages = self.geometry()?.pages;
        for at in replicas(patch) {
            let width = self.width(fusion_format::place::patch_slot(at))?;
            if fusion_format::place::patch_page(at) >= pages {
                return damaged("has a page that the pool's blocks have not");
            }
            self.stripes.see_patch(at, width, pages, by);
        }
        if let Some((whole, _)) = &mut self.whole {
            whole.counts.patch_pages += 1;
        }
        Ok(())
    }

    fn base(&mut self, mapping: &Mapping) -> Result<()> {
        let number = mapping.block / fusion_format::place::GROUP_BLOCKS;
        let key = block_key(mapping.volume, number);
        if self.group.as_ref().is_none_or(|group| group.key != key) {
            self.flush_group()?;
            self.group = Some(Group {
                key,
                bytes: [0; BASE_BYTES],
            });
        }
        let at =
            usize::try_from(mapping.block % fusion_format::place::GROUP_BLOCKS).unwrap_or(0) * 8;
        if let Some(group) = &mut self.group {
            group.bytes[at..at + 8].copy_from_slice(&mapping.base.to_le_bytes());
        }
        self.see(mapping.base)
    }

    fn flush_group(&mut self) -> Result<()> {
        match self.group.take() {
            Some(group) => self.add(Tree::Base, group.key, &group.bytes),
            None => Ok(()),
        }
    }

    fn flush_band(&mut self) -> Result<()> {
        match self.band.take() {
            Some((number, band)) => self.add(Tree::Bands, number.into(), &band.encode()),
            None => Ok(()),
        }
    }
}

impl Sink for Builder<'_> {
    fn begin(&mut self, whole: &Whole) -> Result<()> {
        let pages = whole.block_pages();
        self.writers = Tree::ALL
            .iter()
            .map(|&tree| TreeWriter::new(tree.name(), value_bytes(tree, pages)))
            .collect();
        let mut whole = whole.clone();
        whole.counts = Counts::default();
        let geometry = Geometry::new(&whole)?;
        self.whole = Some((whole, geometry));
        Ok(())
    }

    fn band(&mut self, band: u32, class: u16) -> Result<()> {
        let assigned = match &mut self.whole {
            Some((_, geometry)) => geometry.assign(band, class),
            None => false,
        };
        if !assigned {
            return damaged("is of a band or a class that there is not, or of one twice");
        }
        Ok(())
    }

    fn volume(&mut self, id: u32, volume: &Volume) -> Result<()> {
        if self.volumes.last().is_some_and(|(last, _)| *last >= id) {
            return damaged("is of a volume that is not the next");
        }
        let mut volume = volume.clone();
        (volume.mapped, volume.tops, volume.patched) = (0, 0, 0);
        self.volumes.push((id, volume));
        Ok(())
    }

    fn block(&mut self, mapping: &Mapping) -> Result<()> {
        let at = self
            .volumes
            .binary_search_by_key(&mapping.volume, |entry| entry.0);
        let Ok(at) = at else {
            return damaged("is of a volume that there is not");
        };
        let volume = &mut self.volumes[at].1;
        volume.mapped += u64::from(mapping.base != 0 || mapping.top.is_some());
        volume.tops += u64::from(mapping.top.is_some());
        volume.patched += u64::from(mapping.patches.is_some());
        let key = block_key(mapping.volume, mapping.block);
        // The trees of tops and patches see to their own order.
        if mapping.base != 0 {
            if let Some(group) = &self.group {
                let first = block_key(
                    u32::try_from(volume_of(group.key)).unwrap_or(0),
                    block_of(group.key) * fusion_format::place::GROUP_BLOCKS,
                );
                let behind = (0..64usize)
                    .rev()
                    .find(|&at| fusion_format::value::base_place(&group.bytes, at) != 0)
                    .map_or(first, |at| first + at as u64);
                if key <= behind {
                    return damaged("is of a block that is not the next");
                }
            }
            self.base(mapping)?;
        }
        if let Some(top) = &mapping.top {
            for at in replicas(&top.place) {
                self.see(at)?;
            }
            self.add(Tree::Tops, key, &top.encode())?;
        }
        if let Some(patches) = &mapping.patches {
            for patch in &patches.patch {
                self.see_patch(patch, Referrer::Block)?;
            }
            let pages = self.geometry()?.pages;
            let value = patches.encode(pages);
            if value.len() != patches_bytes(pages) {
                return damaged("has more patches than a block may have");
            }
            self.add(Tree::Patches, key, &value)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        let key = row_key(row.stripe, row.page);
        let parts = row.encode();
        if decode_row(self.geometry()?, key, &parts.concat()).is_none() {
            return damaged("is of a row that cannot be");
        }
        for patch in row.parity.iter().chain(&row.patch) {
            self.see_patch(patch, Referrer::Row)?;
        }
        for (part, value) in parts.iter().enumerate() {
            self.add(Tree::Rows, key + part as u64, value)?;
        }
        Ok(())
    }

    fn stripe(&mut self, id: u64, stripe: &Stripe) -> Result<()> {
        let geometry = self.geometry()?;
        let index = geometry.class_of(id);
        let Some(index) = index else {
            return damaged("is of a stripe that the pool has not");
        };
        let Some(class) = geometry.class(index) else {
            return damaged("is of a stripe that the pool has not");
        };
        let references = self.stripes.references(id);
        let mut stripe = *stripe;
        stripe.patch_pages = match u16::try_from(references) {
            Ok(pages) => pages,
            Err(_) => return damaged("is of a stripe with too many patches"),
        };
        // Of a set for patches all stay live until there are none.
        stripe.live = if references > 0 {
            stripe.written
        } else {
            self.stripes.seen(id)
        };
        if stripe.live == 0 {
            return damaged(format!(
                "is of stripe {}, which nothing refers to",
                show_stripe(id)
            ));
        }
        if stripe.state == StripeState::Raid && references > 0 {
            return damaged("is of a stripe that has parity, and patches");
        }
        let number = u32::try_from(fusion_format::place::band_of(id)).unwrap_or(u32::MAX);
        if self.band.as_ref().is_none_or(|(band, _)| *band != number) {
            let layout_generation = geometry.generation(number).unwrap_or(0);
            self.flush_band()?;
            self.band = Some((
                number,
                Band {
                    class: index,
                    layout_generation,
                    used: 0,
                },
            ));
        }
        if let Some((_, band)) = &mut self.band {
            band.used += 1;
        }
        if let Some((whole, _)) = &mut self.whole {
            add_counts(&mut whole.counts, &stripe, class);
        }
        self.add(Tree::Stripes, id, &stripe.encode())
    }

    fn end(&mut self) -> Result<()> {
        self.flush_group()?;
        self.flush_band()?;
        for (id, volume) in std::mem::take(&mut self.volumes) {
            self.add(Tree::Volumes, id.into(), &volume.encode())?;
        }
        let Some((mut whole, _)) = self.whole.take() else {
            return damaged("the pool is not first");
        };
        for (at, writer) in std::mem::take(&mut self.writers).into_iter().enumerate() {
            // Made with the first entry, and told of then: see fusion_md_put_patches().
            let late = match Tree::ALL[at] {
                Tree::Patches => fusion_format::whole::PATCHES,
                Tree::Rows => fusion_format::whole::ROWS,
                _ => 0,
            };
            if writer.is_empty() && late != 0 {
                whole.roots[at] = 0;
                continue;
            }
            whole.incompat |= late;
            whole.roots[at] = writer.finish(&mut self.allocator)?;
        }
        let blocks = self.allocator.target_blocks();
        whole.metadata_blocks = blocks.min(MAX_METADATA_BLOCKS);
        whole.space_map = space_map_writer::write(&mut self.allocator, blocks)?;
        let mut superblock = [0; BLOCK_BYTES];
        superblock.copy_from_slice(&whole.encode());
        self.superblock = Some(superblock);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{dumped, found, growing, image, made_up};

    use super::*;

    #[test]
    fn round_trip() {
        for count in [0, 1, 200] {
            let dump = made_up(count);
            let memory = image(&dump);
            assert_eq!(found(&memory), (0, 0, Vec::new()), "{count}");
            // The features are those of what there is.
            let head = |text: &str| text.replace("incompat=23", "incompat=20");
            assert_eq!(head(&dumped(&memory)), dump);
        }
    }

    #[test]
    fn round_trip_of_a_pool_that_grows() {
        for count in [1, 200] {
            let dump = growing(count);
            let memory = image(&dump);
            assert_eq!(found(&memory), (0, 0, Vec::new()), "{count}");
            let head = |text: &str| text.replace("incompat=63", "incompat=60");
            assert_eq!(head(&dumped(&memory)), dump);
        }
    }

    /// Which do not say of what layouts its bands are.
    #[test]
    fn dumps_of_earlier_versions() {
        let dump = made_up(1);
        let fields = " layout_generation=0 old_members=0 old_band_units=0 old_bands=0";
        assert!(dump.contains(fields));
        let memory = image(&dump.replace(fields, ""));
        assert_eq!(memory.0, image(&dump).0);
        refused(
            (" old_members=0 old_band_units=0 old_bands=0", ""),
            "lacks old_members",
        );
        refused(("layout_generation=0", "layout_generation=1"), "old layout");
    }

    /// `change` says what to put in the place of what.
    fn refused(change: (&str, &str), what: &str) {
        let dump = made_up(1);
        assert!(dump.contains(change.0), "{dump}");
        refused_dump(&dump.replacen(change.0, change.1, 1), what);
    }

    fn refused_dump(dump: &str, what: &str) {
        let mut memory = crate::Memory(vec![0; 2048 * BLOCK_BYTES]);
        let error = restore(&mut dump.as_bytes(), &mut memory, Progress::default())
            .expect_err(what)
            .to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert!(memory.0[..BLOCK_BYTES].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn contradictions_are_refused() {
        for (from, to, what) in [
            ("base=-", "base=0:0:0", "used twice"),
            ("run 0 3 0:0:0", "run 0 2 0:0:2", "never written"),
            ("run 0 3 0:0:0", "run 9 3 0:0:0", "not the next"),
            (
                "run 0 3 0:0:0",
                "run 0 0 0:0:0",
                "line 17: is longer than a stripe",
            ),
            ("blocks=65536", "blocks=2", "beyond the volume's end"),
            ("run 0 3 0:0:0\n", "", "which nothing refers to"),
            ("band 1 class=1\n", "", "that the pool has not"),
            (
                "volume 1 name=v1",
                "volume 1 name=v0",
                "two volumes have the name v0",
            ),
            (
                "class 0 data=3",
                "class 0 data=9",
                "damaged table of classes",
            ),
            ("stripe 0:0 raid", "stripe 0:0 primary", "partner"),
            (
                "generation=1 written=7",
                "generation=1 written=3",
                "never written",
            ),
            (
                "generation=1 written=7",
                "generation=9 written=7",
                "younger",
            ),
            ("spared=0", "spared=1", "in spares that are not in use"),
            ("end\n", "", "the dump ends early"),
            ("end\n", "end\nend\n", "behind the end"),
            ("dump 1", "dump 2", "another version"),
            ("left=0", "left=0 more=1", "at its end"),
            ("clean=1", "clean=2", "clean=2"),
            ("bands=4", "bands=0", "geometry of bands"),
            ("class=1 blocks", "class=0 blocks", "class"),
        ] {
            refused((from, to), what);
        }
    }

    #[test]
    fn contradictions_of_two_layouts_are_refused() {
        for (from, to, what) in [
            ("8388611", "8388610", "band 1 of the old layout"),
            ("8388611", "8388612", "a band or a class that there is not"),
            ("band 1 class=1", "band 1 class=2", "a band or a class"),
            ("old_bands=4", "old_bands=3", "old layout"),
            ("old_members=8", "old_members=9", "old layout"),
            ("incompat=60", "incompat=20", "old layout"),
            ("layout_generation=1", "layout_generation=2", "a band or"),
        ] {
            let dump = growing(1);
            assert!(dump.contains(from), "{dump}");
            refused_dump(&dump.replace(from, to), what);
        }
    }

    #[test]
    fn no_room() {
        let mut memory = crate::Memory(vec![0; 12 * BLOCK_BYTES]);
        let dump = made_up(10);
        let result = restore(&mut dump.as_bytes(), &mut memory, Progress::default());
        assert!(matches!(result, Err(Error::NoRoom(12))), "{result:?}");
    }
}
