//! The files that a program consists of, derived from its command.
//!
//! A command refers to a chain of files: links, the interpreter of a script (`#!`, also through `env`), the script
//! that is the first argument of an interpreter. Each file outside of the system's directories adds the files that
//! belong to it:
//!
//! | file | files that belong to it |
//! |---|---|
//! | in a virtual environment of Python (`pyvenv.cfg`) | the environment, and the installation in `pyvenv.cfg` |
//! | below `node_modules` | the outermost `node_modules` |
//! | in a package of Node (`package.json`) | the directory of the file, `package.json`, and each `node_modules` beside or above it |
//! | in `bin`, `sbin` or `libexec` of a directory | the directory's `bin`, `sbin`, `lib`, `lib32`, `lib64` and `libexec` |
//! | elsewhere | its directory |
//!
//! A directory with more than one program's files, such as a home directory or `/opt`, never belongs to a
//! program: then only the file does. Files that these rules do not find must be granted as a directory.
//!
//! None of these files may be in a directory that the program, or another program or plugin, may write to
//! ([`Writable`]), and no path to one may lead through such a directory. Otherwise they could link or name any file of
//! the host there, and the program would see the files that belong to it after its next start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use mcp_host_config::grants::looked_up;
use rustix::fs::{Access, access};

/// Directories of the system's programs and libraries. They contain no user files.
pub(super) const SYSTEM: [&str; 10] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/etc/alternatives"];
/// The maximum length of the chain of files.
const MAX_STEPS: usize = 32;
/// The maximum length of an interpreter line, and of `pyvenv.cfg`, in bytes.
const MAX_HEAD: u64 = 4096;
/// Programs whose first argument is the program that they run, by name prefix.
const INTERPRETERS: [&str; 10] = ["python", "pypy", "node", "nodejs", "ruby", "perl", "php", "bun", "sh", "bash"];
/// The file in a virtual environment of Python that names its installation.
const PYTHON_CONFIG: &str = "pyvenv.cfg";
/// Subdirectories of an installation.
const INSTALLATION: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libexec"];
/// Directories that belong to a user, to many users or to many programs.
const SHARED: [&str; 12] =
    ["/home", "/media", "/mnt", "/root", "/run", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp", "/usr/local", "/opt"];

/// The files of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramFiles {
    /// The absolute path of the program.
    pub(super) program: PathBuf,
    /// Its files: the path that the program sees, and the real path.
    pub(super) paths: BTreeMap<PathBuf, PathBuf>,
    /// The directories among them that have programs.
    pub(super) dirs: Vec<PathBuf>,
}

/// Directories in which no file of a program may be, without links in their paths.
#[derive(Debug, Default)]
pub(super) struct Writable {
    /// Those that the program may write to.
    pub(super) own: Vec<PathBuf>,
    /// Those that other programs and plugins may write to.
    pub(super) others: Vec<PathBuf>,
}

impl Writable {
    /// Refuses a path that leads to one of the directories or through it.
    fn refuse(&self, path: &Path) -> Result<(), String> {
        if self.own.is_empty() && self.others.is_empty() {
            return Ok(());
        }
        let places = looked_up(path);
        let leads_there = |dir: &&PathBuf| places.iter().any(|place| place.starts_with(dir));
        let (dir, reason) = match (self.own.iter().find(leads_there), self.others.iter().find(leads_there)) {
            (Some(dir), _) => (dir, "the program may write to, so it could give itself other files of the host"),
            (None, Some(dir)) => {
                (dir, "another program or plugin may write to, which could give this program other files of the host")
            }
            (None, None) => return Ok(()),
        };
        Err(format!(
            "{} is in {}, which {reason}: install it in another directory, or remove `mode = \"rw\"` from the grant of {1} \
             (`grants.dirs`)",
            path.display(),
            dir.display()
        ))
    }
}

impl ProgramFiles {
    /// Finds the files of a command. Its program may be looked up in `search_path`.
    pub(super) fn find(command: &[String], search_path: &str, writable: &Writable) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("the command is empty")?;
        let program = look_up(program, search_path)?;
        let mut files = Self { program: program.clone(), ..Self::default() };
        let mut pending = vec![program.clone()];
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if INTERPRETERS.iter().any(|interpreter| is_version_of(&name, interpreter)) {
            let script = arguments.iter().find(|argument| !argument.starts_with('-')).map(PathBuf::from);
            pending.extend(script.filter(|script| script.is_absolute() && script.is_file()));
        }
        for _ in 0..MAX_STEPS {
            let Some(file) = pending.pop() else { return Ok(files) };
            writable.refuse(&file)?;
            files.add(&file, writable)?;
            match fs::read_link(&file) {
                Ok(target) => pending.extend(link_target(&file, &target)),
                Err(_) => pending.extend(interpreter(&file, search_path)?),
            }
        }
        Err(format!("{} leads from link to link", program.display()))
    }

    /// Adds the files that belong to a file.
    fn add(&mut self, file: &Path, writable: &Writable) -> Result<(), String> {
        if is_system(file) {
            return Ok(());
        }
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        for path in belongings(file).into_iter().chain(belongings(&real)) {
            if let Ok(real) = path.canonicalize()
                && !is_system(&path)
            {
                writable.refuse(&path)?;
                // It may be a link, and names further files.
                writable.refuse(&path.join(PYTHON_CONFIG))?;
                self.paths.insert(path, real);
            }
        }
        if let Some(dir) = file.parent()
            && !self.dirs.iter().any(|known| known == dir)
            && is_executable(file)
        {
            self.dirs.push(dir.to_owned());
        }
        Ok(())
    }
}

/// Returns whether a program is an interpreter of this name, in any version: `python3.12`.
fn is_version_of(name: &str, interpreter: &str) -> bool {
    let version = name.strip_prefix(interpreter);
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Returns the absolute path of a program.
fn look_up(program: &str, search_path: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match fs::metadata(&path) {
            _ if !path.is_absolute() => Err(format!("{program} is no absolute path")),
            Ok(metadata) if metadata.is_file() => Ok(normal(&path)),
            Ok(_) => Err(format!("{program} is no file")),
            Err(error) => Err(format!("{program}: {error}")),
        };
    }
    let found = search_path.split(':').map(|dir| Path::new(dir).join(program)).find(|path| is_executable(path));
    found.ok_or_else(|| format!("there is no program {program:?} in {search_path}; name it by its absolute path"))
}

/// Returns the target of a link, relative to the link's directory.
fn link_target(link: &Path, target: &Path) -> Option<PathBuf> {
    Some(normal(&link.parent()?.canonicalize().ok()?.join(target)))
}

/// Removes `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// Returns the interpreter of a script, and for `env` the program that it names; empty if the file is not a
/// script.
fn interpreter(file: &Path, search_path: &str) -> Result<Vec<PathBuf>, String> {
    let head = read_head(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(Vec::new()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { return Ok(Vec::new()) };
    let program =
        look_up(program, search_path).map_err(|error| format!("the interpreter of {}: {error}", file.display()))?;
    let mut all = vec![program.clone()];
    if program.file_name().is_some_and(|name| name == "env") {
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        // The search begins in the script's own directory, as `PATH` of the program will.
        let dir = file.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
        if let Some(named) = named {
            let found = look_up(named, &format!("{dir}:{search_path}"));
            all.push(found.map_err(|error| format!("the interpreter of {}: {error}", file.display()))?);
        }
    }
    Ok(all)
}

fn read_head(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(MAX_HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the files that belong to a file; see the module.
fn belongings(file: &Path) -> Vec<PathBuf> {
    let dirs = || file.ancestors().skip(1);
    if let Some(venv) = dirs().find(|dir| dir.join(PYTHON_CONFIG).is_file()) {
        let mut all = vec![venv.to_owned()];
        all.extend(python_home(venv).into_iter().flat_map(|home| installation(&home)));
        return all;
    }
    let is_modules = |dir: &&Path| dir.file_name().is_some_and(|name| name == "node_modules");
    if let Some(modules) = dirs().filter(is_modules).last() {
        return vec![modules.to_owned()];
    }
    let Some(dir) = file.parent() else { return Vec::new() };
    if let Some(package) = dirs().find(|dir| dir.join("package.json").is_file()).filter(|dir| !is_shared(dir)) {
        let modules = package.ancestors().map(|dir| dir.join("node_modules")).filter(|dir| dir.is_dir());
        return [dir.to_owned(), package.join("package.json")].into_iter().chain(modules).collect();
    }
    if dir.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == "libexec")
        && let Some(prefix) = dir.parent().filter(|prefix| !is_shared(prefix))
    {
        return installation(prefix);
    }
    if is_shared(dir) { vec![file.to_owned()] } else { vec![dir.to_owned()] }
}

fn installation(prefix: &Path) -> Vec<PathBuf> {
    INSTALLATION.iter().map(|name| prefix.join(name)).filter(|dir| dir.is_dir()).collect()
}

/// Returns the Python installation that a virtual environment was created from.
fn python_home(venv: &Path) -> Option<PathBuf> {
    let head = read_head(&venv.join(PYTHON_CONFIG)).ok()?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let home = text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
    let bin = PathBuf::from(home?.1.trim());
    bin.parent().filter(|prefix| !is_shared(prefix)).map(Path::to_owned)
}

/// Returns whether a directory has more than one program's files.
fn is_shared(dir: &Path) -> bool {
    let is_home = std::env::var_os("HOME").is_some_and(|home| Path::new(&home) == dir);
    let is_of_user = dir.parent().is_some_and(|parent| parent == Path::new("/home"));
    dir.components().count() <= 2 || SHARED.iter().any(|shared| dir == Path::new(shared)) || is_home || is_of_user
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn find(command: &[&Path]) -> ProgramFiles {
        let command: Vec<_> = command.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        ProgramFiles::find(&command, "/usr/bin:/bin", &Writable::default()).unwrap()
    }

    #[test]
    fn a_program_of_the_system_has_no_files_of_its_own() {
        assert_eq!(find(&[Path::new("/bin/sh")]), ProgramFiles { program: "/bin/sh".into(), ..Default::default() });
        let error = ProgramFiles::find(&["no-such-program".to_owned()], "/usr/bin", &Writable::default()).unwrap_err();
        assert!(error.contains("absolute path"), "{error}");
    }

    #[test]
    fn a_package_of_node_comes_with_its_modules_and_not_with_the_rest_of_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().canonicalize().unwrap().join(path);
        write(&at("app/node_modules/server/dist/index.js"), "#!/bin/sh\n");
        write(&at("app/secret"), "");
        fs::create_dir_all(at("app/node_modules/.bin")).unwrap();
        symlink("../server/dist/index.js", at("app/node_modules/.bin/server")).unwrap();
        let files = find(&[&at("app/node_modules/.bin/server")]);
        assert_eq!(files.paths.keys().collect::<Vec<_>>(), [&at("app/node_modules")]);

        write(&at("app/package.json"), "{}");
        write(&at("app/dist/main.js"), "");
        write(&at("sh"), "");
        let files = find(&[Path::new("/bin/sh"), &at("app/dist/main.js"), &at("app/secret")]);
        let expected = ["app/dist", "app/node_modules", "app/package.json"].map(at);
        assert_eq!(files.paths.into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_virtual_environment_comes_with_its_python() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().canonicalize().unwrap().join(path);
        write(&at("python/bin/python3.12"), "");
        write(&at("python/lib/python3.12/os.py"), "");
        write(&at("python/share/data"), "");
        write(&at("venv/pyvenv.cfg"), &format!("home = {}\nversion = 3\n", at("python/bin").display()));
        fs::create_dir_all(at("venv/bin")).unwrap();
        symlink(at("python/bin/python3.12"), at("venv/bin/python")).unwrap();
        write(&at("venv/bin/server"), &format!("#!{}\n", at("venv/bin/python").display()));
        let files = find(&[&at("venv/bin/server")]);
        let expected = ["python/bin", "python/lib", "venv"].map(at);
        assert_eq!(files.paths.into_keys().collect::<Vec<_>>(), expected);
        assert_eq!(files.dirs, [at("venv/bin"), at("python/bin")]);
    }

    #[test]
    fn a_directory_of_many_programs_belongs_to_none() {
        for shared in ["/", "/opt", "/root", "/home/ada", "/srv", "/var/lib"] {
            assert!(is_shared(Path::new(shared)), "{shared}");
        }
        assert!(!is_shared(Path::new("/opt/acme")));
        assert_eq!(belongings(Path::new("/home/ada/bin/server")), [Path::new("/home/ada/bin")]);
    }

    #[test]
    fn a_program_does_not_choose_its_own_files() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let at = |path: &str| real.join(path);
        write(&at("data/server.py"), &format!("#!{}\n", at("other/key").display()));
        write(&at("other/key"), "");
        symlink(at("data/server.py"), at("other/link")).unwrap();
        symlink(at("data"), at("alias")).unwrap();
        // The link in the directory leads out of it.
        symlink(at("data/out"), at("detour")).unwrap();
        symlink(at("other"), at("data/out")).unwrap();
        for script in ["data/server.py", "other/link", "alias/server.py", "detour/key"] {
            let find = |own: &[&str], others: &[&str]| {
                let [own, others] = [own, others].map(|dirs| dirs.iter().map(|dir| at(dir)).collect());
                let command = ["/bin/sh".to_owned(), at(script).display().to_string()];
                ProgramFiles::find(&command, "", &Writable { own, others })
            };
            assert!(find(&[], &[]).unwrap().paths.values().any(|real| *real == at("other")), "{script}");
            let error = find(&["data"], &["data"]).unwrap_err();
            assert!(error.contains("which the program may write to"), "{script}: {error}");
            let error = find(&[], &["data"]).unwrap_err();
            assert!(error.contains("which another program or plugin may write to"), "{script}: {error}");
            assert_eq!(find(&["dat"], &["dat"]), find(&[], &[]), "{script}");
        }
    }

    #[test]
    fn nobody_who_may_write_chooses_what_belongs_to_a_program() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let at = |path: &str| real.join(path);
        for file in ["app/package.json", "app/dist/main.js", "data/modules/index.js", "data/python/lib/os.py"] {
            write(&at(file), "");
        }
        symlink(at("data/modules"), at("app/node_modules")).unwrap();
        write(&at("venv/pyvenv.cfg"), &format!("home = {}\n", at("data/python/bin").display()));
        write(&at("venv/bin/server"), "");
        write(&at("data/pyvenv.cfg"), "");
        write(&at("other/bin/server"), "");
        symlink(at("data/pyvenv.cfg"), at("other/pyvenv.cfg")).unwrap();
        for script in ["app/dist/main.js", "venv/bin/server", "other/bin/server"] {
            let command = ["/bin/sh".to_owned(), at(script).display().to_string()];
            let find =
                |others: Vec<PathBuf>| ProgramFiles::find(&command, "", &Writable { others, ..Writable::default() });
            assert!(find(Vec::new()).is_ok(), "{script}");
            let error = find(vec![at("data")]).unwrap_err();
            assert!(error.contains("may write to"), "{script}: {error}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("loop");
        symlink(&path, &path).unwrap();
        assert!(ProgramFiles::find(&[path.to_str().unwrap().to_owned()], "", &Writable::default()).is_err());
    }
}
