//! The imports of a component that this host cannot satisfy.
//!
//! wasmtime stops at the first one, but an author who rebuilds a component needs all of them. An import is
//! satisfied by name, and by version as in semantic versioning: `wasi:cli/environment@0.2.0` by any 0.2, a version
//! with a suffix (`0.2.0-draft`) only by the same version.

use std::fmt;

use mcp_host_base::text::prefix;
use semver::Version;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentInstance, ComponentItem};

/// The supported interfaces: packages with their versions, and the interfaces of each. `sandbox::state` links them.
const SUPPORTED_INTERFACES: &[(&str, &str, &[&str])] = &[
    ("mcp-host:sql", "0.1.0", &["databases"]),
    (
        "wasi:cli",
        "0.2.12",
        &[
            "environment",
            "exit",
            "stderr",
            "stdin",
            "stdout",
            "terminal-input",
            "terminal-output",
            "terminal-stderr",
            "terminal-stdin",
            "terminal-stdout",
        ],
    ),
    ("wasi:clocks", "0.2.12", &["monotonic-clock", "wall-clock"]),
    ("wasi:config", "0.2.0-rc.1", &["store"]),
    ("wasi:filesystem", "0.2.12", &["preopens", "types"]),
    ("wasi:http", "0.2.12", &["outgoing-handler", "types"]),
    ("wasi:io", "0.2.12", &["error", "poll", "streams"]),
    ("wasi:keyvalue", "0.2.0-draft", &["atomics", "batch", "store"]),
    ("wasi:keyvalue", "0.2.0-draft2", &["atomics", "batch", "store"]),
    ("wasi:logging", "0.1.0-draft", &["logging"]),
    ("wasi:random", "0.2.12", &["insecure", "insecure-seed", "random"]),
    (
        "wasi:sockets",
        "0.2.12",
        &["instance-network", "ip-name-lookup", "network", "tcp", "tcp-create-socket", "udp", "udp-create-socket"],
    ),
];

/// The maximum number of names of a kind in a message.
const MAX_LISTED_NAMES: usize = 20;
/// The maximum length of such a name in characters.
const MAX_NAME: usize = 80;
/// The maximum length of the engine's text about a mismatch, in bytes.
const MAX_MISMATCH: usize = 400;

/// The imports of a component that this host cannot satisfy, by name and version. `Display` is for messages: names
/// are escaped, and only the first few are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsatisfiedImports {
    /// Interfaces that this host does not know.
    pub unknown: Vec<String>,
    /// Interfaces that this host has in other versions, with those versions.
    pub other_version: Vec<(String, String)>,
    /// If all interfaces exist: the first mismatch, in wasmtime's words.
    pub mismatch: Option<String>,
}

impl UnsatisfiedImports {
    /// Collects the unsatisfied imports of a component that wasmtime cannot link because of `error`.
    pub(crate) fn new(component: &Component, error: &wasmtime::Error) -> Self {
        let (engine, ty) = (component.engine(), component.component_type());
        let imports = ty.imports(engine).filter(|(_, import)| is_needed(&import.ty, engine)).map(|(name, _)| name);
        let missing = Self::collect(imports);
        let is_explained = !missing.unknown.is_empty() || !missing.other_version.is_empty();
        Self { mismatch: (!is_explained).then(|| prefix(&format!("{error:#}"), MAX_MISMATCH).to_owned()), ..missing }
    }

    fn collect<'a>(imports: impl Iterator<Item = &'a str>) -> Self {
        let mut missing = Self::default();
        for name in imports {
            match support(name) {
                Support::Yes => {}
                Support::OtherVersion(version) => missing.other_version.push((name.to_owned(), version)),
                Support::No => missing.unknown.push(name.to_owned()),
            }
        }
        missing
    }
}

/// Whether an import is supported.
#[derive(Debug, PartialEq, Eq)]
enum Support {
    Yes,
    OtherVersion(String),
    No,
}

fn support(import: &str) -> Support {
    let (interface, wanted) = import.split_once('@').unwrap_or((import, ""));
    let found = SUPPORTED_INTERFACES.iter().filter(|(package, _, interfaces)| {
        let name = interface.strip_prefix(package).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| interfaces.contains(&name))
    });
    let versions: Vec<_> = found.map(|(_, version, _)| *version).collect();
    match &versions[..] {
        [] => Support::No,
        versions if versions.iter().any(|version| is_compatible(wanted, version)) => Support::Yes,
        versions => Support::OtherVersion(versions.join(" and ")),
    }
}

/// Returns whether wasmtime satisfies an import of version `wanted` by version `supported`.
fn is_compatible(wanted: &str, supported: &str) -> bool {
    let track = |version: &str| {
        let version = Version::parse(version).ok().filter(|version| version.pre.is_empty())?;
        match (version.major, version.minor) {
            (0, 0) => None,
            (0, minor) => Some((0, minor)),
            (major, _) => Some((major, 0)),
        }
    };
    wanted == supported || track(wanted).is_some_and(|wanted| track(supported) == Some(wanted))
}

/// Returns whether an import must be satisfied. Types alone need not be.
fn is_needed(import: &ComponentItem, engine: &wasmtime::Engine) -> bool {
    match import {
        ComponentItem::ComponentInstance(instance) => has_more_than_types(instance, engine),
        ComponentItem::Type(_) => false,
        _ => true,
    }
}

fn has_more_than_types(instance: &ComponentInstance, engine: &wasmtime::Engine) -> bool {
    instance.exports(engine).any(|(_, export)| is_needed(&export.ty, engine))
}

impl fmt::Display for UnsatisfiedImports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = self.unknown.iter().map(|name| quote(name));
        let other = self.other_version.iter().map(|(name, here)| format!("{} (here it is {here})", quote(name)));
        let parts = [join_truncated(unknown), join_truncated(other), self.mismatch.clone()];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Quotes a name from the component, which may be any text.
fn quote(name: &str) -> String {
    let shown: String = name.escape_debug().take(MAX_NAME).collect();
    let rest = if name.escape_debug().nth(MAX_NAME).is_some() { "…" } else { "" };
    format!("`{shown}{rest}`")
}

fn join_truncated(names: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let more = names.len().saturating_sub(MAX_LISTED_NAMES);
    let mut shown: Vec<_> = names.take(MAX_LISTED_NAMES).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::config::codegen_config;
    use super::*;
    use mcp_host_sandbox::state;

    #[test]
    fn what_is_said_to_be_here_is_here() {
        let engine = wasmtime::Engine::new(&codegen_config()).unwrap();
        let mut linker = state::linker(&engine).unwrap();
        linker.root().func_wrap("wasi:nn/tensor@0.2.0", |_, (): ()| Ok(())).unwrap();
        for (package, version, interfaces) in SUPPORTED_INTERFACES {
            for interface in *interfaces {
                let name = format!("{package}/{interface}@{version}");
                // An interface that is defined cannot be defined again.
                let again = linker.root().func_wrap(&name, |_, (): ()| Ok(()));
                assert!(again.is_err(), "{name}");
            }
        }
    }

    #[test]
    fn names_of_a_component_are_cut_in_messages() {
        let missing = UnsatisfiedImports {
            unknown: vec!["\u{1b}[2J".to_owned() + &"x".repeat(100_000); 30],
            other_version: Vec::new(),
            mismatch: None,
        };
        let text = missing.to_string();
        assert!(text.len() < 3000 && text.contains("\\u{1b}[2Jxxx") && text.ends_with("and 10 more"), "{text}");
    }

    #[test]
    fn all_that_a_provider_may_import_by_the_contract_is_here() {
        let world = include_str!("../contract/worlds.wit");
        let imports: Vec<_> = world.lines().filter_map(|line| line.trim().strip_prefix("import ")).collect();
        assert!(!imports.is_empty());
        for import in imports {
            assert_eq!(support(import.trim_end_matches(';')), Support::Yes, "{import}");
        }
    }

    #[test]
    fn versions_match_as_the_engine_matches_them() {
        for wanted in ["0.2.0", "0.2.6", "0.2.99"] {
            assert!(is_compatible(wanted, "0.2.12"), "{wanted}");
        }
        for wanted in ["0.3.0", "0.1.0", "0.2.0-rc-2023-11-10", "1.0.0", "", "0.2"] {
            assert!(!is_compatible(wanted, "0.2.12"), "{wanted}");
        }
        assert!(is_compatible("0.2.0-draft", "0.2.0-draft") && !is_compatible("0.2.0", "0.2.0-draft"));
        assert!(is_compatible("1.7.0", "1.2.0") && !is_compatible("0.0.1", "0.0.2"));
    }

    #[test]
    fn what_is_unknown_is_told_from_what_is_here_in_another_version() {
        let imports = [
            "wasi:nn/tensor@0.2.0",
            "wasi:io/poll@0.3.0",
            "wasi:io/error@0.2.0",
            "f",
            "wasi:io/x@0.2.0",
            "wasi:keyvalue/store@0.2.0",
        ];
        let missing = UnsatisfiedImports::collect(imports.into_iter());
        assert_eq!(missing.unknown, ["wasi:nn/tensor@0.2.0", "f", "wasi:io/x@0.2.0"]);
        let other = [("wasi:io/poll@0.3.0", "0.2.12"), ("wasi:keyvalue/store@0.2.0", "0.2.0-draft and 0.2.0-draft2")];
        assert_eq!(missing.other_version, other.map(|(name, here)| (name.to_owned(), here.to_owned())));
        let shown = "`wasi:nn/tensor@0.2.0`, `f`, `wasi:io/x@0.2.0`, `wasi:io/poll@0.3.0` (here it is 0.2.12), \
                     `wasi:keyvalue/store@0.2.0` (here it is 0.2.0-draft and 0.2.0-draft2)";
        assert_eq!(missing.to_string(), shown);
    }

    #[test]
    fn a_message_stays_short_and_on_one_line() {
        let missing =
            UnsatisfiedImports { unknown: vec!["a\n\u{1b}[2J".to_owned(); 900], ..UnsatisfiedImports::default() };
        let message = missing.to_string();
        assert!(message.starts_with(r"`a\n\u{1b}[2J`, ") && message.ends_with("and 880 more"), "{message}");
        assert!(message.len() < 1000);
    }
}
