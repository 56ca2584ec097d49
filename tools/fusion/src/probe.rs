// SPDX-License-Identifier: GPL-2.0-only
//! What a device carries already, as libblkid sees it.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use libblkid_rs::{BlkidProbe, BlkidProbeRet, BlkidSafeprobeRet, BlkidSublks, BlkidSublksFlags};

use crate::block::BlockDevice;

/// More signatures than any device has.
const MAX_SIGNATURES: usize = 64;

fn probe_of(device: &BlockDevice) -> Result<BlkidProbe> {
    let context = || format!("{} cannot be probed", device.path.display());
    let mut probe = BlkidProbe::new().with_context(context)?;
    probe
        .set_device(device.file().as_raw_fd(), 0, 0)
        .with_context(context)?;
    probe.enable_superblocks(true).with_context(context)?;
    probe
        .set_superblock_flags(BlkidSublksFlags::new(vec![
            BlkidSublks::Type,
            BlkidSublks::Usage,
            BlkidSublks::Magic,
            BlkidSublks::Badcsum,
        ]))
        .with_context(context)?;
    probe.enable_partitions(true).with_context(context)?;
    Ok(probe)
}

/// What is on the device: "an ext4 signature"; None: nothing recognisable.
pub fn recognise(device: &BlockDevice) -> Result<Option<String>> {
    let mut probe = probe_of(device)?;
    let found = probe
        .do_safeprobe()
        .with_context(|| format!("{} cannot be probed", device.path.display()))?;
    Ok(match found {
        BlkidSafeprobeRet::None => None,
        BlkidSafeprobeRet::Ambiguous => Some("several signatures".into()),
        BlkidSafeprobeRet::Success => Some(if let Ok(kind) = probe.lookup_value("TYPE") {
            format!("a signature of {kind}")
        } else if let Ok(table) = probe.lookup_value("PTTYPE") {
            format!("a partition table ({table})")
        } else {
            "an unknown signature".into()
        }),
    })
}

/// Wipes every signature libblkid finds.
pub fn wipe(device: &BlockDevice) -> Result<()> {
    let context = || format!("signatures on {} cannot be wiped", device.path.display());
    let mut probe = probe_of(device)?;
    for _ in 0..MAX_SIGNATURES {
        match probe.do_probe().with_context(context)? {
            BlkidProbeRet::Done => break,
            // Wiping takes the probe one step back, so that copies are found too.
            BlkidProbeRet::Success => probe.do_wipe(false).with_context(context)?,
        }
    }
    Ok(())
}
