//! A provider of an application's configuration and environment.
//!
//! The `README.md` of this crate is for users; for the code, see `route` for the meaning of paths, `format` for the
//! parsers of files, `environment` for variables as a layer, `merge` for layers and the origin of each value,
//! `effective` for the served document, and `redact` for the redaction of secrets. The crate `folder` has the walks and
//! change tokens.
//!
//! Files are untrusted data. Each parser limits the depth and the expanded size, and a fault names a line but never
//! quotes its text, which may be a secret.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows must fail"))]

mod effective;
mod entries;
mod environment;
mod format;
mod merge;
mod pointer;
mod provider;
mod redact;
mod route;
mod settings;
mod visibility;

pub use provider::Configuration;

mcp_provider::export!(Configuration);
mcp_provider::needs! {
    "dirs": [{ "guest": "/config", "mode": "ro", "why": "the directory of configuration files" }],
    "config": {
        "dir": { "type": "string", "default": "/config", "why": "the directory, at its guest path" },
        "defaults": { "type": "table", "why": "the lowest layer: the application's defaults" },
        "layers": { "type": "array", "why": "the files of the other layers, lowest first" },
        "env-prefix": { "type": "string", "why": "the prefix of the variables of the topmost layer; none without it" },
        "env-separator": { "type": "string", "default": "__", "why": "separates nested keys in a variable's name" },
        "formats": { "type": "table", "why": "the formats of other files, by name or extension" },
        "redact": { "type": "boolean", "default": true, "why": "hide what looks secret" },
        "secret-keys": { "type": "array", "why": "keys that are secret in addition, by name or JSON pointer" },
        "public-keys": { "type": "array", "why": "keys that are not secret, by name or JSON pointer" },
        "max-file": { "type": "string", "default": "1MiB", "why": "the largest file that is parsed" }
    }
}
