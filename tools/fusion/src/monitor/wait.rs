// SPDX-License-Identifier: GPL-2.0-only
//! Waits for device-mapper's events.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::dm::Dm;

/// Many come at once, when devices are made or removed. None is lost by that.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `wake` at once, and again whenever a device has had an event, or has been made, given a
/// table, or removed, since that call began; until it answers false.
pub fn run(dm: &Dm, wake: impl Fn() -> bool) -> Result<()> {
    loop {
        dm.arm()?;
        if !wake() {
            return Ok(());
        }
        thread::sleep(PAUSE);
        dm.wait()?;
    }
}
