// SPDX-License-Identifier: GPL-2.0-only
//! What several unit tests share.

use fusion_format::{Label, Ring, Slice};
use uuid::Uuid;

use crate::assemble::{FoundMember, FoundPool};
use crate::devno::DevNo;

/// The label of member `index` of a pool of eight.
pub fn label(index: u16) -> Label {
    Label {
        pool_uuid: Uuid::from_u128(0xabcd),
        member_uuid: Uuid::from_u128(0x1000 + u128::from(index)),
        pool_name: "tank".into(),
        index: Some(index),
        members: 8,
        spares: 1,
        legs: 3,
        slice: Slice {
            leg: (index < 3).then_some(index),
            rmeta_offset_sectors: 2048,
            rmeta_sectors: 2048,
            offset_sectors: 4096,
            sectors: 32768,
        },
        journal: Ring::default(),
        block_sectors: 128,
        data_offset_sectors: 36864,
        data_sectors: 2_048_000,
        created: 1_700_000_000,
        member_sectors: 2_097_152,
        error_if_no_space: false,
        no_discard_passdown: false,
        creating: false,
    }
}

/// A pool of eight members, all there.
pub fn found_pool() -> FoundPool {
    let members = (0u16..8)
        .map(|index| FoundMember {
            path: format!("/dev/d{index}").into(),
            dev: DevNo {
                major: 8,
                minor: index.into(),
            },
            sectors: 2_097_152,
            label: label(index),
            differs: false,
            record: None,
            slice: None,
        })
        .collect();
    FoundPool {
        uuid: Uuid::from_u128(0xabcd),
        name: "tank".into(),
        members,
        superblock: None,
    }
}

/// A device that is to become member 8.
pub fn newcomer() -> FoundMember {
    let mut newcomer = found_pool().members.remove(7);
    newcomer.path = "/dev/d8".into();
    newcomer.dev.minor = 8;
    newcomer.label = Label {
        members: 9,
        creating: true,
        ..label(8)
    };
    newcomer
}
