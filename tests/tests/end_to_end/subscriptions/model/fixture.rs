//! The fixture: files, plugins and rules.
//!
//! All resources are files of one folder, served by two plugins. `m` is constant; `n` is changed by each reload, and
//! does not always exist. A third one, `barriers`, is for a [`Transport`](super::transport::Transport) that needs a
//! separate resource.

use std::collections::BTreeSet;
use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Plugin, Rule, WrittenConfig};

use super::SUBSCRIBERS;

pub(super) const FILES: [&str; 4] = ["a", "b", "c", "d"];
pub(super) const PLUGINS: [&str; 2] = ["m", "n"];
pub(super) const FAULTS: [&str; 8] = [
    "changes.trap",
    "changes.hang",
    "changes.fail",
    "stat.trap",
    "stat.hang",
    "stat.fail",
    // This fault makes the circuit breaker open.
    "list.trap",
    "read.trap",
];

/// The deadline of calls that must not fail.
const PATIENT_DEADLINE: &str = "30s";

/// The files that each principal may not see.
pub(super) type Denied = BTreeSet<(&'static str, &'static str)>;

pub(super) struct Fixture {
    folder: Folder,
    barriers: Folder,
    pub(super) config: WrittenConfig,
    faults: BTreeSet<&'static str>,
    /// The time that a provider hangs.
    deadline: &'static str,
    serves_n: bool,
    /// Rules that may be in effect: the current config's, and the previous one's until it is known to be replaced.
    rules: Vec<Denied>,
    /// The number of edits.
    edit_count: usize,
}

impl Fixture {
    /// Creates a fixture, with providers that may hang or not.
    pub(super) fn new(has_faults: bool) -> Self {
        let folder = Folder::with_files(FILES.map(|name| (name, "0")));
        folder.write(".faults/none", "");
        let barriers = Folder::with_files((0..SUBSCRIBERS).map(|principal| (barrier_file(principal), barrier_text(0))));
        barriers.write(".faults/none", "");
        let config = ConfigFile::new().write();
        let deadline = if has_faults { "200ms" } else { PATIENT_DEADLINE };
        let (faults, rules) = (BTreeSet::new(), vec![Denied::new()]);
        let mut fixture = Self { folder, barriers, config, faults, deadline, serves_n: true, rules, edit_count: 0 };
        fixture.write_config();
        fixture
    }

    /// The folder of the barriers.
    pub(super) fn barriers(&self) -> std::path::PathBuf {
        self.barriers.path().to_owned()
    }

    /// Edits a file: overwrites it, or renames another file to it. The file grows each time, so its listing changes,
    /// too. Returns the number of intermediate states.
    pub(super) fn edit(&mut self, file: &str, is_renamed: bool) -> usize {
        self.edit_count += 1;
        let text = "x".repeat(self.edit_count);
        if is_renamed {
            let aside = self.folder.write(".faults/aside", text);
            fs::rename(aside, self.folder.path().join(file)).unwrap();
        } else {
            self.folder.write(file, text);
        }
        // An overwritten file is empty for a moment.
        if is_renamed { 1 } else { 2 }
    }

    /// Toggles a fault, and returns whether it is on now.
    pub(super) fn toggle_fault(&mut self, fault: &'static str) -> bool {
        let file = self.folder.path().join(".faults").join(fault);
        let is_on = self.faults.insert(fault);
        if is_on {
            fs::write(file, "").unwrap();
        } else {
            self.faults.remove(fault);
            fs::remove_file(file).unwrap();
        }
        is_on
    }

    pub(super) fn clear_faults(&mut self) {
        for fault in self.faults.clone() {
            self.toggle_fault(fault);
        }
    }

    /// Writes a config with or without `n`.
    pub(super) fn serve_n(&mut self, serves_n: bool) {
        self.serves_n = serves_n;
        self.rules.push(self.denied().clone());
        self.write_config();
    }

    /// Writes a config with these rules.
    pub(super) fn set_denied(&mut self, denied: Denied) {
        self.rules.push(denied);
        self.write_config();
    }

    /// Returns the rules of the current config.
    pub(super) fn denied(&self) -> &Denied {
        self.rules.last().unwrap()
    }

    /// Returns all rules that may be in effect.
    pub(super) fn rules(&self) -> &[Denied] {
        &self.rules
    }

    /// Records that the host has applied the current config.
    pub(super) fn drop_previous_rules(&mut self) {
        self.rules.drain(..self.rules.len() - 1);
    }

    fn write_config(&mut self) {
        self.edit_count += 1;
        // The rate limit of calls is irrelevant for subscriptions.
        let narrow = |plugin: Plugin| plugin.limit("concurrency", 1).limit("queue", 0);
        let faulty = |name| narrow(Plugin::faulty(name, self.folder.path()).limit("deadline", self.deadline));
        let mut config = ConfigFile::new().allow_all().server("instructions", self.edit_count.to_string());
        // No plugin fails in a run without faults, however busy the machine is: a listing that could not be walked is
        // notified.
        let barriers = Plugin::faulty("barriers", self.barriers.path()).limit("deadline", PATIENT_DEADLINE);
        config = config.plugin(faulty("m")).plugin(barriers);
        if self.serves_n {
            config = config.plugin(faulty("n").config("time", i64::try_from(self.edit_count).unwrap()));
        }
        for (principal, file) in self.denied() {
            let globs = PLUGINS.map(|plugin| uri(plugin, file));
            config = config.rule(Rule::for_principal(principal).deny_globs(globs.into()));
        }
        self.config.replace(config);
    }
}

/// Returns the URI of a file.
pub(super) fn uri(plugin: &str, file: &str) -> String {
    format!("faulty://{plugin}/{file}")
}

/// Returns the file of a URI.
pub(super) fn file_of(uri: &str) -> &str {
    uri.rsplit_once('/').unwrap().1
}

/// Returns the name of the file that serves as a subscriber's barrier.
pub(super) fn barrier_file(principal: usize) -> String {
    format!("barrier-{principal}")
}

/// Returns the barrier's content after `times` changes. Its length is constant, so the listing does not change.
pub(super) fn barrier_text(times: usize) -> String {
    format!("{times:08}")
}
