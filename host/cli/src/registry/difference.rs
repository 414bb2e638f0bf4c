//! What a version wants beyond what was agreed to, and what else is not as it was.

use std::collections::BTreeSet;

use mcp_host_config::Config;
use mcp_host_config::registry::{LockedComponent, Reference};
use mcp_host_registry::{Capability, Kind, missing};

use super::{Candidate, RegistryCommandError, capabilities};
use crate::error::CliError;
use crate::output::Output;
use crate::table::{Cell, Table};

/// What `--agree` may have beside capabilities.
const SIGNER: &str = "signer";
const DOWNGRADE: &str = "downgrade";
const MOVED: &str = "moved";
const PROVIDER: &str = "provider";

/// What somebody agrees to.
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
            match [SIGNER, DOWNGRADE, MOVED, PROVIDER].into_iter().find(|other| other == text) {
                Some(other) => drop(agreed.others.insert(other)),
                None => drop(agreed.capabilities.insert(text.parse()?)),
            }
        }
        Ok(agreed)
    }

    /// Whether nothing is agreed to.
    pub(super) fn is_empty(&self) -> bool {
        self.capabilities.is_empty() && self.others.is_empty()
    }
}

/// A difference between what is locked and another version.
pub(super) struct Difference {
    rows: Vec<[Cell; 3]>,
    /// What has to be agreed to, as `--agree` has it.
    pub(super) unagreed: Vec<String>,
    /// What is agreed to if it is locked.
    pub(super) agreed: BTreeSet<Capability>,
}

impl Difference {
    /// Compares a version with what is locked.
    pub(super) fn new(locked: &LockedComponent, candidate: &Candidate, config: &Config, by: &Agreed) -> Self {
        let (obtained, wanted) = (&candidate.obtained, &candidate.capabilities);
        let mut difference = Self { rows: Vec::new(), unagreed: Vec::new(), agreed: capabilities(&locked.agreed) };
        let before = capabilities(&locked.needs);
        let (from, to) = (version(locked.version.as_ref()), version(obtained.version.as_ref()));
        difference.change("version", &from, &to);
        if obtained.version < locked.version {
            difference.require(DOWNGRADE, by, "the version is lower");
        }
        if obtained.version == locked.version && obtained.manifest != locked.manifest && locked.version.is_some() {
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
        if !old.is_empty() && old.is_disjoint(new) {
            difference.require(SIGNER, by, "none of the keys has signed that signed before");
        }
        // What it does not want is not agreed to in advance.
        let is_wanted = |capability: &&Capability| wanted.iter().any(|wanted| capability.covers(wanted));
        difference.agreed.extend(by.capabilities.iter().filter(is_wanted).cloned());
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
        for (label, one, other) in [
            ("+ import", &candidate.inspection.imports, &locked.imports),
            ("- import", &locked.imports, &candidate.inspection.imports),
        ] {
            difference.rows.extend(
                one.difference(other).map(|import| [Cell::text(label), Cell::verbatim(import), Cell::text("")]),
            );
        }
        difference.unagreed.extend(unagreed.iter().map(ToString::to_string));
        difference
    }

    /// Whether nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints it.
    pub(super) fn print(&self, reference: &Reference, output: &mut Output<'_>) -> Result<(), CliError> {
        output.text(&reference.to_string())?;
        Table::without_headings().print(self.rows.clone(), output)?;
        Ok(())
    }

    fn change(&mut self, label: &str, from: &str, to: &str) {
        if from != to {
            self.rows.push([Cell::text(label), Cell::verbatim(&format!("{from} -> {to}")), Cell::text("")]);
        }
    }

    fn require(&mut self, what: &'static str, by: &Agreed, why: &str) {
        let is_agreed = by.others.contains(what);
        if !is_agreed {
            self.unagreed.push(what.to_owned());
        }
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
            Kind::Sockets => false,
        },
    })
}

fn version(version: Option<&impl ToString>) -> String {
    version.map_or_else(|| "by digest".to_owned(), ToString::to_string)
}

fn joined(signers: &BTreeSet<String>) -> String {
    if signers.is_empty() { "nobody".to_owned() } else { signers.iter().cloned().collect::<Vec<_>>().join(" ") }
}
