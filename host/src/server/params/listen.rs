//! The members with many values: the resources of `subscriptions/listen`, and the context of a completion.
//!
//! They are retained up to a number and a sum of bytes, whatever is sent.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::BoundedString;
use super::bounded::BoundedMember;
use crate::uri::MAX_URI_LEN;
use crate::watch::Subscriber;

/// The maximum number of variables in a context; no template has so many.
pub(super) const MAX_CONTEXT_ARGUMENTS: usize = 64;
/// The maximum bytes of the URIs of one `subscriptions/listen`. rmcp compares all pairs of them, several times.
pub(super) const MAX_FILTER_BYTES: usize = 256 << 10;

/// The filter of `subscriptions/listen`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "SubscriptionFilter")]
pub(in crate::server) struct ListenParams {
    /// Whether changes of the listing are requested.
    pub(in crate::server) list_changed: Option<bool>,
    /// The URIs of the requested resources.
    pub(in crate::server) subscriptions: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionFilter {
    resources_list_changed: Option<BoundedMember<bool>>,
    resource_subscriptions: Option<BoundedMember<Uris>>,
}

/// URIs, as many as are retained.
struct Uris(Vec<String>);

/// Variables and their values.
#[derive(Debug)]
pub(super) struct ContextArguments(pub(super) Vec<(String, String)>);

impl From<SubscriptionFilter> for ListenParams {
    fn from(filter: SubscriptionFilter) -> Self {
        Self {
            list_changed: filter.resources_list_changed.map(|BoundedMember(changed)| changed),
            subscriptions: filter.resource_subscriptions.map(|BoundedMember(Uris(uris))| uris),
        }
    }
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
                    if raw.get().starts_with('"') && is_full {
                        continue;
                    }
                    match serde_json::from_str::<String>(raw.get()) {
                        Ok(uri) if uri.len() <= room => {
                            bytes = bytes.saturating_add(uri.len());
                            uris.push(uri);
                        }
                        Ok(_) => {}
                        Err(error) => return Err(A::Error::custom(super::without_position(&error))),
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
                type Value = BoundedString<MAX_URI_LEN>;
                while let Some((BoundedString::<MAX_URI_LEN>(name), BoundedString(value))) =
                    members.next_entry::<Value, Value>()?
                {
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
