// SPDX-License-Identifier: GPL-2.0-only
//! Metadata of pools that are not running: check, dump, restore, repair.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use fusion_format::journal::{self, Pending};
use fusion_format::whole::Whole;
use fusion_metadata::blocks::{BLOCK_BYTES, Block};
use fusion_metadata::check::{Checked, Options};
use fusion_metadata::{FileBlocks, Findings, Progress, Severity, Source, Target};

use crate::block::BlockDevice;
use crate::cli::{CheckArgs, RepairArgs, RestoreArgs, RewriteArgs};
use crate::offline::{self, Access};
use crate::{ask, output, progress};

/// An error that is not told of.
#[derive(Debug, thiserror::Error)]
#[error("it was asked to say nothing")]
pub struct Silent;

/// So many of what is wrong are told of.
const MOST_LINES: u64 = 100;
/// With fewer blocks it is over before anybody looks.
const SHOWN_BLOCKS: u64 = 16384;

/// Does `work`, and shows how much of the blocks that are in use it has looked at.
fn watch<T: Send>(
    what: &str,
    source: &FileBlocks,
    quiet: bool,
    work: impl FnOnce(Progress) -> T + Send,
) -> T {
    let seen = Progress::default();
    let total = fusion_metadata::used_blocks(source).unwrap_or(0);
    if quiet || total < SHOWN_BLOCKS {
        return work(seen);
    }
    let shown = seen.clone();
    progress::watch(
        what,
        move || work(seen),
        || Some((shown.load(Ordering::Relaxed).min(total), total)),
    )
}

/// What was found, and done about it.
#[derive(Default)]
struct Answer {
    errors: u64,
    minor: u64,
    repaired: bool,
    needs_check: bool,
    cleared: bool,
    problems: Vec<String>,
    /// In the journal; None: nobody has looked, or there is none.
    pending: Option<Pending>,
}

pub fn check(args: &CheckArgs, json: bool) -> Result<()> {
    let access = if args.auto_repair || args.clear_needs_check_flag {
        Access::Write
    } else {
        Access::Read
    };
    let result = offline::with_members(&args.metadata, access, |blocks, members| {
        check_blocks(args, blocks, members)
    });
    let answer = match result {
        Err(_) if args.quiet => return Err(Silent.into()),
        result => result?,
    };
    let minor_counts = answer.minor > 0 && !answer.repaired && !args.ignore_non_fatal_errors;
    let good = answer.errors == 0 && !minor_counts;
    if args.quiet {
        return if good { Ok(()) } else { Err(Silent.into()) };
    }
    if json {
        output::json(&serde_json::json!({
            "metadata": args.metadata, "good": good,
            "errors": answer.errors, "non_fatal": answer.minor, "repaired": answer.repaired,
            "needs_check": answer.needs_check, "cleared": answer.cleared,
            "problems": answer.problems,
            "journal_epochs": answer.pending.map(|pending| pending.epochs),
            "journal_stale": answer.pending.map(|pending| pending.stale),
        }))?;
    } else {
        output::notes(&answer.problems);
        output::notes(&journal_note(&answer));
        let told = answer.problems.len() as u64;
        if answer.errors + answer.minor > told {
            output::notes(&[format!("and {} more", answer.errors + answer.minor - told)]);
        }
    }
    let name = &args.metadata;
    if answer.errors > 0 {
        bail!(
            "the metadata {name} is damaged, {} errors: fusion repair writes what can be saved of it \
             to another place",
            answer.errors
        );
    }
    if minor_counts {
        bail!(
            "the metadata {name} has {} errors that lose nothing: --auto-repair corrects them",
            answer.minor
        );
    }
    if !json {
        output::line(&format!("the metadata {name} is good{}", remark(&answer)));
    }
    Ok(())
}

/// What a start would make of the journal.
fn journal_note(answer: &Answer) -> Vec<String> {
    match answer.pending {
        Some(Pending { stale: true, .. }) => vec![
            "the journal goes on after a commit that this metadata does not have: the pool does not \
             start, unless that is found, or discarded (fusion restore --discard-journal)"
                .into(),
        ],
        Some(Pending { epochs, .. }) if epochs > 0 => {
            vec![format!("the next start replays {epochs} epochs from the journal")]
        }
        _ => Vec::new(),
    }
}

/// Of the members that can be read.
fn pending(whole: &Whole, members: &[Option<PathBuf>]) -> Option<Pending> {
    if members.is_empty() || whole.journal.sectors == 0 {
        return None;
    }
    let devices: Vec<_> = members
        .iter()
        .map(|path| BlockDevice::open_read(path.as_ref()?).ok())
        .collect();
    Some(journal::pending(whole, &mut |index, at, bytes| {
        devices.get(index)?.as_ref()?.read_at(at, bytes).ok()
    }))
}

fn remark(answer: &Answer) -> &'static str {
    match (answer.repaired, answer.cleared, answer.needs_check) {
        (true, true, _) => ": counts are corrected, and the pool can be written to again",
        (false, true, _) => ": the pool can be written to again",
        (_, false, true) => ", but the pool is read-only: --clear-needs-check-flag changes that",
        (true, false, false) => ": counts are corrected",
        (false, false, false) => "",
    }
}

fn check_blocks(
    args: &CheckArgs,
    mut blocks: FileBlocks,
    members: &[Option<PathBuf>],
) -> Result<Answer> {
    let mut answer = Answer::default();
    let options = Options {
        superblock_only: args.super_block_only,
        skip_mappings: args.skip_mappings,
    };
    let problems = &mut answer.problems;
    let mut tell = |severity, text: &str| {
        if (problems.len() as u64) < MOST_LINES {
            let kind = match severity {
                Severity::Error => "",
                Severity::Minor => " (loses nothing)",
            };
            problems.push(format!("{text}{kind}"));
        }
    };
    let (checked, errors, minor) = watch("checking", &blocks, args.quiet, |seen| {
        let mut findings = Findings::new(&mut tell);
        let checked = fusion_metadata::check::check(&blocks, options, seen, &mut findings);
        (checked, findings.errors, findings.minor)
    });
    (answer.errors, answer.minor) = (errors, minor);
    let Some(checked) = checked.filter(|_| errors == 0) else {
        return Ok(answer);
    };
    answer.needs_check = checked.whole.needs_check;
    answer.pending = pending(&checked.whole, members);
    if args.auto_repair && minor > 0 {
        answer.repaired = repair_counts(&checked, &mut blocks)?;
    }
    let good = minor == 0 || answer.repaired || args.ignore_non_fatal_errors;
    if args.clear_needs_check_flag && good && answer.needs_check {
        clear_needs_check(&mut blocks)?;
        answer.cleared = true;
    }
    Ok(answer)
}

/// Is everything right afterwards?  What is sparse cannot be corrected.
fn repair_counts(checked: &Checked, blocks: &mut FileBlocks) -> Result<bool> {
    let reader = FileBlocks {
        file: blocks.file.try_clone()?,
        blocks: blocks.blocks,
    };
    checked.repair_space_map(&reader, blocks)?;
    let mut tell = |_, _: &str| ();
    let mut findings = Findings::new(&mut tell);
    fusion_metadata::check::check(
        &reader,
        Options::default(),
        Progress::default(),
        &mut findings,
    );
    Ok(findings.errors + findings.minor == 0)
}

fn clear_needs_check(blocks: &mut FileBlocks) -> Result<()> {
    change_superblock(blocks, Whole::without_needs_check)
}

/// What was just written, if the members' journal is not for it.
fn end_rewrite(args: &RewriteArgs, blocks: &mut FileBlocks) -> Result<()> {
    if !args.discard_journal {
        return Ok(());
    }
    change_superblock(blocks, Whole::without_journal_records)
}

fn change_superblock(
    blocks: &mut FileBlocks,
    change: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<()> {
    let old = blocks.read(0)?;
    let Some(new) = change(&old[..]) else {
        bail!("the superblock has changed meanwhile: check it again");
    };
    let mut bytes: Block = [0; BLOCK_BYTES];
    bytes.copy_from_slice(&new);
    blocks.write(0, &bytes)?;
    blocks.sync()?;
    Ok(())
}

pub fn dump(metadata: &str, to: Option<&Path>, json: bool) -> Result<()> {
    let write = |out: &mut (dyn Write + Send)| {
        offline::with(metadata, Access::Read, |blocks| {
            watch("dumping", &blocks, to.is_none(), |seen| {
                fusion_metadata::dump::dump(&blocks, seen, out)
            })
            .with_context(|| {
                format!("the metadata {metadata} cannot be dumped: fusion repair may save it")
            })
        })
    };
    let Some(path) = to else {
        return write(&mut BufWriter::new(std::io::stdout()));
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("the file {} cannot be made", path.display()))?;
    let result = write(&mut BufWriter::new(&file)).and_then(|()| Ok(file.sync_all()?));
    if let Err(error) = result {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    if json {
        return output::json(&serde_json::json!({ "metadata": metadata, "dumped": path }));
    }
    output::line(&format!("{metadata} is dumped to {}", path.display()));
    Ok(())
}

/// Asks before metadata is overwritten that is there.
fn confirm(what: &str, to: &str, yes: bool) -> Result<()> {
    if offline::is_pool(to) || Path::new(to).exists() {
        ask::confirm(&format!("{what} the metadata {to}"), yes)?;
    }
    Ok(())
}

pub fn restore(args: &RestoreArgs, json: bool) -> Result<()> {
    let (from, to) = (&args.input, &args.output);
    let open = || {
        File::open(from)
            .map(BufReader::new)
            .with_context(|| format!("{} cannot be opened", from.display()))
    };
    let fails = || format!("{} is not restored", from.display());
    let blocks = fusion_metadata::restore::blocks_of(&mut open()?).with_context(fails)?;
    confirm("overwriting", to, args.rewrite.yes)?;
    let mut dump = open()?;
    offline::write(to, blocks, |mut blocks| {
        fusion_metadata::restore::restore(&mut dump, &mut blocks, Progress::default())
            .with_context(fails)?;
        end_rewrite(&args.rewrite, &mut blocks)
    })?;
    if json {
        return output::json(&serde_json::json!({ "metadata": to, "restored": true }));
    }
    output::line(&format!("{} is restored to {to}", from.display()));
    Ok(())
}

pub fn repair(args: &RepairArgs, json: bool) -> Result<()> {
    let (from, to) = (&args.input, &args.output);
    if offline::is_pool(from) && offline::is_pool(to) {
        bail!("one of {from} and {to} must be a device or a file: write to a file, and look at it");
    }
    confirm("overwriting", to, args.rewrite.yes)?;
    let mut lost = Vec::new();
    let mut count = 0u64;
    offline::with(from, Access::Read, |source| {
        let blocks = fusion_metadata::repair::blocks_of(&source)
            .with_context(|| format!("the metadata {from} cannot be repaired"))?;
        offline::write(to, blocks, |mut target| {
            let mut tell = |text: &str| {
                count += 1;
                if count <= MOST_LINES {
                    lost.push(text.to_owned());
                }
            };
            watch("repairing", &source, false, |seen| {
                fusion_metadata::repair::repair(&source, &mut target, seen, &mut tell)
            })
            .with_context(|| format!("the metadata {from} cannot be repaired"))?;
            end_rewrite(&args.rewrite, &mut target)
        })
    })?;
    if json {
        return output::json(&serde_json::json!({
            "metadata": to, "repaired": true, "losses": count, "lost": lost,
        }));
    }
    output::notes(&lost);
    if count > MOST_LINES {
        output::notes(&[format!("and {} more", count - MOST_LINES)]);
    }
    output::line(&match count {
        0 => format!("nothing is lost: what is in {to} is what was in {from}"),
        _ => format!("what could be saved of {from} is in {to}; {count} losses are listed above"),
    });
    Ok(())
}
