//! `store`: the verified components on this machine.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use clap::Subcommand;
use mcp_host_config::registry::LockedComponent;
use mcp_host_registry::{Registries, export, import, verify, verify_new};
use serde_json::json;

use super::{Project, RegistryCommandError};
use crate::context::Context;
use crate::error::CliError;
use crate::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  mcp-host store fetch            get what is locked, on another machine with the same config and lock
  mcp-host store verify --json    without a network: config, lock, files and signatures
  mcp-host store export all.tar   for a machine without a network, where `mcp-host store import all.tar` reads it
  mcp-host store gc               remove what no lock names any more";

/// Fill, verify and clean the store of components from registries
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Get what is locked and not in the store, or was changed there
    Fetch,
    /// Verify config, lock, files and signatures, without a network
    Verify {
        /// Print a JSON object for programs
        #[arg(long)]
        json: bool,
    },
    /// Remove what no lock names
    Gc,
    /// Write what is locked, with its signatures and the lock, into an archive: an OCI image layout
    Export {
        /// The archive
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
    },
    /// Read such an archive into the store, and lock what of it the config names and `[[trust]]` accepts
    Import {
        /// The archive
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
    },
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let project = Project::load(context)?;
        match self.command {
            StoreCommand::Fetch => fetch(&project, context).await,
            StoreCommand::Export { file } => export_store(&project, &file, context),
            StoreCommand::Import { file } => import_archive(&file, context).await,
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
    context.messages.note(&format!("{fetched} of {count} components fetched; the others were there"));
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
    context.messages.note(&format!("wrote {} components to {}", locked.len(), file.display()));
    Ok(())
}

/// Of an archive only the contents and what names them are used: what was agreed to, and by whom it was signed, is found out here.
async fn import_archive(file: &Path, context: &Context) -> Result<(), CliError> {
    let (project, mut lock) = Project::load_to_change(context)?;
    let store = project.open_store()?;
    let read_error = |source| CliError::ValueFile { file: file.to_owned(), source };
    let archive = BufReader::new(File::open(file).map_err(read_error)?);
    let references = project.references().into_iter().filter(|reference| lock.lock.get(reference).is_none()).collect();
    let imported = import(archive, &references, &store).map_err(RegistryCommandError::from)?;
    let mut count = 0_usize;
    let mut output = context.output();
    for named in imported.components() {
        match verify_new(&project.config, named, &store) {
            Ok(obtained) => {
                let candidate = project.candidate(obtained, &store, context).await?;
                lock.lock.insert(candidate.locked(&candidate.capabilities)?);
                candidate.print(&mut output)?;
                output.flush()?;
                lock.save().map_err(RegistryCommandError::from)?;
                count = count.saturating_add(1);
            }
            Err(reason) => context.messages.warning(&format!("{} was not locked: {reason}", named.source)),
        }
    }
    context.messages.note(&format!("{count} components were verified and locked from {}", file.display()));
    Ok(())
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
    }
    output.flush()?;
    if problems.is_empty() { Ok(()) } else { Err(RegistryCommandError::NotVerified { count: problems.len() }.into()) }
}
