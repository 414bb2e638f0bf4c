//! The launcher as the host sees it.

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

/// How long the launcher has to start.
const START_TIME: Duration = Duration::from_secs(10);
/// How long a program has to be started.
const LAUNCH_TIME: Duration = Duration::from_secs(20);

/// The program that becomes the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LauncherProgram {
    /// The current executable. Its `main` must begin with [`run_launcher`](crate::run_launcher).
    #[default]
    CurrentExe,
    /// Another program whose `main` begins with [`run_launcher`](crate::run_launcher), such as `mcp-host` or `mcp-host-launcher`.
    Program(PathBuf),
}

/// Why the launcher, or a program, was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The launcher cannot be started.
    #[error("cannot start the process that starts programs, {}: {source}", program.display())]
    Launcher {
        /// The program that was to become the launcher.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program that was started as the launcher is none.
    #[error("{} was started to start programs, and its `main` does not begin with `mcp_host_child::run_launcher()`", .0.display())]
    NoLauncher(PathBuf),
    /// This process was started as a launcher, and is none.
    #[error("this process was started to start programs: call `mcp_host_child::run_launcher()` first thing in `main`")]
    Recursive,
    /// The launcher has ended.
    #[error("the process that starts programs has ended; restart the host")]
    Ended,
    /// The launcher does not take a request.
    #[error("cannot ask for a program to be started: {0}")]
    Request(io::Error),
    /// The program cannot be started: what is granted to it is not there, or the kernel refuses it.
    #[error("cannot start {program}: {reason}")]
    Program {
        /// The program.
        program: String,
        /// What failed.
        reason: String,
    },
    /// The program took too long to start.
    #[error("{0} has not started within {LAUNCH_TIME:?}")]
    Timeout(String),
}

/// A process that starts programs: the current executable once more, unconfined, without threads, and with nothing of the
/// host in its memory. It, and all that it has started, ends with the host, however that ends.
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
        // The launcher ends with this, and leaves nothing of itself in the table of processes.
        let _ = self.control.shutdown(Shutdown::Both);
        let _ = self.process.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

/// A program that has been checked: what it is granted can be given to it on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    launcher: Launcher,
    spec: Arc<Spec>,
    lacks: Vec<Lack>,
}

impl Launcher {
    /// Starts the launcher. A process that confines itself calls this before, since the launcher would be confined like it.
    /// With `only`, the launcher starts none but these programs: then somebody who has taken the host over cannot start
    /// others through it.
    ///
    /// Blocks for some milliseconds, in which the launcher tries what the kernel has.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or is no launcher.
    pub fn start(program: &LauncherProgram, only: Option<&[Spec]>) -> Result<Self, LaunchError> {
        if std::env::var_os(ENV_VAR).is_some() {
            return Err(LaunchError::Recursive);
        }
        let path = match program {
            // The same executable, even if its file was replaced since.
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
            // Not read: they are empty, and a confined host cannot open `/dev/null`.
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // No signal to the host's group, as of a terminal, ends programs that the host still uses.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // The other end of the control socket is closed here with the command, so the launcher's end is seen.
        drop(command);
        let only = only.map(|specs| specs.iter().map(Job::from).collect::<Vec<_>>());
        control.set_read_timeout(Some(START_TIME)).map_err(failed)?;
        let answered = send(&control, &only, &[]).and_then(|()| receive::<Kernel>(&control));
        // Ended, and waited for, if it is no launcher.
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

    /// What the kernel has, and lacks.
    pub fn kernel(&self) -> &Kernel {
        &self.shared.kernel
    }

    /// Checks whether a program can be given what it is granted.
    ///
    /// # Errors
    ///
    /// Some of it is invalid, or needs what the kernel lacks.
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
    /// What is started, and what it may use.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What it has to do without, for the log at the start and for `check`.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Starts it. Dropping the future, or the child, ends all of its processes.
    ///
    /// # Errors
    ///
    /// It cannot be started.
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
        // One byte is sent whole or not at all, so requests from several threads do not mix.
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
