// SPDX-License-Identifier: GPL-2.0-only
//! Metadata as text: a line for each thing.
//!
//! ```text
//! dm-fusion metadata dump 1
//! pool uuid=... transaction=7 clean=1 ...
//! class 0 data=3 parity=1
//! member 0 uuid=... state=ok spare=0 rebuilt=0 lost=0 left=0
//! band 0 class=0
//! volume 0 name=data class=0 blocks=1024 deleting=0
//! run 0 3 0:17:0                        blocks 0 to 2 of the volume: bases 0:17:0 to 0:17:2
//! block 3 base=0:18:0 top=1,ff,0:4:1,0:9:2     generation, mask, places
//! block 4 base=0:18:1 patches=1 3=0:30:0:5,0:31:1:5
//! row 0:18 7 copies=1,0 parity=0:40:0:2,0:41:0:2 1=0:30:0:5,0:31:1:5
//! stripe 0:17 raid spared=0 generation=1 written=7
//! stripe 0:4 primary spared=0 generation=1 written=7 partner=0:9
//! end
//! ```
//!
//! All in this order; places as in `fusion_format::place`; masks and areas in hexadecimal.

use std::io::Write;

use fusion_format::MemberState;
use fusion_format::place::{
    NO_STRIPE, place, show_patch, show_place, show_stripe, slot_of, stripe_of,
};
use fusion_format::value::{Band, Patch, Row, Stripe, StripeState, Volume};
use fusion_format::whole::{Tree, Whole};

use crate::blocks::Source;
use crate::check::{self, OTHER_LAYOUT, damage_text, entry_name};
use crate::events::{Rows, Sink, entries, map_of, row_name, superblock};
use crate::geometry::Geometry;
use crate::map::Mapping;
use crate::stripes::replicas;
use crate::trees::{Entries, Input, Observer};
use crate::walk::{Damage, Reached};
use crate::{Error, Progress, Result, damaged};

pub const FIRST_LINE: &str = "dm-fusion metadata dump 1";

/// Writes all of `source` to `out`.
///
/// # Errors
/// Anything of it is damaged; or `out` cannot be written.
pub fn dump(source: &dyn Source, progress: Progress, out: &mut dyn Write) -> Result<()> {
    send(source, progress, &mut Text::new(out))
}

/// The first thing that is wrong.
#[derive(Default)]
struct First(Option<String>);

impl First {
    fn result(&mut self) -> Result<()> {
        match self.0.take() {
            Some(what) => damaged(what),
            None => Ok(()),
        }
    }
}

impl Observer for First {
    fn damage(&mut self, tree: Tree, damage: &Damage) {
        self.0.get_or_insert_with(|| damage_text(tree, damage));
    }

    fn malformed(&mut self, tree: Tree, key: u64, what: &str) {
        self.0
            .get_or_insert_with(|| format!("{}: {what}", entry_name(tree, key)));
    }

    fn sparse(&mut self, _tree: Tree, _block: u64) {}
}

/// Sends all of `source`, which must be whole, to `sink`.
fn send(source: &dyn Source, progress: Progress, sink: &mut dyn Sink) -> Result<()> {
    let whole = superblock(source)?;
    let mut reached = Reached::new(source.blocks(), progress);
    let mut first = First::default();
    let mut input = Input {
        source,
        reached: &mut reached,
        observer: &mut first,
    };
    // What is damaged is found when the next entry is asked for.
    let mut sending = Sending {
        geometry: Geometry::new(&whole)?,
        whole,
        sink,
    };
    let sent = sending.all(&mut input);
    first.result()?;
    sent
}

struct Sending<'a> {
    geometry: Geometry,
    whole: Whole,
    sink: &'a mut dyn Sink,
}

impl Sending<'_> {
    fn each(
        &mut self,
        tree: Tree,
        input: &mut Input,
        mut work: impl FnMut(&mut Self, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut entries: Entries = entries(&self.whole, tree);
        while let Some(key) = entries.next(input) {
            work(self, key, entries.value())?;
        }
        Ok(())
    }

    fn all(&mut self, input: &mut Input) -> Result<()> {
        let wrong =
            |tree, key, what: &str| Error::Damaged(format!("{}: {what}", entry_name(tree, key)));
        self.sink.begin(&self.whole)?;
        self.each(Tree::Bands, input, |this, key, value| {
            let band = Band::decode(value).map_err(|error| wrong(Tree::Bands, key, error.0))?;
            match u32::try_from(key) {
                Ok(number) if this.geometry.assign(number, band.class) => {
                    if this.geometry.generation(number) != Some(band.layout_generation) {
                        return Err(wrong(Tree::Bands, key, OTHER_LAYOUT));
                    }
                    this.sink.band(number, band.class)
                }
                _ => Err(wrong(Tree::Bands, key, "no such band, or class")),
            }
        })?;
        self.each(Tree::Volumes, input, |this, key, value| {
            let volume =
                Volume::decode(value).map_err(|error| wrong(Tree::Volumes, key, error.0))?;
            match u32::try_from(key) {
                Ok(id) => this.sink.volume(id, &volume),
                Err(_) => Err(wrong(Tree::Volumes, key, "no such volume")),
            }
        })?;
        let mut map = map_of(&self.whole);
        while let Some(mapping) = map.next(input) {
            self.sink.block(&mapping)?;
        }
        let mut rows = Rows::new(entries(&self.whole, Tree::Rows));
        while let Some((key, bytes)) = rows.next(input) {
            match check::decode_row(&self.geometry, key, &bytes) {
                Some((row, _)) => self.sink.row(&row)?,
                None => return damaged(format!("{}: impossible row", row_name(key))),
            }
        }
        self.each(Tree::Stripes, input, |this, key, value| {
            let stripe =
                Stripe::decode(value).map_err(|error| wrong(Tree::Stripes, key, error.0))?;
            this.sink.stripe(key, &stripe)
        })?;
        self.sink.end()
    }
}

// ---- as text ----

/// Bases one behind the other, in one stripe.
struct Run {
    volume: u32,
    block: u64,
    place: u64,
    count: u64,
}

struct Text<'a> {
    out: &'a mut dyn Write,
    whole: Option<Whole>,
    volumes: Vec<(u32, Volume)>,
    /// How many of them have been written.
    written: usize,
    run: Option<Run>,
}

pub(crate) fn state_name(state: MemberState) -> &'static str {
    match state {
        MemberState::Ok => "ok",
        MemberState::Missing => "missing",
        MemberState::Failed => "failed",
        MemberState::Returning => "returning",
    }
}

fn patch_text(patch: &Patch) -> String {
    let places: Vec<String> = replicas(patch).map(show_patch).collect();
    places.join(",")
}

/// The bits of `mask`, each with the thing that is its.
fn bits<'a, T>(mask: u64, things: &'a [T]) -> impl Iterator<Item = (u32, &'a T)> + use<'a, T> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1).zip(things)
}

impl<'a> Text<'a> {
    fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            whole: None,
            volumes: Vec::new(),
            written: 0,
            run: None,
        }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.out, "{text}")?)
    }

    fn flush_run(&mut self) -> Result<()> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        self.line(&format!(
            "run {} {} {}",
            run.block,
            run.count,
            show_place(run.place)
        ))
    }

    /// Volumes up to `id`; None: all.
    fn volumes(&mut self, id: Option<u32>) -> Result<()> {
        while let Some((next, volume)) = self.volumes.get(self.written) {
            if id.is_some_and(|id| *next > id) {
                break;
            }
            let text = format!(
                "volume {next} name={} class={} blocks={} deleting={}",
                volume.name,
                volume.class,
                volume.blocks,
                u8::from(volume.deleting)
            );
            self.written += 1;
            self.flush_run()?;
            self.line(&text)?;
        }
        Ok(())
    }
}

impl Sink for Text<'_> {
    fn begin(&mut self, whole: &Whole) -> Result<()> {
        self.line(FIRST_LINE)?;
        self.line(&format!(
            "pool uuid={} transaction={} clean={} needs_check={} compat={:x} incompat={:x} \
             metadata_blocks={} spares={} block_sectors={} band_units={} bands={} generation={} \
             unsynced_generation={} states_generation={} scrub_at={:x} layout_generation={} \
             old_members={} old_band_units={} old_bands={}",
            whole.pool_uuid,
            whole.transaction_id,
            u8::from(whole.clean),
            u8::from(whole.needs_check),
            whole.compat,
            whole.incompat,
            whole.metadata_blocks,
            whole.spares,
            whole.block_sectors,
            whole.band_units,
            whole.bands,
            whole.generation,
            whole.unsynced_generation,
            whole.states_generation,
            whole.scrub_at,
            whole.layout_generation,
            whole.old.members,
            whole.old.band_units,
            whole.old.bands,
        ))?;
        let journal = &whole.journal;
        if journal.sectors != 0 {
            self.line(&format!(
                "journal offset={} sectors={} at={} sequence={:x}",
                journal.offset_sectors, journal.sectors, journal.at, journal.sequence
            ))?;
        }
        for (index, class) in whole.classes.iter().enumerate() {
            self.line(&format!(
                "class {index} data={} parity={}",
                class.data, class.parity
            ))?;
        }
        for (index, member) in whole.members.iter().enumerate() {
            self.line(&format!(
                "member {index} uuid={} state={} spare={} rebuilt={} lost={} left={}",
                member.uuid,
                state_name(member.state),
                member.spare,
                u8::from(member.rebuilt),
                u8::from(member.lost),
                member.left
            ))?;
        }
        self.whole = Some(whole.clone());
        Ok(())
    }

    fn band(&mut self, band: u32, class: u16) -> Result<()> {
        self.line(&format!("band {band} class={class}"))
    }

    fn volume(&mut self, id: u32, volume: &Volume) -> Result<()> {
        self.volumes.push((id, volume.clone()));
        Ok(())
    }

    fn block(&mut self, mapping: &Mapping) -> Result<()> {
        self.volumes(Some(mapping.volume))?;
        let last = self.written.checked_sub(1).map(|at| self.volumes[at].0);
        if last != Some(mapping.volume) {
            return damaged(format!(
                "volume {} block {}: mapped, but there is no such volume",
                mapping.volume, mapping.block
            ));
        }
        if mapping.top.is_none() && mapping.patches.is_none() {
            if let Some(run) = &mut self.run {
                let next = slot_of(run.place) + u32::try_from(run.count).unwrap_or(u32::MAX);
                if run.volume == mapping.volume
                    && run.block + run.count == mapping.block
                    && next < 64
                    && place(stripe_of(run.place), next) == mapping.base
                {
                    run.count += 1;
                    return Ok(());
                }
            }
            self.flush_run()?;
            self.run = Some(Run {
                volume: mapping.volume,
                block: mapping.block,
                place: mapping.base,
                count: 1,
            });
            return Ok(());
        }
        self.flush_run()?;
        let base = match mapping.base {
            0 => "-".to_owned(),
            base => show_place(base),
        };
        let mut text = format!("block {} base={base}", mapping.block);
        if let Some(top) = &mapping.top {
            text += &format!(" top={},{:x}", top.generation, top.mask);
            for at in replicas(&top.place) {
                text += &format!(",{}", show_place(at));
            }
        }
        if let Some(patches) = &mapping.patches {
            text += &format!(" patches={}", patches.generation);
            for (page, patch) in bits(patches.mask, &patches.patch) {
                text += &format!(" {page}={}", patch_text(patch));
            }
        }
        self.line(&text)
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        self.volumes(None)?;
        self.flush_run()?;
        let mut text = format!(
            "row {} {} copies={:x},{:x}",
            show_stripe(row.stripe),
            row.page,
            row.copies[0],
            row.copies[1]
        );
        for patch in &row.parity {
            text += &format!(" parity={}", patch_text(patch));
        }
        for (slot, patch) in bits(row.changed, &row.patch) {
            text += &format!(" {slot}={}", patch_text(patch));
        }
        self.line(&text)
    }

    fn stripe(&mut self, id: u64, stripe: &Stripe) -> Result<()> {
        self.volumes(None)?;
        self.flush_run()?;
        let mut text = format!(
            "stripe {} {} spared={:x} generation={} written={:x}",
            show_stripe(id),
            stripe.state.name(),
            stripe.spared,
            stripe.generation,
            stripe.written
        );
        if stripe.state != StripeState::Raid {
            let partners: Vec<String> = stripe
                .partner
                .into_iter()
                .filter(|&partner| partner != NO_STRIPE)
                .map(show_stripe)
                .collect();
            text += &format!(" partner={}", partners.join(","));
        }
        self.line(&text)
    }

    fn end(&mut self) -> Result<()> {
        self.volumes(None)?;
        self.flush_run()?;
        self.line("end")?;
        Ok(self.out.flush()?)
    }
}
