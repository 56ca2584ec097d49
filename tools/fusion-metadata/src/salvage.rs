// SPDX-License-Identifier: GPL-2.0-only
//! The leaves of damaged trees.
//!
//! Leaves that are below a damaged inner node are not lost: they are blocks that the space map
//! has as used, and that no good node refers to. What an earlier transaction has left has no count
//! there.

use fusion_format::place::{MAX_BLOCKS, MAX_REPLICAS, block_of, is_place};
use fusion_format::value::{Band, Patches, Row, Stripe, Top, Volume, base_place};
use fusion_format::whole::{Tree, Whole};

use crate::blocks::Source;
use crate::check::keys;
use crate::events::entries;
use crate::findings::Findings;
use crate::node::Node;
use crate::space_map::SpaceMap;
use crate::trees::{Entries, Input, Observer, value_bytes};
use crate::walk::{Damage, Reached};

/// What is left of a tree.
pub struct Remains {
    tree: Tree,
    /// First key and block of each leaf.
    leaves: Vec<(u64, u64)>,
    damages: Vec<Damage>,
    /// Of its entries.
    malformed: bool,
    pages: u32,
}

impl Remains {
    /// Is anything of it lost, or was?
    pub fn is_damaged(&self) -> bool {
        self.lacks_blocks() || self.malformed
    }

    /// Are blocks of it lost?
    pub fn lacks_blocks(&self) -> bool {
        !self.damages.is_empty()
    }

    pub fn set_malformed(&mut self) {
        self.malformed = true;
    }

    pub fn entries(&self) -> Entries {
        let blocks = self.leaves.iter().map(|leaf| leaf.1).collect();
        Entries::of_leaves(self.tree, blocks, self.pages)
    }
}

#[derive(Default)]
struct Collect(Vec<Damage>);

impl Observer for Collect {
    fn damage(&mut self, _tree: Tree, damage: &Damage) {
        self.0.push(Damage {
            block: damage.block,
            error: crate::walk::DamageError::Beyond,
            first: damage.first,
            end: damage.end,
        });
    }

    fn malformed(&mut self, _tree: Tree, _key: u64, _what: &str) {}
    fn sparse(&mut self, _tree: Tree, _block: u64) {}
}

/// Finds what there is of all trees, as `Tree::ALL`, and tells what is damaged.
pub fn salvage(
    source: &dyn Source,
    whole: &Whole,
    reached: &mut Reached,
    tell: &mut dyn FnMut(&str),
) -> Vec<Remains> {
    let mut remains: Vec<Remains> = Tree::ALL
        .iter()
        .map(|&tree| walk(source, whole, tree, reached))
        .collect();
    let damaged = remains.iter().any(Remains::is_damaged);
    let mut wrong = 0;
    let mut count = |_, _: &str| wrong += 1;
    let mut findings = Findings::new(&mut count);
    let map = SpaceMap::read(source, whole.space_map, reached, &mut findings);
    if findings.errors > 0 {
        tell("the space map is damaged: it is made anew");
    }
    if damaged {
        find(source, whole, &map, reached, &mut remains);
    }
    for tree in &mut remains {
        for damage in &tree.damages {
            tell(&format!(
                "block {} of the tree of {} is damaged: what was below it ({}) is lost, but for \
                 leaves that are found elsewhere",
                damage.block,
                tree.tree.name(),
                keys(tree.tree, damage.first, damage.end)
            ));
        }
        tree.leaves.sort_unstable();
    }
    remains
}

fn walk(source: &dyn Source, whole: &Whole, tree: Tree, reached: &mut Reached) -> Remains {
    let mut collect = Collect::default();
    let mut input = Input {
        source,
        reached,
        observer: &mut collect,
    };
    let mut entries = entries(whole, tree);
    let mut leaves: Vec<(u64, u64)> = Vec::new();
    while let Some(key) = entries.next(&mut input) {
        let leaf = entries.leaf();
        if leaves.last().is_none_or(|last| last.1 != leaf) {
            leaves.push((key, leaf));
        }
    }
    Remains {
        tree,
        leaves,
        damages: collect.0,
        malformed: false,
        pages: whole.block_pages(),
    }
}

/// Looks for leaves of damaged trees among the blocks that are in use, and not reached.
fn find(
    source: &dyn Source,
    whole: &Whole,
    map: &SpaceMap,
    reached: &mut Reached,
    remains: &mut [Remains],
) {
    for block in 1..source.blocks() {
        if reached.has(block) || map.count(block).unwrap_or(0) == 0 {
            continue;
        }
        let Some(node) = source
            .read(block)
            .ok()
            .and_then(|bytes| Node::any(bytes, block).ok())
            .filter(|node| node.is_leaf() && node.entries() > 0)
        else {
            continue;
        };
        let mut fitting = remains.iter_mut().filter(|tree| fits(&node, tree, whole));
        // Of two that it fits nobody knows which.
        if let (Some(tree), None) = (fitting.next(), fitting.next()) {
            tree.leaves.push((node.key(0), block));
            let _ = reached.add(block);
        }
    }
}

/// Could it be a leaf of this tree, of those that are lost?
fn fits(node: &Node, tree: &Remains, whole: &Whole) -> bool {
    let last = node.key(node.entries() - 1);
    node.value_bytes() == value_bytes(tree.tree, tree.pages)
        && tree
            .damages
            .iter()
            .any(|lost| lost.first <= node.key(0) && lost.end.is_none_or(|end| last < end))
        && (0..node.entries()).all(|at| is_value(tree.tree, node.key(at), node.value(at), whole))
}

fn is_value(tree: Tree, key: u64, value: &[u8], whole: &Whole) -> bool {
    let pages = whole.block_pages();
    match tree {
        Tree::Volumes => Volume::decode(value).is_ok(),
        Tree::Bands => {
            Band::decode(value).is_ok_and(|band| whole.has_generation(band.layout_generation))
        }
        Tree::Stripes => Stripe::decode(value).is_ok(),
        Tree::Base => {
            block_of(key) < MAX_BLOCKS / 64
                && (0..64).all(|at| {
                    let place = base_place(value, at);
                    place == 0 || is_place(place)
                })
        }
        Tree::Tops => Top::decode(value, pages).is_ok_and(|top| top.place.len() == MAX_REPLICAS),
        Tree::Patches => Patches::decode(value, pages).is_ok(),
        Tree::Rows => !Row::is_first(key) || Row::parts(value) > 0,
    }
}
