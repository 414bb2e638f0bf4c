//! `store`: the verified components on this machine.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use clap::Subcommand;
use mcp_host_config::registry::LockedComponent;
use mcp_host_registry::{Registries, SbomSummary, export, import, verify, verify_new};
use serde_json::json;

use super::difference::{Agreed, Difference, known_of};
use super::update::{command_of, warn_of_unagreed, word};
use super::{NO_REFERENCES, Project, RegistryCommandError, counted, described};
use crate::context::Context;
use crate::error::CliError;
use crate::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  mcp-host store fetch            fetch locked components, on another machine with the same config and lock
  mcp-host store verify --json    without a network: config, lock, files and signatures
  mcp-host store list             locked components: versions, signers, provenance, bills of materials
  mcp-host store export all.tar   for a machine without a network, where `mcp-host store import all.tar` reads it
  mcp-host store gc               remove components that no lock names any more";

/// Fill, verify and clean the store of components from registries
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Fetch locked components that are missing in the store, or were changed there
    Fetch,
    /// Verify config, lock, files and signatures, without a network
    Verify {
        /// Print a JSON object for programs
        #[arg(long)]
        json: bool,
    },
    /// List the locked components: version, signers, provenance and bills of materials
    List {
        /// Print a JSON object for programs
        #[arg(long)]
        json: bool,
    },
    /// Remove components that no lock names
    Gc,
    /// Write the locked components, with their signatures and the lock, into an archive: an OCI image layout
    Export {
        /// The archive
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
    },
    /// Read an exported archive into the store, and lock its components that the config names and `[[trust]]` accepts
    ///
    /// If another version of the same repository is locked, new capabilities need an agreement. Exit code 3: an
    /// agreement is missing.
    Import {
        /// The archive
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,

        /// Only the component of this plugin
        #[arg(long, value_name = "NAME")]
        plugin: Option<String>,

        /// Agree to a capability of this plugin, as `import` prints it
        #[arg(long, value_name = "CAPABILITY", requires = "plugin")]
        agree: Vec<String>,
    },
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let project = Project::load(context)?;
        match self.command {
            StoreCommand::Fetch => fetch(&project, context).await,
            StoreCommand::Export { file } => export_store(&project, &file, context),
            StoreCommand::Import { file, plugin, agree } => {
                import_archive(&file, plugin.as_deref(), &Agreed::parse(&agree)?, context).await
            }
            StoreCommand::List { json } => list(&project, json, context),
            StoreCommand::Verify { json } => verify_store(&project, json, context),
            StoreCommand::Gc => {
                let collected = project.open_store()?.collect().map_err(RegistryCommandError::from)?;
                let bytes = ByteSize(collected.bytes);
                context.messages.note(&format!("removed {} files ({bytes}), kept {}", collected.files, collected.kept));
                Ok(())
            }
        }
    }
}

async fn fetch(project: &Project, context: &Context) -> Result<(), CliError> {
    let lock = project.open_lock()?;
    let store = project.open_store()?;
    let registries = Registries::new(&project.config);
    let (mut fetched, mut count) = (0_usize, 0_usize);
    for reference in project.references() {
        let locked = lock.lock.get(&reference).ok_or_else(|| {
            RegistryCommandError::NotLocked(format!("`{reference}` is not locked; run `mcp-host lock`"))
        })?;
        let _spinner = context.messages.spin(format!("getting {reference}"));
        let is_new = registries.fetch(locked, &store).await.map_err(RegistryCommandError::from)?;
        fetched = fetched.saturating_add(usize::from(is_new));
        count = count.saturating_add(1);
    }
    let present = count.saturating_sub(fetched);
    context.messages.note(&format!("fetched {}; already in the store: {present}", counted(fetched)));
    Ok(())
}

fn export_store(project: &Project, file: &Path, context: &Context) -> Result<(), CliError> {
    let lock = project.open_lock()?;
    let store = project.open_store()?;
    let locked = project.references().into_iter().map(|reference| {
        let locked = lock.lock.get(&reference).cloned();
        locked
            .ok_or_else(|| RegistryCommandError::NotLocked(format!("`{reference}` is not locked; run `mcp-host lock`")))
    });
    let locked: Vec<LockedComponent> = locked.collect::<Result<_, _>>()?;
    let failed = |source| CliError::Save { file: file.to_owned(), source };
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
    export(&locked, &store, BufWriter::new(new.as_file())).map_err(RegistryCommandError::from)?;
    new.persist(file).map_err(|error| failed(error.error))?;
    context.messages.note(&format!("wrote {} to {}", counted(locked.len()), file.display()));
    Ok(())
}

/// Uses only the contents of an archive and their references. Agreement and signers are determined here, and not taken
/// from the archive.
async fn import_archive(file: &Path, plugin: Option<&str>, agreed: &Agreed, context: &Context) -> Result<(), CliError> {
    let (project, mut lock) = Project::load_to_change(context)?;
    let store = project.open_store()?;
    let read_error = |source| CliError::ValueFile { file: file.to_owned(), source };
    let archive = BufReader::new(File::open(file).map_err(read_error)?);
    let named = project.references();
    let mut references: BTreeSet<_> =
        named.iter().filter(|reference| lock.lock.get(reference).is_none()).cloned().collect();
    let known = named.len().saturating_sub(references.len());
    if let Some(name) = plugin {
        let only = project.reference_of(name)?;
        references.retain(|reference| *reference == only);
    }
    let imported = import(archive, &references, &store).map_err(RegistryCommandError::from)?;
    let (mut count, mut unagreed) = (0_usize, 0_usize);
    let mut output = context.output();
    for imported in imported.components() {
        match verify_new(&project.config, imported, &store) {
            Ok(obtained) => {
                let candidate = project.candidate(obtained, &store, context).await?;
                let mut capabilities = candidate.capabilities.clone();
                if let Some(before) = known_of(&lock.lock, &named, &imported.source) {
                    let difference = Difference::new(before, &candidate, &project.config, agreed);
                    difference.print(&imported.source, &mut output)?;
                    output.flush()?;
                    if !difference.unagreed.is_empty() {
                        unagreed = unagreed.saturating_add(1);
                        let archive = file.display().to_string();
                        let command = format!("store import {} --plugin", word(&archive));
                        let command = command_of(&project, &imported.source, &command);
                        warn_of_unagreed(&imported.source, &difference, &command, context);
                        continue;
                    }
                    capabilities = difference.agreed;
                }
                lock.lock.insert(candidate.locked(&capabilities)?);
                candidate.print(&mut output)?;
                output.flush()?;
                lock.save().map_err(RegistryCommandError::from)?;
                count = count.saturating_add(1);
            }
            Err(reason) => context.messages.warning(&format!("{} was not locked: {reason}", imported.source)),
        }
    }
    context.messages.note(&format!(
        "verified and locked {} from {}; already locked: {known}",
        counted(count),
        file.display()
    ));
    if unagreed == 0 { Ok(()) } else { Err(RegistryCommandError::NotAgreed { count: unagreed }.into()) }
}

/// Lists the locked components. Bills of materials are read from the store, and are not verified.
fn list(project: &Project, json: bool, context: &Context) -> Result<(), CliError> {
    let lock = project.open_lock()?;
    let store = project.open_store()?;
    let mut output = context.output();
    let version = |locked: &LockedComponent| locked.version.as_ref().map(ToString::to_string);
    if json {
        let components = lock.lock.components().map(|locked| {
            let sboms = locked.sboms.iter().map(|sbom| {
                let summary = SbomSummary::of(sbom, &store);
                json!({
                    "mediaType": sbom.media_type, "digest": sbom.digest.to_string(), "file": store.file(&sbom.digest),
                    "formatVersion": summary.as_ref().map(|summary| &summary.format_version),
                    "components": summary.as_ref().map(|summary| summary.components),
                })
            });
            json!({
                "source": locked.source.to_string(), "version": version(locked), "manifest": locked.manifest.to_string(),
                "digest": locked.component.to_string(), "size": locked.size,
                "provider": locked.provider, "providerVersion": locked.provider_version,
                "signers": locked.signers.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "provenance": locked.provenance.as_ref().map(|of| json!({ "builder": of.builder, "source": of.source })),
                "agreed": locked.agreed, "sboms": sboms.collect::<Vec<_>>(),
            })
        });
        output.json(&json!({ "components": components.collect::<Vec<_>>() }))?;
        return Ok(output.flush()?);
    }
    let mut rows = Vec::new();
    for locked in lock.lock.components() {
        let signers: Vec<_> = locked.signers.iter().map(ToString::to_string).collect();
        let mut row = |label: &str, value: &str| rows.push([Cell::text(label), Cell::verbatim(value)]);
        row(&locked.source.to_string(), &version(locked).unwrap_or_else(|| "by digest".to_owned()));
        row("  provider", &format!("{} {}", locked.provider, locked.provider_version));
        row("  signed by", &if signers.is_empty() { "nobody".to_owned() } else { signers.join(", ") });
        if let Some(provenance) = &locked.provenance {
            row("  built from", &provenance.to_string());
        }
        locked.sboms.iter().for_each(|sbom| row("  materials", &described(sbom, &store)));
    }
    if rows.is_empty() {
        context.messages.note("nothing is locked");
    }
    Table::without_headings().print(rows, &mut output)?;
    Ok(output.flush()?)
}

fn verify_store(project: &Project, json: bool, context: &Context) -> Result<(), CliError> {
    let lock = project.open_lock()?;
    let store = project.open_store()?;
    let problems = verify(&project.config, &lock.lock, &store);
    let references = project.references();
    let mut output = context.output();
    if json {
        let problems: Vec<_> = problems
            .iter()
            .map(|problem| json!({ "source": problem.source.to_string(), "message": problem.message }))
            .collect();
        output.json(&json!({ "components": references.len(), "problems": problems }))?;
    } else {
        let rows = references.iter().map(|reference| {
            let problem = problems.iter().find(|problem| problem.source == *reference);
            let state = problem.map_or_else(|| Cell::ok("verified"), |problem| Cell::whole_warning(&problem.message));
            [Cell::verbatim(&reference.to_string()), state]
        });
        Table::without_headings().print(rows.collect(), &mut output)?;
        if references.is_empty() && problems.is_empty() {
            context.messages.note(NO_REFERENCES);
        }
    }
    output.flush()?;
    if problems.is_empty() { Ok(()) } else { Err(RegistryCommandError::NotVerified { count: problems.len() }.into()) }
}
