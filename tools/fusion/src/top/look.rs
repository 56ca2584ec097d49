// SPDX-License-Identifier: GPL-2.0-only
//! What is read of running pools at one moment, without waiting for a commit.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::dm::Dm;
use crate::place;
use crate::report::{self, MemberReport};
use crate::running::{self, Running};
use crate::status::{PoolStatus, Pulse, Volume};

use super::iostat::IoStat;

/// A pool at one moment.
pub struct Look {
    pub at: Instant,
    pub pool: Running,
    pub suspended: bool,
    /// None: the pool is in fail mode.
    pub status: Option<PoolStatus>,
    /// A letter for each leg of the metadata's mirror.
    pub mirror: Option<String>,
    pub members: Vec<MemberReport>,
    /// Of the members; none: a suspended pool does not say.
    pub pulses: Vec<Pulse>,
    /// Those that have a device, and what that has done.
    pub volumes: Vec<(Volume, Option<IoStat>)>,
}

impl Look {
    pub fn new(dm: &Dm, pool: Running) -> Result<Self> {
        let info = dm
            .info(&pool.name)?
            .with_context(|| format!("pool {} has been stopped", pool.name))?;
        let at = Instant::now();
        let status = pool.status(dm)?;
        let pulses = if info.suspended {
            Vec::new()
        } else {
            Pulse::parse_all(&dm.message(&pool.name, "pulse")?)?
        };
        let place = place::of(dm, &pool)?;
        let volumes = pool.active_volumes(dm)?.unwrap_or_default();
        let volumes = volumes
            .into_iter()
            .map(|volume| {
                let stat = pool
                    .device_of(&volume)
                    .and_then(|device| IoStat::read(device.dev));
                (volume, stat)
            })
            .collect();
        Ok(Self {
            at,
            suspended: info.suspended,
            mirror: report::mirror_health(dm, &pool, &place),
            members: report::member_reports(&pool, status.as_ref()),
            status,
            pulses,
            volumes,
            pool,
        })
    }
}

/// Looks at the pool of that name or uuid, or at all; those that are there, by name. `before` is
/// what the last look found. An error if there is none.
pub fn all(dm: &Dm, key: Option<&str>, before: &[Look]) -> Result<Vec<Look>> {
    if let Some(key) = key {
        // What is told of one that was there, and is not any more, is another thing.
        if before.is_empty() {
            return Ok(vec![Look::new(dm, running::need(dm, key)?)?]);
        }
    }
    let pools = running::again(dm, before.iter().map(|look| &look.pool))?;
    let mut looks = Vec::new();
    for pool in pools {
        if key.is_some_and(|key| !pool.is(key)) {
            continue;
        }
        let name = pool.name.clone();
        match Look::new(dm, pool) {
            Ok(look) => looks.push(look),
            // It may go while we look.
            Err(_) if dm.info(&name)?.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    if looks.is_empty() {
        let names: Vec<&str> = before.iter().map(|look| look.pool.name.as_str()).collect();
        match names[..] {
            [] => bail!(
                "no pool is running: 'fusion pool list' shows the pools there are, and 'fusion pool \
                 start' starts one"
            ),
            [name] => bail!(
                "pool {name} is not running any more: start it with 'fusion pool start {name}'"
            ),
            _ => bail!(
                "none of the pools {} is running any more: start one with 'fusion pool start'",
                names.join(", ")
            ),
        }
    }
    Ok(looks)
}
