//! Client certificates (mTLS): determine the principal of a connection by an authority of `http.client-ca`.
//!
//! A certificate is requested in the handshake if the config has authorities, but it is optional: a client without one
//! is authenticated by a token, or not at all. The handshake fails if a certificate matches no principal. Each request
//! looks up the authorities of the current config, so a reload that removes an authority revokes its certificates.
//!
//! # One authority
//!
//! The client sends the intermediate certificates, so it selects the paths that can be found. Every authority is
//! therefore tried, with the certificates of all other authorities as possible intermediates, whatever the client
//! sends. A certificate that leads to more than one authority names a principal of each, and authenticates none of
//! them.
//!
//! # Bounds
//!
//! The time to search a path grows with the sixth power of the number of intermediate certificates, and the search is
//! one piece on a thread of the transport. So a client may send [`MAX_INTERMEDIATES`] at most: with those the search
//! takes some milliseconds for each authority, and with 300, which fit into a handshake, it would take about half a
//! minute.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use mcp_host_base::tls_client::TooManyIntermediates;
use mcp_host_base::verify_handshake_signatures;
use mcp_host_config::Config;
use mcp_host_config::http::{CertificateName, ClientAuthority};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error, RootCertStore};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::claims::is_name;

/// The maximum number of certificates that a client may send besides its own. No path has more.
const MAX_INTERMEDIATES: usize = 6;

/// The certificate of a connection, with its intermediate certificates.
pub(in crate::http) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The cached verification under the most recently used config: a verification costs about a millisecond.
    verified: ArcSwapOption<Verified>,
}

/// The result of verifying a certificate under a config.
struct Verified {
    config: Arc<Config>,
    /// The principal of the certificate, and its expiry.
    principal: Result<(Principal, SystemTime), CertificateRefusal>,
}

/// The reason why a certificate authenticates no principal. `Display` is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CertificateRefusal {
    /// No authority issued the certificate, it has expired, or it does not have exactly one name.
    #[error("the client certificate is of no authority of `http.client-ca`, or names no principal")]
    NoPrincipal,
    /// The certificate leads to several authorities, or the number of paths to one of them exceeds the bound of the
    /// search.
    #[error(
        "the client certificate leads to more than one authority of `http.client-ca`, `{first}` and `{second}`, so that it names a \
         principal of each; remove one of the two from the config, or have the clients of one get certificates of an authority that \
         is not below the other"
    )]
    Ambiguous {
        /// The name of one authority.
        first: String,
        /// The name of another.
        second: String,
    },
}

impl CertificateRefusal {
    /// The name of the kind of reason, by which log lines are throttled.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::NoPrincipal => "certificate",
            Self::Ambiguous { .. } => "ambiguous certificate",
        }
    }

    /// A description for the client.
    pub(super) fn description(&self) -> &'static str {
        match self {
            Self::NoPrincipal => "the client certificate names no principal",
            Self::Ambiguous { .. } => "the client certificate leads to several authorities",
        }
    }
}

impl ClientCertificate {
    /// The certificates of a connection. None if the client sent none.
    pub(in crate::http) fn of_connection(connection: &rustls::ServerConnection) -> Option<Arc<Self>> {
        let chain = connection.peer_certificates().filter(|chain| !chain.is_empty())?;
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Some(Arc::new(Self { chain, verified: ArcSwapOption::empty() }))
    }

    /// Returns the principal of the certificate and the time for which it is valid, if exactly one authority of this
    /// config issued it, it is valid now, and it has a name.
    pub(super) fn principal(&self, config: &Arc<Config>) -> Result<(Principal, Duration), CertificateRefusal> {
        let known = self.verified.load_full().filter(|known| Arc::ptr_eq(&known.config, config));
        let known = known.unwrap_or_else(|| {
            let verified =
                Arc::new(Verified { config: config.clone(), principal: self.verify(&config.http.client_ca) });
            self.verified.store(Some(verified.clone()));
            verified
        });
        let (principal, not_after) = known.principal.clone()?;
        let remaining = not_after.duration_since(SystemTime::now()).map_err(|_| CertificateRefusal::NoPrincipal)?;
        Ok((principal, remaining))
    }

    fn verify(&self, authorities: &[ClientAuthority]) -> Result<(Principal, SystemTime), CertificateRefusal> {
        let (end_entity, sent) = self.chain.split_first().ok_or(CertificateRefusal::NoPrincipal)?;
        let now = UnixTime::now();
        let configured = authorities.iter().flat_map(|authority| authority.ca.certificates());
        let intermediates: Vec<_> = configured.chain(sent).cloned().collect();
        let mut leads_to = authorities.iter().filter(|authority| {
            let found = verify(authority, end_entity, &intermediates, now);
            // A search that reached its bounds does not prove that there is no path.
            found.is_ok() || found.is_err_and(|error| is_search_limit(&error))
        });
        let authority = leads_to.next().ok_or(CertificateRefusal::NoPrincipal)?;
        if let Some(second) = leads_to.next() {
            let [first, second] = [authority, second].map(|authority| authority.name.as_str().to_owned());
            return Err(CertificateRefusal::Ambiguous { first, second });
        }
        // The only candidate may be an authority whose search reached its bounds.
        verify(authority, end_entity, &intermediates, now).map_err(|_| CertificateRefusal::NoPrincipal)?;
        named_principal(end_entity, authority).ok_or(CertificateRefusal::NoPrincipal)
    }
}

/// Returns whether the search for a path reached one of its bounds.
fn is_search_limit(error: &Error) -> bool {
    use webpki::Error::{
        MaximumNameConstraintComparisonsExceeded, MaximumPathBuildCallsExceeded, MaximumPathDepthExceeded,
        MaximumSignatureChecksExceeded,
    };
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(
        other.0.downcast_ref(),
        Some(
            MaximumNameConstraintComparisonsExceeded
                | MaximumPathBuildCallsExceeded
                | MaximumPathDepthExceeded
                | MaximumSignatureChecksExceeded
        )
    )
}

/// Returns the principal that a certificate of this authority names, and its expiry.
fn named_principal(end_entity: &CertificateDer<'_>, authority: &ClientAuthority) -> Option<(Principal, SystemTime)> {
    let (_, certificate) = X509Certificate::from_der(end_entity).ok()?;
    let name = principal_name(&certificate, authority.principal_from)?;
    let not_after = Duration::from_secs(u64::try_from(certificate.validity().not_after.timestamp()).ok()?);
    Some((Principal::new(format!("{}/{name}", authority.name)), UNIX_EPOCH.checked_add(not_after)?))
}

/// Verifies a certificate of an authority for a client.
fn verify(
    authority: &ClientAuthority,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<ClientCertVerified, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authority.ca.certificates().iter().cloned());
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_client_cert(end_entity, intermediates, now)
}

/// Returns the only name of this kind. A certificate with several is ambiguous and authenticates no principal.
fn principal_name(certificate: &X509Certificate<'_>, from: CertificateName) -> Option<String> {
    let alternative = certificate.subject_alternative_name().ok()?;
    let general = alternative.iter().flat_map(|extension| &extension.value.general_names);
    // A name that cannot be decoded counts, too: it makes the certificate ambiguous.
    let names: Vec<Option<&str>> = match from {
        CertificateName::CommonName => {
            certificate.subject().iter_common_name().map(|name| name.as_str().ok()).collect()
        }
        from => general
            .filter_map(|name| match (from, name) {
                (CertificateName::Dns, GeneralName::DNSName(name))
                | (CertificateName::Email, GeneralName::RFC822Name(name))
                | (CertificateName::Uri, GeneralName::URI(name)) => Some(Some(*name)),
                _ => None,
            })
            .collect(),
    };
    match names.as_slice() {
        [Some(name)] if is_name(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Verifies the certificates of clients by the authorities of the current config.
pub(in crate::http) struct ClientCertificateVerifier {
    host: Arc<Host>,
    provider: CryptoProvider,
}

impl ClientCertificateVerifier {
    pub(in crate::http) fn new(host: Arc<Host>) -> Self {
        Self { host, provider: ring::default_provider() }
    }
}

impl ClientCertVerifier for ClientCertificateVerifier {
    fn offer_client_auth(&self) -> bool {
        !self.host.config().http.client_ca.is_empty()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Empty: the names of the authorities are not published, and clients have few certificates to choose from.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        TooManyIntermediates::check(intermediates, MAX_INTERMEDIATES)?;
        let config = self.host.config();
        let mut last_error = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for authority in &config.http.client_ca {
            match verify(authority, end_entity, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    verify_handshake_signatures!(self, self.provider.signature_verification_algorithms);
}

impl fmt::Debug for ClientCertificateVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificateVerifier")
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;
    use mcp_host_config::grants::CaBundle;

    /// The config of an authority, and a certificate for `sensor` that it issued.
    fn issue() -> (Config, ClientCertificate) {
        let (key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CaBundle::from_pem(authority.self_signed(&key).unwrap().pem().as_bytes()).unwrap();
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "sensor");
        client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = client.signed_by(&client_key, &Issuer::new(authority, key)).unwrap();
        let mut config = Config::new();
        config.http.client_ca = vec![ClientAuthority::new("devices".parse().unwrap(), ca)];
        (config, ClientCertificate { chain: vec![certificate.der().clone()], verified: ArcSwapOption::empty() })
    }

    /// An authority with that name, issued by `parent` if there is one, and its certificate.
    fn authority(name: &str, parent: Option<&Issuer<'_, KeyPair>>) -> (Issuer<'static, KeyPair>, rcgen::Certificate) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = match parent {
            Some(parent) => parameters.signed_by(&key, parent).unwrap(),
            None => parameters.self_signed(&key).unwrap(),
        };
        (Issuer::new(parameters, key), certificate)
    }

    /// A certificate for `boss` that this authority issued, and the intermediate certificates that the client sends.
    fn boss(issuer: &Issuer<'_, KeyPair>, sent: &[&rcgen::Certificate]) -> ClientCertificate {
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "boss");
        client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = client.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
        let chain = [&certificate].into_iter().chain(sent.iter().copied());
        ClientCertificate { chain: chain.map(|one| one.der().clone()).collect(), verified: ArcSwapOption::empty() }
    }

    /// Returns the principal that the certificate authenticates under these authorities, each with its name and
    /// certificate.
    fn whose(certificate: &ClientCertificate, authorities: &[(&str, &rcgen::Certificate)]) -> String {
        let mut config = Config::new();
        config.http.client_ca = authorities
            .iter()
            .map(|(name, ca)| {
                ClientAuthority::new(name.parse().unwrap(), CaBundle::from_pem(ca.pem().as_bytes()).unwrap())
            })
            .collect();
        certificate.verified.store(None);
        match certificate.principal(&Arc::new(config)) {
            Ok((principal, _)) => principal.name().to_owned(),
            Err(CertificateRefusal::NoPrincipal) => "no principal".to_owned(),
            Err(CertificateRefusal::Ambiguous { first, second }) => format!("{first} or {second}"),
        }
    }

    #[test]
    fn what_a_client_sends_along_does_not_select_the_authority_of_its_certificate() {
        let (staff_key, staff) = authority("Staff", None);
        let (contractors_key, contractors) = authority("Contractors", Some(&staff_key));
        let (deeper_key, deeper) = authority("Deeper", Some(&contractors_key));
        let both = [("staff", &staff), ("contractors", &contractors)];
        let reversed = [("contractors", &contractors), ("staff", &staff)];
        for sent in [vec![], vec![&contractors], vec![&staff], vec![&contractors, &staff]] {
            let certificate = boss(&contractors_key, &sent);
            assert_eq!(whose(&certificate, &both), "staff or contractors", "{} sent", sent.len());
            assert_eq!(whose(&certificate, &reversed), "contractors or staff", "{} sent", sent.len());
            assert_eq!(whose(&certificate, &both[1..]), "contractors/boss", "{} sent", sent.len());
        }
        let below = boss(&deeper_key, &[&deeper]);
        assert_eq!(whose(&below, &both), "staff or contractors");
        assert_eq!(whose(&boss(&deeper_key, &[]), &both), "no principal", "a certificate between is missing");
        assert_eq!(whose(&boss(&staff_key, &[&contractors]), &both), "staff/boss");
    }

    #[test]
    fn a_certificate_of_an_authority_that_has_two_names_authenticates_nobody() {
        let (key, ca) = authority("Devices", None);
        let (other_key, other) = authority("Devices", None);
        assert_eq!(whose(&boss(&key, &[]), &[("a", &ca), ("b", &ca)]), "a or b");
        for (issuer, name) in [(&key, "a/boss"), (&other_key, "b/boss")] {
            let certificate = boss(issuer, &[&ca, &other]);
            assert_eq!(whose(&certificate, &[("a", &ca), ("b", &other)]), name, "of the same subject, and unrelated");
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_many_certificates_is_refused_before_a_path_is_searched() {
        let dir = tempfile::tempdir().unwrap();
        let (config, certificate) = issue();
        let host = Host::builder(config).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let verifier = ClientCertificateVerifier::new(Arc::new(host.start().await.unwrap()));
        // None of them is on the path, which consists of the client's own certificate.
        let sent: Vec<_> = (0..=MAX_INTERMEDIATES).map(|_| authority("Other", None).1.der().clone()).collect();
        let verify =
            |sent: &[CertificateDer<'_>]| verifier.verify_client_cert(&certificate.chain[0], sent, UnixTime::now());
        verify(&sent[..MAX_INTERMEDIATES]).unwrap();
        let Err(Error::InvalidCertificate(CertificateError::Other(error))) = verify(&sent) else {
            panic!("it is not refused, or for another reason");
        };
        assert!(error.0.is::<TooManyIntermediates>(), "{error}");
    }

    #[test]
    fn a_certificate_is_verified_once_for_each_config() {
        let (config, certificate) = issue();
        let config = Arc::new(config);
        let verified = || certificate.verified.load_full().unwrap();
        for _ in 0..2 {
            assert_eq!(certificate.principal(&config).unwrap().0.name(), "devices/sensor");
        }
        let first = verified();
        certificate.principal(&config).unwrap();
        assert!(Arc::ptr_eq(&first, &verified()), "what was found is kept");
        assert!(certificate.principal(&Arc::new(Config::new())).is_err(), "a config without its authority");
        assert!(!Arc::ptr_eq(&first, &verified()));
    }
}
