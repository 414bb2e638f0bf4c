//! The members of parameters, and how each is parsed.

use mcp_host_model::uri::MAX_URI_LEN;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded::{self, Bounded, BoundedString, TruncatedString, is_given, present};
use super::listen::{ContextArguments, ListenParams};
use super::meta::ClientCapabilities;
use super::{CompleteParams, InitializeParams, MAX_VERSION_NAME, ToolParams};
use crate::client_log::LogLevel;

/// The maximum length of a cursor. This server issues no longer ones.
const MAX_CURSOR: usize = 16 << 10;
/// A text that is checked and not retained.
type AnyText = TruncatedString<0>;

/// The retained length of a name that `Mcp-Name` repeats.
const MAX_TARGET_NAME: usize = 1024;
/// The maximum length of the arguments of a tool.
const MAX_ARGUMENTS: usize = 64 << 10;

/// The raw values of all members that any method uses.
#[derive(Default, Deserialize)]
pub(crate) struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
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
    /// Parses the revision of `initialize`. The other members are checked, and not retained.
    pub(crate) fn initialize(&self) -> Result<Box<InitializeParams>, String> {
        let _: ClientCapabilities = required_object("capabilities", self.capabilities)?;
        let client: Implementation<'_> = required_object("clientInfo", self.client_info)?;
        let TruncatedString::<MAX_VERSION_NAME>(version) = required("protocolVersion", self.protocol_version)?;
        let _: AnyText = required("clientInfo.name", client.name)?;
        let _: Option<AnyText> = optional("clientInfo.title", client.title)?;
        let _: AnyText = required("clientInfo.version", client.version)?;
        Ok(Box::new(InitializeParams { version }))
    }

    pub(crate) fn cursor(&self) -> Result<Option<String>, String> {
        Ok(optional("cursor", self.cursor)?.map(|BoundedString::<MAX_CURSOR>(cursor)| cursor))
    }

    pub(crate) fn uri(&self) -> Result<String, String> {
        required("uri", self.uri).map(|BoundedString::<MAX_URI_LEN>(uri)| uri)
    }

    pub(crate) fn optional_uri(&self) -> Result<Option<String>, String> {
        Ok(optional("uri", self.uri)?.map(|BoundedString::<MAX_URI_LEN>(uri)| uri))
    }

    pub(crate) fn prompt_name(&self) -> Result<String, String> {
        required("name", self.name).map(|TruncatedString::<MAX_TARGET_NAME>(name)| name)
    }

    pub(crate) fn tool(&self) -> Result<ToolParams, String> {
        let arguments = self.arguments.filter(is_given);
        if let Some(arguments) = arguments {
            bounded::check_object("arguments", arguments)?;
        }
        match arguments.map(RawValue::get) {
            Some(arguments) if arguments.len() > MAX_ARGUMENTS => {
                Err(format!("`arguments` has {} bytes, more than {MAX_ARGUMENTS}", arguments.len()))
            }
            arguments => {
                let name = self.name.and_then(|raw| bounded::required(raw).ok());
                let name = name.map(|TruncatedString::<MAX_TARGET_NAME>(name)| name);
                Ok(ToolParams { name, arguments: arguments.map(str::to_owned) })
            }
        }
    }

    pub(crate) fn listen(&self) -> Result<ListenParams, String> {
        let notifications = self.notifications.ok_or_else(|| "missing field `notifications`".to_owned())?;
        ListenParams::parse(notifications)
    }

    pub(crate) fn level(&self) -> Result<LogLevel, String> {
        let TruncatedString::<MAX_VERSION_NAME>(name) = required("level", self.level)?;
        LogLevel::from_name(&name).ok_or_else(|| format!("`level`: there is no level `{name}`"))
    }

    pub(crate) fn complete(&self) -> Result<Box<CompleteParams>, String> {
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
        Ok(Box::new(CompleteParams { template, argument, context }))
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
