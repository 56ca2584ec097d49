// SPDX-License-Identifier: GPL-2.0-only
//! Asking before data is lost.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Result, bail};

/// Returns if the answer is yes; an error otherwise, or if there is nobody to ask.
pub fn confirm(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("{what} loses data: give --yes if that is what you want");
    }
    eprint!("{what} loses data. Continue? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}
