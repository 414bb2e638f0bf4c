//! Keys of service accounts: JSON files as Google Cloud makes them.

use ring::signature::RsaKeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::EndpointUrl;
use crate::declare::written_as;
use crate::diagnostic::Suggest;
use crate::secret::{Secret, SecretSource};

/// The key of a service account, with which the host signs requests for access tokens (RS256).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountKey {
    email: String,
    key_id: Option<String>,
    /// PKCS #8, as DER.
    private_key: Secret<Vec<u8>>,
    token_uri: Option<EndpointUrl>,
}

/// The reason why a text is not the key of a service account. No message shows a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceAccountKeyError {
    /// The text is not a JSON object with string values.
    #[error("the key of the service account is not the JSON of a key file")]
    Json,
    /// The text holds other credentials: its `type` is not `service_account`.
    #[error("the JSON is not the key of a service account: its `type` is not `service_account`")]
    Type,
    /// A member is missing or empty.
    #[error("the key of the service account has no `{0}`")]
    Missing(&'static str),
    /// The private key is not an RSA key in PKCS #8.
    #[error("the `private_key` of the service account is not an RSA key of 2048 to 4096 bits in PEM (PKCS #8)")]
    PrivateKey,
    /// The URL of the token endpoint is neither `https` nor `http` to loopback.
    #[error("the `token_uri` of the service account is not a URL with `https`")]
    TokenUri,
}

impl Suggest for ServiceAccountKeyError {
    fn suggestion(&self, _: &str) -> String {
        match self {
            Self::Type => "create a key for a service account and use its file; a user's `refresh_token` goes into \
                           `refresh-token`, with `client-id`, `client-secret` and `token-uri`"
                .to_owned(),
            Self::TokenUri => {
                "a token endpoint is `https://…`; `http://` is for `localhost` and loopback addresses".to_owned()
            }
            _ => "use the JSON file of a key as it was downloaded: `gcloud iam service-accounts keys create FILE`"
                .to_owned(),
        }
    }
}

/// The relevant members of the file.
#[derive(Deserialize)]
struct KeyFile {
    r#type: Option<String>,
    client_email: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccountKey {
    /// Parses the content of a key file.
    ///
    /// # Errors
    ///
    /// The text is not a key file, or its key cannot be used.
    pub fn from_json(json: &str) -> Result<Self, ServiceAccountKeyError> {
        let file: KeyFile = serde_json::from_str(json).map_err(|_| ServiceAccountKeyError::Json)?;
        let private_key = file.private_key.map(Zeroizing::new);
        if file.r#type.as_deref() != Some("service_account") {
            return Err(ServiceAccountKeyError::Type);
        }
        let email = file.client_email.filter(|email| !email.is_empty());
        let email = email.ok_or(ServiceAccountKeyError::Missing("client_email"))?;
        let pem = private_key.ok_or(ServiceAccountKeyError::Missing("private_key"))?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| ServiceAccountKeyError::PrivateKey)?;
        let private_key = Secret::new(key.secret_pkcs8_der().to_vec());
        RsaKeyPair::from_pkcs8(private_key.expose()).map_err(|_| ServiceAccountKeyError::PrivateKey)?;
        let token_uri =
            file.token_uri.map(|uri| uri.parse().map_err(|_| ServiceAccountKeyError::TokenUri)).transpose()?;
        Ok(Self { email, key_id: file.private_key_id, private_key, token_uri })
    }

    /// Returns the e-mail address of the service account, which is its name.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// Returns the id of the key.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Returns the URL of the token endpoint in the key file, which is also the audience of JWTs signed with the key.
    pub fn token_uri(&self) -> Option<&EndpointUrl> {
        self.token_uri.as_ref()
    }

    /// Returns the private key: PKCS #8, as DER.
    pub fn private_key(&self) -> &Secret<Vec<u8>> {
        &self.private_key
    }
}

written_as! {
    ServiceAccountKey as SecretSource, such as "{ file = \"service-account.json\" }", |node| {
        match Self::from_json(&SecretSource::from_node(node)?.0) {
            Ok(key) => Some(key),
            Err(error) => {
                node.reject_source(&error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = include_str!("../../../../tests/ui/valid/secrets/service-account.json");

    fn with(member: &str, value: Value) -> Result<ServiceAccountKey, ServiceAccountKeyError> {
        let mut key: Value = serde_json::from_str(KEY).unwrap();
        key[member] = value;
        ServiceAccountKey::from_json(&key.to_string())
    }

    #[test]
    fn a_key_file_has_all_that_a_token_takes() {
        let key = ServiceAccountKey::from_json(KEY).unwrap();
        assert_eq!(key.email(), "reader@example.iam.gserviceaccount.com");
        assert_eq!(key.key_id(), Some("0123456789abcdef0123456789abcdef01234567"));
        assert_eq!(key.token_uri().unwrap().as_str(), "https://oauth2.googleapis.com/token");
        assert!(format!("{key:?}").contains("private_key: Secret(…)"), "{key:?}");
    }

    #[test]
    fn another_file_is_not_a_key() {
        use ServiceAccountKeyError as Error;
        for text in ["", "hunter2", "[]", "-----BEGIN PRIVATE KEY-----", "{ \"type\": 1 }"] {
            assert_eq!(ServiceAccountKey::from_json(text), Err(Error::Json), "{text}");
        }
        assert_eq!(with("type", json!("authorized_user")), Err(Error::Type));
        assert_eq!(with("client_email", json!(null)), Err(Error::Missing("client_email")));
        assert_eq!(with("private_key", json!(null)), Err(Error::Missing("private_key")));
        for key in ["", "hunter2", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(with("private_key", json!(key)), Err(Error::PrivateKey), "{key}");
        }
        for uri in ["", "http://example.com/token", "https://a:b@example.com/"] {
            assert_eq!(with("token_uri", json!(uri)), Err(Error::TokenUri), "{uri}");
        }
        assert_eq!(with("token_uri", json!(null)).unwrap().token_uri(), None);
    }
}
