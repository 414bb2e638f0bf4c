//! The help for errors of commands, unless the message contains it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mcp_host_base::time::saturating_millis;
use mcp_host_config::ConfigError;
use mcp_host_config::admin::AdminAddress;
use mcp_host_devkit::scaffold::{UpdateError, WriteError};
use mcp_host_model::resource::Error;

use super::CliError;
use crate::escape;
use mcp_resource_host::keyvalue::AdminError;

/// The help for a directory that is not a provider project.
const PROJECT_HELP: &str = "expected a directory with the sources of a provider and its config: `mcp-host new NAME` makes one, and \
                            `mcp-host dev NAME` builds and serves it";

/// The directory of components in an installation of this program.
fn installed() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.join("lib/mcp-host/plugins"))
}

impl CliError {
    /// Returns the help, unless the message contains it.
    pub(super) fn help(&self) -> Option<String> {
        match self {
            Self::Exposure(error) => Some(error.help()),
            Self::Admin(error) => error.help(),
            Self::Request(error) => request_help(error),
            Self::Resource { error, hint } => hint.clone().or_else(|| request_help(error)),
            Self::Componentize { error, .. } => error.help(),
            Self::ConfigExists { .. } => Some("name another file with `--config FILE`".to_owned()),
            Self::Command(error) => error.help(),
            Self::ExposedPaths { .. } => Some(
                "name a loopback address, such as `127.0.0.1:8080`; other machines are served with TLS, which needs a config: \
                 `mcp-host init` writes one"
                    .to_owned(),
            ),
            Self::ProjectName(_) | Self::NoProjectName { .. } => {
                Some("name another directory, such as `mcp-host new my-notes`".to_owned())
            }
            Self::Project(WriteError::Exists { .. }) => {
                Some("name a directory that does not exist, or one without these files".to_owned())
            }
            Self::Update(UpdateError::NoSdk { .. }) => {
                Some("name the directory of a project: `mcp-host new --update DIR`".to_owned())
            }
            Self::Update(UpdateError::Edited { .. }) => {
                Some("keep the edits elsewhere, and replace these files with `mcp-host new --update --force`".to_owned())
            }
            Self::NotUtf8 { .. } => Some("rename it, or a directory that it is in".to_owned()),
            Self::PassedSocket(_) => Some("write one `ListenStream=ADDRESS:PORT` in the `.socket` unit".to_owned()),
            Self::ProviderNotFound(error) => Some(format!(
                "correct the name or install its package; the path of a file has a slash or ends in `.wasm`: `./{}`",
                error.name
            )),
            Self::NoComponents { searched, command, .. } | Self::MissingComponents { searched, command, .. } => {
                let searched: Vec<_> = searched.iter().map(|dir| dir.display().to_string()).collect();
                Some(format!(
                    "name the directory with the components: `mcp-host {command} --plugins DIR`; in a clone of the repository, \
                     `cargo xtask plugins` builds them into target/plugins; packages have them in lib/mcp-host/plugins{}; searched: {}",
                    installed().map(|dir| format!(", which is {} for this program", dir.display())).unwrap_or_default(),
                    searched.join(", ")
                ))
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
            Self::NoPlugin { known, .. } if known.is_empty() => Some("it has none".to_owned()),
            Self::NoPlugin { known, .. } => Some(format!("it has {}", known.join(", "))),
            Self::Keyvalue(AdminError::NotGranted { granted, bucket, .. }) if granted.is_empty() => {
                Some(format!("it is granted no bucket at all: write `grants.keyvalue = [\"{bucket}\"]` below it"))
            }
            Self::Keyvalue(AdminError::NotGranted { granted, .. }) => Some(format!("it has {}", granted.join(", "))),
            Self::NoKey { plugin, bucket, .. } => {
                Some(format!("`mcp-host keyvalue list {plugin} {bucket}` prints its keys"))
            }
            Self::NoPrincipal { meant: Some(meant), .. } => Some(format!("did you mean `{meant}`?")),
            Self::NoPrincipal { known, .. } => Some(format!(
                "it has {}; one that an issuer, a client CA or an application authenticates is named `ISSUER/NAME`",
                known.join(", ")
            )),
            Self::NotAToken => Some("write the token only, without `token: ` before it".to_owned()),
            Self::Binary { .. } => Some("use `--output FILE`, or a pipe".to_owned()),
            Self::Collection { children, .. } => {
                Some(format!("use `--json` for all, or read one of:\n  {}", children.join("\n  ")))
            }
            Self::AdminListen { address: AdminAddress::Unix(_), source } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    Some("another process listens there: name another path in `admin.listen`".to_owned())
                }
                io::ErrorKind::AlreadyExists => {
                    Some("remove the file, or name another path in `admin.listen`".to_owned())
                }
                _ => Some("name a path in `admin.listen` where this user may create a socket".to_owned()),
            },
            Self::AdminListen { address: AdminAddress::Tcp(_), source } => listen_help("admin.listen", source),
            Self::Listen { setting, source, .. } => listen_help(setting, source),
            _ => None,
        }
    }
}

/// The help for an address that cannot be bound, from this option or config key.
fn listen_help(setting: &str, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "another process listens there: name another port in `{setting}`, or port 0 for any that is free"
        )),
        io::ErrorKind::PermissionDenied => Some(format!("name a port from 1024 up in `{setting}`")),
        io::ErrorKind::AddrNotAvailable => Some(format!("name an address of this machine in `{setting}`")),
        _ => None,
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
            "`mcp-host check` shows whether plugin `{plugin}` can be loaded; the log above shows what it did, \
             in more detail with `--log debug`"
        ),
        Error::Internal { plugin } => format!(
            "the log above shows what plugin `{plugin}` did, in more detail with `--log debug`; \
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

/// Names the build command if the config lacks only files, such as a component before the first build.
pub(super) fn build_help(error: &ConfigError) -> Option<String> {
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
    use super::*;

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
