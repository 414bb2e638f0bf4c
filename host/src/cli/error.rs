//! Why a command failed: the message, the help, and the exit code.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::escape;
use super::messages::Messages;
use crate::componentize::ComponentizeError;
use crate::config::diagnostics::RenderStyle;
use crate::config::{ConfigError, ExposureError};
use crate::confinement::ConfinementError;
use crate::host::{InspectError, StartError};
use crate::plugin::LoadError;
use crate::quote::quote;
use crate::resource::Error;
use crate::sandbox::keyvalue::admin::AdminError;
use crate::scaffold::{ArchiveError, NameError, WriteError};
use crate::server::ServeError;
use crate::time::saturating_millis;

/// Something failed.
const EXIT_FAILURE: u8 = 1;
/// The command line or the config is invalid.
const EXIT_USAGE: u8 = 2;

/// What to do about a directory that is no provider project.
const PROJECT_HELP: &str = "expected a directory with the sources of a provider and its config: `mcp-host new NAME` makes one, and \
                            `mcp-host dev NAME` builds and serves it";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server must not listen at the address of the command line.
    #[error(transparent)]
    Exposure(#[from] ExposureError),
    /// The host does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// This process cannot be confined.
    #[error("`server.confine` cannot be applied: {0}")]
    Confinement(#[from] ConfinementError),
    /// A component cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A component cannot be inspected.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// No component can be made of a core module.
    #[error("{}: {error}", file.display())]
    Componentize {
        /// The module.
        file: PathBuf,
        /// The reason.
        error: ComponentizeError,
    },
    /// The config has no plugin of that name.
    #[error("the config has no plugin `{name}`")]
    NoPlugin {
        /// The requested name.
        name: String,
        /// The names of its plugins.
        known: Vec<String>,
    },
    /// No rule of the config could name the principal.
    #[error("the config has no principal {}", quote(name))]
    NoPrincipal {
        /// The requested name.
        name: String,
        /// The names of the built-in principals, and of its own.
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
    /// `test` found that a provider does not keep the contract.
    #[error("{failed} {} failed", if *.failed == 1 { "check" } else { "checks" })]
    Conformance {
        /// The number of checks that failed.
        failed: usize,
    },
    /// `dev` was given a directory that cannot be opened.
    #[error("the directory {} cannot be opened: {source}", dir.display())]
    ProjectDir {
        /// The directory.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// `dev` was given a directory without a config.
    #[error("{} is no provider project: there is no {}", dir.display(), file.display())]
    NoProject {
        /// The directory.
        dir: PathBuf,
        /// The file.
        file: PathBuf,
        /// The path of a component that a project of its kind builds; none if nothing is built there.
        example: Option<&'static str>,
    },
    /// Nothing says how to build a project.
    #[error("nothing says how to build the project in {}", dir.display())]
    NoBuildCommand {
        /// Its directory.
        dir: PathBuf,
        /// Its config.
        config: PathBuf,
        /// A command that a project of its kind is built by.
        example: &'static str,
    },
    /// No package name can be made of the directory's name.
    #[error(transparent)]
    ProjectName(#[from] NameError),
    /// `new` was given a directory without a name.
    #[error("`{}` has no last segment to name the project by", dir.display())]
    NoProjectName {
        /// The directory.
        dir: PathBuf,
    },
    /// The project cannot be written.
    #[error(transparent)]
    Project(#[from] WriteError),
    /// The archive of templates cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// `doctor` found that tools are missing.
    #[error("{count} {} missing, too old or not working", if *.count == 1 { "tool is" } else { "tools are" })]
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
        /// What the principal can do there instead.
        hint: Option<String>,
    },
    /// `init` found a config.
    #[error("{} exists already; it was not changed", file.display())]
    ConfigExists {
        /// The file.
        file: PathBuf,
    },
    /// `init` found neither a git repository nor Markdown files.
    #[error("{} has neither a git repository nor Markdown files{}", dir.display(), found_within(*.limit))]
    NothingToServe {
        /// The directory.
        dir: PathBuf,
        /// The number of directory entries after which the search for Markdown files ended, if it was not complete.
        limit: Option<usize>,
    },
    /// A path cannot be part of a config.
    #[error("the path `{}` is not UTF-8, and a config is", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// `init` did not find the components of the plugins.
    #[error("there is no directory with `{names}`")]
    NoComponents {
        /// The names of their files.
        names: String,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// The content is binary, and standard output is a terminal.
    #[error("{uri} is binary ({kind_and_size}) and standard output is a terminal")]
    Binary {
        /// The resource.
        uri: String,
        /// Its type and size.
        kind_and_size: String,
    },
    /// The response has the contents of none or several resources below the requested one, and only one can be written.
    #[error("{uri} has the contents of {} resources in its response, and only one can be written", children.len())]
    Collection {
        /// The requested resource.
        uri: String,
        /// The resources in the response.
        children: Vec<String>,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
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
    /// `token hash` got a text that no client can send as a token.
    #[error(
        "the first line of standard input is not a token: it has spaces, control characters or characters beyond ASCII"
    )]
    NotAToken,
    /// `explain` found that the operation is denied, which it has printed.
    #[error("denied")]
    Denied,
    /// Standard output cannot be written to.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// Errors without a case of their own, such as missing threads or signals.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

/// How far the search for Markdown files went.
fn found_within(limit: Option<usize>) -> String {
    limit.map(|limit| format!(" among its first {limit} entries")).unwrap_or_default()
}

impl CliError {
    /// Prints the message and the help.
    pub(super) fn report(&self, messages: &Messages) {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Self::Denied => {}
            // It escapes what is foreign itself, and its colours are its own.
            Self::Config(error) => {
                messages.print_line(&error.render(if messages.is_colored() {
                    RenderStyle::Ansi
                } else {
                    RenderStyle::Plain
                }));
                if let Some(help) = build_help(error) {
                    messages.help(&help);
                }
            }
            _ => {
                messages.error(&self.to_string());
                if let Some(help) = self.help() {
                    messages.help(&help);
                }
            }
        }
    }

    /// Returns the exit code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            // Whoever read the output has had enough, as `head` has.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Config(_)
            | Self::Exposure(_)
            | Self::NoPlugin { .. }
            | Self::Keyvalue(AdminError::NotGranted { .. })
            | Self::NoPrincipal { .. }
            | Self::ProjectDir { .. }
            | Self::NoProject { .. }
            | Self::NoBuildCommand { .. }
            | Self::ProjectName(_)
            | Self::NoProjectName { .. } => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }

    /// Returns what to do about it, unless the message says so.
    fn help(&self) -> Option<String> {
        match self {
            Self::Exposure(error) => Some(error.help()),
            Self::Request(error) => request_help(error),
            Self::Resource { error, hint } => hint.clone().or_else(|| request_help(error)),
            Self::Componentize { error, .. } => error.help(),
            Self::ConfigExists { .. } => Some("name another file with `--config FILE`".to_owned()),
            Self::NothingToServe { .. } => {
                Some(
                    "run it at the root of a git repository (with `.git`, or bare), or in a directory with Markdown files, at \
                     most three directories deep; or write a config: docs/config.md"
                        .to_owned(),
                )
            }
            Self::ProjectName(_) | Self::NoProjectName { .. } => {
                Some("name another directory, such as `mcp-host new my-notes`".to_owned())
            }
            Self::Project(WriteError::Exists { .. }) => {
                Some("name a directory that does not exist, or one without these files".to_owned())
            }
            Self::NotUtf8 { .. } => Some("rename it; nothing was written".to_owned()),
            Self::NoComponents { searched, .. } => {
                let searched: Vec<_> = searched.iter().map(|dir| dir.display().to_string()).collect();
                Some(format!("name it with `--plugins DIR`; searched: {}", searched.join(", ")))
            }
            Self::ProjectDir { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(PROJECT_HELP.to_owned()),
            Self::NoProject { example: None, .. } => Some(PROJECT_HELP.to_owned()),
            Self::NoProject { example: Some(example), .. } => Some(format!(
                "write it, with the component that the build makes, or start another project with `mcp-host new NAME`:\n\
                 [[plugin]]\nname = \"provider\"\ncomponent = \"{example}\"\nmount = \"provider:///\""
            )),
            Self::NoBuildCommand { config, example, .. } => Some(format!(
                "expected a `Cargo.toml`, a `package.json` with the script `build`, or a `Makefile`; without one, add the command to \
                 {}, as the projects of `mcp-host new NAME` have it, or use `--build COMMAND`:\n[dev]\nbuild = \"{example}\"",
                config.display()
            )),
            Self::NoPlugin { known, .. } => Some(format!("it has {}", known.join(", "))),
            Self::Keyvalue(AdminError::NotGranted { granted, bucket, .. }) if granted.is_empty() => {
                Some(format!("it is granted no bucket at all: write `grants.keyvalue = [\"{bucket}\"]` below it"))
            }
            Self::Keyvalue(AdminError::NotGranted { granted, .. }) => Some(format!("it has {}", granted.join(", "))),
            Self::NoKey { plugin, bucket, .. } => {
                Some(format!("`mcp-host keyvalue list {plugin} {bucket}` prints its keys"))
            }
            Self::NoPrincipal { known, .. } => Some(format!(
                "it has {}; one that an issuer, a client CA or an application authenticates is named `ISSUER/NAME`",
                known.join(", ")
            )),
            Self::NotAToken => Some("write the token only, without `token: ` before it".to_owned()),
            Self::Binary { .. } => Some("use `--output FILE`, or a pipe".to_owned()),
            Self::Collection { children, .. } => {
                Some(format!("use `--json` for all, or read one of:\n  {}", children.join("\n  ")))
            }
            Self::Listen { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => Some("name another port, or port 0 for any that is free".to_owned()),
                io::ErrorKind::PermissionDenied => Some("name a port from 1024 up".to_owned()),
                _ => None,
            },
            _ => None,
        }
    }
}

fn request_help(error: &Error) -> Option<String> {
    let help = match error {
        Error::NotFound { .. } => {
            "`mcp-host list` shows the resources, `mcp-host list --templates` the templates of others".to_owned()
        }
        Error::Unavailable { retry_after: Some(after), .. } => {
            format!("try again in {}", humantime::format_duration(Duration::from_millis(saturating_millis(*after))))
        }
        Error::Unavailable { plugin, .. } => format!(
            "`mcp-host check` says whether plugin `{plugin}` can be loaded; the log above, in more detail with `--log debug`, \
             says what it did"
        ),
        Error::Internal { plugin } => format!(
            "the log above, in more detail with `--log debug`, says what plugin `{plugin}` did; \
             `mcp-host test FILE.wasm --plugin {plugin}` tests it, and shows exceptions"
        ),
        Error::InvalidRequest { .. }
        | Error::InvalidCursor
        | Error::Denied { .. }
        | Error::AuditUnavailable
        | Error::ShuttingDown => return None,
    };
    Some(help)
}

/// Says how the project is built, if all that its config lacks are files, such as a component before the first build.
fn build_help(error: &ConfigError) -> Option<String> {
    let build = error.partial_config()?.dev.as_ref()?.build.as_ref()?;
    let command = build.as_str().trim();
    let command = command.lines().next().filter(|first| first.len() == command.len());
    let command = command.map(|command| format!("`{}`", escape::line(command)));
    Some(format!(
        "if it is what this project builds, build it: {}, or `mcp-host dev`, which does so on every save",
        command.as_deref().unwrap_or("the command of `[dev]`")
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn exit_code(failure: impl Into<CliError>) -> u8 {
        failure.into().exit_code()
    }

    #[test]
    fn a_request_that_has_no_answer_is_exit_code_1() {
        assert_eq!(exit_code(Error::InvalidCursor), 1);
        assert_eq!(exit_code(CliError::Check { failed: 1, total: 2 }), 1);
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

    #[test]
    fn a_resource_that_is_not_there_is_an_occasion_to_look_what_is() {
        let help = CliError::from(Error::NotFound { uri: "notes:///x".to_owned() }).help().unwrap();
        assert!(help.contains("mcp-host list"), "{help}");
    }

    #[test]
    fn a_plugin_that_failed_can_be_tested() {
        let help = CliError::from(Error::Internal { plugin: "notes".to_owned() }).help().unwrap();
        assert!(help.contains("mcp-host test FILE.wasm --plugin notes"), "{help}");
    }

    #[test]
    fn when_another_try_makes_sense_is_said_as_people_say_it() {
        let busy = Error::Unavailable {
            plugin: "notes".to_owned(),
            reason: "it is busy".to_owned(),
            retry_after: Some(Duration::from_millis(1500)),
        };
        assert_eq!(CliError::from(busy).help().unwrap(), "try again in 1s 500ms");
    }

    #[test]
    fn a_collection_says_what_can_be_read_instead() {
        let children = vec!["notes:///a".to_owned(), "notes:///b".to_owned()];
        let failure = CliError::Collection { uri: "notes:///".to_owned(), children };
        assert!(failure.to_string().contains("2 resources"));
        assert!(failure.help().unwrap().ends_with("\n  notes:///a\n  notes:///b"));
    }
}
