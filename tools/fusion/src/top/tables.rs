// SPDX-License-Identifier: GPL-2.0-only
//! The members, the volumes, the space and the work of a pool as rows.

use ratatui::style::{Color, Modifier, Style};

use super::figures::{byte_rate, bytes, count, latency, percent, rate, time};
use super::grid::{Cell, Column, Grid};
use super::view::{MemberView, PoolView, Rate, VolumeView};

pub const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub const POOR: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// With so many columns there is room for what is not needed all the time.
const WIDE: u16 = 104;

/// Is it not used, or not any more?
fn is_out(member: &MemberView) -> bool {
    matches!(
        member.report.state.as_str(),
        "failed" | "failing" | "missing"
    )
}

/// How bad it is; 0: all is well.
fn trouble(member: &MemberView) -> u8 {
    match member.report.state.as_str() {
        _ if is_out(member) => 3,
        "ok" if member.unresponsive() => 2,
        "ok" if member.report.errors > 0 => 1,
        "ok" => 0,
        _ if member.unresponsive() => 3,
        _ => 2,
    }
}

/// One word for both what it is to the pool and how it answers.
fn state(member: &MemberView) -> Cell {
    let text = if !is_out(member) && member.unresponsive() {
        "unresponsive"
    } else {
        &member.report.state
    };
    let style = match trouble(member) {
        0 | 1 => Style::new(),
        2 => POOR,
        _ => BAD,
    };
    Cell::styled(text, style)
}

/// Of a path what tells it from others.
fn short_path(path: Option<&str>) -> String {
    let path = path.unwrap_or("-");
    path.strip_prefix("/dev/mapper/")
        .or_else(|| path.strip_prefix("/dev/"))
        .unwrap_or(path)
        .to_owned()
}

fn marked(value: u64, text: String) -> Cell {
    Cell::styled(text, if value > 0 { POOR } else { Style::new() })
}

/// The members by number, or those in trouble first; in so many columns each.
pub fn members(pool: &PoolView, width: u16, trouble_first: bool) -> Grid {
    let mut columns = vec![
        Column::right("#", 2),
        Column::left("DEVICE", 0),
        Column::left("STATE", 12),
        Column::right("RD 50%", 6),
        Column::right("RD 99%", 6),
        Column::right("WR 50%", 6),
        Column::right("WR 99%", 6),
        Column::right("PEND", 4),
        Column::right("LATE", 4),
        Column::right("SPIKES", 6),
        Column::right("IN SPK", 6),
    ];
    let wide = width >= WIDE;
    if wide {
        columns.push(Column::right("IO/S", 6));
        columns.push(Column::right("WINDOW", 6));
        columns.push(Column::right("ERRORS", 6));
    }
    let mut sorted: Vec<&MemberView> = pool.members.iter().collect();
    if trouble_first {
        sorted.sort_by_key(|member| u8::MAX - trouble(member));
    }
    let dash = || "-".to_owned();
    let row = |member: &&MemberView| {
        let mut cells = vec![
            member.report.index.to_string().into(),
            short_path(member.report.device.as_deref()).into(),
            state(member),
            latency(member.read_median_us).into(),
            latency(member.read_p99_us).into(),
            latency(member.write_median_us).into(),
            latency(member.write_p99_us).into(),
            count(member.report.pending).into(),
            marked(
                member.stragglers.unwrap_or(0),
                member.stragglers.map_or_else(dash, count),
            ),
            member.spikes.map_or_else(dash, count).into(),
            member.spikes_us.map_or_else(dash, time).into(),
        ];
        if wide {
            cells.push(member.ios_per_second.map_or_else(dash, count).into());
            cells.push(
                match member.window_us.filter(|_| member.watched == Some(true)) {
                    Some(us) => time(us),
                    None => dash(),
                }
                .into(),
            );
            cells.push(marked(member.report.errors, count(member.report.errors)));
        }
        cells
    };
    Grid {
        columns,
        rows: sorted.iter().map(row).collect(),
    }
}

pub fn volumes(pool: &PoolView) -> Grid {
    let row = |volume: &VolumeView| {
        vec![
            volume.report.name.as_str().into(),
            bytes(volume.report.size_bytes).into(),
            bytes(volume.report.mapped_bytes).into(),
            format!("{}+{}", volume.data, volume.parity).into(),
            bytes(volume.report.tops.saturating_mul(pool.block_bytes)).into(),
            rate(volume.reads_per_second.0).into(),
            byte_rate(volume.read_bytes_per_second.0).into(),
            rate(volume.writes_per_second.0).into(),
            byte_rate(volume.written_bytes_per_second.0).into(),
            volume.in_flight.map_or_else(|| "-".into(), count).into(),
        ]
    };
    Grid {
        columns: vec![
            Column::left("VOLUME", 0),
            Column::right("SIZE", 6),
            Column::right("MAPPED", 6),
            Column::right("RAID", 5),
            Column::right("REPL", 6),
            Column::right("RD/S", 6),
            Column::right("RD B/S", 6),
            Column::right("WR/S", 6),
            Column::right("WR B/S", 6),
            Column::right("PEND", 4),
        ],
        rows: pool.volumes.iter().map(row).collect(),
    }
}

pub fn space(pool: &PoolView) -> Grid {
    let space = &pool.space.report;
    let total = space.total_bytes;
    let states = [
        space.free_bytes,
        space.replicated_bytes,
        space.raid_bytes,
        space.dead_bytes,
        space.spare_bytes,
    ];
    let of = |part, limit| format!("{}/{}", bytes(part), bytes(limit));
    let mut sizes: Vec<Cell> = vec!["space".into(), bytes(total).into()];
    sizes.extend(states.map(|part| Cell::from(bytes(part))));
    sizes.push(of(space.replica_area_bytes, space.replica_limit_bytes).into());
    sizes.push(of(pool.space.patch_area_bytes, pool.space.patch_limit_bytes).into());
    let mut parts: Vec<Cell> = vec!["".into(), "".into()];
    parts.extend(states.map(|part| Cell::from(percent(part, total))));
    if pool.space.low_water {
        parts[2].style = BAD;
    }
    parts.push(percent(space.replica_area_bytes, space.replica_limit_bytes).into());
    parts.push(percent(pool.space.patch_area_bytes, pool.space.patch_limit_bytes).into());
    Grid {
        columns: vec![
            Column::left("", 5),
            Column::right("TOTAL", 6),
            Column::right("FREE", 6),
            Column::right("REPLICATED", 10),
            Column::right("RAID", 6),
            Column::right("DEAD", 6),
            Column::right("SPARE", 6),
            Column::right("REPL AREA", 12),
            Column::right("PATCHES", 12),
        ],
        rows: vec![sizes, parts],
    }
}

pub fn requests(pool: &PoolView) -> Grid {
    let requests = &pool.requests;
    let columns = [
        ("READ", requests.reads_per_second),
        ("LARGE", requests.large_per_second),
        ("IN PLACE", requests.in_place_per_second),
        ("NEW TOP", requests.new_top_per_second),
        ("PATCH", requests.new_patch_per_second),
        ("DISCARD", requests.discards_per_second),
        ("FLUSH", requests.flushes_per_second),
        ("COMMIT", requests.commits_per_second),
    ];
    let mut row: Vec<Cell> = vec!["per s".into()];
    row.extend(columns.iter().map(|(_, value)| Cell::from(rate(value.0))));
    let heads = columns.iter().map(|(name, _)| Column::right(name, 8));
    Grid {
        columns: std::iter::once(Column::left("", 5)).chain(heads).collect(),
        rows: vec![row],
    }
}

/// A line of 39 columns or less for each kind of background work.
pub fn work(pool: &PoolView) -> Vec<Cell> {
    let work = &pool.work;
    let line = |name: &str, done: Rate, unit: &str, bytes: Option<[Rate; 2]>, far: &str| {
        let mut text = format!("{name:<8}");
        if done.any() {
            text += &format!("{:>5} {unit}/s", rate(done.0));
        } else if far.is_empty() {
            text += "    -";
        }
        if let Some([read, written]) = bytes.filter(|rates| rates.iter().any(|rate| rate.any())) {
            text += &format!(" rd {} wr {}", byte_rate(read.0), byte_rate(written.0));
        }
        if !far.is_empty() {
            text += &format!(" {far}");
        }
        Cell::from(text)
    };
    let convert = &work.convert;
    let compact = &work.compact;
    let destage = &work.destage;
    let scrub = &work.scrub;
    let at = match scrub.at_bands {
        0 => String::new(),
        at => format!("at {}", percent(at, scrub.end_bands)),
    };
    let (scrubbed, unit) = if scrub.stripes_per_second.any() {
        (scrub.stripes_per_second, "stripes")
    } else {
        (scrub.blocks_per_second, "blocks")
    };
    let resyncing = if work.resync.active { "resyncing" } else { "" };
    let todo = match work.rebuild.todo_stripes {
        0 => String::new(),
        todo => format!("{} to do", count(todo)),
    };
    let moved = |read, written| Some([read, written]);
    vec![
        line(
            "convert",
            convert.sets_per_second,
            "sets",
            moved(
                convert.read_bytes_per_second,
                convert.written_bytes_per_second,
            ),
            "",
        ),
        line(
            "compact",
            compact.stripes_per_second,
            "stripes",
            moved(
                compact.read_bytes_per_second,
                compact.written_bytes_per_second,
            ),
            "",
        ),
        line(
            "destage",
            destage.pages_per_second,
            "pages",
            moved(
                destage.read_bytes_per_second,
                destage.written_bytes_per_second,
            ),
            "",
        ),
        line(
            "resync",
            work.resync.blocks_per_second,
            "blocks",
            None,
            resyncing,
        ),
        line("scrub", scrubbed, unit, None, &at),
        line(
            "rebuild",
            work.rebuild.stripes_per_second,
            "stripes",
            None,
            &todo,
        ),
    ]
}
