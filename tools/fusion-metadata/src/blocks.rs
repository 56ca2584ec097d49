// SPDX-License-Identifier: GPL-2.0-only
//! Blocks of metadata, on a device, in a file or in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fusion_format::superblock::SUPERBLOCK_BYTES;

pub const BLOCK_BYTES: usize = SUPERBLOCK_BYTES;
pub type Block = [u8; BLOCK_BYTES];

/// What metadata is read from.
pub trait Source {
    /// Whole blocks.
    fn blocks(&self) -> u64;
    /// # Errors
    /// It cannot be read, or there is no such block.
    fn read(&self, block: u64) -> io::Result<Box<Block>>;
}

/// What it is written to.
pub trait Target {
    fn blocks(&self) -> u64;
    /// # Errors
    /// It cannot be written, or there is no such block.
    fn write(&mut self, block: u64, bytes: &Block) -> io::Result<()>;
    /// Makes durable what has been written.
    ///
    /// # Errors
    /// Something could not be written.
    fn sync(&mut self) -> io::Result<()>;
}

/// A device or a file of `blocks` blocks.
pub struct FileBlocks {
    pub file: File,
    pub blocks: u64,
}

fn offset(block: u64, blocks: u64) -> io::Result<u64> {
    if block < blocks {
        return Ok(block * BLOCK_BYTES as u64);
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "beyond the end",
    ))
}

impl Source for FileBlocks {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&self, block: u64) -> io::Result<Box<Block>> {
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        self.file
            .read_exact_at(&mut bytes[..], offset(block, self.blocks)?)?;
        Ok(bytes)
    }
}

impl Target for FileBlocks {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn write(&mut self, block: u64, bytes: &Block) -> io::Result<()> {
        self.file.write_all_at(bytes, offset(block, self.blocks)?)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// An image in memory; what is behind its last whole block does not count.
pub struct Memory(pub Vec<u8>);

impl Source for Memory {
    fn blocks(&self) -> u64 {
        (self.0.len() / BLOCK_BYTES) as u64
    }

    fn read(&self, block: u64) -> io::Result<Box<Block>> {
        let start = usize::try_from(offset(block, Source::blocks(self))?)
            .map_err(|_| io::Error::other("too far"))?;
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        bytes.copy_from_slice(&self.0[start..start + BLOCK_BYTES]);
        Ok(bytes)
    }
}

impl Target for Memory {
    fn blocks(&self) -> u64 {
        Source::blocks(self)
    }

    fn write(&mut self, block: u64, bytes: &Block) -> io::Result<()> {
        let start = usize::try_from(offset(block, Source::blocks(self))?)
            .map_err(|_| io::Error::other("too far"))?;
        self.0[start..start + BLOCK_BYTES].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// ---- what all blocks but the superblock begin with ----

/// A block's checksum is at its start, its own number behind another word.
const NUMBER_AT: usize = 8;

/// The kinds of blocks, by what their checksums are exclusive-or'd with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Node,
    Index,
    Bitmap,
}

impl Kind {
    fn xor(self) -> u32 {
        match self {
            Self::Node => 121_107,
            Self::Index => 160_478,
            Self::Bitmap => 240_779,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Index => "index of the space map",
            Self::Bitmap => "bitmap of the space map",
        }
    }
}

fn checksum(bytes: &Block, kind: Kind) -> u32 {
    !crc32c::crc32c(&bytes[size_of::<u32>()..]) ^ kind.xor()
}

/// Is it a block of this kind, and at home in `block`?
pub fn is_whole(bytes: &Block, kind: Kind, block: u64) -> bool {
    le32(bytes, 0) == checksum(bytes, kind) && le64(bytes, NUMBER_AT) == block
}

/// Puts number and checksum into a block that is going to be written.
pub fn seal(bytes: &mut Block, kind: Kind, block: u64) {
    put(bytes, NUMBER_AT, &block.to_le_bytes());
    let csum = checksum(bytes, kind);
    put(bytes, 0, &csum.to_le_bytes());
}

pub fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within a block"))
}

pub fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within a block"))
}

pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
