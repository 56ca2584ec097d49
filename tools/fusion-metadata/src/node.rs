// SPDX-License-Identifier: GPL-2.0-only
//! Nodes of dm-persistent-data's btrees.
//!
//! A header of 32 bytes, `max_entries` keys, as many values: those of an inner node are the
//! blocks of its children.

use thiserror::Error;

use crate::blocks::{BLOCK_BYTES, Block, Kind, is_whole, le32, le64, put, seal};

const HEADER_BYTES: usize = 32;
const KEY_BYTES: usize = size_of::<u64>();
const INTERNAL: u32 = 1;
const LEAF: u32 = 2;

const FLAGS_AT: usize = 4;
const ENTRIES_AT: usize = 16;
const MAX_ENTRIES_AT: usize = 20;
const VALUE_BYTES_AT: usize = 24;

/// Of an inner node.
pub const CHILD_BYTES: usize = size_of::<u64>();

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NodeError {
    #[error("is no node of a btree, or damaged")]
    Damaged,
    #[error("is a node whose header makes no sense")]
    Header,
    #[error("is a node of another tree")]
    ValueBytes,
    #[error("is a node whose keys are not in order")]
    Order,
}

/// Entries that the kernel puts into a node at most: a multiple of three.
pub fn max_entries(value_bytes: usize) -> usize {
    (BLOCK_BYTES - HEADER_BYTES) / (KEY_BYTES + value_bytes) / 3 * 3
}

/// A block that has been found to be a good node.
pub struct Node {
    bytes: Box<Block>,
    leaf: bool,
    entries: usize,
    max_entries: usize,
    value_bytes: usize,
}

impl Node {
    /// What was read from `block`; `value_bytes` is that of the tree's leaves.
    pub fn new(bytes: Box<Block>, block: u64, value_bytes: usize) -> Result<Self, NodeError> {
        let node = Self::any(bytes, block)?;
        if node.leaf && node.value_bytes != value_bytes {
            return Err(NodeError::ValueBytes);
        }
        Ok(node)
    }

    /// A node of whichever tree.
    pub fn any(bytes: Box<Block>, block: u64) -> Result<Self, NodeError> {
        if !is_whole(&bytes, Kind::Node, block) {
            return Err(NodeError::Damaged);
        }
        let size = |at| usize::try_from(le32(&bytes[..], at)).map_err(|_| NodeError::Header);
        let leaf = match le32(&bytes[..], FLAGS_AT) {
            INTERNAL => false,
            LEAF => true,
            _ => return Err(NodeError::Header),
        };
        let node = Self {
            leaf,
            entries: size(ENTRIES_AT)?,
            max_entries: size(MAX_ENTRIES_AT)?,
            value_bytes: size(VALUE_BYTES_AT)?,
            bytes,
        };
        if node.value_bytes == 0
            || node.value_bytes > BLOCK_BYTES
            || node.max_entries != max_entries(node.value_bytes)
            || node.entries > node.max_entries
            || (!leaf && (node.value_bytes != CHILD_BYTES || node.entries == 0))
        {
            return Err(NodeError::Header);
        }
        if (1..node.entries).any(|at| node.key(at - 1) >= node.key(at)) {
            return Err(NodeError::Order);
        }
        Ok(node)
    }

    pub fn is_leaf(&self) -> bool {
        self.leaf
    }

    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Fewer than the kernel leaves in any node but a root?
    pub fn is_sparse(&self) -> bool {
        self.entries < self.max_entries / 3
    }

    pub fn key(&self, at: usize) -> u64 {
        le64(&self.bytes[..], HEADER_BYTES + at * KEY_BYTES)
    }

    pub fn value(&self, at: usize) -> &[u8] {
        let start = HEADER_BYTES + self.max_entries * KEY_BYTES + at * self.value_bytes;
        &self.bytes[start..start + self.value_bytes]
    }

    /// Of an inner node.
    pub fn child(&self, at: usize) -> u64 {
        le64(self.value(at), 0)
    }
}

/// The node of these entries, for `block`; `values` are one behind the other.
pub fn encode(
    leaf: bool,
    value_bytes: usize,
    keys: &[u64],
    values: &[u8],
    block: u64,
) -> Box<Block> {
    let most = max_entries(value_bytes);
    assert!(keys.len() <= most && values.len() == keys.len() * value_bytes);
    let mut bytes = Box::new([0; BLOCK_BYTES]);
    let mut field = |at: usize, value: usize| {
        let value = u32::try_from(value).expect("of a block");
        put(&mut bytes[..], at, &value.to_le_bytes());
    };
    field(FLAGS_AT, if leaf { LEAF } else { INTERNAL } as usize);
    field(ENTRIES_AT, keys.len());
    field(MAX_ENTRIES_AT, most);
    field(VALUE_BYTES_AT, value_bytes);
    for (at, key) in keys.iter().enumerate() {
        put(
            &mut bytes[..],
            HEADER_BYTES + at * KEY_BYTES,
            &key.to_le_bytes(),
        );
    }
    put(&mut bytes[..], HEADER_BYTES + most * KEY_BYTES, values);
    seal(&mut bytes, Kind::Node, block);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let values: Vec<u8> = (0..80).collect();
        let bytes = encode(true, 40, &[3, 9], &values, 7);
        let node = Node::new(bytes.clone(), 7, 40).unwrap_or_else(|error| panic!("{error}"));
        assert!(node.is_leaf() && node.entries() == 2);
        assert_eq!((node.key(0), node.key(1)), (3, 9));
        assert_eq!(node.value(1), &values[40..]);
        assert_eq!(
            Node::new(bytes.clone(), 8, 40).err(),
            Some(NodeError::Damaged)
        );
        assert_eq!(Node::new(bytes, 7, 8).err(), Some(NodeError::ValueBytes));
        let bytes = encode(true, 40, &[9, 9], &values, 7);
        assert_eq!(Node::new(bytes, 7, 40).err(), Some(NodeError::Order));
    }

    #[test]
    fn as_many_entries_as_the_kernel() {
        assert_eq!(max_entries(8), 252);
        assert_eq!(max_entries(40), 84);
        assert_eq!(max_entries(512), 6);
    }
}
