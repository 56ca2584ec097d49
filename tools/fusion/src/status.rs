// SPDX-License-Identifier: GPL-2.0-only
//! The lines that the kernel's targets answer: pool status, volumes, tables.
//! Fields are only ever appended, so what follows the known ones is ignored.

use std::str::{FromStr, SplitAsciiWhitespace};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::devno::DevNo;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    ReadWrite,
    OutOfSpace,
    ReadOnly,
    Failed,
}

/// Blocks over all members; `total` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
    pub replicated: u64,
    pub raid: u64,
    pub dead: u64,
    pub spare: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub device: String,
    pub state: String,
    pub pending: u64,
    pub straggling: bool,
    /// Pages that it could not read, since the pool was started.
    pub errors: u64,
}

/// The status of a pool that is not in fail mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub mode: Mode,
    pub needs_check: bool,
    pub transaction_id: u64,
    pub metadata_used_blocks: u64,
    pub metadata_total_blocks: u64,
    pub block_sectors: u32,
    pub error_if_no_space: bool,
    pub resyncing: bool,
    pub space: Space,
    pub counters: Vec<(String, u64)>,
    pub members: Vec<MemberStatus>,
}

struct Fields<'a> {
    line: &'a str,
    fields: SplitAsciiWhitespace<'a>,
}

impl<'a> Fields<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            line,
            fields: line.split_ascii_whitespace(),
        }
    }

    fn text(&mut self, what: &str) -> Result<&'a str> {
        self.fields
            .next()
            .with_context(|| format!("the kernel's line '{}' lacks its {what}", self.line))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T> {
        let text = self.text(what)?;
        text.parse().map_err(|_| {
            anyhow!(
                "the kernel's line '{}' has '{text}' as its {what}",
                self.line
            )
        })
    }
}

impl PoolStatus {
    /// 0 if this kernel module has no such counter.
    pub fn counter(&self, name: &str) -> u64 {
        self.counter_of(name).unwrap_or(0)
    }

    /// None if this kernel module has no such counter.
    pub fn counter_of(&self, name: &str) -> Option<u64> {
        let mut counters = self.counters.iter();
        counters
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    }

    pub fn is_writable(&self) -> bool {
        matches!(self.mode, Mode::ReadWrite | Mode::OutOfSpace)
    }

    /// None: the pool is in fail mode and says nothing else.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let mut fields = Fields::new(line);
        let mode = match fields.text("mode")? {
            "rw" => Mode::ReadWrite,
            "out_of_space" => Mode::OutOfSpace,
            "ro" => Mode::ReadOnly,
            "fail" | "Fail" => Mode::Failed,
            other => bail!("the pool is in a mode that this version does not know: '{other}'"),
        };
        if mode == Mode::Failed && line.split_ascii_whitespace().nth(1).is_none() {
            return Ok(None);
        }
        let needs_check = fields.text("needs_check")? == "needs_check";
        let transaction_id = fields.number("transaction id")?;
        let metadata = fields.text("metadata blocks")?;
        let (used, total) = metadata
            .split_once('/')
            .and_then(|(used, total)| Some((used.parse().ok()?, total.parse().ok()?)))
            .with_context(|| format!("'{metadata}' is no count of metadata blocks"))?;
        let block_sectors = fields.number("block size")?;
        let error_if_no_space = fields.text("space policy")? == "error_if_no_space";
        let resyncing = fields.text("resync state")? != "synced";
        let space = Space {
            total: fields.number("total space")?,
            free: fields.number("free space")?,
            replicated: fields.number("replicated space")?,
            raid: fields.number("raid space")?,
            dead: fields.number("dead space")?,
            spare: fields.number("spare space")?,
        };
        let count: usize = fields.number("number of counters")?;
        let counters = (0..count)
            .map(|_| {
                Ok((
                    fields.text("counter")?.to_owned(),
                    fields.number("counter")?,
                ))
            })
            .collect::<Result<_>>()?;
        let count: usize = fields.number("number of members")?;
        let members = (0..count)
            .map(|_| {
                Ok(MemberStatus {
                    device: fields.text("member")?.to_owned(),
                    state: fields.text("member state")?.to_owned(),
                    pending: fields.number("pending I/Os")?,
                    straggling: fields.number::<u64>("straggling")? != 0,
                    errors: fields.number("errors")?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Some(Self {
            mode,
            needs_check,
            transaction_id,
            metadata_used_blocks: used,
            metadata_total_blocks: total,
            block_sectors,
            error_if_no_space,
            resyncing,
            space,
            counters,
            members,
        }))
    }
}

/// Latencies of about the last seconds; None: there was no such I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    pub median_us: Option<u64>,
    pub p99_us: Option<u64>,
}

impl Latency {
    fn parse(fields: &mut Fields<'_>, what: &str) -> Result<Self> {
        let mut next = || -> Result<Option<u64>> {
            let us: u64 = fields.number(what)?;
            Ok((us > 0).then_some(us))
        };
        Ok(Self {
            median_us: next()?,
            p99_us: next()?,
        })
    }
}

/// A line of the message `pulse`: how a member answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    pub member: usize,
    pub unresponsive: bool,
    /// I/Os that are older than its window.
    pub stragglers: u64,
    /// Times that it became unresponsive, and how long it was, since the pool was started.
    pub spikes: u64,
    pub spikes_us: u64,
    pub read: Latency,
    pub write: Latency,
    pub window_us: u64,
    /// Stragglers with which it becomes unresponsive; 0: it is not watched.
    pub enter: u64,
    pub ios_per_second: u64,
}

impl Pulse {
    fn parse(line: &str) -> Result<Self> {
        let mut fields = Fields::new(line);
        let member = fields.number("member")?;
        let unresponsive = fields.text("responsiveness")? == "unresponsive";
        // Counted without a lock: it may be below zero for a moment.
        let stragglers: i64 = fields.number("stragglers")?;
        let spikes = fields.number("spikes")?;
        let spikes_us = fields.number("time in spikes")?;
        let read = Latency::parse(&mut fields, "read latency")?;
        let write = Latency::parse(&mut fields, "write latency")?;
        let window_us = fields.number("window")?;
        let enter = fields.number("threshold")?;
        let _exit: u64 = fields.number("threshold")?;
        Ok(Self {
            member,
            unresponsive,
            stragglers: stragglers.max(0).unsigned_abs(),
            spikes,
            spikes_us,
            read,
            write,
            window_us,
            enter,
            ios_per_second: fields.number("I/Os a second")?,
        })
    }

    /// Of all members, by number.
    pub fn parse_all(answer: &str) -> Result<Vec<Self>> {
        answer.lines().map(Self::parse).collect()
    }
}

/// A line of the message `volumes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub id: u32,
    pub name: String,
    pub sectors: u64,
    pub data: u32,
    pub parity: u32,
    pub mapped_blocks: u64,
    pub tops: u64,
    pub deleting: bool,
}

impl Volume {
    fn parse(line: &str) -> Result<Self> {
        let mut fields = Fields::new(line);
        Ok(Self {
            id: fields.number("volume id")?,
            name: fields.text("volume name")?.to_owned(),
            sectors: fields.number("size")?,
            data: fields.number("data slots")?,
            parity: fields.number("parity slots")?,
            mapped_blocks: fields.number("mapped blocks")?,
            tops: fields.number("tops")?,
            deleting: fields.text("state")? == "deleting",
        })
    }

    /// From the status of its device. None: the pool is in fail mode.
    pub fn parse_status(id: u32, sectors: u64, line: &str) -> Result<Option<Self>> {
        if line.trim() == "Fail" {
            return Ok(None);
        }
        let mut fields = Fields::new(line);
        let mapped_blocks = fields.number("mapped blocks")?;
        let tops = fields.number("tops")?;
        let data = fields.number("data slots")?;
        let parity = fields.number("parity slots")?;
        Ok(Some(Self {
            id,
            name: fields.text("volume name")?.to_owned(),
            sectors,
            data,
            parity,
            mapped_blocks,
            tops,
            deleting: false,
        }))
    }

    pub fn parse_all(answer: &str) -> Result<Vec<Self>> {
        answer
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(Self::parse)
            .collect()
    }

    pub fn raid(&self) -> &'static str {
        match self.parity {
            1 => "raid5",
            2 => "raid6",
            _ => "unknown",
        }
    }

    /// Slots of one of its stripes.
    pub fn width(&self) -> u32 {
        self.data + self.parity
    }
}

/// Names and values from the message `settings`.
pub fn parse_settings(answer: &str) -> Result<Vec<(String, u64)>> {
    answer
        .lines()
        .map(|line| {
            let mut fields = Fields::new(line);
            Ok((fields.text("setting")?.to_owned(), fields.number("value")?))
        })
        .collect()
}

/// The table of a running pool, with the devices as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTable {
    pub metadata: DevNo,
    pub block_sectors: u32,
    pub spares: u32,
    /// Device and offset in sectors; None: missing.
    pub members: Vec<Option<(DevNo, u64)>>,
}

impl PoolTable {
    pub fn parse(params: &str) -> Result<Self> {
        let mut fields = Fields::new(params);
        let metadata = fields.text("metadata device")?;
        let metadata = DevNo::parse(metadata)
            .with_context(|| format!("'{metadata}' in a pool's table is no device"))?;
        let block_sectors = fields.number("block size")?;
        let _layout = fields.text("layout")?;
        let spares = fields.number("spares")?;
        let count: usize = fields.number("number of members")?;
        let members = (0..count)
            .map(|_| {
                let device = DevNo::parse(fields.text("member")?);
                let offset = fields.number("data offset")?;
                Ok(device.map(|device| (device, offset)))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            metadata,
            block_sectors,
            spares,
            members,
        })
    }
}

/// Fields of a pool's table before those of its members; their number is the last.
const BEFORE_MEMBERS: usize = 5;

/// The parameters of a pool's table with other members: device and offset of those whose
/// index `members` has; None: missing.
pub fn with_members(params: &str, members: &[(usize, Option<(String, u64)>)]) -> String {
    let mut fields: Vec<String> = params.split_ascii_whitespace().map(str::to_owned).collect();
    for (index, member) in members {
        let (device, offset) = match member {
            Some((device, offset)) => (device.clone(), offset.to_string()),
            None => ("-".into(), "0".into()),
        };
        fields[BEFORE_MEMBERS + 2 * index] = device;
        fields[BEFORE_MEMBERS + 2 * index + 1] = offset;
    }
    fields.join(" ")
}

/// The same with these behind those that there are, of which there are `count`.
pub fn with_more_members(params: &str, count: usize, more: &[(String, u64)]) -> String {
    let fields: Vec<&str> = params.split_ascii_whitespace().collect();
    let (before, rest) = fields.split_at(BEFORE_MEMBERS - 1);
    let (members, features) = rest[1..].split_at(2 * count);
    let mut new: Vec<String> = before.iter().map(ToString::to_string).collect();
    new.push((count + more.len()).to_string());
    new.extend(members.iter().map(ToString::to_string));
    for (device, offset) in more {
        new.extend([device.clone(), offset.to_string()]);
    }
    new.extend(features.iter().map(ToString::to_string));
    new.join(" ")
}

/// The pool device and the id in a volume's table.
pub fn parse_volume_table(params: &str) -> Option<(DevNo, u32)> {
    let mut fields = params.split_ascii_whitespace();
    Some((DevNo::parse(fields.next()?)?, fields.next()?.parse().ok()?))
}

/// The legs of a dm-raid mirror from its status: `A` in sync, `a` being synced,
/// `D` failed, `-` missing.
pub fn parse_mirror_health(params: &str) -> Option<String> {
    params.split_ascii_whitespace().nth(2).map(str::to_owned)
}

/// How far its copying is: sectors, of how many.
pub fn parse_mirror_progress(params: &str) -> Option<(u64, u64)> {
    let (done, total) = params.split_ascii_whitespace().nth(3)?.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

/// The legs in its table, their metadata and data; None: the mirror does without.
pub fn parse_mirror_legs(params: &str) -> Option<Vec<Option<(DevNo, DevNo)>>> {
    let mut fields = params.split_ascii_whitespace().skip(1);
    let options: usize = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(options);
    let legs: usize = fields.next()?.parse().ok()?;
    let mut part = || fields.next().map(DevNo::parse);
    (0..legs)
        .map(|_| {
            let (rmeta, image) = (part()?, part()?);
            Some(rmeta.zip(image))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "rw - 12 34/4096 128 queue_if_no_space synced \
                        1000 500 200 100 50 150 3 reads 7 large 8 commits 9 \
                        2 253:0 ok 3 0 5 253:1 failed 0 1 0 some future fields";

    #[test]
    fn pool_status() {
        let status = PoolStatus::parse(LINE).unwrap().unwrap();
        assert_eq!(status.mode, Mode::ReadWrite);
        assert!(!status.needs_check && !status.error_if_no_space && !status.resyncing);
        assert_eq!(status.transaction_id, 12);
        assert_eq!(status.metadata_used_blocks, 34);
        assert_eq!(status.metadata_total_blocks, 4096);
        assert_eq!(status.block_sectors, 128);
        assert_eq!(status.space.total, 1000);
        assert_eq!(status.space.spare, 150);
        assert_eq!(status.counters[2], ("commits".into(), 9));
        assert_eq!(status.members[0].pending, 3);
        assert_eq!(status.members[0].errors, 5);
        assert!(status.members[1].straggling);
        assert_eq!(status.members[1].state, "failed");
    }

    #[test]
    fn pool_status_in_trouble() {
        assert_eq!(PoolStatus::parse("Fail").unwrap(), None);
        let line = LINE
            .replace("rw -", "ro needs_check")
            .replace("queue", "error")
            .replace("synced", "resyncing");
        let status = PoolStatus::parse(&line).unwrap().unwrap();
        assert_eq!(status.mode, Mode::ReadOnly);
        assert!(status.needs_check && status.error_if_no_space && status.resyncing);
    }

    #[test]
    fn pool_status_that_is_none() {
        for line in [
            "",
            "up",
            "rw",
            "rw - x",
            "rw - 1 2/3 128 queue_if_no_space synced 1 2",
        ] {
            assert!(PoolStatus::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn volumes() {
        let volumes =
            Volume::parse_all("0 a 2048 5 1 10 3 ok\n7 b 4096 3 1 0 0 deleting more\n").unwrap();
        assert_eq!(volumes.len(), 2);
        assert_eq!(volumes[0].width(), 6);
        assert_eq!(volumes[0].raid(), "raid5");
        assert_eq!(volumes[0].mapped_blocks, 10);
        assert!(volumes[1].deleting);
        assert_eq!(Volume::parse_all("").unwrap(), []);
        assert!(Volume::parse_all("0 a 2048").is_err());
    }

    #[test]
    fn volume_by_its_device() {
        let volume = Volume::parse_status(7, 4096, "10 3 5 1 db more").unwrap();
        assert_eq!(
            volume,
            Some(Volume::parse("7 db 4096 5 1 10 3 ok").unwrap())
        );
        assert_eq!(Volume::parse_status(7, 4096, "Fail").unwrap(), None);
        assert!(Volume::parse_status(7, 4096, "10 3 5 1").is_err());
    }

    #[test]
    fn pulse() {
        let pulses = Pulse::parse_all(
            "0 responsive -1 0 0 87 1200 0 0 1000 6 0 42000\n\
             1 unresponsive 7 3 4500 90 9000 120 30000 20000 0 1 5 more\n",
        )
        .unwrap();
        assert_eq!(pulses.len(), 2);
        assert_eq!((pulses[0].member, pulses[0].stragglers), (0, 0));
        assert_eq!(pulses[0].read.p99_us, Some(1200));
        assert_eq!(pulses[0].write, Latency::default());
        assert_eq!(pulses[0].ios_per_second, 42000);
        assert!(pulses[1].unresponsive && pulses[1].enter == 0);
        assert_eq!((pulses[1].spikes, pulses[1].spikes_us), (3, 4500));
        assert_eq!(pulses[1].write.median_us, Some(120));
        for line in ["", "0 responsive 1", "x responsive 0 0 0 0 0 0 0 0 0 0 0"] {
            assert!(Pulse::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn settings() {
        assert_eq!(
            parse_settings("paused 0\nage_s 300 more\n").unwrap(),
            [("paused".into(), 0), ("age_s".into(), 300)]
        );
        for line in ["paused\n", "paused yes\n", "\n"] {
            assert!(parse_settings(line).is_err(), "{line}");
        }
    }

    #[test]
    fn tables() {
        let table =
            PoolTable::parse("253:3 128 mols 1 4 8:0 2048 8:16 2048 - 0 8:48 4096 0").unwrap();
        assert_eq!(
            table.metadata,
            DevNo {
                major: 253,
                minor: 3
            }
        );
        assert_eq!(table.members.len(), 4);
        assert_eq!(table.members[2], None);
        assert_eq!(table.members[3].unwrap().1, 4096);
        assert_eq!(
            with_members(
                "253:3 128 mols 1 4 8:0 2048 8:16 2048 - 0 8:48 4096 1 error_if_no_space",
                &[(2, Some(("/dev/x".into(), 2048))), (1, None)]
            ),
            "253:3 128 mols 1 4 8:0 2048 - 0 /dev/x 2048 8:48 4096 1 error_if_no_space"
        );
        let more = [("/dev/x".into(), 2048)];
        assert_eq!(
            with_more_members(
                "253:3 128 mols 0 4 8:0 2048 8:16 2048 8:32 2048 8:48 2048 3 journal 4 8",
                4,
                &more
            ),
            "253:3 128 mols 0 5 8:0 2048 8:16 2048 8:32 2048 8:48 2048 /dev/x 2048 3 journal 4 8"
        );
        let params = "253:3 128 mols 0 1 8:0 2048";
        let longer = with_more_members(params, 1, &more);
        assert_eq!(longer, "253:3 128 mols 0 2 8:0 2048 /dev/x 2048");
        assert_eq!(
            parse_volume_table("253:9 17"),
            Some((
                DevNo {
                    major: 253,
                    minor: 9
                },
                17
            ))
        );
        assert_eq!(parse_volume_table("/dev/x"), None);
    }

    #[test]
    fn mirror() {
        assert_eq!(
            parse_mirror_health("raid1 3 AaD 32768/32768 idle 0 0 -").as_deref(),
            Some("AaD")
        );
        assert_eq!(
            parse_mirror_progress("raid1 3 AaD 128/32768 recover 0 0 -"),
            Some((128, 32768))
        );
        let dev = |minor| DevNo { major: 253, minor };
        assert_eq!(
            parse_mirror_legs("raid1 3 0 rebuild 2 3 253:1 253:2 - - 253:5 253:6"),
            Some(vec![Some((dev(1), dev(2))), None, Some((dev(5), dev(6)))])
        );
        assert_eq!(parse_mirror_legs("raid1 2 0 nosync 3 253:1"), None);
    }
}
