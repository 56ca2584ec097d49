// SPDX-License-Identifier: GPL-2.0-only
//! As much of the metadata's superblock as the tools look at.

use std::mem::offset_of;

use uuid::Uuid;

use crate::{MemberState, ffi};

/// Bytes of the metadata's first block.
pub const SUPERBLOCK_BYTES: usize = ffi::FUSION_META_BLOCK_BYTES as usize;

/// A superblock that has the right magic and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    pub pool_uuid: Uuid,
    pub transaction_id: u64,
    pub members: u16,
    pub spares: u16,
    pub block_sectors: u32,
    /// Counts changes of the members' states, as their records do.
    pub states_generation: u64,
    /// By index; a nil uuid: the pool has no labels.
    pub member: Vec<(Uuid, MemberState)>,
}

/// Checks the metadata's first block; None if it is no superblock or damaged.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Superblock> {
    macro_rules! field {
        ($type:ty, $name:ident) => {
            <$type>::from_le_bytes(
                bytes
                    .get(offset_of!(ffi::fusion_disk_super, $name)..)?
                    .first_chunk()
                    .copied()?,
            )
        };
    }
    let body = bytes.get(size_of::<u32>()..SUPERBLOCK_BYTES)?;
    if field!(u64, magic) != ffi::FUSION_SUPER_MAGIC || field!(u32, csum) != checksum(body) {
        return None;
    }
    let uuid = bytes.get(offset_of!(ffi::fusion_disk_super, pool_uuid)..)?;
    let members = field!(u16, members);
    let member = (0..usize::from(members.min(ffi::FUSION_MAX_MEMBERS as u16)))
        .map(|index| decode_member(bytes, index))
        .collect::<Option<_>>()?;
    Some(Superblock {
        pool_uuid: Uuid::from_bytes(*uuid.first_chunk()?),
        transaction_id: field!(u64, transaction_id),
        members,
        spares: field!(u16, spares),
        block_sectors: field!(u32, block_sectors),
        states_generation: field!(u64, states_generation),
        member,
    })
}

fn decode_member(bytes: &[u8], index: usize) -> Option<(Uuid, MemberState)> {
    let at =
        offset_of!(ffi::fusion_disk_super, member) + index * size_of::<ffi::fusion_disk_member>();
    let uuid = bytes.get(at + offset_of!(ffi::fusion_disk_member, uuid)..)?;
    let state = bytes.get(at + offset_of!(ffi::fusion_disk_member, state)..)?;
    let state = u32::from_le_bytes(state.first_chunk().copied()?);
    Some((
        Uuid::from_bytes(uuid.first_chunk().copied()?),
        MemberState::decode(state),
    ))
}

/// The kernel's `dm_bm_checksum`: CRC-32C without the final inversion, exclusive-or'd
/// with the structure's own constant.
fn checksum(body: &[u8]) -> u32 {
    !crc32c::crc32c(body) ^ ffi::FUSION_SUPER_CSUM_XOR
}

/// Puts the checksum into a block.
///
/// # Panics
/// If `block` is shorter than a superblock.
pub fn seal(block: &mut [u8]) {
    let csum = checksum(&block[size_of::<u32>()..SUPERBLOCK_BYTES]);
    block[..size_of::<u32>()].copy_from_slice(&csum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(
            offset_of!(ffi::fusion_disk_super, magic),
            &ffi::FUSION_SUPER_MAGIC.to_le_bytes(),
        );
        put(
            offset_of!(ffi::fusion_disk_super, transaction_id),
            &77u64.to_le_bytes(),
        );
        put(
            offset_of!(ffi::fusion_disk_super, pool_uuid),
            &Uuid::from_u128(5).into_bytes(),
        );
        put(
            offset_of!(ffi::fusion_disk_super, members),
            &2u16.to_le_bytes(),
        );
        let second =
            offset_of!(ffi::fusion_disk_super, member) + size_of::<ffi::fusion_disk_member>();
        put(second, &Uuid::from_u128(6).into_bytes());
        put(
            second + offset_of!(ffi::fusion_disk_member, state),
            &3u32.to_le_bytes(),
        );
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn good() {
        let superblock = decode(&example()).unwrap();
        assert_eq!(superblock.transaction_id, 77);
        assert_eq!(superblock.pool_uuid, Uuid::from_u128(5));
        assert_eq!(
            superblock.member,
            [
                (Uuid::nil(), MemberState::Ok),
                (Uuid::from_u128(6), MemberState::Returning)
            ]
        );
    }

    #[test]
    fn damaged_or_absent() {
        assert_eq!(decode(&[0; SUPERBLOCK_BYTES]), None);
        let mut bytes = example();
        bytes[4000] ^= 1;
        assert_eq!(decode(&bytes), None);
        assert_eq!(decode(&bytes[..100]), None);
    }
}
