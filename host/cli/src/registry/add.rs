//! `add`: adds a plugin with a component from a registry, which is resolved, verified, inspected, locked, and written
//! into the config.

use mcp_host_config::PluginName;
use mcp_host_config::registry::Reference;
use mcp_host_model::uri::Mount;
use mcp_host_registry::Registries;

use super::difference::{Agreed, Difference, known_of};
use super::update::{warn_of_unagreed, word};
use super::{Project, RegistryCommandError, config_edit};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
Adding is an agreement to the capabilities that are shown: `mcp-host update` compares later versions with them. \
Nothing is granted; the config gets the grants that the provider requests as comments (`#`). Without `[[trust]]` for \
the source nothing is added. If another version of the same repository is locked, new capabilities need `--agree`.

Exit codes: 0 added, 1 failure, 2 invalid command line or config, 3 an agreement is missing.

Examples:
  mcp-host add web oci://registry.example.com/acme/web:1.4          the newest release of 1.4
  mcp-host add web oci://registry.example.com/acme/web:1.4.2 --mount web://docs/
  mcp-host remove web                                               undo it";

/// Add a plugin from a registry: verify, show and lock it, and write it into the config
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the plugin
    name: PluginName,

    /// The component: `oci://HOST/REPOSITORY:VERSION`
    source: Reference,

    /// The URIs that the plugin owns [default: NAME:///]
    #[arg(long, value_name = "URI")]
    mount: Option<Mount>,

    /// Agree to a capability, as `add` prints it
    #[arg(long, value_name = "CAPABILITY")]
    agree: Vec<String>,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let agreed = Agreed::parse(&self.agree)?;
        let (project, mut lock) = Project::load_to_change(context)?;
        let name = self.name.to_string();
        if project.config.plugins.iter().any(|plugin| plugin.name == self.name) {
            return Err(RegistryCommandError::NameTaken(name).into());
        }
        let default = || format!("{}:///", name.replace(['_', '.'], "-")).parse().map_err(anyhow::Error::from);
        let mount = self.mount.clone().map_or_else(default, Ok)?;
        let store = project.open_store()?;
        let registries = Registries::new(&project.config);
        // A version that another plugin has locked stays: newer versions are for `update`, which shows the difference.
        let known = lock.lock.get(&self.source).cloned();
        let candidate = match &known {
            Some(locked) => project.locked(locked, &registries, &store, context).await?,
            None => project.obtain(&self.source, &registries, &store, context).await?,
        };
        let mut output = context.output();
        // Another version of a known component is compared with the locked one.
        let before = known_of(&lock.lock, &project.references(), &self.source).filter(|_| known.is_none());
        let capabilities = match before {
            None => candidate.capabilities.clone(),
            Some(before) => {
                let difference = Difference::new(before, &candidate, &project.config, &agreed);
                difference.print(&self.source, &mut output)?;
                output.flush()?;
                if !difference.unagreed.is_empty() {
                    let mount = self.mount.as_ref().map(|mount| format!(" --mount {}", word(mount.as_str())));
                    let command = format!("mcp-host add {name} {}{}", self.source, mount.unwrap_or_default());
                    warn_of_unagreed(&self.source, &difference, &command, context);
                    return Err(RegistryCommandError::NotAgreed { count: 1 }.into());
                }
                difference.agreed
            }
        };
        let locked = candidate.locked(&capabilities)?;
        let needs = candidate.inspection.needs.as_ref().ok().and_then(Option::as_ref);
        let text = config_edit::add(&config_edit::read(&project.file)?, &self.name, &self.source, &mount, needs);
        candidate.print(&mut output)?;
        output.flush()?;
        // The lock is saved first: a config with a reference that is not locked cannot be served.
        if known.is_none() {
            lock.lock.insert(locked);
            lock.save().map_err(RegistryCommandError::from)?;
        }
        config_edit::replace(&project.file, &text)?;
        context.messages.note(&format!(
            "locked, and added to {} as `{name}` at {mount}; nothing is granted: the entry lists what it requests",
            project.file.display()
        ));
        Ok(())
    }
}
