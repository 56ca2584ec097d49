// SPDX-License-Identifier: GPL-2.0-only
//! A pool for the tests of what is shown.

use std::fmt::Write;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::devno::DevNo;
use crate::report::MemberReport;
use crate::running::{Running, VolumeDevice};
use crate::status::{PoolStatus, PoolTable, Pulse, Volume};

use super::iostat::IoStat;
use super::look::Look;

/// Two looks at a pool, two seconds apart. Member 1 has failed, member 2 is unresponsive.
pub fn looks(members: usize, volumes: u32) -> (Look, Look) {
    let start = Instant::now();
    (
        look(members, volumes, start, 1),
        look(members, volumes, start + Duration::from_secs(2), 2),
    )
}

/// Counters are so many times what they are the first time.
fn look(members: usize, volumes: u32, at: Instant, times: u64) -> Look {
    let mut line =
        "rw - 12 34/4096 128 queue_if_no_space synced 1000 500 200 100 50 150 ".to_owned();
    let counters = [
        ("reads", 200 * times),
        ("converted", 10 * times),
        ("convert_read_pages", 200 * times),
        ("replica_area", 60),
        ("replica_limit", 100),
        ("patch_area", 5),
        ("patch_limit", 10),
        ("scrubbed", 2000 * times),
        ("scrub_at", 18),
        ("scrub_end", 40),
        ("rebuild_todo", 77),
    ];
    write!(line, "{}", counters.len()).unwrap();
    for (name, value) in counters {
        write!(line, " {name} {value}").unwrap();
    }
    write!(line, " {members}").unwrap();
    let mut pulses = String::new();
    for i in 0..members {
        let state = if i == 1 { "failed" } else { "ok" };
        write!(line, " 8:{i} {state} 3 0 0").unwrap();
        let responsive = if i == 2 {
            "unresponsive 7 3 4500"
        } else {
            "responsive 0 0 0"
        };
        writeln!(pulses, "{i} {responsive} 87 1200 0 0 1000 3 1 420").unwrap();
    }
    let status = PoolStatus::parse(&line).unwrap().unwrap();
    let mut table = format!("253:3 128 mols 1 {members}");
    for i in 0..members {
        write!(table, " 8:{i} 2048").unwrap();
    }
    let devices = (0..volumes).map(|id| VolumeDevice {
        name: format!("tank-v{id}"),
        dev: DevNo {
            major: 253,
            minor: 10 + id,
        },
        id,
        sectors: 1 << 21,
    });
    let volumes = (0..volumes).map(|id| {
        let line = format!("{} 7 5 1 v{id}", 16 + id);
        let stat = IoStat {
            reads: 100 * times,
            read_bytes: (100 * times) << 16,
            writes: 1000 * times,
            written_bytes: (1000 * times) << 12,
            in_flight: 4,
        };
        let volume = Volume::parse_status(id, 1 << 21, &line).unwrap().unwrap();
        (volume, Some(stat))
    });
    Look {
        at,
        suspended: false,
        mirror: Some("AAA".into()),
        members: status
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| MemberReport {
                index,
                device: Some(format!("/dev/mapper/ssd{index}")),
                state: member.state.clone(),
                pending: member.pending,
                straggling: member.straggling,
                errors: member.errors,
            })
            .collect(),
        status: Some(status),
        pulses: Pulse::parse_all(&pulses).unwrap(),
        volumes: volumes.collect(),
        pool: Running {
            name: "tank".into(),
            dev: DevNo {
                major: 253,
                minor: 4,
            },
            uuid: Uuid::from_u128(0xabcd),
            table: PoolTable::parse(&table).unwrap(),
            devices: devices.collect(),
        },
    }
}
