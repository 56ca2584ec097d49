// SPDX-License-Identifier: GPL-2.0-only
//! What has happened to a pool between two looks, and what is to be said of one that is seen for
//! the first time.

use uuid::Uuid;

use crate::running::Running;
use crate::status::Mode;

use super::event::{Event, Kind, Member};
use super::seen::{Seen, SeenMember};

/// Of the pool as such.
fn of_pool(name: &str, uuid: Uuid, event: Kind, message: String) -> Event {
    Event {
        event,
        pool: name.to_owned(),
        uuid,
        member: None,
        message,
    }
}

fn event(pool: &Seen, kind: Kind, message: String) -> Event {
    of_pool(&pool.name, pool.uuid, kind, message)
}

fn of_member(pool: &Seen, index: usize, kind: Kind, what: &str) -> Event {
    let device = pool.members[index].device.clone();
    let message = format!("{} of pool {} {what}", named(pool, index), pool.name);
    Event {
        member: Some(Member { index, device }),
        ..event(pool, kind, message)
    }
}

fn named(pool: &Seen, index: usize) -> String {
    match &pool.members[index].device {
        Some(device) => format!("member {index}, {device},"),
        None => format!("member {index}"),
    }
}

/// It is not running any more.
pub fn gone(pool: &Seen) -> Event {
    let message = format!(
        "pool {} is not running any more: 'fusion pool start {}' starts it",
        pool.name, pool.name
    );
    event(pool, Kind::DeviceDisappeared, message)
}

pub fn test(pool: &Seen) -> Event {
    let message = format!("pool {}: this is a test, nothing has happened", pool.name);
    event(pool, Kind::TestMessage, message)
}

/// It may never have been seen.
pub fn not_answering(pool: &Running, seconds: u64) -> Event {
    let message = format!(
        "pool {} has not said for {seconds} s how it is: see the kernel's log",
        pool.name
    );
    of_pool(&pool.name, pool.uuid, Kind::NotAnswering, message)
}

pub fn answering(pool: &Running) -> Event {
    let message = format!("pool {} says again how it is", pool.name);
    of_pool(&pool.name, pool.uuid, Kind::Answering, message)
}

pub fn new(pool: &Seen) -> Event {
    let message = format!("pool {} is running", pool.name);
    event(pool, Kind::NewArray, message)
}

/// What is not as it should be, of a pool that nothing was known of.
pub fn standing(pool: &Seen) -> Vec<Event> {
    let mut events = Vec::new();
    events.extend(degraded(pool));
    events.extend(space(None, pool));
    events.extend(mode(None, pool));
    events
}

fn degraded(pool: &Seen) -> Option<Event> {
    let mut lacks: Vec<String> = (pool.members.iter().enumerate())
        .filter(|(_, member)| member.is_out() || member.is_returning())
        .map(|(index, member)| {
            let named = named(pool, index);
            format!("{} is {}", named.trim_end_matches(','), member.state)
        })
        .collect();
    let legs = pool.failed_legs();
    if !legs.is_empty() {
        lacks.push(format!("the metadata lacks {} of its slices", legs.len()));
    }
    if lacks.is_empty() {
        return None;
    }
    let rest = if pool.rebuild_todo > 0 {
        format!("; {} stripes are to be rebuilt", pool.rebuild_todo)
    } else {
        String::new()
    };
    let message = format!(
        "pool {} is degraded: {}{rest}: 'fusion device replace' or 'readd' mends it",
        pool.name,
        lacks.join(", ")
    );
    Some(event(pool, Kind::DegradedArray, message))
}

/// What happened, in the order in which it must have.
pub fn since(before: &Seen, now: &Seen) -> Vec<Event> {
    let mut events = Vec::new();
    for index in 0..now.members.len() {
        events.extend(member_out(before.members.get(index), now, index));
    }
    events.extend(metadata(before, now));
    events.extend(mode(Some(before), now));
    events.extend(space(Some(before), now));
    events.extend(rebuild(before, now));
    events.extend(growth(before, now));
    for index in 0..now.members.len() {
        events.extend(member_whole(before.members.get(index), now, index));
    }
    if grown(before.mismatches, now.mismatches) {
        let message = format!(
            "a scrub of pool {} has found parity that does not fit, or replicas that differ: \
             restore what matters from a backup, then run 'fusion scrub --repair {}'",
            now.name, now.name
        );
        events.push(event(now, Kind::ScrubMismatch, message));
    }
    events
}

/// Counters begin anew with the pool.
fn grown(before: u64, now: u64) -> bool {
    now > before || (now < before && now > 0)
}

fn member_out(before: Option<&SeenMember>, now: &Seen, index: usize) -> Option<Event> {
    let member = &now.members[index];
    let was_out = before.is_some_and(SeenMember::is_out);
    // another device has come, and gone, between two looks
    let same = before.is_some_and(|before| before.device == member.device);
    if member.is_out() && !(was_out && (same || member.device.is_none())) {
        let what = match member.state.as_str() {
            "missing" => "is missing: attach it, and use it again with 'fusion device readd'",
            "kept" => {
                "has failed, but cannot be done without: what it fails is answered with errors"
            }
            _ => "has failed: it is not used any more; 'fusion device replace' puts another there",
        };
        return Some(of_member(now, index, Kind::Fail, what));
    }
    if member.is_returning() && !before.is_some_and(SeenMember::is_returning) {
        let what = "is used again: what belongs there is being written";
        return Some(of_member(now, index, Kind::Returning, what));
    }
    None
}

fn member_whole(before: Option<&SeenMember>, now: &Seen, index: usize) -> Option<Event> {
    let was = before.is_some_and(|before| before.is_out() || before.is_returning());
    if !was || !now.members[index].is_ok() {
        return None;
    }
    let what = "has all that belongs there";
    Some(of_member(now, index, Kind::SpareActive, what))
}

fn metadata(before: &Seen, now: &Seen) -> Vec<Event> {
    let (was, is) = (before.failed_legs(), now.failed_legs());
    let mut events = Vec::new();
    if is.iter().any(|leg| !was.contains(leg)) {
        let message = format!(
            "the metadata of pool {} lacks {} of its slices: 'fusion device rebuild {}' makes them \
             anew on members that are used",
            now.name,
            is.len(),
            now.name
        );
        events.push(event(now, Kind::MetadataFail, message));
    }
    if !was.is_empty() && is.is_empty() {
        let message = format!("the metadata of pool {} has all its slices again", now.name);
        events.push(event(now, Kind::MetadataActive, message));
    }
    events
}

fn mode(before: Option<&Seen>, now: &Seen) -> Option<Event> {
    if before.map_or(Mode::ReadWrite, |before| before.mode) == now.mode {
        return None;
    }
    let name = &now.name;
    let (kind, message) = match now.mode {
        Mode::ReadWrite => (Kind::ReadWrite, format!("pool {name} takes writes again")),
        Mode::OutOfSpace => (
            Kind::OutOfSpace,
            format!(
                "pool {name} has no space for new blocks: discard or delete what is not needed"
            ),
        ),
        Mode::ReadOnly if now.needs_check => (
            Kind::ReadOnly,
            format!(
                "pool {name} is read-only, as its metadata could not be changed: stop it, and see \
                 what 'fusion check {name}' says"
            ),
        ),
        Mode::ReadOnly => (
            Kind::ReadOnly,
            format!("pool {name} is read-only: the kernel's log says why"),
        ),
        Mode::Failed => (
            Kind::PoolFailed,
            format!("pool {name} has failed: the kernel's log says why"),
        ),
    };
    Some(event(now, kind, message))
}

fn space(before: Option<&Seen>, now: &Seen) -> Option<Event> {
    if !now.low_water || before.is_some_and(|before| before.low_water) {
        return None;
    }
    let message = format!(
        "pool {} has little space left: discard or delete what is not needed, before writes wait \
         or fail",
        now.name
    );
    Some(event(now, Kind::LowSpace, message))
}

/// It may have begun and ended between two looks.
fn rebuild(before: &Seen, now: &Seen) -> Vec<Event> {
    let (was, is) = (before.rebuild_todo > 0, now.rebuild_todo > 0);
    let begun = !was && (is || grown(before.rebuilt, now.rebuilt));
    let mut events = Vec::new();
    if begun {
        let what = if is {
            format!(": {} stripes are to be looked at", now.rebuild_todo)
        } else {
            String::new()
        };
        let message = format!("the rebuild of pool {} has begun{what}", now.name);
        events.push(event(now, Kind::RebuildStarted, message));
    }
    if (was || begun) && !is {
        let rest = if now.degraded > 0 {
            "; it can do without fewer members than when all are there"
        } else {
            ""
        };
        let message = format!("the rebuild of pool {} has ended{rest}", now.name);
        events.push(event(now, Kind::RebuildFinished, message));
    }
    events
}

/// It may have begun and ended between two looks, too. What a pool in fail mode does not say is
/// nothing that happened.
fn growth(before: &Seen, now: &Seen) -> Vec<Event> {
    let mut events = Vec::new();
    if now.mode == Mode::Failed {
        return events;
    }
    let (was, is) = (before.grows_from > 0, now.grows_from > 0);
    let count = now.members.len();
    let begun = count > before.members.len();
    if begun {
        let message = format!(
            "pool {} has begun to grow: it has {count} members, and had {}",
            now.name,
            before.members.len()
        );
        events.push(event(now, Kind::GrowthStarted, message));
    }
    if (was || begun) && !is {
        let message = format!("pool {} has grown to {count} members", now.name);
        events.push(event(now, Kind::GrowthFinished, message));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Seen {
        let members = (0..8).map(|i| SeenMember {
            device: Some(format!("/dev/d{i}")),
            state: "ok".into(),
        });
        Seen {
            name: "tank".into(),
            uuid: Uuid::from_u128(7),
            mode: Mode::ReadWrite,
            needs_check: false,
            members: members.collect(),
            mirror: Some("AAA".into()),
            low_water: false,
            degraded: 0,
            rebuild_todo: 0,
            rebuilt: 0,
            mismatches: 0,
            grows_from: 0,
        }
    }

    fn with(change: impl FnOnce(&mut Seen)) -> Seen {
        let mut pool = pool();
        change(&mut pool);
        pool
    }

    fn state(index: usize, state: &str) -> Seen {
        with(|pool| pool.members[index].state = state.into())
    }

    fn kinds(events: &[Event]) -> Vec<Kind> {
        events.iter().map(|event| event.event).collect()
    }

    fn between(before: &Seen, now: &Seen) -> Vec<Kind> {
        kinds(&since(before, now))
    }

    #[test]
    fn a_member_fails_once() {
        let states = ["ok", "failing", "failed", "failed", "missing"].map(|text| state(3, text));
        let told: Vec<Vec<Kind>> = states
            .windows(2)
            .map(|two| between(&two[0], &two[1]))
            .collect();
        assert_eq!(told, [vec![Kind::Fail], vec![], vec![], vec![]]);
        let event = since(&pool(), &state(3, "failed")).remove(0);
        assert_eq!(event.member.as_ref().unwrap().argument(), "/dev/d3");
        assert!(
            event
                .message
                .starts_with("member 3, /dev/d3, of pool tank has failed")
        );
        // what a pool in fail mode does not say is nothing that happened to its members
        assert_eq!(between(&pool(), &state(3, "unknown")), []);
    }

    #[test]
    fn a_member_comes_back() {
        let returning = with(|pool| {
            pool.members[3].state = "returning".into();
            pool.rebuild_todo = 9;
        });
        assert_eq!(
            between(&state(3, "failed"), &returning),
            [Kind::Returning, Kind::RebuildStarted]
        );
        assert_eq!(
            between(&returning, &with(|pool| pool.rebuilt = 9)),
            [Kind::RebuildFinished, Kind::SpareActive]
        );
        // or so quickly that nobody saw it
        assert_eq!(
            between(&state(3, "failed"), &with(|pool| pool.rebuilt = 9)),
            [
                Kind::RebuildStarted,
                Kind::RebuildFinished,
                Kind::SpareActive
            ]
        );
        // the one that has come fails, too
        let other = with(|pool| {
            pool.members[3] = SeenMember {
                device: Some("/dev/new".into()),
                state: "failed".into(),
            }
        });
        assert_eq!(between(&state(3, "failed"), &other), [Kind::Fail]);
    }

    #[test]
    fn a_rebuild() {
        let todo = |todo, rebuilt| {
            with(|pool| {
                pool.rebuild_todo = todo;
                pool.rebuilt = rebuilt;
            })
        };
        assert_eq!(between(&todo(0, 3), &todo(9, 3)), [Kind::RebuildStarted]);
        assert_eq!(between(&todo(9, 3), &todo(2, 10)), []);
        assert_eq!(between(&todo(2, 10), &todo(0, 12)), [Kind::RebuildFinished]);
        // the pool was started anew
        assert_eq!(between(&todo(0, 12), &todo(0, 0)), []);
        assert_eq!(
            between(&todo(0, 12), &todo(0, 1)),
            [Kind::RebuildStarted, Kind::RebuildFinished]
        );
    }

    #[test]
    fn a_pool_grows() {
        let nine = |grows_from| {
            with(|pool| {
                pool.members.push(SeenMember {
                    device: Some("/dev/d8".into()),
                    state: "ok".into(),
                });
                pool.grows_from = grows_from;
            })
        };
        let told = since(&pool(), &nine(8));
        assert_eq!(kinds(&told), [Kind::GrowthStarted]);
        assert!(told[0].message.ends_with("it has 9 members, and had 8"));
        assert_eq!(between(&nine(8), &nine(8)), []);
        assert_eq!(between(&nine(8), &nine(0)), [Kind::GrowthFinished]);
        assert_eq!(
            between(&pool(), &nine(0)),
            [Kind::GrowthStarted, Kind::GrowthFinished]
        );
        // It fails, and is started again.
        let mut failed = nine(0);
        failed.mode = Mode::Failed;
        assert_eq!(between(&nine(8), &failed), [Kind::PoolFailed]);
        assert_eq!(between(&failed, &nine(8)), [Kind::ReadWrite]);
    }

    #[test]
    fn the_pool_itself() {
        let mode = |mode| with(|pool| pool.mode = mode);
        for (now, kind) in [
            (mode(Mode::OutOfSpace), Kind::OutOfSpace),
            (mode(Mode::ReadOnly), Kind::ReadOnly),
            (mode(Mode::Failed), Kind::PoolFailed),
            (with(|pool| pool.low_water = true), Kind::LowSpace),
            (
                with(|pool| pool.mirror = Some("ADA".into())),
                Kind::MetadataFail,
            ),
            (with(|pool| pool.mismatches = 2), Kind::ScrubMismatch),
        ] {
            assert_eq!(between(&pool(), &now), [kind]);
            assert_eq!(between(&now, &now), []);
        }
        assert_eq!(between(&mode(Mode::OutOfSpace), &pool()), [Kind::ReadWrite]);
        let leg = with(|pool| pool.mirror = Some("ADA".into()));
        assert_eq!(between(&leg, &pool()), [Kind::MetadataActive]);
        // one that is being copied to has not failed
        let copying = with(|pool| pool.mirror = Some("AaA".into()));
        assert_eq!(between(&pool(), &copying), []);
    }

    #[test]
    fn what_is_said_at_first() {
        assert_eq!(standing(&pool()), []);
        let events = standing(&with(|pool| {
            pool.members[2].state = "missing".into();
            pool.members[2].device = None;
            pool.mirror = Some("AA-".into());
            pool.rebuild_todo = 5;
            pool.low_water = true;
            pool.mode = Mode::ReadOnly;
            pool.needs_check = true;
        }));
        assert_eq!(
            kinds(&events),
            [Kind::DegradedArray, Kind::LowSpace, Kind::ReadOnly]
        );
        assert_eq!(
            events[0].message,
            "pool tank is degraded: member 2 is missing, the metadata lacks 1 of its slices; 5 \
             stripes are to be rebuilt: 'fusion device replace' or 'readd' mends it"
        );
        assert!(events[2].message.contains("'fusion check tank'"));
    }
}
