// SPDX-License-Identifier: GPL-2.0-only

use anyhow::{Context, Result};

use crate::cli::DeviceCommand;
use crate::dm::Dm;
use crate::lock::Lock;
use crate::membership::Membership;
use crate::replace::{self, Returned};
use crate::{background, interrupt, output, running, slices};

pub fn run(command: DeviceCommand, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    match command {
        DeviceCommand::Fail { pool, member } => fail(&dm, &pool, &member, json),
        DeviceCommand::Replace {
            pool,
            member,
            new,
            force,
            no_wait,
        } => {
            let replace = || replace::replace(&dm, &pool, &member, new.as_deref(), force);
            back(&dm, replace, "replaced", no_wait, json)
        }
        DeviceCommand::Readd {
            pool,
            member,
            device,
            no_wait,
        } => {
            let readd = || replace::readd(&dm, &pool, &member, device.as_deref());
            back(&dm, readd, "readded", no_wait, json)
        }
        DeviceCommand::Rebuild { pool } => rebuild(&dm, &pool, json),
        DeviceCommand::Add {
            pool,
            device,
            force,
        } => {
            let _lock = Lock::take()?;
            interrupt::defer();
            let (pool, device) = replace::add(&dm, &pool, &device, force)?;
            if json {
                return output::json(&serde_json::json!({
                    "pool": pool.name, "device": device, "added": true,
                }));
            }
            output::line(&format!("{device} is a hot spare of pool {}", pool.name));
            Ok(())
        }
        DeviceCommand::Remove { pool, which } => remove(&dm, &pool, &which, json),
    }
}

fn fail(dm: &Dm, pool: &str, member: &str, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    let pool = running::need(dm, pool)?;
    let index = pool.member(member)?;
    dm.message(&pool.name, &format!("fail {index}"))?;
    if json {
        return output::json(&serde_json::json!({
            "pool": pool.name, "member": index, "failed": true,
        }));
    }
    output::line(&format!(
        "member {index} of pool {} is not used any more: rebuild what was on it with \
         'fusion device rebuild {}'",
        pool.name, pool.name
    ));
    Ok(())
}

/// A member is returned by `work`, and gets what belongs there. Nobody has to wait for that with
/// the lock, or to the end: it goes on by itself.
fn back(
    dm: &Dm,
    work: impl FnOnce() -> Result<Returned>,
    done: &str,
    no_wait: bool,
    json: bool,
) -> Result<()> {
    let lock = Lock::take()?;
    interrupt::defer();
    let Returned {
        pool,
        index,
        device,
    } = work()?;
    drop(lock);
    interrupt::allow();
    let rebuilt = if no_wait {
        None
    } else {
        let rebuilt = background::fill(dm, &pool, index).with_context(|| {
            format!(
                "{device} is member {index} of pool {}, but has not got all that belongs there",
                pool.name
            )
        })?;
        Some(rebuilt)
    };
    if json {
        return output::json(&serde_json::json!({
            "pool": pool.name, "member": index, "device": device, done: true, "rebuilt": rebuilt,
        }));
    }
    output::line(&match rebuilt {
        Some(stripes) => format!(
            "{device} is member {index} of pool {}: {stripes} stripes rebuilt",
            pool.name
        ),
        None => format!(
            "{device} is member {index} of pool {}: what belongs there is being written; wait for \
             it with 'fusion device rebuild {}'",
            pool.name, pool.name
        ),
    });
    Ok(())
}

fn rebuild(dm: &Dm, pool: &str, json: bool) -> Result<()> {
    let pool = running::need(dm, pool)?;
    let lock = Lock::take()?;
    // One without labels has its metadata elsewhere.
    if let Ok(members) = Membership::open(dm, &pool.name) {
        slices::repair(&members, None)?;
    }
    drop(lock);
    let stripes = background::rebuild(dm, &pool)?;
    if json {
        return output::json(&serde_json::json!({ "pool": pool.name, "rebuilt": stripes }));
    }
    output::line(&format!("pool {}: {stripes} stripes rebuilt", pool.name));
    Ok(())
}

fn remove(dm: &Dm, pool: &str, which: &str, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let removed = replace::remove(dm, pool, which)?;
    let name = &removed.pool.name;
    if json {
        return output::json(&serde_json::json!({
            "pool": name, "member": removed.index, "device": removed.device, "removed": true,
            "wiped": removed.wiped,
        }));
    }
    let device = &removed.device;
    output::line(&match removed.index {
        Some(index) => format!("{device} is not member {index} of pool {name} any more"),
        None => format!("{device} is no part of pool {name} any more"),
    });
    Ok(())
}
