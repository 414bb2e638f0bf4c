//! Capabilities: kinds of access to the outside world that a provider may have and an admin agrees to.
//!
//! | capability | source |
//! |---|---|
//! | `dirs:ro`, `dirs:rw` | a need of a directory |
//! | `http:ORIGIN` | a need of an origin, `http:https://*.example.com` |
//! | `sql:NAME`, `env:NAME` | a need of a database, of a variable |
//! | `keyvalue` | a need of a bucket, or the import |
//! | `limit:KEY=AMOUNT` | a need of a limit, `limit:memory=256MiB`; a higher one covers lower ones of the same key |
//! | `dirs`, `http`, `sql`, `env` | the import of the interfaces, if no need declares a specific target |
//! | `sockets` | the import, which the host denies in any case |
//!
//! A capability without a target covers only itself, and the grants limit what the provider reaches. `dirs:rw` covers
//! `dirs:ro`, and a pattern covers the origins that match it. The imports of a component are facts. Its needs are
//! declared by the publisher, and are part of the component's digest.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use mcp_host_base::text::quote;
use mcp_host_config::grants::{DatabaseName, EnvName};
use mcp_host_config::limits::{LimitAmount, LimitKey};
use mcp_host_model::net::{Origin, OriginPattern};

/// A capability of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// An import without a matching need.
    Import(Kind),
    /// Reading granted directories.
    DirsRead,
    /// Writing to granted directories.
    DirsWrite,
    /// Requests to an origin, if granted.
    Http(OriginPattern),
    /// A database, if granted.
    Sql(String),
    /// Persistent key-value data.
    Keyvalue,
    /// An environment variable, if granted.
    Env(String),
    /// An amount of a limit, if the limit of the plugin is that high.
    Limit(LimitKey, LimitAmount),
}

/// A kind of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Directories.
    Dirs,
    /// Outbound HTTP.
    Http,
    /// SQL databases.
    Sql,
    /// Key-value buckets.
    Keyvalue,
    /// Environment variables.
    Env,
    /// Resource limits.
    Limits,
    /// Sockets, which are always denied.
    Sockets,
    /// An unknown interface: a component that imports it is not loaded.
    Unknown,
}

/// A text that is not a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a capability; write one as `update` prints it: `dirs:ro`, `dirs:rw`, `http:https://api.example.com`, `sql:NAME`, \
     `keyvalue`, `env:NAME`, `limit:memory=256MiB`",
    quote(.0)
)]
pub struct CapabilityError(String);

impl Kind {
    /// The kinds of imports.
    const IMPORTED: [Self; 7] =
        [Self::Dirs, Self::Http, Self::Sql, Self::Keyvalue, Self::Env, Self::Sockets, Self::Unknown];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dirs => "dirs",
            Self::Http => "http",
            Self::Sql => "sql",
            Self::Keyvalue => "keyvalue",
            Self::Env => "env",
            Self::Limits => "limit",
            Self::Sockets => "sockets",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the kind of an interface; `None` for an interface without access outside of its instance, apart from the
    /// log.
    pub fn of_import(import: &str) -> Option<Self> {
        let interface = import.split('@').next().unwrap_or(import);
        let (package, name) = interface.split_once('/').unwrap_or((interface, ""));
        match (package, name) {
            ("wasi:filesystem", _) => Some(Self::Dirs),
            ("wasi:http", "outgoing-handler") => Some(Self::Http),
            ("wasi:keyvalue", _) => Some(Self::Keyvalue),
            ("mcp-host:sql", _) => Some(Self::Sql),
            ("wasi:cli", "environment") => Some(Self::Env),
            ("wasi:sockets", _) => Some(Self::Sockets),
            ("wasi:cli" | "wasi:clocks" | "wasi:config" | "wasi:io" | "wasi:logging" | "wasi:random", _)
            | ("wasi:http", "types")
            | ("mcp-host:provider", _) => None,
            _ => Some(Self::Unknown),
        }
    }
}

impl Capability {
    /// Returns the kind of the capability.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Import(kind) => *kind,
            Self::DirsRead | Self::DirsWrite => Kind::Dirs,
            Self::Http(_) => Kind::Http,
            Self::Sql(_) => Kind::Sql,
            Self::Keyvalue => Kind::Keyvalue,
            Self::Env(_) => Kind::Env,
            Self::Limit(..) => Kind::Limits,
        }
    }

    /// Returns whether an agreement to this capability includes the other one.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::DirsWrite, Self::DirsRead) => true,
            (Self::Http(pattern), Self::Http(wanted)) => {
                pattern == wanted || wanted.exact().is_some_and(|origin: &Origin| pattern.matches(origin))
            }
            (Self::Limit(key, agreed), Self::Limit(wanted_key, wanted)) => key == wanted_key && agreed >= wanted,
            // An import without a declared need may be used for anything, so only the same capability covers it.
            _ => self == other,
        }
    }

    /// Returns the capabilities of a component: its declared needs, and its imports without a need.
    pub fn of<'i>(needs: BTreeSet<Self>, imports: impl IntoIterator<Item = &'i str>) -> BTreeSet<Self> {
        let imported: BTreeSet<Kind> = imports.into_iter().filter_map(Kind::of_import).collect();
        let mut all = needs;
        for kind in imported {
            if !all.iter().any(|need| need.kind() == kind) {
                all.insert(if kind == Kind::Keyvalue { Self::Keyvalue } else { Self::Import(kind) });
            }
        }
        all
    }
}

/// Returns the capabilities that the agreed ones do not cover.
pub fn missing<'w>(wanted: &'w BTreeSet<Capability>, agreed: &BTreeSet<Capability>) -> Vec<&'w Capability> {
    wanted.iter().filter(|wanted| !agreed.iter().any(|agreed| agreed.covers(wanted))).collect()
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(kind) => f.write_str(kind.name()),
            Self::DirsRead => f.write_str("dirs:ro"),
            Self::DirsWrite => f.write_str("dirs:rw"),
            Self::Http(origin) => write!(f, "http:{origin}"),
            Self::Sql(name) => write!(f, "sql:{name}"),
            Self::Keyvalue => f.write_str("keyvalue"),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::Limit(key, amount) => write!(f, "limit:{key}={amount}"),
        }
    }
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let invalid = || CapabilityError(text.to_owned());
        match text.split_once(':') {
            None if text == "keyvalue" => Ok(Self::Keyvalue),
            None => Kind::IMPORTED.into_iter().find(|kind| kind.name() == text).map(Self::Import).ok_or_else(invalid),
            Some(("dirs", "ro")) => Ok(Self::DirsRead),
            Some(("dirs", "rw")) => Ok(Self::DirsWrite),
            Some(("http", origin)) => origin.parse().map(Self::Http).map_err(|_| invalid()),
            Some(("sql", name)) => {
                name.parse::<DatabaseName>().map(|name| Self::Sql(name.to_string())).map_err(|_| invalid())
            }
            Some(("env", name)) => {
                name.parse::<EnvName>().map(|name| Self::Env(name.to_string())).map_err(|_| invalid())
            }
            Some(("limit", limit)) => {
                let (key, amount) = limit.split_once('=').ok_or_else(invalid)?;
                let key: LimitKey = key.parse().map_err(|_| invalid())?;
                key.parse(amount).map(|amount| Self::Limit(key, amount)).map_err(|_| invalid())
            }
            Some(_) => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<Capability> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_capability_is_read_as_it_is_shown() {
        for text in [
            "dirs",
            "dirs:ro",
            "dirs:rw",
            "http",
            "http:https://*.example.com",
            "sql:shop",
            "keyvalue",
            "env:LANG",
            "limit:memory=256MiB",
            "limit:prepare.cpu=5m",
            "limit:http.rate=600/m",
            "sockets",
        ] {
            assert_eq!(text.parse::<Capability>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "dirs:x",
            "http:docs.rs",
            "files",
            "keyvalue:pages",
            "env:",
            "sql:a b",
            "dirs:",
            "limit",
            "limit:memory",
            "limit:cpus=1s",
            "limit:memory=1TiB",
        ] {
            assert!(text.parse::<Capability>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_agreed_covers_less_and_never_more() {
        for (agreed, wanted, is_covered) in [
            (&["dirs:rw"][..], "dirs:ro", true),
            (&["dirs:ro"], "dirs:rw", false),
            (&["dirs"], "dirs:ro", false),
            (&["dirs:rw"], "dirs", false),
            (&["dirs"], "dirs", true),
            (&["http:https://*.example.com"], "http:https://a.example.com", true),
            (&["http:https://a.example.com"], "http:https://*.example.com", false),
            (&["http:https://a.example.com"], "http:https://b.example.com", false),
            (&["http:https://a.example.com"], "http:http://a.example.com", false),
            (&["env:A"], "env:B", false),
            (&["env:A"], "env", false),
            (&[], "keyvalue", false),
            (&["keyvalue"], "sql:a", false),
            (&["limit:memory=256MiB"], "limit:memory=64MiB", true),
            (&["limit:memory=256MiB"], "limit:memory=257MiB", false),
            (&["limit:memory=256MiB"], "limit:prepare.memory=1MiB", false),
        ] {
            assert_eq!(missing(&set(&[wanted]), &set(agreed)).is_empty(), is_covered, "{agreed:?} {wanted}");
        }
    }

    #[test]
    fn an_import_counts_where_no_need_explains_it() {
        let imports = [
            "wasi:filesystem/types@0.2.6",
            "wasi:filesystem/preopens@0.2.6",
            "wasi:cli/environment@0.2.6",
            "wasi:http/outgoing-handler@0.2.0",
            "wasi:http/types@0.2.0",
            "wasi:keyvalue/store@0.2.0-draft2",
            "wasi:clocks/wall-clock@0.2.6",
            "mcp-host:sql/query@0.1.0",
            "wasi:sockets/tcp@0.2.6",
        ];
        let all = Capability::of(set(&["http:https://docs.rs", "dirs:ro"]), imports);
        assert_eq!(all, set(&["http:https://docs.rs", "dirs:ro", "keyvalue", "env", "sql", "sockets"]));
        let all = Capability::of(BTreeSet::new(), ["wasi:nn/tensor@0.2.0", "wasi:http/incoming-handler@0.2.6"]);
        assert_eq!(all, set(&["unknown"]), "an interface that nobody has classified is not harmless");
    }

    #[test]
    fn every_interface_of_the_contract_is_classified() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/deps");
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let package = text.lines().find_map(|line| line.strip_prefix("package ")?.split('@').next()).unwrap();
            for interface in text.lines().filter_map(|line| line.strip_prefix("interface ")?.strip_suffix(" {")) {
                let import = format!("{package}/{interface}@0.2.6");
                assert_ne!(Kind::of_import(&import), Some(Kind::Unknown), "{import}");
                count += 1;
            }
        }
        assert!(count >= 15, "{count}");
    }
}
