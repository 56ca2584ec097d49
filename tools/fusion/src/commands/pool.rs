// SPDX-License-Identifier: GPL-2.0-only

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::block;
use crate::cli::{OneOrAll, PoolCommand, PoolCreateArgs};
use crate::commands::volume;
use crate::create::{self, Request};
use crate::dm::Dm;
use crate::grow::Grown;
use crate::lock::Lock;
use crate::output::{self, Table};
use crate::report::{PoolReport, PoolSummary};
use crate::running::{self, Running};
use crate::settings::{self, Setting};
use crate::start::When;
use crate::{ask, background, grow, interrupt, scan, size, start, stopped};

pub fn run(command: PoolCommand, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    match command {
        PoolCommand::Create(args) => create(&dm, args, json),
        PoolCommand::Start {
            which,
            force: _,
            automatic: Some(when),
        } => start_automatically(&dm, &which, when, json),
        PoolCommand::Start { which, force, .. } => start(&dm, &which, force, json),
        PoolCommand::Stop(which) => stop(&dm, &which, json),
        PoolCommand::Status { name } => status(&dm, name.as_deref(), json),
        PoolCommand::List => list(&dm, json),
        PoolCommand::Grow {
            pool,
            members,
            no_wait,
        } => grow(&dm, &pool, members, no_wait, json),
        PoolCommand::Set { pool, settings } => set(&dm, &pool, &settings, json),
        PoolCommand::Destroy { name, yes } => destroy(&dm, &name, yes, json),
    }
}

fn create(dm: &Dm, args: PoolCreateArgs, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let request = Request {
        name: args.name,
        devices: args.devices,
        block_sectors: args.block_size,
        spares: args.spares,
        metadata: args.metadata,
        error_if_no_space: args.error_if_no_space,
        no_discard_passdown: args.no_discard_passdown,
        no_journal: args.no_journal,
        force: args.force,
    };
    let mut notes = Vec::new();
    let pool = create::create(dm, &request, &mut notes)?;
    output::notes(&notes);
    answer(dm, &[pool], "created and running", json)
}

/// Shows one pool as an object and several as a list; people get a line for each.
fn answer(dm: &Dm, pools: &[Running], done: &str, json: bool) -> Result<()> {
    let scan = scan::scan(&[])?;
    let reports = pools
        .iter()
        .map(|pool| PoolReport::new(dm, pool, Some(&scan)))
        .collect::<Result<Vec<_>>>()?;
    if json {
        return match &reports[..] {
            [report] => output::json(report),
            reports => output::json(&reports),
        };
    }
    for report in &reports {
        output::line(&format!(
            "pool {} is {done}: {} members, {} in blocks of {}, {} volumes",
            report.name,
            report.members.len(),
            size::display(report.space.total_bytes),
            size::display(report.block_bytes),
            report.volumes.len()
        ));
    }
    Ok(())
}

fn start(dm: &Dm, which: &OneOrAll, force: bool, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let scan = scan::scan(&[])?;
    if let Some(name) = &which.name {
        let pool = start::start(dm, &scan, name, force)?;
        return answer(dm, &[pool], "running", json);
    }
    let running = running::all(dm)?;
    let mut started = Vec::new();
    let mut errors = Vec::new();
    for pool in scan.known_pools() {
        if running.iter().any(|other| other.uuid == pool.uuid) {
            continue;
        }
        match start::start(dm, &scan, &pool.uuid.to_string(), force) {
            Ok(pool) => started.push(pool),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if json || !started.is_empty() {
        answer_all(dm, &started, json)?;
    }
    all_well(&errors)
}

/// Always a list in JSON.
fn answer_all(dm: &Dm, pools: &[Running], json: bool) -> Result<()> {
    if !json {
        return answer(dm, pools, "running", json);
    }
    let reports = pools
        .iter()
        .map(|pool| PoolReport::new(dm, pool, None))
        .collect::<Result<Vec<_>>>()?;
    output::json(&reports)
}

fn start_automatically(dm: &Dm, which: &OneOrAll, when: When, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let scan = scan::scan(&[])?;
    let keys: Vec<String> = match &which.name {
        Some(name) => vec![name.clone()],
        None => scan
            .known_pools()
            .map(|pool| pool.uuid.to_string())
            .collect(),
    };
    let mut started = Vec::new();
    let mut errors = Vec::new();
    for key in keys {
        match start::start_automatically(dm, &scan, &key, when) {
            Ok(Ok(pool)) => started.push(pool),
            Ok(Err(reason)) => output::notes(&[format!("pool {key} is not started: {reason}")]),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    answer_all(dm, &started, json)?;
    all_well(&errors)
}

/// Stops it for as long as nobody says otherwise.
fn stop_by_hand(dm: &Dm, pool: &Running) -> Result<()> {
    // First: events of its members come as soon as it has let them go.
    stopped::mark(pool.uuid);
    start::stop(dm, pool).inspect_err(|_| stopped::clear(pool.uuid))
}

fn stop(dm: &Dm, which: &OneOrAll, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    let answer = |pool: &Running| {
        serde_json::json!({
            "name": pool.name, "uuid": pool.uuid, "stopped": true,
        })
    };
    if let Some(name) = &which.name {
        let Some(pool) = running::find(dm, name)? else {
            if start::remove_leftovers_of(dm, name)? {
                output::notes(&[format!(
                    "pool {name} was not running; what an interrupted start had left is removed"
                )]);
                if json {
                    output::json(&serde_json::json!({
                        "name": name, "uuid": null, "stopped": true,
                    }))?;
                }
                return Ok(());
            }
            bail!("pool {name} is not running (fusion pool list shows the pools there are)");
        };
        stop_by_hand(dm, &pool)?;
        if json {
            return output::json(&answer(&pool));
        }
        output::line(&format!("pool {} is stopped", pool.name));
        return Ok(());
    }
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for pool in running::all(dm)? {
        match stop_by_hand(dm, &pool) {
            Ok(()) => {
                if !json {
                    output::line(&format!("pool {} is stopped", pool.name));
                }
                done.push(answer(&pool));
            }
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if json {
        output::json(&done)?;
    }
    all_well(&errors)
}

fn all_well(errors: &[String]) -> Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    bail!("{}", errors.join("; "))
}

fn status(dm: &Dm, name: Option<&str>, json: bool) -> Result<()> {
    let scan = scan::scan(&[])?;
    if let Some(name) = name {
        let report = PoolReport::new(dm, &running::need(dm, name)?, Some(&scan))?;
        if json {
            return output::json(&report);
        }
        show(&report);
        return Ok(());
    }
    let reports = running::all(dm)?
        .iter()
        .map(|pool| PoolReport::new(dm, pool, Some(&scan)))
        .collect::<Result<Vec<_>>>()?;
    if json {
        return output::json(&reports);
    }
    for (place, report) in reports.iter().enumerate() {
        if place > 0 {
            output::line("");
        }
        show(report);
    }
    if reports.is_empty() {
        output::notes(&["no pool is running (fusion pool list shows the pools there are)".into()]);
    }
    Ok(())
}

fn show(pool: &PoolReport) {
    let mut state = pool.state.text().to_owned();
    for (is, text) in [
        (pool.out_of_space, ", out of space"),
        (pool.resyncing, ", resyncing"),
        (pool.metadata.needs_check, ", metadata needs a check"),
    ] {
        if is {
            state += text;
        }
    }
    if let Some(growing) = &pool.growing {
        state += &format!(", {}", growing.text());
    }
    let mirror = match &pool.metadata.mirror {
        Some(legs) => format!(", mirror {legs}"),
        None => String::new(),
    };
    let mut facts = vec![
        ("pool", pool.name.clone()),
        ("uuid", pool.uuid.to_string()),
        ("state", state),
        ("block size", size::display(pool.block_bytes)),
        (
            "layout",
            format!(
                "{} members, room for {} failed",
                pool.members.len(),
                pool.spares
            ),
        ),
        (
            "metadata",
            format!(
                "{}: {} of {} used{mirror}",
                pool.metadata.device,
                size::display(pool.metadata.used_bytes),
                size::display(pool.metadata.total_bytes)
            ),
        ),
        (
            "replicas",
            format!(
                "{} of {} that may be",
                size::display(pool.space.replica_area_bytes),
                size::display(pool.space.replica_limit_bytes)
            ),
        ),
        (
            "reserve",
            format!(
                "{} for the background",
                size::display(pool.space.reserve_bytes)
            ),
        ),
    ];
    if !pool.hot_spares.is_empty() {
        facts.push(("hot spares", pool.hot_spares.join(", ")));
    }
    for (name, value) in facts {
        output::line(&format!("{:<12}{value}", format!("{name}:")));
    }

    output::line("");
    let mut space = Table::new(&[">TOTAL", ">FREE", ">REPLICATED", ">RAID", ">DEAD", ">SPARE"]);
    let bytes = &pool.space;
    space.row(
        [
            bytes.total_bytes,
            bytes.free_bytes,
            bytes.replicated_bytes,
            bytes.raid_bytes,
            bytes.dead_bytes,
            bytes.spare_bytes,
        ]
        .map(size::display)
        .into(),
    );
    space.print();

    output::line("");
    let mut members = Table::new(&[
        ">MEMBER",
        "DEVICE",
        "STATE",
        ">PENDING",
        "STRAGGLING",
        ">ERRORS",
    ]);
    for member in &pool.members {
        members.row(vec![
            member.index.to_string(),
            member.device.clone().unwrap_or_else(|| "-".into()),
            member.state.clone(),
            member.pending.to_string(),
            if member.straggling { "yes" } else { "no" }.into(),
            member.errors.to_string(),
        ]);
    }
    members.print();

    if !pool.volumes.is_empty() {
        output::line("");
        volume::table(&pool.volumes).print();
    }

    if !pool.counters.is_empty() {
        output::line("");
        let mut counters = Table::new(&["COUNTER", ">VALUE"]);
        // These are above, as sizes.
        let sizes = ["reserve", "replica_area", "replica_limit"];
        for (name, value) in &pool.counters {
            if sizes.contains(&name.as_str()) {
                continue;
            }
            counters.row(vec![name.clone(), value.to_string()]);
        }
        counters.print();
    }
}

fn list(dm: &Dm, json: bool) -> Result<()> {
    let running = running::all(dm)?;
    let scan = scan::scan(&[])?;
    let mut summaries = running
        .iter()
        .map(|pool| PoolSummary::running(dm, pool))
        .collect::<Result<Vec<_>>>()?;
    summaries.extend(
        scan.known_pools()
            .filter(|pool| running.iter().all(|other| other.uuid != pool.uuid))
            .map(PoolSummary::stopped),
    );
    summaries.sort_by(|a, b| (&a.name, a.uuid).cmp(&(&b.name, b.uuid)));
    if json {
        return output::json(&summaries);
    }
    let mut table = Table::new(&[
        "POOL", "STATE", ">MEMBERS", ">VOLUMES", ">TOTAL", ">FREE", "UUID",
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for pool in &summaries {
        table.row(vec![
            pool.name.clone(),
            match &pool.growing {
                Some(growing) => format!("{}, {}", pool.state.text(), growing.text()),
                None => pool.state.text().into(),
            },
            pool.members.to_string(),
            or_dash(pool.volumes.map(|count| count.to_string())),
            or_dash(pool.total_bytes.map(size::display)),
            or_dash(pool.free_bytes.map(size::display)),
            pool.uuid.to_string(),
        ]);
    }
    table.print();
    let problems: Vec<String> = summaries
        .into_iter()
        .filter_map(|pool| pool.problem)
        .collect();
    output::notes(&problems);
    Ok(())
}

/// Nobody has to wait for what is moved with the lock, or to the end: it goes on by itself.
fn grow(dm: &Dm, pool: &str, members: Option<u32>, no_wait: bool, json: bool) -> Result<()> {
    let lock = Lock::take()?;
    interrupt::defer();
    let Grown {
        pool,
        from,
        devices,
    } = grow::grow(dm, pool, members)?;
    drop(lock);
    interrupt::allow();
    let moved = if no_wait {
        None
    } else {
        let blocks = background::grow(dm, &pool)?;
        Some(blocks * u64::from(pool.table.block_sectors) * fusion_format::SECTOR_BYTES)
    };
    let count = pool.table.members.len();
    if json {
        return output::json(&serde_json::json!({
            "pool": pool.name, "from": from, "members": count, "devices": devices, "grown": true,
            "moved_bytes": moved,
        }));
    }
    let (name, new) = (&pool.name, devices.join(", "));
    output::line(&match moved {
        Some(bytes) => format!(
            "pool {name} has grown from {from} to {count} members, with {new}: {} moved",
            size::display(bytes)
        ),
        None => format!(
            "pool {name} has grown from {from} to {count} members, with {new}: what is in it is \
             being moved; 'fusion pool status {name}' says how much is left"
        ),
    });
    Ok(())
}

/// Without the lock: whoever slows the background down does not want to wait for it.
fn set(dm: &Dm, pool: &str, changes: &[Setting], json: bool) -> Result<()> {
    let pool = running::need(dm, pool)?;
    settings::write(dm, &pool, changes)?;
    if json {
        let all: BTreeMap<_, _> = settings::read(dm, &pool)?.into_iter().collect();
        return output::json(&all);
    }
    if !changes.is_empty() {
        output::line(&format!(
            "pool {}: {} is set",
            pool.name,
            settings::list(changes)
        ));
        return Ok(());
    }
    let mut table = Table::new(&["SETTING", ">VALUE"]);
    for (name, value) in settings::read(dm, &pool)? {
        table.row(vec![name, value.to_string()]);
    }
    table.print();
    Ok(())
}

fn destroy(dm: &Dm, key: &str, yes: bool, json: bool) -> Result<()> {
    let running = running::find(dm, key)?;
    let key = match &running {
        Some(pool) => pool.uuid.to_string(),
        None => key.to_owned(),
    };
    let name = scan::scan(&[])?.find(&key)?.name.clone();
    let volumes = match &running {
        Some(pool) => format!(", which is running with {} volumes,", pool.devices.len()),
        None => String::new(),
    };
    ask::confirm(&format!("destroying pool {name}{volumes}"), yes)?;

    let _lock = Lock::take()?;
    interrupt::defer();
    if let Some(pool) = running::find(dm, &key)? {
        start::stop(dm, &pool)?;
    }
    let scan = scan::scan(&[])?;
    let pool = scan.find(&key)?;
    create::destroy(&scan, pool)?;
    if json {
        return output::json(&serde_json::json!({
            "name": pool.name, "uuid": pool.uuid, "destroyed": true,
        }));
    }
    output::line(&format!(
        "pool {} is destroyed; free again: {}",
        pool.name,
        block::names(pool.members.iter().map(|member| member.path.as_path()))
    ));
    Ok(())
}
