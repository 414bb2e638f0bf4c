//! Renders the config that serves paths, with comments for its editor.

use std::path::{Component, Path};

use super::ServedPaths;
use super::components::Components;
use super::contents::Folder;
use super::denied;
use super::plugin::{Kind, ServedPlugin};
use super::repository::Repository;
use crate::error::CliError;

/// The place of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigPlace<'p> {
    /// This file. Relative paths start at its directory.
    File(&'p Path),
    /// Memory. All paths are absolute.
    Memory,
}

impl<'p> ConfigPlace<'p> {
    /// A path as the config has it: relative if it is below the config's directory, so that both can be moved together.
    fn relative(self, path: &'p Path) -> &'p Path {
        let Self::File(file) = self else { return path };
        match file.parent().and_then(|base| path.strip_prefix(base).ok()) {
            Some(same) if same.as_os_str().is_empty() => Path::new("."),
            Some(below) => below,
            None => path,
        }
    }

    /// The relative path of the config file, if it is below a served path; for a config in memory, the usual name.
    fn served_path(self, plugins: &[ServedPlugin]) -> Option<String> {
        let Self::File(file) = self else { return Some("mcp-host.toml".to_owned()) };
        let below = plugins.iter().filter_map(|plugin| file.strip_prefix(&plugin.path).ok());
        below.filter(|path| is_below(path)).map(|path| path.to_string_lossy().into_owned()).next()
    }
}

impl ServedPaths {
    /// Renders the config for this place.
    ///
    /// # Errors
    ///
    /// A path is not UTF-8, which TOML requires.
    pub(crate) fn render(&self, place: ConfigPlace<'_>, components: &Components) -> Result<String, CliError> {
        let name = &self.name;
        let mut text = format!(
            "# What `mcp-host serve` serves, to whom, and within which bounds.\n\
             # `mcp-host check` tries everything in it. All keys: docs/config.md.\n\
             # Relative paths start from the directory of this file.\n\
             \n\
             [server]\n\
             name = \"{name}\"\n\
             # For clients that use no resources, only tools:\n\
             tools = [\"list\", \"read\", \"search\", \"context\"]\n\
             # Serve over HTTP, at http://127.0.0.1:8080/mcp, instead of stdio:\n\
             # http = \"127.0.0.1:8080\"\n"
        );
        for plugin in &self.plugins {
            text += &render_plugin(plugin, place, components)?;
        }
        text += &self.deny_rule(place);
        text += "\n\
                 # Over stdio everything is allowed that no rule denies; over HTTP, nothing that\n\
                 # no rule allows. `anonymous` is a client on this machine without credentials.\n\
                 # [[rule]]\n\
                 # principals = [\"anonymous\"]\n\
                 # allow = [\"**\"]\n";
        Ok(text)
    }

    /// The rule that denies files with secrets.
    fn deny_rule(&self, place: ConfigPlace<'_>) -> String {
        // Tables of a database are not files.
        if self.plugins.iter().all(|plugin| matches!(plugin.kind, Kind::Database)) {
            return String::new();
        }
        let config = place.served_path(&self.plugins);
        let has_git = self.plugins.iter().any(|plugin| matches!(plugin.kind, Kind::Git(_)));
        let mut comment = "# Not for clients: files of environment variables, private keys".to_owned();
        comment += if config.is_some() { ", this file.\n" } else { ".\n" };
        if has_git {
            comment += "# Once committed, the text of such a file is in diffs anyway.\n";
        }
        let repositories = self.plugins.iter().flat_map(|plugin| plugin.bare_repositories.iter().map(String::as_str));
        let globs: Vec<_> = denied::globs(config.as_deref(), repositories)
            .into_iter()
            .map(|glob| format!("    \"{glob}\",\n"))
            .collect();
        format!("\n{comment}[[rule]]\nprincipals = [\"*\"]\ndeny = [\n{}]\n", globs.concat())
    }
}

/// The entry of a plugin.
fn render_plugin(plugin: &ServedPlugin, place: ConfigPlace<'_>, components: &Components) -> Result<String, CliError> {
    let provider = plugin.provider();
    let component = components.value(provider);
    let component = quoted(place.relative(&component))?;
    let ServedPlugin { name, label, mount, .. } = plugin;
    let title = if plugin.has_sibling { format!("title = \"{label}\"\n") } else { String::new() };
    let (comment, access) = match &plugin.kind {
        Kind::Git(repository) => {
            ("# The git repository, at any revision.".to_owned(), git_access(repository, &plugin.path, place)?)
        }
        Kind::Files(folder) => (files_comment(*folder).to_owned(), dir_access(&plugin.path, "/files", place)?),
        Kind::Notes => (
            "# The Markdown files below the directory, with their attachments. Hidden\n# files are not served."
                .to_owned(),
            dir_access(&plugin.path, "/notes", place)?,
        ),
        Kind::Database => {
            let url = format!("sqlite:{}", utf8(place.relative(&plugin.path))?);
            (
                "# The tables of the database, in pages. Nothing is written to it. Saved queries:\n\
                 # plugins/database/README.md."
                    .to_owned(),
                format!("grants.sql = [{{ name = \"{label}\", url = {} }}]\n", toml_string(&url)),
            )
        }
    };
    let search = match plugin.is_searched {
        true => "search = {}\n",
        false => "# Search over the files of its revision. That over the work tree has the same text:\n# search = {}\n",
    };
    Ok(format!(
        "\n\
         {comment}\n\
         [[plugin]]\n\
         name = \"{name}\"\n\
         component = {component}\n\
         mount = \"{mount}\"   # the URIs that it owns\n\
         {title}\
         # Nothing of this machine but what is granted, read-only.\n\
         {access}\
         # limits = {{ memory = \"64MiB\", deadline = \"2s\" }}\n\
         {search}"
    ))
}

/// The comment about the files that a folder leaves out.
fn files_comment(folder: Folder) -> &'static str {
    match folder {
        Folder::Plain => {
            "# The files below the directory. Not served: hidden files, files of environment\n\
             # variables such as `prod.env`, and what `.ignore` and `.gitignore` name."
        }
        Folder::WorkTree => {
            "# The files below the directory. Not served: what `.gitignore` names, hidden\n\
             # files, and files of environment variables such as `prod.env`. `notes.wasm`\n\
             # reads the front matter of Markdown, but serves what git ignores, too."
        }
        Folder::PartOfWorkTree => {
            "# The files below the directory. Not served: what `.gitignore` names, hidden\n\
             # files, and files of environment variables such as `prod.env`. The provider\n\
             # does not see `.gitignore` files above the directory: copy the rules that are\n\
             # needed to one here, or to `.ignore`."
        }
    }
}

/// The grant of a directory.
fn dir_access(path: &Path, guest: &str, place: ConfigPlace<'_>) -> Result<String, CliError> {
    Ok(format!("grants.dirs = [{{ host = {}, guest = \"{guest}\" }}]\n", quoted(place.relative(path))?))
}

/// The grants and the config of a plugin for a repository.
fn git_access(repository: &Repository, path: &Path, place: ConfigPlace<'_>) -> Result<String, CliError> {
    match repository {
        Repository::Own => Ok(format!(
            "{}# The revision that is listed; HEAD unless set:\n# config = {{ rev = \"main\" }}\n",
            dir_access(path, "/repo", place)?
        )),
        // Git's links between the two directories are valid only if both have the same paths inside the sandbox as
        // outside.
        Repository::Elsewhere(shared) => {
            let (dir, shared) = (quoted(path)?, quoted(shared)?);
            let grant = |path: &str| format!("    {{ host = {path}, guest = {path} }},\n");
            Ok(format!(
                "grants.dirs = [\n{}{}]\n\
                 # `rev` beside `dir`: the revision that is listed; HEAD unless set.\n\
                 config = {{ dir = {dir} }}\n",
                grant(&dir),
                grant(&shared)
            ))
        }
    }
}

/// Whether a relative path stays below its directory, without `..`.
fn is_below(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

fn utf8(path: &Path) -> Result<&str, CliError> {
    path.to_str().ok_or_else(|| CliError::NotUtf8 { path: path.to_owned() })
}

/// The path as a TOML string.
fn quoted(path: &Path) -> Result<String, CliError> {
    Ok(toml_string(utf8(path)?))
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::served_paths::contents::Content;
    use mcp_host_config::{Config, Environment};

    #[test]
    fn what_is_written_is_a_valid_config_whatever_the_directories_are_called() {
        for name in ["linux", "My \"Notes\"", "..x", "ノート", "-"] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join(name);
            let plugins = dir.join("plugins");
            fs::create_dir_all(&plugins).unwrap();
            for component in ["git.wasm", "notes.wasm", "files.wasm", "database.wasm"] {
                fs::write(plugins.join(component), "").unwrap();
            }
            let database = dir.join("it's \"a\".db");
            fs::write(&database, "").unwrap();
            let elsewhere = parent.path().join("main");
            fs::create_dir_all(&elsewhere).unwrap();
            for repository in [Repository::Own, Repository::Elsewhere(elsewhere)] {
                let repository = Content::Repository { repository, has_work_tree: true };
                let several = vec![
                    (dir.clone(), repository.clone()),
                    (plugins.clone(), Content::Notes),
                    (plugins.clone(), Content::Folder(Folder::Plain)),
                    (database.clone(), Content::Database),
                ];
                for (contents, count) in [(vec![(dir.clone(), repository)], 2), (several, 5)] {
                    assert_valid(&ServedPaths::of(contents), &dir, &plugins, count);
                }
            }
        }
    }

    fn assert_valid(paths: &ServedPaths, dir: &Path, plugins: &Path, count: usize) {
        let environment = Environment::empty().plugin_directories([plugins]);
        let files = ["mcp-host.toml", "a \"b\" *é.toml", "../other.toml"].map(|file| dir.join(file));
        let places = files.iter().map(|file| ConfigPlace::File(file)).chain([ConfigPlace::Memory]);
        for place in places {
            for components in [Components::Installed, Components::In(plugins.to_owned())] {
                let text = paths.render(place, &components).unwrap();
                let file = match place {
                    ConfigPlace::File(file) => file.to_owned(),
                    ConfigPlace::Memory => PathBuf::from("nowhere.toml"),
                };
                let config = Config::parse_in(&text, &file, &environment).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(config.plugins.len(), count, "{text}");
                assert!(config.plugins.iter().any(|plugin| plugin.search.is_some()), "{text}");
            }
        }
    }

    #[test]
    fn paths_below_the_config_are_relative_and_those_in_memory_absolute() {
        let paths = ServedPaths::of(vec![("/srv/docs".into(), Content::Folder(Folder::Plain))]);
        let host = |place| {
            let text = paths.render(place, &Components::Installed).unwrap();
            text.split("host = ").nth(1).unwrap().split(',').next().unwrap().to_owned()
        };
        assert_eq!(host(ConfigPlace::File(Path::new("/srv/docs/mcp-host.toml"))), "\".\"");
        assert_eq!(host(ConfigPlace::File(Path::new("/srv/mcp-host.toml"))), "\"docs\"");
        assert_eq!(host(ConfigPlace::File(Path::new("/etc/mcp-host.toml"))), "\"/srv/docs\"");
        assert_eq!(host(ConfigPlace::Memory), "\"/srv/docs\"");
    }

    #[test]
    fn globs_of_files_are_written_only_if_files_are_served() {
        let rule = |contents| ServedPaths::of(contents).deny_rule(ConfigPlace::Memory);
        assert_eq!(rule(vec![("/srv/shop.db".into(), Content::Database)]), "");
        let both = rule(vec![("/srv/shop.db".into(), Content::Database), ("/srv/docs".into(), Content::Notes)]);
        assert!(both.contains("**/*.{p,P}{e,E}{m,M}"), "{both}");
    }

    #[test]
    fn a_config_among_the_files_is_denied_and_one_elsewhere_is_not() {
        let paths = ServedPaths::of(vec![("/srv/docs".into(), Content::Folder(Folder::Plain))]);
        let rule = |file: &str| paths.deny_rule(ConfigPlace::File(Path::new(file)));
        assert!(rule("/srv/docs/a/mcp.toml").contains("\"**/a/mcp.toml\",\n"));
        assert!(!rule("/srv/mcp.toml").contains("mcp.toml"));
        assert!(paths.deny_rule(ConfigPlace::Memory).contains("\"**/mcp-host.toml\",\n"));
    }
}
