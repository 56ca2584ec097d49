// SPDX-License-Identifier: GPL-2.0-only
//! Who is told.

use std::time::Duration;

use crate::output;

use super::event::Event;
use super::hook::{Hook, Job};
use super::journal;
use super::seen::Seen;

/// A mail program may have to wait for another machine.
const PATIENCE: Duration = Duration::from_secs(300);
const MAIL_PROGRAM: &str = "sendmail";

pub struct Teller {
    /// The program, and what runs it.
    program: Option<(String, Hook)>,
    /// The address, and the same.
    mail: Option<(String, Hook)>,
    json: bool,
    host: String,
}

impl Teller {
    pub fn new(program: Option<String>, mail: Option<String>, json: bool) -> Self {
        let with_hook = |text| (text, Hook::new(PATIENCE));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            program: program.map(with_hook),
            mail: mail.map(with_hook),
            json,
            host: host.trim().to_owned(),
        }
    }

    /// `pool`: as it is now, if it is there.
    pub fn tell(&self, event: &Event, pool: Option<&Seen>) {
        journal::tell(event);
        if self.json
            && let Ok(text) = serde_json::to_string(event)
        {
            output::line(&text);
        }
        if let Some((program, hook)) = &self.program {
            let mut arguments = vec![event.event.name(), event.pool.clone()];
            arguments.extend(event.member.as_ref().map(|member| member.argument()));
            hook.tell(Job {
                program: program.clone(),
                arguments,
                input: String::new(),
            });
        }
        if let Some((address, hook)) = &self.mail
            && event.event.is_mailed()
        {
            hook.tell(Job {
                program: MAIL_PROGRAM.into(),
                arguments: vec!["-t".into(), "-oi".into()],
                input: mail(address, &self.host, event, pool),
            });
        }
    }

    /// Waits until programs and mail are through.
    pub fn finish(self) {
        let hooks = [self.program, self.mail];
        for (_, hook) in hooks.into_iter().flatten() {
            hook.finish();
        }
    }
}

fn mail(address: &str, host: &str, event: &Event, pool: Option<&Seen>) -> String {
    let mut text = format!(
        "From: fusiond <root>\nTo: {address}\nSubject: {} event on {}:{host}\n\n\
         fusiond on {host}:\n\n{}\n",
        event.event.name(),
        event.pool,
        event.message
    );
    if let Some(pool) = pool {
        let mut table = output::Table::new(&[">MEMBER", "STATE", "DEVICE"]);
        for (index, member) in pool.members.iter().enumerate() {
            let device = member.device.clone().unwrap_or_else(|| "-".into());
            table.row(vec![index.to_string(), member.state.clone(), device]);
        }
        text += &format!("\n{}", table.render());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::event::Kind;
    use super::*;
    use uuid::Uuid;

    #[test]
    fn mails() {
        let event = Event {
            event: Kind::LowSpace,
            pool: "tank".into(),
            uuid: Uuid::nil(),
            member: None,
            message: "there is little space".into(),
        };
        assert_eq!(
            mail("root", "here", &event, None),
            "From: fusiond <root>\nTo: root\nSubject: LowSpace event on tank:here\n\n\
             fusiond on here:\n\nthere is little space\n"
        );
    }
}
