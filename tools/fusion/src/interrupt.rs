// SPDX-License-Identifier: GPL-2.0-only
//! Interrupting a change between two of its steps.
//!
//! SIGINT, SIGTERM and SIGHUP are held back; whoever takes steps that must not be left
//! half done looks for them in between and then undoes what it did. They are blocked
//! rather than caught, so that no step is cut short in the middle.

use std::mem::MaybeUninit;
use std::ptr;

use anyhow::{Result, bail};

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// From here on signals wait. Called before any thread is made.
pub fn defer() {
    mask(libc::SIG_BLOCK);
}

/// What is left may be cut short: a signal that has waited ends it now.
pub fn allow() {
    mask(libc::SIG_UNBLOCK);
}

/// Waits for one of those that are held back, and takes it.
pub fn take() {
    let (set, mut signal) = (set(), 0);
    // SAFETY: a set, and where to put the signal. It fails with a wrong set alone.
    unsafe { libc::sigwait(&raw const set, &raw mut signal) };
}

fn mask(how: libc::c_int) {
    let set = set();
    // SAFETY: a set, and nowhere to put the old one.
    unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
}

fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set that the others use.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Is a signal waiting?
pub fn waiting() -> bool {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigpending initialises the set if it succeeds.
    unsafe {
        libc::sigpending(set.as_mut_ptr()) == 0
            && SIGNALS
                .iter()
                .any(|&signal| libc::sigismember(set.as_ptr(), signal) == 1)
    }
}

/// An error if a signal is waiting.
pub fn check() -> Result<()> {
    if waiting() {
        bail!("interrupted: what had been done was undone");
    }
    Ok(())
}
