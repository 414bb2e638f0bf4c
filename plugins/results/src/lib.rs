//! A provider of the results of analyses.
//!
//! The `README.md` of this crate is for users and for writers of results; for the code, see `route` for the meaning of
//! paths, `metadata` for the file that publishes a result, `catalog` for the published results, and `entries` for their
//! description. The crate `folder` has the walks and change tokens.
//!
//! A result is published by its metadata file, which is written last. Nothing is cached between calls, so a result
//! appears as soon as that file exists, and disappears when it expires.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows must fail"))]

mod catalog;
mod entries;
mod metadata;
mod provider;
mod route;
mod settings;

pub use provider::Results;

mcp_provider::export!(Results);
mcp_provider::needs! {
    "dirs": [{ "guest": "/results", "mode": "ro", "why": "the directory of results" }],
    "config": {
        "dir": { "type": "string", "default": "/results", "why": "the directory, at its guest path" },
        "max-file": { "type": "string", "default": "16MiB", "why": "the largest file of a result that is read" }
    }
}
