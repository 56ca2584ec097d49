// SPDX-License-Identifier: GPL-2.0-only
//! The metadata of a pool that is not running: by the pool's name, or the device or file that it
//! is on.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fusion_metadata::FileBlocks;
use fusion_metadata::blocks::BLOCK_BYTES;

use crate::dm::Dm;
use crate::lock::Lock;
use crate::{interrupt, names, running, scan, start};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Is it a pool's name, and no path?
pub fn is_pool(metadata: &str) -> bool {
    !metadata.contains('/') && !Path::new(metadata).exists()
}

/// Does something with what `metadata` names. That of a pool is brought up for it, and the pool
/// cannot be started meanwhile.
pub fn with<T>(
    metadata: &str,
    access: Access,
    work: impl FnOnce(FileBlocks) -> Result<T>,
) -> Result<T> {
    with_members(metadata, access, |blocks, _| work(blocks))
}

/// The same; of a pool also with its members' devices, by index; None: it is missing. Nothing if it
/// is not named by the pool's name.
pub fn with_members<T>(
    metadata: &str,
    access: Access,
    work: impl FnOnce(FileBlocks, &[Option<PathBuf>]) -> Result<T>,
) -> Result<T> {
    if !is_pool(metadata) {
        return work(open(Path::new(metadata), access)?, &[]);
    }
    let _lock = Lock::take()?;
    interrupt::defer();
    let dm = Dm::open()?;
    if let Some(pool) = running::find(&dm, metadata)? {
        bail!(
            "pool {} is running: stop it first (fusion pool stop {})",
            pool.name,
            pool.name
        );
    }
    let scan = scan::scan(&[])?;
    let pool = scan.find(metadata)?.assemble(false)?;
    let path = match start::metadata_device(&scan, &pool)? {
        Some(device) => device.path,
        None => PathBuf::from(names::dm_path(&names::metadata_name(&pool.name))),
    };
    let members: Vec<_> = pool
        .members
        .iter()
        .map(|member| Some(member.as_ref()?.path.clone()))
        .collect();
    let made = start::bring_up_metadata(&dm, &pool)?;
    let result = open(&path, access).and_then(|blocks| work(blocks, &members));
    drop(made);
    result
}

/// Nobody else uses a device that is opened: not even one that only reads it is of use then.
fn open(path: &Path, access: Access) -> Result<FileBlocks> {
    let shown = path.display();
    let kind = std::fs::metadata(path)
        .with_context(|| format!("{shown} cannot be examined"))?
        .file_type();
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Write);
    if kind.is_block_device() {
        options.custom_flags(libc::O_EXCL);
    } else if !kind.is_file() {
        bail!("{shown} is no block device and no file: name what the metadata is on");
    }
    match options.open(path) {
        Ok(file) => blocks(file, path),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => bail!(
            "{shown} is in use: stop the pool (fusion pool stop), or what else uses it (lsblk \
             {shown} tells), and try again"
        ),
        Err(error) => Err(error).with_context(|| format!("{shown} cannot be opened")),
    }
}

fn blocks(mut file: File, path: &Path) -> Result<FileBlocks> {
    let bytes = file
        .seek(SeekFrom::End(0))
        .with_context(|| format!("the size of {} cannot be read", path.display()))?;
    Ok(FileBlocks {
        file,
        blocks: bytes / BLOCK_BYTES as u64,
    })
}

/// Does something with what is to be written: a pool's or a device's, or a new file of `blocks`
/// blocks, which is removed if it fails. A new file is told from a pool by a slash in its path.
pub fn write<T>(
    metadata: &str,
    blocks: u64,
    work: impl FnOnce(FileBlocks) -> Result<T>,
) -> Result<T> {
    let path = Path::new(metadata);
    let device = path
        .metadata()
        .is_ok_and(|found| found.file_type().is_block_device());
    if device || is_pool(metadata) {
        return with(metadata, Access::Write, work);
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("the file {metadata} cannot be made"))?;
    let result = file
        .set_len(blocks * BLOCK_BYTES as u64)
        .with_context(|| format!("the file {metadata} cannot be made so large"))
        .and_then(|()| work(FileBlocks { file, blocks }));
    if result.is_err() {
        let _ = std::fs::remove_file(path);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fusion-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_new_and_go_if_it_fails() {
        let scratch = Scratch::new("offline");
        let path = scratch.0.join("meta");
        let name = path.to_str().unwrap();
        assert!(!is_pool(name) && is_pool("tank"));
        let failed = write(name, 3, |_| -> Result<()> { bail!("no") });
        assert!(failed.is_err() && !path.exists());
        write(name, 3, |blocks| {
            assert_eq!(blocks.blocks, 3);
            Ok(())
        })
        .unwrap();
        assert!(write(name, 3, |_| Ok(())).is_err());
        assert_eq!(path.metadata().unwrap().len(), 3 * 4096);
        with(name, Access::Read, |blocks| {
            assert_eq!(blocks.blocks, 3);
            Ok(())
        })
        .unwrap();
        let directory = with(scratch.0.to_str().unwrap(), Access::Read, |_| Ok(()));
        assert!(
            directory
                .unwrap_err()
                .to_string()
                .contains("no block device")
        );
    }
}
