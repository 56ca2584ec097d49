// SPDX-License-Identifier: GPL-2.0-only
//! All of a pool's metadata in the order in which a dump has it, from whom it is read to whom
//! it is written. What follows from the rest is not in it: how much of a stripe is live, and all
//! counts.

use fusion_format::place;
use fusion_format::value::{Row, Stripe, Volume};
use fusion_format::whole::{Tree, Whole};

use crate::Result;
use crate::blocks::Source;
use crate::map::{Map, Mapping};
use crate::trees::{Entries, Input};

pub trait Sink {
    fn begin(&mut self, whole: &Whole) -> Result<()>;
    /// In order; only those that are not free.
    fn band(&mut self, band: u32, class: u16) -> Result<()>;
    /// In order; all before the first block.
    fn volume(&mut self, id: u32, volume: &Volume) -> Result<()>;
    /// In order, volume by volume.
    fn block(&mut self, mapping: &Mapping) -> Result<()>;
    fn row(&mut self, row: &Row) -> Result<()>;
    /// In order.
    fn stripe(&mut self, id: u64, stripe: &Stripe) -> Result<()>;
    fn end(&mut self) -> Result<()>;
}

/// Rows from their parts.
pub struct Rows {
    entries: Entries,
    /// Has the first part of a row been read already?
    first: Option<(u64, Vec<u8>)>,
}

impl Rows {
    pub fn new(entries: Entries) -> Self {
        Self {
            entries,
            first: None,
        }
    }

    /// The next row's key and all its parts; whether they are a row is not known yet.
    pub fn next(&mut self, input: &mut Input) -> Option<(u64, Vec<u8>)> {
        loop {
            let (key, mut bytes) = match self.first.take() {
                Some(first) => first,
                None => (self.entries.next(input)?, self.entries.value().to_vec()),
            };
            if !Row::is_first(key) {
                input
                    .observer
                    .malformed(Tree::Rows, key, "a part without the first one");
                continue;
            }
            let mut end = key + 1;
            while let Some(next) = self.entries.next(input) {
                if next != end || Row::is_first(next) {
                    self.first = Some((next, self.entries.value().to_vec()));
                    break;
                }
                bytes.extend(self.entries.value());
                end += 1;
            }
            return Some((key, bytes));
        }
    }
}

/// Where a row is, for a message.
pub fn row_name(key: u64) -> String {
    let row = key >> 3;
    format!(
        "row {} of stripe {}",
        row & 63,
        place::show_stripe(row >> 6)
    )
}

/// The map that a superblock has the roots of.
pub fn map_of(whole: &Whole) -> Map {
    let pages = whole.block_pages();
    Map::new(
        entries(whole, Tree::Base),
        entries(whole, Tree::Tops),
        entries(whole, Tree::Patches),
        pages,
    )
}

pub fn entries(whole: &Whole, tree: Tree) -> Entries {
    let at = Tree::ALL.iter().position(|other| *other == tree);
    let root = at.map_or(0, |at| whole.roots[at]);
    Entries::new(tree, root, whole.block_pages())
}

/// The superblock of `source`.
pub fn superblock(source: &dyn Source) -> Result<Whole> {
    if source.blocks() == 0 {
        return crate::damaged("it is shorter than a block");
    }
    let block = source.read(0)?;
    if block.iter().all(|&byte| byte == 0) {
        return crate::damaged("it is empty: there is no superblock");
    }
    Whole::decode(&block[..])
        .map_err(|error| crate::Error::Damaged(format!("its superblock is {}", error.0)))
}
