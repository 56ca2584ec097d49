// SPDX-License-Identifier: GPL-2.0-only
//! Work on a whole pool that the kernel does as long as somebody waits for it.

use anyhow::{Context, Result};

use crate::dm::Dm;
use crate::progress;
use crate::running::Running;
use crate::status::PoolStatus;

/// What a conversion did, in sets of stripes, and left, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    pub sets: u64,
    /// They were being written.
    pub gave_up: u64,
    pub replicated: u64,
}

/// What a scrub found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    pub stripes: u64,
    /// That are replicated.
    pub blocks: u64,
    /// Stripes whose parity does not fit, and blocks whose replicas differ.
    pub mismatches: u64,
    /// Of these, and of stripes whose parity could not be read, what was written again.
    pub repaired: u64,
    /// Some do not fit still.
    pub wrong: bool,
}

fn status(dm: &Dm, pool: &Running) -> Result<PoolStatus> {
    pool.status(dm)?
        .with_context(|| format!("pool {} has failed: see the kernel's log", pool.name))
}

/// Of counters that only grow.
fn grown(before: &PoolStatus, after: &PoolStatus, name: &str) -> u64 {
    after.counter(name).saturating_sub(before.counter(name))
}

pub fn convert(dm: &Dm, pool: &Running) -> Result<Converted> {
    let before = status(dm, pool)?;
    let total = before.space.replicated;
    progress::watch(
        &format!("converting {}", pool.name),
        || Dm::open()?.message(&pool.name, "convert"),
        || {
            let now = status(dm, pool).ok()?;
            Some((total.saturating_sub(now.space.replicated), total))
        },
    )?;
    let after = status(dm, pool)?;
    Ok(Converted {
        sets: grown(&before, &after, "converted"),
        gave_up: grown(&before, &after, "convert_gave_up"),
        replicated: after.space.replicated,
    })
}

/// How many stripes were rebuilt.
pub fn rebuild(dm: &Dm, pool: &Running) -> Result<u64> {
    rebuild_for(dm, pool, |_| false)
}

/// Until member `index` has all that belongs there; how many stripes were rebuilt meanwhile. What
/// others lack, which are still out, is no error.
pub fn fill(dm: &Dm, pool: &Running, index: usize) -> Result<u64> {
    rebuild_for(dm, pool, |now| now.members[index].state == "ok")
}

/// An error, unless that is `enough`.
fn rebuild_for(dm: &Dm, pool: &Running, enough: impl Fn(&PoolStatus) -> bool) -> Result<u64> {
    let before = status(dm, pool)?;
    let message = progress::watch(
        &format!("rebuilding {}", pool.name),
        || Dm::open()?.message(&pool.name, "rebuild"),
        || {
            let now = status(dm, pool).ok()?;
            let done = grown(&before, &now, "rebuilt");
            Some((done, done + now.counter("rebuild_todo")))
        },
    );
    let after = status(dm, pool);
    match message {
        Err(error) if !after.as_ref().is_ok_and(enough) => Err(error),
        _ => Ok(grown(&before, &after?, "rebuilt")),
    }
}

pub fn scrub(dm: &Dm, pool: &Running, repair: bool, restart: bool) -> Result<Scrubbed> {
    if restart {
        dm.message(&pool.name, "scrub_restart")?;
    }
    let before = status(dm, pool)?;
    let message = progress::watch(
        &format!("scrubbing {}", pool.name),
        || Dm::open()?.message(&pool.name, if repair { "repair" } else { "scrub" }),
        || {
            let now = status(dm, pool).ok()?;
            Some((now.counter("scrub_at"), now.counter("scrub_end")))
        },
    );
    let after = status(dm, pool)?;
    let found = Scrubbed {
        stripes: grown(&before, &after, "scrubbed"),
        blocks: grown(&before, &after, "scrub_blocks"),
        mismatches: grown(&before, &after, "scrub_mismatches"),
        repaired: grown(&before, &after, "scrub_repaired"),
        wrong: message.is_err(),
    };
    // That parity does not fit is an error of the message's, too, but an answer here.
    match message {
        Err(error) if found.mismatches == 0 => Err(error),
        _ => Ok(found),
    }
}
