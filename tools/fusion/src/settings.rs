// SPDX-License-Identifier: GPL-2.0-only
//! Settings of a running pool. The kernel knows what they may be.

use std::fmt::{self, Display};

use anyhow::Result;

use crate::dm::Dm;
use crate::running::Running;
use crate::status;

/// Names, and what they are.
const SETTINGS: [(&str, &str); 21] = [
    (
        "paused",
        "1: convert and compact only what writers wait for and what 'fusion convert' asks for (0)",
    ),
    (
        "age_s",
        "seconds after which a set of replicas is converted; 0: never (300)",
    ),
    (
        "idle_ms",
        "milliseconds without load after which all are; 0: never (5000)",
    ),
    (
        "limit_percent",
        "the most that replicas may take, as a part of the pool (10)",
    ),
    (
        "soft_percent",
        "the part of that at which conversion begins (50)",
    ),
    (
        "load_kib",
        "KiB a second: a member with more load is left alone; 0: none is (39062). Above \
         soft_percent it has to be more, the nearer the limit is",
    ),
    (
        "rate_kib",
        "KiB a second that the background reads and writes at most; 0: no limit (0)",
    ),
    (
        "rebuild_kib",
        "the same of rebuild, while there is load; 0: no limit (20480)",
    ),
    (
        "low_water_percent",
        "the part of the pool below which free space raises an event; 0: never (5)",
    ),
    (
        "patch_percent",
        "the most that patches may take, as a part of the pool; 0: there are none (1)",
    ),
    (
        "write_select",
        "how parity of merged patches is computed: 0 by what reads less, 1 by \
         read-modify-write, 2 by reconstruct-write (0)",
    ),
    (
        "rmw_bias",
        "with 0, reads more for which it is still read-modify-write; 0: not even if both read \
         the same (0)",
    ),
    (
        "hang_ms",
        "milliseconds after which a member that has not done what it was sent has failed; 0: \
         never (60000)",
    ),
    ("monitor", "0: no member is taken for unresponsive (1)"),
    (
        "window_us",
        "microseconds after which I/O that has not come back is a straggler; 0: by the member's \
         latency (0)",
    ),
    ("window_min_us", "the least that it is by itself (1000)"),
    ("window_max_us", "the most that it is by itself (20000)"),
    ("window_slots", "slots of that window (10)"),
    (
        "straggler_enter",
        "with so many stragglers a member is unresponsive; 0: by its rate (0)",
    ),
    (
        "straggler_exit",
        "with so many, or fewer, it is responsive again (0)",
    ),
    (
        "hedge",
        "1: writes that an unresponsive member holds up are sent once more, elsewhere (1)",
    ),
];

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}

/// All of them by name.
pub fn help() -> String {
    format!("Settings: {}", names().collect::<Vec<_>>().join(", "))
}

/// And what they are: each on a line, and what it is on the next.
pub fn long_help() -> String {
    let mut text = "Settings, and what they are unless they are changed:".to_owned();
    for (name, what) in SETTINGS {
        text += &format!("\n\n{name}\n  {what}");
    }
    text
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub value: u64,
}

impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// Parses NAME=VALUE.
pub fn parse(text: &str) -> Result<Setting, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "a setting is changed by NAME=VALUE".to_owned())?;
    let Some(name) = names().find(|known| *known == name) else {
        return Err(format!(
            "there is no setting '{name}': those there are are {}",
            names().collect::<Vec<_>>().join(", ")
        ));
    };
    // Not what Rust takes, too: a sign.
    let plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let value = value
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("'{value}' is no value for {name}: give a plain number"))?;
    Ok(Setting { name, value })
}

/// All settings as they are now, in the kernel's order.
pub fn read(dm: &Dm, pool: &Running) -> Result<Vec<(String, u64)>> {
    status::parse_settings(&dm.message(&pool.name, "settings")?)
}

/// One after the other. If one is refused, those before it are set, and the error says so.
pub fn write(dm: &Dm, pool: &Running, settings: &[Setting]) -> Result<()> {
    for (place, setting) in settings.iter().enumerate() {
        dm.message_for(
            &pool.name,
            &format!("set {} {}", setting.name, setting.value),
            &refusal(&pool.name, setting, &settings[..place]),
        )?;
    }
    Ok(())
}

/// As on the command line.
pub fn list(settings: &[Setting]) -> String {
    let texts: Vec<String> = settings.iter().map(Setting::to_string).collect();
    texts.join(" ")
}

fn refusal(pool: &str, refused: &Setting, done: &[Setting]) -> String {
    let done = match done {
        [] => String::new(),
        done => format!(", but {} is set", list(done)),
    };
    format!("pool {pool} did not take {refused}{done}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        for (text, name, value) in [
            ("paused=1", "paused", 1),
            ("age_s=0", "age_s", 0),
            ("rate_kib=99999999999", "rate_kib", 99_999_999_999),
        ] {
            assert_eq!(parse(text), Ok(Setting { name, value }), "{text}");
        }
    }

    #[test]
    fn refusals_say_what_is_set() {
        let settings = ["age_s=1", "idle_ms=0", "paused=2"].map(|text| parse(text).unwrap());
        assert_eq!(
            refusal("tank", &settings[2], &settings[..2]),
            "pool tank did not take paused=2, but age_s=1 idle_ms=0 is set"
        );
        assert_eq!(
            refusal("tank", &settings[2], &[]),
            "pool tank did not take paused=2"
        );
    }

    #[test]
    fn refuses_names() {
        for text in ["speed=1", "=1", "PAUSED=1", "age=1", "age_s =1"] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with("there is no setting '"),
                "{text}: {error}"
            );
            for name in names() {
                assert!(error.contains(name), "{text}: {error}");
            }
        }
    }

    #[test]
    fn refuses_values() {
        for text in [
            "age_s=",
            "age_s=-1",
            "age_s=+1",
            "age_s=1.5",
            "age_s=5m",
            "age_s=0x10",
            "age_s=1=2",
            "age_s=99999999999999999999",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with("is no value for age_s: give a plain number"));
        }
        assert!(parse("age_s").unwrap_err().contains("NAME=VALUE"));
    }
}
