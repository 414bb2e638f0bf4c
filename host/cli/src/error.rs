//! The errors of commands: the message, the help, and the exit code.

mod help;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use mcp_host_base::private_file::PrivateError;
use mcp_host_base::text::quote;
use mcp_host_config::admin::AdminAddress;
use mcp_host_config::diagnostics::RenderStyle;
use mcp_host_config::http::HttpAddress;
use mcp_host_config::{ConfigError, ExposureError, ProviderNotFound};
use mcp_host_devkit::componentize::ComponentizeError;
use mcp_host_devkit::conformance::TestError;
use mcp_host_devkit::scaffold::{ArchiveError, NameError, UpdateError, WriteError};
use mcp_host_engine::confinement::ConfinementError;
use mcp_host_engine::plugin::LoadError;
use mcp_host_model::resource::Error;
use mcp_host_server::ServeError;
use mcp_resource_host::host::{InspectError, StartError};

use self::help::build_help;
use super::messages::Messages;
use mcp_host_server::AdminClientError;
use mcp_resource_host::keyvalue::AdminError;

/// A failure.
pub(super) const EXIT_FAILURE: u8 = 1;
/// The command line or the config is invalid.
pub(super) const EXIT_USAGE: u8 = 2;
/// A person has to agree to the new requirements of a component.
pub(super) const EXIT_NOT_AGREED: u8 = 3;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No installed provider has this name.
    #[error(transparent)]
    ProviderNotFound(#[from] ProviderNotFound),
    /// The service manager passed a socket that cannot be used.
    #[error("the socket of the service manager (LISTEN_FDS) cannot be used: {0}")]
    PassedSocket(#[source] io::Error),
    /// The service manager cannot be notified.
    #[error("cannot connect to the socket of the service manager (NOTIFY_SOCKET): {0}")]
    NotifySocket(#[source] io::Error),
    /// The server must not listen at the address of the command line.
    #[error(transparent)]
    Exposure(#[from] ExposureError),
    /// The host does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// This process cannot be confined.
    #[error("`server.confine` cannot be applied: {0}")]
    Confinement(#[from] ConfinementError),
    /// The programs of upstreams cannot be started.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Programs(#[from] mcp_resource_host::programs::SandboxError),
    /// A component cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The administration listener of a server did not perform the request.
    #[error(transparent)]
    Admin(#[from] AdminClientError),
    /// `status --probe` found that the server is not ready.
    #[error("the server is not ready")]
    NotReady,
    /// A component cannot be inspected.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// A provider cannot be tested.
    #[error(transparent)]
    Test(#[from] TestError),
    /// A core module cannot be made a component.
    #[error("{}: {error}", file.display())]
    Componentize {
        /// The module.
        file: PathBuf,
        /// The reason.
        error: ComponentizeError,
    },
    /// The config has no plugin with this name.
    #[error("the config has no plugin `{name}`")]
    NoPlugin {
        /// The requested name.
        name: String,
        /// The names of the config's plugins.
        known: Vec<String>,
    },
    /// No principal of this name can exist with this config.
    #[error("the config has no principal {}", quote(name))]
    NoPrincipal {
        /// The requested name.
        name: String,
        /// The name that the user probably meant.
        meant: Option<String>,
        /// The names of the built-in principals, and of the config's principals.
        known: Vec<String>,
    },
    /// `check` found plugins that do not work.
    #[error(
        "{failed} of {total} {} {} not work",
        if *.total == 1 { "plugin" } else { "plugins" },
        if *.failed == 1 { "does" } else { "do" }
    )]
    Check {
        /// The number of plugins that do not work.
        failed: usize,
        /// The number of plugins.
        total: usize,
    },
    /// `check --strict` found warnings.
    #[error("{warnings} {}, and `--strict` allows none", if *.warnings == 1 { "warning" } else { "warnings" })]
    Strict {
        /// The number of warnings.
        warnings: usize,
    },
    /// `test` found that a provider violates the contract.
    #[error("{failed} {} failed", if *.failed == 1 { "check" } else { "checks" })]
    Conformance {
        /// The number of checks that failed.
        failed: usize,
    },
    /// Replayed calls differ from the recording.
    #[error(
        "{differing} of {total} calls {} from the recording",
        if *.differing == 1 { "differs" } else { "differ" }
    )]
    Differs {
        /// The number of calls that differ.
        differing: usize,
        /// The number of calls.
        total: usize,
    },
    /// The directory for `dev` cannot be opened.
    #[error("the directory {} cannot be opened: {source}", dir.display())]
    ProjectDir {
        /// The directory.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory for `dev` has no config.
    #[error("{} is no provider project: there is no {}", dir.display(), file.display())]
    NoProject {
        /// The directory.
        dir: PathBuf,
        /// The file.
        file: PathBuf,
        /// The usual path of the component for this kind of project; `None` if the directory has no project.
        example: Option<&'static str>,
    },
    /// No build command is known for a project.
    #[error("nothing says how to build the project in {}", dir.display())]
    NoBuildCommand {
        /// The project's directory.
        dir: PathBuf,
        /// The project's config.
        config: PathBuf,
        /// An example of a build command for this kind of project.
        example: &'static str,
    },
    /// The directory's name cannot be turned into a package name.
    #[error(transparent)]
    ProjectName(#[from] NameError),
    /// The directory for `new` has no name.
    #[error("`{}` has no last segment to name the project by", dir.display())]
    NoProjectName {
        /// The directory.
        dir: PathBuf,
    },
    /// The project cannot be written.
    #[error(transparent)]
    Project(#[from] WriteError),
    /// The SDK of a project was not replaced.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The archive of templates cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// `doctor` found tools that are missing or cannot be checked.
    #[error("{count} {} missing, too old, not working or not answering", if *.count == 1 { "tool is" } else { "tools are" })]
    Tools {
        /// The number of tools.
        count: usize,
    },
    /// A request failed.
    #[error(transparent)]
    Request(#[from] Error),
    /// A resource cannot be read or listed.
    #[error("{error}")]
    Resource {
        /// The reason.
        error: Error,
        /// Other operations on this resource that the principal may perform.
        hint: Option<String>,
    },
    /// A config exists where `init` would write one.
    #[error("{} exists already; it was not changed", file.display())]
    ConfigExists {
        /// The file.
        file: PathBuf,
    },
    /// `serve PATH` must not listen at the address of the command line.
    #[error("`{address}` can be reached from other machines, and without a config there is no TLS")]
    ExposedPaths {
        /// The address.
        address: HttpAddress,
    },
    /// A path cannot be part of a config.
    #[error("the path `{}` is not UTF-8, and a config is", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// `init` or `serve PATH` did not find the components of the plugins.
    #[error("no directory with `{names}` was found")]
    NoComponents {
        /// The file names of the components.
        names: String,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
        /// The command, which accepts a directory.
        command: &'static str,
    },
    /// `init` or `serve PATH` found only some components of the plugins.
    #[error(
        "{} {} missing in {}, which has {}",
        listed(missing),
        if missing.len() == 1 { "is" } else { "are" },
        dir.display(),
        listed(present)
    )]
    MissingComponents {
        /// The directory with the most of them.
        dir: PathBuf,
        /// The file names of the components that it does not have.
        missing: Vec<String>,
        /// The file names of the components that it has.
        present: Vec<String>,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
        /// The command, which accepts a directory.
        command: &'static str,
    },
    /// The content is binary, and the destination is a terminal.
    #[error("{uri} is binary ({kind_and_size}) and standard output is a terminal")]
    Binary {
        /// The resource.
        uri: String,
        /// The resource's type and size.
        kind_and_size: String,
    },
    /// The response has no content of the requested resource, and not exactly one of the resources below it; only one
    /// can be written.
    #[error("{uri} has the contents of {} resources in its response, and only one can be written", children.len())]
    Collection {
        /// The requested resource.
        uri: String,
        /// The resources in the response.
        children: Vec<String>,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {address} (`{setting}`): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The option or config key with the address.
        setting: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The administration listener cannot be opened.
    #[error("cannot listen on {address} (`admin.listen`): {source}")]
    AdminListen {
        /// The address.
        address: AdminAddress,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The file of `--output` cannot be written.
    #[error("cannot write {}: {source}", file.display())]
    Save {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of a recording cannot be written, or is not private.
    #[error("cannot write {}: {source}", file.display())]
    Recording {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: PrivateError,
    },
    /// An operation on a bucket failed.
    #[error(transparent)]
    Keyvalue(#[from] AdminError),
    /// A bucket does not have the key.
    #[error("the bucket `{bucket}` of the plugin `{plugin}` has no key {}", quote(key))]
    NoKey {
        /// The plugin.
        plugin: String,
        /// The bucket.
        bucket: String,
        /// The requested key.
        key: String,
    },
    /// The file of a value cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    ValueFile {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    StandardInput(#[source] io::Error),
    /// The input of `token hash` cannot be sent as a token by any client.
    #[error(
        "the first line of standard input is not a token: it has spaces, control characters or characters beyond ASCII"
    )]
    NotAToken,
    /// The printed result is negative: an operation is denied, or a plugin could not be loaded.
    #[error("the answer is negative")]
    NegativeAnswer,
    /// A command failed with its own error.
    #[error("{0}")]
    Command(Box<dyn CommandError>),
    /// Standard output cannot be written to.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// Other errors, such as missing threads or signals.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

/// The error of one command.
pub(super) trait CommandError: std::error::Error + Send + Sync + 'static {
    /// The help, unless the message contains it.
    fn help(&self) -> Option<String> {
        None
    }

    /// The exit code of the process.
    fn exit_code(&self) -> u8 {
        EXIT_FAILURE
    }
}

impl<E: CommandError> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Command(Box::new(error))
    }
}

/// File names, for people.
fn listed(files: &[String]) -> String {
    format!("`{}`", files.join("` and `"))
}

/// The reason of a failure in the words of a command, which has no server: the host has logged it before.
pub(super) fn reason_of_command(reason: &str) -> String {
    reason.replace("the server's log says why", "the log above says why")
}

impl CliError {
    /// The message.
    fn message(&self) -> String {
        match self {
            Self::Request(error) | Self::Resource { error, .. } => reason_of_command(&error.to_string()),
            _ => self.to_string(),
        }
    }

    /// Prints the message and the help.
    pub(super) fn report(&self, messages: &Messages) {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Self::NegativeAnswer => {}
            // A config error escapes foreign text itself, and has its own colors.
            Self::Config(error) => {
                let style = if messages.is_colored() { RenderStyle::Ansi } else { RenderStyle::Plain };
                messages.print_line(&error.render_within(style, messages.columns()));
                if let Some(help) = build_help(error) {
                    messages.help(&help);
                }
            }
            _ => {
                messages.error(&self.message());
                if let Some(help) = self.help() {
                    messages.help(&help);
                }
            }
        }
    }

    /// Returns the exit code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Command(error) => error.exit_code(),
            // The reader closed the pipe early, as `head` does.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Config(_)
            | Self::Exposure(_)
            | Self::Admin(AdminClientError::NotConfigured | AdminClientError::AnyPort(_))
            | Self::ExposedPaths { .. }
            | Self::NoPlugin { .. }
            | Self::Keyvalue(AdminError::NotGranted { .. })
            | Self::NoPrincipal { .. }
            | Self::ProjectDir { .. }
            | Self::NoProject { .. }
            | Self::NoBuildCommand { .. }
            | Self::ProjectName(_)
            | Self::Update(UpdateError::NoSdk { .. })
            | Self::NoProjectName { .. } => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use mcp_host_config::Config;

    fn exit_code(failure: impl Into<CliError>) -> u8 {
        failure.into().exit_code()
    }

    #[test]
    fn a_request_that_has_no_answer_is_exit_code_1() {
        assert_eq!(exit_code(Error::InvalidCursor), 1);
        assert_eq!(exit_code(CliError::Check { failed: 1, total: 2 }), 1);
    }

    #[test]
    fn the_reason_of_a_failure_is_in_the_log_of_the_command() {
        let error = CliError::from(Error::Internal { plugin: "notes".to_owned() });
        assert_eq!(error.message(), "plugin `notes` failed; the log above says why");
    }

    #[test]
    fn a_wrong_config_is_exit_code_2() {
        assert_eq!(exit_code(Config::parse("x = 1", Path::new("x.toml")).unwrap_err()), 2);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        assert_eq!(exit_code(io::Error::from(io::ErrorKind::BrokenPipe)), 0);
        assert_eq!(exit_code(io::Error::from(io::ErrorKind::StorageFull)), 1);
    }
}
