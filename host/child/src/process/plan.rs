//! The plan of a program's environment, made before its namespaces are created: its own files, its user, its variables.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{getegid, geteuid};

use super::hidden::{Hidden, Shown, ShownFiles};
use super::namespaces::PROXY_PORT;
use super::privileges::User;
use super::program_files::{ProgramFiles, SYSTEM, Writable};
use super::tree;
use crate::spec::{Directory, Job, Limits, Sandbox, Spec};

/// The user `nobody`.
pub(super) const NOBODY: u32 = 65_534;
/// The search path of the system's programs.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables that name the proxy. Programs disagree on the case.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
/// Files of the system that programs read: the library cache, the time zone, certificates.
const SYSTEM_FILES: [&str; 15] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
    "/etc/crypto-policies",
    "/var/lib/ca-certificates",
    "/usr/share/zoneinfo",
];

/// The plan of a program's environment.
#[derive(Debug)]
pub(super) struct Plan {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    /// The program's own files.
    files: ShownFiles,
    system_files: ShownFiles,
    directories: Vec<Directory>,
    limits: Limits,
    /// The user to become; none if this process has it already.
    becomes: Option<User>,
    user: User,
    has_proxy: bool,
    /// The number of processes and threads that the kernel counts with the program's.
    other_processes: u64,
}

impl Plan {
    /// Makes the plan of a program. Fails if a part that the program needs does not exist.
    pub(super) fn new(job: &Job, has_namespaces: bool) -> Result<Self, String> {
        let path = job.environment.get("PATH").map_or(SYSTEM_PATH, String::as_str);
        let mut directories = Vec::new();
        for directory in &job.directories {
            let real = directory.host.canonicalize();
            let host = real.map_err(|error| format!("the directory {}: {error}", directory.host.display()))?;
            if !host.is_dir() {
                return Err(format!("{} is no directory", directory.host.display()));
            }
            directories.push(Directory { host, guest: Some(directory.path().to_owned()), ..directory.clone() });
        }
        if !has_namespaces {
            refuse_nested(&directories)?;
        }
        let writable = Writable {
            own: writable(&directories).map(Path::to_owned).collect(),
            others: job.writable_by_others.iter().filter_map(|dir| dir.canonicalize().ok()).collect(),
        };
        let files = ProgramFiles::find(&job.command, path, &writable)?;
        let hidden = match job.sandbox {
            Sandbox::Full => Hidden::find(&hidden_paths(job, &files, &directories), job.hidden_log.as_ref()),
            Sandbox::None => Hidden::default(),
        };
        let becomes = user_of(job.user.as_deref(), job.sandbox)?;
        let home = Path::new("/tmp");
        let user = becomes.unwrap_or_else(own_user);
        let other_processes = if counts_alone(has_namespaces) { 0 } else { tree::tasks_of(user.user) };
        Ok(Self {
            environment: environment(&job.environment, &files.dirs, home, job.has_proxy && has_namespaces),
            program: files.program,
            arguments: job.command.iter().skip(1).cloned().collect(),
            files: hidden.show(&files.paths)?,
            system_files: real_paths(&SYSTEM_FILES),
            directories,
            limits: job.limits.clone(),
            becomes,
            user,
            has_proxy: job.has_proxy,
            other_processes,
        })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    pub(super) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Returns the program's and the system's files, except those in [`SYSTEM`]. A directory precedes what is in it.
    pub(super) fn files(&self) -> impl Iterator<Item = (&PathBuf, &Shown)> {
        let is_shown = |path: &Path| !SYSTEM.iter().any(|system| path.starts_with(system));
        self.system_files.iter().chain(&self.files).filter(move |(target, _)| is_shown(target))
    }

    /// Returns the paths that the program may execute, with everything below.
    pub(super) fn executable_paths(&self) -> impl Iterator<Item = &Path> {
        let whole = self.files.iter().filter(|(_, shown)| matches!(shown, Shown::Whole(_)));
        SYSTEM.iter().map(Path::new).chain(whole.map(|(path, _)| path.as_path()))
    }

    /// Returns the directories of which the program may list the entries, with everything below.
    pub(super) fn listable_paths(&self) -> impl Iterator<Item = &Path> {
        let listed = self.files.iter().filter(|(_, shown)| matches!(shown, Shown::Listed));
        listed.map(|(path, _)| path.as_path())
    }

    /// Returns the paths that the program may read in addition to its grants, with everything below.
    pub(super) fn readable_paths(&self) -> impl Iterator<Item = &Path> {
        self.system_files.keys().map(PathBuf::as_path)
    }

    /// Returns the granted directories, with their real paths. `guest` is always set.
    pub(super) fn directories(&self) -> &[Directory] {
        &self.directories
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn becomes(&self) -> Option<User> {
        self.becomes
    }

    pub(super) fn user(&self) -> User {
        self.user
    }

    pub(super) fn has_proxy(&self) -> bool {
        self.has_proxy
    }

    pub(super) fn other_processes(&self) -> u64 {
        self.other_processes
    }
}

/// Returns the directories that the program may write to.
fn writable(directories: &[Directory]) -> impl Iterator<Item = &Path> {
    directories.iter().filter(|directory| directory.writable).map(|directory| directory.host.as_path())
}

/// Refuses a read-only directory in one that the program may write to, for a program without namespaces: Landlock
/// permits in a nested directory everything that it permits in the enclosing one.
fn refuse_nested(directories: &[Directory]) -> Result<(), String> {
    let read_only = directories.iter().filter(|directory| !directory.writable);
    for within in read_only {
        if let Some(around) = writable(directories).find(|around| within.host.starts_with(around)) {
            return Err(format!(
                "the read-only directory {} is in {}, which the program may write to, and that needs namespaces: grant \
                 separate directories (`grants.dirs`)",
                within.host.display(),
                around.display()
            ));
        }
    }
    Ok(())
}

/// Returns the paths that are hidden in the directories of a program's own files: the host's, those that others are
/// granted, and the directories that the program may write to, because it may execute its own files.
fn hidden_paths(job: &Job, files: &ProgramFiles, directories: &[Directory]) -> BTreeSet<PathBuf> {
    let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    // Another mount of such a directory has another path.
    let with_own_files: BTreeSet<_> =
        files.paths.values().flat_map(|own| own.ancestors()).filter_map(identity).collect();
    let has_own_files = |path: &Path| identity(path).is_some_and(|identity| with_own_files.contains(&identity));
    let is_granted = |path: &Path| {
        directories.iter().any(|directory| directory.host.starts_with(path) || path.starts_with(&directory.host))
    };
    let of_others = job.granted_to_others.iter().filter(|path| {
        let real = path.canonicalize().unwrap_or_else(|_| (*path).clone());
        !has_own_files(&real) && !is_granted(&real)
    });
    let writable = writable(directories).map(Path::to_owned);
    job.hidden.iter().chain(of_others).cloned().chain(writable).collect()
}

/// Returns the variables of a program. Granted ones take precedence.
fn environment(
    granted: &BTreeMap<String, String>,
    program_dirs: &[PathBuf],
    home: &Path,
    has_proxy: bool,
) -> BTreeMap<String, String> {
    let dirs = program_dirs.iter().filter_map(|dir| dir.to_str()).filter(|dir| !dir.contains(':'));
    let path = dirs.chain([SYSTEM_PATH]).collect::<Vec<_>>().join(":");
    let home = home.display().to_string();
    let mut all = BTreeMap::from([
        ("HOME".to_owned(), home.clone()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("PATH".to_owned(), path),
        ("TMPDIR".to_owned(), home),
    ]);
    if has_proxy {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        all.extend(PROXY_VARIABLES.map(|name| (name.to_owned(), proxy.clone())));
        let own = "localhost,127.0.0.1,::1";
        all.extend(["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), own.to_owned())));
        all.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    }
    all.extend(granted.clone());
    all
}

fn own_user() -> User {
    User { user: geteuid().as_raw(), group: getegid().as_raw() }
}

/// Returns the user that a program becomes; none if this process has it already.
fn user_of(name: Option<&str>, sandbox: Sandbox) -> Result<Option<User>, String> {
    let own = own_user();
    match (own.user, name, sandbox) {
        (0, Some(name), _) => User::find(name).map(Some),
        (0, None, Sandbox::Full) => Ok(Some(User { user: NOBODY, group: NOBODY })),
        (_, Some(name), _) if User::find(name)? != own => {
            Err(format!("only a host that is root can start a program as the user {name:?}"))
        }
        _ => Ok(None),
    }
}

impl Spec {
    /// Returns the directories that the program is granted to write to, but that its user may not write to, each with
    /// that user. If the program becomes another user, owner and permissions decide; access control lists are not
    /// checked.
    pub fn unwritable_directories(&self) -> Vec<(PathBuf, String)> {
        let Ok(becomes) = user_of(self.user.as_deref(), self.sandbox) else { return Vec::new() };
        let user = becomes.unwrap_or_else(own_user);
        let name = match (&self.user, becomes) {
            (Some(name), _) => name.clone(),
            (None, Some(_)) => "nobody".to_owned(),
            (None, None) => user.user.to_string(),
        };
        let may_write = |directory: &Path| {
            if becomes.is_none() {
                return access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok();
            }
            let Ok(found) = directory.metadata() else { return true };
            // Creating an entry needs both permissions.
            let needed = if found.uid() == user.user {
                0o300
            } else if found.gid() == user.group {
                0o030
            } else {
                0o003
            };
            found.mode() & needed == needed
        };
        let writable = self.directories.iter().filter(|directory| directory.writable);
        let refused = writable.filter(|directory| !may_write(&directory.host));
        refused.map(|directory| (directory.host.clone(), name.clone())).collect()
    }
}

/// Returns whether the kernel counts the processes of a user namespace separately: since Linux 5.14. Earlier kernels
/// count all processes of the user.
fn counts_alone(has_namespaces: bool) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    has_namespaces && version >= (5, 14)
}

/// Returns the paths that exist, with their real paths.
fn real_paths(paths: &[&str]) -> ShownFiles {
    let real = |path: &&str| Some((PathBuf::from(path), Shown::Whole(Path::new(path).canonicalize().ok()?)));
    paths.iter().filter_map(real).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_the_user_of_a_program_may_not_write_to_is_named() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root starts programs as another user");
            return;
        }
        let (own, open, read) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        set_permissions(open.path(), Permissions::from_mode(0o777)).unwrap();
        let mut spec = Spec::new(["/bin/true"]);
        spec.directories =
            vec![Directory::writable(own.path()), Directory::writable(open.path()), Directory::read_only(read.path())];
        assert_eq!(spec.unwritable_directories(), [(own.path().to_owned(), "nobody".to_owned())]);
        spec.sandbox = Sandbox::None;
        assert!(spec.unwritable_directories().is_empty(), "it is root then");
    }

    #[test]
    fn an_environment_has_what_is_granted_and_names_the_proxy() {
        let granted = BTreeMap::from([("TOKEN".to_owned(), "t".to_owned()), ("LANG".to_owned(), "de".to_owned())]);
        let all = environment(&granted, &["/opt/a/bin".into()], Path::new("/tmp"), false);
        let text: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = format!("PATH=/opt/a/bin:{SYSTEM_PATH}");
        assert_eq!(text, ["HOME=/tmp", "LANG=de", &path, "TMPDIR=/tmp", "TOKEN=t"]);
        let all = environment(&granted, &[], Path::new("/tmp"), true);
        assert_eq!(all["https_proxy"], "http://127.0.0.1:3128");
        assert_eq!(all["NODE_USE_ENV_PROXY"], "1");
    }
}
