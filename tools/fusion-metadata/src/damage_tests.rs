// SPDX-License-Identifier: GPL-2.0-only
//! Damaged metadata: a check finds it, a repair saves what is left, and whatever is made of it
//! nothing panics.

use crate::blocks::{self, BLOCK_BYTES, Block, Kind, Source};
use crate::events::superblock;
use crate::repair::repair;
use crate::testing::{NEW_BAND, Random, dumped, found, growing, image, made_up};
use crate::{Memory, Progress};
use fusion_format::place::{place, stripe};

/// How many images each of the random tests makes.
const ROUNDS: u64 = 300;

fn block_of(memory: &mut Memory, block: u64) -> &mut Block {
    let start = usize::try_from(block).unwrap() * BLOCK_BYTES;
    memory.0[start..].first_chunk_mut().unwrap()
}

fn kind_of(bytes: &Block, block: u64) -> Option<Kind> {
    [Kind::Node, Kind::Index, Kind::Bitmap]
        .into_iter()
        .find(|&kind| blocks::is_whole(bytes, kind, block))
}

/// Puts the right checksum into what has been changed.
fn reseal(memory: &mut Memory, block: u64, kind: Option<Kind>) {
    let bytes = block_of(memory, block);
    match kind {
        Some(kind) => {
            // Whatever its number is now.
            let number = blocks::le64(&bytes[..], 8);
            blocks::seal(bytes, kind, number);
        }
        None if block == 0 => fusion_format::superblock::seal(&mut bytes[..]),
        None => {}
    }
}

fn repaired(memory: &Memory) -> Result<(Memory, Vec<String>), crate::Error> {
    let mut new = Memory(vec![0; memory.0.len()]);
    let mut lost = Vec::new();
    repair(memory, &mut new, Progress::default(), &mut |text| {
        lost.push(text.to_owned());
    })?;
    Ok((new, lost))
}

/// A repair makes something that is right, or says why it cannot.
fn survives(memory: &Memory) -> bool {
    let _ = found(memory);
    let mut out = Vec::new();
    let _ = crate::dump::dump(memory, Progress::default(), &mut out);
    match repaired(memory) {
        Ok((new, _)) => {
            assert_eq!(found(&new), (0, 0, Vec::new()));
            true
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("superblock"), "{text}");
            false
        }
    }
}

#[test]
fn every_damaged_block_is_found_and_repaired() {
    let good = image(&made_up(12));
    let used = superblock(&good).unwrap().space_map.allocated;
    for block in 1..used {
        for at in [0, 9, 20, 40, 1000, 4095] {
            let mut memory = Memory(good.0.clone());
            block_of(&mut memory, block)[at] ^= 0x10;
            let (errors, _, texts) = found(&memory);
            assert!(errors > 0, "block {block} byte {at}");
            assert!(
                texts
                    .iter()
                    .any(|text| text.contains(&format!("block {block},"))),
                "block {block} byte {at}: {texts:?}"
            );
            if at == 40 {
                assert!(survives(&memory));
            }
        }
    }
    // What is not used does not matter.
    let mut memory = Memory(good.0.clone());
    block_of(&mut memory, used)[7] ^= 1;
    assert_eq!(found(&memory).0, 0);
}

#[test]
fn nothing_is_lost_of_what_is_whole() {
    let dump = made_up(30);
    let (new, lost) = repaired(&image(&dump)).unwrap();
    assert_eq!(lost, Vec::<String>::new());
    let same = |text: &str| {
        text.replace("transaction=8 clean=0", "transaction=7 clean=1")
            .replace("incompat=23", "incompat=20")
    };
    assert_eq!(same(&dumped(&new)), dump);
}

#[test]
fn only_what_is_damaged_is_lost() {
    let dump = made_up(24);
    let good = image(&dump);
    let whole = superblock(&good).unwrap();
    let mut roots = 0;
    for block in 1..whole.space_map.allocated {
        let mut memory = Memory(good.0.clone());
        let kind = kind_of(block_of(&mut memory, block), block);
        block_of(&mut memory, block)[50] ^= 1;
        let (new, lost) = repaired(&memory).unwrap();
        if kind != Some(Kind::Node) {
            assert_eq!(lost, ["the space map is damaged: it is made anew"]);
        }
        let now = dumped(&new);
        let left: std::collections::HashSet<&str> = now.lines().collect();
        let gone = dump.lines().filter(|line| !left.contains(line)).count();
        let is_root = whole.roots.contains(&block);
        let inner = is_root && {
            let node = crate::node::Node::any(good.read(block).unwrap(), block).unwrap();
            !node.is_leaf()
        };
        if inner {
            // Its leaves are found.
            roots += 1;
            assert_eq!(gone, 1, "block {block}: only the line of the pool");
        } else if kind == Some(Kind::Node) && block != whole.space_map.ref_counts {
            assert!(!lost.is_empty(), "block {block}");
        }
    }
    assert!(roots >= 4, "{roots}");
}

/// Of a map that is whole stripes' and bands' records are made again.
#[test]
fn records_are_made_again() {
    let dump = made_up(3);
    let good = image(&dump);
    let roots = superblock(&good).unwrap().roots;
    for (tree, what) in [
        (1, "band 0: its record is made again"),
        (2, "made again: whether"),
    ] {
        let mut memory = Memory(good.0.clone());
        block_of(&mut memory, roots[tree])[50] ^= 1;
        let (new, lost) = repaired(&memory).unwrap();
        assert!(lost.iter().any(|text| text.contains(what)), "{lost:?}");
        let map = |text: &str| {
            let kept = |line: &&str| {
                ["run", "block", "row", "volume"]
                    .iter()
                    .any(|kind| line.starts_with(kind))
            };
            text.lines().filter(kept).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(map(&dumped(&new)), map(&dump));
    }
    let mut memory = Memory(good.0.clone());
    block_of(&mut memory, roots[0])[50] ^= 1;
    let (new, lost) = repaired(&memory).unwrap();
    assert!(
        lost.iter()
            .any(|text| text.contains("its name is lost-0 now")),
        "{lost:?}"
    );
    assert!(dumped(&new).contains("volume 1 name=lost-1 class=1"));
}

#[test]
fn random_damage() {
    for dump in [made_up(8), growing(8)] {
        random_damage_of(&dump);
    }
}

fn random_damage_of(dump: &str) {
    let good = image(dump);
    let used = superblock(&good).unwrap().space_map.allocated;
    let mut repairs = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let mut memory = Memory(good.0.clone());
        for _ in 0..=random.below(4) {
            let block = random.below(usize::try_from(used).unwrap()) as u64;
            let kind = kind_of(block_of(&mut memory, block), block);
            for _ in 0..=random.below(6) {
                // Of most blocks the beginning is what there is.
                let within = [64, 400, BLOCK_BYTES][random.below(3)];
                let at = random.below(within);
                let byte = match random.below(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => block_of(&mut memory, block)[at] ^ 1 << random.below(8),
                    _ => random.below(256) as u8,
                };
                block_of(&mut memory, block)[at] = byte;
            }
            if random.below(4) > 0 {
                reseal(&mut memory, block, kind);
            }
        }
        repairs += u64::from(survives(&memory));
    }
    assert!(repairs > ROUNDS / 3, "{repairs}");
}

/// Blocks that are good, in the place of others.
#[test]
fn random_exchange() {
    let good = image(&made_up(8));
    let used = usize::try_from(superblock(&good).unwrap().space_map.allocated).unwrap();
    for seed in 0..ROUNDS / 3 {
        let mut random = Random(seed);
        let mut memory = Memory(good.0.clone());
        for _ in 0..=random.below(3) {
            let (from, to) = (1 + random.below(used - 1), 1 + random.below(used - 1));
            let bytes = *block_of(&mut memory, from as u64);
            let kind = kind_of(&bytes, from as u64);
            *block_of(&mut memory, to as u64) = bytes;
            let target = block_of(&mut memory, to as u64);
            if let Some(kind) = kind {
                blocks::seal(target, kind, to as u64);
            }
        }
        assert!(survives(&memory));
    }
}

#[test]
fn any_text_is_refused_or_right() {
    let dump = made_up(2);
    let lines: Vec<&str> = dump.lines().collect();
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let mut text = match random.below(2) {
            0 => {
                let mut lines = lines.clone();
                let (a, b) = (random.below(lines.len()), random.below(lines.len()));
                match random.below(3) {
                    0 => lines.swap(a, b),
                    1 => lines[a] = lines[b],
                    _ => drop(lines.remove(a)),
                }
                lines.join("\n").into_bytes()
            }
            _ => dump.clone().into_bytes(),
        };
        for _ in 0..random.below(3) {
            let at = random.below(text.len());
            let bytes = b"0123456789abcdef:,=- \n\xff";
            text[at] = bytes[random.below(bytes.len())];
        }
        text.push(b'\n');
        let mut memory = Memory(vec![0; 200 * BLOCK_BYTES]);
        let result = crate::restore::restore(&mut &text[..], &mut memory, Progress::default());
        match result {
            Ok(()) => assert_eq!(found(&memory).0, 0),
            Err(_) => assert!(memory.0[..BLOCK_BYTES].iter().all(|&byte| byte == 0)),
        }
    }
}

#[test]
fn leaks_are_minor_and_corrected() {
    let good = image(&made_up(8));
    let whole = superblock(&good).unwrap();
    let index = block_of(&mut Memory(good.0.clone()), whole.space_map.index).to_owned();
    let bitmap = blocks::le64(&index[..], 16);
    let mut memory = Memory(good.0.clone());
    // Blocks 1200 to 1203, counted once, twice, not, and more often.
    let bytes = block_of(&mut memory, bitmap);
    bytes[16 + 300] = 0b11_00_01_10;
    blocks::seal(bytes, Kind::Bitmap, bitmap);
    let (errors, minor, texts) = found(&memory);
    assert_eq!((errors, minor), (0, 4), "{texts:?}");
    for what in ["blocks 1200 to 1201 of", "block 1203 of"] {
        assert!(texts.iter().any(|text| text.contains(what)), "{texts:?}");
    }
    let source = Memory(memory.0.clone());
    let mut tell = |_, _: &str| ();
    let mut findings = crate::Findings::new(&mut tell);
    let checked = crate::check::check(
        &source,
        crate::check::Options::default(),
        Progress::default(),
        &mut findings,
    )
    .unwrap();
    checked.repair_space_map(&source, &mut memory).unwrap();
    assert_eq!(found(&memory), (0, 0, Vec::new()));
    // Free, but used: that is no leak.
    let bytes = block_of(&mut memory, bitmap);
    bytes[16] = 0;
    blocks::seal(bytes, Kind::Bitmap, bitmap);
    assert!(found(&memory).0 > 0);
}

/// Puts another number into the place of one, wherever that is.
fn replace(memory: &mut Memory, from: u64, to: u64) {
    let mut count = 0;
    for block in 1..superblock(memory).unwrap().space_map.allocated {
        let kind = kind_of(block_of(memory, block), block);
        let bytes = block_of(memory, block);
        // Behind the checksum and the block's own number.
        for at in (16..BLOCK_BYTES).step_by(4) {
            if bytes[at..].first_chunk() == Some(&from.to_le_bytes()) {
                bytes[at..at + 8].copy_from_slice(&to.to_le_bytes());
                count += 1;
            }
        }
        reseal(memory, block, kind);
    }
    assert!(count > 0, "{from:x}");
}

/// The record of a band: of the third class, one stripe.
fn record(generation: u16) -> u64 {
    3 | u64::from(generation) << 16 | 1 << 32
}

#[test]
fn a_band_of_another_layout_than_its_number_says() {
    let good = image(&growing(1));
    for generation in [0, 2, u16::MAX] {
        let mut memory = Memory(good.0.clone());
        replace(&mut memory, record(1), record(generation));
        let what = "band 8388611 in the tree of bands: of another layout than its number says";
        assert_eq!(found(&memory).2, [what]);
        let mut out = Vec::new();
        let error = crate::dump::dump(&memory, Progress::default(), &mut out).unwrap_err();
        assert!(error.to_string().contains("of another layout"), "{error}");
        let (new, lost) = repaired(&memory).unwrap();
        assert_eq!(
            lost,
            [
                "band 8388611 is lost: of another layout than its number says",
                "band 8388611: its record is made again"
            ]
        );
        assert!(dumped(&new).contains("run 0 6 8388611:0:0"));
    }
}

/// Both may be said to be there, or what is in them, too.
#[test]
fn bands_that_overlap() {
    let good = image(&growing(1));
    let other = NEW_BAND - 1;
    let mut memory = Memory(good.0.clone());
    replace(&mut memory, NEW_BAND.into(), other.into());
    let overlap = "band 8388610: band 1 of the old layout, which is not free, is at the same place";
    assert!(found(&memory).2.iter().any(|text| text == overlap));
    let (new, lost) = repaired(&memory).unwrap();
    let of_band = |number| {
        let start = format!("band {number} and the ");
        lost.iter()
            .find(|text| text.starts_with(&start))
            .map(|text| text[start.len()..].split(' ').next().unwrap().to_owned())
    };
    assert_eq!(of_band(other).as_deref(), Some("0"), "{lost:?}");
    assert_eq!(of_band(1), None);
    assert!(dumped(&new).contains("volume 1 name=v1 class=1 blocks=65536 deleting=0\nrun 0 4"));

    replace(&mut memory, stripe(NEW_BAND, 0), stripe(other, 0));
    for slot in 0..6 {
        let at = |band| place(stripe(band, 0), slot);
        replace(&mut memory, at(NEW_BAND), at(other));
    }
    assert_eq!(found(&memory).2, [overlap]);
    let (new, lost) = repaired(&memory).unwrap();
    for band in [1, other] {
        let start = format!("band {band} and the ");
        assert!(lost.iter().any(|text| text.starts_with(&start)), "{lost:?}");
    }
    // Nothing is left of either, and all of the rest.
    let left = dumped(&new);
    assert!(left.contains("run 0 3 0:0:0") && !left.contains("run 0 4 1:0:0"));
    assert!(!left.contains("8388610") && left.contains("volume 2 name=v2"));
}

#[test]
fn no_superblock() {
    let mut memory = image(&made_up(1));
    block_of(&mut memory, 0)[100] ^= 1;
    assert_eq!(
        found(&memory).2,
        ["its superblock is damaged, or of something else"]
    );
    assert!(repaired(&memory).is_err());
    for length in [0, 100, BLOCK_BYTES, 3 * BLOCK_BYTES] {
        let memory = Memory(vec![0; length]);
        assert_eq!(found(&memory).0, 1);
        assert!(repaired(&memory).is_err());
    }
    // Cut short.
    let good = image(&made_up(8));
    for blocks in [1, 5, 20] {
        let memory = Memory(good.0[..blocks * BLOCK_BYTES].to_vec());
        assert!(found(&memory).0 > 0);
        let mut new = Memory(vec![0; good.0.len()]);
        repair(&memory, &mut new, Progress::default(), &mut |_| ()).unwrap();
        assert_eq!(found(&new).0, 0);
    }
}
