// SPDX-License-Identifier: GPL-2.0-only
//! Where new metadata is written: one block behind the other.

use crate::blocks::{Block, Target};
use crate::space_map::MAX_BLOCKS;
use crate::{Error, Result};

/// Blocks from the first behind the superblock on.
pub struct Allocator<'a> {
    target: &'a mut dyn Target,
    blocks: u64,
    next: u64,
}

impl<'a> Allocator<'a> {
    pub fn new(target: &'a mut dyn Target) -> Self {
        let blocks = target.blocks().min(MAX_BLOCKS);
        Self {
            target,
            blocks,
            next: 1,
        }
    }

    /// That the target has: a space map may not have as many.
    pub fn target_blocks(&self) -> u64 {
        self.target.blocks()
    }

    pub fn take(&mut self) -> Result<u64> {
        if self.next >= self.blocks {
            return Err(Error::NoRoom(self.blocks));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// With the superblock.
    pub fn taken(&self) -> u64 {
        self.next
    }

    pub fn write(&mut self, block: u64, bytes: &Block) -> Result<()> {
        Ok(self.target.write(block, bytes)?)
    }
}
