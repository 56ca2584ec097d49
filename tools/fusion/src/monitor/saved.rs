// SPDX-License-Identifier: GPL-2.0-only
//! What was said, for the next one: a restart repeats nothing, and misses nothing. It is gone with
//! the machine's restart, as the pools' counters are.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::seen::Seen;

const DIRECTORY: &str = "/run/fusion/monitor";

/// While this is there nobody else monitors.
pub struct Saved {
    path: PathBuf,
    written: Vec<u8>,
    _lock: File,
}

impl Saved {
    pub fn open() -> Result<Self> {
        Self::open_in(Path::new(DIRECTORY))
    }

    fn open_in(directory: &Path) -> Result<Self> {
        let lock = directory.join("lock");
        let file = fs::create_dir_all(directory)
            .and_then(|()| {
                OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(&lock)
            })
            .with_context(|| format!("cannot open {}: run this as root", lock.display()))?;
        // SAFETY: an open file.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            bail!(
                "pools are monitored already: 'systemctl stop fusiond' ends that, if it is the \
                 service"
            );
        }
        Ok(Self {
            path: directory.join("pools.json"),
            written: Vec::new(),
            _lock: file,
        })
    }

    /// By name. What cannot be read is as if nothing had been said.
    pub fn read(&self) -> BTreeMap<String, Seen> {
        let pools: Vec<Seen> = fs::read(&self.path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let by_name = pools.into_iter().map(|pool| (pool.name.clone(), pool));
        by_name.collect()
    }

    /// Unless it is there already.
    pub fn write(&mut self, pools: &[&Seen]) -> Result<()> {
        let text = serde_json::to_vec(pools)?;
        if text == self.written {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        fs::write(&new, &text)
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.written = text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Mode;
    use uuid::Uuid;

    #[test]
    fn kept_for_the_next() {
        let directory = std::env::temp_dir().join(format!("fusion-saved-{}", std::process::id()));
        let mut saved = Saved::open_in(&directory).unwrap();
        assert!(saved.read().is_empty());
        let pool = Seen {
            name: "tank".into(),
            uuid: Uuid::from_u128(7),
            mode: Mode::ReadOnly,
            needs_check: true,
            members: Vec::new(),
            mirror: None,
            low_water: true,
            degraded: 1,
            rebuild_todo: 2,
            rebuilt: 3,
            mismatches: 4,
            grows_from: 5,
        };
        saved.write(&[&pool]).unwrap();
        assert!(Saved::open_in(&directory).is_err());
        drop(saved);
        let saved = Saved::open_in(&directory).unwrap();
        assert_eq!(saved.read().get("tank"), Some(&pool));
        // An earlier version has not written that down.
        let text = fs::read_to_string(&saved.path).unwrap();
        fs::write(&saved.path, text.replace(",\"grows_from\":5", "")).unwrap();
        assert_eq!(saved.read()["tank"].grows_from, 0);
        fs::write(&saved.path, "[{\"name\"").unwrap();
        assert!(saved.read().is_empty());
        fs::remove_dir_all(&directory).unwrap();
    }
}
