// SPDX-License-Identifier: GPL-2.0-only

use anyhow::{Result, bail};

use crate::dm::Dm;
use crate::{background, output, running, size};

pub fn convert(pool: &str, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    let pool = running::need(&dm, pool)?;
    let done = background::convert(&dm, &pool)?;
    let block_sectors = u64::from(pool.table.block_sectors);
    if done.gave_up > 0 {
        output::notes(&[format!(
            "{} sets were being written and stay replicated: try again when they are not",
            done.gave_up
        )]);
    }
    if json {
        return output::json(&serde_json::json!({
            "pool": pool.name, "converted": done.sets, "gave_up": done.gave_up,
            "replicated_bytes": done.replicated * block_sectors * fusion_format::SECTOR_BYTES,
        }));
    }
    output::line(&format!(
        "pool {}: {} sets converted, {} are replicated still",
        pool.name,
        done.sets,
        size::display_sectors(done.replicated * block_sectors)
    ));
    Ok(())
}

pub fn scrub(pool: &str, repair: bool, restart: bool, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    let pool = running::need(&dm, pool)?;
    let found = background::scrub(&dm, &pool, repair, restart)?;
    if json {
        output::json(&serde_json::json!({
            "pool": pool.name, "stripes": found.stripes, "blocks": found.blocks,
            "mismatches": found.mismatches, "repaired": found.repaired,
        }))?;
    } else {
        output::line(&format!(
            "pool {}: {} stripes and {} replicated blocks looked at",
            pool.name, found.stripes, found.blocks
        ));
    }
    let changed = format!(
        "the parity of {} stripes of pool {} does not fit their data, or replicas differ: members \
         have changed data by themselves, or something else has written to them",
        found.mismatches, pool.name
    );
    if found.wrong {
        bail!(
            "{changed}; restore what matters from a backup, and have them written again with \
             --repair"
        );
    }
    if found.mismatches > 0 {
        output::notes(&[format!(
            "{changed}; they are written again, but which was wrong is not known: restore what \
             matters from a backup"
        )]);
    }
    Ok(())
}
