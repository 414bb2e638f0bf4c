//! `[[trust]]`: the signatures that components from a source require.
//!
//! Only the table with the longest prefix of a source applies; a source without a table is refused. A signature counts
//! if it is by one of the table's `keys` or `identities`; `minimum` different signers among both are required. A key
//! with a date in `not-after` is valid until the end of that day in UTC: after that, its signatures allow no new locks,
//! and components that are locked already are served. Identities and `provenance` are described in `identity`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use mcp_host_base::regular_file;
use mcp_host_base::text::quote;
use mcp_host_model::digest::Digest;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use toml::de::DeValue;

use super::identity::{Identity, Provenance, RootFile, TrustedRoot};
use super::reference::{Repository, SCHEME};
use crate::count::Count;
use crate::declare::{from_text, list_type, table, written_as};
use crate::diagnostic::{Diagnostic, Suggest};
use crate::paths::ExistingFile;
use crate::reader::{FromNode, FromTable, Node, Schema, Table};

/// The maximum size of the file of a public key in bytes.
const MAX_KEY_FILE_SIZE: usize = 64 * 1024;
/// The bytes before the point in the SubjectPublicKeyInfo of an uncompressed key on P-256 (RFC 5480).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The bytes before the key in the SubjectPublicKeyInfo of Ed25519 (RFC 8410).
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The number of keys and identities that must have signed. 1 unless set; 1 to 16.
pub type MinimumSignatures = Count<1, 1, 16>;

table! {
    /// The signatures that components from a source require: `[[trust]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Trust {
        /// The beginnings of the references that the table applies to, such as `oci://registry.example.com/acme/`. Only
        /// the table with the longest match applies.
        #[required]
        pub sources: Vec<Source>,
        /// The public keys whose signatures count.
        pub keys: Vec<TrustedKey>,
        /// The keyless signers whose signatures count, too, as their certificates name them.
        pub identities: Vec<Identity>,
        /// The trusted root for `identities`: the file `trusted_root.json` of Sigstore. Required with `identities`.
        #[read(RootFile)]
        pub root: Option<TrustedRoot>,
        /// The number of keys and identities that must have signed. 1 unless set; 1 to 16.
        pub minimum: MinimumSignatures,
        /// The required content of a provenance (SLSA) that one of the keys or identities has signed. Not required
        /// unless set.
        pub provenance: Option<Provenance>,
        /// Whether components from these sources need no signature. `false` unless set.
        pub unsigned: bool,
    }
}

table! {
    /// A trusted public key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TrustedKey as "a public key", such as "{ file = \"acme.pub\" }" {
        /// The PEM file of the key: ECDSA on P-256, or Ed25519.
        #[required]
        #[read(KeyFile)]
        pub file: PublicKey,
        /// The last day, in UTC, on which a signature of this key can lock a new component: `2027-01-01`. No end unless
        /// set.
        #[read(Day)]
        pub not_after: Option<Date>,
    }
}

/// A prefix of references: a registry, or a registry and whole segments of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(Repository);

/// The reason why a text is not a prefix of references.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not the beginning of references", quote(.0))]
pub struct SourceError(String);

impl Source {
    /// The prefix without its scheme.
    pub fn prefix(&self) -> &Repository {
        &self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/", self.0)
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let prefix = text.strip_prefix(SCHEME).and_then(|rest| Repository::parse_prefix(rest).ok());
        prefix.map(Self).ok_or_else(|| SourceError(text.to_owned()))
    }
}

impl Suggest for SourceError {
    fn suggestion(&self, _: &str) -> String {
        format!("write a registry and whole segments of a repository, without a version: {}", Source::example())
    }
}

from_text!(
    Source,
    "the beginning of references",
    "\"oci://registry.example.com/acme/\"",
    Schema::pattern(r"^oci://[A-Za-z0-9.\[\]:-]+(/[a-z0-9._/-]*)?$")
);

/// A public key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: KeyAlgorithm,
    key: Vec<u8>,
    fingerprint: Digest,
}

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    EcdsaP256,
    /// Ed25519.
    Ed25519,
}

/// The reason why a text is not a public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// The text is not PEM with a public key.
    #[error("it is not a public key in PEM (`-----BEGIN PUBLIC KEY-----`)")]
    Pem,
    /// The key's algorithm is not supported.
    #[error("its public key is neither ECDSA on P-256 nor Ed25519")]
    Algorithm,
}

impl PublicKey {
    /// Parses a public key in PEM.
    ///
    /// # Errors
    ///
    /// The text is not PEM, or the algorithm is not supported.
    pub fn from_pem(pem: &[u8]) -> Result<Self, PublicKeyError> {
        let info = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| PublicKeyError::Pem)?;
        Self::from_der(&info)
    }

    /// Parses a SubjectPublicKeyInfo. Fails if the algorithm is not supported.
    pub fn from_der(der: &[u8]) -> Result<Self, PublicKeyError> {
        let of = |algorithm, prefix: &[u8], length: usize| {
            let key = der.strip_prefix(prefix).filter(|key| key.len() == length)?;
            Some(Self { algorithm, key: key.to_owned(), fingerprint: Digest::compute(der) })
        };
        of(KeyAlgorithm::EcdsaP256, &P256, 65)
            .or_else(|| of(KeyAlgorithm::Ed25519, &ED25519, 32))
            .ok_or(PublicKeyError::Algorithm)
    }

    /// The SubjectPublicKeyInfo of a key: an uncompressed point of P-256, or the 32 bytes of Ed25519.
    pub fn to_der(algorithm: KeyAlgorithm, key: &[u8]) -> Vec<u8> {
        let prefix: &[u8] = match algorithm {
            KeyAlgorithm::EcdsaP256 => &P256,
            KeyAlgorithm::Ed25519 => &ED25519,
        };
        [prefix, key].concat()
    }

    /// The algorithm.
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// The raw key: an uncompressed point, or 32 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.key
    }

    /// The SHA-256 of the key's SubjectPublicKeyInfo, as shown to people and stored in locks.
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint)
    }
}

struct KeyFile(PublicKey);

written_as! {
    KeyFile as ExistingFile, such as "\"acme.pub\"", |node| {
        let ExistingFile(path) = ExistingFile::from_node(node)?;
        let help = "name the file of a public key, such as `mcp-host push --sign` and `cosign generate-key-pair` use: ECDSA on \
                    P-256, or Ed25519";
        let key = match regular_file::read(&path, MAX_KEY_FILE_SIZE) {
            Ok(pem) => PublicKey::from_pem(&pem).map_err(|error| error.to_string()),
            Err(error) => Err(format!("it cannot be read: {error}")),
        };
        match key {
            Ok(key) => Some(Self(key)),
            Err(reason) => {
                node.report_machine_error(format!("the key cannot be used: {reason}"), help);
                None
            }
        }
    }
}

struct Day(Date);

impl FromNode for Day {
    const TYPE_NAME: &'static str = "a date";

    fn example() -> String {
        "2027-01-01".into()
    }

    fn schema() -> Schema {
        Schema::pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let text = match node.value {
            DeValue::Datetime(date) => date.to_string(),
            DeValue::String(text) => text.to_string(),
            _ => {
                node.expected_type::<Self>();
                return None;
            }
        };
        match text.parse() {
            Ok(date) if text.len() == 10 => Some(Self(date)),
            _ => {
                node.report_error(
                    format!("{} is not a date without a time", quote(&text)),
                    format!("write the last day, in UTC: {}", node.assignment_hint(&Self::example())),
                );
                None
            }
        }
    }
}

impl FromTable for Trust {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ sources = [\"oci://registry.example.com/acme/\"], keys = [{ file = \"acme.pub\" }] }".into()
    }

    fn constrain(schema: Schema) -> Schema {
        let having = |key: &str| Schema::any_table().with("required", vec![key]);
        schema.with("anyOf", ["keys", "identities", "unsigned"].map(|key| having(key).into_json()).to_vec())
    }

    fn check(table: &Table<'_>) {
        if !["keys", "identities", "unsigned"].into_iter().any(|key| table.has(key)) {
            table.report_error(
                "a `[[trust]]` names the keys or identities that must have signed",
                "add `keys = [{ file = \"acme.pub\" }]` or `identities`, or say `unsigned = true`: then anybody who can write to the \
                 registry decides what runs",
            );
        }
    }

    fn from_keys(keys: Self, table: &Table<'_>) -> Option<Self> {
        let report = |key: &str, message: String, help: &str| {
            table.report(Diagnostic::new(message, help.to_owned()).at(table.entry_span(key)));
        };
        if keys.unsigned {
            for other in ["keys", "identities", "root", "provenance"].into_iter().filter(|key| table.has(key)) {
                let message = format!("`unsigned` and `{other}` exclude each other");
                report(
                    "unsigned",
                    message,
                    "remove `unsigned = true`, so that one of the signers must have signed, or remove the other",
                );
            }
        } else if !table.has_problems() {
            let (key_count, identity_count) = (keys.keys.len(), keys.identities.len());
            if keys.minimum.get() > key_count.saturating_add(identity_count) {
                let identities =
                    if table.has("identities") { format!(" and {identity_count} identities") } else { String::new() };
                let message = format!(
                    "{} signatures are required, and there are {key_count} keys{identities}",
                    keys.minimum.get()
                );
                let at = ["minimum", "keys", "identities"].into_iter().find(|key| table.has(key)).unwrap_or("keys");
                report(at, message, "add keys, or lower `minimum`");
            }
            if identity_count > 0 && keys.root.is_none() {
                let help = "add `root = \"trusted_root.json\"`: the certificates and the keys of the logs that signatures are verified with, \
                            as Sigstore's instance publishes them";
                report("identities", "`identities` need a trusted root".to_owned(), help);
            } else if identity_count == 0 && keys.root.is_some() {
                report(
                    "root",
                    "`root` is for `identities`, and there are none".to_owned(),
                    "remove it, or add `identities`",
                );
            }
        }
        Some(keys)
    }
}

list_type! {
    /// The tables, each with different sources.
    pub(crate) struct Trusts(Vec<Trust>) of Trust as "a list of tables", |node| {
        let mut trusts: Vec<Trust> = Vec::new();
        for item in node.items::<Trust>()? {
            let Some(trust) = Trust::from_node(&item) else { continue };
            let known = |source: &&Source| trusts.iter().any(|earlier| earlier.sources.contains(source));
            if let Some(source) = trust.sources.iter().find(known) {
                let problem = Diagnostic::new(
                    format!("two `[[trust]]` are for `{source}`"),
                    "name each source once: the table with the longest one decides alone",
                );
                item.context.report(problem.at(item.entry_span("sources")));
            }
            trusts.push(trust);
        }
        Some(trusts)
    }
}

/// The table for a repository: the one with the longest matching prefix.
pub(crate) fn longest<'t>(trusts: &'t [Trust], repository: &Repository) -> Option<&'t Trust> {
    let length = |trust: &Trust| {
        let matching = trust.sources.iter().filter(|source| source.prefix().strip_prefix(repository).is_some());
        matching.map(|source| source.prefix().path().len()).max()
    };
    trusts
        .iter()
        .filter_map(|trust| Some((length(trust)?, trust)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, trust)| trust)
}

/// The source that is most similar to the beginning of a repository, if the similarity suggests a typo.
pub(crate) fn nearest<'t>(trusts: &'t [Trust], repository: &Repository) -> Option<&'t Source> {
    /// A bound on the cost of a comparison, which is the product of both lengths.
    const MAX_LEN: usize = 256;
    const MAX_TYPOS: usize = 3;
    let written = repository.to_string();
    let distance = |source: &Source| {
        let known = source.prefix().to_string();
        let segments = known.split('/').count();
        let beginning = written.split('/').take(segments).collect::<Vec<_>>().join("/");
        let is_short = known.len() <= MAX_LEN && beginning.len() <= MAX_LEN;
        is_short.then(|| strsim::damerau_levenshtein(&beginning, &known)).filter(|distance| *distance <= MAX_TYPOS)
    };
    let sources = trusts.iter().flat_map(|trust| &trust.sources);
    sources
        .filter_map(|source| Some((distance(source)?, source)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, source)| source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_known_by_the_digest_of_what_it_is_encoded_as() {
        for algorithm in [KeyAlgorithm::EcdsaP256, KeyAlgorithm::Ed25519] {
            let key = vec![4; if algorithm == KeyAlgorithm::EcdsaP256 { 65 } else { 32 }];
            let der = PublicKey::to_der(algorithm, &key);
            let read = PublicKey::from_der(&der).unwrap();
            assert_eq!((read.algorithm(), read.bytes(), read.fingerprint()), (algorithm, &*key, Digest::compute(&der)));
        }
        assert_eq!(PublicKey::from_der(&ED25519), Err(PublicKeyError::Algorithm));
        assert_eq!(PublicKey::from_pem(b"key"), Err(PublicKeyError::Pem));
    }

    #[test]
    fn keys_of_other_tools_are_read() {
        for (algorithm, expected) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Ok(KeyAlgorithm::EcdsaP256)),
            (&rcgen::PKCS_ED25519, Ok(KeyAlgorithm::Ed25519)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Err(PublicKeyError::Algorithm)),
        ] {
            let pem = rcgen::KeyPair::generate_for(algorithm).unwrap().public_key_pem();
            assert_eq!(PublicKey::from_pem(pem.as_bytes()).map(|key| key.algorithm()), expected);
        }
    }

    #[test]
    fn a_typo_is_compared_with_the_sources() {
        let trust =
            Trust::with_defaults(vec!["oci://a.example/acme/".parse().unwrap(), "oci://b.example".parse().unwrap()]);
        let nearest =
            |text: &str| nearest(std::slice::from_ref(&trust), &text.parse().unwrap()).map(ToString::to_string);
        assert_eq!(nearest("a.example/amce/web").as_deref(), Some("oci://a.example/acme/"));
        assert_eq!(nearest("b.exmaple/web").as_deref(), Some("oci://b.example/"));
        assert_eq!(nearest("registry.elsewhere.net/web"), None);
    }

    #[test]
    fn the_longest_prefix_decides() {
        let trust = |sources: &[&str], unsigned| Trust {
            unsigned,
            ..Trust::with_defaults(sources.iter().map(|source| source.parse().unwrap()).collect())
        };
        let trusts =
            [trust(&["oci://a.example/acme/", "oci://b.example"], false), trust(&["oci://a.example/acme/web"], true)];
        let decides = |text: &str| longest(&trusts, &text.parse().unwrap()).map(|trust| trust.unsigned);
        assert_eq!(decides("a.example/acme/web"), Some(true));
        assert_eq!(decides("a.example/acme/webs"), Some(false));
        assert_eq!(decides("b.example/any"), Some(false));
        assert_eq!(decides("a.example/other"), None);
    }
}
