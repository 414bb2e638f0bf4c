//! The parameters of each method: validation, and the parts that are retained.
//!
//! rmcp treats a request whose parameters it cannot parse as one with an unknown method, or without parameters. They
//! are validated before, so that the error names the fault. Members that no method uses are skipped in place; the
//! others are retained within bounds:
//!
//! | value | retained | a larger one is |
//! |---|---|---|
//! | a URI, a template | [`MAX_URI_LEN`] bytes | malformed; not accepted in `subscriptions/listen` |
//! | a cursor | [`MAX_CURSOR`] bytes | malformed |
//! | the name and value of a variable | [`MAX_URI_LEN`] bytes each | malformed |
//! | variables of the completion context | [`MAX_CONTEXT_ARGUMENTS`] | malformed |
//! | the resources of `subscriptions/listen` | [`Subscriber::MAX_RESOURCES`], of [`MAX_FILTER_BYTES`] bytes together | not accepted |
//! | the arguments of a tool | [`MAX_ARGUMENTS`] bytes | malformed |
//! | the client's name, title and version, a revision | [`MAX_NAME`], [`MAX_VERSION_NAME`] bytes | truncated |
//! | its capabilities, `_meta` | whether they are objects | |
//! | `traceparent` in `_meta` | the trace id, of 16 bytes | ignored |
//!
//! A member that is used and occurs twice is malformed, as two parsers may take different ones.

#![allow(deprecated, reason = "the revisions that have levels of log messages are still served")]

mod bounded;
mod listen;

use rmcp::model::LoggingLevel;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde_json::value::RawValue;

use self::bounded::{Bounded, Object, ObjectMap};
pub(super) use self::bounded::{BoundedString, TruncatedString, found, present, truncate, without_position};
use self::listen::ContextArguments;
pub(super) use self::listen::ListenParams;
use crate::audit::TraceId;
use crate::config::Extension;
use crate::uri::MAX_URI_LEN;

/// The maximum length of a cursor; this server issues none that is longer.
const MAX_CURSOR: usize = 16 << 10;
/// The retained length of a client's name, title or version.
const MAX_CLIENT_INFO_TEXT: usize = 256;
/// The retained length of a revision's name.
const MAX_VERSION_NAME: usize = 64;
/// The maximum length of a `traceparent`: 55 bytes in version 00, and later versions may append fields.
const MAX_TRACEPARENT: usize = 256;
/// The retained length of a name that `Mcp-Name` repeats.
const MAX_TARGET_NAME: usize = 1024;

/// The maximum length of the arguments of a tool.
const MAX_ARGUMENTS: usize = 64 << 10;

/// The keys in `_meta` that a request without a session has.
pub(super) const PROTOCOL_VERSION_META_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CLIENT_CAPABILITIES_META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The fault of malformed parameters, which is attached to the request for the handler that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidParams(pub(super) String);

/// The parameters of a request that are used.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Params {
    /// None.
    Ignored,
    /// `initialize`.
    Initialize(Box<InitializeParams>),
    /// A method that lists: the children of that resource, from that cursor on.
    Page {
        /// The resource, if the method has one and it is given.
        uri: Option<String>,
        /// The position to continue from.
        cursor: Option<String>,
    },
    /// A method with one resource, which may list its children from a cursor on.
    Resource {
        /// The resource.
        uri: String,
        /// The position to continue from.
        cursor: Option<String>,
    },
    /// `completion/complete`.
    Complete(Box<CompleteParams>),
    /// `subscriptions/listen`.
    Listen(ListenParams),
    /// `logging/setLevel`.
    Level(LoggingLevel),
    /// `tools/call`.
    Tool(ToolParams),
    /// Any other method with a name, which is in that member.
    Named {
        /// The member.
        member: &'static str,
        /// The name.
        name: Option<String>,
    },
}

/// The parameters of `initialize`: the client info, for the lifetime of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitializeParams {
    /// The revision that it requests.
    pub(super) version: String,
    /// The client info.
    pub(super) client: ClientInfo,
}

/// The info that a client gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) version: String,
}

/// The parameters of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompleteParams {
    /// The template; none for a prompt, of which there are none.
    pub(super) template: Option<String>,
    /// The variable, and the typed part of its value.
    pub(super) argument: (String, String),
    /// The variables that have values already.
    pub(super) context: Vec<(String, String)>,
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolParams {
    /// The tool; none if it is no text.
    pub(super) name: Option<String>,
    /// The arguments, a JSON object.
    pub(super) arguments: Option<String>,
}

/// The parameters of a request, and its `_meta`.
#[derive(Debug)]
pub(super) struct ParsedParams {
    /// The parameters that are used.
    pub(super) params: Result<Params, InvalidParams>,
    /// Its `_meta`.
    pub(super) meta: RequestMeta,
}

/// The members of `_meta` that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestMeta {
    /// Whether the parameters are an object, with a `_meta` that is an object if it is present.
    pub(super) is_valid: bool,
    /// The revision that it declares.
    pub(super) version: Option<String>,
    /// Whether it declares the capabilities of the client.
    pub(super) has_capabilities: bool,
    /// The trace that the client continues (`traceparent` of W3C Trace Context), if it is valid.
    pub(super) trace_id: Option<TraceId>,
}

/// The members that some method uses, as they were sent.
#[derive(Default, Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    argument: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    context: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "protocolVersion")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "clientInfo")]
    client_info: Option<&'a RawValue>,
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

/// The capabilities of a client, none of which is used.
#[derive(Deserialize)]
#[allow(dead_code, reason = "that it can be read is all that matters")]
struct ClientCapabilities {
    experimental: Option<ObjectMap>,
    extensions: Option<ObjectMap>,
    roots: Option<Object>,
    sampling: Option<Object>,
    elicitation: Option<Object>,
}

#[derive(Deserialize)]
struct Implementation<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    title: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    r#type: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    uri: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ArgumentInfo<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Context<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
}

const PAGE_PARAMS: &str = "{\"cursor\"?: string}";
const RESOURCE_PARAMS: &str = "{\"uri\": string}";
pub(super) const TOOL_PARAMS: &str = "{\"name\": string, \"arguments\"?: object}";

/// Parses the parameters of a request with those extensions. Those of an unknown method are always valid.
pub(super) fn parse(method: &str, params: Option<&RawValue>, on: &[Extension]) -> ParsedParams {
    // Some libraries send `null` for an absent value.
    let text = params.map(RawValue::get).filter(|params| *params != "null").unwrap_or("{}");
    let malformed = |meta, fault: String| {
        let fault = format!("{}: {fault}", truncate(method, MAX_VERSION_NAME));
        ParsedParams { params: Err(InvalidParams(fault)), meta }
    };
    if !text.starts_with('{') {
        return malformed(RequestMeta::default(), "expected params to be an object".to_owned());
    }
    let members: Members<'_> = match serde_json::from_str(text) {
        Ok(members) => members,
        Err(error) => return malformed(RequestMeta::default(), without_position(&error)),
    };
    let meta = match members.meta.map(RequestMeta::parse) {
        None => RequestMeta { is_valid: true, ..RequestMeta::default() },
        Some(Ok(meta)) => meta,
        Some(Err(fault)) => return malformed(RequestMeta::default(), fault),
    };
    match members.to_params(method, on) {
        Ok(params) => ParsedParams { params: Ok(params), meta },
        Err((expected, fault)) => malformed(meta, format!("expected params `{expected}`: {fault}")),
    }
}

/// Returns the id of the request that the parameters of a notification cancel.
pub(super) fn cancelled_request_id(params: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, default, deserialize_with = "present", rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
    let members = params.get().starts_with('{').then(|| serde_json::from_str::<Cancelled<'_>>(params.get()).ok());
    members.flatten()?.request_id
}

impl Members<'_> {
    /// Parses the parameters of that method. The error names what was expected, and the fault.
    fn to_params(&self, method: &str, on: &[Extension]) -> Result<Params, (&'static str, String)> {
        let sep_2093 = on.contains(&Extension::Sep2093);
        let directories = on.contains(&Extension::Sep2640DirectoryRead);
        let (expected, params) = match method {
            "initialize" => (
                "{\"protocolVersion\": string, \"capabilities\": object, \"clientInfo\": {\"name\": string, \
                 \"version\": string}}",
                self.initialize(),
            ),
            "resources/list" if sep_2093 => ("{\"uri\"?: string, \"cursor\"?: string}", self.page(self.uri)),
            "resources/list" | "resources/templates/list" | "prompts/list" | "tools/list" => {
                (PAGE_PARAMS, self.page(None))
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                (RESOURCE_PARAMS, self.resource(None))
            }
            "resources/metadata" if sep_2093 => (RESOURCE_PARAMS, self.resource(None)),
            "skills/get" if directories => (RESOURCE_PARAMS, self.resource(None)),
            "resources/directory/read" if directories => {
                ("{\"uri\": string, \"cursor\"?: string}", self.resource(self.cursor))
            }
            // There is one page, so no valid cursor exists.
            "skills/list" if directories => {
                let cursor = self.cursor.filter(|cursor| cursor.get() != "null").map(|_| String::new());
                (PAGE_PARAMS, Ok(Params::Page { uri: None, cursor }))
            }
            "subscriptions/listen" => (
                "{\"notifications\": {\"resourcesListChanged\"?: boolean, \"resourceSubscriptions\"?: [string]}}",
                self.listen(),
            ),
            "completion/complete" => (
                "{\"ref\": {\"type\": \"ref/resource\", \"uri\": string}, \"argument\": {\"name\": string, \"value\": \
                 string}, \"context\"?: {\"arguments\"?: {NAME: string}}}",
                self.complete(),
            ),
            "logging/setLevel" => (
                "{\"level\": string}`, one of `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency",
                self.level(),
            ),
            "prompts/get" => (
                "{\"name\": string, \"arguments\"?: object}",
                required("name", self.name)
                    .map(|TruncatedString::<MAX_TARGET_NAME>(name)| Params::Named { member: "name", name: Some(name) }),
            ),
            "tools/call" => (TOOL_PARAMS, self.tool()),
            "tasks/get" | "tasks/update" | "tasks/cancel" => ("", Ok(named_params("taskId", self.task_id))),
            _ => ("", Ok(Params::Ignored)),
        };
        params.map_err(|fault| (expected, fault))
    }

    fn initialize(&self) -> Result<Params, String> {
        let _: ClientCapabilities = required_object("capabilities", self.capabilities)?;
        let client: Implementation<'_> = required_object("clientInfo", self.client_info)?;
        let TruncatedString::<MAX_VERSION_NAME>(version) = required("protocolVersion", self.protocol_version)?;
        let text = |TruncatedString::<MAX_CLIENT_INFO_TEXT>(text)| text;
        let client = ClientInfo {
            name: required("clientInfo.name", client.name).map(text)?,
            title: optional("clientInfo.title", client.title)?.map(text),
            version: required("clientInfo.version", client.version).map(text)?,
        };
        Ok(Params::Initialize(Box::new(InitializeParams { version, client })))
    }

    fn page(&self, uri: Option<&RawValue>) -> Result<Params, String> {
        let uri = optional("uri", uri)?.map(|BoundedString::<MAX_URI_LEN>(uri)| uri);
        Ok(Params::Page { uri, cursor: cursor(self.cursor)? })
    }

    fn resource(&self, from: Option<&RawValue>) -> Result<Params, String> {
        let BoundedString::<MAX_URI_LEN>(uri) = required("uri", self.uri)?;
        Ok(Params::Resource { uri, cursor: cursor(from)? })
    }

    fn tool(&self) -> Result<Params, String> {
        let arguments = self.arguments.filter(is_given);
        if let Some(arguments) = arguments {
            bounded::check_object("arguments", arguments)?;
        }
        match arguments.map(RawValue::get) {
            Some(arguments) if arguments.len() > MAX_ARGUMENTS => {
                Err(format!("`arguments` has {} bytes, more than {MAX_ARGUMENTS}", arguments.len()))
            }
            arguments => {
                Ok(Params::Tool(ToolParams { name: name(self.name), arguments: arguments.map(str::to_owned) }))
            }
        }
    }

    fn listen(&self) -> Result<Params, String> {
        let notifications = self.notifications.ok_or_else(|| "missing field `notifications`".to_owned())?;
        ListenParams::parse(notifications).map(Params::Listen)
    }

    fn level(&self) -> Result<Params, String> {
        // A variant of an enum would be repeated in the error, at any length.
        let TruncatedString::<MAX_VERSION_NAME>(name) = required("level", self.level)?;
        let level = LoggingLevel::deserialize(name.as_str().into_deserializer());
        let unknown = |_: serde::de::value::Error| format!("`level`: there is no level `{name}`");
        level.map(Params::Level).map_err(unknown)
    }

    fn complete(&self) -> Result<Params, String> {
        let reference: Reference<'_> = required_object("ref", self.reference)?;
        let TruncatedString::<MAX_VERSION_NAME>(kind) = required("ref.type", reference.r#type)?;
        let template = match kind.as_str() {
            "ref/resource" => {
                let BoundedString::<MAX_URI_LEN>(uri) = required("ref.uri", reference.uri)?;
                Some(uri)
            }
            "ref/prompt" => None,
            unknown => {
                return Err(format!("`ref.type`: expected `ref/resource` or `ref/prompt`, found `{unknown}`"));
            }
        };
        let argument: ArgumentInfo<'_> = required_object("argument", self.argument)?;
        let text = |BoundedString::<MAX_URI_LEN>(text)| text;
        let argument = (
            required("argument.name", argument.name).map(text)?,
            required("argument.value", argument.value).map(text)?,
        );
        let context = self.context.filter(is_given);
        let context: Option<Context<'_>> = context.map(|raw| bounded::object("context", raw)).transpose()?;
        let known = context.and_then(|context| context.arguments).filter(is_given);
        let known = known.map(|raw| bounded::object("context.arguments", raw)).transpose()?;
        let context = known.map(|ContextArguments(known)| known).unwrap_or_default();
        Ok(Params::Complete(Box::new(CompleteParams { template, argument, context })))
    }
}

fn required<T: Bounded>(name: &str, raw: Option<&RawValue>) -> Result<T, String> {
    let raw = raw.ok_or_else(|| format!("missing field `{name}`"))?;
    bounded::required(raw).map_err(|fault| format!("`{name}`: {fault}"))
}

fn required_object<'a, T: Deserialize<'a>>(name: &str, raw: Option<&'a RawValue>) -> Result<T, String> {
    raw.map_or_else(|| Err(format!("missing field `{name}`")), |raw| bounded::object(name, raw))
}

/// A member that may be absent or `null`.
fn optional<T: Bounded>(name: &str, raw: Option<&RawValue>) -> Result<Option<T>, String> {
    raw.filter(is_given).map(|raw| required(name, Some(raw))).transpose()
}

/// Returns whether a value is not `null`, which stands for an absent one.
fn is_given(raw: &&RawValue) -> bool {
    raw.get() != "null"
}

fn cursor(raw: Option<&RawValue>) -> Result<Option<String>, String> {
    Ok(optional("cursor", raw)?.map(|BoundedString::<MAX_CURSOR>(cursor)| cursor))
}

fn named_params(member: &'static str, raw: Option<&RawValue>) -> Params {
    Params::Named { member, name: name(raw) }
}

fn name(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(|raw| bounded::required(raw).ok()).map(|TruncatedString::<MAX_TARGET_NAME>(name)| name)
}

#[cfg(feature = "http")]
impl Params {
    /// Returns the name that `Mcp-Name` has to repeat, if the method has one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Resource { uri, .. } => Some(uri),
            Self::Named { name, .. } | Self::Tool(ToolParams { name, .. }) => name.as_deref(),
            _ => None,
        }
    }
}

impl RequestMeta {
    fn parse(raw: &RawValue) -> Result<Self, String> {
        let meta: RawMeta<'_> = bounded::object("_meta", raw)?;
        let version = meta.version.and_then(|version| bounded::required(version).ok());
        Ok(Self {
            is_valid: true,
            version: version.map(|TruncatedString::<MAX_VERSION_NAME>(version)| version),
            has_capabilities: meta
                .capabilities
                .is_some_and(|raw| bounded::object::<ClientCapabilities>("capabilities", raw).is_ok()),
            trace_id: meta
                .traceparent
                .and_then(|raw| bounded::required::<BoundedString<MAX_TRACEPARENT>>(raw).ok())
                .and_then(|BoundedString(text)| text.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests;
