// SPDX-License-Identifier: GPL-2.0-only
//! /dev/mapper/NAME where there is no udev to make it.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::devno::DevNo;

const DIRECTORY: &str = "/dev/mapper";

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Makes the node unless it is there, be it a node or udev's link to one.
pub fn make(name: &str, dev: DevNo) -> Result<()> {
    let path = path(name);
    if is_node(&path, dev) {
        return Ok(());
    }
    remove(name);
    fs::create_dir_all(DIRECTORY)?;
    let c_path = CString::new(path.to_string_lossy().as_bytes())?;
    // SAFETY: a terminated string and plain numbers.
    let error = unsafe {
        libc::mknod(
            c_path.as_ptr(),
            libc::S_IFBLK | 0o600,
            libc::makedev(dev.major, dev.minor),
        )
    };
    if error != 0 && !is_node(&path, dev) {
        bail!(
            "cannot make the node {}: {}",
            path.display(),
            std::io::Error::last_os_error()
        );
    }
    Ok(())
}

/// Removes what is left of the node of a device that is gone.
pub fn remove(name: &str) {
    // With udev it is gone already.
    let _ = fs::remove_file(path(name));
}

fn is_node(path: &Path, dev: DevNo) -> bool {
    fs::metadata(path).is_ok_and(|meta| {
        meta.file_type().is_block_device()
            && libc::major(meta.rdev()) == dev.major
            && libc::minor(meta.rdev()) == dev.minor
    })
}
