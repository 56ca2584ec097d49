// SPDX-License-Identifier: GPL-2.0-only
//! Another device takes the place of a member, one that was out comes back, hot spares.
//!
//! A replacement has these steps, each durable before the next:
//!
//! 1. the new device is checked; a member that is used still is failed;
//! 2. what was on the new device is wiped, and it gets both copies of its label, with the index
//!    of the member, and a uuid of its own;
//! 3. the pool gets a table with it;
//! 4. by the message `replace` the kernel commits that this uuid is the member's, and that it is
//!    used; all members record that;
//! 5. slices of the metadata that are on devices that are not used are made anew (slices.rs), and
//!    the label of the old device is wiped, if that is there and can be written;
//! 6. the kernel rebuilds what belongs there. It does so by itself, too.
//!
//! What a crash leaves
//!
//! - between 1 and 2: a member that has failed. A hot spare is one still, or, if its label was
//!   wiped only, nothing: it can be added again;
//! - between 2 and 4: a member that is out, and two devices with its index, or the new one alone
//!   if the other is gone. The metadata has the uuid of the old one: so that one counts if it is
//!   there, and could come back (`settle` in assemble.rs). Nothing is read from either, as the
//!   member is out. The new one is named when the pool is started, and the replacement may be
//!   done again with it, without force: its label is of that member;
//! - between 4 and 5, or if the old one could not be written: two with the same index again. The
//!   metadata has the uuid of the new one, and counts it as used. The old one is never taken for
//!   it, not even while the new one is away;
//! - in 4 either the one or the other: what the commit says decides, not whether it has been
//!   recorded.
//!
//! If step 3 or 4 is refused, the table is as before, and the label is wiped again. A member that
//! was failed stays so.
//!
//! One that comes back is given to the kernel by a table, and then by the message `readd`; its
//! label is as it was. Only the kernel knows whether what is on it counts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::assemble::is_newcomer;
use crate::block::BlockDevice;
use crate::candidate;
use crate::devno::DevNo;
use crate::dm::{self, Dm};
use crate::interrupt;
use crate::member;
use crate::membership::Membership;
use crate::output;
use crate::running::Running;
use crate::slices;

/// A member that has a device again.
pub struct Returned {
    pub pool: Running,
    pub index: usize,
    pub device: String,
}

/// Steps 1 to 5. Without `new` a hot spare is taken.
pub fn replace(
    dm: &Dm,
    key: &str,
    member: &str,
    new: Option<&Path>,
    force: bool,
) -> Result<Returned> {
    let members = Membership::open(dm, key)?;
    let index = members.index(member)?;
    let path = match new {
        Some(path) => path.to_owned(),
        None => members.hot_spare()?,
    };
    let old = members.device(index);
    let device = open_new(&members, index, &path, force)?;
    interrupt::check()?;
    if !members.is_out(index)? {
        dm.message(&members.pool.name, &format!("fail {index}"))?;
    }
    let label = members.label(Some(index), device.sectors)?;
    let before = members.labelled(&device)?;
    candidate::wipe(&device, &label.slice, force)?;
    member::write(&device, &label)?;
    let dev = device.dev;
    drop(device);

    let taken = take(&members, index, old, dev, &format!("replace {index}"));
    if let Err(error) = taken {
        if old != Some(dev) {
            // The first error is the one to report.
            let _ = BlockDevice::open_write(&path).and_then(|device| match &before {
                Some(label) => member::write(&device, label),
                None => member::wipe(&device),
            });
        }
        return Err(error).with_context(|| {
            format!(
                "{} did not take the place of member {index} of pool {}",
                path.display(),
                members.pool.name
            )
        });
    }
    let members = members.again()?;
    repair(&members, Some(index));
    for old in old_devices(&members, index, old, dev) {
        if let Err(error) = members.forget(&old) {
            output::notes(&[format!(
                "{} was member {index} of pool {}, and its label cannot be wiped ({error:#}): it is \
                 ignored from now on",
                old.display(),
                members.pool.name
            )]);
        }
    }
    Ok(Returned {
        device: dm::path_of(dev)?,
        pool: members.pool,
        index,
    })
}

/// Slices of the metadata are made anew; what is not done now `device rebuild` does.
fn repair(members: &Membership, prefer: Option<usize>) {
    if let Err(error) = slices::repair(members, prefer) {
        output::notes(&[format!(
            "{error:#}: try again with 'fusion device rebuild {}'",
            members.pool.name
        )]);
    }
}

/// Step 3 and 4; the table is as before if that fails.
fn take(
    members: &Membership,
    index: usize,
    old: Option<DevNo>,
    new: DevNo,
    message: &str,
) -> Result<()> {
    if old != Some(new) {
        members.reload(index, Some(new))?;
    }
    let Err(error) = members.dm.message(&members.pool.name, message) else {
        return Ok(());
    };
    if old != Some(new) {
        // The old one may not be there any more, or have no label.
        let back = members.reload(index, old);
        if let Err(again) = back.or_else(|_| members.reload(index, None)) {
            output::notes(&[format!("{again:#}")]);
        }
    }
    Err(error)
}

/// What was member `index` before, and is not in the table any more.
fn old_devices(members: &Membership, index: usize, old: Option<DevNo>, new: DevNo) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = old
        .filter(|&old| old != new)
        .and_then(|old| dm::path_of(old).ok())
        .map(PathBuf::from)
        .into_iter()
        .collect();
    match members.find_away(index) {
        Ok(found) => paths.extend(
            found
                .into_iter()
                .filter(|member| member.dev != new)
                .map(|member| member.path),
        ),
        Err(error) => output::notes(&[format!("{error:#}")]),
    }
    paths
}

/// Step 1: may it take the place of member `index`? Nobody else uses it meanwhile.
fn open_new(members: &Membership, index: usize, path: &Path, force: bool) -> Result<BlockDevice> {
    let pool = &members.pool.name;
    let dev = BlockDevice::open_read(path)?.dev;
    let device = match members.pool.member(&path.to_string_lossy()) {
        Ok(other) if other != index => bail!(
            "{} is member {other} of pool {pool}: use another device",
            path.display()
        ),
        Ok(_) if !members.is_out(index)? => bail!(
            "{} is member {index} of pool {pool}, and used: name a device that is to take its \
             place, or fail it first, if what is on it does not count any more",
            path.display()
        ),
        // The pool has it open.
        Ok(_) => BlockDevice::open_write(path)?,
        Err(_) => BlockDevice::open_exclusive(path)?,
    };
    // It has not become another one meanwhile.
    if device.dev != dev {
        bail!("{} has changed: try again", path.display());
    }
    let label = members.labelled(&device)?;
    let count = members.pool.table.members.len();
    let ours = label.is_some_and(|label| {
        let fits = label.index.is_none_or(|other| usize::from(other) == index);
        (fits && !label.creating) || is_newcomer(&label, count)
    });
    candidate::check(&device, force || ours)?;
    members.check_size(&device)?;
    Ok(device)
}

/// A member that was out is back: what is on it counts, if the kernel agrees.
pub fn readd(dm: &Dm, key: &str, member: &str, device: Option<&Path>) -> Result<Returned> {
    let members = Membership::open(dm, key)?;
    let index = members.index(member)?;
    let name = &members.pool.name;
    if !members.is_out(index)? {
        bail!(
            "member {index} of pool {name} is used ({}): there is nothing to do",
            members.state(index)?
        );
    }
    let path = match device {
        Some(path) => path.to_owned(),
        None => members.find(index)?,
    };
    let device = BlockDevice::open_read(&path)?;
    let label = members.labelled(&device)?;
    let label = label.filter(|label| label.index.map(usize::from) == Some(index));
    let Some(label) = label else {
        bail!(
            "{} was not member {index} of pool {name}: put it in its place with 'fusion device \
             replace {name} {index} {}'",
            path.display(),
            path.display()
        );
    };
    let dev = device.dev;
    drop(device);
    interrupt::check()?;
    slices::disclaim(&members, &path, dev, &label)?;
    let old = members.device(index);
    take(&members, index, old, dev, &format!("readd {index}")).map_err(|error| {
        anyhow!(
            "{} did not come back as member {index} of pool {name}: {error:#}; where that says to \
             replace it: 'fusion device replace {name} {index} {}' uses it as an empty one",
            path.display(),
            path.display()
        )
    })?;
    let members = members.again()?;
    repair(&members, Some(index));
    Ok(Returned {
        device: dm::path_of(dev)?,
        pool: members.pool,
        index,
    })
}

/// Makes a device a hot spare.
pub fn add(dm: &Dm, key: &str, path: &Path, force: bool) -> Result<(Running, String)> {
    let members = Membership::open(dm, key)?;
    let name = &members.pool.name;
    let device = BlockDevice::open_exclusive(path)?;
    // It was to be a member when the pool was to grow, which was cut short.
    let mut newcomer = false;
    if let Some(label) = members.labelled(&device)? {
        let count = members.pool.table.members.len();
        newcomer = is_newcomer(&label, count);
        match label.index {
            None => bail!("{} is a hot spare of pool {name} already", path.display()),
            Some(index) if !force && !newcomer => bail!(
                "{path} has the label of member {index} of pool {name}: wipe it with 'fusion device \
                 remove {name} {path}', or give --force",
                path = path.display()
            ),
            Some(_) => {}
        }
    }
    candidate::check(&device, force || newcomer)?;
    members.check_size(&device)?;
    interrupt::check()?;
    let label = members.label(None, device.sectors)?;
    candidate::wipe(&device, &label.slice, force)?;
    member::write(&device, &label)?;
    let path = dm::path_of(device.dev)?;
    Ok((members.pool, path))
}

/// What was removed from a pool.
pub struct Removed {
    pub pool: Running,
    /// None: it was no member.
    pub index: Option<usize>,
    pub device: String,
    /// Its label is wiped.
    pub wiped: bool,
}

/// A hot spare, a device that was a member once, or that of a member that is out.
pub fn remove(dm: &Dm, key: &str, which: &str) -> Result<Removed> {
    let members = Membership::open(dm, key)?;
    let name = members.pool.name.clone();
    let number = which.parse::<usize>().is_ok();
    let index = match members.pool.member(which) {
        Ok(index) => Some(index),
        Err(error) if number => return Err(error),
        Err(_) => None,
    };
    let Some(index) = index else {
        let device = BlockDevice::open_exclusive(Path::new(which))?;
        if members.labelled(&device)?.is_none() {
            bail!("{which} has no label of pool {name}: it is no part of it");
        }
        interrupt::check()?;
        member::wipe(&device)?;
        return Ok(Removed {
            device: dm::path_of(device.dev)?,
            pool: members.pool,
            index: None,
            wiped: true,
        });
    };
    if !members.is_out(index)? {
        bail!(
            "member {index} of pool {name} is used: fail it first with 'fusion device fail {name} \
             {index}', or put another in its place with 'fusion device replace {name} {index}'"
        );
    }
    let Some(dev) = members.device(index) else {
        bail!("member {index} of pool {name} has no device: there is nothing to remove");
    };
    let device = dm::path_of(dev).unwrap_or_else(|_| dev.to_string());
    interrupt::check()?;
    slices::release(&members, dev)?;
    members.reload(index, None)?;
    let forgotten = members.forget(Path::new(&device));
    let wiped = forgotten.is_ok();
    if let Err(error) = forgotten {
        output::notes(&[format!(
            "the label of {device} cannot be wiped ({error:#}): do not attach it again"
        )]);
    }
    Ok(Removed {
        pool: members.again()?.pool,
        index: Some(index),
        device,
        wiped,
    })
}
