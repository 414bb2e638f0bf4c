//! The domain of the host: URIs, resources, providers, principals. No wasmtime, no files, no network.
//!
//! | module | subject |
//! |---|---|
//! | [`uri`] | mounts, paths and URIs (RFC 3986), URI templates (RFC 6570), and which plugin owns a URI |
//! | [`resource`] | the domain types: a provider's answers after validation by the host |
//! | [`provider`] | the contract in Rust: the trait of native providers, and the answers of components |
//! | [`net`] | network origins, and patterns of them |
//! | [`json`] | the size of a JSON text as a tree |
//! | [`digest`] | the SHA-256 digest of a component file |
//! | [`principal`], [`requester`] | who makes a request, and the client whose share of a plugin the request uses |
//! | [`caller`] | the client on whose behalf a native provider is called |

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub mod caller;
pub mod digest;
pub mod json;
pub mod net;
pub mod principal;
pub mod provider;
pub mod requester;
pub mod resource;
pub mod uri;
