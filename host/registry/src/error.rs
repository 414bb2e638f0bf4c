//! Errors of obtaining a component from a registry. Texts of registries and publishers are escaped.

use mcp_host_config::registry::{Reference, Source};
use mcp_host_model::digest::Digest;

use crate::http::HttpError;
use crate::store::StoreError;

/// The reason why a component of a registry is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No `[[trust]]` applies to the source.
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
        /// The source that the author probably meant.
        nearest: Option<Source>,
    },
    /// Nothing is published, because the input is invalid.
    #[error("nothing was published: {0}")]
    Unpublished(String),
    /// The registry and its mirrors did not answer, or answered with errors.
    #[error("{what}: {}", list(.causes))]
    Unavailable {
        /// The requested item.
        what: String,
        /// The problem of each server.
        causes: Vec<String>,
    },
    /// The registry does not have the repository or the version.
    #[error("{0}")]
    NotFound(String),
    /// The answer is invalid.
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
        /// A hint about other findings.
        hint: &'static str,
    },
    /// It could not be determined whether signatures exist.
    #[error("it could not be determined whether `{source_reference}` is signed, and nothing was locked: {cause}")]
    CouldNotLook {
        /// The reference.
        source_reference: Box<Reference>,
        /// The cause.
        cause: Box<RegistryError>,
    },
    /// Too few trusted keys and identities have signed.
    #[error(
        "`{source_reference}` is signed by {valid} of the keys and identities in its `[[trust]]`, and {minimum} must have signed; expected \
         {expected}; found {found}"
    )]
    Signers {
        /// The reference.
        source_reference: Box<Reference>,
        /// The number of trusted signers.
        valid: usize,
        /// The required number.
        minimum: usize,
        /// The fingerprints of the trusted keys, and the trusted identities.
        expected: String,
        /// The unverified signers of the signatures.
        found: String,
    },
    /// The trusted root of a `[[trust]]` cannot be used.
    #[error("the trusted root (`root` of `[[trust]]`) cannot be used: {reason}")]
    Root {
        /// The problem.
        reason: String,
    },
    /// The provenance that `[[trust]]` requires is missing.
    #[error(
        "`{source_reference}` has no provenance as its `[[trust]]` requires one; expected {expected}; found {found}"
    )]
    Provenance {
        /// The reference.
        source_reference: Box<Reference>,
        /// The required provenance.
        expected: String,
        /// The content of the signed provenances.
        found: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RegistryError {
    /// Creates the error of a failed HTTP exchange.
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
