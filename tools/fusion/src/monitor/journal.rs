// SPDX-License-Identifier: GPL-2.0-only
//! Entries of systemd's journal, by its native protocol, so that they have fields.
//! Where there is no journal they are lines on standard error, with the priority as `<N>`.

use std::io::{IsTerminal, stderr};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::event::{Event, Priority};

const SOCKET: &str = "/run/systemd/journal/socket";
/// What is told is not to wait for a journal that hangs.
const PATIENCE: Duration = Duration::from_secs(5);
const IDENTIFIER: &str = "fusiond";

/// A field. Values of several lines have their length before them.
fn field(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend((value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend(value.as_bytes());
    entry.push(b'\n');
}

fn plain(priority: Priority, message: &str) -> Vec<u8> {
    let mut entry = Vec::new();
    field(&mut entry, "MESSAGE", message);
    field(&mut entry, "PRIORITY", &(priority as u8).to_string());
    field(&mut entry, "SYSLOG_IDENTIFIER", IDENTIFIER);
    entry
}

fn entry(event: &Event) -> Vec<u8> {
    let mut entry = plain(event.event.priority(), &event.message);
    let id = event.event.id().simple().to_string();
    field(&mut entry, "MESSAGE_ID", &id);
    field(&mut entry, "FUSION_EVENT", &event.event.name());
    field(&mut entry, "FUSION_POOL", &event.pool);
    field(&mut entry, "FUSION_POOL_UUID", &event.uuid.to_string());
    if let Some(member) = &event.member {
        field(&mut entry, "FUSION_MEMBER", &member.index.to_string());
        if let Some(device) = &member.device {
            field(&mut entry, "FUSION_DEVICE", device);
        }
    }
    entry
}

fn send(entry: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to(entry, SOCKET)?;
    Ok(())
}

fn say(priority: Priority, message: &str, entry: &[u8]) {
    let sent = send(entry).is_ok();
    if stderr().is_terminal() {
        eprintln!("fusion: {message}");
    } else if !sent {
        eprintln!("<{}>{message}", priority as u8);
    }
}

pub fn tell(event: &Event) {
    say(event.event.priority(), &event.message, &entry(event));
}

/// What is wrong with this program itself.
pub fn remark(message: &str) {
    let priority = Priority::Warning;
    say(priority, message, &plain(priority, message));
}

#[cfg(test)]
mod tests {
    use super::super::event::{Kind, Member};
    use super::*;
    use uuid::Uuid;

    #[test]
    fn entries() {
        let event = Event {
            event: Kind::Fail,
            pool: "tank".into(),
            uuid: Uuid::from_u128(7),
            member: Some(Member {
                index: 3,
                device: Some("/dev/d3".into()),
            }),
            message: "it has failed".into(),
        };
        assert_eq!(
            String::from_utf8(entry(&event)).unwrap(),
            "MESSAGE=it has failed\nPRIORITY=3\nSYSLOG_IDENTIFIER=fusiond\n\
             MESSAGE_ID=e48de2cc7d5c470da6173674da45eb8f\nFUSION_EVENT=Fail\nFUSION_POOL=tank\n\
             FUSION_POOL_UUID=00000000-0000-0000-0000-000000000007\nFUSION_MEMBER=3\n\
             FUSION_DEVICE=/dev/d3\n"
        );
        let mut lines = Vec::new();
        field(&mut lines, "A", "b\nc");
        assert_eq!(lines, b"A\n\x03\0\0\0\0\0\0\0b\nc\n");
    }
}
