// SPDX-License-Identifier: GPL-2.0-only
//! A sign of life during work of unknown length; on terminals only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};

/// Does `work` while a spinner says `what`.
pub fn spin<T>(what: String, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let result = work();
    bar.finish_and_clear();
    result
}
