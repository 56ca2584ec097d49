// SPDX-License-Identifier: GPL-2.0-only

use anyhow::Result;

use crate::cli::DeviceCommand;
use crate::dm::Dm;
use crate::lock::Lock;
use crate::{background, output, running};

pub fn run(command: DeviceCommand, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    match command {
        DeviceCommand::Fail { pool, member } => fail(&dm, &pool, &member, json),
        DeviceCommand::Rebuild { pool } => rebuild(&dm, &pool, json),
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

fn rebuild(dm: &Dm, pool: &str, json: bool) -> Result<()> {
    let pool = running::need(dm, pool)?;
    let stripes = background::rebuild(dm, &pool)?;
    if json {
        return output::json(&serde_json::json!({ "pool": pool.name, "rebuilt": stripes }));
    }
    output::line(&format!("pool {}: {stripes} stripes rebuilt", pool.name));
    Ok(())
}
