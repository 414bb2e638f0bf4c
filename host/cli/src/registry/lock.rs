//! `lock`: locks what the config names and the lock does not.

use mcp_host_registry::Registries;

use super::{Project, RegistryCommandError};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
What is locked stays as it is: `mcp-host update` looks for newer versions. Locking is agreeing to what is shown.

Examples:
  mcp-host lock            lock what the config names and the lock does not
  mcp-host lock --check    fail if there is something to lock, without a network: for CI";

/// Lock what the config names: resolve, verify and show each component that is not locked
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Change nothing, and fail if the lock is not what the config needs
    #[arg(long)]
    check: bool,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let project = Project::load(context)?;
        let mut lock = project.open_lock()?;
        let references = project.references();
        let mut problems = Vec::new();
        let open: Vec<_> = references.iter().filter(|reference| lock.lock.get(reference).is_none()).cloned().collect();
        if self.check {
            problems.extend(open.iter().map(|reference| format!("`{reference}` is not locked")));
            let stale = lock.lock.components().filter(|component| !references.contains(&component.source));
            problems.extend(stale.map(|component| format!("`{}` is locked, and no plugin names it", component.source)));
            return match problems.is_empty() {
                true => Ok(()),
                false => Err(RegistryCommandError::NotLocked(problems.join("; ")).into()),
            };
        }
        if !open.is_empty() {
            let store = project.open_store()?;
            let registries = Registries::new(&project.config);
            let mut output = context.output();
            for reference in &open {
                let candidate = project.obtain(reference, &registries, &store, context).await?;
                lock.lock.insert(candidate.locked(&candidate.capabilities)?);
                candidate.print(&mut output)?;
                output.flush()?;
                // Each for itself: what has been agreed to is kept if the next one fails.
                lock.save().map_err(RegistryCommandError::from)?;
            }
        }
        if lock.lock.retain(&references) {
            lock.save().map_err(RegistryCommandError::from)?;
        }
        let count = open.len();
        context.messages.note(&format!("{count} locked, {} were", references.len().saturating_sub(count)));
        Ok(())
    }
}
