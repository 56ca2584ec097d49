// SPDX-License-Identifier: GPL-2.0-only
//! Work on a whole pool that the kernel does as long as somebody waits for it, or by itself.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::dm::Dm;
use crate::progress;
use crate::running::Running;
use crate::status::PoolStatus;

/// How often it is looked whether a pool has grown.
const GROWING_PERIOD: Duration = Duration::from_millis(500);

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

/// Waits until nothing is where it was before the pool began to grow; how many blocks that were.
pub fn grow(dm: &Dm, pool: &Running) -> Result<u64> {
    let total = status(dm, pool)?.counter("growing_blocks");
    progress::watch(
        &format!("moving what is in {}", pool.name),
        || {
            let dm = Dm::open()?;
            while !has_grown(&pool.name, &status(&dm, pool)?)? {
                sleep(GROWING_PERIOD);
            }
            Ok(())
        },
        || {
            let left = status(dm, pool).ok()?.counter("growing_blocks");
            Some((total.saturating_sub(left), total))
        },
    )
    .map(|()| total)
}

/// An error: it does not go on.
fn has_grown(name: &str, status: &PoolStatus) -> Result<bool> {
    if status.counter("grows_from") == 0 {
        return Ok(true);
    }
    if !status.is_writable() {
        bail!(
            "pool {name} cannot be written to: see the kernel's log; it goes on to grow when it is \
             started again"
        );
    }
    Ok(false)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_a_pool_has_grown() {
        let status = |mode: &str, from: u32| {
            let line = format!(
                "{mode} - 1 1/2 128 queue_if_no_space synced 6 1 1 1 1 2 2 grows_from {from} \
                 growing_blocks 7 0"
            );
            PoolStatus::parse(&line).unwrap().unwrap()
        };
        for (mode, from, done) in [
            ("rw", 8, false),
            ("out_of_space", 8, false),
            ("ro", 0, true),
        ] {
            assert_eq!(has_grown("tank", &status(mode, from)).unwrap(), done);
        }
        for mode in ["ro", "fail"] {
            let error = has_grown("tank", &status(mode, 8)).unwrap_err().to_string();
            assert!(error.contains("cannot be written to"), "{error}");
        }
    }
}
