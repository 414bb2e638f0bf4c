//! `init`: writes a commented config for what the current directory contains.
//!
//! | found | plugin | mount |
//! |---|---|---|
//! | a git repository, bare or not; a linked worktree or a submodule, whose repository is elsewhere | `git` | `git://DIRECTORY/` |
//! | a Markdown file, at most [`MAX_DEPTH`] directories deep, among the first [`MAX_ENTRIES`] entries | `notes` | `notes:///` |
//! | such a file in the work tree of a repository, whose root may be a directory above | `files` | `files:///` |
//!
//! A work tree has files that are not to be published: build output, dependencies, secrets. Git ignores them, and so does the
//! provider `files`; the provider `notes` would serve them. A bare repository has no files of its own to serve.
//!
//! The config names components that exist, so `mcp-host check` passes: by name if the plugin path has them, as after the
//! installation of a package, else by path. An existing file is never overwritten.

mod repository;

use std::fs::{self, DirEntry, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use mcp_host_config::{Environment, find_component};

use self::repository::{Repository, has_work_tree};
use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  mcp-host init                            write ./mcp-host.toml for the git repository or the Markdown files here
  mcp-host init --plugins ~/mcp/plugins    with the components of that directory
  mcp-host init --config team.toml         write another file; what it serves is still the current directory";

/// The file that the commands read unless they are told another.
const DEFAULT_CONFIG: &str = "mcp-host.toml";
/// How deep Markdown files are searched for.
const MAX_DEPTH: usize = 3;
/// The number of directory entries that the search visits at most.
const MAX_ENTRIES: usize = 10_000;

/// Write a commented config for what the current directory contains
///
/// It looks for a git repository and for Markdown files. In a work tree, what `.gitignore` names is not served. An existing config is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory with the components `git.wasm`, `files.wasm` and `notes.wasm`; by default, those of the installed package, or
    /// `plugins` beside the program, one level above it, or in the current directory
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// Where the components are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Components {
    /// In the plugin path: the config has their names.
    Installed,
    /// In this directory.
    In(PathBuf),
}

impl Components {
    /// Finds the components with these names.
    fn find(names: &[&str], dir: &Path, chosen: Option<&Path>) -> Result<Self, CliError> {
        let installed = Environment::from_process();
        let is_installed = |name: &&str| find_component(Path::new(name), installed.plugin_path()).is_ok();
        if chosen.is_none() && names.iter().all(is_installed) {
            return Ok(Self::Installed);
        }
        let searched = chosen.map_or_else(|| default_plugin_dirs(dir), |plugins| vec![dir.join(plugins)]);
        let files: Vec<_> = names.iter().map(|name| format!("{name}.wasm")).collect();
        match searched.iter().find(|plugins| files.iter().all(|file| plugins.join(file).is_file())) {
            Some(plugins) => Ok(Self::In(plugins.canonicalize().unwrap_or_else(|_| plugins.clone()))),
            None => Err(CliError::NoComponents { names: files.join("` and `"), searched }),
        }
    }

    /// Returns the value of `component` in a config in `base`.
    fn render(&self, name: &str, base: &Path) -> Result<String, CliError> {
        match self {
            Self::Installed => quoted(Path::new(name)),
            Self::In(plugins) => quoted(relative_to(base, &plugins.join(format!("{name}.wasm")))),
        }
    }
}

/// What a directory contains.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    repository: Option<Repository>,
    documents: Option<Documents>,
}

/// The Markdown files of a directory, by what else is to be expected beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Documents {
    /// A folder of notes.
    Notes,
    /// The work tree of a git repository.
    WorkTree {
        /// Whether its root, where ignore rules may be, is a directory above.
        is_part: bool,
    },
}

impl Documents {
    /// The name of the plugin, of its scheme and of its component.
    fn plugin(self) -> &'static str {
        match self {
            Self::Notes => "notes",
            Self::WorkTree { .. } => "files",
        }
    }

    /// The entry of the config.
    fn render(self, component: &str, host: &str) -> String {
        let name = self.plugin();
        let comment = match self {
            Self::Notes => {
                "# The Markdown files below this directory, with their attachments. Hidden\n\
                 # files are not served."
            }
            Self::WorkTree { is_part: false } => {
                "# The files below this directory. Not served: what `.gitignore` names, hidden\n\
                 # files, and files of environment variables such as `prod.env`. `notes.wasm`\n\
                 # reads the front matter of Markdown, but serves what git ignores, too."
            }
            Self::WorkTree { is_part: true } => {
                "# The files below this directory. Not served: what `.gitignore` names, hidden\n\
                 # files, and files of environment variables such as `prod.env`. The provider\n\
                 # does not see `.gitignore` files above this directory: copy the rules that are\n\
                 # needed to one here, or to `.ignore`."
            }
        };
        format!(
            "\n\
             {comment}\n\
             [[plugin]]\n\
             name = \"{name}\"\n\
             component = {component}\n\
             mount = \"{name}:///\"\n\
             grants.dirs = [{{ host = {host}, guest = \"/{name}\" }}]\n\
             # Search over their text, at search:///:\n\
             # search = {{}}\n"
        )
    }
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let dir = std::env::current_dir().context("the current directory cannot be determined")?;
        let file = dir.join(context.config_file());
        if file.symlink_metadata().is_ok() {
            return Err(CliError::ConfigExists { file });
        }
        let markdown = find_below(&dir, is_markdown);
        let repository = Repository::find(&dir);
        let documents = match (&repository, markdown) {
            (_, Search::NotFound | Search::LimitReached) => None,
            (Some(_), Search::Found) => has_work_tree(&dir).then_some(Documents::WorkTree { is_part: false }),
            (None, Search::Found) if Repository::is_above(&dir) => Some(Documents::WorkTree { is_part: true }),
            // It may be one that cannot be found, or work trees may be below.
            (None, Search::Found) if find_below(&dir, is_git) != Search::NotFound => {
                Some(Documents::WorkTree { is_part: false })
            }
            (None, Search::Found) => Some(Documents::Notes),
        };
        let found = Found { repository, documents };
        let git = found.repository.is_some().then_some("git");
        let names: Vec<_> = git.into_iter().chain(documents.map(Documents::plugin)).collect();
        if names.is_empty() {
            let limit = (markdown == Search::LimitReached).then_some(MAX_ENTRIES);
            return Err(CliError::NothingToServe { dir, limit });
        }
        let components = Components::find(&names, &dir, self.plugins.as_deref())?;
        write_new(&file, &render(&dir, &file, &found, &components)?)?;
        if markdown == Search::LimitReached {
            let note = format!("Markdown files are not served: there is none among the first {MAX_ENTRIES} entries");
            context.messages.note(&note);
        }
        if documents == Some(Documents::WorkTree { is_part: true }) {
            context.messages.warning(
                "this directory is part of a git repository, and the rules of `.gitignore` files above it do not apply: \
                 `mcp-host list --all` shows what is served, and `.ignore` here names what is not to be",
            );
        }
        let written = context.config_file();
        let option = match written.to_str() {
            Some(DEFAULT_CONFIG) => String::new(),
            _ => format!(" --config {}", written.display()),
        };
        context.messages.note(&format!(
            "wrote {}; `mcp-host check{option}` tries it, `mcp-host list{option}` shows what it serves",
            written.display()
        ));
        Ok(())
    }
}

/// Creates the file; one that exists by now is an error.
fn write_new(file: &Path, text: &str) -> Result<(), CliError> {
    let written =
        OpenOptions::new().write(true).create_new(true).open(file).and_then(|mut new| new.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::ConfigExists { file: file.to_owned() },
        _ => CliError::Save { file: file.to_owned(), source },
    })
}

/// The directories where a release, a build and a project have their components.
fn default_plugin_dirs(dir: &Path) -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside: Vec<_> = program.iter().flat_map(|program| program.ancestors().skip(1).take(2)).collect();
    beside.into_iter().chain([dir]).map(|parent| parent.join("plugins")).collect()
}

/// The result of a search with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Found,
    NotFound,
    LimitReached,
}

/// Searches a directory and those below it for such an entry. Hidden directories are skipped.
fn find_below(dir: &Path, is_wanted: fn(&DirEntry) -> bool) -> Search {
    let mut left = MAX_ENTRIES;
    find_within(dir, is_wanted, MAX_DEPTH, &mut left)
}

/// The same in so many levels, and among so many entries.
fn find_within(dir: &Path, is_wanted: fn(&DirEntry) -> bool, depth: usize, left: &mut usize) -> Search {
    let Ok(entries) = fs::read_dir(dir) else { return Search::NotFound };
    let mut directories = Vec::new();
    for entry in entries.flatten() {
        if *left == 0 {
            return Search::LimitReached;
        }
        *left = left.saturating_sub(1);
        if is_wanted(&entry) {
            return Search::Found;
        }
        if !is_hidden(&entry) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories.push(entry.path());
        }
    }
    let Some(depth) = depth.checked_sub(1) else { return Search::NotFound };
    let mut below = directories.iter().map(|below| find_within(below, is_wanted, depth, left));
    below.find(|search| *search != Search::NotFound).unwrap_or(Search::NotFound)
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}

/// Whether it is a Markdown file that is not hidden.
fn is_markdown(entry: &DirEntry) -> bool {
    let extension = entry.path().extension().map(|extension| extension.to_ascii_lowercase());
    let is_named = extension.is_some_and(|extension| extension == "md" || extension == "markdown");
    is_named && !is_hidden(entry) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// Whether it is a repository, or leads to one.
fn is_git(entry: &DirEntry) -> bool {
    entry.file_name() == ".git"
}

/// The config in that file. TOML is UTF-8, so a path that is not is an error.
fn render(dir: &Path, file: &Path, found: &Found, components: &Components) -> Result<String, CliError> {
    let name = host_name(dir);
    let base = file.parent().unwrap_or(dir);
    let host = quoted(relative_to(base, dir))?;
    let config_path = file.strip_prefix(dir).ok().filter(|path| is_below(path));
    let config_path = config_path.map(|path| literal_glob(&path.to_string_lossy()));
    let mut text = format!(
        "# What `mcp-host serve` serves, to whom, and within which bounds.\n\
         # `mcp-host check` tries everything in it. All keys: docs/config.md.\n\
         # Relative paths start from the directory of this file.\n\
         \n\
         [server]\n\
         name = \"{name}\"\n\
         # Tools, for clients that use no resources (\"search\" requires a plugin with `search`):\n\
         # tools = [\"list\", \"read\", \"search\"]\n\
         # Serve over HTTP, at http://127.0.0.1:8080/mcp, instead of stdio:\n\
         # http = \"127.0.0.1:8080\"\n"
    );
    if let Some(repository) = &found.repository {
        let (grants, config) = match repository {
            Repository::Own => (
                format!("{{ host = {host}, guest = \"/repo\" }}"),
                "# The revision that is listed; HEAD unless set:\n# config = { rev = \"main\" }".to_owned(),
            ),
            // Git's links between the two directories hold only where both have the same paths as outside.
            Repository::Elsewhere(shared) => {
                let grant = |path: &str| format!("{{ host = {path}, guest = {path} }}");
                let (dir, shared) = (quoted(dir)?, quoted(shared)?);
                let grants = format!("\n    {},\n    {},\n", grant(&dir), grant(&shared));
                (
                    grants,
                    format!(
                        "# `rev` beside `dir`: the revision that is listed; HEAD unless set.\nconfig = {{ dir = {dir} }}"
                    ),
                )
            }
        };
        text += &format!(
            "\n\
             # The git repository of this directory, at any revision.\n\
             [[plugin]]\n\
             name = \"git\"\n\
             # Put in front of its titles, to tell two plugins of one provider apart:\n\
             # title = \"…\"\n\
             component = {}\n\
             mount = \"git://{name}/\"   # the URIs that it owns\n\
             # Nothing of this machine but what is granted. Read-only unless mode = \"rw\":\n\
             grants.dirs = [{grants}]\n\
             {config}\n\
             # limits = {{ memory = \"64MiB\", deadline = \"2s\" }}\n\
             # Search over their text, at search:///:\n\
             # search = {{}}\n",
            components.render("git", base)?
        );
    }
    if let Some(documents) = found.documents {
        text += &documents.render(&components.render(documents.plugin(), base)?, &host);
    }
    text += &deny_rule(config_path.as_deref(), found, &name);
    text += "\n\
             # Over stdio everything is allowed that no rule denies; over HTTP, nothing that\n\
             # no rule allows. `anonymous` is a client on this machine without credentials.\n\
             # [[rule]]\n\
             # principals = [\"anonymous\"]\n\
             # allow = [\"**\"]\n\
             # deny = [\"**/.env\"]\n";
    Ok(text)
}

/// The rule that denies the config, if it is one of the files of the directory, there and in the commits that have it; and files of
/// environment variables, unless their plugin does not serve them.
fn deny_rule(config_path: Option<&str>, found: &Found, name: &str) -> String {
    let mut denied = Vec::new();
    if let Some(path) = config_path {
        denied.extend(found.repository.is_some().then(|| format!("\"git://{name}/**/{path}\"")));
        denied.extend(found.documents.map(|documents| format!("\"{}:///**/{path}\"", documents.plugin())));
    }
    let mut comment = if denied.is_empty() { "" } else { "This file is not for clients." }.to_owned();
    if config_path.is_some() && found.repository.is_some() {
        comment += " Once committed, it is in commits and diffs\n# anyway.";
    }
    if found.documents == Some(Documents::Notes) {
        let plugin = Documents::Notes.plugin();
        denied.push(format!("\"{plugin}:///**/*.env\""));
        comment += if comment.is_empty() { "" } else { "\n# " };
        comment += "Files of environment variables have passwords.";
    }
    match denied.is_empty() {
        true => String::new(),
        false => format!("\n# {comment}\n[[rule]]\nprincipals = [\"*\"]\ndeny = [{}]\n", denied.join(", ")),
    }
}

/// The name of a directory as the host of a URI: lower-case letters, digits and `-`.
fn host_name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() { "project".to_owned() } else { plain.to_owned() }
}

/// A path as the config names it: relative to the directory of the config if it is below, so that both can be moved together.
fn relative_to<'p>(base: &Path, path: &'p Path) -> &'p Path {
    match path.strip_prefix(base) {
        Ok(same) if same.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => path,
    }
}

/// Whether a relative path leads to a file below, without `..`.
fn is_below(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

/// A glob that matches that path of a URI. Characters that mean something in a glob, or are percent-encoded in a URI, become
/// `*`.
fn literal_glob(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.' | '_' | '~');
    let mut glob: String = path.chars().map(|c| if is_plain(c) { c } else { '*' }).collect();
    while glob.contains("**") {
        glob = glob.replace("**", "*");
    }
    glob
}

/// The path as a string of TOML.
fn quoted(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().ok_or_else(|| CliError::NotUtf8 { path: path.to_owned() })?;
    Ok(toml::Value::String(text.to_owned()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Config;

    #[test]
    fn what_is_written_is_a_valid_config_whatever_the_directory_is_called() {
        for name in ["linux", "My \"Notes\"", "..x", "ノート", "-"] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join(name);
            let plugins = dir.join("plugins");
            fs::create_dir_all(&plugins).unwrap();
            for component in ["git.wasm", "notes.wasm", "files.wasm"] {
                fs::write(plugins.join(component), "").unwrap();
            }
            let elsewhere = parent.path().join("main");
            fs::create_dir_all(&elsewhere).unwrap();
            for repository in [Repository::Own, Repository::Elsewhere(elsewhere)] {
                let documents = match repository {
                    Repository::Own => Documents::WorkTree { is_part: false },
                    Repository::Elsewhere(_) => Documents::Notes,
                };
                let found = Found { repository: Some(repository), documents: Some(documents) };
                for file in ["mcp-host.toml", "a \"b\" *é.toml", "../other.toml"].map(|file| dir.join(file)) {
                    let environment = Environment::empty().plugin_directories([&plugins]);
                    for components in [Components::Installed, Components::In(plugins.clone())] {
                        let text = render(&dir, &file, &found, &components).unwrap();
                        let config = Config::parse_in(&text, &file, &environment).unwrap();
                        assert_eq!(config.plugins.len(), 2, "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn markdown_is_found_below_and_not_in_hidden_directories() {
        let dir = tempfile::tempdir().unwrap();
        let found = || find_below(dir.path(), is_markdown) == Search::Found;
        fs::create_dir_all(dir.path().join(".git")).unwrap();
        fs::write(dir.path().join(".git/a.md"), "").unwrap();
        assert!(!found());
        fs::create_dir_all(dir.path().join("docs/guide")).unwrap();
        fs::write(dir.path().join("docs/guide/A.MD"), "").unwrap();
        assert!(found());
        assert_eq!(find_within(dir.path(), is_markdown, MAX_DEPTH, &mut 2), Search::LimitReached);
        assert_eq!(find_within(dir.path(), is_markdown, 1, &mut 1000), Search::NotFound);
    }

    #[test]
    fn work_trees_below_a_directory_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        assert_eq!(find_below(dir.path(), is_git), Search::NotFound);
        fs::write(dir.path().join("a/b/.git"), "gitdir: /nowhere\n").unwrap();
        assert_eq!(find_below(dir.path(), is_git), Search::Found);
    }

    #[test]
    fn files_of_environment_variables_are_denied_where_their_plugin_would_serve_them() {
        let rule = |documents| deny_rule(None, &Found { repository: None, documents: Some(documents) }, "x");
        assert!(rule(Documents::Notes).contains("deny = [\"notes:///**/*.env\"]\n"));
        assert_eq!(rule(Documents::WorkTree { is_part: false }), "");
    }

    #[test]
    fn an_existing_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mcp-host.toml");
        fs::write(&file, "mine").unwrap();
        assert!(matches!(write_new(&file, "theirs"), Err(CliError::ConfigExists { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }
}
