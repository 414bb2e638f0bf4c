//! The members of parameters, and what each method makes of them.

use rmcp::model::LoggingLevel;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde_json::value::RawValue;

use super::bounded::{self, Bounded, BoundedString, TruncatedString, present};
use super::listen::{ContextArguments, ListenParams};
use super::meta::ClientCapabilities;
use super::{ClientInfo, CompleteParams, InitializeParams, MAX_VERSION_NAME, Params, ToolParams};
use crate::config::Extension;
use crate::uri::MAX_URI_LEN;

/// The maximum length of a cursor; this server issues none that is longer.
const MAX_CURSOR: usize = 16 << 10;
/// The retained length of a client's name, title or version.
pub(super) const MAX_CLIENT_INFO_TEXT: usize = 256;
/// The retained length of a name that `Mcp-Name` repeats.
const MAX_TARGET_NAME: usize = 1024;
/// The maximum length of the arguments of a tool.
const MAX_ARGUMENTS: usize = 64 << 10;

const PAGE_PARAMS: &str = "{\"cursor\"?: string}";
const RESOURCE_PARAMS: &str = "{\"uri\": string}";
pub(in crate::server) const TOOL_PARAMS: &str = "{\"name\": string, \"arguments\"?: object}";

/// The members that some method uses, as they were sent.
#[derive(Default, Deserialize)]
pub(super) struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
    pub(super) meta: Option<&'a RawValue>,
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

impl Members<'_> {
    /// Parses the parameters of that method. The error names what was expected, and the fault.
    pub(super) fn to_params(&self, method: &str, on: &[Extension]) -> Result<Params, (&'static str, String)> {
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
pub(super) fn is_given(raw: &&RawValue) -> bool {
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
