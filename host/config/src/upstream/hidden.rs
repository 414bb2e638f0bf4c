//! The files of the host that no program sees in the directories of its own files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::UpstreamSource;
use crate::admin::AdminAddress;
use crate::audit::AuditDestination;
use crate::{Config, Environment};

impl Config {
    /// Sets [`UpstreamCommand::hidden`](super::UpstreamCommand::hidden) of all programs.
    pub(crate) fn hide_from_programs(&mut self, environment: &Environment) {
        let (hidden, log) = (Arc::new(self.files_of_host(environment)), self.audit_log().map(absolute));
        for plugin in self.plugins.iter_mut() {
            if let Some(upstream) = plugin.upstream.as_deref_mut()
                && let UpstreamSource::Command(command) = &mut upstream.source
            {
                command.hidden = hidden.clone();
                command.hidden_log.clone_from(&log);
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
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
