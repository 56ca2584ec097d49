// SPDX-License-Identifier: GPL-2.0-only

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cli::MonitorArgs;
use crate::dm::Dm;
use crate::interrupt;
use crate::monitor::event::Event;
use crate::monitor::saved::Saved;
use crate::monitor::tell::Teller;
use crate::monitor::watch::{self, Message, Watch};
use crate::monitor::{changes, metrics, wait};

/// How long --test waits for pools to be seen.
const TEST_PATIENCE: Duration = Duration::from_secs(10);

/// A signal ends it when all is told that has been seen to happen: the next one will not tell it again.
pub fn run(args: &MonitorArgs, json: bool) -> Result<()> {
    // An error now is for who has called this.
    let dm = Dm::open()?;
    dm.list()?;
    if !args.test {
        interrupt::defer();
    }
    let teller = Teller::new(given(&args.program), given(&args.mail), json);
    let (messages, inbox) = mpsc::channel();
    if args.test {
        return test(teller, messages, &inbox);
    }
    let saved = Saved::open()?;
    await_signal(messages.clone());
    begin_waiting(dm, messages.clone());
    let watch = Watch::new(messages, watch::looker(), saved.read());
    let monitor = Monitor {
        interval: args.interval,
        metrics: given(&args.metrics).map(PathBuf::from),
        teller,
        saved,
        watch,
        metrics_due: true,
    };
    monitor.run(&inbox)
}

/// A variable that is set to nothing is as if it were not.
fn given(value: &Option<String>) -> Option<String> {
    value.clone().filter(|value| !value.is_empty())
}

/// They are held back.
fn await_signal(messages: Sender<Message>) {
    thread::spawn(move || {
        interrupt::take();
        let _ = messages.send(Message::Interrupted);
        // Another one does not wait for programs.
        interrupt::take();
        process::exit(1);
    });
}

fn begin_waiting(dm: Dm, messages: Sender<Message>) {
    thread::spawn(move || {
        let wake = || messages.send(Message::Woken).is_ok();
        if let Err(error) = wait::run(&dm, wake) {
            // If nobody hears it there is nobody to be told.
            let _ = messages.send(Message::Ended(error));
        }
    });
}

struct Monitor {
    interval: Duration,
    metrics: Option<PathBuf>,
    teller: Teller,
    saved: Saved,
    watch: Watch,
    metrics_due: bool,
}

impl Monitor {
    fn run(mut self, inbox: &Receiver<Message>) -> Result<()> {
        let mut next = Instant::now() + self.interval;
        loop {
            let due = self.watch.due().map_or(next, |due| due.min(next));
            let wait = due.saturating_duration_since(Instant::now());
            let mut message = match inbox.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => bail!("nobody looks at the pools any more"),
            };
            let mut events = Vec::new();
            let mut interrupted = false;
            while let Some(next) = message {
                interrupted |= matches!(next, Message::Interrupted);
                events.extend(hear(&mut self.watch, next)?);
                message = inbox.try_recv().ok();
            }
            if next <= Instant::now() {
                next = Instant::now() + self.interval;
                // A pool that does not answer does not make those of others old.
                if self.metrics_due {
                    self.write_metrics();
                }
                self.metrics_due = true;
                self.watch.look();
            }
            events.extend(self.watch.tick());
            self.tell(&events);
            if interrupted {
                self.teller.finish();
                return Ok(());
            }
        }
    }

    fn tell(&mut self, events: &[Event]) {
        for event in events {
            self.teller.tell(event, self.watch.seen_of(&event.pool));
        }
        if let Err(error) = self.saved.write(&self.watch.seen()) {
            self.watch.complain(&error);
        }
        self.metrics_due |= !events.is_empty();
        if self.metrics_due && !self.watch.asks() {
            self.write_metrics();
        }
    }

    fn write_metrics(&mut self) {
        self.metrics_due = false;
        let Some(path) = &self.metrics else {
            return;
        };
        let text = metrics::render(self.watch.looks());
        if let Err(error) = metrics::write(path, &text) {
            self.watch.complain(&error);
        }
    }
}

/// What has happened by that.
fn hear(watch: &mut Watch, message: Message) -> Result<Vec<Event>> {
    match message {
        Message::Woken => watch.look(),
        Message::Found(Ok(pools)) => return Ok(watch.found(pools)),
        Message::Found(Err(error)) => watch.complain(&error),
        Message::Looked(number, look) => {
            return Ok(watch.looked(number, look.map(|look| *look)));
        }
        Message::Ended(error) => return Err(error),
        Message::Interrupted => {}
    }
    Ok(Vec::new())
}

/// Tells a test of each pool that runs, and waits until that is done.
fn test(teller: Teller, messages: Sender<Message>, inbox: &Receiver<Message>) -> Result<()> {
    let mut watch = Watch::new(messages, watch::looker(), BTreeMap::new());
    watch.look();
    let end = Instant::now() + TEST_PATIENCE;
    while !watch.has_seen_all() {
        let until = watch.due().map_or(end, |due| due.min(end));
        let wait = until.saturating_duration_since(Instant::now());
        match inbox.recv_timeout(wait) {
            Ok(Message::Found(Err(error))) => return Err(error),
            Ok(message) => {
                hear(&mut watch, message)?;
            }
            Err(_) if Instant::now() >= end => break,
            Err(_) => {
                watch.tick();
            }
        }
    }
    let seen = watch.seen();
    if seen.is_empty() {
        bail!("no pool is running that says how it is: start one with 'fusion pool start'");
    }
    for pool in seen {
        teller.tell(&changes::test(pool), Some(pool));
    }
    teller.finish();
    Ok(())
}
