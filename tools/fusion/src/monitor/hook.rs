// SPDX-License-Identifier: GPL-2.0-only
//! Programs that are told, one after the other, each in its time: none is waited for by others than
//! those that come after it.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::journal;

/// What may wait to be told. More is nothing that anybody reads.
const WAITING: usize = 1024;

/// A program to be run, and what it reads.
pub struct Job {
    pub program: String,
    pub arguments: Vec<String>,
    pub input: String,
}

pub struct Hook {
    jobs: SyncSender<Job>,
    worker: JoinHandle<()>,
}

impl Hook {
    /// `patience`: after that a program is killed.
    pub fn new(patience: Duration) -> Self {
        let (jobs, queue) = mpsc::sync_channel::<Job>(WAITING);
        let worker = thread::spawn(move || {
            for job in queue {
                if let Err(error) = run(&job, patience) {
                    journal::remark(&format!("{error:#}"));
                }
            }
        });
        Self { jobs, worker }
    }

    pub fn tell(&self, job: Job) {
        let program = job.program.clone();
        if self.jobs.try_send(job).is_err() {
            journal::remark(&format!(
                "{program} is not told of this: it has not dealt with {WAITING} events before"
            ));
        }
    }

    /// Waits until all are told.
    pub fn finish(self) {
        drop(self.jobs);
        // It says itself what goes wrong.
        let _ = self.worker.join();
    }
}

fn run(job: &Job, patience: Duration) -> Result<()> {
    let Job {
        program, arguments, ..
    } = job;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        // What it makes is ended with it.
        .process_group(0)
        .spawn()
        .with_context(|| format!("{program} cannot be run"))?;
    let mut stdin = child.stdin.take();
    let input = job.input.clone();
    // It need not read it, or not now.
    thread::spawn(move || {
        if let Some(stdin) = &mut stdin {
            let _ = stdin.write_all(input.as_bytes());
        }
    });
    let status = wait(&mut child, patience)
        .with_context(|| format!("{program} cannot be waited for"))?
        .with_context(|| {
            format!(
                "{program} had not ended after {} s and was killed",
                patience.as_secs()
            )
        })?;
    if !status.success() {
        bail!("{program} has failed, {status}: an event may not have been told");
    }
    Ok(())
}

/// None: it took too long, and is killed.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: a child that has not been waited for, and no flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let ms = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: one pollfd.
    if unsafe { libc::poll(&raw mut poll, 1, ms) } > 0 {
        return child.wait().map(Some);
    }
    // SAFETY: its process group, which is there as long as it is not waited for.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str) -> Job {
        Job {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            input: "read this\n".into(),
        }
    }

    #[test]
    fn programs() {
        let soon = Duration::from_secs(30);
        run(&job("read a; [ \"$a\" = 'read this' ]"), soon).unwrap();
        run(&job("exec <&-"), soon).unwrap();
        let error = run(&job("exit 3"), soon).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let mut other = job("");
        other.program = "/nowhere/x".into();
        let error = run(&other, soon).unwrap_err();
        assert!(error.to_string().contains("cannot be run"), "{error}");
    }

    #[test]
    fn one_that_hangs_is_killed() {
        let error = run(&job("sleep 1000"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("was killed"), "{error}");
    }
}
