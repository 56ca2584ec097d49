// SPDX-License-Identifier: GPL-2.0-only
//! The devices of a running pool's members, as they may be changed: what its table, its status
//! and the labels say of them, and another table.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fusion_format::Label;
use fusion_format::superblock::Superblock;
use uuid::Uuid;

use crate::assemble::{FoundMember, is_newcomer};
use crate::block::{self, BlockDevice};
use crate::candidate;
use crate::devno::DevNo;
use crate::dm::{self, Dm, Spec, Visibility};
use crate::member::{self, Reading};
use crate::names::{self, POOL_TARGET};
use crate::running::{self, Running};
use crate::scan;
use crate::status::{self, PoolStatus};

pub struct Membership<'a> {
    pub dm: &'a Dm,
    pub pool: Running,
    /// What all labels of the pool agree on, and how many members there are.
    template: Label,
}

impl<'a> Membership<'a> {
    pub fn open(dm: &'a Dm, key: &str) -> Result<Self> {
        let pool = running::need(dm, key)?;
        let label = |index: usize| {
            let (dev, _) = pool.table.members[index]?;
            label_on(dev, pool.uuid).filter(|label| label.index.map(usize::from) == Some(index))
        };
        let count = pool.table.members.len();
        let mut template = (0..count).find_map(label).with_context(|| {
            format!(
                "no member of pool {} has a label: what has none is changed with dmsetup \
                 (dm-fusion(4) says how)",
                pool.name
            )
        })?;
        template.members = u16::try_from(count)?;
        Ok(Self { dm, pool, template })
    }

    /// The same after its table has been changed.
    pub fn again(self) -> Result<Self> {
        let uuid = self.pool.uuid.to_string();
        Self::open(self.dm, &uuid)
    }

    /// The member with this number, or this device, or of which this device has the label.
    pub fn index(&self, key: &str) -> Result<usize> {
        let found = self.pool.member(key);
        if found.is_ok() || key.parse::<usize>().is_ok() {
            return found;
        }
        let dev = BlockDevice::open_read(Path::new(key))?.dev;
        match label_on(dev, self.pool.uuid).and_then(|label| label.index) {
            Some(index) => Ok(index.into()),
            None => found,
        }
    }

    pub fn device(&self, index: usize) -> Option<DevNo> {
        self.pool.table.members[index].map(|(dev, _)| dev)
    }

    /// None: the pool is in fail mode.
    pub fn status(&self) -> Result<Option<PoolStatus>> {
        self.pool.status(self.dm)
    }

    /// Of each member, as the kernel calls it. (It waits for a commit.)
    pub fn states(&self) -> Result<Vec<String>> {
        let status = self
            .status()?
            .with_context(|| format!("pool {} has failed: see the kernel's log", self.pool.name))?;
        let members = status.members.into_iter();
        Ok(members.map(|member| member.state).collect())
    }

    /// It is not used.
    pub fn is_out(&self, index: usize) -> Result<bool> {
        Ok(is_out(&self.state(index)?))
    }

    pub fn state(&self, index: usize) -> Result<String> {
        let state = self.states()?.into_iter().nth(index);
        state.with_context(|| format!("pool {} has no member {index}", self.pool.name))
    }

    /// The label of a device that becomes member `index`, or a hot spare.
    pub fn label(&self, index: Option<usize>, sectors: u64) -> Result<Label> {
        let mut label = self.template.clone();
        label.member_uuid = Uuid::new_v4();
        label.index = index.map(u16::try_from).transpose()?;
        label.slice.leg = None;
        label.member_sectors = sectors;
        label.creating = false;
        Ok(label)
    }

    /// Is it large enough for the pool?
    pub fn check_size(&self, device: &BlockDevice) -> Result<()> {
        candidate::check_size(device, &self.template)
    }

    /// The device, if it has the label of the pool.
    pub fn labelled(&self, device: &BlockDevice) -> Result<Option<Label>> {
        labelled(device, self.pool.uuid)
    }

    /// All that have labels of the pool, whether they are in its table or not.
    pub fn found(&self) -> Result<Vec<FoundMember>> {
        let scan = scan::scan(&[])?;
        let pools = scan.pools.into_iter();
        Ok(pools
            .filter(|pool| pool.uuid == self.pool.uuid)
            .flat_map(|pool| pool.members)
            .collect())
    }

    /// What the label of `member` says it is, though it is not in the pool's table.
    pub fn find_away(&self, index: usize) -> Result<Vec<FoundMember>> {
        let here = self.device(index);
        let mut found = self.found()?;
        found.retain(|member| {
            member.label.index.map(usize::from) == Some(index) && Some(member.dev) != here
        });
        Ok(found)
    }

    /// The device that was member `index` when it was used last, by its label.
    pub fn find(&self, index: usize) -> Result<PathBuf> {
        let mut found = self.found()?;
        found.retain(|member| member.label.index.map(usize::from) == Some(index));
        if found.len() > 1 {
            let uuid = self.uuid(index);
            found.retain(|member| Some(member.label.member_uuid) == uuid);
        }
        match &found[..] {
            [member] => Ok(member.path.clone()),
            [] => bail!(
                "no device has the label of member {index} of pool {name}: attach it, or put \
                 another in its place with 'fusion device replace {name} {index}'",
                name = self.pool.name
            ),
            _ => bail!(
                "{} all claim to be member {index} of pool {}: name one of them",
                block::names(found.iter().map(|member| member.path.as_path())),
                self.pool.name
            ),
        }
    }

    /// Of member `index`, as the metadata knows it.
    fn uuid(&self, index: usize) -> Option<Uuid> {
        let superblock = self.superblock()?;
        superblock.member.get(index).map(|&(uuid, _)| uuid)
    }

    fn superblock(&self) -> Option<Superblock> {
        let path = dm::path_of(self.pool.table.metadata).ok()?;
        let device = BlockDevice::open_read(Path::new(&path)).ok()?;
        scan::superblock_at(&device, 0)
    }

    /// Is it certain that it runs, and has as many members as it had? Of one that is read-only the
    /// commit may have failed that had them be more.
    pub fn is_unchanged(&self) -> bool {
        let info = self.dm.info(&self.pool.name).ok().flatten();
        let status = self.status().ok().flatten();
        let count = self.pool.table.members.len();
        info.is_some_and(|info| !info.suspended)
            && status.is_some_and(|status| status.is_writable())
            && self
                .superblock()
                .is_some_and(|superblock| usize::from(superblock.members) == count)
    }

    /// Devices that can become members: those that were to be before, when the pool was to grow, and
    /// hot spares, if they are large enough.
    pub fn spares(&self) -> Result<Vec<FoundMember>> {
        let mut found = self.found()?;
        let count = self.pool.table.members.len();
        found.retain(|member| {
            (member.label.index.is_none() || is_newcomer(&member.label, count))
                && member.sectors >= self.least_sectors()
        });
        found.sort_by_key(|member| member.label.index.is_none());
        Ok(found)
    }

    fn least_sectors(&self) -> u64 {
        self.template.data_offset_sectors + self.template.data_sectors
    }

    /// A hot spare that is large enough.
    pub fn hot_spare(&self) -> Result<PathBuf> {
        let mut found = self.found()?;
        found.retain(|member| {
            member.label.index.is_none() && member.sectors >= self.least_sectors()
        });
        match found.first() {
            Some(member) => Ok(member.path.clone()),
            None => bail!(
                "pool {name} has no hot spare that is there: name a device, or make one a hot \
                 spare with 'fusion device add {name}'",
                name = self.pool.name
            ),
        }
    }

    /// Gives the pool a table with this device as member `index`, which is out. Others that are
    /// out, and have no label that can be read, are left out: no table could have them.
    pub fn reload(&self, index: usize, device: Option<DevNo>) -> Result<()> {
        let offset = self.template.data_offset_sectors;
        let device = device.map(dm::path_of).transpose()?;
        let mut members = vec![(index, device.map(|device| (device, offset)))];
        for (other, member) in self.pool.table.members.iter().enumerate() {
            let Some((dev, _)) = *member else { continue };
            if other != index && label_on(dev, self.pool.uuid).is_none() && self.is_out(other)? {
                members.push((other, None));
            }
        }
        self.change(|params| status::with_members(params, &members))
    }

    /// Gives the pool a table with these devices behind those that are members.
    pub fn extend(&self, devices: &[DevNo]) -> Result<()> {
        let offset = self.template.data_offset_sectors;
        let more = devices
            .iter()
            .map(|&dev| Ok((dm::path_of(dev)?, offset)))
            .collect::<Result<Vec<_>>>()?;
        let count = self.pool.table.members.len();
        self.change(|params| status::with_more_members(params, count, &more))
    }

    /// Gives the pool another table, from the one that it has.
    fn change(&self, params: impl FnOnce(&str) -> String) -> Result<()> {
        let table = self.dm.table(&self.pool.name)?;
        let target = table
            .first()
            .with_context(|| format!("pool {} has no table", self.pool.name))?;
        self.dm.reload(&Spec {
            name: self.pool.name.clone(),
            uuid: names::pool_dm_uuid(self.pool.uuid),
            visibility: Visibility::Private,
            sectors: target.sectors,
            target: POOL_TARGET,
            params: params(&target.params),
        })
    }

    /// Writes into the label of a member, if it has one, how many there are, and that the pool knows
    /// of it.
    pub fn complete_label(&self, index: usize) -> Result<()> {
        let Some(dev) = self.device(index) else {
            return Ok(());
        };
        let device = BlockDevice::open_write(Path::new(&dm::path_of(dev)?))?;
        let Some(label) = self.labelled(&device)? else {
            return Ok(());
        };
        let complete = Label {
            members: self.template.members,
            creating: false,
            ..label.clone()
        };
        if complete != label {
            member::write(&device, &complete)?;
        }
        Ok(())
    }

    /// Wipes the label of a device that is no member any more, if it has the pool's.
    pub fn forget(&self, path: &Path) -> Result<()> {
        let device = BlockDevice::open_write(path)?;
        if self.labelled(&device)?.is_some() {
            member::wipe(&device)?;
        }
        Ok(())
    }
}

/// What the kernel calls one that is not used.
pub fn is_out(state: &str) -> bool {
    matches!(state, "failed" | "missing")
}

fn labelled(device: &BlockDevice, pool: Uuid) -> Result<Option<Label>> {
    Ok(match member::read(device)? {
        Reading::Found(found) if found.label.pool_uuid == pool => Some(found.label),
        _ => None,
    })
}

/// The label of that pool on a device, if it can be read.
fn label_on(dev: DevNo, pool: Uuid) -> Option<Label> {
    let device = BlockDevice::open_read(Path::new(&dm::path_of(dev).ok()?)).ok()?;
    labelled(&device, pool).ok()?
}
