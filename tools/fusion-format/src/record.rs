// SPDX-License-Identifier: GPL-2.0-only
//! Member records: which members of a pool are used, on each of them.

use std::mem::size_of;

use uuid::Uuid;

use crate::{ffi, raw};

pub const RECORD_BYTES: usize = size_of::<ffi::fusion_disk_record>();
/// Byte offsets of the two copies.
pub const COPY_OFFSETS: [u64; 2] = [
    ffi::FUSION_RECORD_COPY0 as u64,
    ffi::FUSION_RECORD_COPY1 as u64,
];

/// What a pool last knew of one of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    Ok,
    Missing,
    Failed,
    /// Used again, and not all that belongs there is there yet.
    Returning,
}

impl MemberState {
    pub(crate) fn decode(state: u32) -> Self {
        match state {
            ffi::FUSION_MEMBER_OK => Self::Ok,
            ffi::FUSION_MEMBER_MISSING => Self::Missing,
            ffi::FUSION_MEMBER_RETURNING => Self::Returning,
            _ => Self::Failed,
        }
    }

    /// The pool reads and writes it.
    #[must_use]
    pub fn is_used(self) -> bool {
        matches!(self, Self::Ok | Self::Returning)
    }
}

/// One copy of a member's record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// Counts changes of the states; `u64::MAX`: of a newer format, and the states are
    /// not known.
    pub generation: u64,
    /// By index.
    pub states: Vec<MemberState>,
}

impl Record {
    /// Checks and decodes one copy as it was read; None if it is not the pool's, or damaged.
    ///
    /// # Panics
    /// If `bytes` is not `RECORD_BYTES` long.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: Uuid) -> Option<Self> {
        // SAFETY: integers only.
        let raw: Box<ffi::fusion_disk_record> = unsafe { raw::from_bytes(bytes) };
        // SAFETY: reads the record and as many bytes as a uuid has.
        let read = unsafe { ffi::fusion_record_states(&raw const *raw, pool.as_bytes().as_ptr()) };
        let states = match read.generation {
            0 => return None,
            u64::MAX => Vec::new(),
            _ => raw
                .state
                .iter()
                .take(usize::from(u16::from_le(raw.members)))
                .map(|&state| MemberState::decode(state.into()))
                .collect(),
        };
        Some(Self {
            generation: read.generation,
            states,
        })
    }

    fn states(&self) -> ffi::fusion_states {
        let used = self
            .states
            .iter()
            .enumerate()
            .filter(|(_, state)| state.is_used());
        ffi::fusion_states {
            generation: self.generation,
            used: used.fold(0, |used, (index, _)| used | 1 << index),
        }
    }

    /// Which of the members' records counts, as the module says (codec.h); by index.
    ///
    /// # Panics
    /// If there are more members than a pool can have.
    #[must_use]
    pub fn choose<'a>(members: &[Option<&'a Self>]) -> Option<&'a Self> {
        let states: Vec<ffi::fusion_states> = members
            .iter()
            .map(|record| record.map_or_else(Default::default, Self::states))
            .collect();
        let count = u32::try_from(states.len()).expect("as many as members");
        let same = |a: &ffi::fusion_states, b: &ffi::fusion_states| {
            (a.generation, a.used) == (b.generation, b.used)
        };
        // SAFETY: reads `count` of them.
        let chosen = unsafe { ffi::fusion_states_choose(states.as_ptr(), count) };
        let which = states
            .iter()
            .position(|states| states.generation > 0 && same(states, &chosen))?;
        members[which]
    }

    /// None: a pool without a record has not been started yet, and all its members are good.
    #[must_use]
    pub fn state(record: Option<&Self>, index: usize) -> MemberState {
        record
            .and_then(|record| record.states.get(index).copied())
            .unwrap_or(MemberState::Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    const POOL: Uuid = Uuid::from_u128(5);

    fn example() -> Vec<u8> {
        let mut raw = ffi::fusion_disk_record {
            pool_uuid: POOL.into_bytes(),
            generation: 7u64.to_le(),
            members: 4u16.to_le(),
            ..Default::default()
        };
        raw.state[1] = 1;
        raw.state[2] = 3;
        raw.state[3] = 2;
        // SAFETY: a whole record, exclusively ours.
        unsafe { ffi::fusion_record_seal(&raw mut raw) };
        // SAFETY: plain integers without padding.
        let bytes: [u8; RECORD_BYTES] = unsafe { std::mem::transmute(raw) };
        bytes.to_vec()
    }

    #[test]
    fn states() {
        use MemberState::{Failed, Missing, Ok, Returning};
        let record = Record::decode(&example(), POOL).unwrap();
        assert_eq!(record.generation, 7);
        assert_eq!(record.states, [Ok, Missing, Returning, Failed]);
        assert_eq!(record.states().used, 0b101);
        assert_eq!(Record::state(Some(&record), 3), Failed);
        assert_eq!(Record::state(None, 3), Ok);
    }

    #[test]
    fn foreign_or_damaged() {
        assert_eq!(Record::decode(&example(), Uuid::from_u128(6)), None);
        let mut bytes = example();
        bytes[offset_of!(ffi::fusion_disk_record, generation)] ^= 1;
        assert_eq!(Record::decode(&bytes, POOL), None);
        assert_eq!(Record::decode(&[0; RECORD_BYTES], POOL), None);
    }
}
