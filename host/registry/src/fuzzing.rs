//! Assertions of the fuzz targets for data from registries and publishers.

use mcp_host_config::registry::TrustedRoot;
use mcp_host_model::digest::Digest;

use crate::bundle::Bundle;
use crate::keyless::Keyless;
use crate::manifest::{Index, Manifest};
use crate::sbom::SbomSummary;
use crate::statement::{Statement, predicate_type};
use crate::versions;

/// Parses a manifest, an index, a bill of materials and tags. Texts for messages must be harmless to a terminal.
pub fn manifest(data: &[u8]) {
    let manifest = Manifest::parse(data).and_then(|manifest| manifest.component());
    let index =
        Index::parse(data).map(|index| index.manifests.iter().filter(|entry| entry.parse_digest().is_ok()).count());
    let sbom = SbomSummary::read(data).map(|summary| summary.to_string());
    let tags: Vec<String> = String::from_utf8_lossy(data).split('\n').map(str::to_owned).collect();
    let said = [manifest.err(), index.err(), sbom, Some(versions::suggestion(&tags))];
    said.into_iter().flatten().for_each(|text| harmless(&text));
}

/// Parses a bundle, verifies it with a trusted root that has signed none of the inputs, and parses its statement
/// without verification.
pub fn bundle(data: &[u8]) {
    let manifest = Digest::compute(b"manifest");
    if let Ok(bundle) = Bundle::parse(data) {
        drop(bundle.predicate_type());
        if let Some(json) = bundle.keyless()
            && let Some(Err(error)) = keyless().map(|keyless| keyless.verify(json, &manifest))
        {
            harmless(&error);
        }
    }
    if let Some(Statement::Provenance(claims)) = Statement::read(data, &manifest) {
        drop(claims.accepted(None));
    }
    drop(predicate_type(data));
}

/// Returns the trusted root of the test bundles.
fn keyless() -> Option<Keyless> {
    let file: serde_json::Value = serde_json::from_str(include_str!("../tests/data/keyless.json")).ok()?;
    Keyless::new(&TrustedRoot::parse(file.get("root")?.to_string().into_bytes()).ok()?).ok()
}

fn harmless(text: &str) {
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\0', '\n']), "what is shown is harmless to a terminal: {text:?}");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 2] = [("bundle", bundle), ("manifest", manifest)];

    #[test]
    fn no_seed_does_harm() {
        assert!(keyless().is_some(), "bundles are verified");
        for (name, target) in TARGETS {
            let seeds = fs::read_dir(Path::new("../../fuzz/seeds").join(name)).unwrap();
            let seeds: Vec<_> = seeds.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
            assert!(!seeds.is_empty(), "{name}");
            seeds.iter().for_each(|seed| target(seed));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(data in prop::collection::vec(any::<u8>(), 0..400)) {
            TARGETS.iter().for_each(|(_, target)| target(&data));
        }
    }
}
