//! Credentials: headers that the host adds to a plugin's requests. The plugin never sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use hyper::header::{self, HeaderName, HeaderValue, InvalidHeaderValue};
use zeroize::Zeroize;

use crate::declare::written_as;
use crate::diagnostic::{Diagnostic, Suggest, quote};
use crate::reader::{FromNode, Node, Schema};
use crate::secret::{Secret, SecretSource};

/// Headers that affect message framing or routing. The host sets them itself.
const RESERVED_HEADERS: [HeaderName; 12] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The name of a header that can be a credential: one that does not affect message framing or routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialName(HeaderName);

/// The value of a header: printable ASCII, at least one character.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialValue(String);

/// The reason why a text is not a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The text is not a header name.
    #[error("{} is not the name of a header", quote(.0))]
    Name(String),
    /// The header is reserved for the host.
    #[error("the header {} belongs to the connection, and cannot be set", quote(.0))]
    Reserved(String),
    /// The value is empty or not valid in a header. The error does not show the value, because it is a secret.
    #[error("the value of a header must be printable ASCII on one line, and not empty")]
    Value,
}

impl Suggest for CredentialError {
    fn suggestion(&self, _: &str) -> String {
        match self {
            Self::Name(_) => "write a name such as `Authorization`".into(),
            Self::Reserved(_) => "write a header that says who asks, such as `Authorization` or `X-Api-Key`".into(),
            Self::Value => "correct the variable or the file that it comes from".into(),
        }
    }
}

impl CredentialName {
    /// Returns the name, in lower case.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the name.
    pub fn header(&self) -> &HeaderName {
        &self.0
    }
}

impl PartialOrd for CredentialName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CredentialName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl FromStr for CredentialName {
    type Err = CredentialError;

    fn from_str(text: &str) -> Result<Self, CredentialError> {
        let name = HeaderName::try_from(text).map_err(|_| CredentialError::Name(text.to_owned()))?;
        if RESERVED_HEADERS.contains(&name) { Err(CredentialError::Reserved(text.to_owned())) } else { Ok(Self(name)) }
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl CredentialValue {
    /// Returns the value as a header that `Debug` does not show. Does not fail, because the value was validated when it
    /// was parsed.
    pub fn header(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = HeaderValue::from_str(&self.0)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Zeroize for CredentialValue {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl FromStr for CredentialValue {
    type Err = CredentialError;

    fn from_str(text: &str) -> Result<Self, CredentialError> {
        if text.trim().is_empty() || !text.is_ascii() || HeaderValue::from_str(text).is_err() {
            return Err(CredentialError::Value);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Hides the value.
impl fmt::Debug for CredentialValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialValue(…)")
    }
}

/// The table of credentials, by header name.
pub(crate) struct Credentials(pub(crate) BTreeMap<CredentialName, Secret<CredentialValue>>);

impl FromNode for Credentials {
    const TYPE_NAME: &'static str = "a table of headers";

    fn example() -> String {
        "{ Authorization = { env = \"API_AUTH\" } }".into()
    }

    fn schema() -> Schema {
        Schema::map(Schema::pattern(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"), CredentialSource::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let (mut credentials, mut names) = (BTreeMap::new(), BTreeSet::new());
        for entry in node.entries::<Self>()? {
            let name = entry.parse_key::<CredentialName>();
            let value = CredentialSource::from_node(&entry);
            let Some(name) = name else { continue };
            let is_duplicate = !names.insert(name.clone());
            credentials.extend(value.map(|CredentialSource(value)| (name, value)));
            if is_duplicate {
                let message = format!("the header {} is defined twice", quote(entry.key));
                let problem = Diagnostic::new(message, "write it once; upper and lower case are the same in a header");
                node.context.report(problem.at(entry.key_span.clone()));
            }
        }
        Some(Self(credentials))
    }
}

/// The source of a credential.
struct CredentialSource(Secret<CredentialValue>);

written_as! {
    CredentialSource as SecretSource, such as "{ env = \"API_AUTH\" }", |node| {
        if node.value.is_str() {
            let message = format!("{} must not be in the config file, which others may read", quote(node.key));
            let help = format!("store it elsewhere and write its source: {}", node.assignment_hint(&Self::example()));
            node.context.report(Diagnostic::new(message, help).at(node.span.clone()).redacted());
            return None;
        }
        let text = SecretSource::from_node(node)?.0;
        match text.parse() {
            Ok(value) => Some(Self(Secret::new(value))),
            Err(error) => {
                node.reject_source(&error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_has_the_name_of_a_header_that_says_who_asks() {
        assert_eq!("Authorization".parse::<CredentialName>().unwrap().as_str(), "authorization");
        assert!("X-Api-Key".parse::<CredentialName>().is_ok());
        for name in ["", "a b", "a:b", "キー", "a\n"] {
            assert_eq!(name.parse::<CredentialName>(), Err(CredentialError::Name(name.into())));
        }
        for name in ["Host", "content-length", "Transfer-Encoding", "connection", "Upgrade", "TE", "Trailer"] {
            assert_eq!(name.parse::<CredentialName>(), Err(CredentialError::Reserved(name.into())));
        }
    }

    #[test]
    fn the_value_of_a_credential_is_one_line_that_no_message_repeats() {
        let value: CredentialValue = "Bearer hunter2".parse().unwrap();
        assert_eq!(format!("{value:?} {:?}", value.header().unwrap()), "CredentialValue(…) Sensitive");
        for text in ["", " ", "a\nb", "a\rb", "a\0b", "é"] {
            assert_eq!(text.parse::<CredentialValue>(), Err(CredentialError::Value), "{text:?}");
        }
    }
}
