//! Verifies that signatures meet the requirements of `[[trust]]`.
//!
//! A signature counts if it is by a key of the table before its expiry date, or by a certificate of one of its
//! identities. A key in two entries is one signer, and so is an identity that matches two entries: each signer is
//! assigned to at most one entry, and `minimum` is compared with the largest possible assignment. A provenance counts
//! if one of the same keys or identities has signed it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mcp_host_base::escape;
use mcp_host_base::text::quote;
use mcp_host_config::registry::{LockedIdentity, LockedProvenance, LockedSigner, Reference, Trust, TrustedKey};
use mcp_host_model::digest::Digest;

use crate::bundle::Bundle;
use crate::error::RegistryError;
use crate::keyless::Keyless;
use crate::statement::{Claims, Statement};

/// The maximum number of signatures that a message describes.
const MAX_HINTS: usize = 4;

/// The time of a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// A new component is locked now: expired keys do not count.
    Now(Timestamp),
    /// A locked component is verified again: expiry dates are ignored.
    Locked,
}

/// The subject of a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) reference: &'a Reference,
    pub(crate) manifest: &'a Digest,
    /// The hint for the error of a missing signature.
    pub(crate) hint: &'static str,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// The trusted signers.
    pub(crate) signers: BTreeSet<LockedSigner>,
    /// The content of a provenance that a trusted signer has signed.
    pub(crate) provenance: Option<LockedProvenance>,
    /// The indexes of the accepted bundles.
    pub(crate) used: Vec<usize>,
}

/// A verifier for a `[[trust]]`, with its trusted root parsed once.
pub(crate) struct Verifier<'t> {
    trust: &'t Trust,
    keyless: Option<Keyless>,
}

/// The trusted signers of a bundle, and the statement.
struct Attested {
    bundle: usize,
    statement: Statement,
    /// The indexes of the keys in the table.
    keys: Vec<usize>,
    /// The identity, and the table's entries that match it.
    identity: Option<(LockedIdentity, Vec<usize>)>,
}

/// The signatures that do not count, for a message.
#[derive(Default)]
struct Found {
    expired: BTreeSet<String>,
    others: BTreeSet<String>,
}

impl<'t> Verifier<'t> {
    /// Fails if the trusted root cannot be used.
    pub(crate) fn new(trust: &'t Trust) -> Result<Self, RegistryError> {
        // An unreadable file has been reported with the config, and is left out for commands that do not need it.
        if trust.root.is_none() && !trust.identities.is_empty() {
            let reason = "it is not there, or is none; `mcp-host check` says which file that is".to_owned();
            return Err(RegistryError::Root { reason });
        }
        let keyless = trust.root.as_ref().map(Keyless::new).transpose();
        Ok(Self { trust, keyless: keyless.map_err(|reason| RegistryError::Root { reason })? })
    }

    /// Verifies that enough trusted signers have signed the subject, and the required provenance.
    ///
    /// # Errors
    ///
    /// There are no signatures, too few by trusted signers, or no matching provenance.
    pub(crate) fn verify(
        &self,
        subject: Subject<'_>,
        bundles: &[Bundle],
        moment: Moment,
    ) -> Result<Verified, RegistryError> {
        let trust = self.trust;
        if trust.unsigned {
            return Ok(Verified::default());
        }
        if bundles.is_empty() {
            return Err(RegistryError::Unsigned {
                source_reference: Box::new(subject.reference.clone()),
                manifest: *subject.manifest,
                hint: subject.hint,
            });
        }
        let mut found = Found::default();
        let attested: Vec<Attested> = bundles
            .iter()
            .enumerate()
            .filter_map(|(position, bundle)| self.attested(position, bundle, subject.manifest, moment, &mut found))
            .collect();
        let signatures = || attested.iter().filter(|attested| attested.statement == Statement::Signature);
        let keys: BTreeSet<Digest> = signatures().flat_map(|signed| self.fingerprints(&signed.keys)).collect();
        let identities: Vec<_> = signatures().filter_map(|signed| signed.identity.as_ref()).collect();
        let valid = keys.len().saturating_add(assigned(&identities));
        if valid < trust.minimum.get() {
            return Err(RegistryError::Signers {
                source_reference: Box::new(subject.reference.clone()),
                valid,
                minimum: trust.minimum.get(),
                expected: self.expected(),
                found: found.describe(bundles),
            });
        }
        let mut signers: BTreeSet<_> = keys.into_iter().map(LockedSigner::Key).collect();
        signers.extend(identities.iter().map(|(identity, _)| LockedSigner::Identity(identity.clone())));
        let mut used: Vec<usize> = signatures().map(|signed| signed.bundle).collect();
        let claims: Vec<(usize, &Claims)> = attested
            .iter()
            .filter_map(|attested| match &attested.statement {
                Statement::Provenance(claims) => Some((attested.bundle, claims)),
                Statement::Signature => None,
            })
            .collect();
        let required = trust.provenance.as_ref();
        let accepted = claims.iter().find_map(|(bundle, claims)| Some((*bundle, claims.accepted(required)?)));
        if let (Some(required), None) = (required, &accepted) {
            let described =
                claims.iter().take(MAX_HINTS).map(|(_, claims)| escape::line(&claims.describe()).into_owned());
            let described: Vec<_> = described.collect();
            return Err(RegistryError::Provenance {
                source_reference: Box::new(subject.reference.clone()),
                expected: format!("built by {} from {}", required.builder, required.source),
                found: if described.is_empty() {
                    "none that one of the trusted signers has signed".to_owned()
                } else {
                    described.join(", ")
                },
            });
        }
        used.extend(accepted.as_ref().map(|(bundle, _)| *bundle));
        Ok(Verified { signers, provenance: accepted.map(|(_, provenance)| provenance), used })
    }

    /// Returns the trusted signers of a bundle.
    fn attested(
        &self,
        position: usize,
        bundle: &Bundle,
        manifest: &Digest,
        moment: Moment,
        found: &mut Found,
    ) -> Option<Attested> {
        if let (Some(keyless), Some(json)) = (&self.keyless, bundle.keyless()) {
            let (identity, payload) = match keyless.verify(json, manifest) {
                Ok(verified) => verified,
                Err(reason) => {
                    found.others.insert(format!("a keyless signature that is not valid: {reason}"));
                    return None;
                }
            };
            let statement = Statement::read(&payload, manifest)?;
            let entries = self.trust.identities.iter().enumerate().filter(|(_, entry)| {
                entry.issuer.as_str() == identity.issuer && entry.subject.matches(&identity.subject)
            });
            let entries: Vec<usize> = entries.map(|(number, _)| number).collect();
            if entries.is_empty() {
                let signer = LockedSigner::Identity(identity).to_string();
                found.others.insert(format!("a signature by {}", escape::line(&signer)));
                return None;
            }
            return Some(Attested {
                bundle: position,
                statement,
                keys: Vec::new(),
                identity: Some((identity, entries)),
            });
        }
        let (mut keys, mut statement) = (Vec::new(), None);
        for (number, key) in self.trust.keys.iter().enumerate() {
            let Some(payload) = bundle.signed_by(&key.file) else { continue };
            let Some(read) = Statement::read(payload, manifest) else { continue };
            if counts(key, moment) {
                keys.push(number);
                statement = Some(read);
            } else if let Some(last) = key.not_after {
                let fingerprint = key.file.fingerprint();
                found.expired.insert(format!("{fingerprint}, which counts until {last} (`not-after`)"));
            }
        }
        Some(Attested { bundle: position, statement: statement?, keys, identity: None })
    }

    fn fingerprints(&self, keys: &[usize]) -> impl Iterator<Item = Digest> {
        keys.iter().filter_map(|number| self.trust.keys.get(*number)).map(|key| key.file.fingerprint())
    }

    /// Returns the trusted keys and identities, for a message.
    fn expected(&self) -> String {
        let keys = self.trust.keys.iter().map(|key| key.file.fingerprint().to_string());
        let identities = self.trust.identities.iter().map(|entry| format!("{} ({})", entry.subject, entry.issuer));
        keys.chain(identities).collect::<Vec<_>>().join(", ")
    }
}

/// Returns whether signatures by the key count at this time.
fn counts(key: &TrustedKey, moment: Moment) -> bool {
    match (key.not_after, moment) {
        (Some(last), Moment::Now(now)) => now.to_zoned(TimeZone::UTC).date() <= last,
        _ => true,
    }
}

/// Returns the size of a maximum bipartite matching between signers and entries, by augmenting paths.
fn assigned(signed: &[&(LockedIdentity, Vec<usize>)]) -> usize {
    let mut persons: Vec<(LockedSigner, BTreeSet<usize>)> = Vec::new();
    for (identity, entries) in signed {
        let signer = LockedSigner::Identity(identity.clone());
        match persons.iter_mut().find(|(known, _)| known.is_same(&signer)) {
            Some((_, known)) => known.extend(entries),
            None => persons.push((signer, entries.iter().copied().collect())),
        }
    }
    /// Finds an entry for a signer; the current holder of an entry moves to another one.
    fn assign(
        person: usize,
        persons: &[(LockedSigner, BTreeSet<usize>)],
        seen: &mut BTreeSet<usize>,
        of_entry: &mut std::collections::BTreeMap<usize, usize>,
    ) -> bool {
        let Some((_, entries)) = persons.get(person) else { return false };
        for entry in entries {
            if !seen.insert(*entry) {
                continue;
            }
            let holder = of_entry.get(entry).copied();
            if holder.is_none_or(|holder| assign(holder, persons, seen, of_entry)) {
                of_entry.insert(*entry, person);
                return true;
            }
        }
        false
    }
    let mut of_entry = std::collections::BTreeMap::new();
    (0..persons.len()).filter(|person| assign(*person, &persons, &mut BTreeSet::new(), &mut of_entry)).count()
}

/// Returns a hint for a message: a fingerprint in full, anything else truncated.
fn shown_hint(hint: &str) -> String {
    match hint.parse::<Digest>() {
        Ok(fingerprint) => fingerprint.to_string(),
        Err(_) => quote(hint),
    }
}

impl Found {
    /// Describes the signatures that do not count.
    fn describe(self, bundles: &[Bundle]) -> String {
        if !self.expired.is_empty() {
            return self.expired.into_iter().collect::<Vec<_>>().join(", ");
        }
        let hints: BTreeSet<_> = bundles.iter().filter_map(Bundle::hint).map(shown_hint).collect();
        let hints: Vec<_> = hints.into_iter().take(MAX_HINTS).collect();
        let others: Vec<_> = self.others.into_iter().take(MAX_HINTS).collect();
        let count = bundles.len();
        let bundles = if count == 1 { "signature bundle" } else { "signature bundles" };
        match (hints.as_slice(), others.as_slice()) {
            ([], []) => format!("{count} {bundles} without the name of a key"),
            ([], others) => others.join("; "),
            (hints, others) => {
                let behind = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
                format!(
                    "{count} {bundles} said to be by {}; compare with the publisher, and add its key to `keys`{behind}",
                    hints.join(", ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::{Config, Environment};

    use super::*;
    use crate::bundle::sign;
    use crate::keyless::fixtures;
    use crate::signer::Signer;
    use crate::statement::{provenance, signature};

    struct Keys {
        dir: tempfile::TempDir,
        signers: Vec<Signer>,
    }

    impl Keys {
        fn new(count: usize) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let signers = (0..count).map(|number| {
                let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
                std::fs::write(dir.path().join(format!("{number}.pub")), pair.public_key_pem()).unwrap();
                Signer::from_pem(pair.serialize_pem().as_bytes()).unwrap()
            });
            Self { signers: signers.collect(), dir }
        }

        fn trust(&self, keys: &str) -> Trust {
            let text = format!(
                "[[trust]]\nsources = ['oci://a.example']\n{keys}\n[[plugin]]\nname = 'a'\nmount = 'a:///'\ncomponent = 'oci://a.example/b:1'"
            );
            let environment = Environment::empty().keep_references();
            let config = Config::parse_in(&text, &self.dir.path().join("mcp-host.toml"), &environment).unwrap();
            config.trust[0].clone()
        }

        fn bundles(&self, signers: &[usize]) -> Vec<Bundle> {
            let manifest = Digest::compute(b"manifest");
            signers
                .iter()
                .map(|number| Bundle::parse(&sign(&self.signers[*number], &signature(&manifest)).unwrap()).unwrap())
                .collect()
        }
    }

    fn check(trust: &Trust, bundles: &[Bundle], moment: Moment) -> Result<usize, String> {
        let reference = "oci://a.example/b:1".parse().unwrap();
        let subject = Subject { reference: &reference, manifest: &Digest::compute(b"manifest"), hint: "" };
        let verified = Verifier::new(trust).and_then(|verifier| verifier.verify(subject, bundles, moment));
        verified.map(|verified| verified.signers.len()).map_err(|error| error.to_string())
    }

    fn at(text: &str) -> Moment {
        Moment::Now(text.parse().unwrap())
    }

    #[test]
    fn as_many_different_keys_as_the_minimum_must_have_signed() {
        let keys = Keys::new(3);
        let now = at("2026-11-28T00:00:00Z");
        let two = keys.trust("keys = [{ file = '0.pub' }, { file = '1.pub' }]\nminimum = 2");
        assert_eq!(check(&two, &keys.bundles(&[0, 1]), now), Ok(2));
        let error = check(&two, &keys.bundles(&[0, 0, 2]), now).unwrap_err();
        assert!(error.contains("signed by 1 of the keys") && error.contains("2 must have signed"), "{error}");
        let one = keys.trust("keys = [{ file = '0.pub' }, { file = '1.pub' }]");
        assert_eq!(check(&one, &keys.bundles(&[2, 1]), now), Ok(1));
        let twice = keys.trust("keys = [{ file = '0.pub' }, { file = '0.pub' }]\nminimum = 2");
        assert!(check(&twice, &keys.bundles(&[0]), now).is_err(), "one key is one signer");
    }

    #[test]
    fn a_wrong_signer_is_shown_beside_those_that_are_trusted() {
        let keys = Keys::new(2);
        let trust = keys.trust("keys = [{ file = '0.pub' }]");
        let error = check(&trust, &keys.bundles(&[1]), at("2026-11-28T00:00:00Z")).unwrap_err();
        let expected = keys.signers[0].public_key().fingerprint().to_string();
        assert!(error.contains(&expected) && error.contains("said to be by"), "{error}");
        let none = check(&trust, &[], at("2026-11-28T00:00:00Z")).unwrap_err();
        assert!(none.contains("has no signature") && none.contains("`unsigned = true`"), "{none}");
        assert_eq!(check(&keys.trust("unsigned = true"), &[], Moment::Locked), Ok(0));
    }

    #[test]
    fn a_key_past_its_date_locks_nothing_new_and_keeps_what_was_locked() {
        let keys = Keys::new(1);
        let trust = keys.trust("keys = [{ file = '0.pub', not-after = 2027-01-01 }]");
        let bundles = keys.bundles(&[0]);
        assert_eq!(check(&trust, &bundles, at("2027-01-01T23:59:59Z")), Ok(1));
        let error = check(&trust, &bundles, at("2027-01-02T00:00:00Z")).unwrap_err();
        assert!(error.contains("which counts until 2027-01-01"), "{error}");
        assert_eq!(check(&trust, &bundles, Moment::Locked), Ok(1));
    }

    #[test]
    fn one_identity_is_one_signer_whatever_matches_it() {
        let identity = |subject: &str, entries: &[usize]| {
            let issuer = "https://token.example".to_owned();
            (LockedIdentity { issuer, subject: subject.to_owned() }, entries.to_vec())
        };
        let count = |signed: &[(LockedIdentity, Vec<usize>)]| assigned(&signed.iter().collect::<Vec<_>>());
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[identity("ada", &[0, 1])]), 1);
        assert_eq!(count(&[identity("w@refs/tags/v1", &[0]), identity("w@refs/tags/v2", &[1])]), 1);
        assert_eq!(count(&[identity("ada", &[0]), identity("eve", &[0])]), 1);
        assert_eq!(count(&[identity("ada", &[0, 1]), identity("eve", &[0])]), 2);
        let three = [identity("ada", &[0, 1]), identity("eve", &[2]), identity("mel", &[2])];
        assert_eq!(count(&three), 2);
    }

    #[test]
    fn a_provenance_counts_by_the_same_keys() {
        let keys = Keys::new(2);
        let trust = keys.trust(
            "keys = [{ file = '0.pub' }]\nprovenance = { builder = 'https://f.example/runner', source = 'https://f.example/a/*' }",
        );
        let now = at("2026-11-28T00:00:00Z");
        let manifest = Digest::compute(b"manifest");
        let attest = |key: usize, source: &str| {
            let predicate = serde_json::json!({
                "buildDefinition": { "externalParameters": { "source": source } },
                "runDetails": { "builder": { "id": "https://f.example/runner" } },
            });
            let mut bundles = keys.bundles(&[0]);
            bundles.push(Bundle::parse(&sign(&keys.signers[key], &provenance(&manifest, predicate)).unwrap()).unwrap());
            bundles
        };
        assert_eq!(check(&trust, &attest(0, "git+https://f.example/a/web@refs/tags/v1"), now), Ok(1));
        let error = check(&trust, &keys.bundles(&[0]), now).unwrap_err();
        assert!(error.contains("provenance") && error.contains("found none"), "{error}");
        let error = check(&trust, &attest(1, "https://f.example/a/web"), now).unwrap_err();
        assert!(error.contains("found none"), "{error}");
        let error = check(&trust, &attest(0, "https://f.example/b/\u{1b}web"), now).unwrap_err();
        assert!(error.contains("https://f.example/b/") && !error.contains('\u{1b}'), "{error}");
        // A provenance is not a signature.
        let only: Vec<_> = attest(0, "https://f.example/a/web").into_iter().skip(1).collect();
        assert!(check(&trust, &only, now).unwrap_err().contains("signed by 0"));
    }

    /// Creates a `[[trust]]` with these keys of the table, and the fixtures' root.
    fn with_root(text: &str, keys: &Keys) -> Trust {
        std::fs::write(keys.dir.path().join("root.json"), fixtures::root_json().to_string()).unwrap();
        keys.trust(&format!("{text}\nroot = 'root.json'"))
    }

    fn fixture(number: usize) -> Bundle {
        Bundle::parse(fixtures::bundle(number).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_identity_counts_by_its_issuer_and_its_subject() {
        let keys = Keys::new(1);
        let trust = |subject: &str| {
            with_root(&format!("identities = [{{ issuer = '{}', subject = '{subject}' }}]", fixtures::ISSUER), &keys)
        };
        let acme = trust("https://forge.example/acme/**");
        let now = at("2026-11-28T00:00:00Z");
        assert_eq!(check(&acme, &[fixture(fixtures::SIGNED)], now), Ok(1));
        assert_eq!(check(&trust(fixtures::SUBJECT), &[fixture(fixtures::SIGNED)], Moment::Locked), Ok(1));
        for (number, expected) in [
            (
                fixtures::BY_ANOTHER,
                "found a signature by https://forge.example/mallory/hello/release.yml@refs/tags/v1.0.0",
            ),
            (fixtures::OF_ANOTHER_ISSUER, "(https://other.example)"),
            (fixtures::OF_ANOTHER_MANIFEST, "a keyless signature that is not valid"),
            (fixtures::PROVENANCE, "signed by 0"),
        ] {
            let error = check(&acme, &[fixture(number)], now).unwrap_err();
            assert!(error.contains(expected) && error.contains("https://forge.example/acme/**"), "{error}");
        }
        // A signature that does not count does not affect one that does.
        assert_eq!(check(&acme, &[fixture(fixtures::BY_ANOTHER), fixture(fixtures::SIGNED)], now), Ok(1));
        // Without identities in the table, a certificate does not count.
        let key = keys.trust("keys = [{ file = '0.pub' }]");
        assert!(check(&key, &[fixture(fixtures::SIGNED)], now).unwrap_err().contains("signed by 0"));
    }

    #[test]
    fn keys_and_identities_count_together() {
        let keys = Keys::new(1);
        let identity =
            format!("identities = [{{ issuer = '{}', subject = 'https://forge.example/acme/**' }}]", fixtures::ISSUER);
        let both = with_root(&format!("keys = [{{ file = '0.pub' }}]\nminimum = 2\n{identity}"), &keys);
        let now = at("2026-11-28T00:00:00Z");
        let mut bundles = keys.bundles(&[0]);
        assert!(check(&both, &bundles, now).unwrap_err().contains("signed by 1 of the keys and identities"));
        bundles.push(fixture(fixtures::SIGNED));
        assert_eq!(check(&both, &bundles, now), Ok(2));
        bundles.remove(0);
        assert!(check(&both, &bundles, now).is_err());
    }

    #[test]
    fn a_keyless_provenance_is_compared_and_kept() {
        let keys = Keys::new(1);
        let with = |source: &str| {
            let identity = format!(
                "identities = [{{ issuer = '{}', subject = 'https://forge.example/acme/**' }}]",
                fixtures::ISSUER
            );
            let provenance =
                format!("provenance = {{ builder = 'https://forge.example/runner', source = '{source}' }}");
            with_root(&format!("{identity}\n{provenance}"), &keys)
        };
        let bundles = [fixture(fixtures::PROVENANCE), fixture(fixtures::BY_ANOTHER), fixture(fixtures::SIGNED)];
        let reference = "oci://a.example/b:1".parse().unwrap();
        let subject = Subject { reference: &reference, manifest: &fixtures::manifest(), hint: "" };
        let trust = with("https://forge.example/acme/hello");
        let verified = Verifier::new(&trust).unwrap().verify(subject, &bundles, Moment::Locked).unwrap();
        assert_eq!(verified.provenance.unwrap().source, "https://forge.example/acme/hello");
        assert_eq!(verified.used, [2, 0], "what does not count is not kept");
        let error = check(&with("https://forge.example/acme/other"), &bundles, Moment::Locked).unwrap_err();
        assert!(
            error.contains("built by https://forge.example/runner from https://forge.example/acme/hello"),
            "{error}"
        );
    }
}
