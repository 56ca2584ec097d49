// SPDX-License-Identifier: GPL-2.0-only
//! From a dump to what it is of: see `dump.rs` for what it looks like.
//!
//! Each line must be just as a dump has it; what it says is looked at by who gets it.

use std::io::BufRead;

use fusion_format::MemberState;
use fusion_format::place::{
    MAX_BLOCKS, MAX_PARITY, MAX_REPLICAS, NO_STRIPE, parse_patch, parse_place, parse_stripe, place,
    slot_of, stripe_of,
};
use fusion_format::value::{Patch, Patches, Row, Stripe, StripeState, Top, Volume};
use fusion_format::whole::{Class, Counts, Journal, Member, OldLayout, SpaceMapRoot, Whole};
use uuid::Uuid;

use crate::dump::{FIRST_LINE, state_name};
use crate::events::Sink;
use crate::map::Mapping;
use crate::{Error, Result};

/// Longer than any line of a dump: a row, or the patches of a block.
const MAX_LINE_BYTES: usize = 8192;
const SLOTS: u32 = 64;

/// Sends what `input` says to `sink`.
///
/// # Errors
/// A line that no dump has; or what `sink` finds wrong.
pub(crate) fn parse(input: &mut dyn BufRead, sink: &mut dyn Sink) -> Result<()> {
    let mut lines = Lines {
        input,
        number: 0,
        line: Vec::new(),
    };
    let sent = send(&mut lines, sink);
    let number = lines.number;
    sent.map_err(|error| at_line(number, error))
}

/// What a dump begins with.
pub(crate) fn head(input: &mut dyn BufRead) -> Result<Whole> {
    let mut lines = Lines {
        input,
        number: 0,
        line: Vec::new(),
    };
    let whole = begin(&mut lines);
    let number = lines.number;
    whole.map_err(|error| at_line(number, error))
}

fn at_line(number: u64, error: Error) -> Error {
    match error {
        Error::Damaged(what) => Error::Line(number, what),
        error => error,
    }
}

struct Lines<'a> {
    input: &'a mut dyn BufRead,
    number: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    /// None: there are no more.
    fn next(&mut self) -> Result<Option<&str>> {
        use std::io::Read;
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut *self.input).take(MAX_LINE_BYTES as u64);
        limited.read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        match std::str::from_utf8(&self.line)
            .ok()
            .and_then(|line| line.strip_suffix('\n'))
        {
            Some(line) => Ok(Some(line)),
            None => Err(wrong("is no line of a dump, or is cut short")),
        }
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}

/// The words of a line.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str> {
        self.0
            .next()
            .filter(|word| !word.is_empty())
            .ok_or_else(|| wrong(format!("lacks {what}")))
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T> {
        number(self.next(what)?, what)
    }

    /// The value of `name=VALUE`.
    fn value(&mut self, name: &str) -> Result<&'a str> {
        let word = self.next(name)?;
        word.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
            .ok_or_else(|| wrong(format!("has {word:?} instead of {name}=")))
    }

    fn number_of<T: TryFrom<u64>>(&mut self, name: &str) -> Result<T> {
        number(self.value(name)?, name)
    }

    fn hex_of<T: TryFrom<u64>>(&mut self, name: &str) -> Result<T> {
        hex(self.value(name)?, name)
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        match self.value(name)? {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(wrong(format!("has {name}={other}"))),
        }
    }

    fn more(&self) -> bool {
        self.0.clone().next().is_some()
    }

    fn end(&mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(wrong(format!("has {word:?} at its end"))),
        }
    }
}

fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse::<u64>().ok())
        .flatten()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| wrong(format!("has {text:?} as {what}")))
}

fn hex<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T> {
    text.bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(text, 16).ok())
        .flatten()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| wrong(format!("has {text:?} as {what}")))
}

fn place_of(text: &str) -> Result<u64> {
    parse_place(text).ok_or_else(|| wrong(format!("has {text:?} as a place")))
}

fn stripe_id(text: &str) -> Result<u64> {
    parse_stripe(text).ok_or_else(|| wrong(format!("has {text:?} as a stripe")))
}

/// Two or three of them.
fn places(texts: std::str::Split<char>, parse: fn(&str) -> Option<u64>) -> Result<Patch> {
    let mut found = [0; MAX_REPLICAS];
    let mut count = 0;
    for text in texts {
        let place = found
            .get_mut(count)
            .ok_or_else(|| wrong("has too many replicas"))?;
        *place = parse(text).ok_or_else(|| wrong(format!("has {text:?} as a place")))?;
        count += 1;
    }
    if count < 2 {
        return Err(wrong("has a single replica"));
    }
    Ok(found)
}

/// `NUMBER=PLACES` for all that is left: a mask and the places.
fn numbered(words: &mut Words, most: u32) -> Result<(u64, Vec<Patch>)> {
    let mut mask = 0u64;
    let mut patches = Vec::new();
    for word in words.0.by_ref() {
        let (which, rest) = word
            .split_once('=')
            .ok_or_else(|| wrong(format!("has {word:?} as a patch")))?;
        let which: u32 = number(which, "number of a patch")?;
        if which >= SLOTS || mask >> which != 0 {
            return Err(wrong("has patches that are not in order"));
        }
        if patches.len() >= most as usize {
            return Err(wrong("has too many patches"));
        }
        mask |= 1 << which;
        patches.push(places(rest.split(','), parse_patch)?);
    }
    if mask == 0 {
        return Err(wrong("has no patches"));
    }
    Ok((mask, patches))
}

/// What may come next.
#[derive(PartialEq, PartialOrd)]
enum Part {
    Journal,
    Classes,
    Members,
    Bands,
    Volumes,
    Rows,
    Stripes,
}

/// What the lines are collected in.
struct Parsing<'a> {
    sink: &'a mut dyn Sink,
    whole: Whole,
    part: Part,
    volumes: Vec<(u32, Volume)>,
    pages: u32,
}

fn begin(lines: &mut Lines) -> Result<Whole> {
    if lines.next()? != Some(FIRST_LINE) {
        return Err(wrong(format!(
            "is not {FIRST_LINE:?}: this is no dump, or one of another version"
        )));
    }
    let line = lines
        .next()?
        .ok_or_else(|| wrong("is not there: the dump ends early"))?;
    pool(&mut Words(line.split(' ')))
}

fn send(lines: &mut Lines, sink: &mut dyn Sink) -> Result<()> {
    let whole = begin(lines)?;
    let mut parsing = Parsing {
        sink,
        whole,
        part: Part::Journal,
        volumes: Vec::new(),
        pages: 0,
    };
    loop {
        let Some(line) = lines.next()? else {
            return Err(wrong("is not there: the dump ends early"));
        };
        let mut words = Words(line.split(' '));
        let kind = words.next("a kind")?;
        if kind == "end" {
            words.end()?;
            parsing.enter(Part::Stripes)?;
            break;
        }
        parsing.line(kind, &mut words)?;
        words.end()?;
    }
    if lines.next()?.is_some() {
        return Err(wrong("is behind the end"));
    }
    parsing.sink.end()
}

fn pool(words: &mut Words) -> Result<Whole> {
    if words.next("a kind")? != "pool" {
        return Err(wrong("does not begin with \"pool\""));
    }
    let uuid = words.value("uuid")?;
    let mut whole = Whole {
        pool_uuid: Uuid::parse_str(uuid).map_err(|_| wrong(format!("has {uuid:?} as uuid")))?,
        transaction_id: words.number_of("transaction")?,
        clean: words.flag("clean")?,
        needs_check: words.flag("needs_check")?,
        compat: words.hex_of("compat")?,
        incompat: words.hex_of("incompat")?,
        metadata_blocks: words.number_of("metadata_blocks")?,
        spares: words.number_of("spares")?,
        block_sectors: words.number_of("block_sectors")?,
        band_units: words.number_of("band_units")?,
        bands: words.number_of("bands")?,
        generation: words.number_of("generation")?,
        unsynced_generation: words.number_of("unsynced_generation")?,
        states_generation: words.number_of("states_generation")?,
        scrub_at: words.hex_of("scrub_at")?,
        journal: Journal::default(),
        layout_generation: 0,
        old: OldLayout::default(),
        space_map: SpaceMapRoot::default(),
        roots: [0; 7],
        counts: Counts::default(),
        classes: Vec::new(),
        members: Vec::new(),
    };
    // Dumps of before pools could grow do not have these.
    if words.more() {
        whole.layout_generation = words.number_of("layout_generation")?;
        whole.old = OldLayout {
            members: words.number_of("old_members")?,
            band_units: words.number_of("old_band_units")?,
            bands: words.number_of("old_bands")?,
        };
    }
    words.end()?;
    Ok(whole)
}

impl Parsing<'_> {
    /// Nothing of an earlier part comes any more.
    fn enter(&mut self, part: Part) -> Result<()> {
        if part < self.part {
            return Err(wrong("is not where a dump has it"));
        }
        if self.part < Part::Bands && part >= Part::Bands {
            self.whole
                .verify()
                .map_err(|error| wrong(format!("is behind a pool {}", error.0)))?;
            self.pages = self.whole.block_pages();
            self.sink.begin(&self.whole)?;
        }
        self.part = part;
        Ok(())
    }

    fn line(&mut self, kind: &str, words: &mut Words) -> Result<()> {
        match kind {
            "journal" => self.journal(words),
            "class" => self.class(words),
            "member" => self.member(words),
            "band" => {
                self.enter(Part::Bands)?;
                let band = words.number("a number")?;
                let class = words.number_of("class")?;
                self.sink.band(band, class)
            }
            "volume" => self.volume(words),
            "run" => self.run(words),
            "block" => self.block(words),
            "row" => self.row(words),
            "stripe" => self.stripe(words),
            other => Err(wrong(format!("begins with {other:?}"))),
        }
    }

    fn journal(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Journal)?;
        if self.whole.journal != Journal::default() {
            return Err(wrong("is a second journal"));
        }
        self.whole.journal = Journal {
            offset_sectors: words.number_of("offset")?,
            sectors: words.number_of("sectors")?,
            at: words.number_of("at")?,
            sequence: words.hex_of("sequence")?,
        };
        Ok(())
    }

    fn class(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Classes)?;
        if words.number::<usize>("a number")? != self.whole.classes.len()
            || self.whole.classes.len() > 16
        {
            return Err(wrong("is not the next class"));
        }
        let byte = |value: u8| u32::from(value);
        self.whole.classes.push(Class {
            data: byte(words.number_of("data")?),
            parity: byte(words.number_of("parity")?),
        });
        Ok(())
    }

    fn member(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Members)?;
        if words.number::<usize>("a number")? != self.whole.members.len()
            || self.whole.members.len() >= SLOTS as usize
        {
            return Err(wrong("is not the next member"));
        }
        let uuid = words.value("uuid")?;
        let uuid = Uuid::parse_str(uuid).map_err(|_| wrong(format!("has {uuid:?} as uuid")))?;
        let name = words.value("state")?;
        let states = [
            MemberState::Ok,
            MemberState::Missing,
            MemberState::Failed,
            MemberState::Returning,
        ];
        let state = states
            .into_iter()
            .find(|&state| state_name(state) == name)
            .ok_or_else(|| wrong(format!("has state={name}")))?;
        self.whole.members.push(Member {
            uuid,
            state,
            spare: words.number_of("spare")?,
            rebuilt: words.flag("rebuilt")?,
            lost: words.flag("lost")?,
            left: words.number_of("left")?,
        });
        Ok(())
    }

    fn volume(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Volumes)?;
        let id: u32 = words.number("a number")?;
        let name = words.value("name")?.to_owned();
        if !fusion_format::name_is_valid(&name) || id > fusion_format::MAX_VOLUME_ID {
            return Err(wrong("has a name or a number that no volume has"));
        }
        let volume = Volume {
            name,
            class: words.number_of("class")?,
            blocks: words.number_of("blocks")?,
            deleting: words.flag("deleting")?,
            mapped: 0,
            tops: 0,
            patched: 0,
        };
        if volume.class == u16::MAX || volume.blocks > MAX_BLOCKS {
            return Err(wrong("is of a volume that cannot be"));
        }
        self.sink.volume(id, &volume)?;
        self.volumes.push((id, volume));
        Ok(())
    }

    /// An empty mapping of a block of the volume that the lines are of.
    fn mapping(&self, block: u64) -> Result<Mapping> {
        match self.volumes.last() {
            Some((id, _)) if block < MAX_BLOCKS => Ok(Mapping::new(*id, block)),
            _ => Err(wrong("is of no volume, or beyond its end")),
        }
    }

    fn run(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Volumes)?;
        let block: u64 = words.number("a block")?;
        let count: u32 = words.number("a count")?;
        let first = place_of(words.next("a place")?)?;
        if count == 0 || slot_of(first).saturating_add(count) > SLOTS {
            return Err(wrong("is longer than a stripe"));
        }
        for at in 0..count {
            let mut mapping = self.mapping(block.saturating_add(at.into()))?;
            mapping.base = place(stripe_of(first), slot_of(first) + at);
            self.sink.block(&mapping)?;
        }
        Ok(())
    }

    fn block(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Volumes)?;
        let mut mapping = self.mapping(words.number("a block")?)?;
        let base = words.value("base")?;
        if base != "-" {
            mapping.base = place_of(base)?;
        }
        let word = words.next("a top or patches")?;
        if let Some(top) = word.strip_prefix("top=") {
            let mut parts = top.splitn(3, ',');
            let mut part = || parts.next().ok_or_else(|| wrong("has half a top"));
            mapping.top = Some(Top {
                generation: number(part()?, "generation")?,
                mask: hex(part()?, "mask")?,
                place: places(part()?.split(','), parse_place)?,
            });
        } else if let Some(generation) = word.strip_prefix("patches=") {
            let generation = number(generation, "generation")?;
            let most = fusion_format::value::max_patches(self.pages);
            let (mask, patch) = numbered(words, most)?;
            mapping.patches = Some(Patches {
                mask,
                generation,
                patch,
            });
        } else {
            return Err(wrong(format!("has {word:?} instead of a top or patches")));
        }
        self.sink.block(&mapping)
    }

    fn row(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Rows)?;
        let stripe = stripe_id(words.next("a stripe")?)?;
        let page: u32 = words.number("a page")?;
        if page >= SLOTS {
            return Err(wrong("is beyond a block"));
        }
        let copies = words.value("copies")?;
        let (first, second) = copies
            .split_once(',')
            .ok_or_else(|| wrong("has half of the copies"))?;
        let copies = [hex(first, "copies")?, hex(second, "copies")?];
        let mut parity = Vec::new();
        let mut rest = words.0.clone();
        while let Some(text) = rest.next().and_then(|word| word.strip_prefix("parity=")) {
            if parity.len() == MAX_PARITY {
                return Err(wrong("has too many parities"));
            }
            parity.push(places(text.split(','), parse_patch)?);
            words.0 = rest.clone();
        }
        if parity.is_empty() {
            return Err(wrong("has no parity"));
        }
        let (changed, patch) = numbered(words, Row::MAX_PATCHES)?;
        self.sink.row(&Row {
            stripe,
            page,
            changed,
            copies,
            parity,
            patch,
        })
    }

    fn stripe(&mut self, words: &mut Words) -> Result<()> {
        self.enter(Part::Stripes)?;
        let id = stripe_id(words.next("a stripe")?)?;
        let name = words.next("a state")?;
        let state = [StripeState::Primary, StripeState::Mirror, StripeState::Raid]
            .into_iter()
            .find(|state| state.name() == name)
            .ok_or_else(|| wrong(format!("has {name:?} as a state")))?;
        let mut stripe = Stripe {
            state,
            spared: words.hex_of("spared")?,
            generation: words.number_of("generation")?,
            written: words.hex_of("written")?,
            patch_pages: 0,
            live: 0,
            partner: [NO_STRIPE; MAX_PARITY],
        };
        if state != StripeState::Raid {
            for (count, text) in words.value("partner")?.split(',').enumerate() {
                let partner = stripe
                    .partner
                    .get_mut(count)
                    .ok_or_else(|| wrong("has too many partners"))?;
                *partner = stripe_id(text)?;
            }
        }
        self.sink.stripe(id, &stripe)
    }
}
