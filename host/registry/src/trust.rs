//! Whether what was found is signed as `[[trust]]` requires.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mcp_host_base::text::quote;
use mcp_host_config::registry::{Reference, Trust, TrustedKey};
use mcp_host_model::digest::Digest;

use crate::bundle::Bundle;
use crate::error::RegistryError;

/// The maximum number of hints that a message has.
const MAX_HINTS: usize = 4;

/// When a signature has to count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// Something new is locked at that time: keys that are past their date do not count.
    Now(Timestamp),
    /// What was locked is looked at again: dates do not matter.
    Locked,
}

/// What has to be verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) reference: &'a Reference,
    pub(crate) manifest: &'a Digest,
    /// What to say where there is no signature.
    pub(crate) hint: &'static str,
}

/// Whether signatures by the key count then.
fn counts(key: &TrustedKey, moment: Moment) -> bool {
    match (key.not_after, moment) {
        (Some(last), Moment::Now(now)) => now.to_zoned(TimeZone::UTC).date() <= last,
        _ => true,
    }
}

/// The fingerprints of the trusted keys that have signed the subject: enough of them.
///
/// # Errors
///
/// There are no signatures, or not enough by trusted keys.
pub(crate) fn signers(
    trust: &Trust,
    subject: Subject<'_>,
    bundles: &[Bundle],
    moment: Moment,
) -> Result<BTreeSet<String>, RegistryError> {
    if trust.unsigned {
        return Ok(BTreeSet::new());
    }
    if bundles.is_empty() {
        return Err(RegistryError::Unsigned {
            source_reference: Box::new(subject.reference.clone()),
            manifest: *subject.manifest,
            hint: subject.hint,
        });
    }
    let has_signed = |key: &&TrustedKey| bundles.iter().any(|bundle| bundle.is_signed_by(&key.file, subject.manifest));
    let (counting, expired): (Vec<_>, Vec<_>) =
        trust.keys.iter().filter(has_signed).partition(|key| counts(key, moment));
    // The same key in two entries counts once.
    let signers: BTreeSet<String> = counting.iter().map(|key| key.file.fingerprint().to_string()).collect();
    if signers.len() >= trust.minimum.get() {
        return Ok(signers);
    }
    Err(RegistryError::Signers {
        source_reference: Box::new(subject.reference.clone()),
        valid: signers.len(),
        minimum: trust.minimum.get(),
        expected: trust.keys.iter().map(|key| key.file.fingerprint().to_string()).collect::<Vec<_>>().join(", "),
        found: found(&expired, bundles),
    })
}

/// A hint for a message: a fingerprint whole, anything else truncated.
fn shown_hint(hint: &str) -> String {
    match hint.parse::<Digest>() {
        Ok(fingerprint) => fingerprint.to_string(),
        Err(_) => quote(hint),
    }
}

/// What can be said of signatures that do not count.
fn found(expired: &[&TrustedKey], bundles: &[Bundle]) -> String {
    let past = expired.iter().filter_map(|key| Some((key.file.fingerprint(), key.not_after?)));
    let past: Vec<_> = past.map(|(key, last)| format!("{key}, which counts until {last} (`not-after`)")).collect();
    if !past.is_empty() {
        return past.join(", ");
    }
    let hints: BTreeSet<_> = bundles.iter().filter_map(Bundle::hint).map(shown_hint).collect();
    let hints: Vec<_> = hints.into_iter().take(MAX_HINTS).collect();
    let count = bundles.len();
    let bundles = if count == 1 { "signature bundle" } else { "signature bundles" };
    match hints.as_slice() {
        [] => format!("{count} {bundles} without the name of a key"),
        hints => format!(
            "{count} {bundles} said to be by {}; compare with the publisher, and add its key to `keys`",
            hints.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::{Config, Environment};

    use super::*;
    use crate::bundle::sign;
    use crate::signer::Signer;

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
                .map(|number| Bundle::parse(&sign(&self.signers[*number], &manifest).unwrap()).unwrap())
                .collect()
        }
    }

    fn check(trust: &Trust, bundles: &[Bundle], moment: Moment) -> Result<usize, String> {
        let reference = "oci://a.example/b:1".parse().unwrap();
        let subject = Subject { reference: &reference, manifest: &Digest::compute(b"manifest"), hint: "" };
        signers(trust, subject, bundles, moment).map(|signers| signers.len()).map_err(|error| error.to_string())
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
}
