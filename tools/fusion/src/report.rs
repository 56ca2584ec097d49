// SPDX-License-Identifier: GPL-2.0-only
//! What commands answer with --json. Fields are documented in docs/fusion-json.5.rst; they
//! keep their names and meanings, and others may be added.

use std::collections::BTreeMap;

use anyhow::Result;
use fusion_format::{MemberState, Record, SECTOR_BYTES};
use serde::Serialize;
use uuid::Uuid;

use crate::assemble::{FoundPool, is_newcomer};
use crate::devno::DevNo;
use crate::dm::{self, Dm, Spec};
use crate::names;
use crate::place::{self, Place};
use crate::running::Running;
use crate::scan::Scan;
use crate::size;
use crate::status::{self, Mode, PoolStatus, Volume};

/// A block of metadata, whatever the size of the pool's.
pub const METADATA_BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Ok,
    Degraded,
    ReadOnly,
    Failed,
    /// Not running, but could be started.
    Stopped,
    /// Not running, with members missing or in doubt.
    Incomplete,
}

impl State {
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::ReadOnly => "read-only",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Incomplete => "incomplete",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct MemberReport {
    pub index: usize,
    pub device: Option<String>,
    pub state: String,
    pub pending: u64,
    pub straggling: bool,
    pub errors: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct SpaceReport {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub replicated_bytes: u64,
    pub raid_bytes: u64,
    pub dead_bytes: u64,
    pub spare_bytes: u64,
    /// Of the free space: for the background alone.
    pub reserve_bytes: u64,
    /// Closed sets of replicas, live or not, and how much of them there may be.
    pub replica_area_bytes: u64,
    pub replica_limit_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct MetadataReport {
    pub device: String,
    pub used_bytes: u64,
    pub total_bytes: u64,
    /// One letter for each leg as dm-raid has them; null: not a mirror of ours.
    pub mirror: Option<String>,
    pub needs_check: bool,
    pub transaction_id: u64,
}

#[derive(Debug, Serialize)]
pub struct VolumeReport {
    pub pool: String,
    pub name: String,
    pub id: u32,
    /// Null while the volume has no device.
    pub device: Option<String>,
    pub size_bytes: u64,
    pub mapped_bytes: u64,
    /// Blocks that are replicated now.
    pub tops: u64,
    pub raid: &'static str,
    pub width: u32,
    pub state: &'static str,
}

/// A pool that is getting more members: what is in use still of the layout that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GrowthReport {
    pub from: u64,
    pub to: usize,
    pub left_blocks: u64,
    pub left_bytes: u64,
}

impl GrowthReport {
    /// None: it does not grow.
    pub fn new(status: &PoolStatus, block_bytes: u64) -> Option<Self> {
        let left_blocks = status.counter("growing_blocks");
        Some(Self {
            from: status.counter_of("grows_from").filter(|&from| from > 0)?,
            to: status.members.len(),
            left_blocks,
            left_bytes: left_blocks * block_bytes,
        })
    }

    pub fn text(&self) -> String {
        format!(
            "growing from {} to {} members, {} blocks ({}) left to move",
            self.from,
            self.to,
            self.left_blocks,
            size::display(self.left_bytes)
        )
    }
}

#[derive(Debug, Serialize)]
pub struct PoolReport {
    pub name: String,
    pub uuid: Uuid,
    pub device: String,
    pub state: State,
    pub out_of_space: bool,
    pub error_if_no_space: bool,
    pub resyncing: bool,
    /// Null: it has as many members as it had.
    pub growing: Option<GrowthReport>,
    pub block_bytes: u64,
    pub spares: u32,
    pub members: Vec<MemberReport>,
    pub hot_spares: Vec<String>,
    pub metadata: MetadataReport,
    pub space: SpaceReport,
    pub volumes: Vec<VolumeReport>,
    pub counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub struct PoolSummary {
    pub name: String,
    pub uuid: Uuid,
    pub state: State,
    pub members: usize,
    pub growing: Option<GrowthReport>,
    /// Null unless the pool runs.
    pub total_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    pub volumes: Option<usize>,
    /// Why an incomplete pool is incomplete.
    pub problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct ScanReport {
    pub members: Vec<ScannedMember>,
    pub invalid: Vec<InvalidDevice>,
}

#[derive(Debug, Serialize)]
pub struct ScannedMember {
    pub device: String,
    pub pool: String,
    pub pool_uuid: Uuid,
    pub member_uuid: Uuid,
    /// Null: a hot spare.
    pub index: Option<u16>,
    pub members: u16,
    pub size_bytes: u64,
    pub state: &'static str,
}

#[derive(Debug, Serialize)]
pub struct InvalidDevice {
    pub device: String,
    pub problem: String,
}

#[derive(Debug, Serialize)]
pub struct DeviceTable {
    pub name: String,
    pub uuid: String,
    pub table: String,
}

impl From<&Spec> for DeviceTable {
    fn from(spec: &Spec) -> Self {
        Self {
            name: spec.name.clone(),
            uuid: spec.uuid.clone(),
            table: spec.table(),
        }
    }
}

impl SpaceReport {
    pub fn new(status: &PoolStatus, block_bytes: u64) -> Self {
        let space = &status.space;
        Self {
            total_bytes: space.total * block_bytes,
            free_bytes: space.free * block_bytes,
            replicated_bytes: space.replicated * block_bytes,
            raid_bytes: space.raid * block_bytes,
            dead_bytes: space.dead * block_bytes,
            spare_bytes: space.spare * block_bytes,
            reserve_bytes: status.counter("reserve") * block_bytes,
            replica_area_bytes: status.counter("replica_area") * block_bytes,
            replica_limit_bytes: status.counter("replica_limit") * block_bytes,
        }
    }
}

impl VolumeReport {
    pub fn new(pool: &Running, volume: &Volume) -> Self {
        Self {
            pool: pool.name.clone(),
            name: volume.name.clone(),
            id: volume.id,
            device: pool
                .device_of(volume)
                .map(|device| names::dm_path(&device.name)),
            size_bytes: volume.sectors * SECTOR_BYTES,
            mapped_bytes: volume.mapped_blocks * u64::from(pool.table.block_sectors) * SECTOR_BYTES,
            tops: volume.tops,
            raid: volume.raid(),
            width: volume.width(),
            state: if volume.deleting { "deleting" } else { "ok" },
        }
    }
}

impl PoolReport {
    /// `scan` tells about hot spares, which the kernel does not know.
    pub fn new(dm: &Dm, pool: &Running, scan: Option<&Scan>) -> Result<Self> {
        let status = pool.status(dm)?;
        let place = place::of(dm, pool)?;
        let mirror = mirror_health(dm, pool, &place);
        // A failed pool may not answer.
        let volumes = match &status {
            Some(status) if status.mode != Mode::Failed => pool.volumes(dm)?,
            _ => pool.volumes(dm).unwrap_or_default(),
        };
        let block_bytes = u64::from(pool.table.block_sectors) * SECTOR_BYTES;
        Ok(Self {
            name: pool.name.clone(),
            uuid: pool.uuid,
            device: names::dm_path(&pool.name),
            state: state_of(status.as_ref(), mirror.as_deref()),
            out_of_space: status
                .as_ref()
                .is_some_and(|status| status.mode == Mode::OutOfSpace),
            error_if_no_space: status
                .as_ref()
                .is_some_and(|status| status.error_if_no_space),
            resyncing: status.as_ref().is_some_and(|status| status.resyncing),
            growing: status
                .as_ref()
                .and_then(|status| GrowthReport::new(status, block_bytes)),
            block_bytes,
            spares: pool.table.spares,
            members: member_reports(pool, status.as_ref()),
            hot_spares: scan.map_or_else(Vec::new, |scan| hot_spares(scan, pool.uuid)),
            metadata: MetadataReport {
                device: place.path(pool)?,
                used_bytes: blocks(status.as_ref(), |status| status.metadata_used_blocks),
                total_bytes: blocks(status.as_ref(), |status| status.metadata_total_blocks),
                mirror,
                needs_check: status.as_ref().is_some_and(|status| status.needs_check),
                transaction_id: status.as_ref().map_or(0, |status| status.transaction_id),
            },
            space: status.as_ref().map_or_else(SpaceReport::default, |status| {
                SpaceReport::new(status, block_bytes)
            }),
            volumes: volumes
                .iter()
                .map(|volume| VolumeReport::new(pool, volume))
                .collect(),
            counters: status
                .map(|status| status.counters.into_iter().collect())
                .unwrap_or_default(),
        })
    }
}

fn blocks(status: Option<&PoolStatus>, count: impl Fn(&PoolStatus) -> u64) -> u64 {
    status.map_or(0, |status| count(status) * METADATA_BLOCK_BYTES)
}

/// The worst of what the pool, its members and its metadata's mirror say.
pub fn state_of(status: Option<&PoolStatus>, mirror: Option<&str>) -> State {
    let Some(status) = status else {
        return State::Failed;
    };
    let whole = status.members.iter().all(|member| member.state == "ok")
        && mirror.is_none_or(|legs| !legs.contains(['D', '-']));
    match status.mode {
        Mode::Failed => State::Failed,
        Mode::ReadOnly => State::ReadOnly,
        Mode::ReadWrite | Mode::OutOfSpace if whole => State::Ok,
        Mode::ReadWrite | Mode::OutOfSpace => State::Degraded,
    }
}

/// A letter for each leg of the metadata's mirror, if it is on one.
pub fn mirror_health(dm: &Dm, pool: &Running, place: &Place) -> Option<String> {
    let Place::Mirror = place else {
        return None;
    };
    let targets = dm.status(&names::metadata_name(&pool.name)).ok()?;
    status::parse_mirror_health(&targets.first()?.params)
}

pub fn member_reports(pool: &Running, status: Option<&PoolStatus>) -> Vec<MemberReport> {
    let path = |device: DevNo| dm::path_of(device).unwrap_or_else(|_| device.to_string());
    pool.table
        .members
        .iter()
        .enumerate()
        .map(|(index, member)| {
            let live = status.and_then(|status| status.members.get(index));
            MemberReport {
                index,
                device: member.map(|(device, _)| path(device)),
                state: live
                    .map_or("unknown", |live| live.state.as_str())
                    .to_owned(),
                pending: live.map_or(0, |live| live.pending),
                straggling: live.is_some_and(|live| live.straggling),
                errors: live.map_or(0, |live| live.errors),
            }
        })
        .collect()
}

fn hot_spares(scan: &Scan, uuid: Uuid) -> Vec<String> {
    scan.known_pools()
        .filter(|pool| pool.uuid == uuid)
        .flat_map(|pool| &pool.members)
        .filter(|member| member.label.index.is_none())
        .map(|member| member.path.display().to_string())
        .collect()
}

impl PoolSummary {
    pub fn running(dm: &Dm, pool: &Running) -> Result<Self> {
        let report = PoolReport::new(dm, pool, None)?;
        Ok(Self {
            name: report.name,
            uuid: report.uuid,
            state: report.state,
            members: report.members.len(),
            growing: report.growing,
            total_bytes: Some(report.space.total_bytes),
            free_bytes: Some(report.space.free_bytes),
            volumes: Some(report.volumes.len()),
            problem: None,
        })
    }

    pub fn stopped(pool: &FoundPool) -> Self {
        let problem = match pool.assemble(false) {
            Ok(assembled) => assembled.lacks().map(|missing| {
                format!(
                    "pool {} lacks {missing}: it can be started without",
                    pool.name
                )
            }),
            Err(error) => Some(error.to_string()),
        };
        Self {
            name: pool.name.clone(),
            uuid: pool.uuid,
            state: if problem.is_none() {
                State::Stopped
            } else {
                State::Incomplete
            },
            members: pool.count().into(),
            growing: None,
            total_bytes: None,
            free_bytes: None,
            volumes: None,
            problem,
        }
    }
}

impl ScanReport {
    pub fn new(scan: &Scan) -> Self {
        let mut members: Vec<ScannedMember> = Vec::new();
        for pool in &scan.pools {
            let (settled, others) = pool.settle();
            let (record, count) = (settled.record(), settled.count().into());
            for member in &pool.members {
                let other = others.iter().any(|other| other.dev == member.dev);
                let index = member.label.index.map(usize::from);
                let recorded = index.map_or(MemberState::Ok, |index| Record::state(record, index));
                members.push(ScannedMember {
                    device: member.path.display().to_string(),
                    pool: pool.name.clone(),
                    pool_uuid: pool.uuid,
                    member_uuid: member.label.member_uuid,
                    index: member.label.index,
                    members: member.label.members,
                    size_bytes: member.sectors * SECTOR_BYTES,
                    state: if pool.creating() || is_newcomer(&member.label, count) {
                        "unfinished"
                    } else if other {
                        "other"
                    } else if member.differs {
                        "label-damaged"
                    } else {
                        match recorded {
                            MemberState::Ok => "ok",
                            MemberState::Missing => "old",
                            MemberState::Failed => "failed",
                            MemberState::Returning => "returning",
                        }
                    },
                });
            }
        }
        members.sort_by_key(|member| {
            (
                member.pool.clone(),
                member.pool_uuid,
                member.index.unwrap_or(u16::MAX),
            )
        });
        Self {
            members,
            invalid: scan
                .invalid
                .iter()
                .map(|(path, problem)| InvalidDevice {
                    device: path.display().to_string(),
                    problem: problem.clone(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{found_pool, newcomer};

    #[test]
    fn states() {
        let line = |mode: &str, member: &str| {
            let line = format!(
                "{mode} - 1 1/2 128 queue_if_no_space synced 6 1 1 1 1 2 0 1 8:0 {member} 0 0 0"
            );
            PoolStatus::parse(&line).unwrap()
        };
        for (mode, member, mirror, state) in [
            ("rw", "ok", Some("AAA"), State::Ok),
            ("rw", "ok", Some("AaA"), State::Ok),
            ("rw", "ok", None, State::Ok),
            ("out_of_space", "ok", None, State::Ok),
            ("rw", "ok", Some("ADA"), State::Degraded),
            ("rw", "failed", None, State::Degraded),
            ("ro", "failed", None, State::ReadOnly),
            ("fail", "ok", None, State::Failed),
        ] {
            assert_eq!(
                state_of(line(mode, member).as_ref(), mirror),
                state,
                "{mode} {member} {mirror:?}"
            );
        }
        assert_eq!(state_of(None, None), State::Failed);
    }

    /// A device with the label of a member that the pool does not have (yet).
    #[test]
    fn devices_that_are_no_members_yet() {
        let mut pool = found_pool();
        pool.members.push(newcomer());
        let summary = PoolSummary::stopped(&pool);
        assert_eq!((summary.state, summary.members), (State::Stopped, 8));
        let states = |pool: &FoundPool| {
            let scan = Scan {
                pools: vec![pool.clone()],
                ..Scan::default()
            };
            let members = ScanReport::new(&scan).members.into_iter();
            members.map(|member| member.state).collect::<Vec<_>>()
        };
        assert_eq!(states(&pool)[7..], ["ok", "unfinished"]);
        // Now it has.
        pool.members[0].label.members = 9;
        let summary = PoolSummary::stopped(&pool);
        assert_eq!((summary.state, summary.members), (State::Stopped, 9));
        assert_eq!(states(&pool)[7..], ["ok", "ok"]);
    }

    #[test]
    fn space_in_bytes() {
        let line = "rw - 1 1/2 128 queue_if_no_space synced 21 1 2 3 4 11 \
                    4 reads 1 reserve 5 replica_area 6 replica_limit 7 1 8:0 ok 0 0 0";
        let status = PoolStatus::parse(line).unwrap().unwrap();
        let space = serde_json::to_value(SpaceReport::new(&status, 1 << 16)).unwrap();
        for (name, blocks) in [
            ("total", 21),
            ("free", 1),
            ("replicated", 2),
            ("raid", 3),
            ("dead", 4),
            ("spare", 11),
            ("reserve", 5),
            ("replica_area", 6),
            ("replica_limit", 7),
        ] {
            assert_eq!(space[format!("{name}_bytes")], blocks << 16, "{name}");
        }
    }

    #[test]
    fn growing() {
        let of = |counters: &str| {
            let line = format!(
                "rw - 1 1/2 128 queue_if_no_space synced 6 1 1 1 1 2 {counters} \
                 2 8:0 ok 0 0 0 8:1 ok 0 0 0"
            );
            GrowthReport::new(&PoolStatus::parse(&line).unwrap().unwrap(), 1 << 16)
        };
        // Of a module that does not know of it, too.
        for counters in ["1 reads 5", "2 grows_from 0 growing_blocks 0"] {
            assert_eq!(of(counters), None);
        }
        let growth = of("2 grows_from 1 growing_blocks 48").unwrap();
        assert_eq!(
            growth.text(),
            "growing from 1 to 2 members, 48 blocks (3 MiB) left to move"
        );
        let json = serde_json::to_value(growth).unwrap();
        assert_eq!((&json["from"], &json["to"]), (&1.into(), &2.into()));
        assert_eq!(
            (&json["left_blocks"], &json["left_bytes"]),
            (&48.into(), &(3 << 20).into())
        );
    }

    #[test]
    fn state_texts_are_those_of_json() {
        for state in [State::Ok, State::ReadOnly, State::Incomplete] {
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("\"{}\"", state.text())
            );
        }
    }
}
