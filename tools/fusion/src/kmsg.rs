// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says about a request while it is made.
//!
//! Device-mapper answers a refused table or message with an errno and puts the
//! reason into the kernel's log; this fetches it from there.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use crate::devno::DevNo;

const PREFIX: &str = "device-mapper: ";

/// Most lines to quote.
const MAX_LINES: usize = 3;

/// The kernel's log from the moment this was opened.
pub struct KernelLog(File);

impl KernelLog {
    /// None if the log may not be read; then errors have no reasons.
    pub fn open() -> Option<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// What device-mapper has said since.
    pub fn device_mapper_lines(mut self) -> Option<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        while lines.len() < MAX_LINES {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => lines.extend(reason(&String::from_utf8_lossy(&record[..bytes]))),
                // Records were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// The text of a record if it is device-mapper's.
fn reason(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    let text = text.lines().next()?.strip_prefix(PREFIX)?;
    // "ioctl: error adding target to table" only repeats that there was an error.
    (!text.starts_with("ioctl: error adding target"))
        .then(|| without_source(text.trim()).to_owned())
}

/// Who says it is clear to the reader: "table: 253:3: ", "fusion: " and "fusion: 253:3: " go.
fn without_source(text: &str) -> &str {
    let table = text
        .strip_prefix("table: ")
        .and_then(|rest| rest.split_once(": "))
        .map(|(_device, reason)| reason);
    let ours = text.strip_prefix("fusion: ").map(without_device);
    table.or(ours).unwrap_or(text)
}

fn without_device(text: &str) -> &str {
    match text.split_once(": ") {
        Some((device, reason)) if DevNo::parse(device).is_some() => reason,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        assert_eq!(
            reason("3,812,5140900,-;device-mapper: table: 253:3: fusion-pool: No (-EINVAL)\n")
                .as_deref(),
            Some("fusion-pool: No (-EINVAL)")
        );
        assert_eq!(
            reason("3,1,2,-;device-mapper: fusion: p: usage: resync\n").as_deref(),
            Some("p: usage: resync")
        );
        assert_eq!(
            reason("3,1,2,-;device-mapper: fusion: 253:3: usage: resync\n").as_deref(),
            Some("usage: resync")
        );
        assert_eq!(reason("6,1,2,-;usb 1-1: new device\n"), None);
        assert_eq!(
            reason("3,1,2,-;device-mapper: ioctl: error adding target to table\n"),
            None
        );
    }
}
