//! Introspection endpoints (RFC 7662).

use crate::config::client_id::ClientId;
use crate::config::endpoint_url::EndpointUrl;
use crate::config::reader::{FromTable, Table, documented};
use crate::config::secret::{Secret, SecretSource};

documented! {
    /// An introspection endpoint (RFC 7662), which is asked whether a token is active.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Introspection {
        /// The URL of the endpoint: `introspection_endpoint` in the metadata of the issuer.
        pub url: EndpointUrl,
        /// The id by which this server authenticates at the endpoint (HTTP Basic; RFC 6749, section 2.3.1).
        pub client_id: String,
        /// The secret by which this server authenticates: from a variable or a file.
        pub client_secret: Secret<String>,
    }
}

impl Introspection {
    /// The endpoint at that URL, with the credentials of this server.
    pub fn new(url: EndpointUrl, client_id: impl Into<String>, client_secret: Secret<String>) -> Self {
        Self { url, client_id: client_id.into(), client_secret }
    }
}

impl FromTable for Introspection {
    const TYPE_NAME: &'static str = "a table with `url`, `client-id` and `client-secret`";

    fn example() -> String {
        "{ url = \"https://login.example.com/introspect\", client-id = \"mcp-host\", client-secret = { env = \
         \"INTROSPECTION_SECRET\" } }"
            .into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let url = table.required("url");
        let client_id = table.required::<ClientId>("client-id");
        let client_secret = table.required::<SecretSource>("client-secret");
        Some(Self { url: url?, client_id: client_id?.0, client_secret: Secret::new(client_secret?.0.to_string()) })
    }
}
