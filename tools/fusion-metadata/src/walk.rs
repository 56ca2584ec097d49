// SPDX-License-Identifier: GPL-2.0-only
//! A btree from its first entry to its last.
//!
//! Memory is that of one path. Every block is visited once at most, in whichever tree: so garbage
//! cannot make a walk longer than what there is to read.

use std::io;
use std::sync::atomic::Ordering;

use thiserror::Error;

use crate::Progress;
use crate::bits::Bits;
use crate::blocks::Source;
use crate::node::{Node, NodeError};

/// Deeper than any tree that fits.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Error)]
pub enum DamageError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Node(#[from] NodeError),
    #[error("is referred to twice")]
    Twice,
    #[error("does not exist")]
    Beyond,
    #[error("has keys that its parent says are elsewhere")]
    Keys,
    #[error("is not as deep as the tree's other leaves, or too deep")]
    Depth,
}

/// A node that could not be walked: what is lost are keys from `first` to before `end`.
#[derive(Debug)]
pub struct Damage {
    pub block: u64,
    pub error: DamageError,
    pub first: u64,
    /// None: to the last there can be.
    pub end: Option<u64>,
}

/// Blocks that are reached, by all walks together.
pub struct Reached {
    bits: Bits,
    blocks: u64,
    progress: Progress,
}

impl Reached {
    /// Of `blocks` there are.
    pub fn new(blocks: u64, progress: Progress) -> Self {
        Self {
            bits: Bits::new(usize::try_from(blocks).unwrap_or(0)),
            blocks,
            progress,
        }
    }

    /// Block `block` is reached: an error if it was before, or cannot be.
    pub fn add(&mut self, block: u64) -> Result<(), DamageError> {
        // Block 0 is the superblock.
        if block == 0 || block >= self.blocks {
            return Err(DamageError::Beyond);
        }
        let at = usize::try_from(block).map_err(|_| DamageError::Beyond)?;
        if self.bits.set(at) {
            return Err(DamageError::Twice);
        }
        self.progress.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub fn has(&self, block: u64) -> bool {
        usize::try_from(block).is_ok_and(|at| block < self.blocks && self.bits.get(at))
    }
}

/// What comes next.
pub enum Step {
    /// The entry that `key()` and `value()` are of.
    Entry,
    Damage(Damage),
    /// A node has fewer entries than the kernel would leave in it; its block.
    Sparse(u64),
    End,
}

struct Level {
    node: Node,
    /// The entry to be looked at next.
    next: usize,
    end: Option<u64>,
}

pub struct Walk {
    value_bytes: usize,
    /// Not visited yet, and the keys it may have.
    pending: Option<(u64, u64, Option<u64>)>,
    path: Vec<Level>,
    leaf_depth: Option<usize>,
    /// The kernel's nodes are never that sparse; those of its space map may be.
    pub sparse_matters: bool,
    /// The leaf that the entry is in.
    pub leaf: u64,
}

impl Walk {
    /// A `root` of 0 is an empty tree.
    pub fn new(root: u64, value_bytes: usize) -> Self {
        Self {
            value_bytes,
            pending: (root != 0).then_some((root, 0, None)),
            path: Vec::new(),
            leaf_depth: None,
            sparse_matters: true,
            leaf: 0,
        }
    }

    fn enter(
        &mut self,
        source: &dyn Source,
        reached: &mut Reached,
        (block, first, end): (u64, u64, Option<u64>),
    ) -> Result<Option<u64>, DamageError> {
        reached.add(block)?;
        let node = Node::new(source.read(block)?, block, self.value_bytes)?;
        let depth = self.path.len();
        if depth >= MAX_DEPTH {
            return Err(DamageError::Depth);
        }
        if node.is_leaf() {
            if *self.leaf_depth.get_or_insert(depth) != depth {
                return Err(DamageError::Depth);
            }
            self.leaf = block;
        }
        if let Some(last) = node.entries().checked_sub(1) {
            if node.key(0) < first || end.is_some_and(|end| node.key(last) >= end) {
                return Err(DamageError::Keys);
            }
        }
        let sparse = node.is_sparse() && !self.path.is_empty() && self.sparse_matters;
        self.path.push(Level { node, next: 0, end });
        Ok(sparse.then_some(block))
    }

    pub fn step(&mut self, source: &dyn Source, reached: &mut Reached) -> Step {
        loop {
            if let Some(child) = self.pending.take() {
                let (block, first, end) = child;
                match self.enter(source, reached, child) {
                    Ok(Some(block)) => return Step::Sparse(block),
                    Ok(None) => {}
                    Err(error) => {
                        return Step::Damage(Damage {
                            block,
                            error,
                            first,
                            end,
                        });
                    }
                }
            }
            let Some(level) = self.path.last_mut() else {
                return Step::End;
            };
            if level.next == level.node.entries() {
                self.path.pop();
                continue;
            }
            level.next += 1;
            if level.node.is_leaf() {
                return Step::Entry;
            }
            let at = level.next - 1;
            let end = if level.next < level.node.entries() {
                Some(level.node.key(level.next))
            } else {
                level.end
            };
            self.pending = Some((level.node.child(at), level.node.key(at), end));
        }
    }

    /// # Panics
    /// If the last step was none to an entry, here and below.
    fn here(&self) -> (&Node, usize) {
        let level = self.path.last().expect("at an entry");
        (&level.node, level.next - 1)
    }

    pub fn key(&self) -> u64 {
        let (node, at) = self.here();
        node.key(at)
    }

    pub fn value(&self) -> &[u8] {
        let (node, at) = self.here();
        node.value(at)
    }
}
