// SPDX-License-Identifier: GPL-2.0-only
//! The pool's trees, entry by entry.

use fusion_format::value::{BASE_BYTES, Band, Row, Stripe, Top, Volume, patches_bytes};
use fusion_format::whole::Tree;

use crate::blocks::Source;
use crate::node::Node;
use crate::walk::{Damage, Reached, Step, Walk};

/// Of a pool with blocks of `pages` pages.
pub fn value_bytes(tree: Tree, pages: u32) -> usize {
    match tree {
        Tree::Volumes => Volume::BYTES,
        Tree::Bands => Band::BYTES,
        Tree::Stripes => Stripe::BYTES,
        Tree::Base => BASE_BYTES,
        Tree::Tops => Top::BYTES,
        Tree::Patches => patches_bytes(pages),
        Tree::Rows => Row::BYTES,
    }
}

/// Who is told what is wrong in a tree.
pub trait Observer {
    fn damage(&mut self, tree: Tree, damage: &Damage);
    /// The entry is passed over.
    fn malformed(&mut self, tree: Tree, key: u64, what: &str);
    fn sparse(&mut self, tree: Tree, block: u64);
}

/// What entries are read from.
pub struct Input<'a> {
    pub source: &'a dyn Source,
    pub reached: &'a mut Reached,
    pub observer: &'a mut dyn Observer,
}

/// Leaves that were found one by one.
struct Leaves {
    blocks: Vec<u64>,
    next: usize,
    node: Option<(Node, usize)>,
    last: Option<u64>,
    value_bytes: usize,
}

enum Feed {
    Walk(Walk),
    Leaves(Leaves),
}

pub struct Entries {
    pub tree: Tree,
    feed: Feed,
}

impl Entries {
    pub fn new(tree: Tree, root: u64, pages: u32) -> Self {
        Self {
            tree,
            feed: Feed::Walk(Walk::new(root, value_bytes(tree, pages))),
        }
    }

    /// Of these leaves, by their first keys. What overlaps is passed over.
    pub fn of_leaves(tree: Tree, blocks: Vec<u64>, pages: u32) -> Self {
        Self {
            tree,
            feed: Feed::Leaves(Leaves {
                blocks,
                next: 0,
                node: None,
                last: None,
                value_bytes: value_bytes(tree, pages),
            }),
        }
    }

    /// The key of the next entry, whose value is `value()`.
    pub fn next(&mut self, input: &mut Input) -> Option<u64> {
        let walk = match &mut self.feed {
            Feed::Leaves(leaves) => return leaves.next(input),
            Feed::Walk(walk) => walk,
        };
        loop {
            match walk.step(input.source, input.reached) {
                Step::Entry => return Some(walk.key()),
                Step::Damage(damage) => input.observer.damage(self.tree, &damage),
                Step::Sparse(block) => input.observer.sparse(self.tree, block),
                Step::End => return None,
            }
        }
    }

    /// # Panics
    /// Before the first entry or behind the last.
    pub fn value(&self) -> &[u8] {
        match &self.feed {
            Feed::Walk(walk) => walk.value(),
            Feed::Leaves(leaves) => {
                let (node, at) = leaves.node.as_ref().expect("at an entry");
                node.value(*at)
            }
        }
    }

    /// The leaf that the entry is in.
    pub fn leaf(&self) -> u64 {
        match &self.feed {
            Feed::Walk(walk) => walk.leaf,
            Feed::Leaves(leaves) => leaves
                .blocks
                .get(leaves.next.wrapping_sub(1))
                .copied()
                .unwrap_or(0),
        }
    }
}

impl Leaves {
    fn next(&mut self, input: &mut Input) -> Option<u64> {
        loop {
            if let Some((node, at)) = &mut self.node {
                *at += 1;
                if *at < node.entries() {
                    let key = node.key(*at);
                    if self.last.is_some_and(|last| last >= key) {
                        continue;
                    }
                    self.last = Some(key);
                    return Some(key);
                }
            }
            let block = *self.blocks.get(self.next)?;
            self.next += 1;
            let node = input
                .source
                .read(block)
                .ok()
                .and_then(|bytes| Node::new(bytes, block, self.value_bytes).ok())
                .filter(|node| node.is_leaf() && node.entries() > 0);
            // Before the first.
            self.node = node.map(|node| (node, usize::MAX));
            if let Some((_, at)) = &mut self.node {
                *at = at.wrapping_add(1);
                let (node, at) = self.node.as_ref()?;
                let key = node.key(*at);
                if self.last.is_none_or(|last| last < key) {
                    self.last = Some(key);
                    return Some(key);
                }
            }
        }
    }
}
