// SPDX-License-Identifier: GPL-2.0-only
//! Device-mapper devices: create, inspect, message, remove, and their nodes.
//!
//! With udev running every change waits until udev has dealt with it (the
//! devicemapper crate's cookies); without it the nodes are made here, so that
//! /dev/mapper/NAME exists on return either way.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use devicemapper::{DM, DevId, DmError, DmFlags, DmName, DmOptions, DmUdevFlags, DmUuid, errors};

use crate::devno::DevNo;
use crate::kmsg::KernelLog;
use crate::names;
use crate::nodes;
use crate::sysfs;

/// What udev's rules may do with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// A pool or a part of one: a node in /dev/mapper and nothing else.
    Private,
    /// A volume: probed and linked like any disk.
    Public,
}

impl Visibility {
    fn udev_flags(self) -> DmUdevFlags {
        match self {
            Self::Public => DmUdevFlags::empty(),
            Self::Private => {
                DmUdevFlags::DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG
                    | DmUdevFlags::DM_UDEV_DISABLE_DISK_RULES_FLAG
                    | DmUdevFlags::DM_UDEV_DISABLE_OTHER_RULES_FLAG
            }
        }
    }

    fn options(self) -> DmOptions {
        DmOptions::default().set_udev_flags(self.udev_flags())
    }
}

/// A device of one target, to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    pub uuid: String,
    pub visibility: Visibility,
    pub sectors: u64,
    pub target: &'static str,
    pub params: String,
}

impl Spec {
    /// The table as `dmsetup create` takes it.
    pub fn table(&self) -> String {
        format!("0 {} {} {}", self.sectors, self.target, self.params)
    }

    fn rows(&self) -> Vec<(u64, u64, String, String)> {
        vec![(0, self.sectors, self.target.to_owned(), self.params.clone())]
    }
}

/// One target of a loaded table or of a status.
#[derive(Clone, Debug)]
pub struct Target {
    pub sectors: u64,
    pub kind: String,
    pub params: String,
}

#[derive(Clone, Debug)]
pub struct Info {
    pub uuid: String,
    pub dev: DevNo,
    pub open_count: i32,
    pub suspended: bool,
}

pub struct Dm(DM);

impl Dm {
    pub fn open() -> Result<Self> {
        let dm = DM::new().map_err(|_| {
            anyhow!(
                "device-mapper cannot be reached: run this as root, with the kernel module \
                 dm_mod loaded"
            )
        })?;
        Ok(Self(dm))
    }

    /// All device-mapper devices by name.
    pub fn list(&self) -> Result<Vec<(String, DevNo)>> {
        let devices = self
            .0
            .list_devices()
            .map_err(|error| describe("cannot list device-mapper's devices", &error, None))?;
        Ok(devices
            .into_iter()
            .map(|(name, device, _)| (name.to_string(), device.into()))
            .collect())
    }

    /// None if there is no such device.
    pub fn info(&self, name: &str) -> Result<Option<Info>> {
        match self.0.device_info(&id(name)?) {
            Ok(info) => Ok(Some(Info {
                uuid: info.uuid().map(ToString::to_string).unwrap_or_default(),
                dev: info.device().into(),
                open_count: info.open_count(),
                suspended: info.flags().contains(DmFlags::DM_SUSPEND),
            })),
            Err(error) if errno(&error) == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(describe(&format!("cannot inspect {name}"), &error, None)),
        }
    }

    pub fn table(&self, name: &str) -> Result<Vec<Target>> {
        self.targets(name, DmFlags::DM_STATUS_TABLE)
    }

    /// The status as of now, without making the target commit anything.
    pub fn status(&self, name: &str) -> Result<Vec<Target>> {
        self.targets(name, DmFlags::DM_NOFLUSH)
    }

    fn targets(&self, name: &str, flags: DmFlags) -> Result<Vec<Target>> {
        let (_, rows) = self
            .0
            .table_status(&id(name)?, DmOptions::default().set_flags(flags))
            .map_err(|error| describe(&format!("cannot read the table of {name}"), &error, None))?;
        Ok(rows
            .into_iter()
            .map(|(_, sectors, kind, params)| Target {
                sectors,
                kind,
                params,
            })
            .collect())
    }

    /// Creates and starts a device; leaves nothing behind if that fails.
    pub fn create(&self, spec: &Spec) -> Result<DevNo> {
        let name = dm_name(&spec.name)?;
        let uuid = DmUuid::new(&spec.uuid)
            .map_err(|_| anyhow!("{} is no valid device-mapper uuid", spec.uuid))?;
        let options = spec.visibility.options();
        let what = format!("cannot create the device {}", spec.name);

        let info = self
            .0
            .device_create(name, Some(uuid), DmOptions::default())
            .map_err(|error| match errno(&error) {
                Some(libc::EBUSY) => anyhow!(
                    "there is a device-mapper device {} already: remove or rename it first",
                    spec.name
                ),
                _ => describe(&what, &error, None),
            })?;
        let log = KernelLog::open();
        let device = DevId::Name(name);
        let started = self
            .0
            .table_load(&device, &spec.rows(), DmOptions::default())
            .and_then(|_| self.0.device_suspend(&device, options));
        let made = started
            .map_err(|error| describe(&what, &error, log))
            .and_then(|_| nodes::make(&spec.name, info.device().into()));
        if let Err(error) = made {
            // The first error is the one to report.
            let _ = self.0.device_remove(&device, options);
            nodes::remove(&spec.name);
            return Err(error);
        }
        Ok(info.device().into())
    }

    /// Gives a running device the table of `spec`. If that fails the old one is there again, and
    /// the device runs: one step suspends, changes and resumes it, so that who is killed leaves
    /// none suspended.
    pub fn reload(&self, spec: &Spec) -> Result<()> {
        let device = id(&spec.name)?;
        let options = spec.visibility.options();
        let what = format!("cannot change the device {}", spec.name);
        let before = self.table(&spec.name)?;
        let log = KernelLog::open();
        self.0
            .table_load(&device, &spec.rows(), DmOptions::default())
            .map_err(|error| describe(&what, &error, log))?;
        let log = KernelLog::open();
        let Err(error) = self.0.device_suspend(&device, options) else {
            return Ok(());
        };
        let error = describe(&what, &error, log);
        let mut start = 0;
        let mut rows = Vec::new();
        for target in before {
            rows.push((start, target.sectors, target.kind, target.params));
            start += target.sectors;
        }
        let log = KernelLog::open();
        self.0
            .table_load(&device, &rows, DmOptions::default())
            .and_then(|_| self.0.device_suspend(&device, options))
            .map_err(|again| {
                let again = describe("it is suspended, and stays so", &again, log);
                anyhow!("{error:#}; {again:#}")
            })?;
        Err(error)
    }

    pub fn remove(&self, name: &str, visibility: Visibility) -> Result<()> {
        let log = KernelLog::open();
        match self.0.device_remove(&id(name)?, visibility.options()) {
            Ok(_) => {}
            Err(error) if errno(&error) == Some(libc::ENXIO) => {}
            Err(error) if errno(&error) == Some(libc::EBUSY) => {
                bail!("the device {name} is in use: close what uses it and try again");
            }
            Err(error) => {
                return Err(describe(
                    &format!("cannot remove the device {name}"),
                    &error,
                    log,
                ));
            }
        }
        nodes::remove(name);
        Ok(())
    }

    /// What happens to any device from now on ends a `wait`.
    pub fn arm(&self) -> Result<()> {
        self.0
            .arm_poll()
            .map(|_| ())
            .map_err(|error| describe("cannot wait for device-mapper's events", &error, None))
    }

    /// Waits for an event of any device, or for one that is made, given a table, or removed.
    pub fn wait(&self) -> Result<()> {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd.
        while unsafe { libc::poll(&raw mut poll, 1, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error).context("cannot wait for device-mapper's events");
            }
        }
        Ok(())
    }

    /// Sends a message to the first target; returns its answer.
    pub fn message(&self, name: &str, message: &str) -> Result<String> {
        let verb = message.split(' ').next().unwrap_or_default();
        self.message_for(name, message, &format!("{name} did not accept {verb}"))
    }

    /// The same, for those who know better what it means if the message is refused.
    pub fn message_for(&self, name: &str, message: &str, refused: &str) -> Result<String> {
        let log = KernelLog::open();
        let (_, answer) = self
            .0
            .target_msg(&id(name)?, None, message)
            .map_err(|error| describe(refused, &error, log))?;
        Ok(answer.unwrap_or_default())
    }
}

fn dm_name(name: &str) -> Result<&DmName> {
    DmName::new(name).map_err(|_| anyhow!("{name} is no valid device-mapper name"))
}

fn id(name: &str) -> Result<DevId<'_>> {
    Ok(DevId::Name(dm_name(name)?))
}

fn errno(error: &DmError) -> Option<i32> {
    match error {
        DmError::Core(errors::Error::Ioctl(_, _, _, errno)) => Some(**errno as i32),
        _ => None,
    }
}

/// A sentence: what failed, and why, in the kernel's words where it gave any.
fn describe(what: &str, error: &DmError, log: Option<KernelLog>) -> anyhow::Error {
    let code = match errno(error) {
        Some(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
        None => error.to_string(),
    };
    match log.and_then(KernelLog::device_mapper_lines) {
        Some(reason) => anyhow!("{what}: {reason}"),
        None => anyhow!("{what}: {code}"),
    }
}

/// The names of devices in /sys are those of the kernel, `dm-3`; this is what
/// device-mapper calls it, if it is one.
pub fn name_of(kernel_name: &str) -> Option<String> {
    sysfs::attribute(kernel_name, "dm/name")
}

/// The path under which a user knows the block device of these numbers.
pub fn path_of(dev: DevNo) -> Result<String> {
    sysfs::name_of(dev).map(|kernel_name| path(&kernel_name))
}

/// The same of what the kernel calls so. What device-mapper calls it has a node when udev has dealt with
/// the device: until then, as in its own event, there is the kernel's.
pub fn path(kernel_name: &str) -> String {
    name_of(kernel_name)
        .map(|name| names::dm_path(&name))
        .filter(|path| Path::new(path).exists())
        .unwrap_or_else(|| format!("/dev/{}", kernel_name.replace('!', "/")))
}
