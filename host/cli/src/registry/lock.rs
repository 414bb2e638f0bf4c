//! `lock`: adds missing references of the config to the lock.

use mcp_host_registry::Registries;

use super::difference::{Agreed, Difference, known_of};
use super::update::{command_of, warn_of_unagreed};
use super::{NO_REFERENCES, Project, RegistryCommandError, counted};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
Locked components stay as they are: `mcp-host update` looks for newer versions. Locking is an agreement to the \
capabilities that are shown. If another version of the same repository is locked, new capabilities need `--agree`.

Exit codes: 0 locked, 1 failure, 2 invalid command line or config, 3 an agreement is missing.

Examples:
  mcp-host lock            lock the components that are not locked
  mcp-host lock web --agree http:https://api.example.com
  mcp-host lock --check    fail if there is something to lock, without a network: for CI";

/// Lock the components of the config: resolve, verify and show each component that is not locked
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Change nothing, and fail if the lock does not match the config
    #[arg(long, conflicts_with_all = ["agree", "name"])]
    check: bool,

    /// The plugin [default: all that are not locked]
    name: Option<String>,

    /// Agree to a capability, as `lock` prints it
    #[arg(long, value_name = "CAPABILITY")]
    agree: Vec<String>,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let agreed = Agreed::parse(&self.agree)?;
        if self.name.is_none() && !agreed.is_empty() {
            return Err(RegistryCommandError::AgreeWithoutName("lock").into());
        }
        let (project, mut lock) = Project::load_to_change(context)?;
        let references = project.references();
        let mut problems = Vec::new();
        let mut open: Vec<_> =
            references.iter().filter(|reference| lock.lock.get(reference).is_none()).cloned().collect();
        if self.check {
            problems.extend(open.iter().map(|reference| format!("`{reference}` is not locked")));
            let stale = lock.lock.components().filter(|component| !references.contains(&component.source));
            problems.extend(stale.map(|component| format!("`{}` is locked, and no plugin names it", component.source)));
            if !problems.is_empty() {
                return Err(RegistryCommandError::NotLocked(problems.join("; ")).into());
            }
            if references.is_empty() {
                context.messages.note(NO_REFERENCES);
            }
            return Ok(());
        }
        let known = references.len().saturating_sub(open.len());
        if let Some(name) = &self.name {
            let named = project.reference_of(name)?;
            open.retain(|reference| *reference == named);
        }
        let mut unagreed = 0_usize;
        if !open.is_empty() {
            let store = project.open_store()?;
            let registries = Registries::new(&project.config);
            let mut output = context.output();
            for reference in &open {
                let candidate = project.obtain(reference, &registries, &store, context).await?;
                // An edited reference is not a new component: its agreed capabilities are compared.
                let before = known_of(&lock.lock, &references, reference).cloned();
                let capabilities = match &before {
                    None => candidate.capabilities.clone(),
                    Some(before) => {
                        let difference = Difference::new(before, &candidate, &project.config, &agreed);
                        difference.print(reference, &mut output)?;
                        output.flush()?;
                        if !difference.unagreed.is_empty() {
                            unagreed = unagreed.saturating_add(1);
                            warn_of_unagreed(reference, &difference, &command_of(&project, reference, "lock"), context);
                            continue;
                        }
                        difference.agreed
                    }
                };
                lock.lock.insert(candidate.locked(&capabilities)?);
                candidate.print(&mut output)?;
                output.flush()?;
                // Saved after each component: the agreement is kept if the next component fails.
                lock.save().map_err(RegistryCommandError::from)?;
            }
        }
        if unagreed > 0 {
            // The old entry stays, with the capabilities that were agreed to for it.
            return Err(RegistryCommandError::NotAgreed { count: unagreed }.into());
        }
        // An entry that no plugin uses may be needed for comparison with a reference that is not locked yet.
        if references.iter().all(|reference| lock.lock.get(reference).is_some()) && lock.lock.retain(&references) {
            lock.save().map_err(RegistryCommandError::from)?;
        }
        context.messages.note(&format!("locked {}; already locked: {known}", counted(open.len())));
        Ok(())
    }
}
