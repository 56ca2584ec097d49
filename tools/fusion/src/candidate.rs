// SPDX-License-Identifier: GPL-2.0-only
//! Devices that are to become members: may they, and making room.

use anyhow::{Result, bail};
use fusion_format::label::LABEL_AREA_BYTES;
use fusion_format::{Label, SECTOR_BYTES, Slice};

use crate::block::BlockDevice;
use crate::member::{self, Reading};
use crate::{probe, scan, size};

/// The largest logical block that pages of 4 KiB can be written to.
const MAX_LOGICAL_BLOCK_BYTES: u32 = 4096;
/// Bytes at the start of the metadata that decide whether it is formatted.
pub const METADATA_START_BYTES: u64 = 1 << 20;

/// The device itself, whatever is on it.
pub fn check_shape(device: &BlockDevice) -> Result<()> {
    let path = device.path.display();
    if device.logical_block_bytes > MAX_LOGICAL_BLOCK_BYTES {
        bail!(
            "{path} has logical blocks of {} bytes, and pools need {MAX_LOGICAL_BLOCK_BYTES} or \
             less: use another device",
            device.logical_block_bytes
        );
    }
    if device.sectors * SECTOR_BYTES <= LABEL_AREA_BYTES {
        bail!("{path} is too small to be a member: use a larger device");
    }
    Ok(())
}

/// Is it as large as the members of the pool with this label need to be?
pub fn check_size(device: &BlockDevice, label: &Label) -> Result<()> {
    let least = label.data_offset_sectors + label.data_sectors;
    if device.sectors < least {
        bail!(
            "{} is too small to be a member of pool {} ({} instead of at least {}): use a larger \
             device",
            device.path.display(),
            label.pool_name,
            size::display_sectors(device.sectors),
            size::display_sectors(least)
        );
    }
    Ok(())
}

/// Can it be a member, or hold a pool's metadata, and is there nothing on it, unless `force`?
pub fn check(device: &BlockDevice, force: bool) -> Result<()> {
    let path = device.path.display();
    check_shape(device)?;
    if force {
        return Ok(());
    }
    match member::read(device)? {
        Reading::Absent => {}
        // Of a creation that was cut short: there is nothing on it.
        Reading::Found(found) if found.label.creating && alone(&found.label)? => {}
        Reading::Found(found) => bail!(
            "{path} is a member of pool {} ({}): destroy that pool first, or give --force to \
             overwrite it",
            found.label.pool_name,
            found.label.pool_uuid
        ),
        Reading::Invalid(reason) => {
            bail!("{path} {reason}: give --force to overwrite it")
        }
    }
    if let Some(found) = probe::recognise(device)? {
        bail!("{path} carries {found}: give --force to overwrite it, or use another device");
    }
    Ok(())
}

/// Does no other label say that this one's pool is complete?
fn alone(label: &Label) -> Result<bool> {
    let scan = scan::scan(&[])?;
    let known = scan.known_pools().any(|pool| pool.uuid == label.pool_uuid);
    Ok(!known)
}

/// Nothing is on it any more that somebody could take for something.
pub fn wipe(device: &BlockDevice, slice: &Slice, force: bool) -> Result<()> {
    if force {
        probe::wipe(device)?;
    }
    // Old labels first: nothing may take the rest for theirs.
    member::wipe(device)?;
    wipe_slice(device, slice)
}

/// dm-raid has not been there, nor is there metadata.
pub fn wipe_slice(device: &BlockDevice, slice: &Slice) -> Result<()> {
    device.zero(
        slice.rmeta_offset_sectors * SECTOR_BYTES,
        slice.rmeta_sectors * SECTOR_BYTES,
    )?;
    device.zero(
        slice.offset_sectors * SECTOR_BYTES,
        METADATA_START_BYTES.min(slice.sectors * SECTOR_BYTES),
    )?;
    device.sync()
}
