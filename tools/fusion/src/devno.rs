// SPDX-License-Identifier: GPL-2.0-only
//! Device numbers.

use std::fmt;

use devicemapper::Device;

/// A device's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevNo {
    pub major: u32,
    pub minor: u32,
}

impl DevNo {
    /// Parses `MAJOR:MINOR`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl From<Device> for DevNo {
    fn from(device: Device) -> Self {
        Self {
            major: device.major,
            minor: device.minor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers() {
        let dev = DevNo::parse("253:17").unwrap();
        assert_eq!((dev.major, dev.minor), (253, 17));
        assert_eq!(dev.to_string(), "253:17");
        assert_eq!(DevNo::parse("/dev/sda"), None);
    }
}
