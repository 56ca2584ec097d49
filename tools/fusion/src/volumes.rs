// SPDX-License-Identifier: GPL-2.0-only
//! Volumes of a running pool.

use anyhow::{Context, Result, bail};
use fusion_format::{Layout, MAX_VOLUME_ID, SECTOR_BYTES, layout};

use crate::dm::{Dm, Visibility};
use crate::interrupt;
use crate::names;
use crate::plan;
use crate::running::Running;
use crate::size;
use crate::status::Volume;
use crate::usage;

/// Volumes get the widest stripes that the pool allows, but no wider than this:
/// beyond it little space is gained, and every rebuilt block reads more members.
const DEFAULT_MAX_WIDTH: u32 = 8;

/// What the user said about the stripes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub parity: u32,
    pub width: Option<u32>,
    pub data: Option<u32>,
}

impl Shape {
    /// The number of data slots.
    fn data(self, members: u32, spares: u32) -> Result<u32> {
        let widest = Layout::new(members, spares)
            .with_context(|| format!("there is no layout for {members} members"))?
            .max_width();
        let width = match (self.width, self.data) {
            (Some(width), _) => width,
            (None, Some(data)) => data.saturating_add(self.parity),
            (None, None) => widest.min(DEFAULT_MAX_WIDTH),
        };
        let narrowest = layout::MIN_DATA + self.parity;
        if narrowest > widest {
            bail!(
                "stripes with {} parity slots are {narrowest} wide or more, and with {members} \
                 members and {spares} spares they are at most {widest} wide",
                self.parity
            );
        }
        if !(narrowest..=widest).contains(&width) {
            bail!(
                "stripes of {width} slots do not fit: with {members} members and {spares} spares \
                 they are {narrowest} to {widest} wide, parity included"
            );
        }
        Ok(width - self.parity)
    }
}

/// Rounds bytes up to whole blocks, in sectors; says so in `notes`.
fn round_up(bytes: u64, block_sectors: u32, notes: &mut Vec<String>) -> Result<u64> {
    if bytes == 0 {
        bail!("a volume of no size cannot be: give a size above zero");
    }
    let block = u64::from(block_sectors);
    let sectors = bytes
        .div_ceil(SECTOR_BYTES)
        .checked_next_multiple_of(block)
        .filter(|sectors| sectors.checked_mul(SECTOR_BYTES).is_some())
        .context("the size is too large")?;
    if sectors * SECTOR_BYTES != bytes {
        notes.push(format!(
            "size rounded up to {} bytes, whole blocks of {}",
            sectors * SECTOR_BYTES,
            size::display_sectors(block)
        ));
    }
    Ok(sectors)
}

fn free_id(volumes: &[Volume]) -> Result<u32> {
    (0..=MAX_VOLUME_ID)
        .find(|id| volumes.iter().all(|volume| volume.id != *id))
        .context("the pool has no room for another volume: remove one first")
}

pub fn create(
    dm: &Dm,
    pool: &Running,
    name: &str,
    bytes: u64,
    shape: Shape,
    notes: &mut Vec<String>,
) -> Result<Volume> {
    let volumes = pool.volumes(dm)?;
    if volumes.iter().any(|volume| volume.name == name) {
        bail!(
            "pool {} has a volume {name} already: choose another name",
            pool.name
        );
    }
    let device = names::volume_name(&pool.name, name);
    if dm.info(&device)?.is_some() {
        bail!("there is a device-mapper device {device} already: choose another name");
    }
    let members = u32::try_from(pool.table.members.len())?;
    let volume = Volume {
        id: free_id(&volumes)?,
        name: name.to_owned(),
        sectors: round_up(bytes, pool.table.block_sectors, notes)?,
        data: shape.data(members, pool.table.spares)?,
        parity: shape.parity,
        mapped_blocks: 0,
        tops: 0,
        deleting: false,
    };
    let Volume {
        id,
        sectors,
        data,
        parity,
        ..
    } = volume;
    interrupt::check()?;
    dm.message(
        &pool.name,
        &format!("create_volume {id} {name} {sectors} {data} {parity}"),
    )?;
    let activated = dm.create(&plan::volume(&pool.name, pool.uuid, &volume));
    if let Err(error) = activated {
        // Nothing is on it yet, and the first error is the one to report.
        let _ = dm.message(&pool.name, &format!("delete_volume {id}"));
        return Err(error);
    }
    Ok(volume)
}

pub fn resize(
    dm: &Dm,
    pool: &Running,
    name: &str,
    bytes: u64,
    notes: &mut Vec<String>,
) -> Result<Volume> {
    let mut volume = pool.volume(dm, name)?;
    let sectors = round_up(bytes, pool.table.block_sectors, notes)?;
    if sectors < volume.sectors {
        bail!(
            "volume {name} has {} and cannot become smaller: create a smaller one and copy",
            size::display_sectors(volume.sectors)
        );
    }
    if sectors > volume.sectors {
        dm.message(
            &pool.name,
            &format!("resize_volume {} {sectors}", volume.id),
        )?;
        volume.sectors = sectors;
    }
    // Also when only the device is behind: a resize may have been cut short.
    if pool
        .device_of(&volume)
        .is_some_and(|device| device.sectors < sectors)
    {
        let mut spec = plan::volume(&pool.name, pool.uuid, &volume);
        if let Some(device) = pool.device_of(&volume) {
            spec.name.clone_from(&device.name);
        }
        dm.reload(&spec)?;
    }
    Ok(volume)
}

/// An error if the volume cannot be removed now.
pub fn check_removable(dm: &Dm, pool: &Running, name: &str) -> Result<Volume> {
    let volume = pool.volume(dm, name)?;
    if let Some(device) = pool.device_of(&volume) {
        usage::check_unused(dm, &device.name)?;
    }
    Ok(volume)
}

/// Returns when the volume's space is free.
pub fn remove(dm: &Dm, pool: &Running, volume: &Volume) -> Result<()> {
    let device = pool.device_of(volume);
    if let Some(device) = device {
        dm.remove(&device.name, Visibility::Public)?;
    }
    let deleted = dm.message(&pool.name, &format!("delete_volume {}", volume.id));
    if deleted.is_err() && device.is_some() {
        // It is still there: so should its device be. The first error counts.
        if let Ok(current) = pool.volume(dm, &volume.name) {
            if !current.deleting {
                let _ = dm.create(&plan::volume(&pool.name, pool.uuid, &current));
            }
        }
    }
    deleted.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let shape = |width, data| Shape {
            parity: 1,
            width,
            data,
        };
        assert_eq!(shape(None, None).data(8, 1).unwrap(), 5);
        assert_eq!(shape(None, None).data(16, 1).unwrap(), 7);
        assert_eq!(shape(None, None).data(4, 0).unwrap(), 2);
        assert_eq!(shape(Some(4), None).data(8, 1).unwrap(), 3);
        assert_eq!(shape(None, Some(4)).data(8, 1).unwrap(), 4);
        for bad in [
            shape(Some(2), None),
            shape(Some(7), None),
            shape(None, Some(u32::MAX)),
        ] {
            let error = bad.data(8, 1).unwrap_err().to_string();
            assert!(error.contains("they are 3 to 6 wide"), "{error}");
        }
    }

    #[test]
    fn shapes_of_two_parities() {
        let shape = |width, data| Shape {
            parity: 2,
            width,
            data,
        };
        assert_eq!(shape(None, None).data(8, 1).unwrap(), 4);
        assert_eq!(shape(None, None).data(16, 1).unwrap(), 6);
        assert_eq!(shape(Some(4), None).data(5, 0).unwrap(), 2);
        assert_eq!(shape(None, Some(4)).data(8, 1).unwrap(), 4);
        for bad in [
            shape(Some(3), None),
            shape(None, Some(5)),
            shape(None, Some(u32::MAX)),
        ] {
            let error = bad.data(8, 1).unwrap_err().to_string();
            assert!(error.contains("they are 4 to 6 wide"), "{error}");
        }
        let error = shape(None, None).data(5, 1).unwrap_err().to_string();
        assert!(error.contains("are 4 wide or more"), "{error}");
        assert!(error.contains("at most 3 wide"), "{error}");
    }

    #[test]
    fn sizes_are_whole_blocks() {
        let mut notes = Vec::new();
        assert_eq!(round_up(1 << 20, 128, &mut notes).unwrap(), 2048);
        assert!(notes.is_empty());
        assert_eq!(round_up(1, 128, &mut notes).unwrap(), 128);
        assert_eq!(notes.len(), 1);
        assert!(round_up(0, 128, &mut notes).is_err());
        assert!(round_up(u64::MAX, 128, &mut notes).is_err());
    }

    #[test]
    fn ids_are_reused() {
        let volumes =
            Volume::parse_all("0 a 128 5 1 0 0 ok\n1 b 128 5 1 0 0 ok\n3 c 128 5 1 0 0 ok\n")
                .unwrap();
        assert_eq!(free_id(&volumes).unwrap(), 2);
        assert_eq!(free_id(&[]).unwrap(), 0);
    }
}
