// SPDX-License-Identifier: GPL-2.0-only
//! What of a look at a pool matters for what is told.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::status::Mode;
use crate::top::look::Look;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenMember {
    pub device: Option<String>,
    pub state: String,
}

impl SeenMember {
    pub fn is_ok(&self) -> bool {
        self.state == "ok"
    }

    pub fn is_returning(&self) -> bool {
        self.state == "returning"
    }

    /// It has failed, or is missing; `unknown` says nothing.
    pub fn is_out(&self) -> bool {
        matches!(
            self.state.as_str(),
            "failing" | "failed" | "kept" | "missing"
        )
    }
}

/// A pool, that was not suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub name: String,
    pub uuid: Uuid,
    pub mode: Mode,
    pub needs_check: bool,
    pub members: Vec<SeenMember>,
    /// A letter for each leg of the metadata's mirror.
    pub mirror: Option<String>,
    pub low_water: bool,
    /// Blocks of a stripe that may be nowhere.
    pub degraded: u64,
    pub rebuild_todo: u64,
    /// Stripes, since the pool was started.
    pub rebuilt: u64,
    /// The same, of stripes and blocks.
    pub mismatches: u64,
    /// So many members it had, while it grows; 0: it does not.
    #[serde(default)]
    pub grows_from: u64,
}

impl Seen {
    pub fn new(look: &Look) -> Self {
        let status = look.status.as_ref();
        let counter = |name| status.map_or(0, |status| status.counter(name));
        let members = look.members.iter();
        Self {
            name: look.pool.name.clone(),
            uuid: look.pool.uuid,
            mode: status.map_or(Mode::Failed, |status| status.mode),
            needs_check: status.is_some_and(|status| status.needs_check),
            members: members
                .map(|member| SeenMember {
                    device: member.device.clone(),
                    state: member.state.clone(),
                })
                .collect(),
            mirror: look.mirror.clone(),
            low_water: counter("low_water") > 0,
            degraded: counter("degraded"),
            rebuild_todo: counter("rebuild_todo"),
            rebuilt: counter("rebuilt"),
            mismatches: counter("scrub_mismatches"),
            grows_from: counter("grows_from"),
        }
    }

    /// A mirror that is copied to is not what it should be, but nothing has failed.
    pub fn failed_legs(&self) -> Vec<usize> {
        let legs = self.mirror.as_deref().unwrap_or_default().chars();
        legs.enumerate()
            .filter(|(_, letter)| matches!(letter, 'D' | '-'))
            .map(|(leg, _)| leg)
            .collect()
    }
}
