//! Programs in the sandbox of `mcp-host-child`, or without a sandbox within its limits.
//!
//! [`SandboxLauncher::start`] starts the launcher process, which starts programs. A host that confines itself starts it
//! before. The launcher process also starts programs with `sandbox = "none"`: they have limits, and end with the host,
//! even if the host crashes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_child::{
    Child, EndReason, GrantError, LaunchError, Launcher as Process, LauncherProgram, Measured, Outcome, Sandbox, Spec,
};
use mcp_host_config::limits::{Memory, ProgramCpu};
use mcp_host_config::{Config, Plugin, SandboxMode, UpstreamCommand};
use mcp_host_model::provider::{ProgramEndReason, ProgramLimits, ProgramUsage, async_trait};
use tokio::sync::oneshot;

use super::{GRACE, Launched, Launcher, ProgramState};

/// The interval at which refused connections are logged and usage is measured.
const INTERVAL: Duration = Duration::from_secs(1);

/// An error at the start of the launcher process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A grant cannot be given to a program.
    #[error("upstream `{plugin}`: {source}")]
    Grant {
        /// The name of the upstream.
        plugin: String,
        /// The error of the grant.
        source: GrantError,
    },
    /// The launcher process does not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Starts programs in a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxLauncher(Process);

impl SandboxLauncher {
    /// Starts the launcher process, `program`, if the config has programs. With `server.confine`, the launcher process
    /// starts only these programs, with their grants in this config. A process that confines itself must call this
    /// before.
    ///
    /// # Errors
    ///
    /// The launcher process does not start, or a grant cannot be given to a program.
    pub fn start(config: &Config, program: &LauncherProgram) -> Result<Option<Self>, SandboxError> {
        let mut specs = Vec::new();
        for (plugin, command) in config.programs() {
            let failed = |source| SandboxError::Grant { plugin: plugin.name.to_string(), source };
            specs.push(spec(plugin, command).map_err(failed)?);
        }
        if specs.is_empty() {
            return Ok(None);
        }
        let only = config.server.confine.then_some(specs.as_slice());
        Ok(Some(Self(Process::start(program, only)?)))
    }

    /// Returns the restrictions that the sandbox lacks on this machine, as texts for administrators.
    pub fn lacks(&self) -> impl Iterator<Item = String> {
        self.0.kernel().lacks.iter().map(ToString::to_string)
    }
}

/// Returns the command of an upstream's program, with its grants and limits.
fn spec(plugin: &Plugin, command: &UpstreamCommand) -> Result<Spec, GrantError> {
    let words = [command.program.to_string_lossy().into_owned()].into_iter().chain(command.arguments.iter().cloned());
    let mut spec = Spec::new(words).grant(&plugin.grants)?.limit(&plugin.limits);
    spec.hidden = command.hidden.clone();
    spec.hidden_log.clone_from(&command.hidden_log);
    spec.granted_to_others = command.granted.clone();
    spec.writable_by_others = command.writable.clone();
    spec.user.clone_from(&command.user);
    spec.sandbox = match command.sandbox {
        SandboxMode::None => Sandbox::None,
        _ => Sandbox::Full,
    };
    Ok(spec)
}

#[async_trait]
impl Launcher for SandboxLauncher {
    async fn launch(&self, plugin: &Plugin, command: &UpstreamCommand) -> io::Result<Launched> {
        let spec = spec(plugin, command).map_err(io::Error::other)?;
        let limits = ProgramLimits {
            memory: Some(spec.limits.memory),
            cpu: spec.limits.cpu,
            tasks: Some(spec.limits.processes.into()),
        };
        let program = self.0.program(spec).map_err(io::Error::other)?;
        let mut child = program.launch().await.map_err(io::Error::other)?;
        let missing = || io::Error::other("a pipe of the program is missing");
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(ProgramState::new(u32::try_from(child.process()).ok(), limits));
        task::spawn(accompany(child, plugin.name.as_str().into(), stopped, state.clone()));
        Ok(Launched {
            stdin: Box::new(stdin.ok_or_else(missing)?),
            stdout: Box::new(stdout.ok_or_else(missing)?),
            stderr: Box::new(stderr.ok_or_else(missing)?.into_pipe()),
            running: Box::new(stop),
            state,
        })
    }

    fn lacks(&self, command: &UpstreamCommand) -> Vec<String> {
        match command.sandbox {
            SandboxMode::None => Vec::new(),
            _ => SandboxLauncher::lacks(self).collect(),
        }
    }

    fn unusable_grants(&self, plugin: &Plugin, command: &UpstreamCommand) -> Vec<String> {
        let Ok(spec) = spec(plugin, command) else { return Vec::new() };
        let unwritable = spec.unwritable_directories().into_iter().map(|(directory, user)| {
            format!(
                "`grants.dirs` has `mode = \"rw\"` for {dir}, and the program runs as {user}, who may not write there: run `chown {user} {dir}`, or \
                 set `user` of the `[[upstream]]` to a user who may",
                dir = directory.display()
            )
        });
        unwritable.collect()
    }
}

/// Logs the events of a program, and measures its usage, until it ends. After the connection is closed, the program has
/// [`GRACE`] to end by itself. If the runtime ends first, the program is killed immediately.
async fn accompany(mut child: Child, name: Arc<str>, mut stopped: oneshot::Receiver<()>, state: Arc<ProgramState>) {
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        let outcome = tokio::select! {
            _ = &mut stopped => break,
            outcome = child.wait() => Some(outcome),
            _ = interval.tick() => None,
        };
        let Measured { memory, cpu, tasks, .. } = child.measured();
        if tasks > 0 {
            state.set_usage(ProgramUsage { memory, cpu, tasks });
        }
        for reason in child.take_refused_connections() {
            tracing::warn!(target: log_target::PLUGIN, plugin = &*name, "a connection of the program was refused: {reason}");
        }
        if let Some(outcome) = outcome {
            return end(&state, &name, &outcome);
        }
    }
    // The program's closed standard input requests its end. The remaining processes are killed. The connection may also
    // be closed because the program was killed, before the end is known here.
    let outcome = match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            child.kill().await;
            return state.set_ended(ProgramEndReason::Stopped, EndReason::Killed.to_string());
        }
    };
    end(&state, &name, &outcome);
}

/// Records the end of a program, and logs it.
fn end(state: &ProgramState, name: &str, outcome: &Outcome) {
    let limits = state.limits();
    let limit = match outcome.reason {
        EndReason::Memory => limits.memory.and_then(|bytes| Some(Memory::try_from(bytes).ok()?.to_string())),
        EndReason::Cpu => limits.cpu.and_then(|time| Some(ProgramCpu::try_from(time).ok()?.to_string())),
        _ => None,
    };
    let reason = match limit {
        Some(limit) => format!("{} ({limit})", outcome.reason),
        None => outcome.reason.to_string(),
    };
    state.set_ended(reason_of(&outcome.reason), reason.clone());
    match outcome.reason {
        EndReason::Exit(0) => {
            tracing::debug!(target: log_target::PLUGIN, plugin = name, "the program has ended: {reason}");
        }
        _ => tracing::warn!(target: log_target::PLUGIN, plugin = name, "the program has ended: {reason}"),
    }
}

fn reason_of(reason: &EndReason) -> ProgramEndReason {
    match reason {
        EndReason::Exit(_) => ProgramEndReason::Exit,
        EndReason::Signal(_) => ProgramEndReason::Signal,
        EndReason::Memory => ProgramEndReason::Memory,
        EndReason::Cpu => ProgramEndReason::Cpu,
        EndReason::Killed => ProgramEndReason::Stopped,
        _ => ProgramEndReason::Unknown,
    }
}
