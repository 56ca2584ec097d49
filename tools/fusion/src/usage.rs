// SPDX-License-Identifier: GPL-2.0-only
//! Who uses a volume.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::devno::DevNo;
use crate::dm::{self, Dm};

/// udev looks into devices that have just changed; give it the time.
const PATIENCE: [Duration; 5] = [Duration::from_millis(200); 5];

/// An error that names the user if the device is open.
pub fn check_unused(dm: &Dm, name: &str) -> Result<()> {
    let mut patience = PATIENCE.iter();
    loop {
        let Some(info) = dm.info(name)? else {
            return Ok(());
        };
        if info.open_count <= 0 {
            return Ok(());
        }
        let user = user_of(info.dev);
        match (user, patience.next()) {
            (None, Some(pause)) => sleep(*pause),
            (Some(user), _) => bail!("{name} is in use ({user}): close it and try again"),
            (None, None) => bail!("{name} is in use by a program: close it and try again"),
        }
    }
}

/// "mounted on /mnt", "used by /dev/mapper/vg-lv"; None: not known.
fn user_of(dev: DevNo) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(point) = mount_point(&mounts, dev) {
        return Some(format!("mounted on {point}"));
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{dev}/holders")).ok()?;
    let names: Vec<String> = holders
        .flatten()
        .map(|holder| {
            let kernel_name = holder.file_name().to_string_lossy().into_owned();
            dm::name_of(&kernel_name).unwrap_or(kernel_name)
        })
        .collect();
    (!names.is_empty()).then(|| format!("used by {}", names.join(", ")))
}

fn mount_point(mountinfo: &str, dev: DevNo) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let found = DevNo::parse(fields.next()?)?;
        (found == dev).then(|| fields.nth(1).map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts() {
        let info = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    40 22 253:7 / /mnt/data rw shared:1 - xfs /dev/mapper/p-v rw\n";
        let dev = DevNo {
            major: 253,
            minor: 7,
        };
        assert_eq!(mount_point(info, dev).as_deref(), Some("/mnt/data"));
        let dev = DevNo { major: 9, minor: 7 };
        assert_eq!(mount_point(info, dev), None);
    }
}
