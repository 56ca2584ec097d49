// SPDX-License-Identifier: GPL-2.0-only
//! What udev's rules are told of a block device: properties, for IMPORT{program}.
//!
//! A member has those by which every tool sees that a device is taken (ID_FS_*), and the state of
//! its pool: the rules start it when it is complete, and wait a while for what is missing. Each
//! event looks at the devices themselves, not at what other events have found: whichever comes
//! last sees them all. A volume has its names, for links.

use std::path::Path;

use anyhow::Result;
use uuid::Uuid;

use crate::assemble::FoundPool;
use crate::block::BlockDevice;
use crate::dm;
use crate::member::{self, Found, Reading};
use crate::names;
use crate::scan;
use crate::stopped;
use crate::sysfs;

/// As libblkid names what it finds.
const TYPE: &str = "fusion_member";

/// Why a pool is started, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All that were used last are there.
    Complete,
    /// Some are not, or they do not fit together.
    Incomplete,
    Running,
    /// By an administrator.
    Stopped,
    /// Its creation has not come to its end.
    Creating,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Creating => "creating",
        }
    }
}

/// Names and values; none, if the device is neither a member nor a volume. All values are of
/// characters that udev takes as they are.
pub type Properties = Vec<(&'static str, String)>;

pub fn properties(path: &Path) -> Result<Properties> {
    let device = BlockDevice::open_read(path)?;
    let kernel_name = sysfs::name_of(device.dev)?;
    let uuid = sysfs::attribute(&kernel_name, "dm/uuid").unwrap_or_default();
    if let Some((pool, part)) = names::parse_dm_uuid(&uuid) {
        let name = dm::name_of(&kernel_name).unwrap_or_default();
        return Ok(of_volume(&name, part, running(pool).as_deref()));
    }
    let Reading::Found(found) = member::read(&device)? else {
        return Ok(Vec::new());
    };
    Ok(of_member(&found, state_of(found.label.pool_uuid)?))
}

fn of_volume(name: &str, part: &str, pool: Option<&str>) -> Properties {
    let volume = || {
        part.strip_prefix(names::VOLUME_PART)?;
        name.strip_prefix(pool?)?.strip_prefix('-')
    };
    match (pool, volume()) {
        (Some(pool), Some(volume)) => vec![
            ("FUSION_POOL", pool.to_owned()),
            ("FUSION_VOLUME", volume.to_owned()),
        ],
        // A part of a pool; or it was renamed.
        _ => Vec::new(),
    }
}

fn of_member(found: &Found, state: State) -> Properties {
    let label = &found.label;
    let index = label
        .index
        .map_or_else(|| "spare".into(), |index| index.to_string());
    vec![
        ("ID_FS_TYPE", TYPE.into()),
        ("ID_FS_USAGE", "raid".into()),
        ("ID_FS_UUID", label.pool_uuid.to_string()),
        ("ID_FS_UUID_ENC", label.pool_uuid.to_string()),
        ("ID_FS_UUID_SUB", label.member_uuid.to_string()),
        ("ID_FS_UUID_SUB_ENC", label.member_uuid.to_string()),
        ("ID_FS_LABEL", label.pool_name.clone()),
        ("ID_FS_LABEL_ENC", label.pool_name.clone()),
        ("FUSION_POOL", label.pool_name.clone()),
        ("FUSION_MEMBER", index),
        ("FUSION_STATE", state.as_str().into()),
    ]
}

/// Looks at other devices only if that is to decide on a start.
fn state_of(uuid: Uuid) -> Result<State> {
    if running(uuid).is_some() {
        return Ok(State::Running);
    }
    if stopped::is(uuid) {
        return Ok(State::Stopped);
    }
    let scan = scan::scan(&[])?;
    let found = scan.pools.iter().find(|pool| pool.uuid == uuid);
    Ok(found.map_or(State::Incomplete, state_of_stopped))
}

fn state_of_stopped(pool: &FoundPool) -> State {
    if pool.creating() {
        State::Creating
    } else if pool.is_complete() {
        State::Complete
    } else {
        State::Incomplete
    }
}

/// What the pool's device is called. Of those that dmsetup made with other uuids nothing is known
/// here: who is to start one finds that it runs.
fn running(pool: Uuid) -> Option<String> {
    let wanted = names::pool_dm_uuid(pool);
    sysfs::names()
        .iter()
        .find(|name| sysfs::attribute(name, "dm/uuid").as_ref() == Some(&wanted))
        .and_then(|name| dm::name_of(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{found_pool, label};

    fn value<'a>(properties: &'a Properties, name: &str) -> Option<&'a str> {
        properties
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.as_str())
    }

    #[test]
    fn members() {
        let found = Found {
            label: label(3),
            differs: false,
            record: None,
        };
        let properties = of_member(&found, State::Incomplete);
        assert_eq!(value(&properties, "ID_FS_TYPE"), Some("fusion_member"));
        assert_eq!(value(&properties, "ID_FS_LABEL"), Some("tank"));
        assert_eq!(value(&properties, "FUSION_MEMBER"), Some("3"));
        assert_eq!(value(&properties, "FUSION_STATE"), Some("incomplete"));
        let mut spare = found;
        spare.label.index = None;
        let properties = of_member(&spare, State::Complete);
        assert_eq!(value(&properties, "FUSION_MEMBER"), Some("spare"));
    }

    #[test]
    fn volumes() {
        let properties = of_volume("a-b-c-d", "volume-0", Some("a-b"));
        assert_eq!(value(&properties, "FUSION_POOL"), Some("a-b"));
        assert_eq!(value(&properties, "FUSION_VOLUME"), Some("c-d"));
        assert!(of_volume("a-b", "pool", Some("a-b")).is_empty());
        assert!(of_volume("other", "volume-0", Some("a-b")).is_empty());
        assert!(of_volume("a-b-c", "volume-0", None).is_empty());
    }

    #[test]
    fn states() {
        let mut pool = found_pool();
        assert_eq!(state_of_stopped(&pool), State::Complete);
        pool.members.remove(2);
        assert_eq!(state_of_stopped(&pool), State::Incomplete);
        for member in &mut pool.members {
            member.label.creating = true;
        }
        assert_eq!(state_of_stopped(&pool), State::Creating);
    }
}
