// SPDX-License-Identifier: GPL-2.0-only
//! From the members that were found to a pool that can be started, or to the
//! reason why it cannot.

use std::path::PathBuf;

use anyhow::{Result, bail};
use fusion_format::Label;
use uuid::Uuid;

use crate::block;
use crate::devno::DevNo;

/// A device with a good label.
#[derive(Clone, Debug)]
pub struct FoundMember {
    pub path: PathBuf,
    pub dev: DevNo,
    pub sectors: u64,
    pub label: Label,
    /// The other copy of its label is damaged or old.
    pub differs: bool,
}

/// All devices whose labels name the same pool.
#[derive(Clone, Debug)]
pub struct FoundPool {
    pub uuid: Uuid,
    pub name: String,
    pub members: Vec<FoundMember>,
}

/// A pool with all its members.
#[derive(Clone, Debug)]
pub struct Assembled {
    pub uuid: Uuid,
    pub name: String,
    /// By index.
    pub members: Vec<FoundMember>,
    /// Members by leg of the metadata mirror; none: it is on a device of its own.
    pub legs: Vec<usize>,
    pub hot_spares: Vec<FoundMember>,
}

impl FoundPool {
    /// Its creation did not come to its end: no label says that it did.
    pub fn creating(&self) -> bool {
        self.members.iter().all(|member| member.label.creating)
    }

    /// Indexes that no device has.
    pub fn missing(&self) -> Vec<u16> {
        let count = self.members.first().map_or(0, |first| first.label.members);
        (0..count)
            .filter(|&index| {
                !self
                    .members
                    .iter()
                    .any(|member| member.label.index == Some(index))
            })
            .collect()
    }

    /// Checks that everything is there, once, and fits together.
    pub fn assemble(&self) -> Result<Assembled> {
        self.check_agreement()?;
        self.check_indexes()?;
        let (mut members, hot_spares): (Vec<FoundMember>, Vec<FoundMember>) = self
            .members
            .iter()
            .cloned()
            .partition(|member| member.label.index.is_some());
        members.sort_by_key(|member| member.label.index);
        let legs = self.legs(&members)?;
        Ok(Assembled {
            uuid: self.uuid,
            name: self.name.clone(),
            members,
            legs,
            hot_spares,
        })
    }

    /// Labels that disagree are of different times: one of them is stale.
    fn check_agreement(&self) -> Result<()> {
        let geometry = |label: &Label| {
            (
                (label.pool_name.clone(), label.created, label.block_sectors),
                (label.members, label.spares, label.legs),
                (label.data_offset_sectors, label.data_sectors),
            )
        };
        let agrees = |a: &FoundMember, b: &FoundMember| geometry(&a.label) == geometry(&b.label);
        for member in &self.members {
            let alike = self
                .members
                .iter()
                .filter(|other| agrees(member, other))
                .count();
            if alike * 2 <= self.members.len() && alike != self.members.len() {
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
        let missing = self.missing();
        if !missing.is_empty() {
            let indexes: Vec<String> = missing.iter().map(ToString::to_string).collect();
            bail!(
                "pool {} lacks its member{} {}: attach {} and try again (this version cannot start \
                 a pool with members missing)",
                self.name,
                if missing.len() == 1 { "" } else { "s" },
                indexes.join(", "),
                if missing.len() == 1 { "it" } else { "them" }
            );
        }
        Ok(())
    }

    fn legs(&self, members: &[FoundMember]) -> Result<Vec<usize>> {
        let count = members.first().map_or(0, |first| first.label.legs);
        (0..count)
            .map(|leg| {
                let found = members
                    .iter()
                    .position(|member| member.label.slice.leg == Some(leg));
                match found {
                    Some(index) => Ok(index),
                    None => bail!(
                        "no member of pool {} has slice {leg} of its metadata: its labels were \
                         changed by something else",
                        self.name
                    ),
                }
            })
            .collect()
    }
}

impl Assembled {
    /// What the labels of all members agree on.
    pub fn label(&self) -> &Label {
        &self.members[0].label
    }

    pub fn total_sectors(&self) -> u64 {
        self.label().data_sectors * self.members.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found_pool;

    #[test]
    fn complete() {
        let mut pool = found_pool();
        pool.members.reverse();
        let assembled = pool.assemble().unwrap();
        assert_eq!(assembled.members[5].label.index, Some(5));
        assert_eq!(assembled.legs, [0, 1, 2]);
        assert!(assembled.hot_spares.is_empty());
    }

    fn error_of(change: impl Fn(&mut FoundPool)) -> String {
        let mut pool = found_pool();
        change(&mut pool);
        pool.assemble().unwrap_err().to_string()
    }

    #[test]
    fn missing_members_are_named() {
        let error = error_of(|pool| {
            pool.members.remove(6);
            pool.members.remove(2);
        });
        assert!(
            error.contains("lacks its members 2, 6: attach them"),
            "{error}"
        );
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
    fn lost_slices_are_named() {
        let error = error_of(|pool| pool.members[1].label.slice.leg = None);
        assert!(error.contains("has slice 1"), "{error}");
    }
}
