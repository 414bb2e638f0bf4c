//! The members with many values: the resources of `subscriptions/listen`, and the context of a completion.
//!
//! The number of retained values and the sum of their bytes are bounded.

use std::fmt;

use mcp_host_model::uri::MAX_URI_LEN;
use mcp_resource_host::watch::Subscriber;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::bounded::is_given;
use super::{BoundedString, MAX_VERSION_NAME, bounded, found, present, truncate, without_position};

/// The maximum number of variables in a context; no template has more.
pub(super) const MAX_CONTEXT_ARGUMENTS: usize = 64;
/// The maximum total length of the URIs of one `subscriptions/listen`, in bytes.
pub(super) const MAX_FILTER_BYTES: usize = 256 << 10;

/// The filter of `subscriptions/listen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenParams {
    /// Whether changes of the listing are requested.
    pub(crate) list_changed: Option<bool>,
    /// The URIs of the requested resources.
    pub(crate) subscriptions: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionFilter<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    resources_list_changed: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    resource_subscriptions: Option<&'a RawValue>,
}

/// The retained URIs.
struct Uris(Vec<String>);

/// Variables and their values.
#[derive(Debug)]
pub(super) struct ContextArguments(pub(super) Vec<(String, String)>);

impl ListenParams {
    /// Parses the member `notifications`.
    pub(super) fn parse(raw: &RawValue) -> Result<Self, String> {
        let filter: SubscriptionFilter<'_> = bounded::object("notifications", raw)?;
        let (list_changed, uris) = (filter.resources_list_changed, filter.resource_subscriptions);
        Ok(Self {
            list_changed: list_changed.filter(is_given).map(list_changed_value).transpose()?,
            subscriptions: uris.filter(is_given).map(subscriptions_value).transpose()?,
        })
    }
}

fn list_changed_value(raw: &RawValue) -> Result<bool, String> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`notifications.resourcesListChanged`: expected a boolean, found {}", found(raw))),
    }
}

fn subscriptions_value(raw: &RawValue) -> Result<Vec<String>, String> {
    let fault = |fault: &str| format!("`notifications.resourceSubscriptions`: {fault}");
    if !raw.get().starts_with('[') {
        return Err(fault(&format!("expected an array, found {}", found(raw))));
    }
    let uris: Uris = serde_json::from_str(raw.get()).map_err(|error| fault(&without_position(&error)))?;
    Ok(uris.0)
}

impl<'de> Deserialize<'de> for Uris {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = Uris;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Uris, A::Error> {
                let (mut uris, mut bytes) = (Vec::new(), 0_usize);
                while let Some(raw) = elements.next_element::<&RawValue>()? {
                    let room = MAX_FILTER_BYTES.saturating_sub(bytes).min(MAX_URI_LEN);
                    let is_full = uris.len() >= Subscriber::MAX_RESOURCES || raw.get().len() > MAX_FILTER_BYTES;
                    if !raw.get().starts_with('"') {
                        return Err(A::Error::custom(format_args!("expected strings, found {}", found(raw))));
                    }
                    if is_full {
                        continue;
                    }
                    let uri: String =
                        serde_json::from_str(raw.get()).map_err(|error| A::Error::custom(without_position(&error)))?;
                    if uri.len() <= room {
                        bytes = bytes.saturating_add(uri.len());
                        uris.push(uri);
                    }
                }
                Ok(Uris(uris))
            }
        }

        value.deserialize_seq(Elements)
    }
}

impl<'de> Deserialize<'de> for ContextArguments {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ContextArguments;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ContextArguments, A::Error> {
                let mut known = Vec::<(String, String)>::new();
                while let Some(BoundedString::<MAX_URI_LEN>(name)) = members.next_key()? {
                    let value = bounded::required(members.next_value()?);
                    let BoundedString::<MAX_URI_LEN>(value) = value.map_err(|fault| {
                        A::Error::custom(format_args!("`{}`: {fault}", truncate(&name, MAX_VERSION_NAME)))
                    })?;
                    if known.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom("expected each argument once"));
                    }
                    if known.len() == MAX_CONTEXT_ARGUMENTS {
                        let reason = format_args!("expected at most {MAX_CONTEXT_ARGUMENTS} arguments, found more");
                        return Err(A::Error::custom(reason));
                    }
                    known.push((name, value));
                }
                Ok(ContextArguments(known))
            }
        }

        value.deserialize_map(Members)
    }
}
