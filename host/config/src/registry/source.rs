//! `component = "oci://…"`: the locked file in the store. Nothing here requests a registry.
//!
//! A component that is not locked, or not in the store, is an error with the command to run. The file's content is
//! compared with the locked digest at each load, on the descriptor that is then compiled (`mcp_host_engine`); only its
//! size is checked here.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use mcp_host_base::text::quote;
use mcp_host_model::digest::Digest;

use super::lock::{FILE_NAME, Lock, LockError};
use super::reference::{Reference, ReferenceError, SCHEME};
use crate::Environment;
use crate::diagnostic::Suggest;
use crate::reader::{Node, ReadContext};

/// The subdirectory of the store with the files, each named by its SHA-256.
const BLOBS: &str = "blobs/sha256";

/// The store's file for a digest.
pub fn store_file(store: &Path, digest: &Digest) -> PathBuf {
    store.join(BLOBS).join(digest.digits())
}

/// The lock file beside a config file.
pub fn lock_file(config: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(FILE_NAME)
}

/// Whether the text is a reference to a registry.
pub(crate) fn is_reference(written: &str) -> bool {
    written.starts_with(SCHEME)
}

impl Suggest for ReferenceError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::Digest(_) => "write the digest of the manifest, `@sha256:` and 64 hexadecimal digits".to_owned(),
            Self::NoVersion(text) => format!(
                "write a version: `{key} = \"{text}:1.4\"` is the newest release of 1.4, `:1.4.2` that one, and `@sha256:…` a manifest"
            ),
            Self::Version(_) => "write numbers: `:1.4` is the newest release of 1.4, `:1.4.2` that one; other tags, such as `latest`, do \
                                 not say which of two is newer"
                .to_owned(),
            _ => format!("write a registry, a repository and a version, such as `{key} = \"oci://registry.example.com/acme/web:1.4\"`"),
        }
    }
}

/// Reads a reference, and returns the path of its file. If there is none, the problem has been reported.
pub(crate) fn component(node: &Node<'_>, written: &str) -> Option<PathBuf> {
    let reference = match written.parse::<Reference>() {
        Ok(reference) => reference,
        Err(error) => {
            node.reject(&error);
            return None;
        }
    };
    let context = node.context;
    if context.environment.keeps_references() {
        return Some(PathBuf::from(reference.to_string()));
    }
    let lock = match lock_of(context) {
        Ok(lock) => lock,
        Err(error) => {
            let help = "take it from version control or a backup, or use the version of `mcp-host` that has written it; without it, what was agreed to is agreed to again (`mcp-host lock`)";
            node.report_machine_error(error.to_string(), help);
            return None;
        }
    };
    let Some(locked) = lock.get(&reference) else {
        let help = "run `mcp-host lock`, which resolves, verifies and locks it";
        node.report_machine_error(format!("{} is not locked", quote(written)), help);
        return None;
    };
    let Some(store) = store_of(context) else {
        let help = "set `store` of `[registry]`, `state` of `[server]`, or `HOME`";
        node.report_machine_error("there is no directory for the store of components", help);
        return None;
    };
    let file = store_file(&store, &locked.component);
    context.add_dependency(file.clone());
    let problem = match file.metadata() {
        Ok(found) if found.is_file() && found.len() == locked.size => None,
        Ok(found) if found.is_file() => {
            Some(format!("has {} bytes in the store, and {} in the lock: {}", found.len(), locked.size, file.display()))
        }
        _ => Some(format!("is locked, and not in the store: there is no file {}", file.display())),
    };
    if let Some(problem) = problem {
        let help = "run `mcp-host store fetch`, which gets what is locked";
        node.report_machine_error(format!("{} {problem}", quote(written)), help);
        return None;
    }
    context.declared.borrow_mut().locked.insert(file.clone(), locked.component);
    Some(file)
}

/// The lock, which is read at most once.
fn lock_of(context: &ReadContext<'_>) -> Result<Rc<Lock>, Rc<LockError>> {
    let known = context.declared.borrow().lock.clone();
    known.unwrap_or_else(|| {
        let file = context.base_dir.join(FILE_NAME);
        context.add_dependency(std::path::absolute(&file).unwrap_or_else(|_| file.clone()));
        let lock = Lock::load(&file).map(Rc::new).map_err(Rc::new);
        context.declared.borrow_mut().lock = Some(lock.clone());
        lock
    })
}

/// The directory of the store.
pub(crate) fn store_of(context: &ReadContext<'_>) -> Option<PathBuf> {
    let declared = context.declared.borrow();
    let below_state =
        || Some(declared.state.clone().or_else(|| context.environment.state_directory())?.join("components"));
    declared.store.clone().or_else(below_state)
}

impl Environment {
    /// The default state directory: the one of a systemd service, or the user's (XDG).
    pub(crate) fn state_directory(&self) -> Option<PathBuf> {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let service = self.get("STATE_DIRECTORY").and_then(|paths| std::env::split_paths(paths).next());
        let user = || {
            let of_variable = self.get("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
            Some(of_variable.or_else(|| Some(self.home_directory()?.join(".local/state")))?.join("mcp-host"))
        };
        service.and_then(absolute).or_else(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::registry::LockedComponent;

    const CONTENT: &[u8] = b"a component";
    const SOURCE: &str = "oci://a.example/web:1.4";

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn lock(&self) {
            let mut lock = Lock::default();
            lock.insert(LockedComponent {
                source: SOURCE.parse().unwrap(),
                version: Some("1.4.2".parse().unwrap()),
                manifest: Digest::compute(b"manifest"),
                component: Digest::compute(CONTENT),
                size: CONTENT.len() as u64,
                provider: "web".to_owned(),
                provider_version: "1.4.2".to_owned(),
                contract: "0.1.0".to_owned(),
                imports: Default::default(),
                needs: Default::default(),
                agreed: Default::default(),
                signers: Default::default(),
                bundles: Vec::new(),
                provenance: None,
                sboms: Vec::new(),
            });
            std::fs::write(self.path(FILE_NAME), lock.to_text().unwrap()).unwrap();
        }

        fn store(&self, state: &str, content: &[u8]) -> PathBuf {
            let file = store_file(&self.path(state).join("components"), &Digest::compute(CONTENT));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            file
        }

        fn parse(&self, more: &str, environment: &Environment) -> Result<Config, crate::ConfigError> {
            let text = format!(
                "server.state = 'state'\n[[plugin]]\nname = 'p'\nmount = 'p:///'\ncomponent = '{SOURCE}'\n{more}"
            );
            Config::parse_in(&text, &self.path("mcp-host.toml"), environment)
        }

        fn error(&self, more: &str) -> String {
            self.parse(more, &Environment::empty()).unwrap_err().to_string()
        }
    }

    #[test]
    fn a_locked_component_is_the_file_of_the_store_pinned_to_the_locked_digest() {
        let project = Project::new();
        project.lock();
        let file = project.store("state", CONTENT);
        let config = project.parse("", &Environment::empty()).unwrap();
        assert_eq!(config.plugins[0].component, file);
        assert_eq!(config.plugins[0].digest, Some(Digest::compute(CONTENT)));
        assert!(config.files.contains(&file) && config.files.contains(&project.path(FILE_NAME)), "a change reloads");
        assert_eq!(config.store, Some(project.path("state/components")));
    }

    #[test]
    fn what_is_missing_names_the_command_and_leaves_the_rest_of_the_config_right() {
        let project = Project::new();
        let is_partial = |expected: &[&str]| {
            let error = project.parse("", &Environment::empty()).unwrap_err();
            assert!(error.partial_config().is_some());
            let text = error.to_string();
            assert!(expected.iter().all(|expected| text.contains(expected)), "{text}");
        };
        is_partial(&["`oci://a.example/web:1.4` is not locked", "`mcp-host lock`"]);
        project.lock();
        is_partial(&["is locked, and not in the store", "`mcp-host store fetch`"]);
        project.store("state", b"short");
        is_partial(&["has 5 bytes in the store, and 11 in the lock", "`mcp-host store fetch`"]);
        std::fs::write(project.path(FILE_NAME), "version = 2").unwrap();
        is_partial(&["its format is 2", "the version of `mcp-host` that has written it"]);
    }

    #[test]
    fn a_digest_beside_a_reference_is_that_of_the_locked_file() {
        let project = Project::new();
        project.lock();
        project.store("state", CONTENT);
        let other = Digest::compute(b"other");
        assert!(project.error(&format!("digest = '{other}'")).contains("which is not this digest"));
        let same = format!("digest = '{}'", Digest::compute(CONTENT));
        project.parse(&same, &Environment::empty()).unwrap();
    }

    #[test]
    fn commands_that_resolve_references_read_them_as_they_are() {
        let project = Project::new();
        let config = project.parse("", &Environment::empty().keep_references()).unwrap();
        assert_eq!(config.plugins[0].component, Path::new(SOURCE));
        assert_eq!(config.references().collect::<Vec<_>>(), [SOURCE.parse().unwrap()]);
    }

    #[test]
    fn the_store_is_in_the_state_directory_unless_set() {
        let store = |text: &str, environment: &Environment| {
            let text = format!("{text}\n[[plugin]]\nname = 'p'\nmount = 'p:///'\ncomponent = '{SOURCE}'");
            let environment = environment.clone().keep_references();
            Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment).unwrap().store
        };
        let user = Environment::empty().home("/home/ci");
        assert_eq!(store("", &user), Some("/home/ci/.local/state/mcp-host/components".into()));
        assert_eq!(store("", &user.clone().variable("XDG_STATE_HOME", "/x")), Some("/x/mcp-host/components".into()));
        assert_eq!(store("", &user.clone().variable("STATE_DIRECTORY", "/s:/t")), Some("/s/components".into()));
        assert_eq!(store("server.state = '/state'", &user), Some("/state/components".into()));
        assert_eq!(store("registry.store = 'verified'", &user), Some("/etc/verified".into()));
        assert_eq!(store("", &Environment::empty()), None);
    }
}
