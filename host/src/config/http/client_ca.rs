//! Authorities of client certificates: `[[http.client-ca]]`.

use super::super::grants::CaBundle;
use super::super::principal::{PrincipalName, declared_names, report_repeated_names};
use super::super::reader::{FromNode, FromTable, Node, Schema, Table, documented};

documented! {
    /// An authority of client certificates (mTLS).
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct ClientAuthority {
        /// Its name in rules: the principals with its certificates are `NAME/…`. Unique among these and issuers.
        pub name: PrincipalName,
        /// A PEM file with the certificates of the authority.
        pub ca: CaBundle,
        /// The part of a client certificate that names the principal: `common-name` unless set, `dns`, `email` or `uri`.
        pub principal_from: CertificateName,
    }
}

impl ClientAuthority {
    /// The authority with that name and those certificates. Principals are named by the common name.
    pub fn new(name: PrincipalName, ca: CaBundle) -> Self {
        Self { name, ca, principal_from: CertificateName::default() }
    }
}

/// The part of a certificate that names its principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CertificateName {
    /// The common name of the subject.
    #[default]
    CommonName,
    /// The DNS name in the subject alternative name.
    Dns,
    /// The mail address in the subject alternative name.
    Email,
    /// The URI in the subject alternative name, such as a SPIFFE ID.
    Uri,
}

impl CertificateName {
    const NAMES: [(&'static str, Self); 4] =
        [("common-name", Self::CommonName), ("dns", Self::Dns), ("email", Self::Email), ("uri", Self::Uri)];
}

impl FromNode for CertificateName {
    const TYPE_NAME: &'static str = "a part of a certificate";

    fn example() -> String {
        "\"common-name\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::NAMES.map(|(name, _)| name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::NAMES)
    }
}

impl FromTable for ClientAuthority {
    const TYPE_NAME: &'static str = "an authority of client certificates";

    fn example() -> String {
        "{ name = \"devices\", ca = \"tls/clients.pem\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required("name");
        let ca = table.required("ca").map(|AuthorityBundle(ca)| ca);
        let principal_from = table.or_default("principal-from");
        Some(Self { name: name?, ca: ca?, principal_from })
    }
}

/// Certificates of which one at least is that of an authority.
struct AuthorityBundle(CaBundle);

impl FromNode for AuthorityBundle {
    const TYPE_NAME: &'static str = CaBundle::TYPE_NAME;

    fn example() -> String {
        CaBundle::example()
    }

    fn schema() -> Schema {
        CaBundle::schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
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

/// Returns whether a certificate may have issued others (RFC 5280, section 4.2.1.9). Those before version 3 do not say.
#[cfg(feature = "http")]
fn has_authority(bundle: &CaBundle) -> bool {
    use x509_parser::prelude::{FromDer, X509Certificate, X509Version};
    let is_authority = |certificate: &X509Certificate<'_>| match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    let mut certificates = bundle.certificates().iter();
    certificates.any(|der| X509Certificate::from_der(der).is_ok_and(|(_, certificate)| is_authority(&certificate)))
}

#[cfg(not(feature = "http"))]
fn has_authority(_: &CaBundle) -> bool {
    true
}

/// The authorities of a config, with unique names.
#[derive(Default)]
pub(super) struct ClientAuthorities(pub(super) Vec<ClientAuthority>);

impl FromNode for ClientAuthorities {
    const TYPE_NAME: &'static str = "a list of authorities of client certificates";

    fn example() -> String {
        format!("[{}]", <ClientAuthority as FromNode>::example())
    }

    fn schema() -> Schema {
        Schema::list(ClientAuthority::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<ClientAuthority>()?;
        report_repeated_names(&items, "two client CAs have the name");
        node.context.declared.borrow_mut().issuers.extend(declared_names(&items));
        Some(Self(items.iter().filter_map(ClientAuthority::from_node).collect()))
    }
}
