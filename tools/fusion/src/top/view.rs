// SPDX-License-Identifier: GPL-2.0-only
//! What is shown of a pool, to people and, with --once --json, to programs: docs/fusion-json.5.rst
//! says what the fields are.

use std::time::Duration;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::report::{self, METADATA_BLOCK_BYTES, MemberReport, SpaceReport, State, VolumeReport};
use crate::status::{Mode, PoolStatus, Pulse, Volume};

use super::iostat::IoStat;
use super::look::Look;

/// How much more a second. None: there is nothing to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate(pub Option<f64>);

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = self.0.map(|rate| (rate * 1000.0).round() / 1000.0);
        rounded.serialize(serializer)
    }
}

impl Rate {
    /// Of two counts; also none if it has begun anew in between.
    #[allow(clippy::cast_precision_loss)]
    fn of(before: u64, after: u64, elapsed: Duration) -> Self {
        let grown = after.checked_sub(before).map(|grown| grown as f64);
        Self(
            grown
                .filter(|_| !elapsed.is_zero())
                .map(|grown| grown / elapsed.as_secs_f64()),
        )
    }

    /// Is anything done at all?
    pub fn any(self) -> bool {
        self.0.is_some_and(|rate| rate > 0.0)
    }

    fn times(self, unit: u32) -> Self {
        Self(self.0.map(|rate| rate * f64::from(unit)))
    }
}

#[derive(Debug, Serialize)]
pub struct MemberView {
    #[serde(flatten)]
    pub report: MemberReport,
    /// Null: the pool does not say, as it is suspended; the same of those below.
    pub responsive: Option<bool>,
    pub watched: Option<bool>,
    pub stragglers: Option<u64>,
    pub spikes: Option<u64>,
    pub spikes_us: Option<u64>,
    /// Null, too, if there was no such I/O lately.
    pub read_median_us: Option<u64>,
    pub read_p99_us: Option<u64>,
    pub write_median_us: Option<u64>,
    pub write_p99_us: Option<u64>,
    pub window_us: Option<u64>,
    pub ios_per_second: Option<u64>,
}

impl MemberView {
    fn new(report: &MemberReport, pulses: &[Pulse]) -> Self {
        let pulse = pulses.iter().find(|pulse| pulse.member == report.index);
        Self {
            report: report.clone(),
            responsive: pulse.map(|pulse| !pulse.unresponsive),
            watched: pulse.map(|pulse| pulse.enter > 0),
            stragglers: pulse.map(|pulse| pulse.stragglers),
            spikes: pulse.map(|pulse| pulse.spikes),
            spikes_us: pulse.map(|pulse| pulse.spikes_us),
            read_median_us: pulse.and_then(|pulse| pulse.read.median_us),
            read_p99_us: pulse.and_then(|pulse| pulse.read.p99_us),
            write_median_us: pulse.and_then(|pulse| pulse.write.median_us),
            write_p99_us: pulse.and_then(|pulse| pulse.write.p99_us),
            window_us: pulse.map(|pulse| pulse.window_us),
            ios_per_second: pulse.map(|pulse| pulse.ios_per_second),
        }
    }

    pub fn unresponsive(&self) -> bool {
        self.responsive == Some(false)
    }
}

#[derive(Debug, Serialize)]
pub struct VolumeView {
    #[serde(flatten)]
    pub report: VolumeReport,
    /// Slots of a stripe.
    pub data: u32,
    pub parity: u32,
    /// Null if its device has gone just now.
    pub in_flight: Option<u64>,
    pub reads_per_second: Rate,
    pub read_bytes_per_second: Rate,
    pub writes_per_second: Rate,
    pub written_bytes_per_second: Rate,
}

impl VolumeView {
    fn new(before: Option<&Look>, after: &Look, volume: &Volume, stat: Option<&IoStat>) -> Self {
        let old = before.and_then(|look| {
            // One of the same number may be another volume's.
            let same_device = look.pool.device_of(volume)?.dev == after.pool.device_of(volume)?.dev;
            let (_, stat) = look.volumes.iter().find(|(old, _)| old.id == volume.id)?;
            stat.as_ref().filter(|_| same_device)
        });
        let elapsed = before.map_or(Duration::ZERO, |look| after.at.duration_since(look.at));
        let rate = |count: fn(&IoStat) -> u64| match (old, stat) {
            (Some(old), Some(new)) => Rate::of(count(old), count(new), elapsed),
            _ => Rate::default(),
        };
        Self {
            report: VolumeReport::new(&after.pool, volume),
            data: volume.data,
            parity: volume.parity,
            in_flight: stat.map(|stat| stat.in_flight),
            reads_per_second: rate(|stat| stat.reads),
            read_bytes_per_second: rate(|stat| stat.read_bytes),
            writes_per_second: rate(|stat| stat.writes),
            written_bytes_per_second: rate(|stat| stat.written_bytes),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct SpaceView {
    #[serde(flatten)]
    pub report: SpaceReport,
    /// Sets for patches, and how much of them there may be.
    pub patch_area_bytes: u64,
    pub patch_limit_bytes: u64,
    pub low_water: bool,
}

#[derive(Debug, Serialize)]
pub struct MetadataView {
    pub used_bytes: u64,
    pub total_bytes: u64,
    pub mirror: Option<String>,
}

/// What volumes ask of the pool, and what becomes of it.
#[derive(Debug, Serialize)]
pub struct RequestsView {
    pub reads_per_second: Rate,
    pub large_per_second: Rate,
    pub in_place_per_second: Rate,
    pub new_top_per_second: Rate,
    pub new_patch_per_second: Rate,
    pub discards_per_second: Rate,
    pub flushes_per_second: Rate,
    pub commits_per_second: Rate,
    pub avoided_reads_per_second: Rate,
    pub avoided_writes_per_second: Rate,
}

#[derive(Debug, Serialize)]
pub struct ConvertView {
    pub sets_per_second: Rate,
    pub read_bytes_per_second: Rate,
    pub written_bytes_per_second: Rate,
}

#[derive(Debug, Serialize)]
pub struct CompactView {
    pub stripes_per_second: Rate,
    pub read_bytes_per_second: Rate,
    pub written_bytes_per_second: Rate,
}

#[derive(Debug, Serialize)]
pub struct DestageView {
    pub pages_per_second: Rate,
    pub read_bytes_per_second: Rate,
    pub written_bytes_per_second: Rate,
}

#[derive(Debug, Serialize)]
pub struct ResyncView {
    pub active: bool,
    pub blocks_per_second: Rate,
}

#[derive(Debug, Serialize)]
pub struct ScrubView {
    pub stripes_per_second: Rate,
    pub blocks_per_second: Rate,
    /// Bands: where it is, or goes on, and where it ends.
    pub at_bands: u64,
    pub end_bands: u64,
    pub mismatches: u64,
}

#[derive(Debug, Serialize)]
pub struct RebuildView {
    pub stripes_per_second: Rate,
    pub todo_stripes: u64,
}

#[derive(Debug, Serialize)]
pub struct GrowView {
    /// Members that it had; 0: it does not grow.
    pub from_members: u64,
    /// In use of the layout that it had.
    pub left_blocks: u64,
}

/// What the pool does by itself, or because somebody waits for it.
#[derive(Debug, Serialize)]
pub struct WorkView {
    pub convert: ConvertView,
    pub compact: CompactView,
    pub destage: DestageView,
    pub resync: ResyncView,
    pub scrub: ScrubView,
    pub rebuild: RebuildView,
    pub grow: GrowView,
}

#[derive(Debug, Serialize)]
pub struct PoolView {
    pub name: String,
    pub uuid: Uuid,
    pub state: State,
    pub suspended: bool,
    pub out_of_space: bool,
    pub needs_check: bool,
    pub block_bytes: u64,
    /// Between the two looks; null: there was one only.
    pub elapsed_seconds: Option<f64>,
    pub members: Vec<MemberView>,
    pub volumes: Vec<VolumeView>,
    pub space: SpaceView,
    pub metadata: MetadataView,
    pub requests: RequestsView,
    pub work: WorkView,
}

/// Everything that is shown at once.
#[derive(Debug, Serialize)]
pub struct View {
    pub pools: Vec<PoolView>,
}

impl View {
    /// Rates are those between the two; pools that were not there before have none.
    pub fn new(before: &[Look], after: &[Look]) -> Self {
        let pools = after.iter().map(|look| {
            let same =
                |old: &&Look| old.pool.dev == look.pool.dev && old.pool.uuid == look.pool.uuid;
            PoolView::new(before.iter().find(same), look)
        });
        Self {
            pools: pools.collect(),
        }
    }
}

/// The counters of two looks.
struct Counters<'a> {
    before: Option<&'a PoolStatus>,
    after: Option<&'a PoolStatus>,
    elapsed: Duration,
}

impl Counters<'_> {
    fn now(&self, name: &str) -> u64 {
        self.after.map_or(0, |status| status.counter(name))
    }

    fn rate(&self, name: &str) -> Rate {
        match (self.before, self.after) {
            (Some(before), Some(after)) => {
                Rate::of(before.counter(name), after.counter(name), self.elapsed)
            }
            _ => Rate::default(),
        }
    }

    /// Bytes a second, of a count of pages.
    fn pages(&self, name: &str) -> Rate {
        const PAGE_BYTES: u32 = 4096;
        self.rate(name).times(PAGE_BYTES)
    }

    fn requests(&self) -> RequestsView {
        RequestsView {
            reads_per_second: self.rate("reads"),
            large_per_second: self.rate("large"),
            in_place_per_second: self.rate("in_place"),
            new_top_per_second: self.rate("new_top"),
            new_patch_per_second: self.rate("new_patch"),
            discards_per_second: self.rate("discards"),
            flushes_per_second: self.rate("flushes"),
            commits_per_second: self.rate("commits"),
            avoided_reads_per_second: self.rate("avoided_reads"),
            avoided_writes_per_second: self.rate("avoided_writes"),
        }
    }

    fn work(&self) -> WorkView {
        WorkView {
            convert: ConvertView {
                sets_per_second: self.rate("converted"),
                read_bytes_per_second: self.pages("convert_read_pages"),
                written_bytes_per_second: self.pages("convert_written_pages"),
            },
            compact: CompactView {
                stripes_per_second: self.rate("compacted"),
                read_bytes_per_second: self.pages("compact_read_pages"),
                written_bytes_per_second: self.pages("compact_written_pages"),
            },
            destage: DestageView {
                pages_per_second: self.rate("destaged"),
                read_bytes_per_second: self.pages("destage_read_pages"),
                written_bytes_per_second: self.pages("destage_written_pages"),
            },
            resync: ResyncView {
                active: self.after.is_some_and(|status| status.resyncing),
                blocks_per_second: self.rate("resynced"),
            },
            scrub: ScrubView {
                stripes_per_second: self.rate("scrubbed"),
                blocks_per_second: self.rate("scrub_blocks"),
                at_bands: self.now("scrub_at"),
                end_bands: self.now("scrub_end"),
                mismatches: self.now("scrub_mismatches"),
            },
            rebuild: RebuildView {
                stripes_per_second: self.rate("rebuilt"),
                todo_stripes: self.now("rebuild_todo"),
            },
            grow: GrowView {
                from_members: self.now("grows_from"),
                left_blocks: self.now("growing_blocks"),
            },
        }
    }
}

impl PoolView {
    fn new(before: Option<&Look>, after: &Look) -> Self {
        let status = after.status.as_ref();
        let block_bytes = u64::from(after.pool.table.block_sectors) * fusion_format::SECTOR_BYTES;
        let elapsed = before.map(|look| after.at.duration_since(look.at));
        let counters = Counters {
            before: before.and_then(|look| look.status.as_ref()),
            after: status,
            elapsed: elapsed.unwrap_or_default(),
        };
        Self {
            name: after.pool.name.clone(),
            uuid: after.pool.uuid,
            state: report::state_of(status, after.mirror.as_deref()),
            suspended: after.suspended,
            out_of_space: status.is_some_and(|status| status.mode == Mode::OutOfSpace),
            needs_check: status.is_some_and(|status| status.needs_check),
            block_bytes,
            elapsed_seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            members: after
                .members
                .iter()
                .map(|member| MemberView::new(member, &after.pulses))
                .collect(),
            volumes: after
                .volumes
                .iter()
                .map(|(volume, stat)| VolumeView::new(before, after, volume, stat.as_ref()))
                .collect(),
            space: SpaceView {
                report: status.map_or_else(SpaceReport::default, |status| {
                    SpaceReport::new(status, block_bytes)
                }),
                patch_area_bytes: counters.now("patch_area") * block_bytes,
                patch_limit_bytes: counters.now("patch_limit") * block_bytes,
                low_water: counters.now("low_water") != 0,
            },
            metadata: MetadataView {
                used_bytes: status.map_or(0, |status| status.metadata_used_blocks)
                    * METADATA_BLOCK_BYTES,
                total_bytes: status.map_or(0, |status| status.metadata_total_blocks)
                    * METADATA_BLOCK_BYTES,
                mirror: after.mirror.clone(),
            },
            requests: counters.requests(),
            work: counters.work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::looks;
    use super::*;

    #[test]
    fn rates() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::of(5, 15, second * 2), Rate(Some(5.0)));
        assert_eq!(Rate::of(15, 5, second), Rate(None));
        assert_eq!(Rate::of(5, 15, Duration::ZERO), Rate(None));
        assert_eq!(
            serde_json::to_string(&Rate(Some(1.0 / 3.0))).unwrap(),
            "0.333"
        );
        assert_eq!(serde_json::to_string(&Rate(None)).unwrap(), "null");
    }

    #[test]
    fn two_looks() {
        let (before, mut after) = looks(8, 2);
        let counters = &mut after.status.as_mut().unwrap().counters;
        counters.extend([("grows_from".into(), 7), ("growing_blocks".into(), 99)]);
        let view = View::new(&[before], &[after]);
        let json = serde_json::to_value(&view).unwrap();
        let pool = &json["pools"][0];
        assert_eq!(pool["work"]["grow"]["from_members"], 7);
        assert_eq!(pool["work"]["grow"]["left_blocks"], 99);
        assert_eq!(pool["name"], "tank");
        assert_eq!(pool["state"], "degraded");
        assert_eq!(pool["elapsed_seconds"], 2.0);
        assert_eq!(pool["members"][1]["state"], "failed");
        assert_eq!(pool["members"][2]["responsive"], false);
        assert_eq!(pool["members"][2]["spikes_us"], 4500);
        assert_eq!(pool["members"][3]["responsive"], true);
        assert_eq!(
            pool["members"][3]["write_median_us"],
            serde_json::Value::Null
        );
        assert_eq!(pool["volumes"][0]["name"], "v0");
        assert_eq!(pool["volumes"][0]["data"], 5);
        assert_eq!(pool["volumes"][0]["writes_per_second"], 500.0);
        assert_eq!(pool["volumes"][0]["written_bytes_per_second"], 2_048_000.0);
        assert_eq!(pool["space"]["free_bytes"], 500 << 16);
        assert_eq!(pool["space"]["patch_limit_bytes"], 10 << 16);
        assert_eq!(pool["requests"]["reads_per_second"], 100.0);
        assert_eq!(pool["work"]["convert"]["read_bytes_per_second"], 409_600.0);
        assert_eq!(pool["work"]["scrub"]["end_bands"], 40);
        assert_eq!(pool["work"]["rebuild"]["todo_stripes"], 77);
    }

    #[test]
    fn nothing_to_compare_with() {
        let (before, mut after) = looks(8, 2);
        let json = serde_json::to_value(View::new(&[], &[before]).pools).unwrap();
        assert!(json[0]["elapsed_seconds"].is_null());
        assert!(json[0]["requests"]["reads_per_second"].is_null());
        assert!(json[0]["volumes"][0]["reads_per_second"].is_null());
        let (mut before, _) = looks(8, 2);
        // Another pool of that name, and one whose volume's device is another.
        before.pool.devices[0].dev.minor += 1;
        let view = View::new(&[before], &[after]);
        assert_eq!(view.pools[0].volumes[0].reads_per_second, Rate(None));
        assert!(view.pools[0].requests.reads_per_second.any());
        (before, after) = looks(8, 2);
        before.pool.dev.minor += 1;
        let view = View::new(&[before], &[after]);
        assert_eq!(view.pools[0].elapsed_seconds, None);
    }

    #[test]
    fn a_pool_that_says_little() {
        let (before, mut after) = looks(8, 1);
        after.status = None;
        after.pulses.clear();
        after.suspended = true;
        let view = View::new(&[before], &[after]);
        let pool = &view.pools[0];
        assert_eq!(pool.state, State::Failed);
        assert_eq!(pool.members[0].responsive, None);
        assert!(!pool.members[0].unresponsive());
        assert_eq!(pool.requests.reads_per_second, Rate(None));
    }
}
