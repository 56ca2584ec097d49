// SPDX-License-Identifier: GPL-2.0-only
//! The picture of a pool: at least 80 columns and 24 lines; what there is more of is used, and
//! what does not fit is scrolled.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::figures::{bytes, percent, shorten};
use super::grid::{Grid, folded, seen, write};
use super::tables::{self, BAD, POOR};
use super::view::PoolView;
use crate::report::State;

/// The least that a row of a member takes: in so many columns there is room for another one.
const SIDE: u16 = 80;
/// So much of a name is always shown.
const SHORT_NAME: usize = 12;
const HEADING: Style = Style::new().add_modifier(Modifier::UNDERLINED);
const CHOSEN: Style = HEADING.add_modifier(Modifier::BOLD);
const TITLE: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What is done every so often, as keys change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    pub members_from: usize,
    pub volumes_from: usize,
    /// The keys move the volumes, not the members.
    pub volumes_chosen: bool,
    pub trouble_first: bool,
}

/// What is known of the picture besides the pool.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// At the right end of the first line.
    pub note: String,
    /// Keys are said, and tables may be cut.
    pub live: bool,
}

/// Lines above the tables, without the blank ones.
const TOP_LINES: u16 = 2 + 2 + 3 + 3;
/// These, if there is room for all.
const BLANK_LINES: u16 = 5;

/// The lines that show all of it.
pub fn height(pool: &PoolView) -> u16 {
    let rows = pool.members.len() + pool.volumes.len();
    TOP_LINES + BLANK_LINES + 2 + u16::try_from(rows).unwrap_or(u16::MAX / 2)
}

/// How many rows of members and of volumes are shown if there is room for `rows`.
fn allot(rows: usize, members: usize, volumes: usize) -> (usize, usize) {
    let least = volumes.min(rows / 3);
    let members = members.min(rows - least);
    (members, volumes.min(rows - members))
}

/// Draws it all. Keeps `scroll` within what there is.
pub fn pool(buf: &mut Buffer, area: Rect, pool: &PoolView, around: &Around, scroll: &mut Scroll) {
    // Scrolled or not, what is above the tables is the same.
    let foot = u16::from(around.live);
    let rows = usize::from(area.height.saturating_sub(TOP_LINES + foot + 2));
    let needed =
        folded(pool.members.len(), area.width, SIDE) + folded(pool.volumes.len(), area.width, SIDE);
    let blank = u16::from(rows >= needed + usize::from(BLANK_LINES));
    let rows = rows - usize::from(blank * BLANK_LINES);

    let mut pen = Pen { buf, area };
    title(&mut pen, pool, around);
    summary(&mut pen, pool);
    pen.skip(blank);
    pen.grid(&tables::requests(pool), 0, HEADING, 2);
    pen.skip(blank);
    pen.grid(&tables::space(pool), 0, HEADING, 3);
    pen.skip(blank);
    work(&mut pen, pool);
    pen.skip(blank);

    let members = pool.members.len();
    let volumes = pool.volumes.len();
    let (mut member_rows, mut volume_rows) = allot(
        rows,
        folded(members, area.width, SIDE),
        folded(volumes, area.width, SIDE),
    );
    // What need not be side by side is not.
    if member_rows + volumes <= rows {
        volume_rows = volumes;
    }
    if members + volume_rows <= rows {
        member_rows = members;
    }
    let members_seen = seen(members, member_rows, area.width, SIDE);
    let volumes_seen = seen(volumes, volume_rows, area.width, SIDE);
    scroll.members_from = scroll.members_from.min(members - members_seen.min(members));
    scroll.volumes_from = scroll.volumes_from.min(volumes - volumes_seen.min(volumes));
    // Side by side there are fewer columns for each.
    let width = if members > member_rows {
        area.width / (area.width / SIDE).max(1)
    } else {
        area.width
    };
    let heading = |chosen| {
        if around.live && chosen {
            CHOSEN
        } else {
            HEADING
        }
    };
    pen.grid(
        &tables::members(pool, width, scroll.trouble_first),
        scroll.members_from,
        heading(!scroll.volumes_chosen),
        1 + member_rows,
    );
    pen.skip(blank);
    pen.grid(
        &tables::volumes(pool),
        scroll.volumes_from,
        heading(scroll.volumes_chosen),
        1 + volume_rows,
    );
    if around.live {
        let parts = [
            part("members", scroll.members_from, members_seen, members),
            part("volumes", scroll.volumes_from, volumes_seen, volumes),
        ];
        footer(&mut pen, parts.concat().trim_start());
    }
}

/// Which of them are seen, if not all.
fn part(what: &str, from: usize, seen: usize, all: usize) -> String {
    if seen >= all {
        return String::new();
    }
    format!("  {what} {}-{}/{all}", from + 1, (from + seen).min(all))
}

/// Draws from the top of what is left on.
struct Pen<'a> {
    buf: &'a mut Buffer,
    area: Rect,
}

impl Pen<'_> {
    fn skip(&mut self, lines: u16) {
        let lines = lines.min(self.area.height);
        self.area.y += lines;
        self.area.height -= lines;
    }

    fn grid(&mut self, grid: &Grid, from: usize, heading: Style, height: usize) {
        let height = u16::try_from(height)
            .unwrap_or(u16::MAX)
            .min(self.area.height);
        let area = Rect {
            height,
            ..self.area
        };
        grid.draw(self.buf, area, from, SIDE, heading);
        self.skip(height);
    }

    fn write(&mut self, x: u16, width: u16, text: &str, style: Style) {
        if self.area.height > 0 {
            let width = width.min(self.area.width.saturating_sub(x));
            write(self.buf, self.area.x + x, self.area.y, width, text, style);
        }
    }
}

fn title(pen: &mut Pen<'_>, pool: &PoolView, around: &Around) {
    let width = pen.area.width;
    let mut state = pool.state.text().to_owned();
    for (is, text) in [
        (pool.suspended, ", suspended"),
        (pool.out_of_space, ", out of space"),
        (pool.space.low_water, ", space is low"),
        (pool.work.resync.active, ", resyncing"),
        (pool.work.grow.from_members > 0, ", growing"),
        (pool.needs_check, ", metadata needs a check"),
    ] {
        if is {
            state += text;
        }
    }
    let style = match pool.state {
        State::Ok if !pool.out_of_space && !pool.suspended => TITLE,
        State::Ok | State::Degraded => POOR.add_modifier(Modifier::REVERSED),
        _ => BAD.add_modifier(Modifier::REVERSED),
    };
    let note_width = u16::try_from(around.note.chars().count())
        .unwrap_or(width)
        .min(width);
    pen.write(0, width, &" ".repeat(width.into()), style);
    let room = width.saturating_sub(note_width + 1);
    // Of what is too long the name is cut.
    let name = usize::from(room).saturating_sub(state.len() + 2);
    let name = shorten(&pool.name, name.max(SHORT_NAME));
    pen.write(0, room, &format!("{name}: {state}"), style);
    pen.write(width - note_width, note_width, &around.note, style);
    pen.skip(1);
}

/// How many members are what, and the metadata.
fn summary(pen: &mut Pen<'_>, pool: &PoolView) {
    let mut text = format!("{} members", pool.members.len());
    let mut separator = ": ";
    let states = [
        "ok",
        "missing",
        "failed",
        "failing",
        "kept",
        "returning",
        "unknown",
    ];
    for state in states {
        let count = pool
            .members
            .iter()
            .filter(|member| member.report.state == state)
            .count();
        if count > 0 {
            text += &format!("{separator}{count} {state}");
            separator = ", ";
        }
    }
    let unresponsive = pool
        .members
        .iter()
        .filter(|member| member.unresponsive())
        .count();
    if unresponsive > 0 {
        text += &format!("; {unresponsive} unresponsive");
    }
    let metadata = &pool.metadata;
    let mut right = format!(
        "metadata {} of {}",
        percent(metadata.used_bytes, metadata.total_bytes),
        bytes(metadata.total_bytes)
    );
    if let Some(mirror) = &metadata.mirror {
        right += &format!(", mirror {mirror}");
    }
    let width = pen.area.width;
    let right_width = u16::try_from(right.chars().count())
        .unwrap_or(width)
        .min(width);
    pen.write(
        0,
        width.saturating_sub(right_width + 1),
        &text,
        Style::new(),
    );
    let style = match &metadata.mirror {
        Some(legs) if legs.contains(['D', '-']) => BAD,
        _ => Style::new(),
    };
    pen.write(width - right_width, right_width, &right, style);
    pen.skip(1);
}

/// In two columns.
fn work(pen: &mut Pen<'_>, pool: &PoolView) {
    let half = pen.area.width / 2;
    let lines = tables::work(pool);
    for pair in lines.chunks(2) {
        for (cell, x) in pair.iter().zip([0, half]) {
            pen.write(x, half.saturating_sub(1), &cell.text, cell.style);
        }
        pen.skip(1);
    }
}

/// On the last line.
fn footer(pen: &mut Pen<'_>, parts: &str) {
    pen.skip(pen.area.height.saturating_sub(1));
    let style = Style::new().add_modifier(Modifier::DIM);
    let keys = "q end  arrows/tab scroll  n/p pool  s sort";
    let parts_width = u16::try_from(parts.len()).unwrap_or(u16::MAX);
    let at = pen.area.width.saturating_sub(parts_width);
    pen.write(0, at, keys, style);
    pen.write(at, parts_width, parts, style);
}

/// The pools one below the other, all of them, as lines.
pub fn text(pools: &[PoolView], width: u16) -> String {
    let mut text = String::new();
    for (i, view) in pools.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let area = Rect::new(0, 0, width, height(view));
        let mut buf = Buffer::empty(area);
        let around = Around {
            note: match view.elapsed_seconds {
                Some(seconds) => format!("in {seconds:.1} s"),
                None => String::new(),
            },
            live: false,
        };
        pool(&mut buf, area, view, &around, &mut Scroll::default());
        for y in 0..area.height {
            let line: String = (0..width)
                .filter_map(|x| buf.cell((x, y)))
                .map(|cell| cell.symbol())
                .collect();
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::looks;
    use super::super::view::View;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn view(members: usize, volumes: u32) -> PoolView {
        let (before, after) = looks(members, volumes);
        let mut pools = View::new(&[before], &[after]).pools;
        pools.remove(0)
    }

    /// Lines of the screen, without what ends them.
    fn screen(view: &PoolView, width: u16, height: u16, scroll: &mut Scroll) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let around = Around {
            note: "every 1 s".into(),
            live: true,
        };
        terminal
            .draw(|frame| {
                let area = frame.area();
                pool(frame.buffer_mut(), area, view, &around, scroll);
            })
            .unwrap();
        let buf = terminal.backend().buffer();
        let line = |y| -> String { (0..width).map(|x| buf[(x, y)].symbol()).collect() };
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn small() {
        let lines = screen(&view(8, 2), 80, 24, &mut Scroll::default());
        let expected = [
            "tank: degraded                                                         every 1 s",
            "8 members: 7 ok, 1 failed; 1 unresponsive         metadata 0% of 16M, mirror AAA",
            "          READ    LARGE IN PLACE  NEW TOP    PATCH  DISCARD    FLUSH   COMMIT",
            "per s      100        0        0        0        0        0        0        0",
            "       TOTAL   FREE REPLICATED   RAID   DEAD  SPARE    REPL AREA      PATCHES",
            "space  62.5M  31.2M      12.5M  6.25M  3.12M  9.38M  3.75M/6.25M    320K/640K",
            "                50%        20%    10%     5%    15%          60%          50%",
            "convert     5 sets/s rd 400K wr 0B      compact     -",
            "destage     -                           resync      -",
            "scrub      1k stripes/s at 45%          rebuild  77 to do",
            " # DEVICE       STATE        RD 50% RD 99% WR 50% WR 99% PEND LATE SPIKES IN SPK",
            " 0 ssd0         ok             87us 1.20ms      -      -    3    0      0    0us",
            " 1 ssd1         failed         87us 1.20ms      -      -    3    0      0    0us",
            " 2 ssd2         unresponsive   87us 1.20ms      -      -    3    7      3 4.50ms",
            " 3 ssd3         ok             87us 1.20ms      -      -    3    0      0    0us",
            " 4 ssd4         ok             87us 1.20ms      -      -    3    0      0    0us",
            " 5 ssd5         ok             87us 1.20ms      -      -    3    0      0    0us",
            " 6 ssd6         ok             87us 1.20ms      -      -    3    0      0    0us",
            " 7 ssd7         ok             87us 1.20ms      -      -    3    0      0    0us",
            "VOLUME                 SIZE MAPPED  RAID   REPL   RD/S RD B/S   WR/S WR B/S PEND",
            "v0                       1G     1M   5+1   448K     50  3.12M    500  1.95M    4",
            "v1                       1G  1.06M   5+1   448K     50  3.12M    500  1.95M    4",
            "",
            "q end  arrows/tab scroll  n/p pool  s sort",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn scrolled() {
        let view = view(64, 12);
        let mut scroll = Scroll {
            members_from: usize::MAX,
            ..Scroll::default()
        };
        let lines = screen(&view, 80, 24, &mut scroll);
        assert_eq!(scroll.members_from, 56);
        assert!(lines[11].starts_with("56 ssd56 "), "{}", lines[11]);
        assert!(lines[18].starts_with("63 ssd63 "), "{}", lines[18]);
        assert!(lines[20].starts_with("v0 "), "{}", lines[20]);
        assert_eq!(
            lines[23],
            "q end  arrows/tab scroll  n/p pool  s sort      members 57-64/64  volumes 1-3/12"
        );
        scroll.trouble_first = true;
        scroll.members_from = 0;
        scroll.volumes_from = 100;
        let lines = screen(&view, 80, 24, &mut scroll);
        assert!(lines[11].contains(" 1 ssd1 ") && lines[12].contains(" 2 ssd2 "));
        assert!(lines[22].starts_with("v11 "), "{}", lines[22]);
    }

    #[test]
    fn large() {
        // what does not fit one below the other is side by side
        let lines = screen(&view(64, 5), 200, 60, &mut Scroll::default());
        let first = lines
            .iter()
            .position(|line| line.starts_with(" 0 ssd0"))
            .unwrap();
        assert!(lines[first].contains(" 32 ssd32 "), "{}", lines[first]);
        assert!(
            lines[first + 31].contains("63 ssd63 "),
            "{}",
            lines[first + 31]
        );
        assert!(lines.iter().any(|line| line.starts_with("v4 ")));
        assert!(!lines[59].contains("members"), "{}", lines[59]);
        // and one below the other there is more to see of each
        let lines = screen(&view(29, 2), 120, 60, &mut Scroll::default());
        assert!(
            lines
                .iter()
                .any(|line| line.ends_with("IO/S WINDOW ERRORS"))
        );
        assert!(lines.iter().any(|line| line.starts_with("28 ssd28 ")));
        let lines = screen(&view(29, 2), 120, 30, &mut Scroll::default());
        assert!(lines[29].ends_with("members 1-15/29"), "{}", lines[29]);
    }

    #[test]
    fn colours() {
        let view = view(4, 0);
        let area = Rect::new(0, 0, 80, 24);
        let mut buf = Buffer::empty(area);
        pool(
            &mut buf,
            area,
            &view,
            &Around::default(),
            &mut Scroll::default(),
        );
        let style = |y: u16| buf[(16, y)].style();
        let rows: Vec<u16> = (0..24).filter(|&y| buf[(3, y)].symbol() == "s").collect();
        let Some(&[_, failed, unresponsive, ok]) = rows.last_chunk() else {
            panic!("{rows:?}");
        };
        assert_eq!(style(failed).fg, BAD.fg);
        assert_eq!(style(unresponsive).fg, POOR.fg);
        assert_ne!(style(ok).fg, POOR.fg);
    }

    #[test]
    fn a_pool_that_grows() {
        let mut view = view(4, 1);
        view.work.grow.from_members = 3;
        let lines = screen(&view, 80, 24, &mut Scroll::default());
        assert!(
            lines[0].starts_with("tank: degraded, growing "),
            "{}",
            lines[0]
        );
    }

    #[test]
    fn long_names() {
        let mut view = view(4, 1);
        view.name = "p".repeat(63);
        view.suspended = true;
        view.volumes[0].report.name = "v".repeat(63);
        view.members[0].report.device = Some(format!("/dev/disk/by-id/{}", "d".repeat(40)));
        let lines = screen(&view, 80, 24, &mut Scroll::default());
        assert!(
            lines[0].ends_with("pp…: degraded, suspended every 1 s"),
            "{}",
            lines[0]
        );
        let text = lines.join("\n");
        assert!(text.contains("\n 0 disk/by-id/… ok "), "{text}");
        assert!(text.contains("vvvvv… "), "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn no_room() {
        for (width, height) in [
            (0, 0),
            (1, 1),
            (20, 5),
            (80, 10),
            (79, 12),
            (80, 14),
            (300, 3),
        ] {
            let scroll = &mut Scroll::default();
            screen(&view(8, 2), width, height, scroll);
            screen(&view(64, 64), width, height, scroll);
        }
    }

    #[test]
    fn as_text() {
        let text = text(&[view(64, 2), view(8, 20)], 80);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(
            &"tank: degraded                                                          in 2.0 s"
        ));
        assert_eq!(
            lines
                .iter()
                .filter(|line| line.starts_with("tank: "))
                .count(),
            2
        );
        for row in ["63 ssd63 ", "v19 "] {
            assert!(lines.iter().any(|line| line.starts_with(row)), "{text}");
        }
        assert!(!text.contains("q end") && !text.contains('…'), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn rows_for_both() {
        assert_eq!(allot(12, 8, 2), (8, 2));
        assert_eq!(allot(12, 64, 2), (10, 2));
        assert_eq!(allot(12, 64, 64), (8, 4));
        assert_eq!(allot(12, 4, 64), (4, 8));
        assert_eq!(allot(0, 4, 4), (0, 0));
    }
}
