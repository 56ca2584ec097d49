// SPDX-License-Identifier: GPL-2.0-only
//! What is told of. Names are those of `mdadm --monitor` where it has them, so that programs made
//! for that need not be changed. Names and ids keep their meanings; others may be added.

use serde::Serialize;
use uuid::{Uuid, uuid};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Kind {
    /// A pool is running that was not before.
    NewArray,
    /// It is not running any more.
    DeviceDisappeared,
    /// It was degraded when it was first seen.
    DegradedArray,
    /// A member has failed, or is missing.
    Fail,
    /// A member that was out is used again, and does not have all that belongs there.
    Returning,
    /// It has.
    SpareActive,
    RebuildStarted,
    RebuildFinished,
    /// The pool has more members, and what is in it is being moved.
    GrowthStarted,
    /// It is over all members.
    GrowthFinished,
    /// A leg of the metadata's mirror has failed.
    MetadataFail,
    MetadataActive,
    /// A scrub has found replicas that differ, or parity that does not fit.
    ScrubMismatch,
    LowSpace,
    OutOfSpace,
    ReadOnly,
    PoolFailed,
    /// The pool takes writes again.
    ReadWrite,
    NotAnswering,
    Answering,
    TestMessage,
}

/// As syslog has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Critical = 2,
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

impl Kind {
    #[cfg(test)]
    pub const ALL: [Self; 21] = [
        Self::NewArray,
        Self::DeviceDisappeared,
        Self::DegradedArray,
        Self::Fail,
        Self::Returning,
        Self::SpareActive,
        Self::RebuildStarted,
        Self::RebuildFinished,
        Self::GrowthStarted,
        Self::GrowthFinished,
        Self::MetadataFail,
        Self::MetadataActive,
        Self::ScrubMismatch,
        Self::LowSpace,
        Self::OutOfSpace,
        Self::ReadOnly,
        Self::PoolFailed,
        Self::ReadWrite,
        Self::NotAnswering,
        Self::Answering,
        Self::TestMessage,
    ];

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The journal's MESSAGE_ID.
    pub fn id(self) -> Uuid {
        match self {
            Self::NewArray => uuid!("5e1b41fdb9e2460bb562309ec5e6a01e"),
            Self::DeviceDisappeared => uuid!("213d704c58ad4f7089d360c969dd2f60"),
            Self::DegradedArray => uuid!("ead7d103f2024c1f822d7eb235436734"),
            Self::Fail => uuid!("e48de2cc7d5c470da6173674da45eb8f"),
            Self::Returning => uuid!("9ad0ef73a9d34a7d8b5c9f7cfe871693"),
            Self::SpareActive => uuid!("b5d1eabeb2b34d57b4b2e783c6bf3485"),
            Self::RebuildStarted => uuid!("bfb1d3d1091e4265b608cb3d8ce3b953"),
            Self::RebuildFinished => uuid!("677e2b301e2e41548ed08a17629c4056"),
            Self::GrowthStarted => uuid!("e9a4a4284c0d4ea7bc3fc1505591bdde"),
            Self::GrowthFinished => uuid!("24e37f0219d54a4581c0d6cdc5c029fb"),
            Self::MetadataFail => uuid!("ab8632c286ff484389b326cf696a649f"),
            Self::MetadataActive => uuid!("f9ea437aecd349a799350177e6276e50"),
            Self::ScrubMismatch => uuid!("c9b7f01d5c724cb0a84190b239acc3a8"),
            Self::LowSpace => uuid!("4d50ef107fe24397ba3fed550f38d43d"),
            Self::OutOfSpace => uuid!("dc69d6b9807443799df7a2ad12516b15"),
            Self::ReadOnly => uuid!("d735035d9f1b4494ba5ec9d81ea4b2ac"),
            Self::PoolFailed => uuid!("0980eb4672004d5e9da3001f37ff27d8"),
            Self::ReadWrite => uuid!("186d061581b84f1a89077f351555cc33"),
            Self::NotAnswering => uuid!("9fda9bd9e0a24ec4ae1dd288548643b8"),
            Self::Answering => uuid!("888b8506c7594dd1abd796c965ccaf75"),
            Self::TestMessage => uuid!("f9f4d68d24c24f35a55fbc3a1f3d308a"),
        }
    }

    pub fn priority(self) -> Priority {
        match self {
            Self::OutOfSpace | Self::ReadOnly | Self::PoolFailed => Priority::Critical,
            Self::Fail | Self::MetadataFail | Self::ScrubMismatch | Self::NotAnswering => {
                Priority::Error
            }
            Self::DegradedArray | Self::LowSpace => Priority::Warning,
            Self::DeviceDisappeared
            | Self::Returning
            | Self::SpareActive
            | Self::RebuildStarted
            | Self::RebuildFinished
            | Self::GrowthStarted
            | Self::GrowthFinished
            | Self::MetadataActive
            | Self::ReadWrite
            | Self::Answering
            | Self::TestMessage => Priority::Notice,
            Self::NewArray => Priority::Info,
        }
    }

    /// What somebody has to do something about.
    pub fn is_mailed(self) -> bool {
        self.priority() <= Priority::Warning || self == Self::TestMessage
    }
}

/// A member of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    pub index: usize,
    /// None: it is missing.
    pub device: Option<String>,
}

impl Member {
    /// How programs are told of it.
    pub fn argument(&self) -> String {
        self.device
            .clone()
            .unwrap_or_else(|| self.index.to_string())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub event: Kind,
    pub pool: String,
    pub uuid: Uuid,
    pub member: Option<Member>,
    /// A sentence.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_different_and_names_those_of_json() {
        let ids: HashSet<Uuid> = Kind::ALL.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            let name = serde_json::to_string(&kind).unwrap();
            assert_eq!(name, format!("\"{}\"", kind.name()));
        }
    }

    #[test]
    fn what_is_mailed() {
        assert!(Kind::Fail.is_mailed() && Kind::DegradedArray.is_mailed());
        assert!(Kind::TestMessage.is_mailed());
        assert!(!Kind::RebuildFinished.is_mailed() && !Kind::NewArray.is_mailed());
    }
}
