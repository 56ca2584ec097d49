// SPDX-License-Identifier: GPL-2.0-only
//! One change at a time on a machine.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

const DIRECTORY: &str = "/run/lock";
const PATH: &str = "/run/lock/dm-fusion";

/// Held while a command changes anything; waits for others.
pub struct Lock {
    _file: File,
}

impl Lock {
    pub fn take() -> Result<Self> {
        let context = || format!("the lock file {PATH} cannot be taken");
        fs::create_dir_all(DIRECTORY).with_context(context)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(PATH)
            .with_context(context)?;
        loop {
            // SAFETY: a valid descriptor.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(Self { _file: file });
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error).with_context(context);
            }
            crate::interrupt::check()?;
        }
    }
}
