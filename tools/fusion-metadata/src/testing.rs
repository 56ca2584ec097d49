// SPDX-License-Identifier: GPL-2.0-only
//! Pools that tests make up, as dumps.

use std::fmt::Write;

use fusion_format::place::{patch_place, place, show_patch, show_place, show_stripe, stripe};
use fusion_format::whole::Whole;

use crate::blocks::BLOCK_BYTES;
use crate::geometry::Geometry;
use crate::restore::restore;
use crate::{Memory, Progress, dump::dump};

/// The generator that all of it comes from (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

const HEAD: &str = "dm-fusion metadata dump 1
pool uuid=00000000-0000-0000-0000-00000000abcd transaction=7 clean=1 needs_check=0 compat=1 \
incompat=20 metadata_blocks=2048 spares=1 block_sectors=128 band_units=240 bands=4 generation=3 \
unsynced_generation=1 states_generation=1 scrub_at=0 layout_generation=0 old_members=0 \
old_band_units=0 old_bands=0
journal offset=4096 sectors=2048 at=8192 sequence=7f
class 0 data=3 parity=1
class 1 data=4 parity=2
";

/// Stripes of a band, in use so far.
struct Supply<'a> {
    geometry: &'a Geometry,
    next: [u32; 2],
}

impl Supply<'_> {
    /// Band 0 is of class 0, band 1 of class 1.
    fn stripe(&mut self, class: u16) -> u64 {
        let index = &mut self.next[usize::from(class)];
        *index += 1;
        stripe(class.into(), *index - 1)
    }

    /// A slot each of `set`'s stripes for slot `slot` of its first; none if their members do not
    /// allow it.
    fn replicas(&self, set: &[u64], taken: &mut [u64; 3], slot: u32) -> Option<[u64; 3]> {
        let width = self.geometry.class(u16::from(set.len() == 3))?.width();
        let mut found = [place(set[0], slot), 0, 0];
        let free = |taken: &[u64; 3], which: usize| {
            (0..width)
                .filter(|slot| taken[which] >> slot & 1 == 0)
                .collect::<Vec<_>>()
        };
        for b in free(taken, 1) {
            found[1] = place(set[1], b);
            let thirds = if set.len() == 3 {
                free(taken, 2)
            } else {
                vec![0]
            };
            for c in thirds {
                if set.len() == 3 {
                    found[2] = place(set[2], c);
                }
                if self.geometry.replicas(&found).is_ok() {
                    taken[1] |= 1 << b;
                    taken[2] |= 1 << c;
                    return Some(found);
                }
            }
        }
        None
    }
}

/// The dump of a pool with `count` times some of everything.
pub fn made_up(count: u32) -> String {
    let mut text = HEAD.to_owned();
    for member in 0..8 {
        let _ = writeln!(
            text,
            "member {member} uuid=00000000-0000-0000-0000-{member:012} state=ok spare=0 rebuilt=0 lost=0 left=0"
        );
    }
    if count > 0 {
        let _ = writeln!(text, "band 0 class=0\nband 1 class=1");
    }
    let mut geometry = Geometry::new(&head(&text)).expect("a pool");
    assert!(geometry.assign(0, 0) && geometry.assign(1, 1));
    let mut supply = Supply {
        geometry: &geometry,
        next: [0; 2],
    };
    let mut stripes = Vec::new();
    let mut rows = Vec::new();
    for class in [0u16, 1] {
        let _ = writeln!(
            text,
            "volume {class} name=v{class} class={class} blocks=65536 deleting=0"
        );
        let data = geometry.class(class).expect("it is").data;
        let all = (1u64 << data) - 1;
        let mut block = 0;
        for round in 0..count {
            // A whole stripe, and one of which the first slot is dead.
            let raid = supply.stripe(class);
            let _ = writeln!(text, "run {block} {data} {}", show_place(place(raid, 0)));
            block += data;
            stripes.push((raid, format!("raid spared=0 generation=1 written={all:x}")));
            let raid = supply.stripe(class);
            let _ = writeln!(
                text,
                "run {block} {} {}",
                data - 1,
                show_place(place(raid, 1))
            );
            block += data - 1;
            stripes.push((raid, format!("raid spared=0 generation=2 written={all:x}")));

            // A set of replicas, some over bases.
            let set: Vec<u64> = (0..2 + class).map(|_| supply.stripe(class)).collect();
            let under = supply.stripe(class);
            let mut taken = [0; 3];
            let (mut written, mut under_live) = ([0u64; 3], 0u64);
            for slot in 0..data {
                let Some(places) = supply.replicas(&set, &mut taken, slot) else {
                    continue;
                };
                let shown: Vec<String> = places
                    .iter()
                    .filter(|&&at| at != 0)
                    .map(|&at| show_place(at))
                    .collect();
                for (which, at) in places.iter().enumerate().filter(|(_, at)| **at != 0) {
                    written[which] |= 1 << fusion_format::place::slot_of(*at);
                }
                let base = if slot % 2 == 0 {
                    under_live |= 1 << slot;
                    show_place(place(under, slot))
                } else {
                    "-".into()
                };
                let _ = writeln!(
                    text,
                    "block {block} base={base} top=2,{:x},{}",
                    1 + round % 7,
                    shown.join(",")
                );
                block += 1;
            }
            stripes.push((
                under,
                format!("raid spared=0 generation=1 written={under_live:x}"),
            ));
            add_set(&mut stripes, &set, written);

            // Patches, of which a row is being merged.
            let set: Vec<u64> = (0..2 + class).map(|_| supply.stripe(class)).collect();
            let base = supply.stripe(class);
            let mut taken = [0; 3];
            if let Some(places) = supply.replicas(&set, &mut taken, 0) {
                let shown = |page: u32| {
                    let shown: Vec<String> = places
                        .iter()
                        .filter(|&&at| at != 0)
                        .map(|&at| show_patch(patch_place(at, page)))
                        .collect();
                    shown.join(",")
                };
                let _ = writeln!(
                    text,
                    "block {block} base={} patches=2 3={} 7={}",
                    show_place(place(base, 0)),
                    shown(4),
                    shown(5)
                );
                block += 1;
                stripes.push((base, "raid spared=0 generation=1 written=1".into()));
                let mut row = format!("row {} 3 copies=1,{}", show_stripe(base), class);
                for parity in 0..=class {
                    let _ = write!(row, " parity={}", shown(8 + u32::from(parity)));
                }
                let _ = write!(row, " 0={}", shown(4));
                rows.push(row);
                let slot = |at: u64| 1u64 << fusion_format::place::slot_of(at);
                add_set(
                    &mut stripes,
                    &set,
                    places.map(|at| if at == 0 { 0 } else { slot(at) }),
                );
            }
            block += 70;
        }
    }
    for row in rows {
        let _ = writeln!(text, "{row}");
    }
    stripes.sort();
    for (id, rest) in stripes {
        let _ = writeln!(text, "stripe {} {rest}", show_stripe(id));
    }
    text + "end\n"
}

/// Band 3 of the newest layout of what `growing()` makes: the only one that overlaps none in use.
pub const NEW_BAND: u32 = (1 << 23) + 3;

/// The same of a pool that has begun to grow to nine members: with a volume of a class that is too
/// wide for the old layout.
pub fn growing(count: u32) -> String {
    let text = made_up(count)
        .replace("incompat=20", "incompat=60")
        .replace("band_units=240 bands=4", "band_units=200 bands=4")
        .replace(
            "layout_generation=0 old_members=0 old_band_units=0 old_bands=0",
            "layout_generation=1 old_members=8 old_band_units=240 old_bands=4",
        )
        .replace("\nmember 0", "\nclass 2 data=6 parity=1\nmember 0")
        .replace(
            "\nvolume 0",
            &format!("\nband {NEW_BAND} class=2\nvolume 0"),
        );
    let member = "member 8 uuid=00000000-0000-0000-0000-000000000008 state=ok spare=0 rebuilt=0 \
                  lost=0 left=0\n";
    let volume = format!(
        "volume 2 name=v2 class=2 blocks=65536 deleting=0\nrun 0 6 {}\n",
        show_place(place(stripe(NEW_BAND, 0), 0))
    );
    let stripe = format!(
        "stripe {} raid spared=0 generation=1 written=3f\nend\n",
        show_stripe(stripe(NEW_BAND, 0))
    );
    let before = |text: String, what: [&str; 3], lines: &str| {
        let at = what.iter().find_map(|what| text.find(what));
        let (head, rest) = text.split_at(at.expect("one of them") + 1);
        format!("{head}{lines}{rest}")
    };
    let text = before(text, ["\nband ", "\nvolume ", "\nend\n"], member);
    let text = before(text, ["\nrow ", "\nstripe ", "\nend\n"], &volume);
    text.replace("\nend\n", &format!("\n{stripe}"))
}

pub fn head(text: &str) -> Whole {
    let mut whole = None;
    let lines = text.lines();
    let head: Vec<&str> = lines.take_while(|line| !line.starts_with("band")).collect();
    parse_head(&format!("{}\n", head.join("\n")), &mut whole);
    whole.expect("it has a head")
}

fn add_set(stripes: &mut Vec<(u64, String)>, set: &[u64], written: [u64; 3]) {
    for (which, &id) in set.iter().enumerate() {
        let partners: Vec<String> = match which {
            0 => set[1..].iter().map(|&id| show_stripe(id)).collect(),
            _ => vec![show_stripe(set[0])],
        };
        let state = if which == 0 { "primary" } else { "mirror" };
        if written[which] != 0 {
            stripes.push((
                id,
                format!(
                    "{state} spared=0 generation=2 written={:x} partner={}",
                    written[which],
                    partners.join(",")
                ),
            ));
        }
    }
}

fn parse_head(text: &str, whole: &mut Option<Whole>) {
    struct Head<'a>(&'a mut Option<Whole>);
    impl crate::events::Sink for Head<'_> {
        fn begin(&mut self, whole: &Whole) -> crate::Result<()> {
            *self.0 = Some(whole.clone());
            Ok(())
        }
        fn band(&mut self, _: u32, _: u16) -> crate::Result<()> {
            Ok(())
        }
        fn volume(&mut self, _: u32, _: &fusion_format::value::Volume) -> crate::Result<()> {
            Ok(())
        }
        fn block(&mut self, _: &crate::map::Mapping) -> crate::Result<()> {
            Ok(())
        }
        fn row(&mut self, _: &fusion_format::value::Row) -> crate::Result<()> {
            Ok(())
        }
        fn stripe(&mut self, _: u64, _: &fusion_format::value::Stripe) -> crate::Result<()> {
            Ok(())
        }
        fn end(&mut self) -> crate::Result<()> {
            Ok(())
        }
    }
    let text = format!("{text}end\n");
    crate::parse::parse(&mut text.as_bytes(), &mut Head(whole)).expect("a dump");
}

/// Metadata of 8 MiB from a dump.
pub fn image(dump: &str) -> Memory {
    let mut memory = Memory(vec![0; 2048 * BLOCK_BYTES]);
    if let Err(error) = restore(&mut dump.as_bytes(), &mut memory, Progress::default()) {
        panic!("{error}");
    }
    memory
}

pub fn dumped(memory: &Memory) -> String {
    let mut out = Vec::new();
    if let Err(error) = dump(memory, Progress::default(), &mut out) {
        panic!("{error}");
    }
    String::from_utf8(out).expect("text")
}

/// What a check finds: errors, minor ones, and their texts.
pub fn found(memory: &Memory) -> (u64, u64, Vec<String>) {
    let mut texts = Vec::new();
    let mut tell = |_, text: &str| texts.push(text.to_owned());
    let mut findings = crate::Findings::new(&mut tell);
    crate::check::check(
        memory,
        crate::check::Options::default(),
        Progress::default(),
        &mut findings,
    );
    let (errors, minor) = (findings.errors, findings.minor);
    (errors, minor, texts)
}
