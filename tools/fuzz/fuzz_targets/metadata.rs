// SPDX-License-Identifier: GPL-2.0-only
//! An image of metadata, with changes that the input says, is checked, dumped and repaired. What
//! repair makes is right.
//!
//! The input is a list of changes: block (2 bytes), offset in it (2), how many bytes (1, to 8), and
//! these; a set high bit of the count leaves the checksum wrong.

#![no_main]

use std::sync::OnceLock;

use fusion_metadata::blocks::{self, BLOCK_BYTES, Kind};
use fusion_metadata::check::{Options, check};
use fusion_metadata::{Findings, Memory, Progress};
use libfuzzer_sys::fuzz_target;

const DUMP: &str = include_str!("../seed.dump");
const BLOCKS: usize = 64;

fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let mut memory = Memory(vec![0; BLOCKS * BLOCK_BYTES]);
        fusion_metadata::restore::restore(&mut DUMP.as_bytes(), &mut memory, Progress::default())
            .expect("the seed is good");
        memory.0
    })
}

fn change(image: &mut [u8], input: &[u8]) {
    let mut rest = input;
    while let [b0, b1, o0, o1, count, tail @ ..] = rest {
        let block = usize::from(u16::from_le_bytes([*b0, *b1])) % BLOCKS;
        let offset = usize::from(u16::from_le_bytes([*o0, *o1])) % BLOCK_BYTES;
        let bytes = tail
            .len()
            .min(usize::from(count & 7) + 1)
            .min(BLOCK_BYTES - offset);
        let whole = &mut image[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES];
        let kind = [Kind::Node, Kind::Index, Kind::Bitmap]
            .into_iter()
            .find(|&kind| {
                blocks::is_whole(whole.first_chunk().expect("a block"), kind, block as u64)
            });
        whole[offset..offset + bytes].copy_from_slice(&tail[..bytes]);
        if count & 0x80 == 0 {
            match kind {
                Some(kind) => {
                    let number = blocks::le64(whole, 8);
                    blocks::seal(whole.first_chunk_mut().expect("a block"), kind, number);
                }
                None if block == 0 => fusion_format::superblock::seal(whole),
                None => {}
            }
        }
        rest = &tail[bytes..];
    }
}

fn errors(memory: &Memory) -> u64 {
    let mut tell = |_, _: &str| ();
    let mut findings = Findings::new(&mut tell);
    check(
        memory,
        Options::default(),
        Progress::default(),
        &mut findings,
    );
    findings.errors
}

fuzz_target!(|input: &[u8]| {
    let mut memory = Memory(image().to_vec());
    change(&mut memory.0, input);
    errors(&memory);
    let mut text = Vec::new();
    let _ = fusion_metadata::dump::dump(&memory, Progress::default(), &mut text);
    let mut new = Memory(vec![0; BLOCKS * BLOCK_BYTES]);
    match fusion_metadata::repair::repair(&memory, &mut new, Progress::default(), &mut |_| ()) {
        Ok(()) => assert_eq!(errors(&new), 0),
        Err(error) => assert!(error.to_string().contains("superblock"), "{error}"),
    }
});
