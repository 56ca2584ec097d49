// SPDX-License-Identifier: GPL-2.0-only
//! What the device-mapper devices of a pool are called, their uuids, and their targets.

use uuid::Uuid;

/// All our devices' uuids begin with this; the scan passes over such devices, and
/// no other subsystem claims them.
pub const UUID_PREFIX: &str = "FUSION-";

pub const METADATA_TARGET: &str = "fusion-metadata";
pub const POOL_TARGET: &str = "fusion-pool";
pub const VOLUME_TARGET: &str = "fusion";

pub fn dm_path(name: &str) -> String {
    format!("/dev/mapper/{name}")
}

pub fn dm_uuid(pool: Uuid, part: &str) -> String {
    format!("{UUID_PREFIX}{pool}-{part}")
}

pub fn pool_dm_uuid(pool: Uuid) -> String {
    dm_uuid(pool, "pool")
}

/// The pool a device-mapper uuid belongs to, and the part of it.
pub fn parse_dm_uuid(uuid: &str) -> Option<(Uuid, &str)> {
    const LENGTH: usize = 36;
    let rest = uuid.strip_prefix(UUID_PREFIX)?;
    let pool = Uuid::parse_str(rest.get(..LENGTH)?).ok()?;
    Some((pool, rest.get(LENGTH..)?.strip_prefix('-')?))
}

/// Of what the metadata is read through: the mirror, or what is before a device of its own.
pub fn metadata_name(pool: &str) -> String {
    format!("{pool}_fmeta")
}

pub fn image_name(pool: &str, leg: usize) -> String {
    format!("{pool}_fmeta_rimage_{leg}")
}

pub fn rmeta_name(pool: &str, leg: usize) -> String {
    format!("{pool}_fmeta_rmeta_{leg}")
}

/// And its number, in a volume's uuid.
pub const VOLUME_PART: &str = "volume-";

pub fn volume_name(pool: &str, volume: &str) -> String {
    format!("{pool}-{volume}")
}
