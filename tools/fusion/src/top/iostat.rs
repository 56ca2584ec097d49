// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel counts of a block device's I/O: /sys/block/NAME/stat.

use std::fs;

use fusion_format::SECTOR_BYTES;

use crate::devno::DevNo;

/// Since the device was made, but for `in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Now.
    pub in_flight: u64,
}

impl IoStat {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line
            .split_ascii_whitespace()
            .map(|field| field.parse().ok());
        let mut skip_and_take = |skip| fields.nth(skip)?;
        let reads = skip_and_take(0)?;
        let read_sectors: u64 = skip_and_take(1)?;
        let writes = skip_and_take(1)?;
        let written_sectors: u64 = skip_and_take(1)?;
        Some(Self {
            reads,
            read_bytes: read_sectors.checked_mul(SECTOR_BYTES)?,
            writes,
            written_bytes: written_sectors.checked_mul(SECTOR_BYTES)?,
            in_flight: skip_and_take(1)?,
        })
    }

    /// None: the device is gone.
    pub fn read(dev: DevNo) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/sys/dev/block/{dev}/stat")).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat() {
        let stat = "     100        1     2000       40      300        2     8000       90        5 \
                    60      130        0        0        0        0        7        8\n";
        assert_eq!(
            IoStat::parse(stat),
            Some(IoStat {
                reads: 100,
                read_bytes: 2000 << 9,
                writes: 300,
                written_bytes: 8000 << 9,
                in_flight: 5,
            })
        );
        for bad in ["", "1 2 3 4 5 6 7 8", "1 2 x 4 5 6 7 8 9"] {
            assert_eq!(IoStat::parse(bad), None, "{bad}");
        }
    }
}
