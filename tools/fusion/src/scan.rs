// SPDX-License-Identifier: GPL-2.0-only
//! Finding members by their labels, and pools by their members.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};
use fusion_format::superblock::{self, SUPERBLOCK_BYTES, Superblock};
use fusion_format::{Label, SECTOR_BYTES};
use uuid::Uuid;

use crate::assemble::{FoundMember, FoundPool, FoundSlice};
use crate::block::{self, BlockDevice};
use crate::devno::DevNo;
use crate::dm;
use crate::member::{self, Found, Reading};
use crate::mirror::RaidSuper;
use crate::names::UUID_PREFIX;
use crate::sysfs;

/// What the block devices of this machine carry.
#[derive(Default)]
pub struct Scan {
    pub pools: Vec<FoundPool>,
    /// Devices whose labels cannot be used, and why.
    pub invalid: Vec<(PathBuf, String)>,
    /// Devices that are wholly the metadata of a pool.
    pub metadata: Vec<(PathBuf, Superblock)>,
}

/// Looks at all block devices, or at those given.
pub fn scan(only: &[PathBuf]) -> Result<Scan> {
    let explicit = !only.is_empty();
    let candidates = if explicit {
        only.to_vec()
    } else {
        candidates()
    };
    let mut scan = Scan::default();
    let mut members = Vec::new();
    for path in candidates {
        let device = match BlockDevice::open_read(&path) {
            Ok(device) => device,
            Err(error) if explicit => return Err(error),
            // No medium, gone meanwhile, ...
            Err(_) => continue,
        };
        match member::read(&device)? {
            Reading::Found(found) => members.push(found_member(&device, found)),
            Reading::Invalid(reason) => scan.invalid.push((path, reason)),
            Reading::Absent => {
                if let Some(superblock) = superblock_at(&device, 0) {
                    scan.metadata.push((path, superblock));
                }
            }
        }
    }
    scan.pools = group(drop_lower_paths(members, is_held_by));
    for pool in &mut scan.pools {
        let mut superblocks = scan
            .metadata
            .iter()
            .filter(|(_, superblock)| superblock.pool_uuid == pool.uuid);
        // Of several nobody knows which is a copy.
        pool.superblock = match (superblocks.next(), superblocks.next()) {
            (Some((_, superblock)), None) => Some(superblock.clone()),
            _ => None,
        };
    }
    Ok(scan)
}

pub fn found_member(device: &BlockDevice, found: Found) -> FoundMember {
    let slice = found.label.slice.leg.map(|_| {
        let slice = &found.label.slice;
        FoundSlice {
            raid: device
                .read_at(slice.rmeta_offset_sectors * SECTOR_BYTES, RaidSuper::BYTES)
                .ok()
                .and_then(|bytes| RaidSuper::parse(&bytes)),
            superblock: superblock_at(device, slice.offset_sectors * SECTOR_BYTES),
        }
    });
    FoundMember {
        path: device.path.clone(),
        dev: device.dev,
        sectors: device.sectors,
        label: found.label,
        differs: found.differs,
        record: found.record,
        slice,
    }
}

pub fn superblock_at(device: &BlockDevice, offset: u64) -> Option<Superblock> {
    superblock::decode(&device.read_at(offset, SUPERBLOCK_BYTES).ok()?)
}

impl Scan {
    /// Complete or not, but never one whose creation did not come to its end.
    pub fn known_pools(&self) -> impl Iterator<Item = &FoundPool> {
        self.pools.iter().filter(|pool| !pool.creating())
    }

    /// The pool of this name or uuid.
    pub fn find(&self, key: &str) -> Result<&FoundPool> {
        let found: Vec<&FoundPool> = match Uuid::parse_str(key) {
            Ok(uuid) => self
                .known_pools()
                .filter(|pool| pool.uuid == uuid)
                .collect(),
            Err(_) => self.known_pools().filter(|pool| pool.name == key).collect(),
        };
        match found[..] {
            [pool] => Ok(pool),
            [] => {
                let unreadable: String = self
                    .invalid
                    .iter()
                    .map(|(path, reason)| format!("; {} {reason}", path.display()))
                    .collect();
                bail!(
                    "no device carries a label of a pool {key}: check that its members are \
                     attached (fusion scan){unreadable}"
                )
            }
            _ => {
                let uuids: Vec<String> = found.iter().map(|pool| pool.uuid.to_string()).collect();
                bail!(
                    "there are {} pools named {key}: name one by its uuid ({})",
                    uuids.len(),
                    uuids.join(", ")
                )
            }
        }
    }

    /// The device that holds the metadata of a pool that has no slices for it.
    pub fn metadata_device(&self, pool: Uuid) -> Result<PathBuf> {
        let found: Vec<&PathBuf> = self
            .metadata
            .iter()
            .filter(|(_, superblock)| superblock.pool_uuid == pool)
            .map(|(path, _)| path)
            .collect();
        match found[..] {
            [path] => Ok(path.clone()),
            [] => bail!(
                "the pool's metadata is on a device of its own, and that is not there: attach it \
                 and try again"
            ),
            _ => bail!(
                "several devices hold the pool's metadata ({}): detach the copies and try again",
                block::names(found.iter().map(|path| path.as_path()))
            ),
        }
    }
}

/// All block devices that can be read now and are no part of a running pool.
fn candidates() -> Vec<PathBuf> {
    let mut names = sysfs::names();
    names.retain(|name| is_candidate(name));
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.iter().map(|name| dm::path(name).into()).collect()
}

fn is_candidate(name: &str) -> bool {
    let attribute = |attribute| sysfs::attribute(name, attribute).unwrap_or_default();
    let sectors: u64 = attribute("size").parse().unwrap_or(0);
    // A suspended device would block the scan.
    sectors * SECTOR_BYTES > fusion_format::label::LABEL_AREA_BYTES
        && !attribute("dm/uuid").starts_with(UUID_PREFIX)
        && attribute("dm/suspended") != "1"
}

/// Is `lower` a part of `upper`, as a path is of a multipath device?
fn is_held_by(lower: DevNo, upper: DevNo) -> bool {
    let Ok(holders) = fs::read_dir(format!("/sys/dev/block/{lower}/holders")) else {
        return false;
    };
    holders.flatten().any(|holder| {
        fs::read_to_string(holder.path().join("dev"))
            .ok()
            .and_then(|dev| DevNo::parse(&dev))
            == Some(upper)
    })
}

/// Of devices that show the same member one above the other, the upper one counts.
fn drop_lower_paths(
    members: Vec<FoundMember>,
    is_held_by: impl Fn(DevNo, DevNo) -> bool,
) -> Vec<FoundMember> {
    let devices: Vec<(Uuid, DevNo)> = members
        .iter()
        .map(|member| (member.label.member_uuid, member.dev))
        .collect();
    members
        .into_iter()
        .filter(|member| {
            !devices.iter().any(|&(uuid, dev)| {
                uuid == member.label.member_uuid && dev != member.dev && is_held_by(member.dev, dev)
            })
        })
        .collect()
}

fn group(members: Vec<FoundMember>) -> Vec<FoundPool> {
    let mut pools: BTreeMap<Uuid, FoundPool> = BTreeMap::new();
    for member in members {
        let Label {
            pool_uuid,
            pool_name,
            ..
        } = &member.label;
        pools
            .entry(*pool_uuid)
            .or_insert_with(|| FoundPool {
                uuid: *pool_uuid,
                name: pool_name.clone(),
                members: Vec::new(),
                superblock: None,
            })
            .members
            .push(member);
    }
    let mut pools: Vec<FoundPool> = pools.into_values().collect();
    pools.sort_by(|a, b| (&a.name, a.uuid).cmp(&(&b.name, b.uuid)));
    pools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::label;

    fn found(index: u16, minor: u32) -> FoundMember {
        FoundMember {
            path: format!("/dev/d{minor}").into(),
            dev: DevNo { major: 8, minor },
            sectors: 2_097_152,
            label: label(index),
            differs: false,
            record: None,
            slice: None,
        }
    }

    #[test]
    fn groups_and_finds() {
        let mut other = found(0, 9);
        other.label.pool_uuid = Uuid::from_u128(1);
        let scan = Scan {
            pools: group(vec![found(0, 0), found(1, 1), other]),
            ..Scan::default()
        };
        assert_eq!(scan.pools.len(), 2);
        let error = scan.find("tank").err().unwrap().to_string();
        assert!(error.contains("2 pools named tank"), "{error}");
        let uuid = Uuid::from_u128(0xabcd).to_string();
        assert_eq!(scan.find(&uuid).unwrap().members.len(), 2);
        assert!(scan.find("other").is_err());
    }

    #[test]
    fn unfinished_pools_are_no_pools() {
        let mut member = found(0, 0);
        member.label.creating = true;
        let scan = Scan {
            pools: group(vec![member]),
            ..Scan::default()
        };
        assert_eq!(scan.known_pools().count(), 0);
        assert!(scan.find("tank").is_err());
    }

    #[test]
    fn multipath() {
        let upper = DevNo { major: 8, minor: 2 };
        let left = drop_lower_paths(
            vec![found(0, 0), found(0, 1), found(0, 2), found(1, 3)],
            |_, holder| holder == upper,
        );
        let minors: Vec<u32> = left.iter().map(|member| member.dev.minor).collect();
        assert_eq!(minors, [2, 3]);
    }
}
