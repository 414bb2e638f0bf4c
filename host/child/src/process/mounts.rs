//! The file system of a program: a tmpfs with only the paths that the [`Plan`] names.
//!
//! | path | content |
//! |---|---|
//! | `/usr`, `/bin`, `/sbin`, `/lib*` | the system's programs and libraries, read-only |
//! | the paths of the program's own files | these files, read-only, if the system's directories do not contain them, and without the host's; see modules `program_files` and `hidden` |
//! | the granted paths | the granted directories; writable ones without executable programs (`noexec`) |
//! | `/etc` | generated files: one user, `localhost`, no name server; the host's certificates, time zone and library cache |
//! | `/dev` | `null`, `full`, `random`, `urandom`, and links; `/dev/shm` is `/tmp`, `/dev/zero` is `/dev/full` |
//! | `/proc` | the processes of the program's namespace |
//! | `/tmp` | a private tmpfs of bounded size, without executable programs (`noexec`) |
//!
//! All mounts are without devices and set-user-id programs. The root is read-only.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::Mode;
use rustix::process::{pivot_root, umask};

use super::hidden::Shown;
use super::plan::Plan;
use super::privileges::User;
use super::program_files::SYSTEM;
use super::sys::add_mount_attributes;
use crate::kernel::Lack;

/// The devices of a program: not `zero`, which can be mapped as shared memory outside of any process.
pub(super) const DEVICES: [&str; 4] = ["full", "null", "random", "urandom"];
/// Links in `/dev`. From `full`, zeros can be read, too.
const DEVICE_LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("/tmp", "/dev/shm"),
    ("/dev/full", "/dev/zero"),
];
/// The mount point of the host's file system while the program's is created.
const HOST: &str = "/.host";
/// Directories on which the new root is briefly mounted: the first that exists.
const BASES: [&str; 4] = ["/tmp", "/mnt", "/var", "/etc"];
/// Mount options of the root, which has mount points and the files in `/etc`.
const ROOT_OPTIONS: &str = "mode=755,size=4m,nr_inodes=65536";
/// The maximum number of files in `/tmp`.
const TEMP_INODES: u32 = 65_536;

/// Creates the program's file system, and makes it the root of this process. Returns the missing parts.
pub(super) fn build(plan: &Plan) -> Result<Vec<Lack>, String> {
    let mut root = Root::new()?;
    for path in SYSTEM {
        root.mirror(Path::new(path))?;
    }
    root.devices()?;
    root.etc(plan.user())?;
    let lacks = root.proc()?;
    root.temp(plan.limits().temp, plan.user())?;
    // After `/tmp`, because a program may be installed there.
    for (target, shown) in plan.files() {
        match shown {
            Shown::Whole(source) => {
                // It may have been removed since its directory was listed, such as an editor's temporary file.
                root.bind_existing(source, target, Access::Programs)?;
            }
            Shown::Link(source) => link(source, target)?,
            Shown::Listed => root.mount_point(target, true).map_err(at("make the directory", target))?,
        }
    }
    // Shorter paths first, because a directory may be inside another.
    let mut directories: Vec<_> = plan.directories().iter().collect();
    directories.sort_by_key(|directory| directory.path());
    for directory in directories {
        let access = if directory.writable { Access::Write } else { Access::Read };
        root.bind(&directory.host, directory.path(), access)?;
    }
    root.finish()?;
    Ok(lacks)
}

/// Creates a minimal file system, to find out whether this is permitted.
pub(super) fn try_out() -> Result<Vec<Lack>, String> {
    let mut root = Root::new()?;
    root.mirror(Path::new("/usr"))?;
    root.devices()?;
    let lacks = root.proc()?;
    root.temp(1 << 20, User { user: 0, group: 0 })?;
    root.finish()?;
    Ok(lacks)
}

/// The program's access to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Read, and execute programs.
    Programs,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl Access {
    fn attributes(self) -> u64 {
        let all = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        match self {
            // Programs may load libraries from read-only directories.
            Self::Programs | Self::Read => all | libc::MOUNT_ATTR_RDONLY,
            Self::Write => all | libc::MOUNT_ATTR_NOEXEC,
        }
    }
}

/// The new root while it is created.
struct Root {
    /// The file systems in which mount points may be created.
    own: Vec<u64>,
}

/// Returns a function that formats an error with the failed operation and the path.
fn at<E: std::fmt::Display>(what: &str, path: &Path) -> impl FnOnce(E) -> String {
    let place = format!("{what} {}", path.display());
    move |error| format!("{place}: {error}")
}

impl Root {
    /// Creates an empty root, and makes it the root of this process. The host's root is at [`HOST`].
    fn new() -> Result<Self, String> {
        umask(Mode::from_bits_truncate(0o022));
        let none = None::<&str>;
        let root = Path::new("/");
        // Mounts made here are not visible outside, and later ones outside are not visible here.
        mount(none, root, none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(at("make private", root))?;
        let base = BASES.into_iter().map(Path::new).find(|path| path.is_dir()).unwrap_or(root);
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), base, Some("tmpfs"), flags, Some(ROOT_OPTIONS)).map_err(at("mount a tmpfs at", base))?;
        let enter = || -> io::Result<()> {
            std::env::set_current_dir(base)?;
            let host = HOST.trim_start_matches('/');
            fs::create_dir(host)?;
            pivot_root(".", host)?;
            std::env::set_current_dir("/")
        };
        enter().map_err(at("pivot to", base))?;
        Ok(Self { own: vec![device(root).map_err(at("inspect", root))?] })
    }

    /// Shows a path of the host at the same place; a link as a link. Does nothing if it does not exist.
    fn mirror(&self, path: &Path) -> Result<(), String> {
        let source = on_host(path);
        match fs::symlink_metadata(&source) {
            Err(_) => Ok(()),
            Ok(metadata) if metadata.is_symlink() => link(path, path),
            Ok(_) => self.bind(path, path, Access::Programs),
        }
    }

    /// Shows a path of the host, which must exist.
    fn bind(&self, source: &Path, target: &Path, access: Access) -> Result<(), String> {
        match self.bind_existing(source, target, access)? {
            true => Ok(()),
            false => Err(format!("find {}: it does not exist", target.display())),
        }
    }

    /// Shows a path of the host, if it exists. Returns whether it does. The path must not contain links, because they
    /// would be followed in the new root.
    fn bind_existing(&self, source: &Path, target: &Path, access: Access) -> Result<bool, String> {
        let source = on_host(source);
        let metadata = match fs::symlink_metadata(&source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(at("find", target))?,
        };
        self.mount_point(target, metadata.is_dir()).map_err(at("make the mount point", target))?;
        let none = None::<&str>;
        match mount(Some(&source), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none) {
            // The mount point exists, so it is the source that does not any more.
            Err(Errno::ENOENT) => return Ok(false),
            mounted => mounted.map_err(at("mount", target))?,
        }
        set_attributes(target, access.attributes(), true)?;
        Ok(true)
    }

    /// Creates an empty directory or file as a mount point, unless the path exists.
    fn mount_point(&self, path: &Path, is_dir: bool) -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        // Without this check, it would be created in a directory of the host.
        if !self.own.contains(&device(existing)?) {
            let message = format!("it does not exist in {}, which is mounted there", existing.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let dir = if is_dir { Some(path) } else { path.parent() };
        DirBuilder::new().recursive(true).mode(0o755).create(dir.unwrap_or(path))?;
        if is_dir { Ok(()) } else { fs::write(path, "") }
    }

    fn devices(&self) -> Result<(), String> {
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            self.mount_point(&path, false).map_err(at("make the mount point", &path))?;
            let none = None::<&str>;
            mount(Some(&on_host(&path)), &path, none, MsFlags::MS_BIND, none).map_err(at("mount", &path))?;
            set_attributes(&path, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, false)?;
        }
        for (target, link) in DEVICE_LINKS {
            symlink(target, link).map_err(at("make the link", Path::new(link)))?;
        }
        Ok(())
    }

    /// Creates the files in `/etc`.
    fn etc(&self, user: User) -> Result<(), String> {
        let User { user, group } = user;
        let files = [
            ("passwd", format!("user:x:{user}:{group}:user:/tmp:/bin/sh\n")),
            ("group", format!("user:x:{group}:\n")),
            ("hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
            ("resolv.conf", String::new()),
        ];
        for (name, text) in files {
            let path = Path::new("/etc").join(name);
            self.mount_point(&path, false).map_err(at("make", &path))?;
            fs::write(&path, text).map_err(at("write", &path))?;
        }
        Ok(())
    }

    /// Mounts a `/proc` of this process namespace.
    fn proc(&self) -> Result<Vec<Lack>, String> {
        let path = Path::new("/proc");
        self.mount_point(path, true).map_err(at("make the mount point", path))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let mount_with = |options| mount(Some("proc"), path, Some("proc"), flags, options);
        // A container that hides parts of `/proc` may permit one with process directories only.
        match mount_with(None::<&str>).or_else(|error| mount_with(Some("subset=pid")).map_err(|_| error)) {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Ok(vec![Lack::Proc(error.to_string())]),
        }
    }

    /// Mounts the private `/tmp`.
    fn temp(&mut self, size: u64, user: User) -> Result<(), String> {
        let path = Path::new("/tmp");
        self.mount_point(path, true).map_err(at("make the mount point", path))?;
        let User { user, group } = user;
        let owner = if user == 0 { String::new() } else { format!(",uid={user},gid={group}") };
        // A size of 0 would mean no limit.
        let options = format!("mode=700,size={},nr_inodes={TEMP_INODES}{owner}", size.max(4096));
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some(options.as_str()))
            .map_err(at("mount a tmpfs at", path))?;
        self.own.push(device(path).map_err(at("inspect", path))?);
        Ok(())
    }

    /// Detaches the host's file system.
    fn finish(self) -> Result<(), String> {
        let host = Path::new(HOST);
        umount2(host, MntFlags::MNT_DETACH).map_err(at("unmount", host))?;
        fs::remove_dir(host).map_err(at("remove", host))?;
        set_attributes(Path::new("/"), libc::MOUNT_ATTR_RDONLY, false)
    }
}

/// Shows a symbolic link of the host, unless it was removed meanwhile.
fn link(source: &Path, path: &Path) -> Result<(), String> {
    let target = match fs::read_link(on_host(source)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        target => target.map_err(at("read the link", source))?,
    };
    symlink(target, path).map_err(at("make the link", path))
}

/// Returns the place of a host's path while the new root is created.
fn on_host(path: &Path) -> PathBuf {
    let mut host = PathBuf::from(HOST).into_os_string();
    host.push(path);
    host.into()
}

fn device(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.dev())
}

fn set_attributes(path: &Path, attributes: u64, is_recursive: bool) -> Result<(), String> {
    let text = CString::new(path.as_os_str().as_bytes()).map_err(at("name", path))?;
    add_mount_attributes(&text, attributes, is_recursive).map_err(at("restrict the mount", path))
}
