//! The files of the host and of other plugins that no program sees in the directories of its own files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::UpstreamSource;
use crate::admin::AdminAddress;
use crate::audit::AuditDestination;
use crate::grants::{Mode, SqlUrl};
use crate::{Config, Environment};

impl Config {
    /// Sets [`UpstreamCommand::hidden`](super::UpstreamCommand::hidden), and the grants of others, of all programs.
    pub(crate) fn hide_from_programs(&mut self, environment: &Environment) {
        if self.programs().next().is_none() {
            return;
        }
        let (hidden, log) = (Arc::new(self.files_of_host(environment)), self.audit_log().map(absolute));
        let (granted, writable) = (Arc::new(self.granted_paths()), Arc::new(self.writable_dirs()));
        for plugin in self.plugins.iter_mut() {
            if let Some(upstream) = plugin.upstream.as_deref_mut()
                && let UpstreamSource::Command(command) = &mut upstream.source
            {
                command.hidden = hidden.clone();
                command.hidden_log.clone_from(&log);
                command.granted = granted.clone();
                command.writable = writable.clone();
            }
        }
    }

    /// Returns the absolute paths of the files and directories that belong to the host.
    fn files_of_host(&self, environment: &Environment) -> BTreeSet<PathBuf> {
        let state = self.server.state.clone().or_else(|| environment.state_directory());
        let socket = self.admin.as_ref().and_then(|admin| match &admin.listen {
            AdminAddress::Unix(path) => Some(path.clone()),
            AdminAddress::Tcp(_) => None,
        });
        let log = self.audit_log();
        let named = [self.file.clone(), state, self.server.cache.clone(), self.store.clone(), log, socket];
        let paths = named.into_iter().flatten().chain(self.secret_files.iter().cloned());
        paths.map(absolute).collect()
    }

    /// Returns the path of the audit log, if it is a file.
    fn audit_log(&self) -> Option<PathBuf> {
        match &self.audit.as_ref()?.destination {
            AuditDestination::File(file) => Some(file.path.clone()),
            AuditDestination::Stderr => None,
        }
    }

    /// Returns the absolute paths of all granted directories and SQLite files.
    fn granted_paths(&self) -> BTreeSet<PathBuf> {
        let grants = || self.plugins.iter().map(|plugin| &plugin.grants);
        let dirs = grants().flat_map(|grants| grants.dirs.values()).map(|grant| grant.host.clone());
        let databases = grants().flat_map(|grants| grants.sql.values()).filter_map(|grant| match &grant.url {
            SqlUrl::Sqlite(file) => Some(file),
            SqlUrl::Postgresql(_) => None,
        });
        let files = databases.flat_map(|file| {
            DATABASE_FILES.map(|suffix| {
                let mut path = file.clone().into_os_string();
                path.push(suffix);
                PathBuf::from(path)
            })
        });
        dirs.chain(files).map(absolute).collect()
    }

    /// Returns the absolute paths of the directories that plugins and programs may write to.
    fn writable_dirs(&self) -> BTreeSet<PathBuf> {
        let grants = self.plugins.iter().flat_map(|plugin| plugin.grants.dirs.values());
        grants.filter(|grant| grant.mode != Mode::ReadOnly).map(|grant| absolute(grant.host.clone())).collect()
    }
}

/// The suffixes of an SQLite file, and of the files that SQLite creates beside it, which have parts of its content.
const DATABASE_FILES: [&str; 4] = ["", "-journal", "-shm", "-wal"];

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
