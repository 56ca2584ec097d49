// SPDX-License-Identifier: GPL-2.0-only
//! The pools that are running, recognised by their tables: it does not matter
//! whether this program or dmsetup started them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use uuid::Uuid;

use crate::block::BlockDevice;
use crate::devno::DevNo;
use crate::dm::{self, Dm, Info};
use crate::member::{self, Reading};
use crate::names::{self, POOL_TARGET, VOLUME_TARGET};
use crate::status::{self, PoolStatus, PoolTable, Volume};

/// A running pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub name: String,
    pub dev: DevNo,
    pub uuid: Uuid,
    pub table: PoolTable,
    pub devices: Vec<VolumeDevice>,
}

/// A volume's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDevice {
    /// What device-mapper calls it.
    pub name: String,
    pub dev: DevNo,
    pub id: u32,
    pub sectors: u64,
}

/// All running pools, by name.
pub fn all(dm: &Dm) -> Result<Vec<Running>> {
    again(dm, std::iter::empty())
}

/// The same, for those who ask often: labels, on members that may hang, are not read again for
/// the pools that they found `before`.
pub fn again<'a>(
    dm: &Dm,
    before: impl Iterator<Item = &'a Running> + Clone,
) -> Result<Vec<Running>> {
    let mut pools = Vec::new();
    let mut volumes = Vec::new();
    for (name, dev) in dm.list()? {
        // A device may go while we look.
        let Ok(targets) = dm.table(&name) else {
            continue;
        };
        let [target] = &targets[..] else {
            continue;
        };
        if target.kind == POOL_TARGET {
            let Some(info) = dm.info(&name)? else {
                continue;
            };
            let table = PoolTable::parse(&target.params)?;
            let known = before
                .clone()
                .find(|pool| pool.dev == dev && pool.name == name);
            pools.push(Running {
                uuid: uuid_of(&info, &table, known),
                name,
                dev,
                table,
                devices: Vec::new(),
            });
        } else if target.kind == VOLUME_TARGET {
            if let Some((pool, id)) = status::parse_volume_table(&target.params) {
                let sectors = target.sectors;
                let device = VolumeDevice {
                    name,
                    dev,
                    id,
                    sectors,
                };
                volumes.push((pool, device));
            }
        }
    }
    for pool in &mut pools {
        pool.devices = volumes
            .iter()
            .filter(|(dev, _)| *dev == pool.dev)
            .map(|(_, device)| device.clone())
            .collect();
        pool.devices.sort_by_key(|device| device.id);
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pools)
}

/// From the device's own uuid, or else from a member's label; nil if neither tells,
/// as with pools that have no labels.
fn uuid_of(info: &Info, table: &PoolTable, known: Option<&Running>) -> Uuid {
    if let Some((uuid, "pool")) = names::parse_dm_uuid(&info.uuid) {
        return uuid;
    }
    if let Some(known) = known {
        return known.uuid;
    }
    table
        .members
        .iter()
        .flatten()
        .find_map(|(dev, _)| uuid_on(*dev).ok().flatten())
        .unwrap_or_default()
}

/// The pool that a member's label names.
fn uuid_on(dev: DevNo) -> Result<Option<Uuid>> {
    let device = BlockDevice::open_read(Path::new(&dm::path_of(dev)?))?;
    Ok(match member::read(&device)? {
        Reading::Found(found) => Some(found.label.pool_uuid),
        Reading::Absent | Reading::Invalid(_) => None,
    })
}

/// The running pool of this name or uuid, if there is one.
pub fn find(dm: &Dm, key: &str) -> Result<Option<Running>> {
    Ok(all(dm)?.into_iter().find(|pool| pool.is(key)))
}

/// Like `find`, for those who need the pool.
pub fn need(dm: &Dm, key: &str) -> Result<Running> {
    match find(dm, key)? {
        Some(pool) => Ok(pool),
        None => bail!("pool {key} is not running: start it with 'fusion pool start {key}'"),
    }
}

impl Running {
    /// Is this its name or uuid?
    pub fn is(&self, key: &str) -> bool {
        self.name == key || Uuid::parse_str(key) == Ok(self.uuid)
    }

    pub fn status(&self, dm: &Dm) -> Result<Option<PoolStatus>> {
        let targets = dm.status(&self.name)?;
        let target = targets
            .first()
            .with_context(|| format!("pool {} has no table", self.name))?;
        PoolStatus::parse(&target.params)
    }

    pub fn volumes(&self, dm: &Dm) -> Result<Vec<Volume>> {
        let mut volumes = Volume::parse_all(&dm.message(&self.name, "volumes")?)?;
        volumes.sort_by_key(|volume| volume.id);
        Ok(volumes)
    }

    /// Those that have a device, as of the last commit, by the status of these: the message
    /// `volumes` waits for a commit that is under way. None: the pool is in fail mode.
    pub fn active_volumes(&self, dm: &Dm) -> Result<Option<Vec<Volume>>> {
        let mut volumes = Vec::new();
        for device in &self.devices {
            // It may go while we look.
            let Ok(targets) = dm.status(&device.name) else {
                continue;
            };
            let Some(target) = targets.first() else {
                continue;
            };
            match Volume::parse_status(device.id, target.sectors, &target.params)? {
                Some(volume) => volumes.push(volume),
                None => return Ok(None),
            }
        }
        Ok(Some(volumes))
    }

    pub fn volume(&self, dm: &Dm, name: &str) -> Result<Volume> {
        self.volumes(dm)?
            .into_iter()
            .find(|volume| volume.name == name)
            .with_context(|| format!("pool {} has no volume {name}", self.name))
    }

    /// The number of a member, by that or by its device.
    pub fn member(&self, key: &str) -> Result<usize> {
        let found = match key.parse::<usize>() {
            Ok(index) => (index < self.table.members.len()).then_some(index),
            Err(_) => {
                let dev = BlockDevice::open_read(Path::new(key))?.dev;
                let members = self.table.members.iter();
                members
                    .map(|member| member.map(|(dev, _)| dev))
                    .position(|member| member == Some(dev))
            }
        };
        found.with_context(|| {
            format!(
                "pool {} has no member {key}: 'fusion pool status {}' lists them",
                self.name, self.name
            )
        })
    }

    pub fn device_of(&self, volume: &Volume) -> Option<&VolumeDevice> {
        self.devices.iter().find(|device| device.id == volume.id)
    }
}
