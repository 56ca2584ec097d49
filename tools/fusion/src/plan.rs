// SPDX-License-Identifier: GPL-2.0-only
//! The device-mapper devices a pool consists of, in the order they are created.
//!
//! `pool start` creates and `table` prints what is made here.

use std::path::Path;

use fusion_format::Label;
use uuid::Uuid;

use crate::assemble::Assembled;
use crate::dm::{Spec, Visibility};
use crate::names::{
    METADATA_TARGET, POOL_TARGET, VOLUME_PART, VOLUME_TARGET, dm_path, dm_uuid, image_name,
    metadata_name, pool_dm_uuid, rmeta_name, volume_name,
};
use crate::place::MetadataDevice;
use crate::status::Volume;

/// Of the pool's device, which carries no data: the least there may be, so that it is no disk to
/// anybody. LVM looks into all that are as large as a physical volume, and complains.
const POOL_SECTORS: u64 = 8;

/// The linear devices over the members' slices, two for each leg that is there.
pub fn slices(pool: &Assembled) -> Vec<Spec> {
    let there = pool.legs.iter().enumerate().filter_map(|(leg, index)| {
        let member = pool.members[(*index)?].as_ref()?;
        Some((leg, member))
    });
    there
        .flat_map(|(leg, member)| slice(&pool.name, pool.uuid, leg, &member.path, &member.label))
        .collect()
}

/// Those of one leg: dm-raid's superblock, and the slice.
pub fn slice(pool: &str, uuid: Uuid, leg: usize, path: &Path, label: &Label) -> [Spec; 2] {
    let linear = |name: String, part: String, offset: u64, sectors: u64| Spec {
        name,
        uuid: dm_uuid(uuid, &part),
        visibility: Visibility::Private,
        sectors,
        target: "linear",
        params: format!("{} {offset}", path.display()),
    };
    let slice = &label.slice;
    [
        linear(
            rmeta_name(pool, leg),
            format!("fmeta_rmeta_{leg}"),
            slice.rmeta_offset_sectors,
            slice.rmeta_sectors,
        ),
        linear(
            image_name(pool, leg),
            format!("fmeta_rimage_{leg}"),
            slice.offset_sectors,
            slice.sectors,
        ),
    ]
}

/// The mirror over the slices; None: the metadata is on a device of its own.
///
/// `nosync`: nothing is read from the metadata that was not written, to all legs,
/// before; see mirror.rs for the one block this does not hold for after a crash.
pub fn mirror(pool: &Assembled) -> Option<Spec> {
    pool.legs.first()?;
    let legs: String = pool
        .legs
        .iter()
        .enumerate()
        .map(|(leg, index)| match index {
            Some(_) => format!(
                " {} {}",
                dm_path(&rmeta_name(&pool.name, leg)),
                dm_path(&image_name(&pool.name, leg))
            ),
            None => " - -".into(),
        })
        .collect();
    Some(Spec {
        name: metadata_name(&pool.name),
        uuid: dm_uuid(pool.uuid, "fmeta"),
        visibility: Visibility::Private,
        sectors: pool.label.slice.sectors,
        target: "raid",
        params: format!("raid1 2 0 nosync {}{legs}", pool.legs.len()),
    })
}

/// What is before a device of its own: of what cannot be read there the kernel is not told that
/// it is not there.
pub fn guard(pool: &Assembled, metadata: &MetadataDevice) -> Spec {
    Spec {
        name: metadata_name(&pool.name),
        uuid: dm_uuid(pool.uuid, "fmeta"),
        visibility: Visibility::Private,
        sectors: metadata.sectors,
        target: METADATA_TARGET,
        params: format!("{} 0", metadata.path.display()),
    }
}

/// The pool itself.
pub fn pool(pool: &Assembled) -> Spec {
    let label = &pool.label;
    let metadata = dm_path(&metadata_name(&pool.name));
    let members: String = pool
        .members
        .iter()
        .map(|member| match member {
            Some(member) => format!(" {} {}", member.path.display(), label.data_offset_sectors),
            None => " - 0".into(),
        })
        .collect();
    let mut features: Vec<String> = Vec::new();
    if label.error_if_no_space {
        features.push("error_if_no_space".into());
    }
    if label.no_discard_passdown {
        features.push("no_discard_passdown".into());
    }
    let journal = &label.journal;
    if journal.sectors != 0 {
        features.push("journal".into());
        features.extend([journal.offset_sectors, journal.sectors].map(|word| word.to_string()));
    }
    let features = match features.len() {
        0 => String::new(),
        count => format!(" {count} {}", features.join(" ")),
    };
    Spec {
        name: pool.name.clone(),
        uuid: pool_dm_uuid(pool.uuid),
        visibility: Visibility::Private,
        sectors: POOL_SECTORS,
        target: POOL_TARGET,
        params: format!(
            "{metadata} {} mols {} {}{members}{features}",
            label.block_sectors,
            label.spares,
            pool.members.len()
        ),
    }
}

pub fn volume(pool_name: &str, pool_uuid: Uuid, volume: &Volume) -> Spec {
    Spec {
        name: volume_name(pool_name, &volume.name),
        uuid: dm_uuid(pool_uuid, &format!("{VOLUME_PART}{}", volume.id)),
        visibility: Visibility::Public,
        sectors: volume.sectors,
        target: VOLUME_TARGET,
        params: format!("{} {}", dm_path(pool_name), volume.id),
    }
}

/// `dmsetup create --concise`'s form of a list of devices.
pub fn concise(specs: &[Spec]) -> String {
    let escape = |text: &str| {
        text.replace('\\', "\\\\")
            .replace(',', "\\,")
            .replace(';', "\\;")
    };
    let devices: Vec<String> = specs
        .iter()
        .map(|spec| format!("{},{},,rw,{}", spec.name, spec.uuid, escape(&spec.table())))
        .collect();
    devices.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusion_format::Ring;

    use crate::names::parse_dm_uuid;
    use crate::testing::found_pool;

    #[test]
    fn tables() {
        let assembled = found_pool().assemble(false).unwrap();
        let slices = slices(&assembled);
        assert_eq!(slices.len(), 6);
        assert_eq!(slices[2].name, "tank_fmeta_rmeta_1");
        assert_eq!(slices[2].table(), "0 2048 linear /dev/d1 2048");
        assert_eq!(slices[3].name, "tank_fmeta_rimage_1");
        assert_eq!(slices[3].table(), "0 32768 linear /dev/d1 4096");
        assert_eq!(
            mirror(&assembled).unwrap().table(),
            "0 32768 raid raid1 2 0 nosync 3 \
             /dev/mapper/tank_fmeta_rmeta_0 /dev/mapper/tank_fmeta_rimage_0 \
             /dev/mapper/tank_fmeta_rmeta_1 /dev/mapper/tank_fmeta_rimage_1 \
             /dev/mapper/tank_fmeta_rmeta_2 /dev/mapper/tank_fmeta_rimage_2"
        );
        let spec = pool(&assembled);
        assert_eq!(
            spec.table(),
            "0 8 fusion-pool /dev/mapper/tank_fmeta 128 mols 1 8 \
             /dev/d0 36864 /dev/d1 36864 /dev/d2 36864 /dev/d3 36864 \
             /dev/d4 36864 /dev/d5 36864 /dev/d6 36864 /dev/d7 36864"
        );
        assert_eq!(
            parse_dm_uuid(&spec.uuid),
            Some((Uuid::from_u128(0xabcd), "pool"))
        );
    }

    #[test]
    fn missing_members() {
        let mut found = found_pool();
        found.members.remove(1);
        let assembled = found.assemble(false).unwrap();
        assert_eq!(slices(&assembled).len(), 4);
        assert_eq!(
            mirror(&assembled).unwrap().table(),
            "0 32768 raid raid1 2 0 nosync 3 \
             /dev/mapper/tank_fmeta_rmeta_0 /dev/mapper/tank_fmeta_rimage_0 - - \
             /dev/mapper/tank_fmeta_rmeta_2 /dev/mapper/tank_fmeta_rimage_2"
        );
        assert_eq!(
            pool(&assembled).table(),
            "0 8 fusion-pool /dev/mapper/tank_fmeta 128 mols 1 8 \
             /dev/d0 36864 - 0 /dev/d2 36864 /dev/d3 36864 \
             /dev/d4 36864 /dev/d5 36864 /dev/d6 36864 /dev/d7 36864"
        );
    }

    #[test]
    fn other_metadata_and_policy() {
        let mut found = found_pool();
        for member in &mut found.members {
            member.label.legs = 0;
            member.label.slice.leg = None;
            member.label.error_if_no_space = true;
        }
        let assembled = found.assemble(false).unwrap();
        assert!(slices(&assembled).is_empty());
        assert_eq!(mirror(&assembled), None);
        let device = MetadataDevice {
            path: "/dev/meta".into(),
            sectors: 32768,
        };
        let guard = guard(&assembled, &device);
        assert_eq!(guard.name, "tank_fmeta");
        assert_eq!(guard.table(), "0 32768 fusion-metadata /dev/meta 0");
        let table = pool(&assembled).table();
        assert!(table.starts_with("0 8 fusion-pool /dev/mapper/tank_fmeta 128 mols 1 8 "));
        assert!(table.ends_with(" 36864 1 error_if_no_space"), "{table}");
        for member in &mut found.members {
            member.label.no_discard_passdown = true;
        }
        let assembled = found.assemble(false).unwrap();
        let table = pool(&assembled).table();
        assert!(
            table.ends_with(" 36864 2 error_if_no_space no_discard_passdown"),
            "{table}"
        );
        for member in &mut found.members {
            member.label.journal = Ring {
                offset_sectors: 2048,
                sectors: 4096,
            };
        }
        let table = pool(&found.assemble(false).unwrap()).table();
        assert!(
            table.ends_with(" 36864 5 error_if_no_space no_discard_passdown journal 2048 4096"),
            "{table}"
        );
    }

    #[test]
    fn volumes() {
        let row = &Volume::parse_all("7 data 2097152 5 1 0 0 ok").unwrap()[0];
        let spec = volume("tank", Uuid::from_u128(0xabcd), row);
        assert_eq!(spec.name, "tank-data");
        assert_eq!(spec.table(), "0 2097152 fusion /dev/mapper/tank 7");
        assert_eq!(
            concise(&[spec.clone(), spec]),
            "tank-data,FUSION-00000000-0000-0000-0000-00000000abcd-volume-7,,rw,\
             0 2097152 fusion /dev/mapper/tank 7;\
             tank-data,FUSION-00000000-0000-0000-0000-00000000abcd-volume-7,,rw,\
             0 2097152 fusion /dev/mapper/tank 7"
        );
    }

    #[test]
    fn foreign_uuids() {
        for uuid in [
            "",
            "LVM-abc",
            "FUSION-x",
            "FUSION-00000000-0000-0000-0000-00000000abcd",
        ] {
            assert_eq!(parse_dm_uuid(uuid), None, "{uuid}");
        }
    }
}
