// SPDX-License-Identifier: GPL-2.0-only
//! Whom to look at, when, and what comes of it.
//!
//! Each pool is looked at by a thread of its own: one that does not answer keeps nobody else from
//! being looked at. Another one finds the pools. None of them is ever waited for without a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::dm::Dm;
use crate::running::{self, Running};
use crate::top::look::Look;

use super::changes;
use super::event::{Event, Kind};
use super::journal;
use super::seen::Seen;

/// A pool that has said nothing for so long is told of.
const SILENCE: Duration = Duration::from_secs(60);
/// A pool that is suspended, as while it is started, or that could not be looked at, is looked at
/// again: nothing tells when that has changed.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

pub enum Message {
    /// Something has happened to some device.
    Woken,
    /// These are running.
    Found(Result<Vec<Running>>),
    /// Of the pool that was given this number.
    Looked(u64, Result<Box<Look>>),
    /// Nobody waits for events any more.
    Ended(anyhow::Error),
    /// We are to end.
    Interrupted,
}

pub type Looker = Arc<dyn Fn(Running) -> Result<Look> + Send + Sync>;

/// How a pool is looked at.
pub fn looker() -> Looker {
    Arc::new(|pool| Look::new(&Dm::open()?, pool))
}

struct Watched {
    number: u64,
    running: Running,
    questions: Sender<Running>,
    /// Since when it has been asked, in vain.
    unanswered: Option<Instant>,
    /// There is a question on the way, and there has to be another one.
    asked: bool,
    ask_again: bool,
    /// When to ask by ourselves, and how long after that.
    due: Option<Instant>,
    pause: Duration,
    /// It was told that it does not answer.
    silent: bool,
    /// It came while we watched.
    new: bool,
    seen: Option<Seen>,
    look: Option<Look>,
}

impl Watched {
    fn ask(&mut self) {
        self.due = None;
        if self.asked {
            self.ask_again = true;
            return;
        }
        self.asked = true;
        self.ask_again = false;
        self.unanswered.get_or_insert_with(Instant::now);
        // Its thread lives as long as we do.
        let _ = self.questions.send(self.running.clone());
    }

    fn ask_later(&mut self) {
        self.due = Some(Instant::now() + self.pause);
        self.pause = (2 * self.pause).min(AGAIN_MAX);
    }
}

pub struct Watch {
    messages: Sender<Message>,
    look: Looker,
    scout: SyncSender<()>,
    pools: BTreeMap<String, Watched>,
    /// What was said before we began, until the pools are found.
    saved: BTreeMap<String, Seen>,
    found: bool,
    numbers: u64,
    /// What could not be done is said once.
    complaint: String,
}

impl Watch {
    pub fn new(messages: Sender<Message>, look: Looker, saved: BTreeMap<String, Seen>) -> Self {
        Self {
            scout: scout(messages.clone()),
            messages,
            look,
            pools: BTreeMap::new(),
            saved,
            found: false,
            numbers: 0,
            complaint: String::new(),
        }
    }

    /// Looks at all pools, and for others.
    pub fn look(&mut self) {
        // If it is looking already that comes after this.
        let _ = self.scout.try_send(());
        for watched in self.pools.values_mut() {
            watched.ask();
        }
    }

    /// These are running: what has happened by that.
    pub fn found(&mut self, found: Vec<Running>) -> Vec<Event> {
        let mut events = Vec::new();
        let stays = |name: &str, dev| {
            found
                .iter()
                .any(|pool| pool.name == name && pool.dev == dev)
        };
        self.pools.retain(|name, watched| {
            let stays = stays(name, watched.running.dev);
            if !stays {
                events.extend(watched.seen.as_ref().map(changes::gone));
            }
            stays
        });
        for (name, saved) in std::mem::take(&mut self.saved) {
            let runs = |pool: &Running| pool.name == name && pool.uuid == saved.uuid;
            if found.iter().any(runs) {
                self.saved.insert(name, saved);
            } else {
                events.push(changes::gone(&saved));
            }
        }
        for pool in found {
            match self.pools.get_mut(&pool.name) {
                Some(watched) if watched.running == pool => {}
                Some(watched) => {
                    watched.running = pool;
                    watched.ask();
                }
                None => self.watch(pool),
            }
        }
        self.found = true;
        events
    }

    fn watch(&mut self, pool: Running) {
        self.numbers += 1;
        let number = self.numbers;
        let (questions, asked) = mpsc::channel();
        let (look, answers) = (Arc::clone(&self.look), self.messages.clone());
        thread::spawn(move || {
            for pool in asked {
                let answer = look(pool).map(Box::new);
                if answers.send(Message::Looked(number, answer)).is_err() {
                    return;
                }
            }
        });
        let name = pool.name.clone();
        let mut watched = Watched {
            number,
            running: pool,
            questions,
            unanswered: None,
            asked: false,
            ask_again: false,
            due: None,
            pause: AGAIN,
            silent: false,
            new: self.found,
            seen: None,
            look: None,
        };
        watched.ask();
        self.pools.insert(name, watched);
    }

    /// A pool was looked at: what has happened to it.
    pub fn looked(&mut self, number: u64, look: Result<Look>) -> Vec<Event> {
        let found = self.pools.values_mut().find(|pool| pool.number == number);
        // It is gone, or another one has its name.
        let Some(watched) = found else {
            return Vec::new();
        };
        watched.asked = false;
        let mut events = Vec::new();
        match look {
            Err(error) => {
                // One that is being stopped cannot be looked at, either: then it is gone soon.
                if watched.pause == AGAIN_MAX {
                    self.complaint = complain(&self.complaint, format!("{error:#}"));
                }
                watched.ask_later();
            }
            Ok(look) => {
                watched.unanswered = None;
                if look.suspended {
                    watched.ask_later();
                } else {
                    watched.pause = AGAIN;
                    events = news(watched, &mut self.saved, Seen::new(&look));
                }
                watched.look = Some(look);
            }
        }
        if watched.ask_again {
            watched.ask();
        }
        events
    }

    /// Asks those whose time it is. What there is to say of those that do not answer.
    pub fn tick(&mut self) -> Vec<Event> {
        let now = Instant::now();
        let mut events = Vec::new();
        for watched in self.pools.values_mut() {
            if watched.due.is_some_and(|due| due <= now) {
                watched.ask();
            }
            let silence = watched.unanswered.map(|since| now - since);
            let silence = silence.filter(|silence| *silence >= SILENCE);
            if let Some(silence) = silence.filter(|_| !watched.silent) {
                watched.silent = true;
                let seconds = silence.as_secs();
                events.push(changes::not_answering(&watched.running, seconds));
            }
        }
        events
    }

    /// When there is something to be done by ourselves.
    pub fn due(&self) -> Option<Instant> {
        let silent = |watched: &Watched| {
            let since = watched.unanswered.filter(|_| !watched.silent)?;
            Some(since + SILENCE)
        };
        let pools = self.pools.values();
        let due = pools.flat_map(|watched| [watched.due, silent(watched)]);
        due.flatten().min()
    }

    /// All that were seen, as they are, or as they were when nobody has seen them since.
    pub fn seen(&self) -> Vec<&Seen> {
        let seen = self.pools.values().flat_map(|pool| &pool.seen);
        seen.chain(self.saved.values()).collect()
    }

    pub fn seen_of(&self, pool: &str) -> Option<&Seen> {
        self.pools.get(pool)?.seen.as_ref()
    }

    /// What was seen last of each, and whether it answers.
    pub fn looks(&self) -> impl Iterator<Item = (&Look, bool)> + Clone {
        let pools = self.pools.values();
        pools.filter_map(|pool| Some((pool.look.as_ref()?, !pool.silent)))
    }

    /// Will one of them say soon how it is?
    pub fn asks(&self) -> bool {
        !self.found || self.pools.values().any(|pool| pool.asked && !pool.silent)
    }

    /// Have all that there are been seen?
    pub fn has_seen_all(&self) -> bool {
        self.found && self.pools.values().all(|pool| pool.seen.is_some())
    }

    /// Something could not be done.
    pub fn complain(&mut self, error: &anyhow::Error) {
        self.complaint = complain(&self.complaint, format!("{error:#}"));
    }
}

fn complain(before: &str, sentence: String) -> String {
    if sentence != before {
        journal::remark(&sentence);
    }
    sentence
}

/// What is new in what is seen now.
fn news(watched: &mut Watched, saved: &mut BTreeMap<String, Seen>, now: Seen) -> Vec<Event> {
    let mut events = Vec::new();
    if watched.silent {
        watched.silent = false;
        events.push(changes::answering(&watched.running));
    }
    if let Some(before) = &watched.seen {
        events.extend(changes::since(before, &now));
    } else {
        if let Some(before) = saved.remove(&now.name) {
            events.extend(changes::since(&before, &now));
        } else if watched.new {
            events.push(changes::new(&now));
        }
        let told: Vec<Kind> = events.iter().map(|event| event.event).collect();
        let standing = changes::standing(&now).into_iter();
        events.extend(standing.filter(|event| !told.contains(&event.event)));
    }
    watched.seen = Some(now);
    events
}

/// Finds the pools that run, each time it is asked.
fn scout(messages: Sender<Message>) -> SyncSender<()> {
    let (ask, asked): (_, Receiver<()>) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut before: Vec<Running> = Vec::new();
        for () in asked {
            let found = Dm::open().and_then(|dm| running::again(&dm, before.iter()));
            if let Ok(found) = &found {
                before.clone_from(found);
            }
            if messages.send(Message::Found(found)).is_err() {
                return;
            }
        }
    });
    ask
}

#[cfg(test)]
mod tests {
    use super::super::event::Kind;
    use super::*;
    use crate::top::testing::looks;
    use std::sync::Mutex;

    /// Pools whose looks a test gives, one after the other; it may keep one waiting.
    struct Pools {
        watch: Watch,
        messages: Receiver<Message>,
        looks: Arc<Mutex<BTreeMap<String, Receiver<Look>>>>,
    }

    fn look_of(name: &str) -> Look {
        let (mut look, _) = looks(4, 1);
        look.pool.name = name.into();
        for member in &mut look.members {
            member.state = "ok".into();
        }
        look.status.as_mut().unwrap().counters.clear();
        look
    }

    fn failed(name: &str) -> Look {
        let mut look = look_of(name);
        look.members[1].state = "failed".into();
        look
    }

    impl Pools {
        fn new(saved: Vec<Seen>) -> Self {
            let (sender, messages) = mpsc::channel();
            let looks: Arc<Mutex<BTreeMap<String, Receiver<Look>>>> = Arc::default();
            let given = Arc::clone(&looks);
            let look: Looker = Arc::new(move |pool: Running| {
                let next = given.lock().unwrap().remove(&pool.name);
                let next = next.expect("nobody has said what it is like");
                let look = next.recv()?;
                given.lock().unwrap().insert(pool.name, next);
                Ok(look)
            });
            let saved = saved.into_iter().map(|seen| (seen.name.clone(), seen));
            Self {
                watch: Watch::new(sender, look, saved.collect()),
                messages,
                looks,
            }
        }

        /// Who gives the looks of that pool.
        fn add(&self, name: &str) -> Sender<Look> {
            let (give, looks) = mpsc::channel();
            self.looks.lock().unwrap().insert(name.into(), looks);
            give
        }

        /// What is told when the next look has come.
        fn next(&mut self) -> Vec<Kind> {
            loop {
                if let Message::Looked(number, look) = self.messages.recv().unwrap() {
                    let events = self.watch.looked(number, look.map(|look| *look));
                    return events.iter().map(|event| event.event).collect();
                }
            }
        }

        fn found(&mut self, names: &[&str]) -> Vec<Kind> {
            let pools = names.iter().map(|name| look_of(name).pool);
            let events = self.watch.found(pools.collect());
            events.iter().map(|event| event.event).collect()
        }
    }

    #[test]
    fn a_pool_that_hangs_holds_up_no_other() {
        let mut pools = Pools::new(Vec::new());
        let (_hangs, other) = (pools.add("hangs"), pools.add("other"));
        other.send(look_of("other")).unwrap();
        pools.found(&["hangs", "other"]);
        assert_eq!(pools.next(), []);
        pools.watch.look();
        other.send(failed("other")).unwrap();
        assert_eq!(pools.next(), [Kind::Fail]);
        assert!(!pools.watch.has_seen_all());
        // it is asked once, however often there is something to ask
        pools.watch.look();
        let watched = pools.watch.pools.get_mut("hangs").unwrap();
        assert!(watched.asked && watched.ask_again);
        assert!(watched.unanswered.is_some());
        watched.unanswered = Instant::now().checked_sub(SILENCE);
        let told = pools.watch.tick();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].event, Kind::NotAnswering);
        assert_eq!(told[0].pool, "hangs");
        assert_eq!(pools.watch.tick(), []);
        // and it may go
        pools.found(&["other"]);
        assert!(pools.watch.has_seen_all());
    }

    #[test]
    fn one_that_answers_again() {
        let mut pools = Pools::new(Vec::new());
        let give = pools.add("tank");
        pools.found(&["tank"]);
        let watched = pools.watch.pools.get_mut("tank").unwrap();
        watched.unanswered = Instant::now().checked_sub(SILENCE);
        assert_eq!(pools.watch.tick().len(), 1);
        give.send(failed("tank")).unwrap();
        assert_eq!(pools.next(), [Kind::Answering, Kind::DegradedArray]);
        assert!(pools.watch.due().is_none());
    }

    #[test]
    fn pools_come_and_go() {
        let mut pools = Pools::new(Vec::new());
        assert_eq!(pools.found(&[]), []);
        let give = pools.add("tank");
        pools.found(&["tank"]);
        // while it is started it is suspended: what it says then does not count
        let mut suspended = failed("tank");
        suspended.suspended = true;
        give.send(suspended).unwrap();
        assert_eq!(pools.next(), []);
        assert!(pools.watch.due().is_some());
        pools.watch.look();
        give.send(look_of("tank")).unwrap();
        assert_eq!(pools.next(), [Kind::NewArray]);
        assert_eq!(pools.found(&[]), [Kind::DeviceDisappeared]);
        // what is said of one that is gone is of nobody
        assert_eq!(pools.watch.looked(1, Ok(failed("tank"))), []);
    }

    #[test]
    fn after_a_restart_nothing_is_repeated_or_missed() {
        let before = vec![
            Seen::new(&failed("same")),
            Seen::new(&look_of("changed")),
            Seen::new(&look_of("gone")),
        ];
        let mut pools = Pools::new(before);
        let (same, changed) = (pools.add("same"), pools.add("changed"));
        assert_eq!(pools.found(&["changed", "same"]), [Kind::DeviceDisappeared]);
        same.send(failed("same")).unwrap();
        assert_eq!(pools.next(), [Kind::DegradedArray]);
        changed.send(failed("changed")).unwrap();
        assert_eq!(pools.next(), [Kind::Fail, Kind::DegradedArray]);
    }
}
