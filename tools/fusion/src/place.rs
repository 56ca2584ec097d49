// SPDX-License-Identifier: GPL-2.0-only
//! What the metadata of a running pool is on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::block::BlockDevice;
use crate::devno::DevNo;
use crate::dm::{self, Dm};
use crate::names::{self, METADATA_TARGET};
use crate::running::Running;

/// A device that the user gave for metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataDevice {
    pub path: PathBuf,
    pub sectors: u64,
}

impl MetadataDevice {
    pub fn open(path: &Path) -> Result<Self> {
        let device = BlockDevice::open_read(path)?;
        Ok(Self {
            path: path.to_owned(),
            sectors: device.sectors,
        })
    }
}

pub enum Place {
    /// The mirror over slices of the members.
    Mirror,
    /// A device of its own, and whether ours is before it: that of a pool that dmsetup started
    /// may be bare.
    Device { dev: DevNo, guarded: bool },
}

pub fn of(dm: &Dm, pool: &Running) -> Result<Place> {
    let name = names::metadata_name(&pool.name);
    let dev = pool.table.metadata;
    match dm.info(&name)? {
        Some(info) if info.dev == dev => {}
        _ => {
            return Ok(Place::Device {
                dev,
                guarded: false,
            });
        }
    }
    let table = dm.table(&name)?;
    match table.first() {
        Some(target) if target.kind == METADATA_TARGET => {
            let on = target.params.split(' ').next().and_then(DevNo::parse);
            Ok(Place::Device {
                dev: on.with_context(|| format!("{name} has a table that says of no device"))?,
                guarded: true,
            })
        }
        _ => Ok(Place::Mirror),
    }
}

impl Place {
    /// What the metadata can be found on.
    pub fn path(&self, pool: &Running) -> Result<String> {
        dm::path_of(match self {
            Self::Mirror => pool.table.metadata,
            Self::Device { dev, .. } => *dev,
        })
    }
}
