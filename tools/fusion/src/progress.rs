// SPDX-License-Identifier: GPL-2.0-only
//! Signs of life during long work.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often it is measured how far work is.
const PERIOD: Duration = Duration::from_millis(250);

/// Does `work` of unknown length while a spinner says `what`, on terminals only.
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

/// Shows how far something is: a bar on a terminal, elsewhere a line for each tenth.
struct Meter {
    what: String,
    bar: Option<ProgressBar>,
    tenth: u64,
}

impl Meter {
    fn new(what: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0).with_message(what.to_owned());
            if let Ok(style) = ProgressStyle::with_template("{msg} [{wide_bar}] {percent}% {eta}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            what: what.to_owned(),
            bar,
            tenth: 0,
        }
    }

    fn show(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        let tenth = (done * 10).checked_div(total).unwrap_or(0);
        if tenth > self.tenth {
            self.tenth = tenth;
            eprintln!("fusion: {}: {} %", self.what, tenth * 10);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Does `work` in a thread while it is shown how much of it is done: `measure`
/// answers (done, total), or nothing if it does not know.
pub fn watch<T: Send>(
    what: &str,
    work: impl FnOnce() -> T + Send,
    mut measure: impl FnMut() -> Option<(u64, u64)>,
) -> T {
    let mut meter = Meter::new(what);
    thread::scope(|scope| {
        let (over, ended) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let _over = over;
            work()
        });
        while ended.recv_timeout(PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
            if let Some((done, total)) = measure() {
                meter.show(done, total);
            }
        }
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
