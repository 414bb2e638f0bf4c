//! Components from OCI registries: resolves a reference, verifies its component, stores it by its digest, and locks it.
//!
//! Only the commands of an admin use this crate (`mcp-host add`, `lock`, `update`, `store fetch`, `push`). Serving
//! reads the config, the lock and the store (`mcp_host_config::registry`), and never requests a registry.
//!
//! The order of [`Registries::obtain`], in which each step relies only on the steps before it:
//!
//! | step | module |
//! |---|---|
//! | the newest tag within the range, by semantic versioning | `versions` |
//! | the bytes of the manifest, once, and their digest | `client` |
//! | signature bundles that refer to that digest; "none" and "unavailable" are different results | `referrers` |
//! | signatures by keys and identities of `[[trust]]`, over exactly those bytes; the required provenance | `bundle`, `keyless`, `statement`, `trust` |
//! | exactly one layer `application/wasm`, of at most [`MAX_COMPONENT_SIZE`](manifest::MAX_COMPONENT_SIZE) bytes | `manifest` |
//! | the layer, hashed while it is written, under its digest | `store` |
//! | bills of materials, which are shown but not trusted | `sbom` |
//!
//! Each step requests mirrors first: registries (`client`), or directories with an OCI image layout (`directory`).
//!
//! Then the caller inspects the component in the confined compiler process, compares its [capabilities](Capability)
//! with the agreed ones, and writes the [lock](LockFile).
//!
//! Data from a registry is not trusted before it is verified, and everything is bounded: `http` has timeouts and size
//! limits, redirects carry no credentials to another host, and names must resolve to public addresses unless the config
//! lists them. Texts of publishers are escaped in messages.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod auth;
mod bundle;
mod capability;
mod client;
mod directory;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod keyless;
mod layout;
mod lock_file;
mod manifest;
mod place;
mod push;
mod referrers;
mod registries;
mod sbom;
mod signer;
mod statement;
mod store;
mod trust;
mod verify;
mod versions;

pub use self::capability::{Capability, CapabilityError, Kind, missing};
pub use self::error::RegistryError;
pub use self::http::HttpError;
pub use self::layout::{LayoutError, export, import};
pub use self::lock_file::{LockFile, LockFileError};
pub use self::manifest::MAX_COMPONENT_SIZE;
pub use self::push::{Attachment, AttachmentError, Published, Upload};
pub use self::registries::{Available, Obtained, Registries};
pub use self::sbom::{SbomSummary, Sboms};
pub use self::signer::{Signer, SignerError};
pub use self::store::{Collected, Store, StoreError};
pub use self::verify::{Problem, verify, verify_new, verify_one};
