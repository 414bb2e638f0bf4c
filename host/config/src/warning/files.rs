//! Files of the host that a plugin or other users of the machine can reach: the config, the audit log, files with
//! secrets, and paths of the config that a plugin can replace.

use std::path::{Path, PathBuf};

use super::{Warning, permissions};
use crate::audit::AuditDestination;
use crate::grants::nested::{Walk, WritableDirs};
use crate::grants::{Mode, SqlUrl};
use crate::{Config, Plugin};

/// The kind of a file that no plugin should reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SensitiveFile {
    /// The audit log.
    Audit,
    /// The config: a plugin may read it, but must not write it.
    Config,
    /// A file that holds a secret.
    Secret,
    /// The component of a plugin without `digest`: no plugin must write it.
    Component,
    /// The program of an upstream, or its script: no plugin must write it.
    Program,
    /// A directory of the server, or a granted directory or database that the host does not open as a
    /// [nested path](crate::grants::NestedPath): a plugin that may replace it with a link decides what is opened.
    Opened,
}

impl Config {
    /// Returns the warnings about sensitive files in granted directories, and about world-writable ones.
    pub(super) fn file_warnings(&self) -> impl Iterator<Item = Warning> {
        let files: Vec<_> = self.sensitive_files().collect();
        let writable = writable_paths(files.iter().map(|(file, _)| file.as_path()));
        let granted = self.plugins.iter().flat_map(move |plugin| granted_files(plugin, &files));
        let opened = self.opened_paths();
        let replaceable = self.plugins.iter().flat_map(move |plugin| replaceable_paths(plugin, &opened));
        granted.chain(replaceable).chain(writable.into_iter().map(|(file, mode)| Warning::WritableFile { file, mode }))
    }

    /// Returns the paths that the host opens repeatedly, and through which it would open a replacement. Each path
    /// occurs once. Paths that the host opens without following a plugin's links are excluded.
    fn opened_paths(&self) -> Vec<OpenedPath> {
        let writable = WritableDirs::of(&self.plugins);
        let programs: Vec<_> = self.programs().flat_map(|(_, command)| command.files()).collect();
        let of_server = [&self.server.state, &self.server.cache].into_iter().flatten();
        let mut paths: Vec<_> = of_server.map(|path| (path, SensitiveFile::Opened)).collect();
        paths.extend(programs.iter().map(|path| (path, SensitiveFile::Program)));
        for plugin in &self.plugins {
            if plugin.upstream.is_none() && plugin.digest.is_none() {
                paths.push((&plugin.component, SensitiveFile::Component));
            }
            let dirs = plugin.grants.dirs.values().map(|grant| &grant.host);
            let files = plugin.grants.sql.values().filter_map(|grant| match &grant.url {
                SqlUrl::Sqlite(path) => Some(path),
                SqlUrl::Postgresql(_) => None,
            });
            let is_protected = |path: &Path| {
                cfg!(target_os = "linux") && plugin.upstream.is_none() && writable.nested(&Walk::of(path)).is_some()
            };
            let followed = dirs.chain(files).filter(|path| !is_protected(path));
            paths.extend(followed.map(|path| (path, SensitiveFile::Opened)));
        }
        paths.sort_unstable();
        paths.dedup();
        let opened = paths.into_iter().map(|(path, kind)| {
            let places = Walk::of(path).steps.into_iter().map(|step| step.place).collect();
            OpenedPath { path: path.clone(), kind, places }
        });
        opened.collect()
    }

    fn sensitive_files(&self) -> impl Iterator<Item = (PathBuf, SensitiveFile)> {
        let audit = self.audit.as_ref().and_then(|audit| match &audit.destination {
            AuditDestination::File(file) => Some(resolve(&file.path)),
            AuditDestination::Stderr => None,
        });
        let config = self.file.as_deref().map(resolve);
        let secrets = self.secret_files.iter().map(|file| resolve(file));
        let audit = audit.into_iter().map(|file| (file, SensitiveFile::Audit));
        let config = config.into_iter().map(|file| (file, SensitiveFile::Config));
        audit.chain(config).chain(secrets.map(|file| (file, SensitiveFile::Secret)))
    }
}

/// A path that the host opens.
struct OpenedPath {
    path: PathBuf,
    kind: SensitiveFile,
    /// The entries of directories that decide what the path leads to.
    places: Vec<PathBuf>,
}

/// Returns the paths below directories that a plugin may write to, without the directories themselves: the plugin has
/// no access to their names.
fn replaceable_paths(plugin: &Plugin, opened: &[OpenedPath]) -> Vec<Warning> {
    let dirs = plugin.grants.dirs.values().filter(|grant| grant.mode != Mode::ReadOnly);
    let dirs: Vec<_> = dirs.map(|grant| resolve(&grant.host)).collect();
    let is_below = |place: &PathBuf| dirs.iter().any(|dir| place.starts_with(dir) && place != dir);
    let replaceable = opened.iter().filter(|opened| opened.places.iter().any(is_below));
    replaceable
        .map(|OpenedPath { path, kind, .. }| Warning::GrantedFile {
            plugin: plugin.name.clone(),
            file: path.clone(),
            kind: *kind,
        })
        .collect()
}

/// Returns the sensitive files that the grants of a plugin cover, each once.
fn granted_files(plugin: &Plugin, files: &[(PathBuf, SensitiveFile)]) -> Vec<Warning> {
    let dirs: Vec<_> = plugin.grants.dirs.values().map(|grant| (resolve(&grant.host), grant.mode)).collect();
    let is_granted = |(file, kind): &&(PathBuf, SensitiveFile)| {
        dirs.iter()
            .any(|(dir, mode)| file.starts_with(dir) && (*kind != SensitiveFile::Config || *mode != Mode::ReadOnly))
    };
    let granted = files.iter().filter(is_granted);
    granted
        .map(|(file, kind)| Warning::GrantedFile { plugin: plugin.name.clone(), file: file.clone(), kind: *kind })
        .collect()
}

/// Returns the world-writable files, or their world-writable directories, each once and with its mode.
fn writable_paths<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<(PathBuf, u32)> {
    let writable = |path: &Path| Some((path.to_owned(), permissions::writable_by_all(path)?));
    let mut found: Vec<_> = files.filter_map(|file| writable(file).or_else(|| writable(file.parent()?))).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The path with symbolic links resolved, as far as it exists.
fn resolve(path: &Path) -> PathBuf {
    let in_parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let resolved = path.canonicalize().ok().or_else(in_parent);
    resolved.unwrap_or_else(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::audit::Audit;
    use crate::grants::{DirGrant, DirQuota, SqlGrant};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A config in a directory, with an audit log in `log` and a key in `tls`.
    fn config(dir: &Path) -> Config {
        for name in ["log", "tls", "notes"] {
            fs::create_dir(dir.join(name)).unwrap();
            set_mode(&dir.join(name), 0o755);
        }
        for name in ["mcp-host.toml", "tls/key.pem"] {
            fs::write(dir.join(name), "").unwrap();
            set_mode(&dir.join(name), 0o600);
        }
        let mut config = Config::new();
        config.file = Some(dir.join("mcp-host.toml"));
        config.audit = Some(Audit::to_file(dir.join("log/audit.jsonl")));
        config.secret_files.insert(dir.join("tls/key.pem"));
        config
    }

    fn grant(config: &mut Config, host: &Path, mode: Mode) {
        let mut plugin = Plugin::new("notes".parse().unwrap(), "notes.wasm", "notes:///".parse().unwrap());
        plugin.grants.dirs.insert("/notes".parse().unwrap(), DirGrant { host: host.to_owned(), mode });
        config.plugins.add(plugin).unwrap();
    }

    /// The sensitive files that plugins can reach.
    fn granted(config: &Config) -> Vec<SensitiveFile> {
        let kinds = config.file_warnings().filter_map(|warning| match warning {
            Warning::GrantedFile { kind, .. } => Some(kind),
            _ => None,
        });
        kinds.collect()
    }

    #[test]
    fn files_in_a_granted_directory_are_told_also_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let read_write = Mode::ReadWrite { quota: DirQuota::default() };
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
        let base = config(dir.path());
        for (host, mode, expected) in [
            ("notes", read_write, vec![]),
            ("log", Mode::ReadOnly, vec![SensitiveFile::Audit]),
            ("link/log", Mode::ReadOnly, vec![SensitiveFile::Audit]),
            ("tls", Mode::ReadOnly, vec![SensitiveFile::Secret]),
            (".", Mode::ReadOnly, vec![SensitiveFile::Audit, SensitiveFile::Secret]),
            (".", read_write, vec![SensitiveFile::Audit, SensitiveFile::Config, SensitiveFile::Secret]),
        ] {
            let mut config = base.clone();
            grant(&mut config, &dir.path().join(host), mode);
            assert_eq!(granted(&config), expected, "{host} {mode:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_plugin_can_replace_with_a_link_is_told_unless_the_host_follows_no_link_there() {
        let dir = tempfile::tempdir().unwrap();
        let read_write = Mode::ReadWrite { quota: DirQuota::default() };
        let base = config(dir.path());
        for name in ["notes/sub", "notes/state", "outside"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["notes/one.wasm", "notes/one.db"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("../outside", dir.path().join("notes/link")).unwrap();
        let (component, opened) = (SensitiveFile::Component, SensitiveFile::Opened);
        for (mode, other, expected) in [
            (Mode::ReadOnly, "notes/sub", vec![]),
            (read_write, "notes", vec![component, opened]),
            (read_write, "outside", vec![component, opened]),
            (read_write, "notes/sub", vec![component, opened]),
            (read_write, "notes/link", vec![component, opened]),
        ] {
            let mut config = base.clone();
            grant(&mut config, &dir.path().join("notes"), mode);
            config.server.state = Some(dir.path().join("notes/state"));
            let mut plugin =
                Plugin::new("one".parse().unwrap(), dir.path().join("notes/one.wasm"), "one:///".parse().unwrap());
            let host = dir.path().join(other);
            plugin.grants.dirs.insert("/notes".parse().unwrap(), DirGrant { host, mode: Mode::ReadOnly });
            let database = SqlUrl::Sqlite(dir.path().join("notes/one.db"));
            plugin.grants.sql.insert("one".parse().unwrap(), SqlGrant::new(database));
            config.plugins.add(plugin).unwrap();
            let mut kinds = granted(&config);
            kinds.sort_unstable();
            assert_eq!(kinds, expected, "{other} {mode:?}");
        }
    }

    #[test]
    fn what_all_users_may_write_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let told = || config.file_warnings().map(|warning| warning.to_string()).collect::<Vec<_>>();
        assert!(told().is_empty(), "{:?}", told());
        let file = dir.path().canonicalize().unwrap().join("mcp-host.toml");
        set_mode(&file, 0o666);
        let said = format!("all users may write to {0} (mode 0666); run `chmod o-w {0}`", file.display());
        assert_eq!(told(), [said]);
        set_mode(&file, 0o664);
        assert!(told().is_empty(), "a group may be that of the user");
        set_mode(&dir.path().join("log"), 0o777);
        assert!(told()[0].contains("log (mode 0777)"), "{:?}", told());
        set_mode(&dir.path().join("log"), 0o1777);
        assert!(told().is_empty(), "in a directory with the sticky bit nobody replaces the file of another");
        fs::write(dir.path().join("log/audit.jsonl"), "").unwrap();
        set_mode(&dir.path().join("log/audit.jsonl"), 0o646);
        assert!(told()[0].contains("audit.jsonl (mode 0646)"), "{:?}", told());
    }
}
