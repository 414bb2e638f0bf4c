//! Verification without a network: config, lock and store are consistent, and the signatures meet the current
//! `[[trust]]`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mcp_host_config::Config;
use mcp_host_config::registry::{Lock, LockedComponent, Reference};

use crate::bundle::{Bundle, MAX_BUNDLE_SIZE};
use crate::manifest::Manifest;
use crate::registries::{Obtained, check_version, stored_manifest};
use crate::sbom::Sboms;
use crate::store::Store;
use crate::trust::{Moment, Subject, Verified, Verifier};

/// A problem of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reference.
    pub source: Reference,
    /// The problem and the remedy.
    pub message: String,
}

/// Verifies the components of the config. Expiry dates of keys are ignored: components locked before them are served.
pub fn verify(config: &Config, lock: &Lock, store: &Store) -> Vec<Problem> {
    let references: BTreeSet<Reference> = config.references().collect();
    let mut problems = Vec::new();
    for source in references {
        let result = match lock.get(&source) {
            Some(locked) => verify_one(config, locked, store),
            None => Err("it is not locked; run `mcp-host lock`".to_owned()),
        };
        problems.extend(result.err().map(|message| Problem { source, message }));
    }
    problems
}

/// Verifies one component with the config and the store. The error has the problem and the remedy.
pub fn verify_one(config: &Config, locked: &LockedComponent, store: &Store) -> Result<(), String> {
    verify_at(config, locked, store, Moment::Locked).map(drop)
}

/// Verifies a component from elsewhere that is locked now: only the references in its lock entry are used. The error
/// has the problem and the remedy.
pub fn verify_new(config: &Config, named: &LockedComponent, store: &Store) -> Result<Obtained, String> {
    let (verified, manifest) = verify_at(config, named, store, Moment::Now(Timestamp::now()))?;
    let bundles = verified.used.iter().filter_map(|number| named.bundles.get(*number).copied()).collect();
    check_version(&named.source, named.version.as_ref(), &manifest).map_err(|error| error.to_string())?;
    Ok(Obtained {
        reference: named.source.clone(),
        version: named.version.clone(),
        manifest: named.manifest,
        component: named.component,
        size: named.size,
        signers: verified.signers,
        bundles,
        provenance: verified.provenance,
        sboms: Sboms { found: named.sboms.clone(), problem: None },
    })
}

fn verify_at(
    config: &Config,
    locked: &LockedComponent,
    store: &Store,
    moment: Moment,
) -> Result<(Verified, Manifest), String> {
    let missing = |what: &str| format!("its {what} is not in the store; run `mcp-host store fetch`");
    let trust = config.trust_in(&locked.source.repository).ok_or("no `[[trust]]` of the config is for it")?;
    let manifest = stored_manifest(store, locked)?.ok_or_else(|| missing("manifest"))?;
    let mut bundles = Vec::new();
    for digest in &locked.bundles {
        let bytes = store.read(digest, MAX_BUNDLE_SIZE).map_err(|error| error.to_string())?;
        bundles.push(Bundle::parse(&bytes.ok_or_else(|| missing("signature"))?).map_err(|reason| {
            format!(
                "its signature {digest} is not valid: {reason}; run `mcp-host lock` after you have removed its entry"
            )
        })?);
    }
    for sbom in &locked.sboms {
        let is_there = store.open_verified(&sbom.digest).map_err(|error| error.to_string())?;
        is_there.ok_or_else(|| missing("bill of materials"))?;
    }
    let subject = Subject { reference: &locked.source, manifest: &locked.manifest, hint: "" };
    let verified = Verifier::new(trust).and_then(|verifier| verifier.verify(subject, &bundles, moment));
    let verified = verified.map_err(|error| error.to_string())?;
    if manifest.component()? != (locked.component, locked.size) {
        return Err("the lock names another component than the signed manifest; run `mcp-host lock` after you have removed its entry".to_owned());
    }
    let component = store.open_verified(&locked.component).map_err(|error| error.to_string())?;
    let length = component.ok_or_else(|| missing("component"))?.metadata().map_err(|error| error.to_string())?.len();
    if length != locked.size {
        return Err(format!("its component has {length} bytes, and the lock has {}", locked.size));
    }
    Ok((verified, manifest))
}
