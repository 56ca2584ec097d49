// SPDX-License-Identifier: GPL-2.0-only
//! The terminal, taken for pictures and given back whatever happens.

use std::io::{self, Stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// It is as we need it, not as it was.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// As it was, once. What fails then is not to be helped.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Gives the terminal back when it is dropped; and before a panic of any thread is told of.
pub struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub fn take() -> Result<Self> {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            tell(info);
        }));
        Self::prepare()
            .inspect_err(|_| give_back())
            .context("cannot use the terminal for pictures: 'fusion top --once' needs none")
    }

    fn prepare() -> Result<Self> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(Self(Terminal::new(CrosstermBackend::new(io::stdout()))?))
    }

    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        // After a panic elsewhere it is not ours any more.
        if TAKEN.load(Ordering::SeqCst) {
            self.0
                .draw(picture)
                .context("cannot write to the terminal")?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}
