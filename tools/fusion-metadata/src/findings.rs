// SPDX-License-Identifier: GPL-2.0-only
//! What is found to be wrong.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Data may be lost, or will be.
    Error,
    /// Blocks of metadata are not used that could be; nothing else.
    Minor,
}

/// Counts all, and tells of each.
pub struct Findings<'a> {
    pub errors: u64,
    pub minor: u64,
    tell: &'a mut dyn FnMut(Severity, &str),
}

impl<'a> Findings<'a> {
    pub fn new(tell: &'a mut dyn FnMut(Severity, &str)) -> Self {
        Self {
            errors: 0,
            minor: 0,
            tell,
        }
    }

    pub fn error(&mut self, text: &str) {
        self.errors += 1;
        (self.tell)(Severity::Error, text);
    }

    pub fn minor(&mut self, text: &str) {
        self.minor += 1;
        (self.tell)(Severity::Minor, text);
    }

    pub fn error_unless(&mut self, good: bool, text: impl FnOnce() -> String) {
        if !good {
            self.error(&text());
        }
    }
}
