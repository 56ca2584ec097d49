// SPDX-License-Identifier: GPL-2.0-only
//! One module for each group of commands: from arguments to answers.

pub mod background;
pub mod device;
pub mod metadata;
pub mod monitor;
pub mod pool;
pub mod scan;
pub mod table;
pub mod top;
pub mod volume;
