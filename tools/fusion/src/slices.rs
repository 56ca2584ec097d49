// SPDX-License-Identifier: GPL-2.0-only
//! Slices of a running pool's metadata that are lost, or on devices that are not used any more,
//! are made anew on members that are used. All labels reserve the room.
//!
//! Of one leg of the mirror after the other:
//!
//! 1. the mirror does without the leg, and the device that had it is free of it;
//! 2. other members that are used, and have labels that say that they have the leg, do not say
//!    so any more;
//! 3. dm-raid's superblock of the slice on the new device is wiped, and its label says that it has
//!    the leg;
//! 4. the mirror has the leg again, and dm-raid copies to it.
//!
//! A crash before 4 leaves a mirror with a leg less, and maybe a label that says that there is
//! one. dm-raid has not been there, so the leg is not used by a start (`leg_of` in assemble.rs).
//! After 4 dm-raid knows how far it is, and goes on. The label of a member that is out need not be
//! changed: what is on it counts no more than the member does. When that comes back, its label
//! is changed before, if another has the leg by then.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fusion_format::Label;

use crate::block::BlockDevice;
use crate::candidate;
use crate::devno::DevNo;
use crate::dm::{self, Dm, Spec, Visibility};
use crate::member;
use crate::membership::{Membership, is_out};
use crate::names;
use crate::output;
use crate::place::{self, Place};
use crate::plan;
use crate::progress;
use crate::status;

/// dm-raid's events cannot be waited for from a given one on with the library that we have.
const PERIOD: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Leg {
    /// Of rmeta and rimage; None: the mirror does without.
    parts: Option<(DevNo, DevNo)>,
    /// As in dm-raid's status.
    health: char,
    /// What the slice is on.
    on: Option<DevNo>,
}

/// None: the metadata is on a device of its own.
fn legs(dm: &Dm, members: &Membership) -> Result<Option<Vec<Leg>>> {
    let name = names::metadata_name(&members.pool.name);
    let Place::Mirror = place::of(dm, &members.pool)? else {
        return Ok(None);
    };
    let table = dm.table(&name)?;
    let now = dm.status(&name)?;
    let parts = table
        .first()
        .and_then(|target| status::parse_mirror_legs(&target.params))
        .with_context(|| format!("{name} is no mirror of ours"))?;
    let health = now
        .first()
        .and_then(|target| status::parse_mirror_health(&target.params))
        .unwrap_or_default();
    let pool = &members.pool.name;
    (0..)
        .zip(parts)
        .zip(health.chars())
        .map(|((leg, parts), health)| {
            let on = match parts {
                Some(_) => dm
                    .table(&names::image_name(pool, leg))?
                    .first()
                    .and_then(|target| DevNo::parse(target.params.split(' ').next()?)),
                None => None,
            };
            Ok(Leg { parts, health, on })
        })
        .collect::<Result<Vec<_>>>()
        .map(Some)
}

/// The mirror with these legs; those in `rebuild` are copied to.
fn table(members: &Membership, legs: &[Leg], rebuild: Option<usize>) -> Result<Spec> {
    let name = names::metadata_name(&members.pool.name);
    let sectors = members
        .dm
        .table(&name)?
        .first()
        .map_or(0, |target| target.sectors);
    let parts: String = legs
        .iter()
        .map(|leg| match leg.parts {
            Some((rmeta, image)) => format!(" {rmeta} {image}"),
            None => " - -".into(),
        })
        .collect();
    let options = match rebuild {
        Some(leg) => format!("3 0 rebuild {leg}"),
        None => "1 0".into(),
    };
    Ok(Spec {
        name,
        // It has one already.
        uuid: String::new(),
        visibility: Visibility::Private,
        sectors,
        target: "raid",
        params: format!("raid1 {options} {}{parts}", legs.len()),
    })
}

/// Step 1. Refused if no other is in sync.
fn drop_leg(members: &Membership, legs: &mut [Leg], leg: usize) -> Result<()> {
    let name = &members.pool.name;
    let others = (0..legs.len()).filter(|&other| other != leg);
    if !others.into_iter().any(|other| legs[other].health == 'A') {
        bail!(
            "the metadata of pool {name} is in sync on no other device than that which has slice \
             {leg}: it cannot be done without"
        );
    }
    if legs[leg].parts.is_some() {
        legs[leg] = Leg {
            parts: None,
            health: '-',
            on: None,
        };
        members.dm.reload(&table(members, legs, None)?)?;
    }
    for part in [names::rmeta_name(name, leg), names::image_name(name, leg)] {
        members.dm.remove(&part, Visibility::Private)?;
    }
    Ok(())
}

/// A device that is free, or is to be, has no slice any more that is in use.
pub fn release(members: &Membership, dev: DevNo) -> Result<()> {
    let Some(mut legs) = legs(members.dm, members)? else {
        return Ok(());
    };
    for leg in 0..legs.len() {
        if legs[leg].on == Some(dev) {
            drop_leg(members, &mut legs, leg)?;
        }
    }
    Ok(())
}

/// The label of a device that is to be a member again says that it has a slice that is on
/// another one: it is not to.
pub fn disclaim(members: &Membership, device: &Path, dev: DevNo, label: &Label) -> Result<()> {
    let Some(leg) = label.slice.leg else {
        return Ok(());
    };
    let legs = legs(members.dm, members)?.unwrap_or_default();
    let elsewhere = legs
        .get(usize::from(leg))
        .is_some_and(|leg| leg.on.is_some_and(|on| on != dev));
    if elsewhere {
        let mut label = label.clone();
        label.slice.leg = None;
        member::rewrite(device, &label)?;
    }
    Ok(())
}

/// A member that is used.
struct Used {
    index: usize,
    dev: DevNo,
    path: PathBuf,
    label: Label,
}

fn used(members: &Membership) -> Result<Vec<Used>> {
    let mut used = Vec::new();
    for (index, state) in members.states()?.iter().enumerate() {
        let Some(dev) = members.device(index) else {
            continue;
        };
        if is_out(state) {
            continue;
        }
        let path = PathBuf::from(dm::path_of(dev)?);
        let label = members.labelled(&BlockDevice::open_read(&path)?)?;
        if let Some(label) = label {
            used.push(Used {
                index,
                dev,
                path,
                label,
            });
        }
    }
    Ok(used)
}

/// Makes slices anew that are lost, if they can be: on member `prefer` first. Returns which.
/// Waits until they are in sync.
pub fn repair(members: &Membership, prefer: Option<usize>) -> Result<Vec<usize>> {
    let Some(mut legs) = legs(members.dm, members)? else {
        return Ok(Vec::new());
    };
    let mut done = Vec::new();
    for leg in 0..legs.len() {
        let used = used(members)?;
        let well = |leg: &Leg| {
            leg.health.eq_ignore_ascii_case(&'a')
                && used.iter().any(|used| leg.on == Some(used.dev))
        };
        if well(&legs[leg]) {
            continue;
        }
        let claims = |used: &Used| used.label.slice.leg.map(usize::from) == Some(leg);
        let free = used
            .iter()
            .filter(|used| !legs.iter().any(|leg| leg.on == Some(used.dev)))
            .min_by_key(|used| (!claims(used), Some(used.index) != prefer, used.index));
        let Some(target) = free else {
            output::notes(&[format!(
                "no member of pool {} that is used has room for slice {leg} of its metadata: have \
                 another member back first",
                members.pool.name
            )]);
            continue;
        };
        drop_leg(members, &mut legs, leg)?;
        for other in used.iter().filter(|other| claims(other)) {
            if other.index != target.index {
                let mut label = other.label.clone();
                label.slice.leg = None;
                member::rewrite(&other.path, &label)?;
            }
        }
        make_leg(members, &mut legs, leg, target).with_context(|| {
            format!(
                "slice {leg} of the metadata of pool {} was not made anew on {}",
                members.pool.name,
                target.path.display()
            )
        })?;
        done.push(leg);
    }
    Ok(done)
}

/// Steps 3 and 4.
fn make_leg(members: &Membership, legs: &mut [Leg], leg: usize, target: &Used) -> Result<()> {
    let mut label = target.label.clone();
    label.slice.leg = None;
    let device = BlockDevice::open_write(&target.path)?;
    candidate::wipe_slice(&device, &label.slice)?;
    label.slice.leg = Some(u16::try_from(leg)?);
    member::write(&device, &label)?;
    drop(device);
    let mut devs = Vec::new();
    for spec in plan::slice(
        &members.pool.name,
        members.pool.uuid,
        leg,
        &target.path,
        &label,
    ) {
        devs.push(members.dm.create(&spec)?);
    }
    let before = legs[leg].clone();
    legs[leg] = Leg {
        parts: Some((devs[0], devs[1])),
        health: 'a',
        on: Some(target.dev),
    };
    if let Err(error) = members.dm.reload(&table(members, legs, Some(leg))?) {
        legs[leg] = before;
        // The first error is the one to report.
        let _ = drop_leg(members, legs, leg);
        return Err(error);
    }
    wait_for(members, leg)?;
    legs[leg].health = 'A';
    Ok(())
}

/// Until the leg is in sync.
fn wait_for(members: &Membership, leg: usize) -> Result<()> {
    let name = names::metadata_name(&members.pool.name);
    let params = |dm: &Dm| -> Result<String> {
        let now = dm.status(&name)?;
        Ok(now
            .first()
            .map(|now| now.params.clone())
            .unwrap_or_default())
    };
    progress::watch(
        &format!("copying the metadata of {}", members.pool.name),
        || {
            let dm = Dm::open()?;
            loop {
                let health = status::parse_mirror_health(&params(&dm)?).unwrap_or_default();
                match health.chars().nth(leg) {
                    Some('A') => return Ok(()),
                    Some('a') => sleep(PERIOD),
                    _ => bail!("the device failed while it was copied to"),
                }
            }
        },
        || status::parse_mirror_progress(&params(members.dm).ok()?),
    )
}
