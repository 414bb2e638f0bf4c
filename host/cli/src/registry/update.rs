//! `update` and `diff`: compare a newer version with the agreed capabilities.

use std::borrow::Cow;

use mcp_host_config::registry::{LockedComponent, Reference};
use mcp_host_registry::Registries;

use super::difference::{Agreed, Difference};
use super::{NO_REFERENCES, Project, RegistryCommandError};
use crate::context::Context;
use crate::error::CliError;

const UPDATE_EXAMPLES: &str = "\
A version is locked if all capabilities that it wants were agreed to. Otherwise the difference is printed, that \
component stays as it is, and the exit code is 3. In addition to capabilities, `--agree` takes `signer` (no earlier \
signer has signed it), `provenance` (it is missing now, or from another builder or repository), `provider` (it has \
another name), `downgrade` (the version is lower) and `moved` (the tag of the same version names another manifest).

Exit codes: 0 up to date or updated, 1 failure, 2 invalid command line or config, 3 an agreement is missing.

Examples:
  mcp-host update                                          all plugins from registries
  mcp-host update web
  mcp-host update web --agree http:https://api.example.com";

const DIFF_EXAMPLES: &str = "\
Examples:
  mcp-host diff web                                            what `mcp-host update web` would change
  mcp-host diff web oci://registry.example.com/acme/web:2      compare with another version";

/// Lock newer versions of components within the ranges of the config
///
/// Prints the differences: version, signer, wanted capabilities, imports, and grants that the component could not use
/// before and can use now.
#[derive(Debug, clap::Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(crate) struct Args {
    /// The plugin [default: all from registries]
    name: Option<String>,

    /// Agree to a capability, as `update` prints it
    #[arg(long, value_name = "CAPABILITY")]
    agree: Vec<String>,
}

/// Show what a newer version of a component would change, without changing anything
#[derive(Debug, clap::Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The plugin
    name: String,

    /// The version to compare with [default: the newest within the range of the config]
    #[arg(value_name = "REF")]
    reference: Option<Reference>,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let agreed = Agreed::parse(&self.agree)?;
        if self.name.is_none() && !agreed.is_empty() {
            return Err(RegistryCommandError::AgreeWithoutName("update").into());
        }
        let (project, mut lock) = Project::load_to_change(context)?;
        let references = match &self.name {
            Some(name) => [project.reference_of(name)?].into(),
            None => project.references(),
        };
        if references.is_empty() {
            context.messages.note(NO_REFERENCES);
            return Ok(());
        }
        let store = project.open_store()?;
        let registries = Registries::new(&project.config);
        let mut output = context.output();
        let mut unagreed = 0_usize;
        for reference in references {
            let locked = lock.lock.get(&reference).ok_or_else(|| not_locked(&reference))?.clone();
            let candidate = project.obtain(&reference, &registries, &store, context).await?;
            let difference = Difference::new(&locked, &candidate, &project.config, &agreed);
            if difference.is_empty() {
                context.messages.note(&format!("{reference} is up to date"));
                continue;
            }
            difference.print(&reference, &mut output)?;
            output.flush()?;
            if difference.unagreed.is_empty() {
                lock.lock.insert(candidate.locked(&difference.agreed)?);
                lock.save().map_err(RegistryCommandError::from)?;
                context.messages.note(&format!("updated {reference}"));
            } else {
                unagreed = unagreed.saturating_add(1);
                warn_of_unagreed(&reference, &difference, &command_of(&project, &reference, "update"), context);
            }
        }
        if unagreed == 0 { Ok(()) } else { Err(RegistryCommandError::NotAgreed { count: unagreed }.into()) }
    }
}

impl DiffArgs {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let project = Project::load(context)?;
        let source = project.reference_of(&self.name)?;
        let lock = project.open_lock()?;
        let locked: LockedComponent = lock.lock.get(&source).ok_or_else(|| not_locked(&source))?.clone();
        // Others may change the lock meanwhile.
        drop(lock);
        let store = project.open_store()?;
        let reference = self.reference.unwrap_or(source);
        let candidate = project.obtain(&reference, &Registries::new(&project.config), &store, context).await?;
        let difference = Difference::new(&locked, &candidate, &project.config, &Agreed::default());
        if difference.is_empty() {
            context.messages.note(&format!("{reference} is locked already"));
            return Ok(());
        }
        let mut output = context.output();
        difference.print(&reference, &mut output)?;
        Ok(output.flush()?)
    }
}

fn not_locked(reference: &Reference) -> RegistryCommandError {
    RegistryCommandError::NotLocked(format!("`{reference}` is not locked; run `mcp-host lock`"))
}

/// A command for the plugin with this reference.
pub(super) fn command_of(project: &Project, reference: &Reference, command: &str) -> String {
    let named = project.config.plugins.iter().find(|plugin| plugin.reference().as_ref() == Some(reference));
    let name = named.map(|plugin| plugin.name.to_string()).unwrap_or_default();
    format!("mcp-host {command} {name}").trim_end().to_owned()
}

/// Prints the command that agrees to a difference. It repeats the given values of `--agree`, which are not kept.
pub(super) fn warn_of_unagreed(reference: &Reference, difference: &Difference, command: &str, context: &Context) {
    let values = difference.given.iter().chain(&difference.unagreed);
    let options: Vec<_> = values.map(|what| format!("--agree {}", word(what))).collect();
    context.messages.warning(&format!("{reference} was not locked; to agree: {command} {}", options.join(" ")));
}

/// A value as one word of a shell: the publisher wrote a part of it.
pub(super) fn word(text: &str) -> Cow<'_, str> {
    // Only a NUL cannot be quoted, and no capability contains one.
    shlex::try_quote(text).unwrap_or_default()
}
