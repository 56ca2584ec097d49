// SPDX-License-Identifier: GPL-2.0-only
//! `fusion`: manages dm-fusion pools and volumes.
//!
//! Exit status: 0 done, 1 an error, 2 a wrong command line.
//!
//! Called as fusion_check, fusion_dump, fusion_restore or fusion_repair it is that command, and as
//! fusiond it is monitor.
//!
//! A library, as examples/manual.rs has to know the command line, too.

mod ask;
mod assemble;
mod background;
mod block;
mod candidate;
pub mod cli;
mod commands;
mod create;
mod devno;
mod dm;
mod geometry;
mod grow;
#[cfg(test)]
mod history;
mod interrupt;
mod kmsg;
mod lock;
mod member;
mod membership;
mod mirror;
mod monitor;
mod names;
mod nodes;
mod offline;
mod output;
mod place;
mod plan;
mod probe;
mod progress;
mod replace;
mod report;
mod running;
mod scan;
mod settings;
mod size;
mod slices;
mod start;
mod status;
mod stopped;
mod sysfs;
#[cfg(test)]
mod testing;
mod top;
mod udev;
mod usage;
mod volumes;

use std::process::ExitCode;

use cli::{Cli, Command};
use commands::metadata::Silent;

pub fn run() -> ExitCode {
    let Cli { json, command } =
        cli::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let result = match command {
        Command::Pool(command) => commands::pool::run(command, json),
        Command::Volume(command) => commands::volume::run(command, json),
        Command::Device(command) => commands::device::run(command, json),
        Command::Convert { pool } => commands::background::convert(&pool, json),
        Command::Scrub(args) => commands::background::scrub(&args, json),
        Command::Check(args) => commands::metadata::check(&args, json),
        Command::Dump { metadata, output } => {
            commands::metadata::dump(&metadata, output.as_deref(), json)
        }
        Command::Restore(args) => commands::metadata::restore(&args, json),
        Command::Repair(args) => commands::metadata::repair(&args, json),
        Command::Monitor(args) => commands::monitor::run(&args, json),
        Command::Top(args) => commands::top::run(&args, json),
        Command::Table(args) => commands::table::run(&args, json),
        Command::Scan {
            udev: Some(device), ..
        } => commands::scan::udev(&device),
        Command::Scan { devices, .. } => commands::scan::run(&devices, json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Silent>() => ExitCode::FAILURE,
        Err(error) => {
            let sentence = format!("{error:#}");
            if json {
                eprintln!("{}", serde_json::json!({ "error": sentence }));
            } else {
                eprintln!("fusion: {sentence}");
            }
            ExitCode::FAILURE
        }
    }
}
