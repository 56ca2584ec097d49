// SPDX-License-Identifier: GPL-2.0-only
//! Numbers in few columns.

/// Three digits, scaled down by powers of `base`.
#[allow(clippy::cast_precision_loss)]
fn scaled(mut value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = match value {
        whole if whole.fract() == 0.0 => 0,
        small if small < 9.995 => 2,
        small if small < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", units[unit])
}

/// `512B`, `1.50G`: five columns, six above 1000 EiB.
#[allow(clippy::cast_precision_loss)]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "K", "M", "G", "T", "P", "E"])
}

/// `99`, `12.3k`: five columns.
#[allow(clippy::cast_precision_loss)]
pub fn count(count: u64) -> String {
    scaled(count as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// How often a second; `-`: not known.
pub fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        // Of one a second the parts do not matter, of one an hour they do.
        Some(rate) if rate >= 10.0 => scaled(rate.round(), 1000.0, &["", "k", "M", "G", "T"]),
        Some(rate) => scaled((rate * 10.0).ceil() / 10.0, 1.0, &[""]),
    }
}

/// Bytes a second; `-`: not known.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn byte_rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".into(), |rate| bytes(rate.max(0.0) as u64))
}

/// `87us`, `1.20ms`, `12.3s`, `5m`: six columns.
#[allow(clippy::cast_precision_loss)]
pub fn time(us: u64) -> String {
    const MINUTE: u64 = 60_000_000;
    match us {
        0..100_000_000 => scaled(us as f64, 1000.0, &["us", "ms", "s"]),
        _ if us < 100 * MINUTE => format!("{}m", us / MINUTE),
        _ => format!("{}h", us / MINUTE / 60),
    }
}

/// `-`: there was none.
pub fn latency(us: Option<u64>) -> String {
    us.map_or_else(|| "-".into(), time)
}

/// `45%` of a whole; nothing of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole));
    percent.map_or_else(String::new, |percent| format!("{percent}%"))
}

/// Cut to so many characters, the last of which is then an ellipsis.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (value, text) in [
            (0, "0B"),
            (512, "512B"),
            (1000, "0.98K"),
            (65536, "64K"),
            (3 << 29, "1.50G"),
            (12_884_901_889, "12.0G"),
            (999 << 30, "999G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn rates() {
        for (value, text) in [
            (None, "-"),
            (Some(0.0), "0"),
            (Some(0.01), "0.10"),
            (Some(9.3), "9.30"),
            (Some(99.7), "100"),
            (Some(12_345.6), "12.3k"),
            (Some(999_700.0), "1.00M"),
        ] {
            assert_eq!(rate(value), text);
        }
        assert_eq!(byte_rate(Some(4096.7)), "4K");
        assert_eq!(count(1234), "1.23k");
    }

    #[test]
    fn times() {
        for (us, text) in [
            (87, "87us"),
            (1200, "1.20ms"),
            (12_300, "12.3ms"),
            (99_000_000, "99s"),
            (100_000_000, "1m"),
            (36_000_000_000, "10h"),
        ] {
            assert_eq!(time(us), text);
        }
        assert_eq!(latency(None), "-");
    }

    #[test]
    fn parts() {
        assert_eq!(percent(1, 3), "33%");
        assert_eq!(percent(0, 0), "");
        assert_eq!(percent(u64::MAX, u64::MAX), "100%");
    }

    #[test]
    fn shortened() {
        assert_eq!(shorten("nvme0n1", 7), "nvme0n1");
        assert_eq!(shorten("nvme10n1", 7), "nvme10…");
        assert_eq!(shorten("äöü", 2), "ä…");
        assert_eq!(shorten("a", 0), "");
    }
}
