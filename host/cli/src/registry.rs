//! The shared parts of the commands for components from registries: the config with its references, the lock, the
//! store, and how a component is obtained, inspected and shown.
//!
//! | module | command |
//! |---|---|
//! | `add`, `remove` | `mcp-host add`, `mcp-host remove`: a plugin and its lock entry |
//! | `lock` | `mcp-host lock` |
//! | `update` | `mcp-host update`, `mcp-host diff` |
//! | `outdated` | `mcp-host outdated` |
//! | `store` | `mcp-host store` |
//! | `push` | `mcp-host push` |
//! | `difference` | new requirements of a version, beyond the agreed ones |
//! | `config_edit` | a `[[plugin]]` in the text of a config |
//!
//! A component is inspected as in `mcp-host inspect`: compiled in the confined child process, and described without any
//! grant.

pub(super) mod add;
mod config_edit;
mod difference;
pub(super) mod lock;
pub(super) mod outdated;
pub(super) mod push;
pub(super) mod remove;
pub(super) mod store;
pub(super) mod update;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use mcp_host_config::registry::{LockedComponent, LockedSbom, Reference, lock_file};
use mcp_host_config::{self as config, Config, Environment};
use mcp_host_engine::plugin::{Inspection, NeededMode, Needs};
use mcp_host_registry::{
    AttachmentError, Capability, CapabilityError, LayoutError, LockFile, LockFileError, Obtained, Registries,
    RegistryError, SbomSummary, Sboms, SignerError, Store, StoreError, verify_one,
};

use super::context::Context;
use super::error::{CliError, CommandError, EXIT_FAILURE, EXIT_NOT_AGREED, EXIT_USAGE};
use super::output::Output;
use super::table::{Cell, Table};

/// The note of a command that has nothing to do.
const NO_REFERENCES: &str = "the config names no component from a registry";

/// The prefix of a provider's export, before the version.
const CONTRACT: &str = "mcp-host:provider/";

/// The errors of commands for components from registries.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegistryCommandError {
    /// A component cannot be obtained.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock cannot be changed.
    #[error(transparent)]
    Lock(#[from] LockFileError),
    /// An archive cannot be written or read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The key cannot sign.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// A document cannot be published with a component.
    #[error("{} cannot be attached: {source}", file.display())]
    Attachment {
        /// The file.
        file: PathBuf,
        /// The problem of the file.
        source: AttachmentError,
    },
    /// A value of `--agree` is not a capability.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// A plugin with this name exists.
    #[error("the config has a plugin `{0}` already")]
    NameTaken(String),
    /// A plugin is not from a registry.
    #[error("the component of plugin `{0}` is not from a registry")]
    NotFromRegistry(String),
    /// `remove` removes plugins from registries only.
    #[error("the component of plugin `{name}` is not from a registry")]
    NotRemovable {
        /// The plugin.
        name: String,
        /// The table of the config that declares the plugin.
        table: &'static str,
        /// The config.
        file: PathBuf,
    },
    /// The change would make the config invalid.
    #[error("the config was not changed: with the change it would not be valid\n{0}")]
    Edit(String),
    /// The config cannot be read or written.
    #[error("the config {} cannot be {doing}: {source}", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// The attempted operation.
        doing: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// `lock --check` found that config and lock differ.
    #[error("the lock is not what the config needs: {0}")]
    NotLocked(String),
    /// A component was not updated, because a person has to agree.
    #[error("{count} {} not locked: somebody has to agree", if *.count == 1 { "component was" } else { "components were" })]
    NotAgreed {
        /// The number of components.
        count: usize,
    },
    /// A locked component does not satisfy the current `[[trust]]` requirements.
    #[error("{source_reference}: {reason}")]
    Untrusted {
        /// The reference.
        source_reference: String,
        /// The reason, and the help.
        reason: String,
    },
    /// The declared needs of a component cannot be read.
    #[error("{source_reference} cannot be locked: {problem}; its publisher has to mend that")]
    Needs {
        /// The reference.
        source_reference: String,
        /// The problem.
        problem: String,
    },
    /// `--agree` is given without a plugin.
    #[error("`--agree` is for one plugin: `mcp-host {0} NAME --agree CAPABILITY`")]
    AgreeWithoutName(&'static str),
    /// `store verify` found problems.
    #[error("{count} {} not verified", if *.count == 1 { "component is" } else { "components are" })]
    NotVerified {
        /// The number of components.
        count: usize,
    },
}

impl CommandError for RegistryCommandError {
    fn help(&self) -> Option<String> {
        match self {
            Self::NotRemovable { table, file, .. } => Some(format!("remove its `{table}` from {}", file.display())),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::NotAgreed { .. } => EXIT_NOT_AGREED,
            Self::Capability(_) | Self::NotFromRegistry(_) | Self::NotRemovable { .. } | Self::AgreeWithoutName(_) => {
                EXIT_USAGE
            }
            _ => EXIT_FAILURE,
        }
    }
}

/// The config of these commands, with unresolved references.
pub(super) struct Project {
    pub(super) config: Config,
    pub(super) file: PathBuf,
}

/// An obtained, verified and inspected component.
pub(super) struct Candidate {
    pub(super) obtained: Obtained,
    pub(super) inspection: Inspection,
    pub(super) capabilities: BTreeSet<Capability>,
    /// The bills of materials, for people.
    sboms: Vec<String>,
}

impl Project {
    /// Reads the config. Files and variables that plugins need may be missing.
    pub(super) fn load(context: &Context) -> Result<Self, CliError> {
        let file = context.config_file().to_owned();
        let config = match Config::load_in(&file, &Environment::from_process().keep_references()) {
            Ok(config) => config,
            Err(error) => match error.config_without_secrets() {
                Some(config) => config.clone(),
                None => return Err(error.into()),
            },
        };
        Ok(Self { config, file })
    }

    /// Opens the lock file for a change, and then reads the config: no other command can change either meanwhile.
    pub(super) fn load_to_change(context: &Context) -> Result<(Self, LockFile), CliError> {
        let lock = LockFile::open(&lock_file(context.config_file())).map_err(RegistryCommandError::from)?;
        Ok((Self::load(context)?, lock))
    }

    /// Opens the lock beside the config.
    pub(super) fn open_lock(&self) -> Result<LockFile, CliError> {
        Ok(LockFile::open(&lock_file(&self.file)).map_err(RegistryCommandError::from)?)
    }

    /// Opens the store, and registers the lock of this config as a user of the store.
    pub(super) fn open_store(&self) -> Result<Store, CliError> {
        let dir = self.config.store.as_ref().ok_or(StoreError::NoDirectory).map_err(RegistryCommandError::from)?;
        let store = Store::open(dir).map_err(RegistryCommandError::from)?;
        store.register(&lock_file(&self.file)).map_err(RegistryCommandError::from)?;
        Ok(store)
    }

    /// The distinct references of the config.
    pub(super) fn references(&self) -> BTreeSet<Reference> {
        self.config.references().collect()
    }

    /// The reference of a plugin.
    pub(super) fn reference_of(&self, name: &str) -> Result<Reference, CliError> {
        let plugin = self.config.plugins.iter().find(|plugin| plugin.name.as_str() == name);
        let plugin = plugin.ok_or_else(|| CliError::NoPlugin {
            name: name.to_owned(),
            known: self.config.plugins.iter().map(|plugin| plugin.name.to_string()).collect(),
        })?;
        Ok(plugin.reference().ok_or_else(|| RegistryCommandError::NotFromRegistry(name.to_owned()))?)
    }

    /// Obtains the current version of a reference, and inspects it. Locks nothing.
    pub(super) async fn obtain(
        &self,
        reference: &Reference,
        registries: &Registries,
        store: &Store,
        context: &Context,
    ) -> Result<Candidate, CliError> {
        let trust = self.config.trust_in(&reference.repository);
        let trust = trust
            .ok_or_else(|| RegistryError::Untrusted {
                source_reference: Box::new(reference.clone()),
                nearest: self.config.nearest_source(&reference.repository).cloned(),
            })
            .map_err(RegistryCommandError::from)?;
        let spinner = context.messages.spin(format!("getting {reference}"));
        let obtained = registries.obtain(reference, trust, store).await;
        drop(spinner);
        self.candidate(obtained.map_err(RegistryCommandError::from)?, store, context).await
    }

    /// Inspects a locked component; fetches the parts that are missing in the store.
    pub(super) async fn locked(
        &self,
        locked: &LockedComponent,
        registries: &Registries,
        store: &Store,
        context: &Context,
    ) -> Result<Candidate, CliError> {
        registries.fetch(locked, store).await.map_err(RegistryCommandError::from)?;
        // The trust settings may be newer than the lock.
        verify_one(&self.config, locked, store).map_err(|reason| RegistryCommandError::Untrusted {
            source_reference: locked.source.to_string(),
            reason,
        })?;
        let obtained = Obtained {
            reference: locked.source.clone(),
            version: locked.version.clone(),
            manifest: locked.manifest,
            component: locked.component,
            size: locked.size,
            signers: locked.signers.clone(),
            bundles: locked.bundles.clone(),
            provenance: locked.provenance.clone(),
            sboms: Sboms { found: locked.sboms.clone(), problem: None },
        };
        self.candidate(obtained, store, context).await
    }

    /// Inspects a verified component.
    pub(super) async fn candidate(
        &self,
        obtained: Obtained,
        store: &Store,
        context: &Context,
    ) -> Result<Candidate, CliError> {
        let inspection = inspect(&self.config, &store.file(&obtained.component), Some(&obtained), context).await?;
        // If an invalid section counted as no needs, it would hide the needs.
        let needs = inspection.needs.as_ref().map_err(|error| RegistryCommandError::Needs {
            source_reference: obtained.reference.to_string(),
            problem: error.warning(),
        })?;
        let needs = needs.as_ref().map(needed).unwrap_or_default();
        let capabilities = Capability::of(needs, inspection.imports.iter().map(String::as_str));
        let sboms = obtained.sboms.found.iter().map(|sbom| described(sbom, store)).collect();
        Ok(Candidate { obtained, inspection, capabilities, sboms })
    }
}

impl Candidate {
    /// The lock entry, with these agreed capabilities.
    pub(super) fn locked(&self, agreed: &BTreeSet<Capability>) -> Result<LockedComponent, CliError> {
        let (obtained, inspection) = (&self.obtained, &self.inspection);
        let (provider, provider_version) = match &inspection.info {
            Ok(info) => (info.name.clone(), info.version.clone()),
            Err(error) => {
                return Err(
                    anyhow::anyhow!("`{}` is not a provider that can be used: {error}", obtained.reference).into()
                );
            }
        };
        Ok(LockedComponent {
            source: obtained.reference.clone(),
            version: obtained.version.clone(),
            manifest: obtained.manifest,
            component: obtained.component,
            size: obtained.size,
            provider,
            provider_version,
            contract: contract(&inspection.exports),
            imports: inspection.imports.clone(),
            needs: texts(&self.capabilities),
            agreed: texts(agreed),
            signers: obtained.signers.clone(),
            bundles: obtained.bundles.clone(),
            provenance: obtained.provenance.clone(),
            sboms: obtained.sboms.found.clone(),
        })
    }

    /// Shows the component and its needs.
    pub(super) fn print(&self, output: &mut Output<'_>) -> Result<(), CliError> {
        let row = |label: &str, value: &str| [Cell::text(label), Cell::verbatim(value)];
        let obtained = &self.obtained;
        let mut rows = vec![row("source", &obtained.reference.to_string())];
        rows.extend(obtained.version.iter().map(|version| row("version", &version.to_string())));
        rows.push(row("manifest", &obtained.manifest.to_string()));
        rows.push(row("digest", &obtained.component.to_string()));
        rows.push(row("size", &ByteSize(obtained.size).to_string()));
        if let Ok(info) = &self.inspection.info {
            rows.push(row("provider", &super::provider::name_and_version(info)));
        }
        match obtained.signers.is_empty() {
            true => rows.push([Cell::text("signed by"), Cell::warning("nobody: `unsigned = true`")]),
            false => rows.extend(obtained.signers.iter().map(|signer| row("signed by", &signer.to_string()))),
        }
        rows.extend(obtained.provenance.iter().map(|provenance| row("built from", &provenance.to_string())));
        rows.extend(self.sboms.iter().map(|sbom| row("materials", sbom)));
        if let Some(problem) = &obtained.sboms.problem {
            rows.push([Cell::text("materials"), Cell::whole_warning(&format!("cannot be had: {problem}"))]);
        }
        match self.capabilities.is_empty() {
            true => rows.push(row("wants", "nothing")),
            false => rows.extend(self.capabilities.iter().map(|capability| row("wants", &wanted(capability)))),
        }
        Table::without_headings().print(rows, output)?;
        Ok(())
    }
}

/// A capability, for people.
fn wanted(capability: &Capability) -> String {
    match capability {
        Capability::Import(_) => format!("{capability} (imported; no need says what for)"),
        _ => capability.to_string(),
    }
}

/// A number of components, for people.
fn counted(count: usize) -> String {
    format!("{count} {}", if count == 1 { "component" } else { "components" })
}

/// A bill of materials, for people.
fn described(sbom: &LockedSbom, store: &Store) -> String {
    let summary = SbomSummary::of(sbom, store).map_or_else(|| "of no known format".to_owned(), |sbom| sbom.to_string());
    format!("{summary}, not verified: {}", store.file(&sbom.digest).display())
}

/// Inspects a component file. `obtained` is the fetched component of the file, if there is one.
pub(super) async fn inspect(
    config: &Config,
    file: &Path,
    obtained: Option<&Obtained>,
    context: &Context,
) -> Result<Inspection, CliError> {
    let name = "inspected".parse().map_err(anyhow::Error::from)?;
    let mut plugin = config::Plugin::new(name, file, "inspected:///".parse().map_err(anyhow::Error::from)?);
    plugin.digest = obtained.map(|obtained| obtained.component);
    let bare = Config { server: config.server.clone(), ..Config::new() };
    Ok(context.builder(bare).inspect(&plugin).await?)
}

/// The capabilities that a provider declares as needs.
fn needed(needs: &Needs) -> BTreeSet<Capability> {
    let mut all: BTreeSet<_> = needs.http.iter().map(|need| Capability::Http(need.origin.clone())).collect();
    all.extend(needs.dirs.iter().map(|need| match need.mode {
        NeededMode::ReadWrite => Capability::DirsWrite,
        _ => Capability::DirsRead,
    }));
    all.extend(needs.keyvalue.first().map(|_| Capability::Keyvalue));
    all.extend(needs.sql.iter().map(|need| Capability::Sql(need.database.to_string())));
    all.extend(needs.env.iter().map(|need| Capability::Env(need.name.to_string())));
    all.extend(needs.limits.iter().map(|(key, need)| Capability::Limit(*key, need.min.clone())));
    all
}

/// The version of the contract that a component exports.
fn contract(exports: &BTreeSet<String>) -> String {
    let export = exports.iter().find(|export| export.starts_with(CONTRACT));
    export.and_then(|export| export.split_once('@')).map(|(_, version)| version.to_owned()).unwrap_or_default()
}

/// The capabilities in the notation of locks and of `--agree`.
fn texts(capabilities: &BTreeSet<Capability>) -> BTreeSet<String> {
    capabilities.iter().map(ToString::to_string).collect()
}

/// The capabilities of a lock. An unknown one, written by a later version of the host, is ignored.
fn capabilities(texts: &BTreeSet<String>) -> BTreeSet<Capability> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}
