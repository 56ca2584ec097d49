// SPDX-License-Identifier: GPL-2.0-only
//! Starting and stopping pools.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use fusion_format::Label;

use crate::assemble::{Assembled, FoundMember, is_newcomer, lacks};
use crate::devno::DevNo;
use crate::dm::{Dm, Spec, Visibility};
use crate::interrupt;
use crate::member;
use crate::mirror;
use crate::names;
use crate::output;
use crate::place::{self, MetadataDevice, Place};
use crate::plan;
use crate::running::{self, Running};
use crate::scan::{self, Scan};
use crate::status::{Mode, Volume};
use crate::stopped;
use crate::usage;

/// When a pool is started by itself: when all members are there that were used last, or those that
/// it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    Complete,
    Degraded,
}

/// Devices that were made; unless kept, they are removed in reverse order.
pub struct Made<'a> {
    dm: &'a Dm,
    devices: Vec<(String, Visibility)>,
}

impl<'a> Made<'a> {
    fn new(dm: &'a Dm) -> Self {
        Self {
            dm,
            devices: Vec::new(),
        }
    }

    fn create(&mut self, spec: &Spec) -> Result<()> {
        interrupt::check()?;
        self.dm.create(spec)?;
        self.devices.push((spec.name.clone(), spec.visibility));
        Ok(())
    }

    pub fn keep(mut self) {
        self.devices.clear();
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for (name, visibility) in self.devices.drain(..).rev() {
            if let Err(error) = self.dm.remove(&name, visibility) {
                eprintln!("fusion: {error:#}");
            }
        }
    }
}

/// Creates all devices of a pool; `metadata` where it has no slices. `force`: though data may
/// be missing.
pub fn bring_up<'a>(
    dm: &'a Dm,
    pool: &Assembled,
    metadata: Option<&MetadataDevice>,
    force: bool,
) -> Result<Made<'a>> {
    let mut made = bring_up_metadata(dm, pool)?;
    if let Some(metadata) = metadata {
        made.create(&plan::guard(pool, metadata))?;
    }
    made.create(&plan::pool(pool))?;
    if !force {
        check_redundancy(dm, pool)?;
    }
    for volume in Volume::parse_all(&dm.message(&pool.name, "volumes")?)? {
        if !volume.deleting {
            made.create(&plan::volume(&pool.name, pool.uuid, &volume))?;
        }
    }
    interrupt::check()?;
    Ok(made)
}

/// Creates the mirror that a pool's metadata is on, and what that consists of; nothing where it
/// has no slices.
pub fn bring_up_metadata<'a>(dm: &'a Dm, pool: &Assembled) -> Result<Made<'a>> {
    remove_leftovers(dm, pool)?;
    let mut made = Made::new(dm);
    for spec in plan::slices(pool) {
        made.create(&spec)?;
    }
    if let Some(spec) = plan::mirror(pool) {
        let there = |(leg, index): (usize, &Option<usize>)| index.map(|_| leg);
        mirror::equalise(&pool.name, pool.legs.iter().enumerate().filter_map(there))?;
        made.create(&spec)?;
    }
    Ok(made)
}

/// Without more members than it can do without the pool is read-only, and data is missing.
fn check_redundancy(dm: &Dm, pool: &Assembled) -> Result<()> {
    let Some(missing) = pool.lacks() else {
        return Ok(());
    };
    let status = running::need(dm, &pool.name)?.status(dm)?;
    if status.is_some_and(|status| status.mode == Mode::ReadOnly) {
        bail!(
            "without {missing} it can only be read, and data may be lost: attach what there is and \
             try again, or give --force to read the rest"
        );
    }
    Ok(())
}

/// A start that was killed may have left parts of the pool; only those that are
/// certainly ours are removed.
fn remove_leftovers(dm: &Dm, pool: &Assembled) -> Result<()> {
    let slices = plan::slices(pool);
    let mut parts: Vec<_> = slices
        .into_iter()
        .map(|spec| (spec.name, spec.uuid))
        .collect();
    parts.push((
        names::metadata_name(&pool.name),
        names::dm_uuid(pool.uuid, "fmeta"),
    ));
    for (name, uuid) in parts.iter().rev() {
        if let Some(info) = dm.info(name)? {
            if info.uuid != *uuid {
                bail!("there is a device-mapper device {name} already: remove or rename it first");
            }
            dm.remove(name, Visibility::Private)?;
        }
    }
    Ok(())
}

/// Removes what a killed start or creation of the pool `name` has left, if the pool
/// itself is not there. Was there anything?
pub fn remove_leftovers_of(dm: &Dm, name: &str) -> Result<bool> {
    let mirror = names::metadata_name(name);
    let slices = format!("{mirror}_r");
    let mut found: Vec<String> = dm
        .list()?
        .into_iter()
        .map(|(name, _)| name)
        .filter(|device| *device == mirror || device.starts_with(&slices))
        .collect();
    // The mirror's name is the shortest: it goes before what it consists of.
    found.sort_by_key(String::len);
    for device in &found {
        match dm.info(device)? {
            Some(info) if info.uuid.starts_with(names::UUID_PREFIX) => {
                dm.remove(device, Visibility::Private)?;
            }
            _ => bail!("the device {device} was made by something else: remove it first"),
        }
    }
    Ok(!found.is_empty())
}

/// The metadata device of a pool without slices.
pub fn metadata_device(scan: &Scan, pool: &Assembled) -> Result<Option<MetadataDevice>> {
    if pool.legs.is_empty() {
        MetadataDevice::open(&scan.metadata_device(pool.uuid)?).map(Some)
    } else {
        Ok(None)
    }
}

/// Starts a stopped pool by its name or uuid; `force`: though data may be missing or old.
pub fn start(dm: &Dm, scan: &Scan, key: &str, force: bool) -> Result<Running> {
    if let Some(running) = running::find(dm, key)? {
        bail!("pool {} is running already", running.name);
    }
    let found = scan.find(key)?;
    let pool = found.assemble(force)?;
    if let Some(info) = dm.info(&pool.name)? {
        bail!(
            "pool {} cannot be started: there is a device-mapper device {} already ({}); remove or \
             rename it first",
            pool.uuid,
            pool.name,
            info.dev
        );
    }
    repair_labels(&pool);
    output::notes(
        &pool
            .others
            .iter()
            .map(|other| note(&pool, other))
            .collect::<Vec<_>>(),
    );
    let metadata = metadata_device(scan, &pool)?;
    bring_up(dm, &pool, metadata.as_ref(), force)
        .with_context(|| format!("pool {} was not started", pool.name))?
        .keep();
    stopped::clear(pool.uuid);
    if let Some(missing) = pool.lacks() {
        output::notes(&[format!("pool {} is started without {missing}", pool.name)]);
    }
    running::need(dm, &pool.name)
}

/// Starts a pool that nobody has asked for: only if it does not run, and was not stopped, and as
/// `when` says. The inner error is the reason why it is not started.
pub fn start_automatically(
    dm: &Dm,
    scan: &Scan,
    key: &str,
    when: When,
) -> Result<Result<Running, String>> {
    if running::find(dm, key)?.is_some() {
        return Ok(Err("it is running".into()));
    }
    let found = scan.find(key)?;
    if stopped::is(found.uuid) {
        return Ok(Err(
            "it was stopped: start it with 'fusion pool start'".into()
        ));
    }
    if when == When::Complete && !found.is_complete() {
        let awaited = lacks(&found.awaited());
        return Ok(Err(match awaited {
            Some(awaited) => format!("it waits for {awaited}"),
            None => "it is not complete".into(),
        }));
    }
    start(dm, scan, key, false).map(Ok)
}

/// Why a device is not used.
fn note(pool: &Assembled, other: &FoundMember) -> String {
    let (path, name) = (other.path.display(), &pool.name);
    let index = other.label.index.unwrap_or_default();
    if is_newcomer(&other.label, pool.members.len()) {
        return format!(
            "{path} is not used: it was to become member {index} of pool {name}, which was not to \
             be. Have the pool grow with 'fusion pool grow {name}', or wipe it with 'fusion device \
             remove {name} {path}'"
        );
    }
    format!(
        "{path} is not used: its label says that it is member {index} of pool {name}, but another \
         device is. Wipe it with 'fusion device remove {name} {path}', or have it take the place \
         of that one with 'fusion device replace {name} {index} {path}'"
    )
}

/// What the label of a member, or of a hot spare, has to say; None: it says so, in both copies.
fn repaired_label(member: &FoundMember, members: u16) -> Option<Label> {
    let label = Label {
        members,
        creating: false,
        ..member.label.clone()
    };
    (member.differs || label != member.label).then_some(label)
}

/// A label with a damaged or outdated copy is written again.
fn repair_labels(pool: &Assembled) {
    for member in pool.members.iter().flatten().chain(&pool.hot_spares) {
        if let Some(label) = repaired_label(member, pool.label.members) {
            match member::rewrite(&member.path, &label) {
                Ok(()) => eprintln!(
                    "fusion: the label of {} was damaged or old; it is repaired",
                    member.path.display()
                ),
                // The good copy is enough to start.
                Err(error) => eprintln!("fusion: {error:#}"),
            }
        }
    }
}

/// Stops a running pool; refuses while any of its volumes is in use.
pub fn stop(dm: &Dm, pool: &Running) -> Result<()> {
    let mut busy = Vec::new();
    for device in &pool.devices {
        if let Err(error) = usage::check_unused(dm, &device.name) {
            busy.push(error.to_string());
        }
    }
    if !busy.is_empty() {
        bail!("pool {} is not stopped: {}", pool.name, busy.join("; "));
    }
    let metadata = metadata_parts(dm, pool)?;
    for device in pool.devices.iter().rev() {
        dm.remove(&device.name, Visibility::Public)?;
    }
    dm.remove(&pool.name, Visibility::Private)?;
    for name in metadata {
        dm.remove(&name, Visibility::Private)?;
    }
    Ok(())
}

/// The devices of ours that the pool's metadata consists of, in the order to remove them.
fn metadata_parts(dm: &Dm, pool: &Running) -> Result<Vec<String>> {
    let name = names::metadata_name(&pool.name);
    match place::of(dm, pool)? {
        Place::Mirror => {}
        Place::Device { guarded: true, .. } => return Ok(vec![name]),
        Place::Device { guarded: false, .. } => return Ok(Vec::new()),
    }
    let table = dm.table(&name)?;
    let parts: Vec<DevNo> = table
        .iter()
        .flat_map(|target| target.params.split_ascii_whitespace())
        .filter_map(DevNo::parse)
        .collect();
    let slices = dm
        .list()?
        .into_iter()
        .filter(|(_, dev)| parts.contains(dev))
        .map(|(name, _)| name);
    Ok(std::iter::once(name).chain(slices).collect())
}

/// What `table` prints for a pool that may or may not be running.
pub fn specs(dm: &Dm, key: &str) -> Result<(Vec<Spec>, bool)> {
    let scan = scan::scan(&[])?;
    let running = running::find(dm, key)?;
    let key = match &running {
        Some(pool) => pool.uuid.to_string(),
        None => key.to_owned(),
    };
    let pool = scan.find(&key)?.assemble(running.is_some())?;
    let metadata = match &running {
        Some(running) if pool.legs.is_empty() => {
            let path = place::of(dm, running)?.path(running)?;
            Some(MetadataDevice::open(Path::new(&path))?)
        }
        _ => metadata_device(&scan, &pool)?,
    };
    let mut specs = plan::slices(&pool);
    specs.extend(plan::mirror(&pool));
    specs.extend(metadata.map(|metadata| plan::guard(&pool, &metadata)));
    specs.push(plan::pool(&pool));
    if let Some(running) = &running {
        for volume in running.volumes(dm)?.iter().filter(|row| !row.deleting) {
            specs.push(plan::volume(&pool.name, pool.uuid, volume));
        }
    }
    Ok((specs, running.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found_pool;

    #[test]
    fn labels_are_repaired() {
        let member = found_pool().members.remove(3);
        assert_eq!(repaired_label(&member, 8), None);
        let good = Label {
            members: 9,
            ..member.label.clone()
        };
        // It is from before the pool began to grow, or has come since.
        assert_eq!(repaired_label(&member, 9), Some(good.clone()));
        let mut came = member.clone();
        came.label = Label {
            creating: true,
            ..good.clone()
        };
        assert_eq!(repaired_label(&came, 9), Some(good));
        let mut torn = member;
        torn.differs = true;
        assert_eq!(repaired_label(&torn, 8), Some(torn.label));
    }

    #[test]
    fn why_a_device_is_not_used() {
        let pool = found_pool();
        let mut other = pool.members[3].clone();
        other.path = "/dev/other".into();
        let note_of = |other: &FoundMember| note(&pool.assemble(false).unwrap(), other);
        assert!(note_of(&other).contains("that it is member 3 of pool tank, but another"));
        other.label.index = Some(8);
        other.label.creating = true;
        assert!(note_of(&other).contains("'fusion pool grow tank'"));
    }
}
