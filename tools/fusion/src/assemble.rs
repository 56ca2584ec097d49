// SPDX-License-Identifier: GPL-2.0-only
//! From the members that were found to a pool that can be started, or to the
//! reason why it cannot.
//!
//! While a pool begins to grow (see grow.rs) labels disagree on how many members it has. The newest
//! metadata says that first, then all records, and at last all labels. Until the metadata says so
//! the devices that have come are none of its members, whatever their labels say.

use std::path::PathBuf;

use anyhow::{Result, bail};
use fusion_format::superblock::Superblock;
use fusion_format::{Label, Record};
use uuid::Uuid;

use crate::block;
use crate::devno::DevNo;
use crate::mirror::{self, RaidSuper};

/// A device with a good label.
#[derive(Clone, Debug)]
pub struct FoundMember {
    pub path: PathBuf,
    pub dev: DevNo,
    pub sectors: u64,
    pub label: Label,
    /// The other copy of its label is damaged or old.
    pub differs: bool,
    pub record: Option<Record>,
    /// None: its label has no leg of the metadata.
    pub slice: Option<FoundSlice>,
}

/// What is in a slice of the metadata.
#[derive(Clone, Debug, Default)]
pub struct FoundSlice {
    pub raid: Option<RaidSuper>,
    pub superblock: Option<Superblock>,
}

/// All devices whose labels name the same pool.
#[derive(Clone, Debug)]
pub struct FoundPool {
    pub uuid: Uuid,
    pub name: String,
    pub members: Vec<FoundMember>,
    /// Of metadata that is on a device of its own.
    pub superblock: Option<Superblock>,
}

/// A pool that can be started.
#[derive(Clone, Debug)]
pub struct Assembled {
    pub uuid: Uuid,
    pub name: String,
    /// What the labels of all members agree on, and how many members there are.
    pub label: Label,
    /// By index; None: it is missing.
    pub members: Vec<Option<FoundMember>>,
    /// Members by leg of the metadata mirror; None: its slice is missing, or may be old.
    /// None at all: the metadata is on a device of its own.
    pub legs: Vec<Option<usize>>,
    pub hot_spares: Vec<FoundMember>,
    /// Their labels have the indexes of members that other devices are, or that the pool has not.
    pub others: Vec<FoundMember>,
}

impl FoundPool {
    /// Its creation did not come to its end: no label says that it did.
    pub fn creating(&self) -> bool {
        self.members.iter().all(|member| member.label.creating)
    }

    /// How many members it has: what the newest metadata says, or the records if they are newer, or
    /// else the labels. Of these none that was there before the pool began to grow says too many,
    /// and when one of those that have come is not *creating* any more it is certain that it did.
    pub fn count(&self) -> u16 {
        let record = self.record().filter(|record| !record.states.is_empty());
        let recorded = record.map_or(0, |record| record.generation);
        if let Some(superblock) = self.superblock()
            && superblock.states_generation >= recorded
        {
            return superblock.members;
        }
        if let Some(record) = record {
            return u16::try_from(record.states.len()).unwrap_or(u16::MAX);
        }
        let labels = self.members.iter().map(|member| &member.label);
        let complete = labels.clone().filter(|label| !label.creating);
        let count = |label: &Label| label.members;
        let most = complete.map(count).max();
        most.or_else(|| labels.map(count).max()).unwrap_or(0)
    }

    /// Indexes that no device has.
    pub fn missing(&self) -> Vec<u16> {
        (0..self.count())
            .filter(|&index| {
                !self
                    .members
                    .iter()
                    .any(|member| member.label.index == Some(index))
            })
            .collect()
    }

    /// Those that were used last and are not there.
    pub fn awaited(&self) -> Vec<u16> {
        let (settled, _) = self.settle();
        let record = settled.record();
        let mut missing = settled.missing();
        missing.retain(|&index| Record::state(record, index.into()).is_used());
        missing
    }

    /// All are there that were used last, and fit together.
    pub fn is_complete(&self) -> bool {
        let metadata = || {
            let slices = self
                .members
                .first()
                .is_some_and(|member| member.label.legs != 0);
            slices || self.superblock.is_some()
        };
        self.awaited().is_empty() && metadata() && self.assemble(false).is_ok()
    }

    /// Which of the members' records counts for all of them.
    pub fn record(&self) -> Option<&Record> {
        let labels = self.members.iter().map(|member| member.label.members);
        let mut records: Vec<Option<&Record>> = vec![None; labels.max()?.into()];
        for member in &self.members {
            let place = member
                .label
                .index
                .and_then(|index| records.get_mut(usize::from(index)));
            if let Some(place) = place {
                // Of several devices that was the member which was used last.
                let newest = place.iter().copied().chain(&member.record);
                *place = newest.max_by_key(|record| record.generation);
            }
        }
        Record::choose(&records)
    }

    /// The devices that are members, and others: when a member is replaced, there may be two
    /// devices whose labels have its index, before the new one is the member and after it (see
    /// replace.rs). The metadata knows which one is. Where it has a member that is used, another
    /// device is none though that one is missing. Metadata that is older than what the members
    /// have recorded knows nothing. Devices that were to become members when the pool was to grow,
    /// and it does not know of that, are others, too.
    pub fn settle(&self) -> (Self, Vec<FoundMember>) {
        if !self.members.iter().any(|member| member.label.creating) {
            return self.settle_twins();
        }
        let count = usize::from(self.count());
        let (newcomers, members) =
            (self.members.iter().cloned()).partition(|member| is_newcomer(&member.label, count));
        let pool = Self {
            members,
            ..self.clone()
        };
        let (settled, mut others) = pool.settle_twins();
        others.extend::<Vec<_>>(newcomers);
        (settled, others)
    }

    fn settle_twins(&self) -> (Self, Vec<FoundMember>) {
        let all = || (self.clone(), Vec::new());
        let Some(superblock) = self.superblock() else {
            return all();
        };
        let is = |member: &FoundMember, uuid: Uuid| uuid == member.label.member_uuid;
        let counts = |member: &FoundMember| {
            let Some(index) = member.label.index else {
                return true;
            };
            let Some(&(uuid, state)) = superblock.member.get(usize::from(index)) else {
                return true;
            };
            let there = |other: &FoundMember| other.label.index == Some(index) && is(other, uuid);
            is(member, uuid)
                || uuid.is_nil()
                || (!state.is_used() && !self.members.iter().any(there))
        };
        let (members, others) = self.members.iter().cloned().partition(counts);
        let settled = Self {
            members,
            ..self.clone()
        };
        let recorded = settled.record().map_or(0, |record| record.generation);
        if recorded > superblock.states_generation {
            return all();
        }
        (settled, others)
    }

    /// The newest of the metadata that is not known to be old.
    fn superblock(&self) -> Option<&Superblock> {
        let label = &self.members.first()?.label;
        if label.legs == 0 {
            return self.superblock.as_ref();
        }
        let record = self.record();
        let slices: Vec<(usize, &FoundSlice)> = (0..label.legs)
            .filter_map(|leg| {
                let member = leg_of(self.members.iter(), leg, record)?;
                Some((usize::from(leg), member.slice.as_ref()?))
            })
            .collect();
        let supers: Vec<(usize, Option<RaidSuper>)> = slices
            .iter()
            .map(|(leg, slice)| (*leg, slice.raid.clone()))
            .collect();
        let good = mirror::good_legs(&supers);
        slices
            .iter()
            .filter(|(leg, _)| good.contains(leg))
            .filter_map(|(_, slice)| slice.superblock.as_ref())
            .max_by_key(|superblock| (superblock.states_generation, superblock.transaction_id))
    }

    /// Checks that what there is fits together, and that it is more than half of the
    /// pool, unless `force`.
    pub fn assemble(&self, force: bool) -> Result<Assembled> {
        let (settled, others) = self.settle();
        let mut pool = settled.assemble_settled(force)?;
        pool.others = others;
        Ok(pool)
    }

    fn assemble_settled(&self, force: bool) -> Result<Assembled> {
        let count = self.count();
        self.check_agreement(count)?;
        self.check_indexes()?;
        let Some(first) = self.members.first() else {
            bail!("pool {} has no members: attach them", self.name);
        };
        let label = Label {
            members: count,
            ..first.label.clone()
        };
        let record = self.record();
        self.check_majority(&label, record, force)?;
        let mut members = vec![None; label.members.into()];
        let mut hot_spares = Vec::new();
        for member in &self.members {
            match member.label.index {
                Some(index) => members[usize::from(index)] = Some(member.clone()),
                None => hot_spares.push(member.clone()),
            }
        }
        let legs = self.legs(&label, &members, record, force)?;
        Ok(Assembled {
            uuid: self.uuid,
            name: self.name.clone(),
            label,
            members,
            legs,
            hot_spares,
            others: Vec::new(),
        })
    }

    /// More than half of the members must be there, and be used: then the record is what was
    /// acted upon last, and the others cannot go on without these.
    fn check_majority(&self, label: &Label, record: Option<&Record>, force: bool) -> Result<()> {
        if record.is_some_and(|record| record.generation == u64::MAX) {
            bail!(
                "the members of pool {} carry records of a newer version: use that version's tools",
                self.name
            );
        }
        let used = self
            .members
            .iter()
            .filter_map(|member| member.label.index)
            .filter(|&index| Record::state(record, index.into()).is_used())
            .count();
        if used * 2 > label.members.into() || force {
            return Ok(());
        }
        bail!(
            "of the {} members of pool {} only {used} are there that were used last{}: attach the \
             rest and try again, or give --force if it is certain that they did not go on without \
             these",
            label.members,
            self.name,
            match lacks(&self.missing()) {
                Some(text) => format!(" (it lacks {text})"),
                None => String::new(),
            }
        );
    }

    /// Labels that disagree are of different times: one of them is stale. But one that knows of fewer
    /// members than there are, since it was not written when the pool began to grow, is not.
    fn check_agreement(&self, count: u16) -> Result<()> {
        let geometry = |label: &Label| {
            (
                (label.pool_name.clone(), label.created, label.block_sectors),
                (label.spares, label.legs, label.members > count),
                (label.journal, label.data_offset_sectors, label.data_sectors),
            )
        };
        let agrees = |a: &FoundMember, b: &FoundMember| geometry(&a.label) == geometry(&b.label);
        for member in &self.members {
            let alike = self
                .members
                .iter()
                .filter(|other| agrees(member, other))
                .count();
            let few = alike * 2 <= self.members.len() && alike != self.members.len();
            if few || member.label.members > count {
                bail!(
                    "{} carries a label that disagrees with the other members of pool {} and may \
                     be stale: detach it, or wipe it with wipefs or 'pool create --force' if \
                     nothing on it is needed",
                    member.path.display(),
                    self.name
                );
            }
            if member.sectors < member.label.member_sectors {
                bail!(
                    "{} is smaller than when it became a member of pool {} ({} instead of {} \
                     sectors): give it back its size",
                    member.path.display(),
                    self.name,
                    member.sectors,
                    member.label.member_sectors
                );
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<()> {
        for member in &self.members {
            let same = |other: &&FoundMember| {
                (member.label.index.is_some() && other.label.index == member.label.index)
                    || other.label.member_uuid == member.label.member_uuid
            };
            let twins: Vec<&FoundMember> = self.members.iter().filter(same).collect();
            if twins.len() > 1 {
                let which = match member.label.index {
                    Some(index) => format!("member {index}"),
                    None => "the same hot spare".into(),
                };
                bail!(
                    "{} all claim to be {which} of pool {}: detach the copies, or wipe what is \
                     stale",
                    block::names(twins.iter().map(|twin| twin.path.as_path())),
                    self.name
                );
            }
        }
        Ok(())
    }

    /// What was not used any more at the last change of the members' states is old, and so
    /// is its slice of the metadata. Another may be, too, if dm-raid could not write to it: the
    /// slices that went on know that. So more need to be there than are missing of those that
    /// were used, unless `force`.
    fn legs(
        &self,
        label: &Label,
        members: &[Option<FoundMember>],
        record: Option<&Record>,
        force: bool,
    ) -> Result<Vec<Option<usize>>> {
        if label.legs == 0 {
            return Ok(Vec::new());
        }
        let missing = self.missing();
        let found = || members.iter().flatten();
        let legs: Vec<Option<usize>> = (0..label.legs)
            .map(|leg| leg_of(found(), leg, record)?.label.index.map(usize::from))
            .collect();
        // One that the others know to have failed is not missing.
        let failed = found()
            .filter_map(|member| member.slice.as_ref()?.raid.as_ref())
            .max_by_key(|raid| raid.events)
            .map_or(0, |raid| raid.failed);
        let missing_legs = (0..)
            .zip(&legs)
            .filter(|&(leg, index)| index.is_none() && failed >> leg & 1 == 0)
            .count();
        let there = legs.iter().flatten().count();
        if there == 0 {
            bail!(
                "the metadata of pool {} is on members that are missing, or were not used any \
                 more when it was changed last: attach {} and try again",
                self.name,
                lacks(&missing).unwrap_or_else(|| "those that were".into())
            );
        }
        // Which of the missing members had slices is not known.
        let missing_used = missing
            .iter()
            .filter(|&&index| Record::state(record, index.into()).is_used())
            .count();
        if there <= missing_legs.min(missing_used) && !force {
            bail!(
                "{there} of the {} slices of the metadata of pool {} is there, and may be old (it \
                 lacks {}): attach the rest and try again, or give --force if it is certain that \
                 it is not",
                label.legs,
                self.name,
                lacks(&missing).unwrap_or_default()
            );
        }
        Ok(legs)
    }
}

/// The label of one that was to become a member when a pool of so many was to grow, and has not.
pub fn is_newcomer(label: &Label, members: usize) -> bool {
    let index = label.index.map(usize::from);
    label.creating && index.is_some_and(|index| index >= members)
}

/// The member that has a leg of the metadata. Its slice may have been made anew, since the one
/// that had it was out: that one's label says still that it has it. Of two that are used the
/// one counts that dm-raid has used last. A slice that it has not used yet, in a pool of which
/// it has used others, is none.
fn leg_of<'a>(
    members: impl Iterator<Item = &'a FoundMember> + Clone,
    leg: u16,
    record: Option<&Record>,
) -> Option<&'a FoundMember> {
    let events = |member: &FoundMember| Some(member.slice.as_ref()?.raid.as_ref()?.events);
    let in_use = members.clone().any(|member| events(member).is_some());
    members
        .filter(|member| member.label.slice.leg == Some(leg))
        .filter(|member| {
            let index = member.label.index.map(usize::from);
            index.is_some_and(|index| Record::state(record, index).is_used())
        })
        .filter(|member| !in_use || events(member).is_some())
        .max_by_key(|member| events(member))
}

/// "its members 2, 6"; None if none is missing.
pub fn lacks(missing: &[u16]) -> Option<String> {
    let indexes: Vec<String> = missing.iter().map(ToString::to_string).collect();
    match missing.len() {
        0 => None,
        1 => Some(format!("its member {}", indexes[0])),
        _ => Some(format!("its members {}", indexes.join(", "))),
    }
}

impl Assembled {
    /// "its members 2, 6"; None if all are there.
    pub fn lacks(&self) -> Option<String> {
        let missing: Vec<u16> = (0..self.label.members)
            .filter(|&index| self.members[usize::from(index)].is_none())
            .collect();
        lacks(&missing)
    }
}

#[cfg(test)]
mod tests {
    use fusion_format::MemberState;

    use super::*;
    use crate::testing::{found_pool, label, newcomer};

    #[test]
    fn complete() {
        let mut pool = found_pool();
        pool.members.reverse();
        let assembled = pool.assemble(false).unwrap();
        assert_eq!(assembled.members[5].as_ref().unwrap().label.index, Some(5));
        assert_eq!(assembled.legs, [Some(0), Some(1), Some(2)]);
        assert_eq!(assembled.lacks(), None);
        assert!(assembled.hot_spares.is_empty());
    }

    fn error_of(change: impl Fn(&mut FoundPool)) -> String {
        let mut pool = found_pool();
        change(&mut pool);
        pool.assemble(false).unwrap_err().to_string()
    }

    /// Members that are there, with the generations of their records; what the newest says.
    fn recorded(there: &[(u16, u64)], states: &str) -> FoundPool {
        let mut pool = found_pool();
        let states = states_of(states);
        pool.members = there
            .iter()
            .map(|&(index, generation)| FoundMember {
                record: Some(Record {
                    generation,
                    states: states.clone(),
                }),
                ..pool.members[usize::from(index)].clone()
            })
            .collect();
        pool
    }

    #[test]
    fn missing_members_are_done_without() {
        let mut pool = found_pool();
        pool.members.remove(6);
        pool.members.remove(2);
        let assembled = pool.assemble(false).unwrap();
        assert_eq!(assembled.lacks().unwrap(), "its members 2, 6");
        assert_eq!(assembled.legs, [Some(0), Some(1), None]);
        assert!(assembled.members[2].is_none());
        assert_eq!(assembled.members[7].as_ref().unwrap().label.index, Some(7));
    }

    #[test]
    fn more_than_half_need_to_be_there() {
        let there = |count| (0..count).map(|index| (index, 7)).collect::<Vec<_>>();
        assert!(recorded(&there(5), "oooooooo").assemble(false).is_ok());
        // The power failed when one of them had recorded a change.
        let mut all = there(8);
        all[3].1 = 8;
        assert!(recorded(&all, "oooooofo").assemble(false).is_ok());
        for pool in [
            recorded(&there(4), "oooooooo"),
            recorded(&there(5), "oooofooo"),
        ] {
            let error = pool.assemble(false).unwrap_err().to_string();
            assert!(
                error.contains("8 members of pool tank only 4 are there that were used last"),
                "{error}"
            );
            assert!(error.contains("lacks its members"), "{error}");
            assert!(pool.assemble(true).is_ok());
        }
    }

    #[test]
    fn slices_that_may_be_old_are_left_out() {
        let all: Vec<(u16, u64)> = (0..8).map(|index| (index, 7)).collect();
        let pool = recorded(&all, "omofoooo");
        assert_eq!(pool.assemble(false).unwrap().legs, [Some(0), None, Some(2)]);
        // One slice is there, and not known to be old; but it is one of two, or of three.
        for there in [
            &[(0, 7), (3, 7), (4, 7), (5, 7), (6, 7), (7, 7)][..],
            &all[2..],
        ] {
            let pool = recorded(there, "oooooooo");
            let error = pool.assemble(false).unwrap_err().to_string();
            assert!(error.contains("1 of the 3 slices"), "{error}");
            assert!(pool.assemble(true).is_ok());
        }
        let pool = recorded(&all[2..], "mooooooo");
        assert!(pool.assemble(false).is_err());
        let pool = recorded(&all[2..], "mmoooooo");
        assert_eq!(pool.assemble(false).unwrap().legs, [None, None, Some(2)]);
        let pool = recorded(&all[1..], "ommooooo");
        let error = pool.assemble(true).unwrap_err().to_string();
        assert!(
            error.contains("attach its member 0 and try again"),
            "{error}"
        );
    }

    #[test]
    fn records_of_newer_versions_are_respected() {
        let pool = recorded(&[(0, 7), (1, u64::MAX)], "");
        let error = pool.assemble(true).unwrap_err().to_string();
        assert!(error.contains("of a newer version"), "{error}");
    }

    #[test]
    fn duplicates_are_named() {
        let error = error_of(|pool| {
            let mut twin = pool.members[3].clone();
            twin.path = "/dev/copy".into();
            pool.members.push(twin);
        });
        assert!(
            error.contains("/dev/d3, /dev/copy all claim to be member 3"),
            "{error}"
        );
    }

    #[test]
    fn stale_labels_are_named() {
        let error = error_of(|pool| pool.members[4].label.created -= 1);
        assert!(
            error.starts_with("/dev/d4 carries a label that disagrees"),
            "{error}"
        );
    }

    #[test]
    fn shrunk_devices_are_named() {
        let error = error_of(|pool| pool.members[4].sectors -= 1);
        assert!(error.starts_with("/dev/d4 is smaller than"), "{error}");
    }

    #[test]
    fn lost_slices_are_done_without() {
        let mut pool = found_pool();
        pool.members[1].label.slice.leg = None;
        assert_eq!(pool.assemble(false).unwrap().legs, [Some(0), None, Some(2)]);
    }

    /// The pool of which the metadata is at `generation`, and has these members as they are there.
    fn with_metadata(mut pool: FoundPool, generation: u64, states: &[MemberState]) -> FoundPool {
        let superblock = Superblock {
            pool_uuid: pool.uuid,
            transaction_id: 5,
            members: 8,
            spares: 1,
            block_sectors: 128,
            states_generation: generation,
            member: (0..8)
                .map(|index| (label(index).member_uuid, states[usize::from(index)]))
                .collect(),
        };
        for member in &mut pool.members {
            member.slice = member.label.slice.leg.map(|_| FoundSlice {
                raid: Some(RaidSuper {
                    events: 3,
                    failed: 0,
                    recovered: true,
                }),
                superblock: Some(superblock.clone()),
            });
        }
        pool
    }

    /// The same, and it knows of nine members: see grow.rs.
    fn grown_metadata(pool: FoundPool, generation: u64) -> FoundPool {
        let mut pool = with_metadata(pool, generation, &states_of("oooooooo"));
        for member in &mut pool.members {
            if let Some(FoundSlice {
                superblock: Some(superblock),
                ..
            }) = &mut member.slice
            {
                superblock.members = 9;
                superblock
                    .member
                    .push((label(8).member_uuid, MemberState::Ok));
            }
        }
        pool
    }

    fn all_recorded() -> FoundPool {
        let all: Vec<(u16, u64)> = (0..8).map(|index| (index, 7)).collect();
        recorded(&all, "oooooooo")
    }

    /// The device comes first or last.
    fn with_newcomer(pool: &FoundPool) -> [FoundPool; 2] {
        [0, pool.members.len()].map(|at| {
            let mut pool = pool.clone();
            pool.members.insert(at, newcomer());
            pool
        })
    }

    /// Another device with the label of a member, and another uuid.
    fn twin_of(member: &FoundMember, record: Option<Record>) -> FoundMember {
        let mut twin = member.clone();
        twin.path = "/dev/twin".into();
        twin.label.member_uuid = Uuid::from_u128(0x2000);
        twin.record = record;
        twin
    }

    fn states_of(letters: &str) -> Vec<MemberState> {
        letters
            .bytes()
            .map(|letter| match letter {
                b'm' => MemberState::Missing,
                b'f' => MemberState::Failed,
                b'r' => MemberState::Returning,
                _ => MemberState::Ok,
            })
            .collect()
    }

    #[test]
    fn the_metadata_knows_who_is_a_member() {
        let all: Vec<(u16, u64)> = (0..8).map(|index| (index, 7)).collect();
        for states in ["ooooofoo", "ooooomoo", "oooooroo", "oooooooo"] {
            let mut pool = recorded(&all, states);
            let old = Record {
                generation: 6,
                states: states_of("oooooooo"),
            };
            let twins = [None, Some(old.clone())].map(|record| twin_of(&pool.members[5], record));
            for twin in twins {
                for first in [true, false] {
                    let mut pool = with_metadata(pool.clone(), 7, &states_of(states));
                    pool.members.insert(if first { 0 } else { 8 }, twin.clone());
                    assert_eq!(pool.record().unwrap().generation, 7);
                    let assembled = pool.assemble(false).unwrap();
                    let member = assembled.members[5].as_ref().unwrap();
                    assert_eq!(member.path.to_str(), Some("/dev/d5"));
                    assert_eq!(assembled.others[0].path.to_str(), Some("/dev/twin"));
                }
            }
            // It is not there: another is taken for it only if it is out.
            pool.members[5] = twin_of(&pool.members[5], Some(old));
            let pool = with_metadata(pool, 7, &states_of(states));
            let assembled = pool.assemble(false).unwrap();
            let out = !states_of(states)[5].is_used();
            assert_eq!(assembled.members[5].is_some(), out, "{states}");
            assert_eq!(assembled.others.len(), usize::from(!out));
            assert_eq!(Record::state(pool.settle().0.record(), 5).is_used(), !out);
        }
    }

    #[test]
    fn devices_that_the_metadata_does_not_know_are_no_members() {
        let with_records = with_metadata(all_recorded(), 7, &states_of("oooooooo"));
        // Without metadata records say so, and without these labels.
        for before in [found_pool(), all_recorded(), with_records] {
            for pool in with_newcomer(&before) {
                assert!(pool.is_complete() && !pool.creating());
                assert_eq!((pool.count(), pool.missing()), (8, vec![]));
                let assembled = pool.assemble(false).unwrap();
                assert_eq!(assembled.label.members, 8);
                assert_eq!((assembled.members.len(), assembled.lacks()), (8, None));
                assert_eq!(assembled.others[0].path.to_str(), Some("/dev/d8"));
                assert!(assembled.hot_spares.is_empty());
            }
        }
        // There are two of them, or what was to be another member.
        for index in [8, 9] {
            let mut pool = found_pool();
            let mut other = newcomer();
            other.label.index = Some(index);
            other.label.members = 11;
            pool.members.extend([newcomer(), other]);
            assert_eq!(pool.assemble(false).unwrap().others.len(), 2);
        }
        // They do not help to be more than half.
        let mut pool = all_recorded();
        pool.members.drain(4..);
        pool.members.push(newcomer());
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.contains("8 members of pool tank only 4"), "{error}");
        // A member that is missing is that, whatever else is there.
        let mut pool = found_pool();
        pool.members[6] = newcomer();
        assert_eq!(
            pool.assemble(false).unwrap().lacks().unwrap(),
            "its member 6"
        );
    }

    #[test]
    fn the_metadata_knows_that_there_are_more_members() {
        let states = "ooooooooo";
        // None of them has recorded it, some have, or all.
        for count in 0..=9 {
            for mut pool in with_newcomer(&all_recorded()) {
                for member in &mut pool.members {
                    if member.label.index.is_some_and(|index| index < count) {
                        member.record = Some(Record {
                            generation: 8,
                            states: states_of(states),
                        });
                    }
                }
                let mut pool = grown_metadata(pool, 8);
                assert!(pool.is_complete());
                let assembled = pool.assemble(false).unwrap();
                assert_eq!((assembled.label.members, assembled.members.len()), (9, 9));
                assert_eq!((assembled.lacks(), assembled.others.len()), (None, 0));
                assert!(assembled.members[8].as_ref().unwrap().label.creating);
                // So many of the labels say so.
                for member in &mut pool.members {
                    if member.label.index.is_some_and(|index| index < count) {
                        member.label.members = 9;
                        member.label.creating = false;
                    }
                }
                assert_eq!(pool.assemble(false).unwrap().members.len(), 9);
                // It is missed as any other is.
                pool.members.retain(|member| member.label.index != Some(8));
                assert!(!pool.is_complete());
                let assembled = pool.assemble(false).unwrap();
                assert_eq!(assembled.lacks().unwrap(), "its member 8");
            }
        }
    }

    #[test]
    fn more_than_half_of_those_that_have_come_too_need_to_be_there() {
        let pool = grown_metadata(with_newcomer(&all_recorded())[1].clone(), 8);
        let there = |indexes: &[u16]| {
            let mut pool = pool.clone();
            let has = |member: &FoundMember| indexes.contains(&member.label.index.unwrap());
            pool.members.retain(has);
            pool.assemble(false)
        };
        assert!(there(&[0, 1, 2, 3, 8]).is_ok());
        let error = there(&[0, 1, 2, 3]).unwrap_err().to_string();
        assert!(error.contains("9 members of pool tank only 4"), "{error}");
    }

    #[test]
    fn records_know_that_there_are_more_members() {
        // The metadata that is there is older.
        let mut pool = with_metadata(all_recorded(), 7, &states_of("oooooooo"));
        pool.members.push(newcomer());
        for index in 0..8 {
            // What not all have recorded nobody has acted upon.
            assert_eq!(pool.assemble(false).unwrap().members.len(), 8);
            pool.members[index].record = Some(Record {
                generation: 8,
                states: states_of("ooooooooo"),
            });
        }
        assert_eq!(pool.assemble(false).unwrap().members.len(), 9);
    }

    #[test]
    fn labels_know_that_there_are_more_members() {
        // They are written when the metadata is: one is enough.
        for index in [0, 5, 8] {
            let mut pool = found_pool();
            pool.members.push(newcomer());
            pool.members[index].label.creating = false;
            pool.members[index].label.members = 9;
            assert_eq!(pool.assemble(false).unwrap().members.len(), 9);
        }
    }

    #[test]
    fn records_of_those_that_have_come_count() {
        let mut pool = found_pool();
        pool.members.push(newcomer());
        pool.members[8].record = Some(Record {
            generation: 8,
            states: states_of("oooofoooo"),
        });
        assert_eq!(pool.count(), 9);
        assert!(!Record::state(pool.record(), 4).is_used());
    }

    #[test]
    fn a_member_has_another_device_than_it_was_to_have() {
        // The first attempt to grow was cut short, and another device took the place.
        let mut pool = all_recorded();
        let mut other = newcomer();
        other.path = "/dev/early".into();
        other.label.member_uuid = Uuid::from_u128(0x2000);
        pool.members.extend([other, newcomer()]);
        let assembled = grown_metadata(pool, 8).assemble(false).unwrap();
        let member = assembled.members[8].as_ref().unwrap();
        assert_eq!(member.path.to_str(), Some("/dev/d8"));
        assert_eq!(assembled.others[0].path.to_str(), Some("/dev/early"));
    }

    #[test]
    fn labels_that_know_of_too_many_members_are_stale() {
        let mut pool = with_metadata(all_recorded(), 7, &states_of("oooooooo"));
        pool.members[4].label.members = 9;
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.starts_with("/dev/d4 carries a label"), "{error}");
        // All of them.
        for member in &mut pool.members {
            member.label.members = 9;
        }
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.contains("may be stale"), "{error}");
        // They may know of too few, but must agree otherwise.
        let mut pool = grown_metadata(with_newcomer(&all_recorded())[0].clone(), 8);
        pool.members[0].label.data_sectors -= 8;
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.starts_with("/dev/d8 carries a label"), "{error}");
    }

    #[test]
    fn metadata_that_is_old_does_not_know_who_is_a_member() {
        let all: Vec<(u16, u64)> = (0..8).map(|index| (index, 7)).collect();
        let mut pool = with_metadata(recorded(&all, "oooooooo"), 6, &states_of("oooooooo"));
        pool.members.push(twin_of(&pool.members[5], None));
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.contains("all claim to be member 5"), "{error}");
    }

    #[test]
    fn a_slice_may_have_been_made_anew_elsewhere() {
        let all: Vec<(u16, u64)> = (0..8).map(|index| (index, 7)).collect();
        let mut pool = recorded(&all, "ofoooooo");
        pool.members[6].label.slice.leg = Some(1);
        let pool = with_metadata(pool, 7, &states_of("ofoooooo"));
        assert_eq!(
            pool.assemble(false).unwrap().legs,
            [Some(0), Some(6), Some(2)]
        );
        // Both are used: dm-raid knows which.
        let mut both = recorded(&all, "oooooooo");
        both.members[6].label.slice.leg = Some(1);
        let mut both = with_metadata(both, 7, &states_of("oooooooo"));
        for (newer, older) in [(1, 6), (6, 1)] {
            for (index, events) in [(newer, 4), (older, 3)] {
                let slice = both.members[index].slice.as_mut().unwrap();
                slice.raid.as_mut().unwrap().events = events;
            }
            assert_eq!(both.assemble(false).unwrap().legs[1], Some(newer));
        }
        // It was to be made anew: dm-raid has not begun.
        both.members[6].slice.as_mut().unwrap().raid = None;
        both.members[1].label.slice.leg = None;
        assert_eq!(both.assemble(false).unwrap().legs[1], None);
    }

    #[test]
    fn a_slice_that_is_missing_may_be_that_which_was_made_anew() {
        // Member 0 and 1 are out, and one of their slices may be on 6.
        let there: Vec<(u16, u64)> = [0, 1, 2, 3, 4, 5, 7].map(|index| (index, 7)).into();
        let states = states_of("ffoooooo");
        let mut pool = with_metadata(recorded(&there, "ffoooooo"), 7, &states);
        let error = pool.assemble(false).unwrap_err().to_string();
        assert!(error.contains("1 of the 3 slices"), "{error}");
        // The one that is there knows that it is not.
        for member in &mut pool.members {
            if let Some(FoundSlice {
                raid: Some(raid), ..
            }) = &mut member.slice
            {
                raid.failed = 0b011;
            }
        }
        assert_eq!(pool.assemble(false).unwrap().legs, [None, None, Some(2)]);
    }
}
