// SPDX-License-Identifier: GPL-2.0-only
//! Metrics as Prometheus reads them, in a file for node_exporter's collector of text files. Names
//! and labels keep their meanings; others may be added.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use fusion_format::SECTOR_BYTES;

use crate::report::{METADATA_BLOCK_BYTES, State, state_of};
use crate::status::{Latency, Mode};
use crate::top::look::Look;

const STATES: [State; 4] = [State::Ok, State::Degraded, State::ReadOnly, State::Failed];

/// Of the kernel's counters, those that only grow. They begin anew when the pool is started.
const COUNTERS: [(&str, &str); 29] = [
    ("reads", "Requests that read"),
    ("large", "Stripes that were written whole"),
    ("in_place", "Writes to replicas that are there"),
    ("new_top", "Writes that were replicated in a new place"),
    ("new_patch", "Writes that were replicated as patches"),
    ("grouped", "Small writes that became parts of large ones"),
    ("discards", "Requests that discard"),
    ("flushes", "Requests that flush"),
    ("commits", "Transactions of the metadata"),
    (
        "journal_records",
        "Epochs that were durable by the journal first",
    ),
    ("resynced", "Blocks whose replicas were made equal"),
    ("converted", "Sets that were converted to RAID stripes"),
    ("convert_gave_up", "Sets that were being written"),
    ("convert_read_pages", "Pages that conversion has read"),
    ("convert_written_pages", "Pages that conversion has written"),
    ("compacted", "Stripes that compaction has filled"),
    ("compact_read_pages", "Pages that compaction has read"),
    ("compact_written_pages", "Pages that compaction has written"),
    ("destaged", "Pages of patches that were merged"),
    ("destage_read_pages", "Pages that merging has read"),
    ("destage_written_pages", "Pages that merging has written"),
    ("scrubbed", "Stripes that a scrub has looked at"),
    ("scrub_mismatches", "Stripes and blocks that did not fit"),
    ("scrub_repaired", "Those of them that were written again"),
    (
        "recovered",
        "Pages that were read elsewhere, or computed, as they could not be read",
    ),
    ("repaired", "Those of them that were written again"),
    ("rebuilt", "Stripes that were rebuilt"),
    ("hedged_writes", "Writes that were sent to a second place"),
    (
        "hedges_won",
        "Those of them of which that was written first",
    ),
];

/// And those that say how it is now.
const GAUGES: [(&str, &str); 7] = [
    ("degraded", "Blocks of a stripe that may be nowhere"),
    (
        "rebuild_todo",
        "Stripes that the rebuild under way has to do",
    ),
    ("low_water", "1: there is little space left"),
    ("scrub_at", "Band where a scrub is, or goes on"),
    ("scrub_end", "Bands that a scrub looks at"),
    (
        "grows_from",
        "Members that the pool had, while it grows, or 0",
    ),
    (
        "growing_blocks",
        "Blocks in use of the layout that it had then",
    ),
];

/// Metrics of one name, which have to be together.
struct Family {
    name: String,
    text: String,
}

impl Family {
    fn new(name: &str, kind: &str, help: &str) -> Self {
        let name = format!("fusion_{name}");
        let text = format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n");
        Self { name, text }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.name, labels.join(","));
    }

    fn of_pool(&mut self, look: &Look, value: impl std::fmt::Display) {
        self.add(&[("pool", &look.pool.name)], value);
    }

    fn of_member(&mut self, look: &Look, index: usize, value: impl std::fmt::Display) {
        let labels = [
            ("pool", look.pool.name.as_str()),
            ("member", &index.to_string()),
        ];
        self.add(&labels, value);
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[allow(clippy::cast_precision_loss)]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Of pools, and whether they answer; those of one that does not are what it said last.
pub fn render<'a>(pools: impl Iterator<Item = (&'a Look, bool)> + Clone) -> String {
    let mut text = String::new();
    let looks = || pools.clone().map(|(look, _)| look);
    let mut each = |name: &str, kind: &str, help: &str, add: &dyn Fn(&mut Family, &Look)| {
        let mut family = Family::new(name, kind, help);
        looks().for_each(|look| add(&mut family, look));
        text += &family.text;
    };
    pool_metrics(&mut each);
    member_metrics(&mut each);
    volume_metrics(&mut each);
    let mut answers = Family::new("pool_answers", "gauge", "0: it does not say how it is");
    for (look, answering) in pools {
        answers.of_pool(look, u8::from(answering));
    }
    text + &answers.text
}

type Each<'a> = &'a mut dyn FnMut(&str, &str, &str, &dyn Fn(&mut Family, &Look));

fn pool_metrics(each: Each<'_>) {
    each("pool_info", "gauge", "Uuid of the pool", &|family, look| {
        let uuid = look.pool.uuid.to_string();
        family.add(&[("pool", &look.pool.name), ("uuid", &uuid)], 1);
    });
    each(
        "pool_state",
        "gauge",
        "1 for the state that it is in",
        &|family, look| {
            let is = state_of(look.status.as_ref(), look.mirror.as_deref());
            for state in STATES {
                let labels = [("pool", look.pool.name.as_str()), ("state", state.text())];
                family.add(&labels, u8::from(state == is));
            }
        },
    );
    each(
        "pool_out_of_space",
        "gauge",
        "1: writes found no space",
        &|family, look| {
            let status = look.status.as_ref();
            let is = status.is_some_and(|status| status.mode == Mode::OutOfSpace);
            family.of_pool(look, u8::from(is));
        },
    );
    each(
        "pool_needs_check",
        "gauge",
        "1: the metadata needs a check",
        &|family, look| {
            let is = look
                .status
                .as_ref()
                .is_some_and(|status| status.needs_check);
            family.of_pool(look, u8::from(is));
        },
    );
    each(
        "pool_resyncing",
        "gauge",
        "1: replicas are being made equal",
        &|family, look| {
            let is = look.status.as_ref().is_some_and(|status| status.resyncing);
            family.of_pool(look, u8::from(is));
        },
    );
    let help = "Space over all members: what it is used for";
    each("pool_space_bytes", "gauge", help, &|family, look| {
        let Some(status) = &look.status else {
            return;
        };
        let block_bytes = u64::from(look.pool.table.block_sectors) * SECTOR_BYTES;
        let space = &status.space;
        for (of, blocks) in [
            ("free", space.free),
            ("replicated", space.replicated),
            ("raid", space.raid),
            ("dead", space.dead),
            ("spare", space.spare),
        ] {
            let labels = [("pool", look.pool.name.as_str()), ("of", of)];
            family.add(&labels, blocks * block_bytes);
        }
    });
    for (name, help, of_used) in [
        ("pool_metadata_used_bytes", "Metadata in use", true),
        ("pool_metadata_bytes", "Room for metadata", false),
    ] {
        each(name, "gauge", help, &|family, look| {
            if let Some(status) = &look.status {
                let (used, total) = (status.metadata_used_blocks, status.metadata_total_blocks);
                let blocks = if of_used { used } else { total };
                family.of_pool(look, blocks * METADATA_BLOCK_BYTES);
            }
        });
    }
    let counters = COUNTERS.map(|(name, help)| (name, "counter", "_total", help));
    let gauges = GAUGES.map(|(name, help)| (name, "gauge", "", help));
    for (name, kind, suffix, help) in counters.into_iter().chain(gauges) {
        each(
            &format!("pool_{name}{suffix}"),
            kind,
            help,
            &|family, look| {
                let counters = look.status.iter().flat_map(|status| &status.counters);
                for (_, value) in counters.filter(|(known, _)| known == name) {
                    family.of_pool(look, value);
                }
            },
        );
    }
}

fn member_metrics(each: Each<'_>) {
    let help = "The state of a member; its value is 1";
    each("member_state", "gauge", help, &|family, look| {
        for member in &look.members {
            let index = member.index.to_string();
            let device = member.device.as_deref().unwrap_or_default();
            let labels = [
                ("pool", look.pool.name.as_str()),
                ("member", &index),
                ("device", device),
                ("state", &member.state),
            ];
            family.add(&labels, 1);
        }
    });
    each(
        "member_ok",
        "gauge",
        "0: the member is not used as it should be",
        &|family, look| {
            for member in &look.members {
                family.of_member(look, member.index, u8::from(member.state == "ok"));
            }
        },
    );
    let help = "Pages that the member could not read";
    each("member_errors_total", "counter", help, &|family, look| {
        for member in &look.members {
            family.of_member(look, member.index, member.errors);
        }
    });
    each(
        "member_responsive",
        "gauge",
        "0: the member is unresponsive",
        &|family, look| {
            for pulse in &look.pulses {
                family.of_member(look, pulse.member, u8::from(!pulse.unresponsive));
            }
        },
    );
    let help = "Times that the member became unresponsive";
    each("member_spikes_total", "counter", help, &|family, look| {
        for pulse in &look.pulses {
            family.of_member(look, pulse.member, pulse.spikes);
        }
    });
    let help = "Time that the member was unresponsive";
    each(
        "member_spike_seconds_total",
        "counter",
        help,
        &|family, look| {
            for pulse in &look.pulses {
                family.of_member(look, pulse.member, seconds(pulse.spikes_us));
            }
        },
    );
    let help = "Latency of about the last seconds, where there was I/O";
    each("member_latency_seconds", "gauge", help, &|family, look| {
        for pulse in &look.pulses {
            let index = pulse.member.to_string();
            for (direction, Latency { median_us, p99_us }) in
                [("read", pulse.read), ("write", pulse.write)]
            {
                for (quantile, us) in [("0.5", median_us), ("0.99", p99_us)] {
                    let Some(us) = us else {
                        continue;
                    };
                    let labels = [
                        ("pool", look.pool.name.as_str()),
                        ("member", &index),
                        ("direction", direction),
                        ("quantile", quantile),
                    ];
                    family.add(&labels, seconds(us));
                }
            }
        }
    });
}

fn volume_metrics(each: Each<'_>) {
    each(
        "volume_size_bytes",
        "gauge",
        "Size of the volume",
        &|family, look| {
            for (volume, _) in &look.volumes {
                let labels = [("pool", look.pool.name.as_str()), ("volume", &volume.name)];
                family.add(&labels, volume.sectors * SECTOR_BYTES);
            }
        },
    );
    let help = "How much of the volume is mapped";
    each("volume_mapped_bytes", "gauge", help, &|family, look| {
        let block_bytes = u64::from(look.pool.table.block_sectors) * SECTOR_BYTES;
        for (volume, _) in &look.volumes {
            let labels = [("pool", look.pool.name.as_str()), ("volume", &volume.name)];
            family.add(&labels, volume.mapped_blocks * block_bytes);
        }
    });
}

/// Nobody ever sees a part of it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let written = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o644)
        .open(new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        // It is not only for us.
        .and_then(|()| fs::set_permissions(new, Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(new, path));
    written.with_context(|| {
        format!(
            "metrics cannot be written to {}: it needs a directory that is there, and that the \
             service may write to (ReadWritePaths= in 'systemctl edit fusiond')",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::looks;
    use std::collections::HashSet;

    #[test]
    fn metrics() {
        let (_, mut one) = looks(4, 1);
        let (_, mut other) = looks(4, 0);
        one.members[0].device = Some("/dev/a\"b\\".into());
        other.pool.name = "other".into();
        other.status = None;
        other.pulses.clear();
        let text = render([(&one, true), (&other, false)].into_iter());
        for line in [
            "fusion_pool_state{pool=\"tank\",state=\"degraded\"} 1",
            "fusion_pool_state{pool=\"tank\",state=\"ok\"} 0",
            "fusion_pool_state{pool=\"other\",state=\"failed\"} 1",
            "fusion_pool_answers{pool=\"other\"} 0",
            "fusion_pool_space_bytes{pool=\"tank\",of=\"free\"} 32768000",
            "fusion_pool_reads_total{pool=\"tank\"} 400",
            "fusion_pool_rebuild_todo{pool=\"tank\"} 77",
            "fusion_member_ok{pool=\"tank\",member=\"1\"} 0",
            "fusion_member_state{pool=\"tank\",member=\"0\",device=\"/dev/a\\\"b\\\\\",state=\"ok\"} 1",
            "fusion_member_responsive{pool=\"tank\",member=\"2\"} 0",
            "fusion_member_spike_seconds_total{pool=\"tank\",member=\"2\"} 0.0045",
            "fusion_member_latency_seconds{pool=\"tank\",member=\"0\",direction=\"read\",quantile=\"0.99\"} 0.0012",
            "fusion_volume_mapped_bytes{pool=\"tank\",volume=\"v0\"} 1048576",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        // each metric once, and those of a name together
        let mut names = HashSet::new();
        let mut last = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, _) = line.split_once('{').unwrap();
            assert!(name == last || names.insert(name), "{line}");
            last = name;
        }
        let all: HashSet<&str> = text.lines().collect();
        assert_eq!(all.len(), text.lines().count());
    }

    #[test]
    fn files() {
        let path = std::env::temp_dir().join(format!("fusion-metrics-{}", std::process::id()));
        write(&path, "a 1\n").unwrap();
        write(&path, "a 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 2\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        fs::remove_file(&path).unwrap();
        let error = write(Path::new("/nowhere/x.prom"), "").unwrap_err();
        assert!(error.to_string().contains("/nowhere/x.prom"), "{error}");
    }
}
