// SPDX-License-Identifier: GPL-2.0-only
//! Block devices in /sys.

use std::fs;

use anyhow::{Context, Result};

use crate::devno::DevNo;

const BLOCK_CLASS: &str = "/sys/class/block";

/// What the kernel calls the block device of these numbers.
pub fn name_of(dev: DevNo) -> Result<String> {
    let target = fs::read_link(format!("/sys/dev/block/{dev}"))
        .with_context(|| format!("there is no block device {dev}"))?;
    Ok(target
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default())
}

/// What the kernel calls all block devices.
pub fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(BLOCK_CLASS) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// An attribute, such as `size`, or `dm/name`, of a device by its name; None if it has none.
pub fn attribute(name: &str, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{BLOCK_CLASS}/{name}/{attribute}")).ok()?;
    Some(text.trim().to_owned())
}
