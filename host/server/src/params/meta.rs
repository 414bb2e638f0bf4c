//! `_meta` of parameters.

use mcp_host_base::trace::TraceParent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::MAX_VERSION_NAME;
use super::bounded::{self, BoundedString, Object, ObjectMap, TruncatedString, present};

/// The maximum length of a `traceparent`: 55 bytes in version 00, and later versions may append fields.
const MAX_TRACEPARENT: usize = 256;

/// The keys in `_meta` of a request without a session.
pub(crate) const PROTOCOL_VERSION_META_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CLIENT_CAPABILITIES_META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The used members of `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestMeta {
    /// Whether the parameters are an object, with a `_meta` that is an object if it is present.
    pub(crate) is_valid: bool,
    /// The declared revision.
    pub(crate) version: Option<String>,
    /// Whether `_meta` declares the capabilities of the client.
    pub(crate) has_capabilities: bool,
    /// The span of the client (`traceparent` of W3C Trace Context), if it is valid.
    pub(crate) traceparent: Option<TraceParent>,
}

#[derive(Deserialize)]
struct RawMeta<'a> {
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
}

/// The capabilities of a client. None is used.
#[derive(Deserialize)]
#[allow(dead_code, reason = "that it can be read is all that matters")]
pub(super) struct ClientCapabilities {
    experimental: Option<ObjectMap>,
    extensions: Option<ObjectMap>,
    roots: Option<Object>,
    sampling: Option<Object>,
    elicitation: Option<Object>,
}

impl RequestMeta {
    pub(crate) fn parse(raw: &RawValue) -> Result<Self, String> {
        let meta: RawMeta<'_> = bounded::object("_meta", raw)?;
        let version = meta.version.and_then(|version| bounded::required(version).ok());
        Ok(Self {
            is_valid: true,
            version: version.map(|TruncatedString::<MAX_VERSION_NAME>(version)| version),
            has_capabilities: meta
                .capabilities
                .is_some_and(|raw| bounded::object::<ClientCapabilities>("capabilities", raw).is_ok()),
            traceparent: meta
                .traceparent
                .and_then(|raw| bounded::required::<BoundedString<MAX_TRACEPARENT>>(raw).ok())
                .and_then(|BoundedString(text)| text.parse().ok()),
        })
    }
}
