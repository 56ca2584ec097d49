// SPDX-License-Identifier: GPL-2.0-only
//! A pool's metadata without the kernel: is it right (`check`), as text (`dump`, `parse`), made
//! anew (`restore`), and what is left of it (`repair`).
//!
//! Whatever is read may be garbage: nothing here panics, or takes more time or memory than in
//! proportion to what there is to read.

mod allocator;
mod bits;
pub mod blocks;
pub mod check;
#[cfg(test)]
mod damage_tests;
pub mod dump;
mod events;
mod findings;
mod geometry;
mod map;
mod node;
pub mod parse;
pub mod repair;
pub mod restore;
mod salvage;
mod space_map;
mod space_map_writer;
mod stripes;
#[cfg(test)]
mod testing;
mod tree_writer;
mod trees;
mod walk;

use std::io;

use thiserror::Error;

pub use blocks::{FileBlocks, Memory, Source, Target};
pub use findings::{Findings, Severity};

/// Why something could not be done at all.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Of the metadata that is read.
    #[error("{0}")]
    Damaged(String),
    /// Line of a dump.
    #[error("line {0}: {1}")]
    Line(u64, String),
    #[error("there is no room for it: it needs more than {0} blocks of 4 KiB")]
    NoRoom(u64),
}

pub type Result<T> = std::result::Result<T, Error>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Damaged(what.into()))
}

/// Blocks that have been looked at, for who shows how far it is.
pub type Progress = std::sync::Arc<std::sync::atomic::AtomicU64>;

/// Blocks in use, as the superblock has them; None: it cannot be read.
pub fn used_blocks(source: &dyn Source) -> Option<u64> {
    Some(events::superblock(source).ok()?.space_map.allocated)
}
