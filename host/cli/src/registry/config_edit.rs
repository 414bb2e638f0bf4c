//! Edits a `[[plugin]]` in the text of a config. The order, the comments and the spaces of everything else are kept.

use std::io::Write as _;
use std::path::Path;

use mcp_host_config::registry::Reference;
use mcp_host_config::{Config, Environment, PluginName};
use mcp_host_engine::plugin::Needs;
use mcp_host_model::uri::Mount;
use toml_edit::{DocumentMut, Item};

use super::RegistryCommandError;
use crate::inspect::plugin_table;

/// Adds a plugin at the end: its needs stand in comments, and nothing is granted.
pub(super) fn add(text: &str, name: &PluginName, source: &Reference, mount: &Mount, needs: Option<&Needs>) -> String {
    let mut new = text.trim_end().to_owned();
    if !new.is_empty() {
        new.push_str("\n\n");
    }
    new.push_str("[[plugin]]\n");
    let grants = needs.map(plugin_table::grants).unwrap_or_default();
    if !grants.is_empty() {
        new.push_str("# What the provider asks for. It gets nothing of it unless you remove the `#`.\n");
    }
    for line in grants.lines() {
        new.push_str(if line.starts_with('#') { "" } else { "# " });
        new.push_str(line);
        new.push('\n');
    }
    new.push_str(&format!("name = \"{name}\"\ncomponent = \"{source}\"\nmount = \"{mount}\"\n"));
    new
}

/// Removes a plugin with its comments. `None` if no `[[plugin]]` has this name.
pub(super) fn remove(text: &str, name: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let plugins = document.get_mut("plugin").and_then(Item::as_array_of_tables_mut)?;
    let is_named = |table: &toml_edit::Table| table.get("name").and_then(Item::as_str) == Some(name);
    let index = plugins.iter().position(is_named)?;
    plugins.remove(index);
    if plugins.is_empty() {
        document.remove("plugin");
    }
    let text = document.to_string();
    Some(format!("{}\n", text.trim_end()))
}

/// Replaces the config if the new text is valid, by an atomic rename of a synced temporary file with the same
/// permissions.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), RegistryCommandError> {
    let environment = Environment::from_process().keep_references();
    if let Err(error) = Config::parse_in(text, file, &environment)
        && error.config_without_secrets().is_none()
    {
        return Err(RegistryCommandError::Edit(error.to_string()));
    }
    let failed = |source| RegistryCommandError::Config { file: file.to_owned(), doing: "written", source };
    // A symbolic link stays; its target is replaced.
    let target = file.canonicalize().map_err(failed)?;
    let write = || {
        let permissions = target.metadata()?.permissions();
        let parent = target.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(parent)?;
        new.write_all(text.as_bytes())?;
        new.as_file().set_permissions(permissions)?;
        new.as_file().sync_all()?;
        new.persist(&target).map_err(|error| error.error)?;
        std::fs::File::open(parent)?.sync_all()
    };
    write().map_err(failed)
}

/// Reads the text of the config.
pub(super) fn read(file: &Path) -> Result<String, RegistryCommandError> {
    std::fs::read_to_string(file).map_err(|source| RegistryCommandError::Config {
        file: file.to_owned(),
        doing: "read",
        source,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG: &str =
        "# ours\n[server]\nname = 'a'   # a name\n\n[[trust]]\nsources = ['oci://a.example']\nunsigned = true\n";

    fn added() -> String {
        let needs = json!({
            "http": [{ "origin": "https://docs.rs", "why": "pages\n[[plugin]]" }],
            "config": { "rev": { "type": "string", "default": "HEAD" } },
        });
        let needs = Needs::parse(needs.to_string().as_bytes()).unwrap();
        let source = "oci://a.example/web:1.4".parse().unwrap();
        add(CONFIG, &"web".parse().unwrap(), &source, &"web:///".parse().unwrap(), Some(&needs))
    }

    #[test]
    fn what_it_asks_for_is_a_comment_and_nothing_is_granted() {
        let text = added();
        assert!(text.starts_with(CONFIG) && text.contains("# grants.http = [\n#     \"https://docs.rs\","), "{text}");
        let environment = Environment::empty().keep_references();
        let config = Config::parse_in(&text, Path::new("mcp-host.toml"), &environment).unwrap();
        assert_eq!(config.plugins.len(), 1);
        assert_eq!(config.plugins[0].grants, Default::default());
        assert!(config.plugins[0].config.is_empty());
        let granted: String = text
            .lines()
            .map(|line| {
                format!(
                    "{}\n",
                    line.strip_prefix("# ")
                        .filter(|line| !line.starts_with("What") && !line.starts_with("ours"))
                        .unwrap_or(line)
                )
            })
            .collect();
        let config = Config::parse_in(&granted, Path::new("mcp-host.toml"), &environment).unwrap();
        assert_eq!(config.plugins[0].grants.http.iter().count(), 1, "without the `#` it is: {granted}");
    }

    #[test]
    fn removing_a_plugin_undoes_adding_it() {
        assert_eq!(remove(&added(), "web").as_deref(), Some(CONFIG));
        assert_eq!(remove(&added(), "other"), None);
        let between = format!("{}\n# behind\n[[rule]]\nprincipals = ['*']\nallow = ['**']\n", added());
        let removed = remove(&between, "web").unwrap();
        assert!(
            removed.contains("# behind\n[[rule]]") && !removed.contains("[[plugin]]") && !removed.contains("docs.rs"),
            "{removed}"
        );
    }

    #[test]
    fn a_change_that_is_not_valid_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mcp-host.toml");
        std::fs::write(&file, CONFIG).unwrap();
        assert!(matches!(replace(&file, "plugin = 1"), Err(RegistryCommandError::Edit(_))));
        assert_eq!(read(&file).unwrap(), CONFIG);
        replace(&file, &added()).unwrap();
        assert_eq!(read(&file).unwrap(), added());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
