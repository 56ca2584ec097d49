// SPDX-License-Identifier: GPL-2.0-only
//! Any 4 KiB are a label, a record, a superblock, or none of them.
//!
//! The first byte of the input says which checksum is made right; the rest is what it begins with.

#![no_main]

use fusion_format::label::LABEL_BYTES;
use fusion_format::{Label, Record, superblock, whole::Whole};
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

fuzz_target!(|input: &[u8]| {
    let [which, rest @ ..] = input else { return };
    let mut bytes = vec![0; LABEL_BYTES];
    let count = rest.len().min(LABEL_BYTES);
    bytes[..count].copy_from_slice(&rest[..count]);
    match which % 4 {
        // Labels and records have theirs at the same place.
        kind @ 0..2 => {
            let magic: &[u8] = [b"dm-fusion member", b"dm-fusion record"][usize::from(kind)];
            bytes[..16].copy_from_slice(magic);
            bytes[16..20].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        }
        2 => superblock::seal(&mut bytes),
        _ => {}
    }
    if let Ok(label) = Label::decode(&bytes) {
        assert_eq!(Label::decode(&label.encode()), Ok(label));
    }
    let _ = Record::decode(
        &bytes,
        Uuid::from_bytes(*bytes[24..].first_chunk().unwrap()),
    );
    let _ = superblock::decode(&bytes);
    if let Ok(whole) = Whole::decode(&bytes) {
        assert_eq!(Whole::decode(&whole.encode()), Ok(whole));
    }
});
