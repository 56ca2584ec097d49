// SPDX-License-Identifier: GPL-2.0-only
//! Any text is no dump, or one that can be restored, and dumped again as it was.

#![no_main]

use fusion_metadata::blocks::BLOCK_BYTES;
use fusion_metadata::{Memory, Progress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut memory = Memory(vec![0; 64 * BLOCK_BYTES]);
    let mut dump = input;
    if fusion_metadata::restore::restore(&mut dump, &mut memory, Progress::default()).is_ok() {
        let mut text = Vec::new();
        fusion_metadata::dump::dump(&memory, Progress::default(), &mut text).expect("it is right");
        let mut again = Memory(vec![0; 64 * BLOCK_BYTES]);
        fusion_metadata::restore::restore(&mut &text[..], &mut again, Progress::default())
            .expect("it is a dump");
        assert!(again.0 == memory.0);
    }
});
