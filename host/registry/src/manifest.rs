//! Manifests and indexes of the OCI Image Specification, and the layout of components by CNCF TAG Runtime.
//!
//! | part | value |
//! |---|---|
//! | `mediaType` | `application/vnd.oci.image.manifest.v1+json` |
//! | `config` | `application/vnd.wasm.config.v0+json` |
//! | `layers` | exactly one, `application/wasm`, at most [`MAX_COMPONENT_SIZE`] bytes |
//!
//! Other members are ignored, as the specification requires: the digest covers them.

use std::collections::BTreeMap;

use mcp_host_base::text::quote;
use mcp_host_model::digest::Digest;
use serde::{Deserialize, Serialize};

/// The annotation with the version of a manifest.
pub(crate) const VERSION: &str = "org.opencontainers.image.version";
/// The maximum size of a component in bytes.
pub const MAX_COMPONENT_SIZE: u64 = 256 << 20;
/// The maximum size of a manifest or an index in bytes.
pub(crate) const MAX_MANIFEST_SIZE: usize = 4 << 20;

/// The type of an image manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The type of an index of manifests.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The type of the config of a component.
pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The type of a component.
pub(crate) const WASM_LAYER: &str = "application/wasm";
/// The type of an empty config.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// A reference in a manifest or an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// An image manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// An index of manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) manifests: Vec<Descriptor>,
}

impl Descriptor {
    /// Creates a descriptor of these bytes.
    pub(crate) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::compute(bytes).to_string(),
            size: bytes.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Returns the digest, which must be SHA-256.
    pub(crate) fn parse_digest(&self) -> Result<Digest, String> {
        self.digest.parse().map_err(|error| format!("{error}"))
    }
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// The bytes are not a manifest. The error is escaped.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| not_json("manifest", &error))?;
        if manifest.schema_version != 2 {
            return Err(format!("the manifest has version {}, not 2", manifest.schema_version));
        }
        match &manifest.media_type {
            Some(kind) if kind != MANIFEST => Err(format!("it is {}, not an image manifest", quote(kind))),
            _ => Ok(manifest),
        }
    }

    /// Returns the component of the manifest: its digest and its size.
    ///
    /// # Errors
    ///
    /// The manifest has no component, several, or one that is too large.
    pub(crate) fn component(&self) -> Result<(Digest, u64), String> {
        let [layer] = self.layers.as_slice() else {
            return Err(format!(
                "the manifest has {} layers, and the manifest of a component has one",
                self.layers.len()
            ));
        };
        if layer.media_type != WASM_LAYER {
            return Err(format!(
                "its layer is {}, not `{WASM_LAYER}`: it is not a component",
                quote(&layer.media_type)
            ));
        }
        if layer.size > MAX_COMPONENT_SIZE {
            return Err(format!("its component has {} bytes, and {MAX_COMPONENT_SIZE} are allowed", layer.size));
        }
        Ok((layer.parse_digest()?, layer.size))
    }
}

impl Index {
    /// Parses an index. The error is escaped.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let index: Self = serde_json::from_slice(bytes).map_err(|error| not_json("index", &error))?;
        match &index.media_type {
            Some(kind) if kind != INDEX => Err(format!("it is {}, not an index", quote(kind))),
            _ if index.schema_version != 2 => Err(format!("the index has version {}, not 2", index.schema_version)),
            _ => Ok(index),
        }
    }
}

fn not_json(what: &str, error: &serde_json::Error) -> String {
    format!("it is no {what}: {}", mcp_host_base::escape::line(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn manifest() -> Value {
        json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": WASM_CONFIG, "digest": Digest::compute(b"{}").to_string(), "size": 2 },
            "layers": [{ "mediaType": WASM_LAYER, "digest": Digest::compute(b"wasm").to_string(), "size": 4 }],
        })
    }

    fn component(change: impl FnOnce(&mut Value)) -> Result<(Digest, u64), String> {
        let mut value = manifest();
        change(&mut value);
        Manifest::parse(value.to_string().as_bytes())?.component()
    }

    #[test]
    fn the_only_layer_is_the_component() {
        assert_eq!(component(|_| ()), Ok((Digest::compute(b"wasm"), 4)));
    }

    #[test]
    fn what_is_no_component_says_why() {
        let check = |change: fn(&mut Value), expected: &str| {
            let error = component(change).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        };
        check(|value| value["layers"] = json!([]), "0 layers");
        check(|value| value["layers"] = json!([value["layers"][0].clone(), value["layers"][0].clone()]), "2 layers");
        check(|value| value["layers"][0]["mediaType"] = json!("text/\u{1b}html"), "not `application/wasm`");
        check(|value| value["layers"][0]["size"] = json!(MAX_COMPONENT_SIZE + 1), "are allowed");
        check(|value| value["layers"][0]["size"] = json!(-1), "it is no manifest");
        check(|value| value["layers"][0]["digest"] = json!("sha512:00"), "does not begin with");
        check(|value| value["mediaType"] = json!(INDEX), "not an image manifest");
        check(|value| value["schemaVersion"] = json!(1), "version 1");
        check(|value| *value = json!([]), "it is no manifest");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Manifest::parse(&bytes).map(|manifest| manifest.component());
            let _ = Index::parse(&bytes);
        }
    }
}
