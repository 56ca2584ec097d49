// SPDX-License-Identifier: GPL-2.0-only
//! Btrees from entries that come in order.
//!
//! Nodes are full, but for the last two of each level: no node but a root has less than a third.

use crate::allocator::Allocator;
use crate::node::{self, CHILD_BYTES, max_entries};
use crate::{Error, Result};

#[derive(Default)]
struct Level {
    keys: Vec<u64>,
    values: Vec<u8>,
    nodes: u64,
}

pub struct TreeWriter {
    name: &'static str,
    value_bytes: usize,
    levels: Vec<Level>,
    last: Option<u64>,
}

impl TreeWriter {
    pub fn new(name: &'static str, value_bytes: usize) -> Self {
        Self {
            name,
            value_bytes,
            levels: vec![Level::default()],
            last: None,
        }
    }

    /// Has anything been added?
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// # Errors
    /// It does not follow the one before; no room, or it cannot be written.
    pub fn add(&mut self, allocator: &mut Allocator, key: u64, value: &[u8]) -> Result<()> {
        if self.last.is_some_and(|last| last >= key) {
            return Err(Error::Damaged(format!(
                "entries of the tree of {} are not in order",
                self.name
            )));
        }
        self.last = Some(key);
        self.push(allocator, 0, key, value)
    }

    fn push(
        &mut self,
        allocator: &mut Allocator,
        level: usize,
        key: u64,
        value: &[u8],
    ) -> Result<()> {
        let most = max_entries(if level == 0 {
            self.value_bytes
        } else {
            CHILD_BYTES
        });
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let pending = &mut self.levels[level];
        pending.keys.push(key);
        pending.values.extend(value);
        if pending.keys.len() == 2 * most {
            self.flush(allocator, level, most)?;
        }
        Ok(())
    }

    /// Writes a node of the first `count` entries of a level.
    fn flush(&mut self, allocator: &mut Allocator, level: usize, count: usize) -> Result<()> {
        let value_bytes = if level == 0 {
            self.value_bytes
        } else {
            CHILD_BYTES
        };
        let pending = &mut self.levels[level];
        let keys: Vec<u64> = pending.keys.drain(..count).collect();
        let values: Vec<u8> = pending.values.drain(..count * value_bytes).collect();
        pending.nodes += 1;
        let block = allocator.take()?;
        allocator.write(
            block,
            &node::encode(level == 0, value_bytes, &keys, &values, block),
        )?;
        let first = keys.first().copied().unwrap_or(0);
        self.push(allocator, level + 1, first, &block.to_le_bytes())
    }

    /// The root.
    ///
    /// # Errors
    /// As above.
    pub fn finish(mut self, allocator: &mut Allocator) -> Result<u64> {
        let mut level = 0;
        loop {
            let pending = &self.levels[level];
            let left = pending.keys.len();
            // Of the one below all are in one node: it is the root.
            if level > 0 && pending.nodes == 0 && left == 1 {
                return Ok(crate::blocks::le64(&pending.values, 0));
            }
            let most = max_entries(if level == 0 {
                self.value_bytes
            } else {
                CHILD_BYTES
            });
            if left > most {
                self.flush(allocator, level, left / 2)?;
            }
            let left = self.levels[level].keys.len();
            self.flush(allocator, level, left)?;
            level += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::blocks::BLOCK_BYTES;
    use crate::walk::{Reached, Step, Walk};
    use crate::{Memory, Progress};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        // Up to three levels, and around the sizes at which nodes become full.
        for count in [0, 1, 5, 6, 7, 11, 12, 13, 18, 1511, 1512, 1513, 5000] {
            let mut memory = Memory(vec![0; 1000 * BLOCK_BYTES]);
            let mut allocator = Allocator::new(&mut memory);
            let mut writer = TreeWriter::new("things", 512);
            for key in 0..count {
                let value = [(key % 251) as u8; 512];
                writer.add(&mut allocator, key * 3, &value).unwrap();
            }
            let root = writer.finish(&mut allocator).unwrap();
            let taken = allocator.taken();
            let mut reached = Reached::new(1000, Progress::default());
            let mut walk = Walk::new(root, 512);
            for key in 0..count {
                assert!(
                    matches!(walk.step(&memory, &mut reached), Step::Entry),
                    "{count}"
                );
                assert_eq!(walk.key(), key * 3);
                assert_eq!(walk.value(), [(key % 251) as u8; 512]);
            }
            assert!(
                matches!(walk.step(&memory, &mut reached), Step::End),
                "{count}"
            );
            assert!((1..taken).all(|block| reached.has(block)));
        }
    }

    #[test]
    fn only_in_order() {
        let mut memory = Memory(vec![0; 10 * BLOCK_BYTES]);
        let mut allocator = Allocator::new(&mut memory);
        let mut writer = TreeWriter::new("things", 8);
        writer.add(&mut allocator, 5, &[0; 8]).unwrap();
        assert!(writer.add(&mut allocator, 5, &[0; 8]).is_err());
    }
}
