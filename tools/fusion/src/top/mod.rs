// SPDX-License-Identifier: GPL-2.0-only
//! What `fusion top` shows: two looks at a pool make a view, and a view a picture.

pub mod draw;
mod figures;
mod grid;
mod iostat;
pub mod live;
pub mod look;
mod tables;
mod terminal;
#[cfg(test)]
pub mod testing;
pub mod view;
