// SPDX-License-Identifier: GPL-2.0-only
//! What the members have in the map's journal that a start would replay.

use std::mem::size_of;

use crate::whole::Whole;
use crate::{ffi, raw};

const UNIT: usize = ffi::FUSION_JOURNAL_UNIT as usize;

/// What comes next in a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// That are whole.
    pub epochs: u64,
    /// There are more, of later metadata: a start is refused.
    pub stale: bool,
}

/// Looks as the module does (`journal-replay.c`), but not into the records.  `read` reads so many
/// bytes from there, counted from the begin of a member, by its index; None: it cannot.
pub fn pending(
    whole: &Whole,
    read: &mut dyn FnMut(usize, u64, usize) -> Option<Vec<u8>>,
) -> Pending {
    let mut pending = Pending::default();
    let ring = &whole.journal;
    let ring_bytes = u64::from(ring.sectors) * crate::SECTOR_BYTES;
    let mut id = ffi::fusion_journal_id {
        pool_uuid: *whole.pool_uuid.as_bytes(),
        sequence: ring.sequence,
        at: ring.at,
        generation: whole.generation,
    };
    let mut seen = 0;
    // More than the ring has room for cannot come.
    while seen < ring_bytes {
        let behind = find(whole, &id, ring_bytes, read);
        let found = behind.or_else(|| {
            id.at = 0;
            find(whole, &id, ring_bytes, read)
        });
        let Some(record) = found else { break };
        if u64::from_le(record.transaction_id) > whole.transaction_id {
            pending.stale = true;
            break;
        }
        pending.epochs += u64::from(record.more == 0);
        let bytes = u32::from_le(record.bytes);
        seen += u64::from(bytes);
        id.at += bytes;
        id.sequence = id.sequence.wrapping_add(1);
    }
    pending
}

/// The record with `id`, on any member that is used.
fn find(
    whole: &Whole,
    id: &ffi::fusion_journal_id,
    ring_bytes: u64,
    read: &mut dyn FnMut(usize, u64, usize) -> Option<Vec<u8>>,
) -> Option<Box<ffi::fusion_disk_journal>> {
    let behind = ring_bytes.checked_sub(u64::from(id.at))?;
    let place = whole.journal.offset_sectors * crate::SECTOR_BYTES + u64::from(id.at);
    if behind < UNIT as u64 {
        return None;
    }
    let used = whole.members.iter().enumerate();
    used.filter(|(_, member)| member.state.is_used())
        .find_map(|(index, _)| {
            let head = read(index, place, UNIT)?;
            // SAFETY: both are as long as it looks at.
            let bytes = unsafe { ffi::fusion_journal_bytes(head.as_ptr().cast(), id) };
            if bytes == 0 || u64::from(bytes) > behind {
                return None;
            }
            let record = read(index, place, bytes as usize)?;
            // SAFETY: it is as long as is said.
            if !unsafe { ffi::fusion_journal_whole(record.as_ptr().cast(), bytes) } {
                return None;
            }
            // SAFETY: integers only.
            Some(unsafe { raw::from_bytes(&record[..size_of::<ffi::fusion_disk_journal>()]) })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberState;
    use crate::whole::{Counts, JOURNAL, Journal, Member, OldLayout, SpaceMapRoot};
    use uuid::Uuid;

    const RING: usize = 1 << 20;

    fn whole() -> Whole {
        let member = Member {
            uuid: Uuid::nil(),
            state: MemberState::Ok,
            spare: 0,
            rebuilt: false,
            lost: false,
            left: 0,
        };
        let mut members = vec![member; 4];
        members[3].state = MemberState::Failed;
        Whole {
            clean: false,
            needs_check: false,
            pool_uuid: Uuid::from_u128(7),
            compat: 0,
            incompat: JOURNAL,
            transaction_id: 9,
            metadata_blocks: 2048,
            space_map: SpaceMapRoot::default(),
            roots: [0; 7],
            spares: 0,
            block_sectors: 128,
            band_units: 1,
            bands: 1,
            generation: 4,
            unsynced_generation: 0,
            counts: Counts::default(),
            states_generation: 0,
            scrub_at: 0,
            journal: Journal {
                offset_sectors: 8,
                sectors: 2048,
                at: 1040384,
                sequence: u64::MAX,
            },
            layout_generation: 0,
            old: OldLayout::default(),
            classes: Vec::new(),
            members,
        }
    }

    /// A record of nothing, in a member.
    fn put(member: &mut [u8], whole: &Whole, number: u64, at: u32, after: u64, more: bool) {
        let id = ffi::fusion_journal_id {
            pool_uuid: *whole.pool_uuid.as_bytes(),
            sequence: whole.journal.sequence.wrapping_add(number),
            at,
            generation: whole.generation,
        };
        let start = 4096 + at as usize;
        let mut writer = ffi::fusion_journal_writer::default();
        let data = member[start..start + UNIT].as_mut_ptr();
        // SAFETY: a record without entries is a unit long.
        unsafe {
            ffi::fusion_journal_begin(&raw mut writer, data.cast());
            ffi::fusion_journal_end(&raw mut writer, &raw const id, after, more);
        }
    }

    fn of(whole: &Whole, members: &[Vec<u8>]) -> Pending {
        pending(whole, &mut |index, at, bytes| {
            let at = usize::try_from(at).unwrap();
            members.get(index)?.get(at..at + bytes).map(<[u8]>::to_vec)
        })
    }

    #[test]
    fn what_comes_next_is_found_on_any_member() {
        let whole = whole();
        let mut members = vec![vec![0; 4096 + RING]; 4];
        // one that is not used does not count
        put(&mut members[3], &whole, 0, 1040384, 9, false);
        assert_eq!(of(&whole, &members), Pending::default());
        put(&mut members[2], &whole, 0, 1040384, 9, false);
        put(&mut members[1], &whole, 1, 1044480, 9, true);
        // round the end, and not behind a gap
        put(&mut members[0], &whole, 2, 0, 9, false);
        put(&mut members[0], &whole, 4, 4096, 9, false);
        let expected = Pending {
            epochs: 2,
            stale: false,
        };
        assert_eq!(of(&whole, &members), expected);
        // one byte, and it is none
        members[2][4096 + 1040384 + 100] ^= 1;
        assert_eq!(of(&whole, &members), Pending::default());
    }

    #[test]
    fn what_comes_after_a_later_commit_is_not_for_this() {
        let whole = whole();
        let mut members = vec![vec![0; 4096 + RING]];
        put(&mut members[0], &whole, 0, 1040384, 9, false);
        put(&mut members[0], &whole, 1, 1044480, 10, false);
        let expected = Pending {
            epochs: 1,
            stale: true,
        };
        assert_eq!(of(&whole, &members), expected);
    }
}
