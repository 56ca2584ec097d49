// SPDX-License-Identifier: GPL-2.0-only
//! Pictures, again and again, until a key ends it.
//!
//! A thread looks at the pools: should the kernel make it wait, keys are still heeded, and the
//! picture says how old it is.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::dm::Dm;
use crate::interrupt;

use super::draw::{self, Around, Scroll};
use super::look::{self, Look};
use super::terminal::Screen;
use super::view::View;

/// How long a signal waits, and what was seen, to be heeded.
const PERIOD: Duration = Duration::from_millis(100);
/// A picture that is older than it should be by this says so.
const LATE: Duration = Duration::from_secs(2);

/// What keys have chosen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Chosen {
    pool: usize,
    scroll: Scroll,
}

#[derive(Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

impl Chosen {
    /// `page` lines are a page.
    fn key(&mut self, key: KeyEvent, pools: usize, page: usize) -> Then {
        if key.kind == KeyEventKind::Release {
            return Then::GoOn;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Then::End,
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Then::End,
            KeyCode::Char('n') | KeyCode::Right => self.turn(pools, 1),
            KeyCode::Char('p') | KeyCode::Left => self.turn(pools, pools.saturating_sub(1)),
            KeyCode::Char('s') => self.scroll.trouble_first ^= true,
            KeyCode::Tab => self.scroll.volumes_chosen ^= true,
            KeyCode::Up | KeyCode::Char('k') => self.up(1),
            KeyCode::Down | KeyCode::Char('j') => self.down(1),
            KeyCode::PageUp => self.up(page),
            KeyCode::PageDown => self.down(page),
            KeyCode::Home => self.up(usize::MAX),
            KeyCode::End => self.down(usize::MAX),
            _ => {}
        }
        Then::GoOn
    }

    fn turn(&mut self, pools: usize, by: usize) {
        if pools > 1 {
            self.pool = (self.pool + by) % pools;
            self.scroll.members_from = 0;
            self.scroll.volumes_from = 0;
        }
    }

    fn from(&mut self) -> &mut usize {
        if self.scroll.volumes_chosen {
            &mut self.scroll.volumes_from
        } else {
            &mut self.scroll.members_from
        }
    }

    fn up(&mut self, by: usize) {
        let from = self.from();
        *from = from.saturating_sub(by);
    }

    /// Who draws sees to it that it does not go too far.
    fn down(&mut self, by: usize) {
        let from = self.from();
        *from = from.saturating_add(by);
    }
}

/// Looks until nobody wants to know any more, or there is nothing more to see: then why.
fn watch(key: Option<String>, before: Vec<Look>, interval: Duration) -> Receiver<Result<View>> {
    let (seen, view) = mpsc::channel();
    thread::spawn(move || {
        let mut before = before;
        let look = |before: &[Look]| look::all(&Dm::open()?, key.as_deref(), before);
        let mut due = Instant::now();
        loop {
            due = (due + interval).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let result = look(&before).map(|after| {
                let view = View::new(&before, &after);
                before = after;
                view
            });
            let last = result.is_err();
            if seen.send(result).is_err() || last {
                return;
            }
        }
    });
    view
}

/// Shows the pool of that name or uuid, or all, every `interval`; `first` is the first look.
pub fn run(key: Option<&str>, first: Vec<Look>, interval: Duration) -> Result<()> {
    // Before the thread is made. Ctrl-C is a key, but there is kill, too.
    interrupt::defer();
    let shown = show(key, first, interval);
    // What has come in the meantime ends it now, as it would have.
    interrupt::allow();
    shown
}

fn show(key: Option<&str>, first: Vec<Look>, interval: Duration) -> Result<()> {
    let mut screen = Screen::take()?;
    let mut view = View::new(&[], &first);
    let mut seen_at = Instant::now();
    let views = watch(key.map(str::to_owned), first, interval);
    let mut chosen = Chosen::default();
    while !interrupt::waiting() {
        match views.try_recv() {
            Ok(next) => {
                view = next?;
                seen_at = Instant::now();
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("looking at the pools has ended by itself"),
        }
        screen.draw(|frame| picture(frame, &view, &mut chosen, seen_at.elapsed(), interval))?;
        if event::poll(PERIOD)? {
            if let Event::Key(key) = event::read()? {
                // About what a small terminal shows.
                if chosen.key(key, view.pools.len(), 8) == Then::End {
                    break;
                }
            }
        }
    }
    Ok(())
}

fn picture(
    frame: &mut Frame<'_>,
    view: &View,
    chosen: &mut Chosen,
    age: Duration,
    interval: Duration,
) {
    chosen.pool = chosen.pool.min(view.pools.len().saturating_sub(1));
    let Some(pool) = view.pools.get(chosen.pool) else {
        return;
    };
    let mut note = String::new();
    if view.pools.len() > 1 {
        note += &format!("pool {} of {}  ", chosen.pool + 1, view.pools.len());
    }
    note += &if age > interval + LATE {
        format!("no answer for {} s", age.as_secs())
    } else {
        format!("every {} s", interval.as_secs_f64())
    };
    let around = Around { note, live: true };
    let area = frame.area();
    draw::pool(frame.buffer_mut(), area, pool, &around, &mut chosen.scroll);
}

#[cfg(test)]
mod tests {
    use super::super::testing::looks;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn press(chosen: &mut Chosen, code: KeyCode, pools: usize) -> Then {
        chosen.key(KeyEvent::new(code, KeyModifiers::NONE), pools, 8)
    }

    #[test]
    fn keys() {
        let mut chosen = Chosen::default();
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut chosen, code, 1), Then::End);
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(chosen.key(control_c, 1, 8), Then::End);
        assert_eq!(press(&mut chosen, KeyCode::Char('c'), 1), Then::GoOn);
        press(&mut chosen, KeyCode::Right, 1);
        assert_eq!(chosen, Chosen::default());
        press(&mut chosen, KeyCode::Left, 3);
        assert_eq!(chosen.pool, 2);
        press(&mut chosen, KeyCode::Char('n'), 3);
        assert_eq!(chosen.pool, 0);
        press(&mut chosen, KeyCode::Down, 1);
        press(&mut chosen, KeyCode::PageDown, 1);
        assert_eq!(chosen.scroll.members_from, 9);
        press(&mut chosen, KeyCode::Tab, 1);
        press(&mut chosen, KeyCode::End, 1);
        press(&mut chosen, KeyCode::Down, 1);
        assert_eq!(chosen.scroll.volumes_from, usize::MAX);
        press(&mut chosen, KeyCode::Home, 1);
        assert_eq!(chosen.scroll.volumes_from, 0);
        // without pools there is nothing to choose
        press(&mut chosen, KeyCode::Left, 0);
        assert_eq!(chosen.pool, 0);
    }

    #[test]
    fn pictures() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let (before, after) = looks(8, 2);
        let (_, mut other) = looks(8, 0);
        other.pool.name = "other".into();
        other.pool.dev.minor += 50;
        let view = View::new(&[before], &[after, other]);
        let mut chosen = Chosen {
            pool: 7,
            ..Chosen::default()
        };
        let mut shown = |age| {
            let second = Duration::from_secs(1);
            terminal
                .draw(|frame| picture(frame, &view, &mut chosen, second * age, second))
                .unwrap();
            terminal.backend().to_string()
        };
        let text = shown(1);
        assert!(text.contains("other: degraded"), "{text}");
        assert!(text.contains("pool 2 of 2  every 1 s"), "{text}");
        assert!(shown(9).contains("no answer for 9 s"));
    }
}
