// SPDX-License-Identifier: GPL-2.0-only

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::output::{self, Table};
use crate::report::ScanReport;
use crate::{scan, size, udev};

pub fn run(devices: &[PathBuf], json: bool) -> Result<()> {
    let report = ScanReport::new(&scan::scan(devices)?);
    if json {
        return output::json(&report);
    }
    let mut table = Table::new(&["DEVICE", "POOL", "POOL UUID", "INDEX", ">SIZE", "STATE"]);
    for member in report.members {
        table.row(vec![
            member.device,
            member.pool,
            member.pool_uuid.to_string(),
            match member.index {
                Some(index) => format!("{index} of {}", member.members),
                None => "hot spare".into(),
            },
            size::display(member.size_bytes),
            member.state.into(),
        ]);
    }
    table.print();
    for device in report.invalid {
        output::notes(&[format!("{} {}", device.device, device.problem)]);
    }
    Ok(())
}

pub fn udev(device: &Path) -> Result<()> {
    for (name, value) in udev::properties(device)? {
        output::line(&format!("{name}={value}"));
    }
    Ok(())
}
