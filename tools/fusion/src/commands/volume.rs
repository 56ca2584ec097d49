// SPDX-License-Identifier: GPL-2.0-only

use anyhow::Result;

use crate::cli::{VolumeCommand, VolumeCreateArgs};
use crate::dm::Dm;
use crate::lock::Lock;
use crate::output::{self, Table};
use crate::report::VolumeReport;
use crate::running::{self, Running};
use crate::status::Volume;
use crate::volumes::{self, Shape};
use crate::{ask, interrupt, names, progress, size};

pub fn run(command: VolumeCommand, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    match command {
        VolumeCommand::Create(args) => create(&dm, &args, json),
        VolumeCommand::List { pool } => list(&dm, pool.as_deref(), json),
        VolumeCommand::Resize { pool, name, size } => resize(&dm, &pool, &name, size, json),
        VolumeCommand::Remove { pool, name, yes } => remove(&dm, &pool, &name, yes, json),
    }
}

fn create(dm: &Dm, args: &VolumeCreateArgs, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let pool = running::need(dm, &args.pool)?;
    let shape = Shape {
        parity: args.raid.parity(),
        width: args.width,
        data: args.data,
    };
    let mut notes = Vec::new();
    let volume = volumes::create(dm, &pool, &args.name, args.size, shape, &mut notes)?;
    output::notes(&notes);
    answer(dm, &pool, &volume, "created", json)
}

fn resize(dm: &Dm, pool: &str, name: &str, bytes: u64, json: bool) -> Result<()> {
    let _lock = Lock::take()?;
    interrupt::defer();
    let pool = running::need(dm, pool)?;
    let mut notes = Vec::new();
    let volume = volumes::resize(dm, &pool, name, bytes, &mut notes)?;
    output::notes(&notes);
    answer(dm, &pool, &volume, "resized", json)
}

fn answer(dm: &Dm, pool: &Running, volume: &Volume, done: &str, json: bool) -> Result<()> {
    if json {
        // As it is now, with its device.
        let pool = running::need(dm, &pool.name)?;
        return output::json(&VolumeReport::new(&pool, &pool.volume(dm, &volume.name)?));
    }
    output::line(&format!(
        "{} is {done}: {}, {} of width {}",
        names::dm_path(&names::volume_name(&pool.name, &volume.name)),
        size::display_sectors(volume.sectors),
        volume.raid(),
        volume.width()
    ));
    Ok(())
}

fn remove(dm: &Dm, pool: &str, name: &str, yes: bool, json: bool) -> Result<()> {
    let pool = running::need(dm, pool)?;
    volumes::check_removable(dm, &pool, name)?;
    ask::confirm(
        &format!("removing volume {name} of pool {}", pool.name),
        yes,
    )?;

    let _lock = Lock::take()?;
    interrupt::defer();
    // Things may have changed while the question was open.
    let pool = running::need(dm, &pool.name)?;
    let volume = volumes::check_removable(dm, &pool, name)?;
    progress::spin(format!("freeing the space of {name}"), || {
        volumes::remove(dm, &pool, &volume)
    })?;
    if json {
        return output::json(&serde_json::json!({
            "pool": pool.name, "name": volume.name, "id": volume.id, "removed": true,
        }));
    }
    output::line(&format!("volume {name} of pool {} is removed", pool.name));
    Ok(())
}

fn list(dm: &Dm, pool: Option<&str>, json: bool) -> Result<()> {
    let pools = match pool {
        Some(pool) => vec![running::need(dm, pool)?],
        None => running::all(dm)?,
    };
    let mut reports = Vec::new();
    for pool in &pools {
        for volume in pool.volumes(dm)? {
            reports.push(VolumeReport::new(pool, &volume));
        }
    }
    if json {
        return output::json(&reports);
    }
    table(&reports).print();
    Ok(())
}

pub fn table(volumes: &[VolumeReport]) -> Table {
    let mut table = Table::new(&[
        "VOLUME", ">ID", "POOL", ">SIZE", ">MAPPED", "RAID", ">WIDTH", "STATE", "DEVICE",
    ]);
    for volume in volumes {
        table.row(vec![
            volume.name.clone(),
            volume.id.to_string(),
            volume.pool.clone(),
            size::display(volume.size_bytes),
            size::display(volume.mapped_bytes),
            volume.raid.into(),
            volume.width.to_string(),
            volume.state.into(),
            volume.device.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    table
}
