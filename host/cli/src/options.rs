//! Options that several commands share.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ColorChoice, ValueHint};
use mcp_host_base::text::quote;
use mcp_host_config::log::LogFilter;
use mcp_host_config::{ANONYMOUS, Config, LOCAL, TokenHolder};
use mcp_resource_host::access::Principal;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::error::CliError;
use super::logging;
use super::messages::Messages;

/// The defaults of options that have a variable. clap's `env` is not used: if a variable is set, it lists the option in
/// the usage line of every error, as if it were required.
static DEFAULT_CONFIG: LazyLock<OsString> = LazyLock::new(|| variable_or("MCP_HOST_CONFIG", "mcp-host.toml"));
static DEFAULT_LOG: LazyLock<OsString> = LazyLock::new(|| variable_or("MCP_HOST_LOG", "info"));

/// Returns whether the command line or the environment has a log filter.
pub(super) fn is_log_chosen(matches: &ArgMatches) -> bool {
    matches.value_source("log") != Some(ValueSource::DefaultValue) || std::env::var_os("MCP_HOST_LOG").is_some()
}

/// Returns whether the command line has a config.
pub(super) fn is_config_chosen(matches: &ArgMatches) -> bool {
    matches.value_source("config") == Some(ValueSource::CommandLine)
}

fn variable_or(name: &str, default: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| default.into())
}

/// Returns the choice of `--color` in the arguments of the process, which applies to errors of the command line, too:
/// these have no parsed arguments. An invalid choice is such an error itself.
pub(super) fn color(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    written_color(arguments).unwrap_or_default()
}

fn written_color(arguments: impl Iterator<Item = OsString>) -> Option<ColorChoice> {
    let mut arguments = arguments.take_while(|argument| argument != "--");
    loop {
        let argument = arguments.next()?;
        let Some(text) = argument.to_str() else { continue };
        if text == "--color" {
            return arguments.next()?.to_str()?.parse().ok();
        }
        if let Some(value) = text.strip_prefix("--color=") {
            return value.parse().ok();
        }
    }
}

/// ASCII characters that no URI contains (RFC 3986, section 2).
const NOT_IN_URIS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// Parses a URI as people type it: characters that URIs cannot contain, such as non-ASCII letters and spaces, are
/// percent-encoded (RFC 3987, section 3.1). Existing percent-encoding is kept.
#[allow(clippy::unnecessary_wraps, reason = "the form that clap calls")]
pub(super) fn parse_uri(text: &str) -> Result<String, Infallible> {
    Ok(utf8_percent_encode(text, NOT_IN_URIS).to_string())
}

/// The options of all commands.
#[derive(Args, Debug)]
#[command(next_help_heading = "Common options")]
pub(super) struct GlobalArgs {
    /// The config: plugins, access rules and limits [env: MCP_HOST_CONFIG] [default: mcp-host.toml]
    #[arg(long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG.as_os_str(), hide_default_value = true)]
    pub(super) config: PathBuf,

    /// The log filter: off, error, warn, info, debug or trace, also per target: `warn,mcp_host::guest=debug`
    /// [env: MCP_HOST_LOG] [default: info]
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        default_value = DEFAULT_LOG.as_os_str(),
        hide_default_value = true,
        value_hint = ValueHint::Other,
        value_parser = logging::filter
    )]
    pub(super) log: LogFilter,

    /// The format of the log [default: text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(super) log_format: Option<logging::Format>,

    /// When to color results, messages and the log
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,
}

/// The principal, for the commands that make requests.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct PrincipalArgs {
    /// Make the request as this principal, under its access rules: `local`, `anonymous`, a principal of the config, or
    /// `ISSUER/NAME` for a principal of this `[[issuer]]` or `client-ca`
    #[arg(long = "as", value_name = "PRINCIPAL", default_value = LOCAL, value_hint = ValueHint::Other)]
    name: String,

    /// Make the request as a member of this group, as a token would name it; may be repeated
    #[arg(long = "group", value_name = "GROUP", value_hint = ValueHint::Other)]
    groups: Vec<String>,
}

impl PrincipalArgs {
    /// Returns the principal, and notes groups that the config does not name.
    ///
    /// # Errors
    ///
    /// No principal of this name can exist with this config.
    pub(super) fn principal(&self, config: &Config, messages: &Messages) -> Result<Principal, CliError> {
        let principal = self.principal_in(config)?;
        if let Some(note) = self.unknown_groups(config) {
            messages.note(&note);
        }
        Ok(principal)
    }

    /// The note about groups that no part of the config names. They have no effect; tokens may name any group.
    fn unknown_groups(&self, config: &Config) -> Option<String> {
        let known = groups_of(config);
        let unknown = self.groups.iter().filter(|group| !known.contains(group.as_str())).map(|group| quote(group));
        let unknown = unknown.collect::<Vec<_>>().join(", ");
        if unknown.is_empty() {
            return None;
        }
        if known.is_empty() {
            return Some("the config names no group, so `--group` has no effect".to_owned());
        }
        let known = known.into_iter().map(quote).collect::<Vec<_>>().join(", ");
        Some(format!("the config names no group {unknown}; its groups are {known}"))
    }

    /// Returns the principal.
    pub(super) fn principal_in(&self, config: &Config) -> Result<Principal, CliError> {
        let name = self.name.as_str();
        let principal = match name {
            LOCAL => Principal::LOCAL,
            ANONYMOUS => Principal::ANONYMOUS,
            _ if config.has_principal(name) => Principal::new(name),
            _ => {
                let meant = config.nearest_principal(name).map(str::to_owned);
                let known = config.principal_names().map(str::to_owned).collect();
                return Err(CliError::NoPrincipal { name: name.to_owned(), meant, known });
            }
        };
        Ok(principal.with_groups(self.groups.iter().map(String::as_str)))
    }
}

/// The names of groups in the config: its own, and those of issuers and applications that it gives something to.
fn groups_of(config: &Config) -> BTreeSet<&str> {
    let declared = config.groups.iter().flat_map(|group| {
        let parts = group.groups.iter().map(String::as_str);
        std::iter::once(group.name.as_str()).chain(parts)
    });
    let of_rules = config.rules.iter().flat_map(|rule| &rule.groups).map(String::as_str);
    let upstreams = config.plugins.iter().filter_map(|plugin| plugin.upstream.as_ref());
    let of_tokens = upstreams.flat_map(|upstream| &upstream.identities).filter_map(|token| match &token.holder {
        TokenHolder::Group(name) => Some(name.as_str()),
        TokenHolder::Principal(_) => None,
    });
    declared.chain(of_rules).chain(of_tokens).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_color_of_errors_is_that_of_the_option_wherever_it_stands() {
        let color = |line: &str| color(line.split_whitespace().map(OsString::from));
        assert_eq!(color("mcp-host --color never chekc"), ColorChoice::Never);
        assert_eq!(color("mcp-host list --tamplates --color=always"), ColorChoice::Always);
        for line in ["mcp-host", "mcp-host --color", "mcp-host --color=nevr", "mcp-host -- --color never"] {
            assert_eq!(color(line), ColorChoice::Auto, "{line}");
        }
    }

    #[test]
    fn a_group_that_the_config_does_not_name_is_noted_with_those_that_it_names() {
        let text = "[[plugin]]\nname = 'a'\nmount = 'a:///'\ncomponent = 'absent.wasm'\n\
                    [[group]]\nname = 'team'\ngroups = ['corp/eng']\n\
                    [[rule]]\ngroups = ['corp/ops']\nallow = ['a:///**']\n";
        let error = Config::parse(text, Path::new("mcp-host.toml")).unwrap_err();
        let config = error.config_without_secrets().unwrap();
        let note = |groups: &[&str], config: &Config| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            PrincipalArgs { name: LOCAL.to_owned(), groups }.unknown_groups(config)
        };
        assert_eq!(note(&[], config), None);
        assert_eq!(note(&["team", "corp/eng", "corp/ops"], config), None);
        assert_eq!(
            note(&["corp/ops", "taem"], config).unwrap(),
            "the config names no group `taem`; its groups are `corp/eng`, `corp/ops`, `team`"
        );
        assert!(note(&["team"], &Config::new()).unwrap().starts_with("the config names no group, so "));
    }
}
