// SPDX-License-Identifier: GPL-2.0-only

use std::io::{IsTerminal, stdout};
use std::thread;

use anyhow::{Result, bail};
use ratatui::crossterm::terminal;

use crate::cli::TopArgs;
use crate::dm::Dm;
use crate::output;
use crate::top::view::View;
use crate::top::{draw, live, look};

/// Of what is no terminal.
const COLUMNS: u16 = 80;

pub fn run(args: &TopArgs, json: bool) -> Result<()> {
    let dm = Dm::open()?;
    let key = args.pool.as_deref();
    if !args.once && !stdout().is_terminal() {
        bail!("standard output is no terminal: give --once to see the pool once");
    }
    let before = look::all(&dm, key, &[])?;
    if !args.once {
        return live::run(key, before, args.interval);
    }
    thread::sleep(args.interval);
    let view = View::new(&before, &look::all(&dm, key, &before)?);
    if json {
        return output::json(&view);
    }
    let size = stdout().is_terminal().then(terminal::size);
    let width = match size {
        Some(Ok((width, _))) if width > 0 => width,
        _ => COLUMNS,
    };
    output::emit(&draw::text(&view.pools, width));
    Ok(())
}
