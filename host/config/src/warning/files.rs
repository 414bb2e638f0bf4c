//! Files of the host that a plugin or other users of the machine can reach: the config, the audit log, and files with secrets.

use std::path::{Path, PathBuf};

use super::{Warning, permissions};
use crate::audit::AuditDestination;
use crate::grants::Mode;
use crate::{Config, Plugin};

/// The kind of a file that no plugin should reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SensitiveFile {
    /// The audit log.
    Audit,
    /// The config: a plugin may read it, but must not write it.
    Config,
    /// A file that holds a secret.
    Secret,
}

impl Config {
    /// Returns the warnings about sensitive files in granted directories, and about world-writable ones.
    pub(super) fn file_warnings(&self) -> impl Iterator<Item = Warning> {
        let files: Vec<_> = self.sensitive_files().collect();
        let writable = writable_paths(files.iter().map(|(file, _)| file.as_path()));
        let granted = self.plugins.iter().flat_map(move |plugin| granted_files(plugin, &files));
        granted.chain(writable.into_iter().map(|(file, mode)| Warning::WritableFile { file, mode }))
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
    use crate::grants::{DirGrant, DirQuota};

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
