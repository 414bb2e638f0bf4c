//! What there is: files, plugins and rules.
//!
//! All resources are files of one folder, served by two plugins. `m` stays as it is; `n` is another one after each reload, and
//! not always there. A third, `barriers`, is for a [`Transport`](super::transport::Transport) that needs a resource of its own.

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
    // With this one, the circuit breaker opens.
    "list.trap",
    "read.trap",
];

/// Which files which principals may not see.
pub(super) type Denied = BTreeSet<(&'static str, &'static str)>;

pub(super) struct Fixture {
    folder: Folder,
    barriers: Folder,
    pub(super) config: WrittenConfig,
    faults: BTreeSet<&'static str>,
    /// For how long a provider that hangs may do so.
    deadline: &'static str,
    serves_n: bool,
    /// Those that may be in force: of the config of now, and of the one before while it is not known to be over.
    rules: Vec<Denied>,
    /// How often something was written.
    edit_count: usize,
}

impl Fixture {
    /// With providers that may hang, or not.
    pub(super) fn new(has_faults: bool) -> Self {
        let folder = Folder::with_files(FILES.map(|name| (name, "0")));
        folder.write(".faults/none", "");
        let bells = Folder::with_files((0..SUBSCRIBERS).map(|principal| (barrier_file(principal), barrier_text(0))));
        bells.write(".faults/none", "");
        let config = ConfigFile::new().write();
        let deadline = if has_faults { "200ms" } else { "30s" };
        let (faults, rules) = (BTreeSet::new(), vec![Denied::new()]);
        let mut world =
            Self { folder, barriers: bells, config, faults, deadline, serves_n: true, rules, edit_count: 0 };
        world.write_config();
        world
    }

    /// Where the bells are.
    pub(super) fn barriers(&self) -> std::path::PathBuf {
        self.barriers.path().to_owned()
    }

    /// Edits a file: written over, or renamed to. It is longer each time, so that its listing is another one too. Gives how
    /// many states it went through.
    pub(super) fn edit(&mut self, file: &str, is_renamed: bool) -> usize {
        self.edit_count += 1;
        let text = "x".repeat(self.edit_count);
        if is_renamed {
            let aside = self.folder.write(".faults/aside", text);
            fs::rename(aside, self.folder.path().join(file)).unwrap();
        } else {
            self.folder.write(file, text);
        }
        // When it is written over it is empty for a moment.
        if is_renamed { 1 } else { 2 }
    }

    /// Turns a fault on or off; whether it is on now.
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

    /// Goes over to a config with `n`, or without.
    pub(super) fn serve_n(&mut self, serves_n: bool) {
        self.serves_n = serves_n;
        self.rules.push(self.denied().clone());
        self.write_config();
    }

    /// Goes over to those rules.
    pub(super) fn set_denied(&mut self, denied: Denied) {
        self.rules.push(denied);
        self.write_config();
    }

    /// The rules of the config of now.
    pub(super) fn denied(&self) -> &Denied {
        self.rules.last().unwrap()
    }

    /// All that may be in force.
    pub(super) fn rules(&self) -> &[Denied] {
        &self.rules
    }

    /// The config of now is that of the host.
    pub(super) fn drop_previous_rules(&mut self) {
        self.rules.drain(..self.rules.len() - 1);
    }

    fn write_config(&mut self) {
        self.edit_count += 1;
        // Who subscribes has nothing to do with how many calls clients may make.
        let narrow = |plugin: Plugin| plugin.limit("concurrency", 1).limit("queue", 0);
        let faulty = |name| narrow(Plugin::faulty(name, self.folder.path()).limit("deadline", self.deadline));
        let mut config = ConfigFile::new().allow_all().server("instructions", self.edit_count.to_string());
        config = config.plugin(faulty("m")).plugin(Plugin::faulty("barriers", self.barriers.path()));
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

/// The URI of a file.
pub(super) fn uri(plugin: &str, file: &str) -> String {
    format!("faulty://{plugin}/{file}")
}

/// The file of a URI.
pub(super) fn file_of(uri: &str) -> &str {
    uri.rsplit_once('/').unwrap().1
}

/// The name of the file by which a subscriber knows that all before has arrived.
pub(super) fn barrier_file(principal: usize) -> String {
    format!("barrier-{principal}")
}

/// What is in it after it was rung so often: always as long, so that the listing stays the same.
pub(super) fn barrier_text(times: usize) -> String {
    format!("{times:08}")
}
