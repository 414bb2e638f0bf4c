//! The specification of a program: its command, its grants and its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::text::quote;
use mcp_host_config::FetchedProgram;
use mcp_host_model::net::OriginPattern;
use serde::{Deserialize, Serialize};

use crate::kernel::Lack;

/// The maximum total size of command, environment and directories, in bytes.
const MAX_SIZE: usize = 256 << 10;
/// The maximum number of directories.
const MAX_DIRECTORIES: usize = 64;
/// The maximum number of hidden files.
const MAX_HIDDEN: usize = 16_384;
/// The maximum total size of their paths, in bytes.
const MAX_HIDDEN_SIZE: usize = 1 << 20;
/// Paths of the sandbox's own files, which no path of the host may replace.
const RESERVED: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A program, with its grants and limits. A field must grant everything except its own and the system's files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spec {
    /// The program and its arguments. A name without a slash is looked up in `PATH` of
    /// [`environment`](Self::environment), or in the system's program directories.
    pub command: Vec<String>,
    /// Variables. In addition, the program has only `PATH`, `HOME`, `TMPDIR`, `LANG` and the variables that
    /// name the proxy, and each of them can be replaced here.
    pub environment: BTreeMap<String, String>,
    /// Directories of the host.
    pub directories: Vec<Directory>,
    /// Absolute paths of files and directories of the host, such as its config, which are hidden from the program in
    /// the directories of its own files. They need not exist. They are visible in granted directories and below system
    /// directories such as `/usr`.
    pub hidden: Arc<BTreeSet<PathBuf>>,
    /// The absolute path of the host's audit log, which is hidden in the same way, with all files whose names begin
    /// with its name: its rotated files.
    pub hidden_log: Option<PathBuf>,
    /// Absolute paths of files and directories of the host that other programs and plugins are granted. They are hidden
    /// like `hidden`, except those that contain the program's own files, and those that are, contain, or are below one of
    /// `directories`.
    pub granted_to_others: Arc<BTreeSet<PathBuf>>,
    /// Absolute paths of directories of the host that other programs and plugins may write to. A program whose own files
    /// are in one of them is not started: a link there could give it any file of the host.
    pub writable_by_others: Arc<BTreeSet<PathBuf>>,
    /// Web servers that it may connect to, through the host's proxy. Needs namespaces.
    pub origins: Vec<OriginPattern>,
    /// Its resource limits.
    pub limits: Limits,
    /// Its user if the host runs as root: a name or an id. Default: `nobody`. A host that is not root can
    /// only use its own user.
    pub user: Option<String>,
    /// Its confinement.
    pub sandbox: Sandbox,
}

/// A directory of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The path on the host.
    pub host: PathBuf,
    /// The path that the program sees, if it differs. Needs namespaces.
    pub guest: Option<PathBuf>,
    /// Whether the program may write to it.
    pub writable: bool,
}

/// The resource limits of a program, and of everything that it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Memory in bytes: the resident memory of all processes, measured once a second. Above it they are
    /// killed. Each process can map at most [`Limits::UNUSED`] more.
    pub memory: u64,
    /// Processor time of all processes since the start. Above it they are killed.
    pub cpu: Option<Duration>,
    /// The maximum number of processes and threads.
    pub processes: u32,
    /// The maximum number of open files of a process.
    pub files: u32,
    /// The size of the private `/tmp` in bytes, which counts as memory.
    pub temp: u64,
    /// The maximum size of a file that a process writes, in bytes.
    pub file_size: u64,
}

/// The confinement of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// Namespaces, Landlock and seccomp. Namespaces that the kernel does not permit are missing.
    #[default]
    Full,
    /// Only limits and a separate environment: for a program that is trusted like the host.
    None,
}

impl Limits {
    /// The bytes that a process can map beyond [`memory`](Self::memory): stacks of threads, and arenas, which
    /// are mostly unused.
    pub const UNUSED: u64 = 512 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 512 << 20, cpu: None, processes: 128, files: 1024, temp: 64 << 20, file_size: 1 << 30 }
    }
}

impl Directory {
    /// Creates a read-only directory, at the same path.
    pub fn read_only(host: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), guest: None, writable: false }
    }

    /// Creates a writable directory, at the same path.
    pub fn writable(host: impl Into<PathBuf>) -> Self {
        Self { writable: true, ..Self::read_only(host) }
    }

    /// Returns the path that the program sees.
    pub fn path(&self) -> &Path {
        self.guest.as_deref().unwrap_or(&self.host)
    }
}

/// Why a program cannot be started with its grants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no command.
    #[error("`command` is empty: name an installed program")]
    NoCommand,
    /// The program would be downloaded when it starts.
    #[error("{0}: {help}", help = .0.help())]
    Fetcher(FetchedProgram),
    /// A text contains a zero byte, or a variable has no name.
    #[error("{} cannot be given to a program", quote(.0))]
    Text(String),
    /// A path that the program sees is not absolute, or contains `.` or `..`.
    #[error("{} is no absolute path without `.` and `..`", .0.display())]
    Path(PathBuf),
    /// A path of the host is not absolute, or contains a zero byte.
    #[error("{} is no absolute path", .0.display())]
    HostPath(PathBuf),
    /// A path of the host would replace the sandbox's own files.
    #[error("{} is the sandbox's own: choose another path", .0.display())]
    Reserved(PathBuf),
    /// Two directories have the same path.
    #[error("two directories are seen at {}", .0.display())]
    Duplicate(PathBuf),
    /// The specification is too long.
    #[error(
        "command, environment and directories are longer than {} bytes, or there are more than {MAX_DIRECTORIES} directories",
        MAX_SIZE
    )]
    TooLarge,
    /// There are too many hidden files, or grants of others.
    #[error(
        "there are more than {MAX_HIDDEN} hidden files or grants of others, or their paths are longer than {MAX_HIDDEN_SIZE} bytes"
    )]
    TooManyHidden,
    /// The kernel cannot confine a program.
    #[error("this kernel cannot confine a program: {}; use one that can, or write `sandbox = \"none\"` if the program is trusted like the host", join(.0))]
    NotConfined(Vec<Lack>),
    /// The kernel has no namespaces for this user, and a grant of the program needs them.
    #[error("{what} needs namespaces: {}", join(.lacks))]
    NeedsNamespaces {
        /// The grant.
        what: String,
        /// The features that the kernel lacks.
        lacks: Vec<Lack>,
    },
    /// An unconfined program has a grant that only confinement can provide.
    #[error("{0} has no effect with `sandbox = \"none\"`: the program has the host's files and network")]
    NoEffect(String),
}

fn join(lacks: &[Lack]) -> String {
    lacks.iter().map(Lack::to_string).collect::<Vec<_>>().join("; ")
}

impl Spec {
    /// Creates a program without grants.
    pub fn new<T: Into<String>>(command: impl IntoIterator<Item = T>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directories: Vec::new(),
            hidden: Arc::default(),
            hidden_log: None,
            granted_to_others: Arc::default(),
            writable_by_others: Arc::default(),
            origins: Vec::new(),
            limits: Limits::default(),
            user: None,
            sandbox: Sandbox::Full,
        }
    }

    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    ///
    /// A part is invalid.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(SpecError::NoCommand);
        }
        let words: Vec<_> = self.command.iter().map(String::as_str).collect();
        if let Some(fetched) = FetchedProgram::of(&words) {
            return Err(SpecError::Fetcher(fetched));
        }
        let texts = self.command.iter().chain(self.environment.iter().flat_map(|(name, value)| [name, value]));
        if let Some(text) = texts.clone().find(|text| text.contains('\0')) {
            return Err(SpecError::Text(text.clone()));
        }
        if let Some(name) = self.environment.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(SpecError::Text(name.clone()));
        }
        let hosts = || self.directories.iter().map(|one| one.host.as_path());
        if let Some(path) = hosts().find(|path| !path.is_absolute() || has_nul(path)) {
            return Err(SpecError::HostPath(path.to_owned()));
        }
        if let Some(path) = self.directories.iter().map(Directory::path).find(|path| !is_plain(path)) {
            return Err(SpecError::Path(path.to_owned()));
        }
        let paths = hosts().chain(self.directories.iter().filter_map(|one| one.guest.as_deref()));
        let size = texts.map(String::len).chain(paths.map(|path| path.as_os_str().len())).sum::<usize>();
        if size > MAX_SIZE || self.directories.len() > MAX_DIRECTORIES {
            return Err(SpecError::TooLarge);
        }
        for (paths, log) in
            [(&self.hidden, &self.hidden_log), (&self.granted_to_others, &None), (&self.writable_by_others, &None)]
        {
            let all = || paths.iter().chain(log);
            if let Some(path) = all().find(|path| !path.is_absolute()) {
                return Err(SpecError::HostPath(path.clone()));
            }
            let size = all().map(|path| path.as_os_str().len()).sum::<usize>();
            if size > MAX_HIDDEN_SIZE || paths.len() > MAX_HIDDEN {
                return Err(SpecError::TooManyHidden);
            }
        }
        let mut seen: Vec<_> = self.directories.iter().map(Directory::path).collect();
        let is_reserved =
            |path: &&&Path| path.parent().is_none() || RESERVED.iter().any(|reserved| path.starts_with(reserved));
        if let Some(path) = seen.iter().find(is_reserved) {
            return Err(SpecError::Reserved(path.to_path_buf()));
        }
        seen.sort_unstable();
        if let Some([path, _]) = seen.array_windows().find(|[one, other]| one == other) {
            return Err(SpecError::Duplicate(path.to_path_buf()));
        }
        if self.sandbox == Sandbox::None {
            if !self.origins.is_empty() {
                return Err(SpecError::NoEffect("a grant of HTTP".to_owned()));
            }
            if let Some(directory) = self.directories.first() {
                return Err(SpecError::NoEffect(format!("the directory {}", directory.host.display())));
            }
        }
        Ok(())
    }

    /// Returns the first part that needs namespaces.
    pub(crate) fn needs_namespaces(&self) -> Option<String> {
        if let Some(origin) = self.origins.first() {
            return Some(format!("a connection to {origin}"));
        }
        if let Some(moved) = self.directories.iter().find(|one| one.path() != one.host) {
            return Some(format!("the guest path {}", moved.path().display()));
        }
        // In a nested directory, Landlock permits everything that it permits in the enclosing one.
        let writable = || self.directories.iter().filter(|one| one.writable);
        let within = self
            .directories
            .iter()
            .find(|one| !one.writable && writable().any(|around| one.host.starts_with(&around.host)))?;
        Some(format!("the read-only directory {} in one that can be written to", within.host.display()))
    }
}

/// Returns whether a path is absolute, and has no relative components.
fn is_plain(path: &Path) -> bool {
    let is_normal = |component| matches!(component, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(is_normal) && !has_nul(path)
}

fn has_nul(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&0)
}

/// A request to the launcher to start a program: the part of a [`Spec`] that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) command: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) directories: Vec<Directory>,
    pub(crate) hidden: BTreeSet<PathBuf>,
    pub(crate) hidden_log: Option<PathBuf>,
    pub(crate) granted_to_others: BTreeSet<PathBuf>,
    pub(crate) writable_by_others: BTreeSet<PathBuf>,
    pub(crate) has_proxy: bool,
    pub(crate) limits: Limits,
    pub(crate) user: Option<String>,
    pub(crate) sandbox: Sandbox,
}

impl From<&Spec> for Job {
    fn from(spec: &Spec) -> Self {
        Self {
            command: spec.command.clone(),
            environment: spec.environment.clone(),
            directories: spec.directories.clone(),
            hidden: (*spec.hidden).clone(),
            hidden_log: spec.hidden_log.clone(),
            granted_to_others: (*spec.granted_to_others).clone(),
            writable_by_others: (*spec.writable_by_others).clone(),
            has_proxy: !spec.origins.is_empty(),
            limits: spec.limits.clone(),
            user: spec.user.clone(),
            sandbox: spec.sandbox,
        }
    }
}

impl Job {
    /// Returns the job without its hidden files and the grants of others. Two jobs that differ only in these grant the
    /// same access: the config may hide other files while the launcher runs, and the host, which requests the program, can
    /// read all of them.
    pub(crate) fn without_hidden(&self) -> Self {
        let none = BTreeSet::new;
        let hidden = none();
        Self { hidden, hidden_log: None, granted_to_others: none(), writable_by_others: none(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_would_be_fetched_is_refused_with_what_installs_it() {
        let error = |command: &[&str]| Spec::new(command.iter().copied()).validate().unwrap_err().to_string();
        assert!(error(&["npx", "-y", "server"]).contains("npm install --global server"));
        assert!(error(&["/usr/bin/uvx", "server"]).contains("uv tool install server"));
        assert!(error(&["npm", "exec", "server"]).contains("npm install"));
        assert_eq!(Spec::new(["npm", "start"]).validate(), Ok(()));
        assert_eq!(Spec::new(["/opt/npx-server"]).validate(), Ok(()));
    }

    #[test]
    fn what_cannot_be_given_to_a_program_is_refused() {
        let spec = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Spec::new(["/bin/true"]);
            change(&mut spec);
            spec.validate()
        };
        assert_eq!(Spec::new([""]).validate(), Err(SpecError::NoCommand));
        assert_eq!(Spec::new(Vec::<String>::new()).validate(), Err(SpecError::NoCommand));
        assert_eq!(spec(&|spec| spec.command.push("a\0b".into())), Err(SpecError::Text("a\0b".into())));
        let variable = |name: &str| spec(&|spec| drop(spec.environment.insert(name.into(), "x".into())));
        assert_eq!(variable("A=B"), Err(SpecError::Text("A=B".into())));
        assert_eq!(variable(""), Err(SpecError::Text(String::new())));
        assert_eq!(variable("A"), Ok(()));
        let directory = |path: &str| spec(&|spec| spec.directories.push(Directory::read_only(path)));
        assert_eq!(directory("a/b"), Err(SpecError::HostPath("a/b".into())));
        assert_eq!(directory("/a\0b"), Err(SpecError::HostPath("/a\0b".into())));
        let seen_at = |guest: &str| {
            spec(&|spec| {
                let guest = Some(guest.into());
                spec.directories.push(Directory { guest, ..Directory::read_only("/a/../b") });
            })
        };
        assert_eq!(seen_at("/b"), Ok(()));
        assert_eq!(seen_at("/a/../b"), Err(SpecError::Path("/a/../b".into())));
        assert_eq!(directory("/a/../b"), Err(SpecError::Path("/a/../b".into())));
        assert_eq!(directory("/"), Err(SpecError::Reserved("/".into())));
        assert_eq!(directory("/proc/sys"), Err(SpecError::Reserved("/proc/sys".into())));
        assert_eq!(directory("/processes"), Ok(()));
        let twice = spec(&|spec| {
            spec.directories.push(Directory::read_only("/a"));
            spec.directories.push(Directory { guest: Some("/a".into()), ..Directory::read_only("/b") });
        });
        assert_eq!(twice, Err(SpecError::Duplicate("/a".into())));
        assert_eq!(spec(&|spec| spec.command.push("x".repeat(MAX_SIZE))), Err(SpecError::TooLarge));
        let hidden = |paths: BTreeSet<PathBuf>| spec(&|spec| spec.hidden = paths.clone().into());
        assert_eq!(hidden(BTreeSet::from(["/a/b".into(), "/a/../c".into()])), Ok(()));
        assert_eq!(hidden(BTreeSet::from(["a".into()])), Err(SpecError::HostPath("a".into())));
        let many: BTreeSet<_> = (0..=MAX_HIDDEN).map(|number| PathBuf::from(format!("/{number}"))).collect();
        assert_eq!(hidden(many), Err(SpecError::TooManyHidden));
        assert_eq!(spec(&|spec| spec.hidden_log = Some("a".into())), Err(SpecError::HostPath("a".into())));
    }

    #[test]
    fn a_program_that_is_not_confined_is_granted_nothing() {
        let mut spec = Spec { sandbox: Sandbox::None, ..Spec::new(["/bin/true"]) };
        assert_eq!(spec.validate(), Ok(()));
        spec.directories.push(Directory::read_only("/a"));
        assert!(matches!(spec.validate(), Err(SpecError::NoEffect(_))));
    }

    #[test]
    fn origins_guest_paths_and_nested_modes_need_namespaces() {
        let mut spec = Spec::new(["/bin/true"]);
        spec.directories = vec![Directory::writable("/data"), Directory::read_only("/database")];
        assert_eq!(spec.needs_namespaces(), None);
        spec.directories.push(Directory::read_only("/data/in"));
        assert_eq!(spec.needs_namespaces().unwrap(), "the read-only directory /data/in in one that can be written to");
        spec.directories.clear();
        spec.directories.push(Directory { guest: Some("/a".into()), ..Directory::read_only("/a") });
        assert_eq!(spec.needs_namespaces(), None);
        spec.directories.push(Directory { guest: Some("/b".into()), ..Directory::read_only("/c") });
        assert_eq!(spec.needs_namespaces().unwrap(), "the guest path /b");
        spec.origins.push("https://docs.rs".parse().unwrap());
        assert_eq!(spec.needs_namespaces().unwrap(), "a connection to https://docs.rs");
    }
}
