// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use fusion_format::{MAX_BLOCK_SECTORS, MIN_BLOCK_SECTORS, SECTOR_BYTES, name_is_valid};

use crate::settings::{self, Setting};
use crate::size;
use crate::start::When;

/// Manage dm-fusion pools and volumes
#[derive(Debug, Parser)]
#[command(name = "fusion", version, max_term_width = 100)]
pub struct Cli {
    /// Answer in JSON; errors too, as {"error": "..."} on standard error
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

/// The command line, with the command that the program's name may be.
pub fn arguments(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let program = given.next().unwrap_or_default();
    let mut arguments = vec!["fusion".into()];
    let name = Path::new(&program).file_name().and_then(OsStr::to_str);
    if name == Some("fusiond") {
        arguments.push("monitor".into());
    } else if let Some(command) = name.and_then(|name| name.strip_prefix("fusion_")) {
        arguments.push(command.into());
    }
    arguments.extend(given);
    arguments
}

/// Parses it, with what a global option and a command say together, which clap alone does not see.
pub fn parse(given: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let cli = Cli::try_parse_from(arguments(given))?;
    if let (true, Command::Top(TopArgs { once: false, .. })) = (cli.json, &cli.command) {
        return Err(Cli::command().error(
            ErrorKind::MissingRequiredArgument,
            "of top, '--json' is for scripts: give '--once', too",
        ));
    }
    Ok(cli)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, start, stop, show, enlarge and destroy pools
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Create, list, resize and remove volumes
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Fail, replace and re-add members, rebuild what was on them; hot spares
    #[command(subcommand)]
    Device(DeviceCommand),
    /// Convert what is replicated to RAID stripes; interrupted, go on with it by doing it again
    Convert {
        /// Name or uuid of the pool
        pool: String,
    },
    /// Check that all can be read, that replicas are the same, and that parity fits; one that was
    /// interrupted goes on where it was
    Scrub(ScrubArgs),
    /// Check the metadata of a stopped pool
    Check(CheckArgs),
    /// Write the metadata of a stopped pool as text
    Dump {
        /// Name or uuid of the pool; or a device or file that its metadata is on
        metadata: String,
        /// A new file to write to [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write metadata anew, from what dump has written
    Restore(RestoreArgs),
    /// Write what can be saved of damaged metadata anew
    Repair(RepairArgs),
    /// Show what running pools do, again and again: members, volumes, space, background work
    Top(TopArgs),
    /// Tell what happens to running pools, until it is ended: the journal, a program, mail, metrics
    Monitor(MonitorArgs),
    /// Print the device-mapper tables of a pool, in the order to create them
    Table(TableArgs),
    /// List the devices that carry a member's label
    Scan {
        /// Devices to look at [default: all]
        #[arg(value_name = "DEV")]
        devices: Vec<PathBuf>,
        /// Print what udev's rules are to know of this device
        #[arg(long, value_name = "DEV", conflicts_with_all = ["devices", "json"])]
        udev: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct ScrubArgs {
    /// Name or uuid of the pool
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub pool: Option<String>,
    /// All running pools, one after the other
    #[arg(long)]
    pub all: bool,
    /// Write parity that does not fit, and replicas that differ, again
    #[arg(long)]
    pub repair: bool,
    /// Begin anew
    #[arg(long)]
    pub restart: bool,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// What dump has written
    #[arg(short, long, value_name = "FILE")]
    pub input: PathBuf,
    /// A stopped pool, or a device, whose metadata is overwritten; or a new file, whose path has a
    /// slash
    #[arg(short, long, value_name = "METADATA")]
    pub output: String,
    #[command(flatten)]
    pub rewrite: RewriteArgs,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    /// A stopped pool; or a device or file that its metadata is on
    #[arg(short, long, value_name = "METADATA")]
    pub input: String,
    /// Another pool or device, whose metadata is overwritten; or a new file, whose path has a slash
    #[arg(short, long, value_name = "METADATA")]
    pub output: String,
    #[command(flatten)]
    pub rewrite: RewriteArgs,
}

/// How metadata is written anew.
#[derive(Debug, Args)]
pub struct RewriteArgs {
    /// Do not let the next start replay what the members have in the journal: what was flushed in
    /// the last second before the pool stopped uncleanly is lost
    #[arg(long)]
    pub discard_journal: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool of block devices and start it
    Create(PoolCreateArgs),
    /// Start a pool and all its volumes
    Start {
        #[command(flatten)]
        which: OneOrAll,
        /// Start it though data is missing, or may be old: no more than half of the members are
        /// there, or more are missing than it can do without
        #[arg(long)]
        force: bool,
        /// Start it as udev's rules do: not if it runs, or was stopped; and when all members are
        /// there, or without those that are missing
        #[arg(long, value_name = "WHEN", conflicts_with = "force")]
        automatic: Option<When>,
    },
    /// Stop a pool; refused while a volume is in use
    Stop(OneOrAll),
    /// Show a running pool, or all of them
    Status {
        /// Name or uuid [default: all running pools]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// List all pools, running or not
    List,
    /// Make hot spares members of a running pool, and have what is in it be over all of them
    Grow {
        /// Name or uuid of the pool
        pool: String,
        /// How many members it is to have, a prime power [default: as many as with all hot spares
        /// there can be]
        #[arg(long, value_name = "N")]
        members: Option<u32>,
        /// Do not wait until all that is in it is moved
        #[arg(long)]
        no_wait: bool,
    },
    /// Change settings of a running pool until it stops, or show them
    #[command(after_help = settings::help(), after_long_help = settings::long_help())]
    Set {
        /// Name or uuid of the pool
        pool: String,
        /// Plain numbers, set one after the other; if one is refused, those before it are set
        /// [default: show all]
        #[arg(value_name = "NAME=VALUE", value_parser = settings::parse)]
        settings: Vec<Setting>,
    },
    /// Stop a pool and wipe its members' labels: all its data is lost
    Destroy {
        /// Name or uuid
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Use a member no more, as if it had failed; refused if it cannot be done without
    Fail {
        /// Name or uuid of the pool
        pool: String,
        /// Its device, or its number, from 0 on
        member: String,
    },
    /// Put another device in the place of a member, which is failed first if it is used
    Replace {
        /// Name or uuid of the pool
        pool: String,
        /// Its device, or its number, from 0 on
        member: String,
        /// The device to take its place [default: a hot spare]
        new: Option<PathBuf>,
        /// Overwrite whatever the new device carries
        #[arg(long)]
        force: bool,
        /// Do not wait until what belongs there is written
        #[arg(long)]
        no_wait: bool,
    },
    /// Use a member that was out again: only what has changed since then is written to it
    Readd {
        /// Name or uuid of the pool
        pool: String,
        /// Its number, from 0 on, or its device
        member: String,
        /// Its device [default: the one with its label]
        device: Option<PathBuf>,
        /// Do not wait until what belongs there is written
        #[arg(long)]
        no_wait: bool,
    },
    /// Rebuild what was on members that have failed on the others, in the space for spares, and
    /// what belongs on those that are back
    Rebuild {
        /// Name or uuid of the pool
        pool: String,
    },
    /// Make a device a hot spare
    Add {
        /// Name or uuid of the pool
        pool: String,
        /// The device
        device: PathBuf,
        /// Overwrite whatever it carries
        #[arg(long)]
        force: bool,
    },
    /// Make a hot spare, or the device of a member that is not used, no part of the pool
    Remove {
        /// Name or uuid of the pool
        pool: String,
        /// The device, or the number of the member
        #[arg(value_name = "DEVICE|MEMBER")]
        which: String,
    },
}

#[derive(Debug, Args)]
pub struct PoolCreateArgs {
    /// Name of the pool: 1 to 63 of A-Z a-z 0-9 _ . + -
    #[arg(value_parser = name)]
    pub name: String,
    /// Devices, at least 4; a number that is no prime power leaves the last as hot spares
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<PathBuf>,
    /// Size of a block, a power of two from 4K to 256K
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = block_sectors)]
    pub block_size: u32,
    /// Failed members that every stripe leaves room for [default: 1, with 4 members 0]
    #[arg(long, value_name = "N")]
    pub spares: Option<u32>,
    /// Keep the metadata on this device instead of on three of the members
    #[arg(long, value_name = "DEV")]
    pub metadata: Option<PathBuf>,
    /// Fail writes that find no space at once instead of letting them wait
    #[arg(long)]
    pub error_if_no_space: bool,
    /// Do not tell the devices which space is free
    #[arg(long)]
    pub no_discard_passdown: bool,
    /// Make no journal: a flush then waits for the metadata
    #[arg(long)]
    pub no_journal: bool,
    /// Overwrite whatever the devices carry
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct OneOrAll {
    /// Name or uuid; if there is none, --all
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub name: Option<String>,
    /// All pools there are
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume; it appears as /dev/mapper/POOL-NAME
    Create(VolumeCreateArgs),
    /// List the volumes of a pool, or of all running pools
    List {
        /// Name or uuid of the pool
        pool: Option<String>,
    },
    /// Make a volume larger, in use or not
    Resize {
        /// Name or uuid of the pool
        pool: String,
        /// Name of the volume
        name: String,
        /// The new size, rounded up to whole blocks
        #[arg(value_parser = size::parse)]
        size: u64,
    },
    /// Remove a volume that is not in use: its data is lost
    Remove {
        /// Name or uuid of the pool
        pool: String,
        /// Name of the volume
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Raid {
    Raid5,
    Raid6,
}

impl Raid {
    /// Parity slots of a stripe.
    pub fn parity(self) -> u32 {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }
}

#[derive(Debug, Args)]
pub struct VolumeCreateArgs {
    /// Name or uuid of the pool
    pub pool: String,
    /// Name of the volume: 1 to 63 of A-Z a-z 0-9 _ . + -
    #[arg(value_parser = name)]
    pub name: String,
    /// Size, rounded up to whole blocks; space is taken when it is written
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// Redundancy of its stripes: one parity slot, or two
    #[arg(long, value_name = "LEVEL", default_value = "raid5")]
    pub raid: Raid,
    /// Width of its stripes, data and parity [default: the widest the pool allows, at most 8]
    #[arg(long, value_name = "W", conflicts_with = "data")]
    pub width: Option<u32>,
    /// Width of its stripes, data alone
    #[arg(long, value_name = "D")]
    pub data: Option<u32>,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Name or uuid of the pool; or a device or file that its metadata is on
    pub metadata: String,
    /// Say nothing: the exit status is the answer
    #[arg(short, long)]
    pub quiet: bool,
    /// Look at the superblock only
    #[arg(long)]
    pub super_block_only: bool,
    /// Look at the superblock, the volumes and the bands only
    #[arg(long, conflicts_with = "super_block_only")]
    pub skip_mappings: bool,
    /// What loses nothing is no error
    #[arg(long)]
    pub ignore_non_fatal_errors: bool,
    /// Correct counts, if there is no other error
    #[arg(long, conflicts_with_all = ["super_block_only", "skip_mappings"])]
    pub auto_repair: bool,
    /// If nothing is wrong: let the pool be written to again, after its metadata failed
    #[arg(long, conflicts_with_all = ["super_block_only", "skip_mappings"])]
    pub clear_needs_check_flag: bool,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Name or uuid of the pool [default: all that are running]
    pub pool: Option<String>,
    /// Look so often, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Show what is done in one interval, as text, or with --json in JSON, and end
    #[arg(long)]
    pub once: bool,
}

#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Mail what somebody has to do something about, by sendmail
    #[arg(long, value_name = "ADDRESS", env = "FUSIOND_MAIL", hide_env_values = true,
          value_parser = address)]
    pub mail: Option<String>,
    /// Run this program with the name of each event, the pool's, and the member's device, if any
    #[arg(long, env = "FUSIOND_PROGRAM", hide_env_values = true)]
    pub program: Option<String>,
    /// Write metrics to this file, for the collector of text files of Prometheus' node_exporter
    #[arg(
        long,
        value_name = "FILE",
        env = "FUSIOND_METRICS",
        hide_env_values = true
    )]
    pub metrics: Option<String>,
    /// Write them so often, and look for what no event tells, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "60", env = "FUSIOND_INTERVAL",
          hide_env_values = true, value_parser = interval)]
    pub interval: Duration,
    /// Tell the event TestMessage of each pool, and end
    #[arg(long)]
    pub test: bool,
}

#[derive(Debug, Args)]
pub struct TableArgs {
    /// Name or uuid
    pub pool: String,
    /// One line as 'dmsetup create --concise' takes it, with the devices' uuids
    #[arg(long, conflicts_with = "json")]
    pub concise: bool,
}

fn name(text: &str) -> Result<String, String> {
    if name_is_valid(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "a name has 1 to 63 characters of A-Z a-z 0-9 _ . + - and begins with none of . -"
                .into(),
        )
    }
}

/// It becomes a line of a mail.
fn address(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("an address is a single line".into());
    }
    Ok(text.to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "an interval is a number of seconds from 0.1 to 3600".into())
}

fn block_sectors(text: &str) -> Result<u32, String> {
    let sectors = size::parse(text)? / SECTOR_BYTES;
    u32::try_from(sectors)
        .ok()
        .filter(|sectors| {
            sectors.is_power_of_two()
                && (MIN_BLOCK_SECTORS..=MAX_BLOCK_SECTORS).contains(sectors)
                && size::parse(text) == Ok(u64::from(*sectors) * SECTOR_BYTES)
        })
        .ok_or_else(|| "a block is a power of two from 4K to 256K".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of a command and of all below it.
    fn help(command: &clap::Command, path: &str, text: &mut String) {
        let mut shown = command.clone().bin_name(path).term_width(80);
        *text += &format!("$ {path} -h\n{}\n", shown.render_help());
        for below in command.get_subcommands() {
            if below.get_name() != "help" {
                help(below, &format!("{path} {}", below.get_name()), text);
            }
        }
    }

    #[test]
    fn help_is_as_written_down() {
        let mut command = Cli::command();
        command.build();
        let mut text = String::new();
        help(&command, "fusion", &mut text);
        let expected = include_str!("../tests/help.txt");
        if text != expected {
            let path = std::env::temp_dir().join("fusion-help.txt");
            std::fs::write(&path, &text).unwrap();
            panic!(
                "help differs from tests/help.txt; it is now in {}",
                path.display()
            );
        }
    }

    #[test]
    fn named_as_a_command() {
        let of = |line: &str| arguments(line.split(' ').map(OsString::from)).join(OsStr::new(" "));
        assert_eq!(of("/usr/sbin/fusion_check -q p"), "fusion check -q p");
        assert_eq!(of("/usr/sbin/fusiond --test"), "fusion monitor --test");
        assert_eq!(of("fusion pool list"), "fusion pool list");
        assert_eq!(of("./x pool list"), "fusion pool list");
    }

    #[test]
    fn top() {
        let parse = |line: &str| parse(line.split(' ').map(OsString::from));
        for bad in [
            "fusion top --json",
            "fusion --json top p",
            "fusion top p q",
            "fusion top --interval 0",
            "fusion top --interval x",
            "fusion top --interval nan",
            "fusion top --interval 3601",
        ] {
            assert_eq!(parse(bad).unwrap_err().exit_code(), 2, "{bad}");
        }
        for good in ["fusion top", "fusion --json top p --once --interval 0.5"] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn block_sizes() {
        assert_eq!(block_sectors("64K"), Ok(128));
        assert_eq!(block_sectors("4096"), Ok(8));
        assert_eq!(block_sectors("256K"), Ok(512));
        for bad in ["2K", "512K", "65K", "65537", "x", "96K"] {
            assert!(block_sectors(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn conflicts() {
        for bad in [
            "fusion pool start",
            "fusion pool start p --all",
            "fusion pool create p",
            "fusion pool create -- -p /dev/a",
            "fusion volume create p v",
            "fusion volume create p v --size 1G --width 4 --data 3",
            "fusion volume create p v --size 1G --raid raid10",
            "fusion pool set",
            "fusion pool set p age_s=1 speed=2",
            "fusion pool grow",
            "fusion pool grow p /dev/a",
            "fusion pool grow p --members many",
            "fusion device replace p",
            "fusion device add p",
            "fusion device readd p 1 /dev/a --force",
            "fusion scrub",
            "fusion scrub p --all",
            "fusion monitor p",
            "fusion monitor --interval 0",
            "fusion check",
            "fusion check p --skip-mappings --auto-repair",
            "fusion restore -i x",
            "fusion repair -o x",
        ] {
            assert!(Cli::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
        for good in [
            "fusion pool stop --all --json",
            "fusion --json pool create p /dev/a /dev/b --spares 0",
            "fusion volume create p v --size 1.5G --data 3",
            "fusion volume create p v --size 1G --raid raid6",
            "fusion pool set p",
            "fusion pool set p age_s=1 idle_ms=0 --json",
            "fusion pool grow p",
            "fusion pool grow p --members 9 --no-wait --json",
            "fusion scan",
            "fusion device replace p 1",
            "fusion device replace p /dev/a /dev/b --force --no-wait",
            "fusion device readd p 1",
            "fusion device remove p 1",
            "fusion scrub p --repair",
            "fusion scrub --all",
            "fusion monitor --mail root --program /bin/x --metrics x --interval 5",
            "fusion check -q p --clear-needs-check-flag",
            "fusion dump /dev/x -o y",
            "fusion repair -i p -o /dev/x",
        ] {
            assert!(Cli::try_parse_from(good.split(' ')).is_ok(), "{good}");
        }
    }
}
