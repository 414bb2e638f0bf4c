//! The plugins for a path: names, mounts and grants.

use std::path::{Path, PathBuf};

use super::contents::{self, Content, Folder};
use super::repository::Repository;

/// A plugin that serves a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedPlugin {
    pub(super) name: String,
    /// The name of the plugin's path.
    pub(super) label: String,
    /// Whether another plugin has the same provider.
    pub(super) has_sibling: bool,
    pub(super) mount: String,
    /// The served directory or file.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) is_searched: bool,
    /// The relative paths of bare repositories below the path, which are not served.
    pub(super) bare_repositories: Vec<String>,
}

/// The kind of data that a plugin serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Git(Repository),
    Files(Folder),
    Notes,
    Database,
}

impl Kind {
    /// The name of the provider.
    pub(super) fn provider(&self) -> &'static str {
        match self {
            Self::Git(_) => "git",
            Self::Files(_) => "files",
            Self::Notes => "notes",
            Self::Database => "database",
        }
    }

    /// The mount of the only plugin of its kind.
    fn mount(&self, name: &str) -> String {
        match self {
            Self::Git(_) => format!("git://{name}/"),
            Self::Database => "sqlite:///".to_owned(),
            Self::Files(_) | Self::Notes => format!("{}:///", self.provider()),
        }
    }
}

impl ServedPlugin {
    fn new(name: &str, path: &Path, kind: Kind) -> Self {
        let kind_has_files = matches!(kind, Kind::Files(_) | Kind::Notes);
        Self {
            name: kind.provider().to_owned(),
            label: name.to_owned(),
            has_sibling: false,
            mount: kind.mount(name),
            path: path.to_owned(),
            kind,
            is_searched: true,
            bare_repositories: match kind_has_files {
                true => contents::bare_repositories(path),
                false => Vec::new(),
            },
        }
    }

    /// The name of the plugin's provider.
    pub(super) fn provider(&self) -> &'static str {
        self.kind.provider()
    }

    /// The repository of the plugin, if it is outside the path.
    pub(super) fn repository_elsewhere(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Git(Repository::Elsewhere(shared)) => Some(shared),
            _ => None,
        }
    }

    /// The ignore rules of the plugin's folder, if it is a folder of files.
    pub(super) fn folder(&self) -> Option<Folder> {
        match self.kind {
            Kind::Files(folder) => Some(folder),
            _ => None,
        }
    }
}

/// The plugins for the content at a path with this name.
pub(super) fn plugins_of(name: &str, path: &Path, content: Content) -> Vec<ServedPlugin> {
    let plugin = |kind| ServedPlugin::new(name, path, kind);
    match content {
        Content::Repository { repository, has_work_tree } => {
            let git = ServedPlugin { is_searched: !has_work_tree, ..plugin(Kind::Git(repository)) };
            let files = has_work_tree.then(|| plugin(Kind::Files(Folder::WorkTree)));
            std::iter::once(git).chain(files).collect()
        }
        Content::Notes => vec![plugin(Kind::Notes)],
        Content::Folder(folder) => vec![plugin(Kind::Files(folder))],
        Content::Database => vec![plugin(Kind::Database)],
    }
}

/// Gives several plugins of one provider distinct names and mounts. A single plugin has the name of its provider.
pub(super) fn distinguish(plugins: &mut [ServedPlugin]) {
    let providers: Vec<_> = plugins.iter().map(ServedPlugin::provider).collect();
    for plugin in plugins {
        let provider = plugin.provider();
        plugin.has_sibling = providers.iter().filter(|other| **other == provider).count() > 1;
        if !plugin.has_sibling {
            continue;
        }
        plugin.name = format!("{provider}-{}", plugin.label);
        if let Some(scheme) = plugin.mount.strip_suffix(":///") {
            plugin.mount = format!("{scheme}://{}/", plugin.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins(contents: Vec<(&str, Content)>) -> Vec<(String, String)> {
        let mut plugins: Vec<_> =
            contents.into_iter().flat_map(|(name, content)| plugins_of(name, Path::new("/x"), content)).collect();
        distinguish(&mut plugins);
        plugins.into_iter().map(|plugin| (plugin.name, plugin.mount)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, mount)| ((*name).to_owned(), (*mount).to_owned())).collect()
    }

    #[test]
    fn a_plugin_that_is_alone_has_the_name_of_its_provider_and_several_have_those_of_their_paths() {
        let repository = || Content::Repository { repository: Repository::Own, has_work_tree: true };
        assert_eq!(plugins(vec![("a", repository())]), pairs(&[("git", "git://a/"), ("files", "files:///")]));
        assert_eq!(
            plugins(vec![("a", repository()), ("b", Content::Folder(Folder::Plain)), ("c", Content::Database)]),
            pairs(&[
                ("git", "git://a/"),
                ("files-a", "files://a/"),
                ("files-b", "files://b/"),
                ("database", "sqlite:///"),
            ])
        );
        let databases = plugins(vec![("a", Content::Database), ("b", Content::Database), ("n", Content::Notes)]);
        assert_eq!(
            databases,
            pairs(&[("database-a", "sqlite://a/"), ("database-b", "sqlite://b/"), ("notes", "notes:///")])
        );
    }

    #[test]
    fn the_text_of_a_work_tree_is_searched_once() {
        let searched = |has_work_tree| {
            let content = Content::Repository { repository: Repository::Own, has_work_tree };
            plugins_of("a", Path::new("/x"), content).iter().map(|plugin| plugin.is_searched).collect::<Vec<_>>()
        };
        assert_eq!((searched(true), searched(false)), (vec![false, true], vec![true]));
    }
}
