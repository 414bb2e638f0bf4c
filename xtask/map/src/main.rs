//! `cargo xtask map`: figures about the structure of the host's code, as Markdown.
//!
//! For each crate below `host/` and each top-level module, the program prints the number of files, the lines by kind,
//! and the crates and modules that it uses. Then come the cycles between modules and between files, and the smallest
//! and the largest files. The program parses the sources and compiles nothing.
//!
//! Production lines are lines of code outside of tests, without comments, documentation and blank lines. The floor of a
//! module is 1 if it uses no other module, else one more than the highest floor that it uses.

mod graph;
mod lines;
mod modules;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

use self::lines::Lines;
use self::modules::{SourceFile, Sources};

/// The maximum number of production lines of a file that is counted as small.
const SMALL_FILE: usize = 40;
/// The maximum number of production lines of a file that is not counted as large.
const LARGE_FILE: usize = 250;

/// Prints the figures of the repository in the first argument. The second argument is the number of files to list.
fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let root = PathBuf::from(arguments.next().context("expected the folder of the repository")?);
    let listed =
        arguments.next().and_then(|count| count.to_str()?.parse().ok()).context("expected a number of files")?;
    let sources = Sources::read(&root)?;
    let mut text = String::new();
    totals(&mut text, &sources);
    groups(&mut text, &sources, "crate", |file| &file.krate);
    groups(&mut text, &sources, "module", |file| &file.module);
    cycles(&mut text, &sources);
    files(&mut text, &sources, listed);
    print!("{text}");
    Ok(())
}

/// Writes the sums over all files, and the numbers of small and large files.
fn totals(text: &mut String, sources: &Sources) {
    let sum = sources.files.iter().fold(Lines::default(), |sum, file| sum + file.lines);
    let mut sizes: Vec<usize> = sources.files.iter().map(|file| file.lines.production).collect();
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
    let small = sizes.iter().filter(|size| (1..=SMALL_FILE).contains(*size)).count();
    let large = sizes.iter().filter(|size| **size > LARGE_FILE).count();
    let modules: BTreeSet<&str> = sources.files.iter().map(|file| file.module.as_str()).collect();
    let _ = writeln!(text, "# Totals\n\n| figure | value |\n|---|---|");
    for (name, value) in [
        ("crates", sources.crates),
        ("files", sources.files.len()),
        ("production lines", sum.production),
        ("documentation lines", sum.documentation),
        ("comment lines", sum.comment),
        ("unit test lines", sum.test),
        ("blank lines", sum.blank),
        ("median production lines of a file", median),
        ("files of 1 to 40 production lines", small),
        ("files of more than 250 production lines", large),
        ("`cfg` of a feature", sources.files.iter().map(|file| file.feature_cfgs).sum()),
        ("top-level modules", modules.len()),
        ("arrows between modules", sources.arrows(|file| &file.module).len()),
        ("arrows between files", sources.files.iter().map(|file| file.uses.len()).sum()),
    ] {
        let _ = writeln!(text, "| {name} | {value} |");
    }
}

/// Writes one row for each crate or module, from the top floor down.
fn groups(text: &mut String, sources: &Sources, what: &str, group: fn(&SourceFile) -> &str) {
    let mut sums: BTreeMap<&str, (usize, Lines, usize)> = BTreeMap::new();
    for file in &sources.files {
        let (files, lines, cfgs) = sums.entry(group(file)).or_default();
        *files += 1;
        *lines = *lines + file.lines;
        *cfgs += file.feature_cfgs;
    }
    let arrows = sources.arrows(group);
    let floors = graph::floors(arrows.keys().copied(), sums.keys().copied());
    let floor = |name: &str| floors.get(name).copied().unwrap_or_default();
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(name, (_, lines, _))| (Reverse(floor(name)), Reverse(lines.production)));
    let _ = writeln!(text, "\n# By {what}\n");
    let _ = writeln!(text, "| floor | {what} | files | production | documentation | tests | `cfg`s | uses (sites) |");
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|");
    for (name, (files, Lines { production, documentation, test, .. }, cfgs)) in rows {
        let mut uses: Vec<_> = arrows.iter().filter(|((from, _), _)| *from == name).collect();
        uses.sort_by_key(|(_, sites)| Reverse(**sites));
        let uses: Vec<_> = uses.iter().map(|((_, to), sites)| format!("{to} {sites}")).collect();
        let (floor, uses) = (floor(name), uses.join(", "));
        let _ = writeln!(
            text,
            "| {floor} | {name} | {files} | {production} | {documentation} | {test} | {cfgs} | {uses} |"
        );
    }
}

/// Writes the strongly connected components of modules and of files.
fn cycles(text: &mut String, sources: &Sources) {
    let arrows = sources.arrows(|file| &file.module);
    let of_modules = graph::cycles(arrows.keys().copied());
    let edges = || sources.files.iter().flat_map(|file| file.uses.keys().map(|to| (file.path.as_str(), to.as_str())));
    let of_files = graph::cycles(edges());
    let _ = writeln!(text, "\n# Cycles\n\n{} between modules, {} between files.\n", of_modules.len(), of_files.len());
    for cycle in &of_modules {
        let _ = writeln!(text, "- {} members: {}", cycle.len(), cycle.join(", "));
        feedback(text, cycle, arrows.keys().copied());
    }
    for cycle in &of_files {
        let _ = writeln!(text, "- {} members: {}", cycle.len(), cycle.join(", "));
        feedback(text, cycle, edges());
    }
}

/// Writes the arrows of a cycle whose removal breaks it.
fn feedback<'a>(text: &mut String, cycle: &[&'a str], arrows: impl Iterator<Item = (&'a str, &'a str)>) {
    let within = arrows.filter(|(from, to)| cycle.contains(from) && cycle.contains(to));
    for (from, to) in graph::feedback(within) {
        let _ = writeln!(text, "  - without {from} -> {to}");
    }
}

/// Writes the smallest and the largest files by production lines.
fn files(text: &mut String, sources: &Sources, count: usize) {
    let mut files: Vec<&SourceFile> = sources.files.iter().filter(|file| file.lines.production > 0).collect();
    files.sort_by_key(|file| (file.lines.production, &file.path));
    let row = |file: &&SourceFile| format!("{} {}", file.path, file.lines.production);
    let smallest: Vec<_> = files.iter().take(count).map(row).collect();
    let largest: Vec<_> = files.iter().rev().take(count).map(row).collect();
    let _ = writeln!(text, "\n# Files\n\nSmallest: {}.\n\nLargest: {}.", smallest.join(", "), largest.join(", "));
}
