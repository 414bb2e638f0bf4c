//! Why a component of a registry cannot be had. What a registry or a publisher wrote is escaped.

use mcp_host_config::registry::{Reference, Source};
use mcp_host_model::digest::Digest;

use crate::http::HttpError;
use crate::store::StoreError;

/// Why a component of a registry cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No `[[trust]]` is for the source.
    #[error(
        "no `[[trust]]` of the config is for `{source_reference}`, so nothing from there is accepted; {}",
        nearest.as_ref().map_or_else(
            || "add one with the keys of its publisher".to_owned(),
            |nearest| format!("there is one for `{nearest}`: was that meant?")
        )
    )]
    Untrusted {
        /// The reference.
        source_reference: Box<Reference>,
        /// A source that was probably meant.
        nearest: Option<Source>,
    },
    /// Nothing is published, because what was to be published is not right.
    #[error("nothing was published: {0}")]
    Unpublished(String),
    /// A registry and its mirrors did not answer, or with an error.
    #[error("{what}: {}", list(.causes))]
    Unavailable {
        /// What was requested.
        what: String,
        /// What each of them did.
        causes: Vec<String>,
    },
    /// The registry has no such repository or version.
    #[error("{0}")]
    NotFound(String),
    /// The answer is not what it must be.
    #[error("the registry's answer cannot be used: {0}")]
    Invalid(String),
    /// The manifest has no signature.
    #[error(
        "`{source_reference}` has no signature: the manifest {manifest} is not signed{hint}; ask its publisher to sign it, or, if \
         anybody who can write to the registry may decide what runs, say `unsigned = true` in its `[[trust]]`"
    )]
    Unsigned {
        /// The reference.
        source_reference: Box<Reference>,
        /// The digest of the manifest.
        manifest: Digest,
        /// What else was found.
        hint: &'static str,
    },
    /// It could not be determined whether there are signatures.
    #[error("it could not be determined whether `{source_reference}` is signed, and nothing was locked: {cause}")]
    CouldNotLook {
        /// The reference.
        source_reference: Box<Reference>,
        /// What happened.
        cause: Box<RegistryError>,
    },
    /// The signatures are not by enough keys and identities that are trusted.
    #[error(
        "`{source_reference}` is signed by {valid} of the keys and identities in its `[[trust]]`, and {minimum} must have signed; expected \
         {expected}; found {found}"
    )]
    Signers {
        /// The reference.
        source_reference: Box<Reference>,
        /// The number of those that have signed.
        valid: usize,
        /// The number that must have.
        minimum: usize,
        /// The fingerprints of the trusted keys, and the trusted identities.
        expected: String,
        /// What the signatures say of themselves.
        found: String,
    },
    /// The trusted root of a `[[trust]]` cannot be used.
    #[error("the trusted root (`root` of `[[trust]]`) cannot be used: {reason}")]
    Root {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no provenance as `[[trust]]` requires one.
    #[error(
        "`{source_reference}` has no provenance as its `[[trust]]` requires one; expected {expected}; found {found}"
    )]
    Provenance {
        /// The reference.
        source_reference: Box<Reference>,
        /// What is required.
        expected: String,
        /// What signed provenances say.
        found: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RegistryError {
    /// The error of one exchange.
    pub(crate) fn of(what: &str, error: &HttpError) -> Self {
        match error {
            HttpError::NotFound => Self::NotFound(format!("{what}: there is none")),
            _ => Self::Unavailable { what: what.to_owned(), causes: vec![error.to_string()] },
        }
    }
}

fn list(causes: &[String]) -> String {
    causes.join("; ")
}
