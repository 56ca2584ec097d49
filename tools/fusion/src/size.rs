// SPDX-License-Identifier: GPL-2.0-only
//! Sizes as people write and read them: powers of 1024.

use fusion_format::SECTOR_BYTES;

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Parses `65536`, `64K`, `64KiB`, `1.5G`, ... into bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let error = || {
        format!(
            "'{text}' is no size: give a number of bytes or one with K, M, G, T or P (powers of \
             1024)"
        )
    };
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(error()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().map_err(|_| error())?;
    if fraction.is_empty() || fraction.len() > 9 {
        return Err(error());
    }
    let fraction_value: u128 = fraction.parse().map_err(|_| error())?;
    let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| error())?);
    let bytes = (u128::from(whole) << shift) + (fraction_value << shift) / scale;
    u64::try_from(bytes).map_err(|_| format!("'{text}' is too large"))
}

/// `1.50 GiB`, `64 KiB`; exact numbers have no decimals.
#[allow(clippy::cast_precision_loss)]
pub fn display(bytes: u64) -> String {
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if bytes.is_multiple_of(1 << (10 * unit)) {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.2} {}", UNITS[unit])
    }
}

pub fn display_sectors(sectors: u64) -> String {
    display(sectors * SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65536),
            ("64k", 65536),
            ("64KiB", 65536),
            ("64 KB", 65536),
            ("1.5G", 3 << 29),
            ("0.5TiB", 1 << 39),
            ("2P", 2 << 50),
            ("10B", 10),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "K",
            "-1",
            "1X",
            "1.G",
            "1..5G",
            ".5G",
            "64KK",
            "99999999P",
            "1e3",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn displays() {
        assert_eq!(display(0), "0 B");
        assert_eq!(display(1000), "1000 B");
        assert_eq!(display(65536), "64 KiB");
        assert_eq!(display(3 << 29), "1.50 GiB");
        assert_eq!(display(1 << 40), "1 TiB");
        assert_eq!(display_sectors(8), "4 KiB");
    }
}
