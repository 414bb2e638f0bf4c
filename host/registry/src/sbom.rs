//! Bills of materials that refer to a manifest: CycloneDX or SPDX, in JSON.
//!
//! Bills of materials are fetched, stored and shown, but never trusted: their author is not verified, and nothing
//! depends on them. An unavailable one is not an error. Bounded: [`MAX_SBOMS`] of at most [`MAX_SBOM_SIZE`] bytes.

use std::fmt;

use mcp_host_base::escape;
use mcp_host_config::registry::LockedSbom;
use mcp_host_model::digest::Digest;
use serde_json::Value;

use crate::store::Store;

/// The maximum number of documents of a manifest.
pub(crate) const MAX_SBOMS: usize = 4;
/// The maximum size of a document in bytes.
pub(crate) const MAX_SBOM_SIZE: usize = 1 << 20;
/// The types of documents: CycloneDX and SPDX.
pub(crate) const SBOM_TYPES: [&str; 2] = ["application/vnd.cyclonedx+json", "application/spdx+json"];
/// The maximum length of a version in a summary.
const MAX_VERSION_LEN: usize = 16;

/// The bills of materials of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sboms {
    /// The documents in the store.
    pub found: Vec<LockedSbom>,
    /// The reason why there may be further ones.
    pub problem: Option<String>,
}

/// A summary of a document's own content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SbomSummary {
    /// The media type.
    pub media_type: &'static str,
    /// The version of the format, from the document.
    pub format_version: String,
    /// The number of listed components.
    pub components: usize,
}

impl SbomSummary {
    /// Reads a document. `None` if it has neither format.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let text = |member: &str| document.get(member).and_then(Value::as_str);
        let count = |member: &str| document.get(member).and_then(Value::as_array).map_or(0, Vec::len);
        let [cyclone, spdx] = SBOM_TYPES;
        let (media_type, version, components) = if text("bomFormat") == Some("CycloneDX") {
            (cyclone, text("specVersion"), count("components"))
        } else {
            let version = text("spdxVersion")?;
            (spdx, Some(version.strip_prefix("SPDX-").unwrap_or(version)), count("packages"))
        };
        let format_version = version.unwrap_or("?").chars().take(MAX_VERSION_LEN).collect();
        Some(Self { media_type, format_version, components })
    }

    /// Returns the summary of a document in the store; `None` if it is missing, changed, or has neither format.
    pub fn of(sbom: &LockedSbom, store: &Store) -> Option<Self> {
        Self::read(&store.read(&sbom.digest, MAX_SBOM_SIZE).ok()??)
    }

    /// Creates the lock entry of a document.
    pub(crate) fn locked(media_type: &str, bytes: &[u8]) -> LockedSbom {
        LockedSbom { digest: Digest::compute(bytes), media_type: media_type.to_owned() }
    }
}

impl fmt::Display for SbomSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cyclone, _] = SBOM_TYPES;
        let name = if self.media_type == cyclone { "CycloneDX" } else { "SPDX" };
        let version = escape::line(&self.format_version);
        let noun = if self.components == 1 { "component" } else { "components" };
        write!(f, "{name} {version}, {} {noun}", self.components)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_formats_are_known_by_what_they_say() {
        let shown = |text: &str| SbomSummary::read(text.as_bytes()).map(|summary| summary.to_string());
        let cyclone = r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{}, {}]}"#;
        assert_eq!(shown(cyclone).as_deref(), Some("CycloneDX 1.6, 2 components"));
        let spdx = r#"{"spdxVersion": "SPDX-2.3", "packages": [{}]}"#;
        assert_eq!(shown(spdx).as_deref(), Some("SPDX 2.3, 1 component"));
        let hostile = r#"{"spdxVersion": "\u001b[2J", "packages": 7}"#;
        assert!(!shown(hostile).unwrap().contains('\u{1b}'));
        assert_eq!(shown("{}"), None);
        assert_eq!(shown("<bom>"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = SbomSummary::read(&bytes);
        }
    }
}
