//! A provider of a directory of files of any type.
//!
//! The `README.md` of this crate is for users; for the code, see `route` for the meaning of paths, `visibility` for
//! which files are served, `probe` for the detection of types, `encoding` for the encodings of text, `content` for the
//! content that a read returns, `range` for parts, and `convert` for documents as text. The crate `folder` has the
//! walks, pages and change tokens.
//!
//! Two requirements shape the code. A directory may have a million files, and a file may have any size, so no list of
//! names and no file is held as a whole. And both are untrusted data: a file of any content is served with its real
//! type, or refused with the reason.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows must fail"))]

mod content;
mod convert;
mod entries;
mod probe;
mod provider;
mod range;
mod route;
mod settings;
mod visibility;

pub use provider::Files;

mcp_provider::export!(Files);
mcp_provider::needs! {
    "dirs": [{ "guest": "/files", "mode": "ro", "why": "the directory that is served" }],
    "config": {
        "dir": { "type": "string", "default": "/files", "why": "the directory, at its guest path" },
        "dotfiles": { "type": "boolean", "default": false, "why": "serve names that begin with a dot" },
        "env-files": { "type": "boolean", "default": false, "why": "serve .env and the like" },
        "ignored": { "type": "boolean", "default": false, "why": "serve what git ignores" },
        "encoding": { "type": "string", "why": "the encoding of text that is not UTF-8; detected unless set" },
        "max-read": { "type": "string", "default": "1MiB", "why": "the most that one read returns of a file" },
        "max-document": { "type": "string", "default": "16MiB", "why": "the largest document that is converted to text" }
    }
}
