// SPDX-License-Identifier: GPL-2.0-only
//! Settings of a running pool. The kernel knows what they may be.

use std::fmt::{self, Display};

use anyhow::Result;

use crate::dm::Dm;
use crate::running::Running;
use crate::status;

const NAMES: [&str; 21] = [
    "paused",
    "age_s",
    "idle_ms",
    "limit_percent",
    "soft_percent",
    "load_kib",
    "rate_kib",
    "rebuild_kib",
    "low_water_percent",
    "patch_percent",
    "write_select",
    "rmw_bias",
    "hang_ms",
    "monitor",
    "window_us",
    "window_slots",
    "straggler_enter",
    "straggler_exit",
    "hedge",
    "window_min_us",
    "window_max_us",
];

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
    let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
        return Err(format!(
            "there is no setting '{name}': those there are are {}",
            NAMES.join(", ")
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
            for name in NAMES {
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
