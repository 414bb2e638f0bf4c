//! The host's side of the launcher.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child as Process, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::time::timeout;

use crate::child::{Child, Connection};
use crate::kernel::{Kernel, Lack};
use crate::message::{Answer, receive, send, send_with};
use crate::process::{ARGUMENT, ENV_VAR};
use crate::proxy::Proxy;
use crate::spec::{Job, Sandbox, Spec, SpecError};

/// The maximum time for the launcher to start.
const START_TIME: Duration = Duration::from_secs(10);
/// The maximum time to start a program.
const LAUNCH_TIME: Duration = Duration::from_secs(20);

/// The program that becomes the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LauncherProgram {
    /// The current executable. Its `main` must begin with [`run_launcher`](crate::run_launcher).
    #[default]
    CurrentExe,
    /// Another program whose `main` begins with [`run_launcher`](crate::run_launcher), such as `mcp-host` or
    /// `mcp-host-launcher`.
    Program(PathBuf),
}

/// Why the launcher, or a program, was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The launcher cannot be started.
    #[error("cannot start the process that starts programs, {}: {source}", program.display())]
    Launcher {
        /// The program that should have become the launcher.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program that was started as the launcher is not a launcher.
    #[error("{} was started to start programs, and its `main` does not begin with `mcp_host_child::run_launcher()`", .0.display())]
    NoLauncher(PathBuf),
    /// This process was started as a launcher, but is not one.
    #[error("this process was started to start programs: call `mcp_host_child::run_launcher()` first thing in `main`")]
    Recursive,
    /// The launcher has ended.
    #[error("the process that starts programs has ended; restart the host")]
    Ended,
    /// The launcher does not accept a request.
    #[error("cannot send the request to start a program: {0}")]
    Request(io::Error),
    /// The program cannot be started: a grant does not exist, or the kernel refuses it.
    #[error("cannot start {program}: {reason}")]
    Program {
        /// The program.
        program: String,
        /// The failure.
        reason: String,
    },
    /// The program took too long to start.
    #[error("{0} has not started within {LAUNCH_TIME:?}")]
    Timeout(String),
}

/// A process that starts programs: a second instance of the current executable, unconfined, without threads,
/// and without the host's memory. The launcher and everything that it has started end with the host, however
/// the host ends.
#[derive(Clone, Debug)]
pub struct Launcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    control: UnixStream,
    kernel: Kernel,
    process: Mutex<Process>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The launcher ends with this, and leaves no entry in the table of processes.
        let _ = self.control.shutdown(Shutdown::Both);
        let _ = self.process.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

/// A checked program: this machine supports its grants.
#[derive(Clone, Debug)]
pub struct Program {
    launcher: Launcher,
    spec: Arc<Spec>,
    lacks: Vec<Lack>,
}

impl Launcher {
    /// Starts the launcher. A process that confines itself must call this first, because the launcher would
    /// inherit the confinement. With `only`, the launcher starts only these programs: an attacker who takes
    /// over the host cannot start others through it.
    ///
    /// Blocks for some milliseconds, in which the launcher tries the features of the kernel.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or is not a launcher.
    pub fn start(program: &LauncherProgram, only: Option<&[Spec]>) -> Result<Self, LaunchError> {
        if std::env::var_os(ENV_VAR).is_some() {
            return Err(LaunchError::Recursive);
        }
        let path = match program {
            // The same executable, even if its file has been replaced.
            LauncherProgram::CurrentExe => PathBuf::from("/proc/self/exe"),
            LauncherProgram::Program(path) => path.clone(),
        };
        let failed = |source| LaunchError::Launcher { program: path.clone(), source };
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&path);
        let process = command
            .arg(ARGUMENT)
            .env_clear()
            .env(ENV_VAR, "1")
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            // Never read: they are empty, and a confined host cannot open `/dev/null`.
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // In a separate group, so that no signal to the host's group, for example from a terminal, ends
            // programs that the host still uses.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // Dropping the command closes the other end of the control socket here, so that the end of the
        // launcher is detected.
        drop(command);
        let only = only.map(|specs| specs.iter().map(|spec| Job::from(spec).without_hidden()).collect::<Vec<_>>());
        control.set_read_timeout(Some(START_TIME)).map_err(failed)?;
        let answered = send(&control, &only, &[]).and_then(|()| receive::<Kernel>(&control));
        // If the process is not a launcher, it is killed, and dropping this reaps it.
        let mut shared = Shared { control, kernel: Kernel::default(), process: Mutex::new(process) };
        match answered {
            Ok(Some((kernel, _))) => shared.kernel = kernel,
            Ok(None) | Err(_) => {
                let _ = shared.process.get_mut().unwrap_or_else(PoisonError::into_inner).kill();
                return Err(LaunchError::NoLauncher(path));
            }
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the features of the kernel, and the missing ones.
    pub fn kernel(&self) -> &Kernel {
        &self.shared.kernel
    }

    /// Checks whether a program's grants are supported.
    ///
    /// # Errors
    ///
    /// Some grant is invalid, or needs a feature that the kernel lacks.
    pub fn program(&self, spec: Spec) -> Result<Program, SpecError> {
        spec.validate()?;
        let kernel = self.kernel();
        let lacks = match spec.sandbox {
            Sandbox::None => Vec::new(),
            Sandbox::Full => {
                if !kernel.confines() {
                    return Err(SpecError::NotConfined(kernel.lacks.clone()));
                }
                if let Some(what) = spec.needs_namespaces().filter(|_| !kernel.namespaces) {
                    return Err(SpecError::NeedsNamespaces { what, lacks: kernel.lacks.clone() });
                }
                kernel.lacks.clone()
            }
        };
        Ok(Program { launcher: self.clone(), spec: Arc::new(spec), lacks })
    }
}

impl Program {
    /// Returns the command, its grants and its limits.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the parts of the sandbox that are missing, for the log at the start and for `check`.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Starts the program. Dropping the future, or the child, ends all of its processes.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub async fn launch(&self) -> Result<Child, LaunchError> {
        let name = || self.spec.command.first().cloned().unwrap_or_default();
        let (ours, theirs) = UnixStream::pair().map_err(LaunchError::Request)?;
        let [stdin, stdout, stderr] = [(); 3].map(|()| io::pipe());
        let (stdin, stdout, stderr) = (
            stdin.map_err(LaunchError::Request)?,
            stdout.map_err(LaunchError::Request)?,
            stderr.map_err(LaunchError::Request)?,
        );
        let descriptors = [theirs.as_fd(), stdin.0.as_fd(), stdout.1.as_fd(), stderr.1.as_fd()];
        // One byte is sent as a whole or not at all, so concurrent requests do not mix.
        let sent = send_with(&self.launcher.shared.control, b"L", &descriptors, SendFlags::DONTWAIT);
        sent.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => LaunchError::Ended,
            _ => LaunchError::Request(error),
        })?;
        drop((theirs, stdin.0, stdout.1, stderr.1));
        let mut connection = Connection::new(ours).map_err(LaunchError::Request)?;
        let started = async {
            connection.send(&Job::from(&*self.spec)).await?;
            connection.receive().await
        };
        let answer = timeout(LAUNCH_TIME, started).await.map_err(|_| LaunchError::Timeout(name()))?;
        let failed = |reason| LaunchError::Program { program: name(), reason };
        let (lacks, process, descriptors) = match answer.map_err(LaunchError::Request)? {
            Some((Answer::Started { lacks, process }, descriptors)) => (lacks, process, descriptors),
            Some((Answer::Failed(reason), _)) => return Err(failed(reason)),
            Some((Answer::Ended(_) | Answer::Measured(_), _)) => return Err(failed("it has ended".to_owned())),
            None => return Err(LaunchError::Ended),
        };
        let proxy = match descriptors.into_iter().next() {
            None => None,
            Some(listener) => Some(Proxy::start(listener, &self.spec.origins).map_err(LaunchError::Request)?),
        };
        let streams = (stdin.1.into(), stdout.0.into(), stderr.0.into());
        Child::new(connection, streams, proxy, lacks, process).map_err(LaunchError::Request)
    }
}
