// SPDX-License-Identifier: GPL-2.0-only
//! Creating and destroying pools.
//!
//! Creation has these steps, each durable before the next:
//!
//! 1. the devices are wiped: old signatures, the label area, dm-raid's superblocks,
//!    the start of every metadata slice;
//! 2. every device gets both copies of its label, marked as *creating*;
//! 3. the pool is started, and the kernel formats the metadata;
//! 4. every label is written again without the mark.
//!
//! A pool exists if one of its labels lacks the mark. A crash before step 4 leaves
//! none that does: there is no pool, and the devices can be used for a new one. The
//! first label without the mark is written when all others, and the metadata, are
//! durable: from then on the pool is complete, and whoever starts it takes the
//! remaining marks away (`repair_labels` in start.rs).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fusion_format::{Label, Ring, SECTOR_BYTES, Slice, superblock};
use uuid::Uuid;

use crate::assemble::{FoundMember, FoundPool};
use crate::block::{self, BlockDevice};
use crate::candidate;
use crate::dm::{self, Dm};
use crate::geometry::{Geometry, LEGS, OnMembers};
use crate::interrupt;
use crate::member;
use crate::place::MetadataDevice;
use crate::probe;
use crate::running::{self, Running};
use crate::scan::{self, Scan};
use crate::start;

/// What `pool create` was asked for.
pub struct Request {
    pub name: String,
    pub devices: Vec<PathBuf>,
    pub block_sectors: u32,
    pub spares: Option<u32>,
    pub metadata: Option<PathBuf>,
    pub error_if_no_space: bool,
    pub no_discard_passdown: bool,
    pub no_journal: bool,
    pub force: bool,
}

/// Creates a pool and starts it. Remarks the user should see go to `notes`.
pub fn create(dm: &Dm, request: &Request, notes: &mut Vec<String>) -> Result<Running> {
    let mut devices = open_devices(request)?;
    check_name(dm, request, &devices)?;
    let metadata = request
        .metadata
        .as_deref()
        .map(|path| open_metadata(path, &devices, request.force))
        .transpose()?;

    let count = u32::try_from(devices.len())?;
    let members = fusion_format::layout::largest_order(count).unwrap_or(count) as usize;
    let smallest = smallest(&devices[..members.min(devices.len())]);
    let geometry = Geometry::new(
        count,
        request.spares,
        request.block_sectors,
        smallest,
        OnMembers {
            metadata: metadata.is_none(),
            journal: !request.no_journal,
        },
    )?;
    check_hot_spares(&devices, &geometry, notes)?;
    if request.spares.is_none() && geometry.spares == 0 {
        notes.push(format!(
            "{} members leave no room for distributed spare space: the pool has none",
            geometry.members
        ));
    }

    interrupt::check()?;
    for device in &devices {
        candidate::wipe(device, &slice_of(&geometry, None), request.force)?;
    }
    if let Some(device) = &metadata {
        if request.force {
            probe::wipe(device)?;
        }
        device.zero(
            0,
            candidate::METADATA_START_BYTES.min(device.sectors * SECTOR_BYTES),
        )?;
        device.sync()?;
    }

    let pool = labelled(request, &geometry, &devices)?;
    for (device, member) in devices.iter().zip(&pool.members) {
        interrupt::check()?;
        member::write(device, &member.label)?;
    }
    let metadata_device = metadata
        .as_ref()
        .map(|device| -> Result<_> {
            Ok(MetadataDevice {
                path: dm::path_of(device.dev)?.into(),
                sectors: device.sectors,
            })
        })
        .transpose()?;
    // Device-mapper wants the devices for itself.
    devices.clear();
    drop(metadata);

    let result = start_and_seal(dm, &pool, metadata_device.as_ref());
    if result.is_err() {
        for member in &pool.members {
            // The first error is the one to report.
            let _ = BlockDevice::open_write(&member.path).and_then(|device| member::wipe(&device));
        }
    }
    result.with_context(|| format!("pool {} was not created", request.name))?;
    running::need(dm, &request.name)
}

/// Steps 3 and 4.
fn start_and_seal(dm: &Dm, pool: &FoundPool, metadata: Option<&MetadataDevice>) -> Result<()> {
    let assembled = pool.assemble(false)?;
    let made = start::bring_up(dm, &assembled, metadata, false)?;
    for member in &pool.members {
        let label = Label {
            creating: false,
            ..member.label.clone()
        };
        member::rewrite(&member.path, &label)?;
    }
    made.keep();
    Ok(())
}

/// The name must be free, or be that of a pool that `--force` overwrites wholly.
fn check_name(dm: &Dm, request: &Request, devices: &[BlockDevice]) -> Result<()> {
    let name = &request.name;
    if dm.info(name)?.is_some() {
        bail!("there is a device-mapper device {name} already: choose another name");
    }
    let overwritten = |pool: &FoundPool| {
        request.force
            && pool
                .members
                .iter()
                .all(|member| devices.iter().any(|device| device.dev == member.dev))
    };
    if let Some(pool) = scan::scan(&[])?
        .known_pools()
        .find(|pool| pool.name == *name && !overwritten(pool))
    {
        bail!(
            "there is a pool {name} already ({}; on {}): choose another name, or destroy it first",
            pool.uuid,
            block::names(pool.members.iter().map(|member| member.path.as_path()))
        );
    }
    Ok(())
}

/// Opens the devices, each checked, for nobody else to use meanwhile.
fn open_devices(request: &Request) -> Result<Vec<BlockDevice>> {
    let mut devices = Vec::new();
    let mut seen = BTreeMap::new();
    for path in &request.devices {
        // Opening tells whether it is in use, which a duplicate would be: by us.
        let device = BlockDevice::open_read(path)?;
        if let Some(first) = seen.insert(device.dev, path) {
            bail!(
                "{} and {} are the same device: name it once",
                first.display(),
                path.display()
            );
        }
    }
    for path in &request.devices {
        let device = BlockDevice::open_exclusive(path)?;
        candidate::check(&device, request.force)?;
        devices.push(device);
    }
    Ok(devices)
}

fn open_metadata(path: &Path, members: &[BlockDevice], force: bool) -> Result<BlockDevice> {
    let device = BlockDevice::open_read(path)?;
    if members.iter().any(|member| member.dev == device.dev) {
        bail!(
            "{} cannot be a member and the metadata device at once: use another device",
            path.display()
        );
    }
    let device = BlockDevice::open_exclusive(path)?;
    candidate::check(&device, force)?;
    if device.sectors < fusion_format::metadata::TINY_SECTORS {
        bail!(
            "{} is too small for the metadata: use a device of at least {}",
            path.display(),
            crate::size::display_sectors(fusion_format::metadata::TINY_SECTORS)
        );
    }
    let first = device.read_at(0, superblock::SUPERBLOCK_BYTES)?;
    if !force && superblock::decode(&first).is_some() {
        bail!(
            "{} carries the metadata of another pool: give --force to overwrite it, or use \
             another device",
            path.display()
        );
    }
    Ok(device)
}

fn smallest(devices: &[BlockDevice]) -> u64 {
    devices
        .iter()
        .map(|device| device.sectors)
        .min()
        .unwrap_or(0)
}

fn check_hot_spares(
    devices: &[BlockDevice],
    geometry: &Geometry,
    notes: &mut Vec<String>,
) -> Result<()> {
    let (members, spares) = devices.split_at(geometry.members as usize);
    if spares.is_empty() {
        return Ok(());
    }
    let least = geometry.data_offset_sectors + geometry.data_sectors();
    if let Some(small) = spares.iter().find(|spare| spare.sectors < least) {
        bail!(
            "{} would be a hot spare but is smaller than the members: name it among the first {} \
             devices, or leave it out",
            small.path.display(),
            members.len()
        );
    }
    notes.push(format!(
        "{} devices, but layouts exist for prime powers only: the pool has {} members, and {} {} \
         hot spare{}",
        devices.len(),
        members.len(),
        block::names(spares.iter().map(|spare| spare.path.as_path())),
        if spares.len() == 1 { "is a" } else { "are" },
        if spares.len() == 1 { "" } else { "s" }
    ));
    Ok(())
}

fn slice_of(geometry: &Geometry, leg: Option<u16>) -> Slice {
    Slice {
        leg,
        rmeta_offset_sectors: geometry.rmeta_offset_sectors,
        rmeta_sectors: geometry.rmeta_sectors,
        offset_sectors: geometry.slice_offset_sectors,
        sectors: geometry.slice_sectors,
    }
}

/// The new pool with the labels of step 2.
fn labelled(request: &Request, geometry: &Geometry, devices: &[BlockDevice]) -> Result<FoundPool> {
    let pool_uuid = Uuid::new_v4();
    let legs = if request.metadata.is_some() { 0 } else { LEGS };
    let created = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs());
    let members = devices
        .iter()
        .enumerate()
        .map(|(place, device)| {
            let place = u16::try_from(place)?;
            let index = (u32::from(place) < geometry.members).then_some(place);
            Ok(FoundMember {
                path: dm::path_of(device.dev)?.into(),
                dev: device.dev,
                sectors: device.sectors,
                differs: false,
                record: None,
                slice: None,
                label: Label {
                    pool_uuid,
                    member_uuid: Uuid::new_v4(),
                    pool_name: request.name.clone(),
                    index,
                    members: u16::try_from(geometry.members)?,
                    spares: u16::try_from(geometry.spares)?,
                    legs,
                    slice: slice_of(geometry, index.filter(|&index| index < legs)),
                    journal: Ring {
                        offset_sectors: geometry.journal_offset_sectors,
                        sectors: geometry.journal_sectors,
                    },
                    block_sectors: geometry.block_sectors,
                    data_offset_sectors: geometry.data_offset_sectors,
                    data_sectors: geometry.data_sectors(),
                    created,
                    member_sectors: device.sectors,
                    error_if_no_space: request.error_if_no_space,
                    no_discard_passdown: request.no_discard_passdown,
                    creating: true,
                },
            })
        })
        .collect::<Result<_>>()?;
    Ok(FoundPool {
        uuid: pool_uuid,
        name: request.name.clone(),
        members,
        superblock: None,
    })
}

/// Wipes the labels of a stopped pool: it is gone. If that is cut short, what is left
/// is an incomplete pool, which can be destroyed as well.
pub fn destroy(scan: &Scan, pool: &FoundPool) -> Result<()> {
    let cut_short = || format!("pool {} is not destroyed completely", pool.name);
    for member in &pool.members {
        let device = BlockDevice::open_exclusive(&member.path).with_context(cut_short)?;
        member::wipe(&device).with_context(cut_short)?;
    }
    let superblocks = scan.metadata.iter();
    for (path, _) in superblocks.filter(|(_, superblock)| superblock.pool_uuid == pool.uuid) {
        let device = BlockDevice::open_exclusive(path).with_context(cut_short)?;
        device.zero(0, superblock::SUPERBLOCK_BYTES as u64)?;
        device.sync().with_context(cut_short)?;
    }
    Ok(())
}
