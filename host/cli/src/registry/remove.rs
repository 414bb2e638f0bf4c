//! `remove`: removes a plugin from the config, and its lock entry if no other plugin uses it.

use mcp_host_config::PluginName;

use super::{Project, RegistryCommandError, config_edit};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
The files in the store stay until `mcp-host store gc`.

Examples:
  mcp-host remove web      undo `mcp-host add web …`";

/// Remove a plugin that comes from a registry, from the config and the lock
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the plugin
    name: PluginName,
}

impl Args {
    pub(crate) fn run(self, context: &Context) -> Result<(), CliError> {
        let (project, mut lock) = Project::load_to_change(context)?;
        let name = self.name.as_str();
        let plugin = project.config.plugins.iter().find(|plugin| plugin.name == self.name);
        if let Some(plugin) = plugin.filter(|plugin| plugin.reference().is_none()) {
            let table = if plugin.upstream.is_some() { "[[upstream]]" } else { "[[plugin]]" };
            let file = project.file.clone();
            return Err(RegistryCommandError::NotRemovable { name: name.to_owned(), table, file }.into());
        }
        let removed = project.reference_of(name)?;
        let text = config_edit::remove(&config_edit::read(&project.file)?, name);
        let text = text.ok_or_else(|| {
            RegistryCommandError::Edit(format!(
                "no separate `[[plugin]]` entry has the name `{name}`: remove it by hand"
            ))
        })?;
        // The config is written first: a lock may have more entries than the config has references.
        config_edit::replace(&project.file, &text)?;
        // Other unused entries stay: `lock` compares them with an edited reference.
        let named = Project::load(context)?.references();
        let locked = lock.lock.components().map(|component| component.source.clone());
        let kept = locked.filter(|source| *source != removed || named.contains(source)).collect();
        if lock.lock.retain(&kept) {
            lock.save().map_err(RegistryCommandError::from)?;
        }
        context.messages.note(&format!("removed `{name}` from {}", project.file.display()));
        Ok(())
    }
}
