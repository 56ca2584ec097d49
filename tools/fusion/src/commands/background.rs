// SPDX-License-Identifier: GPL-2.0-only

use anyhow::{Result, bail};
use serde_json::Value;

use crate::background::Scrubbed;
use crate::cli::ScrubArgs;
use crate::dm::Dm;
use crate::running::Running;
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

pub fn scrub(args: &ScrubArgs, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    if let Some(pool) = &args.pool {
        let (answer, result) = scrub_one(&dm, &running::need(&dm, pool)?, args, json);
        if let (true, Some(answer)) = (json, answer) {
            output::json(&answer)?;
        }
        return result;
    }
    // What is wrong with one is no reason not to look at the others.
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for pool in running::all(&dm)? {
        let (answer, result) = scrub_one(&dm, &pool, args, json);
        answers.extend(answer);
        errors.extend(result.err().map(|error| format!("{error:#}")));
    }
    if json {
        output::json(&answers)?;
    }
    if !errors.is_empty() {
        bail!("{}", errors.join("; "));
    }
    Ok(())
}

/// What was found, and whether that is as it should be.
fn scrub_one(dm: &Dm, pool: &Running, args: &ScrubArgs, json: bool) -> (Option<Value>, Result<()>) {
    let found = match background::scrub(dm, pool, args.repair, args.restart) {
        Ok(found) => found,
        Err(error) => return (None, Err(error)),
    };
    if !json {
        output::line(&format!(
            "pool {}: {} stripes and {} replicated blocks looked at",
            pool.name, found.stripes, found.blocks
        ));
    }
    let answer = serde_json::json!({
        "pool": pool.name, "stripes": found.stripes, "blocks": found.blocks,
        "mismatches": found.mismatches, "repaired": found.repaired,
    });
    (Some(answer), judge(pool, found))
}

fn judge(pool: &Running, found: Scrubbed) -> Result<()> {
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
