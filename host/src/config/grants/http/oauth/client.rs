//! OAuth clients: how the host authenticates at a token endpoint (RFC 6749, section 2.3).

use crate::config::reader::{FromNode, Node, Schema};
use crate::config::secret::{Secret, SecretSource};

/// The registration of the host at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthClient {
    /// The id of the client.
    pub id: String,
    /// The secret of the client. A public client has none.
    pub secret: Option<Secret<String>>,
    /// How the secret is sent. Ignored without one.
    pub authentication: ClientAuthentication,
}

impl OAuthClient {
    /// A client with that id and secret, which authenticates by HTTP Basic.
    pub fn new(id: impl Into<String>, secret: Option<Secret<String>>) -> Self {
        Self { id: id.into(), secret, authentication: ClientAuthentication::default() }
    }
}

/// How the secret of a client is sent (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientAuthentication {
    /// In the header `Authorization`, as HTTP Basic: `client_secret_basic`.
    #[default]
    Basic,
    /// In the body of the request: `client_secret_post`.
    Post,
}

impl ClientAuthentication {
    const NAMES: [(&'static str, Self); 2] = [("basic", Self::Basic), ("post", Self::Post)];
}

impl FromNode for ClientAuthentication {
    const TYPE_NAME: &'static str = "a method of client authentication";

    fn example() -> String {
        "\"basic\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::NAMES.map(|(name, _)| name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::NAMES)
    }
}

/// A secret that is not empty.
pub(super) struct NonEmptySecret(pub(super) Secret<String>);

impl FromNode for NonEmptySecret {
    const TYPE_NAME: &'static str = SecretSource::TYPE_NAME;

    fn example() -> String {
        SecretSource::example()
    }

    fn schema() -> Schema {
        SecretSource::schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let text = SecretSource::from_node(node)?.0;
        if text.is_empty() {
            let help = "correct the variable or the file that it comes from";
            node.report_machine_error(format!("the value of `{}` is empty", node.key), help);
            return None;
        }
        Some(Self(Secret::new(text.to_string())))
    }
}
