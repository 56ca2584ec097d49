// SPDX-License-Identifier: GPL-2.0-only
//! Pools that an administrator has stopped. Until he starts them again, or the machine does, none
//! is started by itself, whatever happens to its members.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

const DIRECTORY: &str = "/run/fusion/stopped";

fn path(pool: Uuid) -> PathBuf {
    Path::new(DIRECTORY).join(pool.to_string())
}

/// Not to be able to say so is no reason not to stop it.
pub fn mark(pool: Uuid) {
    let marked = fs::create_dir_all(DIRECTORY).and_then(|()| fs::write(path(pool), ""));
    if let Err(error) = marked {
        eprintln!(
            "fusion: {}: {error}: pool {pool} may be started again by udev",
            path(pool).display()
        );
    }
}

pub fn clear(pool: Uuid) {
    // It is not there, mostly.
    let _ = fs::remove_file(path(pool));
}

pub fn is(pool: Uuid) -> bool {
    path(pool).exists()
}
