// SPDX-License-Identifier: GPL-2.0-only
//! Rows of cells under a heading, drawn where they fit.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::figures::shorten;

pub struct Column {
    pub heading: &'static str,
    /// In characters; 0: whatever the others leave.
    pub width: u16,
    pub right: bool,
}

impl Column {
    pub fn left(heading: &'static str, width: u16) -> Self {
        Self {
            heading,
            width,
            right: false,
        }
    }

    pub fn right(heading: &'static str, width: u16) -> Self {
        Self {
            heading,
            width,
            right: true,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub style: Style,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            style: Style::new(),
        }
    }
}

impl Cell {
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

pub struct Grid {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

/// Between two columns.
const GAP: u16 = 1;

/// Writes text cut to `width`, as far as there is room.
pub fn write(buf: &mut Buffer, x: u16, y: u16, width: u16, text: &str, style: Style) {
    let area = buf.area;
    if x < area.right() && y < area.bottom() {
        buf.set_stringn(x, y, shorten(text, width.into()), width.into(), style);
    }
}

impl Grid {
    /// Draws the heading and the rows from number `from` on. If they do not all fit, wide
    /// areas show them side by side, each in at least `side` columns.
    pub fn draw(&self, buf: &mut Buffer, area: Rect, from: usize, side: u16, heading: Style) {
        if area.height == 0 {
            return;
        }
        let height = usize::from(area.height - 1);
        let sides = if self.rows.len() > height {
            (area.width / side).max(1)
        } else {
            1
        };
        let width = area.width / sides;
        for i in 0..sides {
            let part = Rect {
                x: area.x + i * width,
                width: width - u16::from(i + 1 < sides),
                ..area
            };
            let first = from + usize::from(i) * height;
            let rows = self.rows.iter().skip(first).take(height);
            if i == 0 || rows.len() > 0 {
                self.draw_part(buf, part, rows, heading);
            }
        }
    }

    fn draw_part<'a>(
        &self,
        buf: &mut Buffer,
        area: Rect,
        rows: impl Iterator<Item = &'a Vec<Cell>>,
        heading: Style,
    ) {
        let widths = self.widths(area.width);
        let mut draw_row = |y: u16, cells: &mut dyn Iterator<Item = (&str, Style)>| {
            let mut x = area.x;
            for ((text, style), (column, &width)) in cells.zip(self.columns.iter().zip(&widths)) {
                let room = width.min(area.right().saturating_sub(x));
                let text = shorten(text, room.into());
                let blank = room
                    - u16::try_from(text.chars().count())
                        .unwrap_or(room)
                        .min(room);
                let at = x + if column.right { blank } else { 0 };
                write(buf, at, y, room, &text, style);
                x = x.saturating_add(width + GAP);
            }
        };
        let mut headings = self.columns.iter().map(|column| (column.heading, heading));
        draw_row(area.y, &mut headings);
        for (row, y) in rows.zip(area.y + 1..area.bottom()) {
            let mut cells = row.iter().map(|cell| (cell.text.as_str(), cell.style));
            draw_row(y, &mut cells);
        }
    }

    fn widths(&self, total: u16) -> Vec<u16> {
        let gaps = GAP * u16::try_from(self.columns.len().saturating_sub(1)).unwrap_or(0);
        let fixed: u16 = self.columns.iter().map(|column| column.width).sum();
        let left = total.saturating_sub(fixed + gaps);
        self.columns
            .iter()
            .map(|column| {
                if column.width == 0 {
                    left
                } else {
                    column.width
                }
            })
            .collect()
    }
}

/// Rows that `count` take at most side by side, and how many can be seen in `height` of them.
pub fn folded(count: usize, width: u16, side: u16) -> usize {
    count.div_ceil(usize::from((width / side).max(1)))
}

pub fn seen(count: usize, height: usize, width: u16, side: u16) -> usize {
    let sides = usize::from((width / side).max(1));
    if count > height {
        height * sides
    } else {
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: usize) -> Grid {
        let row = |i: usize| vec![Cell::from(format!("name{i}")), Cell::from(i.to_string())];
        Grid {
            columns: vec![Column::left("NAME", 0), Column::right("N", 3)],
            rows: (0..rows).map(row).collect(),
        }
    }

    #[test]
    fn rows_side_by_side() {
        let area = Rect::new(0, 0, 20, 3);
        let mut buf = Buffer::empty(area);
        grid(5).draw(&mut buf, area, 1, 10, Style::new());
        let expected = Buffer::with_lines([
            "NAME    N NAME     N",
            "name1   1 name3    3",
            "name2   2 name4    4",
        ]);
        assert_eq!(buf, expected);
        assert_eq!((folded(5, 20, 10), seen(5, 2, 20, 10)), (3, 4));
        assert_eq!((folded(5, 19, 10), seen(5, 2, 19, 10)), (5, 2));
        assert_eq!(seen(5, 5, 20, 10), 5);
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let area = Rect::new(0, 0, 8, 2);
        let mut buf = Buffer::empty(area);
        grid(1).draw(&mut buf, area, 0, 80, Style::new());
        assert_eq!(buf, Buffer::with_lines(["NAME   N", "nam…   0"]));
        // narrower than what is fixed, and no room at all
        for (width, height) in [(2, 2), (0, 2), (8, 0), (1, 1)] {
            let area = Rect::new(0, 0, width, height);
            grid(3).draw(&mut Buffer::empty(area), area, 0, 80, Style::new());
        }
    }
}
