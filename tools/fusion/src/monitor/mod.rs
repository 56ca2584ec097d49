// SPDX-License-Identifier: GPL-2.0-only
//! `fusion monitor`, or fusiond: tells what happens to running pools.
//!
//! `wait` wakes on device-mapper's events, `watch` decides whom to look at, `changes` says what
//! has happened between two looks, and `tell` brings it to the journal, a program, and mail.

pub mod changes;
pub mod event;
pub mod hook;
pub mod journal;
pub mod metrics;
pub mod saved;
pub mod seen;
pub mod tell;
pub mod wait;
pub mod watch;
