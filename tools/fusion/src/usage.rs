// SPDX-License-Identifier: GPL-2.0-only
//! Who uses a volume.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::devno::DevNo;
use crate::dm::{self, Dm};
use crate::sysfs;

/// udev looks into devices that have just changed; give it the time.
const PATIENCE: [Duration; 5] = [Duration::from_millis(200); 5];

/// What LVM's devices have before their uuids.
const LVM_UUID_PREFIX: &str = "LVM-";

/// Who it is, and what is to be done.
#[derive(Debug, PartialEq, Eq)]
struct User {
    who: String,
    remedy: String,
}

/// A device that has the volume open.
struct Holder {
    name: String,
    /// Of device-mapper.
    uuid: Option<String>,
}

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
            (Some(User { who, remedy }), _) => {
                bail!("{name} is in use ({who}): {remedy} and try again")
            }
            (None, None) => bail!("{name} is in use by a program: close it and try again"),
        }
    }
}

/// None: not known.
fn user_of(dev: DevNo) -> Option<User> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(point) = mount_point(&mounts, dev) {
        return Some(User {
            who: format!("mounted on {point}"),
            remedy: "unmount it".into(),
        });
    }
    let entries = fs::read_dir(format!("/sys/dev/block/{dev}/holders")).ok()?;
    let holders: Vec<Holder> = entries
        .flatten()
        .map(|entry| {
            let kernel_name = entry.file_name().to_string_lossy().into_owned();
            Holder {
                uuid: sysfs::attribute(&kernel_name, "dm/uuid"),
                name: dm::name_of(&kernel_name).unwrap_or(kernel_name),
            }
        })
        .collect();
    user_by_holders(&holders)
}

fn user_by_holders(holders: &[Holder]) -> Option<User> {
    if holders.is_empty() {
        return None;
    }
    let names: Vec<_> = holders.iter().map(|holder| holder.name.as_str()).collect();
    let groups: Option<BTreeSet<_>> = holders.iter().map(volume_group).collect();
    let remedy = match groups {
        Some(groups) => format!(
            "deactivate it with vgchange -an {}",
            Vec::from_iter(groups).join(" ")
        ),
        None => "close it".into(),
    };
    Some(User {
        who: format!("used by {}", names.join(", ")),
        remedy,
    })
}

/// The volume group of a device of LVM. That is named GROUP-VOLUME, or GROUP-VOLUME-LAYER, with
/// the hyphens in names doubled.
fn volume_group(holder: &Holder) -> Option<String> {
    holder
        .uuid
        .as_ref()
        .filter(|uuid| uuid.starts_with(LVM_UUID_PREFIX))?;
    let marked = holder.name.replace("--", "\0");
    let (group, _) = marked.split_once('-')?;
    Some(group.replace('\0', "-"))
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

    #[test]
    fn holders() {
        let user = |holders: &[(&str, Option<&str>)]| {
            let holders: Vec<_> = holders
                .iter()
                .map(|(name, uuid)| Holder {
                    name: (*name).into(),
                    uuid: uuid.map(str::to_owned),
                })
                .collect();
            user_by_holders(&holders).map(|user| (user.who, user.remedy))
        };
        let lvm = Some("LVM-x");
        let some = |who: &str, remedy: &str| Some((who.to_owned(), remedy.to_owned()));
        assert_eq!(user(&[]), None);
        assert_eq!(user(&[("md0", None)]), some("used by md0", "close it"));
        assert_eq!(
            user(&[("a---b-c", lvm), ("vg-lv_tdata", lvm), ("vg-lv", lvm)]),
            some(
                "used by a---b-c, vg-lv_tdata, vg-lv",
                "deactivate it with vgchange -an a- vg"
            )
        );
        // what looks like one, and is another's
        assert_eq!(
            user(&[("vg-lv", lvm), ("a-b", Some("CRYPT-x"))]),
            some("used by vg-lv, a-b", "close it")
        );
    }
}
