// SPDX-License-Identifier: GPL-2.0-only
//! A pool gets more members while it runs.
//!
//! That has these steps, each durable before the next:
//!
//! 1. the devices, hot spares of the pool, are checked; what was on them is wiped, and they get
//!    both copies of labels with the indexes, and the number of members, that there will be, marked
//!    as *creating*;
//! 2. the pool gets a table with them. The kernel commits the new layout, with the uuids of all
//!    members, and then all members record that;
//! 3. all labels are written with the new number of members, and without the mark;
//! 4. the kernel moves what is in bands of the old layout. It does so by itself, too.
//!
//! What a crash leaves
//!
//! - in 1, or between 1 and 2: a pool as it was. The devices are hot spares still, or, if their
//!   labels were wiped only, nothing: they can be added again; or they have labels of members that
//!   the metadata does not know. These are no members, not even missing ones (`settle` in
//!   assemble.rs). They are named when the pool is started, and taken first when it is to grow
//!   again;
//! - in 2 either that or the next: what the commit says decides, not whether it has been recorded;
//! - between 2 and 3, or in 3: a pool with more members, of which some labels do not say so. The
//!   metadata does, and the records (`count` in assemble.rs). Whoever starts the pool writes the
//!   labels (`repair_labels` in start.rs), or has it grow again;
//! - in 4 a pool that grows, and goes on with it when it is started.
//!
//! If step 2 is refused, the table is as before, and the devices are hot spares again. But if the
//! metadata may know of them, their labels stay: whatever it says when the pool is started is true.

use anyhow::{Context, Result, bail};
use fusion_format::{Label, layout};

use crate::assemble::FoundMember;
use crate::block::BlockDevice;
use crate::candidate;
use crate::devno::DevNo;
use crate::dm::{self, Dm};
use crate::interrupt;
use crate::member;
use crate::membership::Membership;
use crate::output;
use crate::running::Running;
use crate::status::PoolStatus;

/// A pool that has begun to grow.
pub struct Grown {
    pub pool: Running,
    /// So many members it had.
    pub from: usize,
    /// Those that have come.
    pub devices: Vec<String>,
}

/// A device that is going to be a member, for nobody else to use meanwhile.
struct Newcomer {
    device: BlockDevice,
    label: Label,
}

/// Steps 1 to 3. Without `wanted` it gets as many members as it can.
pub fn grow(dm: &Dm, key: &str, wanted: Option<u32>) -> Result<Grown> {
    let members = Membership::open(dm, key)?;
    let name = &members.pool.name;
    // It may have grown before, and that have been cut short.
    complete(&members);
    check_status(name, members.status()?.as_ref())?;
    let from = members.pool.table.members.len();
    let spares = members.spares()?;
    let now = u32::try_from(from)?;
    let to = target(name, now, u32::try_from(spares.len())?, wanted)?;
    let newcomers = (from..to as usize)
        .zip(&spares)
        .map(|(index, spare)| newcomer(&members, index, to, spare))
        .collect::<Result<Vec<_>>>()?;
    let devs: Vec<DevNo> = newcomers.iter().map(|new| new.device.dev).collect();
    interrupt::check()?;
    // Device-mapper wants the devices for itself.
    if let Err(error) = prepare(newcomers).and_then(|()| members.extend(&devs)) {
        give_back(&members, &devs);
        return Err(error).with_context(|| format!("pool {name} does not grow"));
    }
    let members = members.again()?;
    complete(&members);
    Ok(Grown {
        devices: devs.into_iter().map(dm::path_of).collect::<Result<_>>()?,
        pool: members.pool,
        from,
    })
}

/// May it grow now?
fn check_status(name: &str, status: Option<&PoolStatus>) -> Result<()> {
    let Some(status) = status else {
        bail!("pool {name} has failed: see the kernel's log");
    };
    let Some(from) = status.counter_of("grows_from") else {
        bail!(
            "the kernel module of pool {name} is of a version that cannot have it grow: load a newer \
             one"
        );
    };
    if from > 0 {
        bail!(
            "pool {name} grows from {from} to {} members already: have it grow again when 'fusion \
             pool status {name}' says that it has",
            status.members.len()
        );
    }
    if !status.is_writable() {
        bail!("pool {name} cannot be written to: see the kernel's log");
    }
    let other = status
        .members
        .iter()
        .position(|member| member.state != "ok");
    if let Some(index) = other {
        bail!(
            "member {index} of pool {name} is {}, and all need to be ok before it grows: have it \
             back with 'fusion device readd {name} {index}', put another in its place with 'fusion \
             device replace {name} {index}', or wait until it has all that belongs there",
            status.members[index].state
        );
    }
    Ok(())
}

/// How many members a pool of `now` is to have, which has so many hot spares.
fn target(name: &str, now: u32, spares: u32, wanted: Option<u32>) -> Result<u32> {
    let Some(next) = layout::next_order(now) else {
        bail!("pool {name} has {now} members, and no pool can have more");
    };
    let there = now + spares;
    let to = match wanted {
        None => layout::largest_order(there).unwrap_or(now).max(next),
        Some(wanted) if wanted <= now => {
            bail!("pool {name} has {now} members: it can grow to {next} or more")
        }
        Some(wanted) if layout::largest_order(wanted) != Some(wanted) => bail!(
            "no pool can have {wanted} members, as layouts exist for prime powers to {} only: the \
             next is {next}",
            layout::MAX_MEMBERS
        ),
        Some(wanted) => wanted,
    };
    if to > there {
        bail!(
            "pool {name} has {now} members, and hot spares that are large enough: {spares}; to grow to \
             {to} members it needs {} more: add them with 'fusion device add {name}'",
            to - there
        );
    }
    Ok(to)
}

/// Step 1: may it become member `index` of so many?
fn newcomer(
    members: &Membership,
    index: usize,
    count: u32,
    spare: &FoundMember,
) -> Result<Newcomer> {
    let path = spare.path.display();
    let device = BlockDevice::open_exclusive(&spare.path)?;
    let before = members.labelled(&device)?;
    if before.as_ref() != Some(&spare.label) || device.dev != spare.dev {
        bail!("{path} has changed: try again");
    }
    candidate::check_shape(&device)?;
    members.check_size(&device)?;
    let label = Label {
        members: u16::try_from(count)?,
        creating: true,
        ..members.label(Some(index), device.sectors)?
    };
    if Label::decode(&label.encode()).as_ref() != Ok(&label) {
        bail!(
            "{path} would have a label as member {index} of {count} of pool {} that this version \
             cannot read: nothing was changed",
            members.pool.name
        );
    }
    Ok(Newcomer { device, label })
}

fn prepare(newcomers: Vec<Newcomer>) -> Result<()> {
    for Newcomer { device, label } in &newcomers {
        candidate::wipe(device, &label.slice, false)?;
        member::write(device, label)?;
    }
    Ok(())
}

/// After what was refused: they are hot spares again, if the pool is as it was.
fn give_back(members: &Membership, devs: &[DevNo]) {
    let mut notes = Vec::new();
    if members.is_unchanged() {
        for &dev in devs {
            if let Err(error) = make_spare(members, dev) {
                notes.push(format!("{error:#}: it is no hot spare any more"));
            }
        }
    } else {
        let path = |&dev: &DevNo| dm::path_of(dev).unwrap_or_else(|_| dev.to_string());
        notes.push(format!(
            "whether pool {} has begun to grow is not known: stop it, leave {} where they are, and \
             start it again",
            members.pool.name,
            devs.iter().map(path).collect::<Vec<_>>().join(", ")
        ));
    }
    output::notes(&notes);
}

fn make_spare(members: &Membership, dev: DevNo) -> Result<()> {
    let device = BlockDevice::open_write(dm::path_of(dev)?.as_ref())?;
    let label = members.label(None, device.sectors)?;
    member::write(&device, &label)
}

/// Step 3. What is not done now the next start does.
fn complete(members: &Membership) {
    for index in 0..members.pool.table.members.len() {
        if let Err(error) = members.complete_label(index) {
            output::notes(&[format!(
                "the label of member {index} of pool {} does not say how many members there are \
                 ({error:#}): it will when the pool is started again",
                members.pool.name
            )]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_members() {
        for (now, spares, wanted, to) in [
            (8, 1, None, 9),
            (8, 2, None, 9),
            (8, 3, None, 11),
            (8, 3, Some(9), 9),
            (4, 1, None, 5),
            (5, 60, None, 64),
        ] {
            assert_eq!(target("tank", now, spares, wanted).unwrap(), to);
        }
        for (now, spares, wanted, what) in [
            (
                8,
                0,
                None,
                "to grow to 9 members it needs 1 more: add them with 'fusion device add tank'",
            ),
            (
                9,
                1,
                None,
                "large enough: 1; to grow to 11 members it needs 1 more",
            ),
            (8, 1, Some(11), "it needs 2 more"),
            (8, 1, Some(8), "can grow to 9 or more"),
            (8, 1, Some(0), "can grow to 9 or more"),
            (8, 4, Some(10), "no pool can have 10 members"),
            (8, 90, Some(67), "prime powers to 64 only: the next is 9"),
            (64, 9, None, "no pool can have more"),
        ] {
            let error = target("tank", now, spares, wanted).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    fn check(mode: &str, counters: &str, member: &str) -> Result<()> {
        let line = format!(
            "{mode} - 1 1/2 128 queue_if_no_space synced 6 1 1 1 1 2 {counters} \
             2 8:0 ok 0 0 0 8:1 {member} 0 0 0"
        );
        check_status("tank", PoolStatus::parse(&line).unwrap().as_ref())
    }

    #[test]
    fn when_it_may_grow() {
        let now = "1 grows_from 0";
        assert!(check("rw", now, "ok").is_ok() && check("out_of_space", now, "ok").is_ok());
        for (mode, counters, member, what) in [
            ("rw", "1 reads 5", "ok", "load a newer one"),
            (
                "rw",
                "1 grows_from 1",
                "ok",
                "grows from 1 to 2 members already",
            ),
            ("ro", now, "ok", "cannot be written to"),
            ("fail", now, "ok", "cannot be written to"),
            ("rw", now, "returning", "member 1 of pool tank is returning"),
            ("rw", now, "failed", "'fusion device replace tank 1'"),
        ] {
            let error = check(mode, counters, member).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let error = check_status("tank", None).unwrap_err().to_string();
        assert!(error.contains("has failed"), "{error}");
    }
}
