//! The requirements of a version that were not agreed to, and its other differences.

use std::collections::{BTreeMap, BTreeSet};

use mcp_host_config::Config;
use mcp_host_config::registry::{Lock, LockedComponent, LockedProvenance, LockedSigner, Reference};
use mcp_host_registry::{Capability, Kind, missing};
use semver::Version;

use super::{Candidate, RegistryCommandError, capabilities};
use crate::error::CliError;
use crate::output::Output;
use crate::table::{Cell, Table};

/// The values of `--agree` beside capabilities.
const SIGNER: &str = "signer";
const DOWNGRADE: &str = "downgrade";
const MOVED: &str = "moved";
const PROVIDER: &str = "provider";
const PROVENANCE: &str = "provenance";

/// The values that a person agrees to.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreed {
    capabilities: BTreeSet<Capability>,
    others: BTreeSet<&'static str>,
}

impl Agreed {
    /// Parses the values of `--agree`.
    pub(super) fn parse(written: &[String]) -> Result<Self, RegistryCommandError> {
        let mut agreed = Self::default();
        for text in written {
            match [SIGNER, DOWNGRADE, MOVED, PROVIDER, PROVENANCE].into_iter().find(|other| other == text) {
                Some(other) => drop(agreed.others.insert(other)),
                None => drop(agreed.capabilities.insert(text.parse()?)),
            }
        }
        Ok(agreed)
    }

    /// Whether nothing was agreed to.
    pub(super) fn is_empty(&self) -> bool {
        self.capabilities.is_empty() && self.others.is_empty()
    }
}

/// The difference between a locked component and another version.
pub(super) struct Difference {
    /// The old and new values.
    changes: Vec<[Cell; 2]>,
    /// Added and removed items, with their consequence.
    rows: Vec<[Cell; 3]>,
    /// The items that need agreement, in the notation of `--agree`.
    pub(super) unagreed: Vec<String>,
    /// The values of `--agree` that were needed, in the same notation: a command with the others must repeat them.
    pub(super) given: Vec<String>,
    /// The agreed capabilities for the new lock entry.
    pub(super) agreed: BTreeSet<Capability>,
}

impl Difference {
    /// Compares a version with a locked component.
    pub(super) fn new(locked: &LockedComponent, candidate: &Candidate, config: &Config, by: &Agreed) -> Self {
        let (obtained, wanted) = (&candidate.obtained, &candidate.capabilities);
        let mut difference = Self {
            changes: Vec::new(),
            rows: Vec::new(),
            unagreed: Vec::new(),
            given: Vec::new(),
            agreed: capabilities(&locked.agreed),
        };
        let before = capabilities(&locked.needs);
        let (from, to) = (version(locked.version.as_ref()), version(obtained.version.as_ref()));
        difference.change("version", &from, &to);
        let is_same_manifest = obtained.manifest == locked.manifest;
        if obtained.version < locked.version && !is_same_manifest {
            let why = match obtained.version {
                Some(_) => "the version is lower",
                None => "a reference by digest names no version, so it may be lower",
            };
            difference.require(DOWNGRADE, by, why);
        }
        if obtained.version == locked.version && !is_same_manifest && locked.version.is_some() {
            difference.require(MOVED, by, "the tag of this version names another manifest now");
        }
        difference.change("manifest", &locked.manifest.to_string(), &obtained.manifest.to_string());
        if let Ok(info) = &candidate.inspection.info {
            let from = format!("{} {}", locked.provider, locked.provider_version);
            difference.change("provider", &from, &format!("{} {}", info.name, info.version));
            if info.name != locked.provider {
                difference.require(PROVIDER, by, "it is another provider");
            }
        }
        difference.change("size", &format!("{} bytes", locked.size), &format!("{} bytes", obtained.size));
        let (old, new) = (&locked.signers, &obtained.signers);
        difference.change("signed by", &joined(old), &joined(new));
        if !old.is_empty() && !old.iter().any(|signer| new.iter().any(|now| signer.is_same(now))) {
            difference.require(SIGNER, by, "none of those has signed that signed before");
        }
        difference.provenance(locked, candidate, by);
        // Capabilities that the version does not want are not agreed to in advance.
        let is_wanted = |capability: &&Capability| wanted.iter().any(|wanted| capability.covers(wanted));
        let given: Vec<_> = by.capabilities.iter().filter(is_wanted).cloned().collect();
        difference.given.extend(given.iter().map(ToString::to_string));
        difference.agreed.extend(given);
        let agreed = difference.agreed.clone();
        let unagreed: BTreeSet<_> = missing(wanted, &agreed).into_iter().cloned().collect();
        for capability in wanted.difference(&before) {
            let mut note = if unagreed.contains(capability) { "not agreed to" } else { "agreed to" }.to_owned();
            if is_granted(config, &obtained.reference, capability) {
                note.push_str("; the config grants it, so it could use it now and could not before");
            }
            let note = if unagreed.contains(capability) { Cell::whole_warning(&note) } else { Cell::text(&note) };
            difference.rows.push([Cell::text("+ wants"), Cell::verbatim(&capability.to_string()), note]);
        }
        for capability in before.difference(wanted) {
            difference.rows.push([Cell::text("- wants"), Cell::verbatim(&capability.to_string()), Cell::text("")]);
        }
        for (label, text) in changed_imports(&locked.imports, &candidate.inspection.imports) {
            difference.rows.push([Cell::text(label), Cell::verbatim(&text), Cell::text("")]);
        }
        difference.unagreed.extend(unagreed.iter().map(ToString::to_string));
        difference
    }

    /// Whether there is no difference.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.rows.is_empty()
    }

    /// Prints the difference, if there is one.
    pub(super) fn print(&self, reference: &Reference, output: &mut Output<'_>) -> Result<(), CliError> {
        if self.is_empty() {
            return Ok(());
        }
        output.text(&reference.to_string())?;
        // Two tables: digests are wide, and would move the notes of the second table off the screen.
        Table::without_headings().print(self.changes.clone(), output)?;
        Table::without_headings().print(self.rows.clone(), output)?;
        Ok(())
    }

    fn change(&mut self, label: &str, from: &str, to: &str) {
        if from != to {
            self.changes.push([Cell::text(label), Cell::verbatim(&format!("{from} -> {to}"))]);
        }
    }

    /// A locked provenance must be present, with the same builder and repository.
    fn provenance(&mut self, locked: &LockedComponent, candidate: &Candidate, by: &Agreed) {
        let text = |provenance: &Option<LockedProvenance>| {
            provenance.as_ref().map_or_else(|| "not known".to_owned(), ToString::to_string)
        };
        let (old, new) = (&locked.provenance, &candidate.obtained.provenance);
        self.change("built from", &text(old), &text(new));
        match (old, new) {
            (Some(_), None) => self.require(PROVENANCE, by, "there is no provenance any more"),
            (Some(old), Some(new)) if !old.is_same(new) => {
                self.require(PROVENANCE, by, "it has another builder, or is from another repository");
            }
            _ => {}
        }
    }

    fn require(&mut self, what: &'static str, by: &Agreed, why: &str) {
        let is_agreed = by.others.contains(what);
        let values = if is_agreed { &mut self.given } else { &mut self.unagreed };
        values.push(what.to_owned());
        let note = if is_agreed { "agreed to" } else { "not agreed to" };
        self.rows.push([Cell::text("!"), Cell::verbatim(what), Cell::whole_warning(&format!("{why}: {note}"))]);
    }
}

/// Whether a plugin with that component has a grant that the capability could use.
fn is_granted(config: &Config, source: &Reference, capability: &Capability) -> bool {
    let of_source = config.plugins.iter().filter(|plugin| plugin.reference().as_ref() == Some(source));
    of_source.map(|plugin| &plugin.grants).any(|grants| match capability {
        Capability::Http(wanted) => grants
            .http
            .iter()
            .any(|grant| grant.origin == *wanted || wanted.exact().is_some_and(|origin| grant.origin.matches(origin))),
        Capability::Sql(name) => grants.sql.keys().any(|granted| granted.as_str() == name),
        Capability::Env(name) => grants.env.keys().any(|granted| granted.as_str() == name),
        Capability::DirsWrite => {
            grants.dirs.values().any(|grant| grant.mode != mcp_host_config::grants::Mode::ReadOnly)
        }
        other => match other.kind() {
            Kind::Dirs => !grants.dirs.is_empty(),
            Kind::Http => grants.http.iter().next().is_some(),
            Kind::Sql => !grants.sql.is_empty(),
            Kind::Keyvalue => !grants.keyvalue.is_empty(),
            Kind::Env => !grants.env.is_empty(),
            // The previous version could use the same amount, although it requested less.
            Kind::Limits | Kind::Sockets | Kind::Unknown => false,
        },
    })
}

fn version(version: Option<&impl ToString>) -> String {
    version.map_or_else(|| "by digest".to_owned(), ToString::to_string)
}

fn joined(signers: &BTreeSet<LockedSigner>) -> String {
    let signers: Vec<_> = signers.iter().map(ToString::to_string).collect();
    if signers.is_empty() { "nobody".to_owned() } else { signers.join(", ") }
}

/// Returns the locked component for comparison with a new version. Among several locked versions of the repository, one
/// that no plugin uses is preferred.
pub(super) fn known_of<'l>(
    lock: &'l Lock,
    named: &BTreeSet<Reference>,
    reference: &Reference,
) -> Option<&'l LockedComponent> {
    let others = lock.components().filter(|other| other.source.repository == reference.repository);
    others.max_by_key(|other| (!named.contains(&other.source), other.version.clone()))
}

/// The added and removed imports. Imports that differ only in the patch version are the same interface: each pair of
/// versions is one line.
fn changed_imports(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Vec<(&'static str, String)> {
    let gone: BTreeMap<_, _> = old.difference(new).map(|import| (without_patch(import), import.as_str())).collect();
    let (mut added, mut patched) = (Vec::new(), BTreeMap::<_, Vec<&str>>::new());
    let mut still = BTreeSet::new();
    for import in new.difference(old) {
        let version = |import: &str| import.split_once('@').map(|(_, version)| version.to_owned()).unwrap_or_default();
        match gone.get(&without_patch(import)) {
            Some(before) => {
                still.insert(*before);
                let name = import.split_once('@').map_or(import.as_str(), |(name, _)| name);
                patched.entry((version(before), version(import))).or_default().push(name);
            }
            None => added.push(("+ import", import.clone())),
        }
    }
    let removed = old.difference(new).filter(|import| !still.contains(import.as_str()));
    added.extend(removed.map(|import| ("- import", import.clone())));
    added.extend(patched.into_iter().map(|((from, to), names)| match names.as_slice() {
        [name] => ("~ import", format!("{name} {from} -> {to}")),
        names => ("~ import", format!("{} interfaces {from} -> {to}", names.len())),
    }));
    added
}

/// An interface without the compatible part of its version: `wasi:http/types@0.2.6` becomes `wasi:http/types@0.2`.
fn without_patch(import: &str) -> (String, String) {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    let compatible = match version.parse::<Version>() {
        Ok(version) if version.pre.is_empty() && version.major == 0 => format!("0.{}", version.minor),
        Ok(version) if version.pre.is_empty() => version.major.to_string(),
        _ => version.to_owned(),
    };
    (name.to_owned(), compatible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_another_patch_version_are_one_line() {
        let set = |imports: &[&str]| imports.iter().map(|import| (*import).to_owned()).collect::<BTreeSet<_>>();
        let old = set(&[
            "wasi:http/types@0.2.0",
            "wasi:io/streams@0.2.0",
            "wasi:cli/exit@0.2.0",
            "a:b/c@1.0.0",
            "wasi:x/y@0.2.0-rc.1",
        ]);
        let new = set(&[
            "wasi:http/types@0.2.6",
            "wasi:io/streams@0.2.6",
            "wasi:cli/exit@0.3.0",
            "a:b/c@1.1.0",
            "wasi:x/y@0.2.0-rc.2",
        ]);
        assert_eq!(
            changed_imports(&old, &new).iter().map(|(label, text)| format!("{label} {text}")).collect::<Vec<_>>(),
            [
                "+ import wasi:cli/exit@0.3.0",
                "+ import wasi:x/y@0.2.0-rc.2",
                "- import wasi:cli/exit@0.2.0",
                "- import wasi:x/y@0.2.0-rc.1",
                "~ import 2 interfaces 0.2.0 -> 0.2.6",
                "~ import a:b/c 1.0.0 -> 1.1.0",
            ]
        );
        assert!(changed_imports(&old, &old).is_empty());
    }
}
