//! `cargo xtask map`: figures about the structure of the host's code, as Markdown.
//!
//! For each room (a crate of `host/`, or a top-level module where the crate has all of them): files, lines by kind, and the
//! rooms that it uses. Then the dependency graph: floors, arrows, cycles between rooms and between files; conditional
//! compilation; the smallest and the largest files. Everything is parsed from the sources; nothing is compiled.
//!
//! Production lines are lines with code outside of tests, without comments, documentation and blank lines.

#![allow(clippy::arithmetic_side_effects, reason = "sums of lines and files, which memory bounds")]

mod graph;
mod lines;
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;

use self::lines::Lines;
use self::modules::{SourceFile, Sources};
use crate::workspace::Workspace;

/// A file with at most this many production lines is listed as small.
const SMALL_FILE: usize = 40;

/// A file with more production lines is listed as large.
const LARGE_FILE: usize = 250;

#[derive(Debug, Args)]
pub(crate) struct Map {
    /// The number of the smallest and of the largest files to list
    #[arg(long, default_value_t = 15)]
    files: usize,
}

impl Map {
    /// Prints the figures to standard output.
    ///
    /// # Errors
    ///
    /// A source file cannot be read or parsed.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let sources = Sources::read(workspace)?;
        let mut text = String::new();
        totals(&mut text, &sources);
        rooms(&mut text, &sources);
        cycles(&mut text, &sources);
        files(&mut text, &sources, self.files);
        print(&text);
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the output of the task; its messages go to stderr")]
fn print(text: &str) {
    print!("{text}");
}

/// Sums over all files, and the number of files at both ends of the sizes.
fn totals(text: &mut String, sources: &Sources) {
    let sum = sources.files.iter().fold(Lines::default(), |sum, file| sum + file.lines);
    let mut sizes: Vec<usize> = sources.files.iter().map(|file| file.lines.production).collect();
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
    let small = sizes.iter().filter(|size| (1..=SMALL_FILE).contains(*size)).count();
    let large = sizes.iter().filter(|size| **size > LARGE_FILE).count();
    let cfgs: usize = sources.files.iter().map(|file| file.feature_cfgs).sum();
    let arrows = sources.room_arrows();
    let _ = writeln!(text, "# Totals\n\n| figure | value |\n|---|---|");
    for (name, value) in [
        ("files", sources.files.len()),
        ("production lines", sum.production),
        ("documentation lines", sum.documentation),
        ("comment lines", sum.comment),
        ("unit test lines", sum.test),
        ("blank lines", sum.blank),
        ("median production lines of a file", median),
        ("files of 1 to 40 production lines", small),
        ("files of more than 250 production lines", large),
        ("`cfg` of a feature", cfgs),
        ("crates", sources.crates.len()),
        ("rooms", sources.rooms().len()),
        ("arrows between rooms", arrows.len()),
    ] {
        let _ = writeln!(text, "| {name} | {value} |");
    }
}

/// One row for each room, from the top floor down.
fn rooms(text: &mut String, sources: &Sources) {
    let mut sums: BTreeMap<&str, (usize, Lines)> = BTreeMap::new();
    for file in &sources.files {
        let (files, lines) = sums.entry(&file.room).or_default();
        *files += 1;
        *lines = *lines + file.lines;
    }
    let arrows = sources.room_arrows();
    let floors = graph::floors(arrows.keys().map(|(from, to)| (from.as_str(), to.as_str())), sums.keys().copied());
    let mut rows: Vec<_> = sums.iter().collect();
    rows.sort_by_key(|(room, (_, lines))| {
        (std::cmp::Reverse(floors.get(**room).copied().unwrap_or_default()), std::cmp::Reverse(lines.production))
    });
    let _ = writeln!(
        text,
        "\n# Rooms\n\n| floor | room | files | production | documentation | unit tests | uses (sites) |"
    );
    let _ = writeln!(text, "|---|---|---|---|---|---|---|");
    for (room, (files, lines)) in rows {
        let mut uses: Vec<_> = arrows.iter().filter(|((from, _), _)| from == *room).collect();
        uses.sort_by_key(|(_, sites)| std::cmp::Reverse(**sites));
        let uses: Vec<_> = uses.iter().map(|((_, to), sites)| format!("{to} {sites}")).collect();
        let floor = floors.get(*room).copied().unwrap_or_default();
        let Lines { production, documentation, test, .. } = lines;
        let _ = writeln!(
            text,
            "| {floor} | {room} | {files} | {production} | {documentation} | {test} | {} |",
            uses.join(", ")
        );
    }
}

/// The strongly connected components: of rooms, and of files.
fn cycles(text: &mut String, sources: &Sources) {
    let arrows = sources.room_arrows();
    let of_rooms = graph::cycles(arrows.keys().map(|(from, to)| (from.as_str(), to.as_str())));
    let edges: BTreeSet<(&str, &str)> = sources
        .files
        .iter()
        .flat_map(|file| file.uses.keys().map(move |to| (file.path.as_str(), to.as_str())))
        .collect();
    let of_files = graph::cycles(edges.iter().copied());
    let _ = writeln!(text, "\n# Cycles\n\n{} between rooms, {} between files.\n", of_rooms.len(), of_files.len());
    for cycle in of_rooms.iter().chain(&of_files) {
        let _ = writeln!(text, "- {} members: {}", cycle.len(), cycle.join(", "));
    }
}

/// The smallest and the largest files by production lines.
fn files(text: &mut String, sources: &Sources, count: usize) {
    let mut files: Vec<&SourceFile> = sources.files.iter().filter(|file| file.lines.production > 0).collect();
    files.sort_by_key(|file| (file.lines.production, &file.path));
    let row = |file: &&SourceFile| format!("{} {}", file.path, file.lines.production);
    let smallest: Vec<_> = files.iter().take(count).map(row).collect();
    let largest: Vec<_> = files.iter().rev().take(count).map(row).collect();
    let _ = writeln!(text, "\n# Files\n\nSmallest: {}.\n\nLargest: {}.", smallest.join(", "), largest.join(", "));
}
