//! Debian packages that are downloaded and unpacked without an installation.
//!
//! This uses a copy of the machine's apt sources, in which the name of the release may be another, and separate package
//! lists, all below one given folder. So it needs no root, and writes nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::apt::Release;
use crate::cargo;
use crate::progress::Step;

/// Unpacks packages of a suite into a folder below `folder`, and returns that folder.
///
/// `folder` is emptied first.
pub(crate) fn unpack(
    packages: &[&str],
    release: &Release,
    suite: &str,
    folder: &Path,
    step: &mut Step,
) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    prepare(Path::new("/etc/apt"), release, suite, folder)?;

    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.arg("-q").arg("-c").arg(folder.join("apt.conf")).current_dir(folder).env("LC_ALL", "C");
        command
    };
    step.at(format!("package lists of {suite}"));
    // The failure of one source is ignored if the packages are available from another.
    let lists = cargo::capture(apt_get().arg("update"));
    let names = packages.join(", ");
    step.at(format!("{names} of {suite}"));
    cargo::capture(apt_get().arg("download").args(packages)).with_context(|| match lists {
        Ok(_) => format!("cannot download {names} of {suite}"),
        Err(error) => format!("cannot download {names} of {suite}, after {error:#}"),
    })?;

    let unpacked = folder.join("unpacked");
    let files = fs::read_dir(folder)?.flatten().map(|file| file.path());
    for package in files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")) {
        cargo::capture(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked))?;
    }
    ensure!(unpacked.is_dir(), "apt-get downloaded no package into {}", folder.display());
    Ok(unpacked)
}

/// Writes sources and configuration for apt into `folder`.
fn prepare(etc_apt: &Path, release: &Release, suite: &str, folder: &Path) -> Result<()> {
    for below in ["sources", "lists/partial", "cache/archives/partial"] {
        let below = folder.join(below);
        fs::create_dir_all(&below).with_context(|| format!("cannot make {}", below.display()))?;
    }
    let mut rewritten = 0_usize;
    for file in sources(etc_apt) {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stanzas = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => deb822(&text, &release.codename, suite),
            _ => one_line(&text, &release.codename, suite),
        };
        let name = file.file_name().context("a source has no name")?;
        if !stanzas.is_empty() {
            fs::write(folder.join("sources").join(name), stanzas)?;
            rewritten = rewritten.saturating_add(1);
        }
    }
    ensure!(
        rewritten > 0,
        "no apt source of {} names the suite {} with the component main, which its mirror would be known by",
        etc_apt.display(),
        release.codename
    );
    fs::write(folder.join("apt.conf"), configuration(folder))?;
    Ok(())
}

/// Returns the apt source files of the machine.
fn sources(etc_apt: &Path) -> Vec<PathBuf> {
    let parts = fs::read_dir(etc_apt.join("sources.list.d")).into_iter().flatten().flatten().map(|file| file.path());
    let mut files: Vec<_> = parts
        .filter(|path| path.extension().is_some_and(|extension| extension == "sources" || extension == "list"))
        .chain(Some(etc_apt.join("sources.list")))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// Returns the configuration of apt: all files are written below `folder`, and the machine's hooks are disabled.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Dir::Etc::SourceList \"/dev/null\";\n\
         Dir::Etc::SourceParts \"{folder}/sources\";\n\
         Dir::State::Lists \"{folder}/lists\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         // The user that apt downloads as may not see this folder, which can be below a home.\n\
         APT::Sandbox::User \"\";\n"
    )
}

/// Returns the stanzas of a `.sources` file with the suite `from` and the component `main`, rewritten for the suite
/// `to`.
fn deb822(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stanzas = lines.split(|line| line.trim().is_empty()).filter(|stanza| {
        let words = |field: &str| {
            stanza
                .iter()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case(field))
                .map_or_else(Vec::new, |(_, value)| value.split_whitespace().collect())
        };
        words("Types").contains(&"deb")
            && words("Suites").contains(&from)
            && words("Components").contains(&"main")
            && !words("Enabled").iter().any(|word| word.eq_ignore_ascii_case("no"))
    });
    let mut rewritten = String::new();
    for stanza in stanzas {
        for line in stanza {
            let replaced = match line.split_once(':').map(|(name, _)| name.to_ascii_lowercase()).as_deref() {
                Some("types") => "Types: deb",
                Some("suites") => &format!("Suites: {to}"),
                Some("components") => "Components: main",
                _ => line,
            };
            rewritten.push_str(replaced);
            rewritten.push('\n');
        }
        rewritten.push('\n');
    }
    rewritten
}

/// Returns the lines of a `sources.list` with the suite `from` and the component `main`, rewritten for the suite `to`.
fn one_line(text: &str, from: &str, to: &str) -> String {
    let mut rewritten = String::new();
    for line in text.lines() {
        let line = line.split_once('#').map_or(line, |(source, _)| source).trim();
        let Some(source) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t'])) else { continue };
        let source = source.trim_start();
        let (options, source) = match source.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, source)) => (format!("[{options}] "), source),
            None => (String::new(), source),
        };
        let mut words = source.split_whitespace();
        if let (Some(uri), Some(suite)) = (words.next(), words.next())
            && suite == from
            && words.any(|component| component == "main")
        {
            rewritten.push_str(&format!("deb {options}{uri} {to} main\n"));
        }
    }
    rewritten
}

#[cfg(test)]
mod tests;
