//! The component of a plugin: the path of a file, the name of an installed provider, or a reference to a registry.
//!
//! A name has neither a slash nor the suffix `.wasm`: `git` is the file `git.wasm` in the first directory of the plugin
//! path that has it, and `./git` is a file beside the config. `oci://…` is a component from a registry (`registry`).
//! With names, one config is valid on machines whose packages use different directories. The plugin path is
//! `plugin-path` of `[server]`, or the plugin path of the [`Environment`].

use std::path::{Path, PathBuf};

use super::Environment;
use super::declare::list_type;
use super::diagnostic::quote;
use super::paths::{CreatableDirectory, ExistingFile};
use super::reader::{FromNode, Node, Schema};
use super::registry::source;
use super::suggest::closest;

/// No directory of the plugin path has a provider with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no provider `{name}`: {}", searched_text(.file, .searched))]
pub struct ProviderNotFound {
    /// The name.
    pub name: String,
    /// The file name of the provider.
    pub file: String,
    /// The directories of the plugin path.
    pub searched: Vec<PathBuf>,
}

/// The maximum number of files of a directory that are compared with a misspelled name.
const MAX_COMPARED: usize = 1000;

impl ProviderNotFound {
    /// Returns the name of the provider in the plugin path that was probably meant. Reads its directories.
    fn nearest(&self) -> Option<String> {
        let directories = self.searched.iter().filter_map(|directory| directory.read_dir().ok());
        let entries = directories.flat_map(|entries| entries.take(MAX_COMPARED));
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names = files.filter_map(|file| file.strip_suffix(".wasm").map(str::to_owned));
        let mut names: Vec<_> = names.filter(|name| is_provider_name(name)).collect();
        names.sort_unstable();
        closest(&self.name, names.iter().map(String::as_str)).map(str::to_owned)
    }
}

fn searched_text(file: &str, searched: &[PathBuf]) -> String {
    match searched {
        [] => "no directory has providers by name".to_owned(),
        searched => {
            let searched: Vec<_> = searched.iter().map(|directory| format!("`{}`", directory.display())).collect();
            format!("no file `{file}` in {}", searched.join(", "))
        }
    }
}

/// Returns the component's file: a name is looked up in the plugin path; any other text is the path itself.
///
/// # Errors
///
/// No directory of the plugin path has a file for the name.
pub fn find_component(written: &Path, plugin_path: &[PathBuf]) -> Result<PathBuf, ProviderNotFound> {
    let Some(name) = written.to_str().filter(|written| is_provider_name(written)) else {
        return Ok(written.to_owned());
    };
    let file = format!("{name}.wasm");
    let mut candidates = plugin_path.iter().map(|directory| directory.join(&file));
    candidates.find(|candidate| candidate.is_file()).ok_or_else(|| ProviderNotFound {
        name: name.to_owned(),
        file,
        searched: plugin_path.to_vec(),
    })
}

/// Whether the text is the name of a provider and not a path.
fn is_provider_name(written: &str) -> bool {
    let is_path = written.is_empty()
        || written.starts_with(['~', '.'])
        || written.contains(['/', '\\', '\0'])
        || written.to_ascii_lowercase().ends_with(".wasm");
    !is_path
}

list_type! {
    /// The directories that are searched for providers by name, in order.
    pub(super) struct PluginPath(Vec<PathBuf>) of CreatableDirectory as "a list of directories", |node| {
        let directories = node.items::<CreatableDirectory>()?;
        let directories: Vec<_> =
            directories.iter().filter_map(CreatableDirectory::from_node).map(|CreatableDirectory(path)| path).collect();
        node.context.declared.borrow_mut().plugin_path = Some(directories.clone());
        Some(directories)
    }
}

/// The file of a component. A missing file has been reported, and the rest of the plugin is still compared with other
/// plugins.
pub(super) struct Component(pub(super) PathBuf);

impl FromNode for Component {
    const TYPE_NAME: &'static str = "the path of a component, the name of a provider, or a reference to a registry";

    fn example() -> String {
        ExistingFile::example()
    }

    fn schema() -> Schema {
        ExistingFile::schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let Some(written) = node.value.as_str().filter(|written| source::is_reference(written)) {
            return Some(Self(source::component(node, written).unwrap_or_default()));
        }
        let written = node.value.as_str().filter(|written| is_provider_name(written));
        let Some(written) = written else {
            return Some(Self(ExistingFile::from_node(node).map(|ExistingFile(path)| path).unwrap_or_default()));
        };
        let declared = node.context.declared.borrow().plugin_path.clone();
        let plugin_path = declared.unwrap_or_else(|| node.context.environment.plugin_path().to_vec());
        match find_component(Path::new(written), &plugin_path) {
            Ok(file) => {
                node.context.add_dependency(file.clone());
                Some(Self(file))
            }
            Err(error) => {
                for directory in &plugin_path {
                    node.context.add_dependency(directory.join(&error.file));
                }
                node.report_machine_error(error.to_string(), help(node, &error));
                Some(Self(PathBuf::default()))
            }
        }
    }
}

/// Returns the suggestion: the file beside the config if there is one, a provider with a similar name, or how providers
/// are found.
fn help(node: &Node<'_>, error: &ProviderNotFound) -> String {
    let beside = [format!("./{}", error.name), error.file.clone()];
    let beside = beside.iter().find(|file| node.context.base_dir.join(file).is_file());
    if beside.is_none()
        && let Some(nearest) = error.nearest()
    {
        let assignment = node.assignment_hint(&format!("{nearest:?}"));
        return format!("did you mean {}? write {assignment}", quote(&nearest));
    }
    match beside {
        Some(file) => format!(
            "{} is a name, which is looked up in `plugin-path` of `[server]`; for the file beside the config write {}",
            quote(&error.name),
            node.assignment_hint(&format!("\"{file}\""))
        ),
        None => format!(
            "correct the name, install its package, add its directory to `plugin-path` of `[server]`, or write the path of \
             a file: {}",
            node.assignment_hint(&Component::example())
        ),
    }
}

impl Environment {
    /// The default plugin path of a program and its packages: `plugins` beside the program, `../lib/mcp-host/plugins`
    /// from there, and `/usr/lib/mcp-host/plugins`.
    pub(super) fn plugin_path_of(program: &Path) -> Vec<PathBuf> {
        let beside = program.parent().into_iter().flat_map(|directory| {
            let installed = directory.parent().map(|prefix| prefix.join("lib/mcp-host/plugins"));
            [Some(directory.join("plugins")), installed]
        });
        let system = PathBuf::from("/usr/lib/mcp-host/plugins");
        let mut directories: Vec<_> = beside.flatten().collect();
        if !directories.contains(&system) {
            directories.push(system);
        }
        directories
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn parse(text: &str, file: &Path, environment: &Environment) -> Result<PathBuf, String> {
        let config = Config::parse_in(text, file, environment);
        config.map(|config| config.plugins[0].component.clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_a_file_of_the_first_directory_that_has_it_and_a_path_is_a_file_beside_the_config() {
        let folder = tempfile::tempdir().unwrap();
        let [file, a, b] = ["mcp-host.toml", "a", "b"].map(|name| folder.path().join(name));
        for directory in [&a, &b] {
            std::fs::create_dir(directory).unwrap();
        }
        for present in ["b/git.wasm", "notes", "web.wasm"] {
            std::fs::write(folder.path().join(present), "").unwrap();
        }
        let environment = Environment::empty().plugin_directories([a.clone(), b.clone()]);
        let text = |component: &str| format!("[[plugin]]\nname = 'p'\nmount = 'p:///'\ncomponent = '{component}'");
        assert_eq!(parse(&text("git"), &file, &environment), Ok(b.join("git.wasm")));
        std::fs::write(a.join("git.wasm"), "").unwrap();
        assert_eq!(parse(&text("git"), &file, &environment), Ok(a.join("git.wasm")));
        let of_server = format!("server.plugin-path = ['b', 'later']\n{}", text("git"));
        assert_eq!(parse(&of_server, &file, &environment), Ok(b.join("git.wasm")));
        assert_eq!(parse(&text("./notes"), &file, &environment), Ok(folder.path().join("notes")));

        for (name, help) in [("notes", "\"./notes\""), ("web", "\"web.wasm\""), ("x", "install its package")] {
            let error = parse(&text(name), &file, &environment).unwrap_err();
            let searched = format!("there is no provider `{name}`: no file `{name}.wasm` in `{}`", a.display());
            assert!(error.contains(&searched) && error.contains(help), "{error}");
        }
        let error = parse(&text("gti"), &file, &environment).unwrap_err();
        assert!(error.contains("did you mean `git`? write `component = \"git\"`"), "{error}");
        let error = parse(&format!("server.plugin-path = []\n{}", text("git")), &file, &environment).unwrap_err();
        assert!(error.contains("no directory has providers by name"), "{error}");
    }

    #[test]
    fn a_provider_that_is_installed_later_is_a_dependency_of_the_config() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::empty().plugin_directories([folder.path()]);
        let text = "[[plugin]]\nname = 'p'\nmount = 'p:///'\ncomponent = 'git'";
        let error = Config::parse_in(text, Path::new("mcp-host.toml"), &environment).unwrap_err();
        assert_eq!(error.files(), &[folder.path().join("git.wasm")].into());
    }

    #[test]
    fn packages_have_providers_beside_the_program_and_below_its_prefix() {
        let path = |program: &str| Environment::plugin_path_of(Path::new(program));
        let expected = ["/opt/mcp/bin/plugins", "/opt/mcp/lib/mcp-host/plugins", "/usr/lib/mcp-host/plugins"];
        assert_eq!(path("/opt/mcp/bin/mcp-host"), expected.map(PathBuf::from));
        assert_eq!(path("/usr/bin/mcp-host"), ["/usr/bin/plugins", "/usr/lib/mcp-host/plugins"].map(PathBuf::from));
    }
}
