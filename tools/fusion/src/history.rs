// SPDX-License-Identifier: GPL-2.0-only
//! Members that leave and return in every order: no start may bring back old metadata.
//!
//! All that can become of small pools is enumerated: starts with any of the members, cut
//! short by the power at any step, members that fail, and come back, slices of the
//! metadata that are made anew, and devices that become members as the pool grows. What the tools
//! do is theirs; what the module and dm-raid do is a model of them (failure.h, record.h, grow.h,
//! mirror.rs).

use std::collections::HashSet;

use fusion_format::superblock::Superblock;
use fusion_format::{MemberState, Record};

use crate::assemble::{Assembled, FoundMember, FoundPool, FoundSlice};
use crate::mirror::{RaidSuper, good_legs};
use crate::testing::{found_pool, label};

const LEGS: usize = 3;

/// The metadata, as a slice has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Metadata {
    generation: u64,
    states: Vec<MemberState>,
    /// Counts what users were told is durable.
    version: u64,
}

/// A pool's members, whether they are there or not, and devices that are to be members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// How many members there are by each label, and whether it says *creating*.
    labels: Vec<(usize, bool)>,
    records: Vec<Option<Record>>,
    slices: Vec<Metadata>,
    raid: Vec<RaidSuper>,
    /// What users were told.
    version: u64,
    /// How many starts were cut short.
    cuts: usize,
}

/// Where a start, or what comes after it, is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Mirror,
    Commit,
    /// So many members have recorded it.
    Records(usize),
    /// While a slice is made anew.
    Slice,
    /// So many labels say that the pool has grown.
    Labels(usize),
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A member, and its slice.
    Fails(usize),
    /// A slice alone: dm-raid does not use it any more, and nobody else knows.
    SliceFails(usize),
    /// A member that is out is used again, and its slice is made anew (slices.rs).
    Returns(usize),
    /// One that was returning has all that belongs there.
    Arrives(usize),
    /// All devices that are to be members, and are there, are.
    Grows,
}

impl World {
    fn new(members: usize) -> Self {
        let metadata = Metadata {
            generation: 1,
            states: vec![MemberState::Ok; members],
            version: 0,
        };
        let record = Record {
            generation: 1,
            states: metadata.states.clone(),
        };
        Self {
            labels: vec![(members, false); members],
            records: vec![Some(record); members],
            slices: vec![metadata; LEGS],
            raid: vec![
                RaidSuper {
                    events: 1,
                    failed: 0,
                    recovered: true,
                };
                LEGS
            ],
            version: 0,
            cuts: 0,
        }
    }

    /// A pool of `members` that is to have `more`: their labels are written.
    fn growing(members: usize, more: usize) -> Self {
        let mut world = Self::new(members);
        world.labels.resize(more, (more, true));
        world.records.resize(more, None);
        world
    }

    /// The same with the smallest numbers that compare alike: there are only so many.
    fn normal(&self) -> Self {
        let mut world = self.clone();
        let rank = |all: Vec<u64>| {
            let mut all = all;
            all.sort_unstable();
            all.dedup();
            move |value: u64| 1 + all.partition_point(|&other| other < value) as u64
        };
        let records = world.records.iter().flatten();
        let generations = records.map(|record| record.generation);
        let generation = rank(
            generations
                .chain(world.slices.iter().map(|slice| slice.generation))
                .collect(),
        );
        let version = rank(
            (world.slices.iter().map(|slice| slice.version))
                .chain([world.version])
                .collect(),
        );
        let events = rank(world.raid.iter().map(|raid| raid.events).collect());
        for record in world.records.iter_mut().flatten() {
            record.generation = generation(record.generation);
        }
        for slice in &mut world.slices {
            slice.generation = generation(slice.generation);
            slice.version = version(slice.version);
        }
        for raid in &mut world.raid {
            raid.events = events(raid.events);
        }
        world.version = version(world.version);
        world
    }

    fn found(&self, there: u32) -> FoundPool {
        let mut pool = found_pool();
        pool.members = pool
            .members
            .into_iter()
            .zip(&self.labels)
            .enumerate()
            .filter(|(index, _)| there >> index & 1 == 1)
            .map(|(index, (mut member, &(count, creating)))| {
                member.label.members = u16::try_from(count).unwrap();
                member.label.creating = creating;
                FoundMember {
                    record: self.records[index].clone(),
                    slice: (index < LEGS).then(|| self.slice(index)),
                    ..member
                }
            })
            .collect();
        pool
    }

    /// What the tools read of a slice.
    fn slice(&self, leg: usize) -> FoundSlice {
        let metadata = &self.slices[leg];
        let states = metadata.states.iter().copied();
        FoundSlice {
            raid: Some(self.raid[leg].clone()),
            superblock: Some(Superblock {
                pool_uuid: found_pool().uuid,
                transaction_id: metadata.version,
                members: u16::try_from(metadata.states.len()).unwrap(),
                spares: 1,
                block_sectors: 128,
                states_generation: metadata.generation,
                member: (0..)
                    .map(|index| label(index).member_uuid)
                    .zip(states)
                    .collect(),
            }),
        }
    }

    /// dm-raid starts on the legs that are there, and reads the good ones, which these are.
    /// Those that are not it begins to rebuild.
    fn mirror(&mut self, pool: &Assembled) -> Vec<usize> {
        let there = |leg: &usize| pool.legs[*leg].is_some();
        let supers: Vec<(usize, Option<RaidSuper>)> = (0..LEGS)
            .filter(there)
            .map(|leg| (leg, Some(self.raid[leg].clone())))
            .collect();
        let good = good_legs(&supers);
        if good.is_empty() {
            return good;
        }
        let events = supers
            .iter()
            .flat_map(|(_, found)| found)
            .map(|found| found.events);
        let after = RaidSuper {
            events: events.max().unwrap_or(0) + 1,
            failed: (0..LEGS)
                .filter(|leg| !there(leg))
                .fold(0, |mask, leg| mask | 1 << leg),
            recovered: true,
        };
        for leg in (0..LEGS).filter(there) {
            self.raid[leg] = RaidSuper {
                recovered: good.contains(&leg),
                ..after.clone()
            };
        }
        // equalise() of mirror.rs
        let newest = good
            .iter()
            .map(|&leg| self.slices[leg].clone())
            .max_by_key(|slice| (slice.generation, slice.version));
        for &leg in &good {
            self.slices[leg].clone_from(newest.as_ref().unwrap());
        }
        good
    }

    /// A change of states: the commit, then the records of those that are used and `there`.
    fn record(&mut self, legs: &[usize], metadata: &Metadata, there: u32, cut: Cut) -> bool {
        for &leg in legs {
            self.slices[leg].clone_from(metadata);
        }
        let used: Vec<usize> = (0..metadata.states.len())
            .filter(|&index| there >> index & 1 == 1 && metadata.states[index].is_used())
            .collect();
        let count = match cut {
            Cut::Commit => return false,
            Cut::Records(count) => count,
            _ => used.len(),
        };
        for &index in used.iter().take(count) {
            self.records[index] = Some(Record {
                generation: metadata.generation,
                states: metadata.states.clone(),
            });
        }
        count >= used.len()
    }

    /// The mirror, of `legs`, has another one, which it has begun to copy to.
    fn slice_anew(&mut self, leg: usize, legs: &[usize]) {
        for &other in legs {
            self.raid[other].events += 1;
            self.raid[other].failed &= !(1 << leg);
        }
        self.raid[leg] = RaidSuper {
            recovered: false,
            ..self.raid[legs[0]].clone()
        };
    }

    /// As repair_labels() of start.rs.
    fn repair_labels(&mut self, pool: &Assembled) {
        for (index, member) in pool.members.iter().enumerate() {
            if member.is_some() {
                self.labels[index] = (pool.label.members.into(), false);
            }
        }
    }

    /// What becomes of a start with the members `there`; the second value says whether it
    /// served users. `event`: what happens to a member then.
    fn start(&self, parity: usize, there: u32, event: Option<Event>, cut: Cut) -> (Self, bool) {
        let mut world = self.clone();
        let found = world.found(there);
        if found.creating() {
            return (world, false);
        }
        let Ok(pool) = found.assemble(false) else {
            return (world, false);
        };
        world.repair_labels(&pool);
        let mut legs = world.mirror(&pool);
        let Some(&first) = legs.first() else {
            return (world, false);
        };
        let mut metadata = world.slices[first].clone();
        if cut == Cut::Mirror
            || metadata.generation < found.record().unwrap().generation
            || metadata.states.len() != pool.members.len()
        {
            return (world, false);
        }
        let seen = found.members.iter().flat_map(|member| &member.record);
        let seen = seen.map(|record| record.generation).max().unwrap();
        if metadata.generation < seen {
            metadata.generation = seen + 1;
        }
        for index in 0..metadata.states.len() {
            if there >> index & 1 == 0 && metadata.states[index].is_used() {
                metadata.states[index] = MemberState::Missing;
                metadata.generation += 1;
            }
        }
        let out = |metadata: &Metadata| {
            let states = metadata.states.iter();
            states.filter(|&&state| state != MemberState::Ok).count()
        };
        if out(&metadata) > parity {
            return (world, false);
        }
        let cut_first = if event.is_none() { cut } else { Cut::Never };
        if !world.record(&legs, &metadata, there, cut_first) {
            return (world, false);
        }
        assert_eq!(
            metadata.version, world.version,
            "old metadata serves users: {there:b} of {self:?}"
        );
        let lost = match event {
            Some(Event::Fails(lost) | Event::SliceFails(lost)) => Some(lost),
            _ => None,
        };
        let there_legs = (0..LEGS).filter(|&leg| pool.legs[leg].is_some() && lost != Some(leg));
        let mut there_legs: Vec<usize> = there_legs.collect();
        if let Some(lost) = lost {
            legs.retain(|&leg| leg != lost);
            if legs.is_empty() {
                // dm-raid does not fail the last: nothing can be recorded.
                return (world, false);
            }
            for &leg in &there_legs {
                world.raid[leg].events += 1;
                world.raid[leg].failed |= u64::from(lost < LEGS) << lost;
            }
        }
        if let Some((member, state)) = change(event, &metadata.states) {
            // One that is returning is one of those that are not OK already.
            let more = usize::from(metadata.states[member] == MemberState::Ok);
            if state == MemberState::Failed && out(&metadata) + more > parity {
                return (world, false);
            }
            metadata.states[member] = state;
            metadata.generation += 1;
            if !world.record(&legs, &metadata, there, cut) {
                return (world, false);
            }
        } else if event == Some(Event::Grows) {
            let devices = world.labels.len();
            if metadata.states.len() == devices || out(&metadata) > 0 {
                return (world, false);
            }
            metadata.states.resize(devices, MemberState::Ok);
            metadata.generation += 1;
            if !world.record(&legs, &metadata, there, cut) {
                return (world, false);
            }
            let count = match cut {
                Cut::Labels(count) => count,
                _ => devices,
            };
            world.labels[..count].fill((devices, false));
            if count < devices {
                return (world, false);
            }
        } else if !matches!(event, None | Some(Event::SliceFails(_))) {
            return (world, false);
        }
        if let Some(Event::Returns(leg @ 0..LEGS)) = event
            && !there_legs.contains(&leg)
        {
            world.slice_anew(leg, &there_legs);
            if cut == Cut::Slice {
                return (world, false);
            }
            there_legs.push(leg);
        }
        metadata.version += 1;
        world.version = metadata.version;
        for leg in there_legs {
            world.slices[leg].clone_from(&metadata);
            world.raid[leg].recovered = true;
        }
        (world, true)
    }
}

/// The member whose state `event` changes, from those in `states`, and how.
fn change(event: Option<Event>, states: &[MemberState]) -> Option<(usize, MemberState)> {
    match event? {
        Event::Fails(member) if states.get(member)?.is_used() => {
            Some((member, MemberState::Failed))
        }
        Event::Returns(member) if !states.get(member)?.is_used() => {
            Some((member, MemberState::Returning))
        }
        Event::Arrives(member) if *states.get(member)? == MemberState::Returning => {
            Some((member, MemberState::Ok))
        }
        _ => None,
    }
}

/// All worlds that one can come to in so many steps; how many there are.
fn enumerate(world: &World, parity: usize, steps: usize) -> usize {
    let members = world.labels.len();
    let all = (1u32 << members) - 1;
    let mut cuts = vec![Cut::Mirror, Cut::Commit, Cut::Slice, Cut::Never];
    cuts.extend((0..members).map(Cut::Records));
    cuts.extend((0..members).map(Cut::Labels));
    let mut seen = HashSet::from([world.normal()]);
    let mut last: Vec<World> = seen.iter().cloned().collect();
    for _ in 0..steps {
        let mut next = Vec::new();
        for world in &last {
            for there in 1..=all {
                let is_there = |index: &usize| there >> index & 1 == 1;
                let of_members = (0..members).filter(is_there).flat_map(|member| {
                    [
                        Event::Fails(member),
                        Event::Returns(member),
                        Event::Arrives(member),
                    ]
                });
                let of_slices = (0..LEGS).filter(is_there).map(Event::SliceFails);
                let grows = (there == all).then_some(Event::Grows);
                let events = of_members.chain(of_slices).chain(grows);
                let events = events.map(Some).chain([None]);
                for event in events {
                    for &cut in &cuts {
                        let labels = matches!(cut, Cut::Labels(_));
                        let same = match event {
                            Some(Event::Grows) => matches!(cut, Cut::Mirror | Cut::Slice),
                            _ if labels => true,
                            Some(Event::SliceFails(_)) => cut != Cut::Never,
                            Some(Event::Returns(_)) => cut == Cut::Mirror,
                            Some(_) => matches!(cut, Cut::Mirror | Cut::Slice),
                            None => cut == Cut::Slice,
                        };
                        if same {
                            continue;
                        }
                        let (mut after, _) = world.start(parity, there, event, cut);
                        if cut != Cut::Never && after != *world {
                            // More than one is as bad as any number.
                            after.cuts = (world.cuts + 1).min(2);
                        }
                        let after = after.normal();
                        if seen.insert(after.clone()) {
                            next.push(after);
                        }
                    }
                }
            }
        }
        // When all are there again the pool starts. If several starts were cut short, each
        // without other members, what they left may contradict each other.
        for world in next.iter().filter(|world| world.cuts < 2) {
            let (_, serves) = world.start(parity, all, None, Cut::Never);
            assert!(serves, "a pool with all its members is lost: {world:?}");
        }
        last = next;
    }
    // No start of what was seen last brings back old metadata, either.
    for world in &last {
        for there in 1..=all {
            world.start(parity, there, None, Cut::Never);
        }
    }
    seen.len()
}

#[test]
fn four_members() {
    let worlds = enumerate(&World::new(4), 1, 3);
    assert!(worlds > 1000, "{worlds}");
}

#[test]
fn four_members_that_become_five() {
    let worlds = enumerate(&World::growing(4, 5), 1, 2);
    assert!(worlds > 1000, "{worlds}");
}

#[test]
fn five_members() {
    let worlds = enumerate(&World::new(5), 2, 2);
    assert!(worlds > 1000, "{worlds}");
}

/// With `cargo test -- --ignored`: it takes minutes.
#[test]
#[ignore = "long"]
fn four_and_five_members_once_more() {
    enumerate(&World::new(4), 1, 4);
    enumerate(&World::new(5), 2, 3);
    enumerate(&World::growing(4, 5), 1, 3);
}
