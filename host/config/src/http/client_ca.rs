//! Authorities of client certificates: `[[http.client-ca]]`.

use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use crate::declare::{list_type, named_enum, table, written_as};
use crate::grants::CaBundle;
use crate::principal::{PrincipalName, declared_names, unique_names};
use crate::reader::Node;

table! {
    /// An authority of client certificates (mTLS).
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct ClientAuthority as "an authority of client certificates", such as "{ name = \"devices\", ca = \"tls/clients.pem\" }" {
        /// The name of the authority in rules: principals with its certificates are `NAME/…`. Unique among authorities
        /// and issuers.
        #[required]
        pub name: PrincipalName,
        /// A PEM file with the certificates of the authority.
        #[required]
        #[read(AuthorityBundle)]
        pub ca: CaBundle,
        /// The part of a client certificate that names the principal: `common-name` unless set, `dns`, `email` or
        /// `uri`.
        pub principal_from: CertificateName,
    }
}

impl ClientAuthority {
    /// The authority with this name and these certificates. The common name of a certificate is the name of the
    /// principal.
    pub fn new(name: PrincipalName, ca: CaBundle) -> Self {
        Self::with_defaults(name, ca)
    }
}

named_enum! {
    /// The part of a certificate that is the name of its principal.
    #[derive(Default)]
    pub enum CertificateName as "a part of a certificate", such as "\"common-name\"" {
        /// The common name of the subject.
        #[default]
        CommonName = "common-name",
        /// The DNS name in the subject alternative name.
        Dns = "dns",
        /// The mail address in the subject alternative name.
        Email = "email",
        /// The URI in the subject alternative name, such as a SPIFFE ID.
        Uri = "uri",
    }
}

/// Certificates, at least one of them of an authority.
struct AuthorityBundle(CaBundle);

written_as! {
    AuthorityBundle as CaBundle, |node| {
        let bundle = CaBundle::from_node(node)?;
        if has_authority(&bundle) {
            return Some(Self(bundle));
        }
        let help = "write the path of a PEM file with the certificate of the authority that issues the clients' certificates: \
                    `openssl x509 -in FILE -noout -ext basicConstraints` prints `CA:TRUE` for it";
        node.report_machine_error("no certificate of the file is that of an authority", help);
        None
    }
}

/// Returns whether a certificate can be an authority (RFC 5280, section 4.2.1.9). Certificates before version 3 have no
/// such field, and count as authorities.
fn has_authority(bundle: &CaBundle) -> bool {
    let is_authority = |certificate: &X509Certificate<'_>| match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    let mut certificates = bundle.certificates().iter();
    certificates.any(|der| X509Certificate::from_der(der).is_ok_and(|(_, certificate)| is_authority(&certificate)))
}

list_type! {
    /// The authorities of a config, with unique names.
    pub(super) struct ClientAuthorities(Vec<ClientAuthority>) of ClientAuthority
    as "a list of authorities of client certificates", |node| {
        node.context.declared.borrow_mut().issuers.extend(declared_names(node));
        let items: Vec<(Node<'_>, ClientAuthority)> = unique_names(node, "two client CAs have the name")?;
        Some(items.into_iter().map(|(_, authority)| authority).collect())
    }
}
