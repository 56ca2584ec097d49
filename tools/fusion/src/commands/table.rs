// SPDX-License-Identifier: GPL-2.0-only

use anyhow::Result;

use crate::cli::TableArgs;
use crate::dm::Dm;
use crate::report::DeviceTable;
use crate::{output, plan, start};

pub fn run(args: &TableArgs, json: bool) -> Result<()> {
    let (specs, running) = start::specs(&Dm::open()?, &args.pool)?;
    if !running {
        output::notes(&[format!(
            "pool {} is not running, so its volumes are not known: their tables are missing here",
            args.pool
        )]);
    }
    if json {
        let tables: Vec<DeviceTable> = specs.iter().map(DeviceTable::from).collect();
        return output::json(&tables);
    }
    if args.concise {
        output::line(&plan::concise(&specs));
    } else {
        for spec in &specs {
            output::line(&format!("{}: {}", spec.name, spec.table()));
        }
    }
    Ok(())
}
