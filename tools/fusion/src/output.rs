// SPDX-License-Identifier: GPL-2.0-only
//! Answers to people and to programs.

use anyhow::Result;
use serde::Serialize;

/// Rows under a heading, in columns as wide as they must be. Columns whose heading
/// begins with `>` are aligned to the right.
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&str]) -> Self {
        let heading = headings
            .iter()
            .map(|text| text.trim_start_matches('>').to_owned())
            .collect();
        Self {
            right: headings.iter().map(|text| text.starts_with('>')).collect(),
            rows: vec![heading],
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn render(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .zip(&self.right)
                .map(|((cell, &width), &right)| {
                    if right {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    pub fn print(&self) {
        emit(&self.render());
    }
}

/// Writes to standard output. A reader that has gone (`| head`) is no error.
pub fn emit(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

pub fn line(text: &str) {
    emit(&format!("{text}\n"));
}

pub fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Remarks go to standard error, so that they never disturb an answer.
pub fn notes(notes: &[String]) {
    for note in notes {
        eprintln!("fusion: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let mut table = Table::new(&["NAME", ">SIZE", "STATE"]);
        table.row(vec!["a".into(), "10 GiB".into(), "ok".into()]);
        table.row(vec!["longer".into(), "1 B".into(), String::new()]);
        assert_eq!(
            table.render(),
            "NAME      SIZE  STATE\n\
             a       10 GiB  ok\n\
             longer     1 B\n"
        );
    }
}
