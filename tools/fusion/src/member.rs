// SPDX-License-Identifier: GPL-2.0-only
//! A member's two copies of its label: read, written, repaired, wiped. Of its record: read.

use std::path::Path;

use anyhow::Result;
use fusion_format::label::{COPY_OFFSETS, LABEL_AREA_BYTES, LABEL_BYTES};
use fusion_format::record::{self, RECORD_BYTES};
use fusion_format::{Label, LabelError, Record};

use crate::block::BlockDevice;

/// What the label copies of a device say.
#[derive(Debug)]
pub enum Reading {
    /// No member of anything.
    Absent,
    /// Labels that cannot be used, and why.
    Invalid(String),
    Found(Found),
}

#[derive(Debug)]
pub struct Found {
    pub label: Label,
    /// Not both copies are good and alike.
    pub differs: bool,
    /// None: the pool has not been started yet, or the record is damaged.
    pub record: Option<Record>,
}

/// Reads both copies of the label; the first good one counts, except that of two good ones of
/// the same pool one that knows the pool as complete is right (see create.rs).
pub fn read(device: &BlockDevice) -> Result<Reading> {
    let mut copies = Vec::new();
    for offset in COPY_OFFSETS {
        copies.push(match device.read_at(offset, LABEL_BYTES) {
            Ok(bytes) => Label::decode(&bytes),
            Err(error) => Err(LabelError::Invalid(error.to_string())),
        });
    }
    let mut reading = judge(&copies);
    if let Reading::Found(found) = &mut reading {
        found.record = record::COPY_OFFSETS
            .iter()
            .filter_map(|&offset| {
                let bytes = device.read_at(offset, RECORD_BYTES).ok()?;
                Record::decode(&bytes, found.label.pool_uuid)
            })
            .max_by_key(|record| record.generation);
    }
    Ok(reading)
}

fn judge(copies: &[Result<Label, LabelError>]) -> Reading {
    let good: Vec<&Label> = copies.iter().flatten().collect();
    if let Some(&first) = good.first() {
        let complete = good
            .iter()
            .find(|label| label.pool_uuid == first.pool_uuid && !label.creating);
        return Reading::Found(Found {
            label: complete.copied().unwrap_or(first).clone(),
            differs: good.len() < copies.len() || good.iter().any(|&label| label != first),
            record: None,
        });
    }
    copies
        .iter()
        .find_map(|copy| match copy {
            Err(LabelError::Invalid(reason)) => Some(Reading::Invalid(reason.clone())),
            _ => None,
        })
        .unwrap_or(Reading::Absent)
}

/// Writes both copies, each durable before the next, so that a crash leaves at
/// least one whole.
pub fn write(device: &BlockDevice, label: &Label) -> Result<()> {
    let bytes = label.encode();
    for offset in COPY_OFFSETS {
        device.write_at(offset, &bytes)?;
        device.sync()?;
    }
    Ok(())
}

/// Makes the device no member of anything.
pub fn wipe(device: &BlockDevice) -> Result<()> {
    device.zero(
        0,
        LABEL_AREA_BYTES.min(device.sectors * fusion_format::SECTOR_BYTES),
    )?;
    device.sync()
}

/// Writes `label` to the device at `path`.
pub fn rewrite(path: &Path, label: &Label) -> Result<()> {
    write(&BlockDevice::open_write(path)?, label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::label;

    #[test]
    fn either_copy_will_do() {
        let absent = || Err(LabelError::Absent(String::new()));
        let invalid = || Err(LabelError::Invalid("is bad".into()));
        let good = label(0);
        for copies in [[Ok(good.clone()), invalid()], [absent(), Ok(good.clone())]] {
            let Reading::Found(found) = judge(&copies) else {
                panic!("not found");
            };
            assert_eq!(found.label, good);
            assert!(found.differs);
        }
        assert!(matches!(judge(&[absent(), invalid()]), Reading::Invalid(_)));
        assert!(matches!(judge(&[absent(), absent()]), Reading::Absent));
    }

    #[test]
    fn a_complete_copy_wins() {
        let complete = label(0);
        let creating = Label {
            creating: true,
            ..complete.clone()
        };
        for copies in [
            [Ok(creating.clone()), Ok(complete.clone())],
            [Ok(complete.clone()), Ok(creating)],
        ] {
            let Reading::Found(found) = judge(&copies) else {
                panic!("not found");
            };
            assert!(!found.label.creating && found.differs);
        }
    }
}
