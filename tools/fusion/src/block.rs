// SPDX-License-Identifier: GPL-2.0-only
//! Block devices as the tools read and write them.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fusion_format::SECTOR_BYTES;

use crate::devno::DevNo;

const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKSSZGET: libc::c_ulong = 0x1268;

/// Of the kernel's cache of a device.
const CACHE_PAGE_BYTES: u64 = 4096;
/// Bytes written at a time when zeroing.
const ZERO_BYTES: usize = 1 << 20;

/// An open block device.
pub struct BlockDevice {
    pub path: PathBuf,
    pub dev: DevNo,
    pub sectors: u64,
    pub logical_block_bytes: u32,
    file: File,
}

impl BlockDevice {
    pub fn open_read(path: &Path) -> Result<Self> {
        Self::open(path, OpenOptions::new().read(true))
    }

    pub fn open_write(path: &Path) -> Result<Self> {
        Self::open(path, OpenOptions::new().read(true).write(true))
    }

    /// Fails if anything else has claimed the device: a mount, swap, md, LVM, ...
    pub fn open_exclusive(path: &Path) -> Result<Self> {
        Self::open(
            path,
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_EXCL),
        )
    }

    fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        let shown = path.display();
        let meta =
            std::fs::metadata(path).with_context(|| format!("{shown} cannot be examined"))?;
        if !meta.file_type().is_block_device() {
            bail!(
                "{shown} is not a block device: name one, or attach the file to a loop device \
                 (losetup)"
            );
        }
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => bail!(
                "{shown} is in use: unmount it, or stop what uses it (lsblk {shown} tells), and \
                 try again"
            ),
            Err(error) => return Err(error).with_context(|| format!("{shown} cannot be opened")),
        };
        let mut bytes = 0u64;
        let mut logical: libc::c_int = 0;
        // SAFETY: both ioctls store one integer of the given type.
        let failed = unsafe {
            libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) != 0
                || libc::ioctl(file.as_raw_fd(), BLKSSZGET as _, &raw mut logical) != 0
        };
        if failed {
            return Err(std::io::Error::last_os_error())
                .with_context(|| format!("the size of {shown} cannot be read"));
        }
        Ok(Self {
            path: path.to_owned(),
            dev: DevNo {
                major: libc::major(meta.rdev()),
                minor: libc::minor(meta.rdev()),
            },
            sectors: bytes / SECTOR_BYTES,
            logical_block_bytes: logical.unsigned_abs(),
            file,
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// What is there now: others, like the kernel, may write past the cache of the device.
    pub fn read_at(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        // Parts of pages would stay.
        let first = offset / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
        let end = (offset + bytes as u64).next_multiple_of(CACHE_PAGE_BYTES);
        let (at, length) = (i64::try_from(first)?, i64::try_from(end - first)?);
        // SAFETY: a valid descriptor, and numbers.  It fails if that is pinned, or dirty.
        unsafe {
            libc::posix_fadvise(self.file.as_raw_fd(), at, length, libc::POSIX_FADV_DONTNEED);
        }
        let mut buffer = vec![0; bytes];
        self.file
            .read_exact_at(&mut buffer, offset)
            .with_context(|| format!("{} cannot be read at byte {offset}", self.path.display()))?;
        Ok(buffer)
    }

    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.file
            .write_all_at(data, offset)
            .with_context(|| format!("{} cannot be written at byte {offset}", self.path.display()))
    }

    /// Overwrites `bytes` bytes from `offset` on with zeros.
    pub fn zero(&self, mut offset: u64, mut bytes: u64) -> Result<()> {
        let zeros = vec![0; ZERO_BYTES];
        while bytes > 0 {
            let now = bytes.min(ZERO_BYTES as u64);
            self.write_at(offset, &zeros[..usize::try_from(now)?])?;
            offset += now;
            bytes -= now;
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_all()
            .with_context(|| format!("writes to {} failed", self.path.display()))
    }
}

/// Paths of devices, for a message.
pub fn names<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    names.join(", ")
}
