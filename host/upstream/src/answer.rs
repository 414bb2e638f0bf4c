//! Parses results of an upstream from their text.
//!
//! Streaming deserialization: no tree of JSON values is built. Metadata (`_meta`) stays text, and unknown members are
//! skipped. An invalid item of a listing is dropped and the others are served, so the item does not reveal itself to
//! principals that may not see it. An invalid member beside the list (the time to live, its scope, the kind of the
//! result) counts as absent, except a cursor, without which the listing would be cut. A list has at most
//! `limits.response-items` items, and an array within an item is truncated to [`MAX_PARTS`] elements, so a parsed
//! answer takes a small multiple of the memory of its text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use mcp_host_base::text::prefix;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum number of icons of an entry, of sizes of an icon, and of roles of an audience. Further ones are dropped.
const MAX_PARTS: usize = 32;
/// The maximum number of values of a completion. Further ones are dropped; the protocol allows 100.
const MAX_VALUES: usize = 1000;

/// The maximum length of an invalid item's text in the log, in bytes.
const MAX_SHOWN: usize = 256;

/// An item of a list.
pub(crate) trait Item<'a>: Deserialize<'a> {
    /// The member of the result with the list.
    const LIST: &'static str;
    /// Whether an invalid item is dropped from the list. Otherwise the whole answer fails.
    const IS_DROPPED: bool;
}

/// A result with a list.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// The list; none if the upstream requires input of a user instead.
    pub(crate) items: Option<Vec<T>>,
    /// The items that were dropped from the list.
    pub(crate) invalid: Option<Invalid>,
    pub(crate) next_cursor: Option<String>,
    /// The time to live; none if the answer has none.
    pub(crate) ttl: Option<Duration>,
}

/// Invalid items that were dropped from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// The number of items.
    pub(crate) count: u64,
    /// The text of the first item, truncated.
    pub(crate) first: String,
    /// The error of the first item.
    pub(crate) error: String,
}

/// The parsed items of a list.
struct Parsed<T> {
    items: Vec<T>,
    invalid: Option<Invalid>,
}

/// Declares an item of a listing: its own members, and the members of all items.
macro_rules! listed {
    ($(#[$doc:meta])* struct $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $name<'a> {
            $($own)*
            pub(crate) name: String,
            pub(crate) title: Option<String>,
            pub(crate) description: Option<String>,
            pub(crate) mime_type: Option<String>,
            #[serde(default, deserialize_with = "few::<MAX_PARTS, _, _>")]
            pub(crate) icons: Vec<Icon>,
            pub(crate) annotations: Option<Annotations>,
            #[serde(borrow, rename = "_meta")]
            pub(crate) meta: Option<&'a RawValue>,
        }
    };
}

listed! {
    /// A listed resource.
    struct Resource {
        #[serde(borrow)]
        pub(crate) uri: Cow<'a, str>,
        pub(crate) size: Option<u64>,
    }
}

listed! {
    /// A template.
    struct Template {
        pub(crate) uri_template: String,
    }
}

/// The content of a resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contents<'a> {
    #[serde(borrow)]
    pub(crate) uri: Cow<'a, str>,
    pub(crate) mime_type: Option<String>,
    pub(crate) text: Option<String>,
    #[serde(borrow)]
    pub(crate) blob: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Icon {
    pub(crate) src: String,
    pub(crate) mime_type: Option<String>,
    #[serde(default, deserialize_with = "few::<MAX_PARTS, _, _>")]
    pub(crate) sizes: Vec<String>,
    pub(crate) theme: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotations {
    #[serde(default, deserialize_with = "few::<MAX_PARTS, _, _>")]
    pub(crate) audience: Vec<String>,
    pub(crate) priority: Option<f64>,
    pub(crate) last_modified: Option<String>,
}

/// Values for an argument.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Completion {
    #[serde(deserialize_with = "few::<MAX_VALUES, _, _>")]
    pub(crate) values: Vec<String>,
    #[serde(default, deserialize_with = "valid")]
    pub(crate) total: Option<u32>,
    #[serde(default, deserialize_with = "valid")]
    pub(crate) has_more: Option<bool>,
}

#[derive(Deserialize)]
struct Completed {
    completion: Completion,
}

/// The members of a result that are compared: of a read of a watched resource, or of the first page of a listing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Compared<'a> {
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "valid")]
    ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "scope")]
    cache_scope: Option<String>,
}

/// A member of a result; none if it is invalid.
struct Valid<T>(Option<T>);

impl<'a, T: Deserialize<'a>> Deserialize<'a> for Valid<T> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'a RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(text.get()).ok()))
    }
}

fn valid<'a, D: Deserializer<'a>, T: Deserialize<'a>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Valid::deserialize(deserializer).map(|Valid(value)| value)
}

/// Deserializes `cacheScope`. An invalid scope is unknown, and not absent, because an absent one is public.
fn scope<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<String>, D::Error> {
    valid::<D, Option<String>>(deserializer).map(|scope| scope.unwrap_or_else(|| Some(String::new())))
}

/// Deserializes with [`scope`].
struct Scope(Option<String>);

impl<'a> Deserialize<'a> for Scope {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        scope(deserializer).map(Self)
    }
}

impl<'a> Item<'a> for Resource<'a> {
    const LIST: &'static str = "resources";
    const IS_DROPPED: bool = true;
}

impl<'a> Item<'a> for Template<'a> {
    const LIST: &'static str = "resourceTemplates";
    const IS_DROPPED: bool = true;
}

impl<'a> Item<'a> for Contents<'a> {
    const LIST: &'static str = "contents";
    const IS_DROPPED: bool = false;
}

/// Parses a result with a list of at most `max` items.
pub(crate) fn list<'a, T: Item<'a>>(text: &'a str, max: usize) -> Result<Answer<T>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let answer = deserializer.deserialize_map(AnswerVisitor { max, item: PhantomData })?;
    deserializer.end()?;
    Ok(answer)
}

/// Parses a completion.
pub(crate) fn completion(text: &str) -> Result<Completion, serde_json::Error> {
    serde_json::from_str(text).map(|Completed { completion }| completion)
}

/// Returns the compared text of a watched resource or a listing, and its time to live.
pub(crate) fn compared(text: &str) -> Result<(&str, Option<Duration>), serde_json::Error> {
    let Compared { contents, resources, ttl_ms, cache_scope } = serde_json::from_str(text)?;
    let compared = contents.or(resources).map_or("", RawValue::get);
    Ok((compared, ttl(ttl_ms, cache_scope.as_deref())))
}

/// Returns the time to live of an answer. A private answer is only for the user that requested it, so its time to live
/// is zero: the host would share its cached answer with other users.
fn ttl(ttl_ms: Option<u64>, scope: Option<&str>) -> Option<Duration> {
    match scope {
        None | Some("public") => ttl_ms.map(Duration::from_millis),
        Some(_) => ttl_ms.map(|_| Duration::ZERO),
    }
}

struct AnswerVisitor<T> {
    max: usize,
    item: PhantomData<T>,
}

impl<'a, T: Item<'a>> Visitor<'a> for AnswerVisitor<T> {
    type Value = Answer<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a result with `{}`", T::LIST)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Answer<T>, A::Error> {
        let (mut items, mut next_cursor, mut ttl_ms) = (None::<Parsed<T>>, None, None::<u64>);
        let (mut scope, mut kind) = (None::<String>, None::<String>);
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            match key.as_ref() {
                key if key == T::LIST => items = Some(map.next_value_seed(Items { max: self.max, item: PhantomData })?),
                "nextCursor" => next_cursor = map.next_value()?,
                "ttlMs" => Valid(ttl_ms) = map.next_value()?,
                "cacheScope" => Scope(scope) = map.next_value()?,
                "resultType" => Valid(kind) = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let wants_input = kind.as_deref() == Some("input_required");
        if items.is_none() && !wants_input {
            return Err(A::Error::missing_field(T::LIST));
        }
        let (items, invalid) = match items.filter(|_| !wants_input) {
            Some(Parsed { items, invalid }) => (Some(items), invalid),
            None => (None, None),
        };
        Ok(Answer { items, invalid, next_cursor, ttl: ttl(ttl_ms, scope.as_deref()) })
    }
}

/// Deserializes a list of at most `max` items.
struct Items<T> {
    max: usize,
    item: PhantomData<T>,
}

impl<'a, T: Item<'a>> DeserializeSeed<'a> for Items<T> {
    type Value = Parsed<T>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Parsed<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, T: Item<'a>> Visitor<'a> for Items<T> {
    type Value = Parsed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {}", T::LIST)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<Parsed<T>, A::Error> {
        let (mut items, mut invalid, mut count) = (Vec::new(), None::<Invalid>, 0_usize);
        while let Some(text) = sequence.next_element::<&'a RawValue>()? {
            if count >= self.max {
                return Err(A::Error::custom(format_args!(
                    "more than the {} {} of `limits.response-items`",
                    self.max,
                    T::LIST
                )));
            }
            count = count.saturating_add(1);
            match serde_json::from_str(text.get()) {
                Ok(item) => items.push(item),
                Err(error) if !T::IS_DROPPED => return Err(A::Error::custom(error)),
                Err(error) => match &mut invalid {
                    Some(invalid) => invalid.count = invalid.count.saturating_add(1),
                    None => {
                        let first = prefix(text.get(), MAX_SHOWN).to_owned();
                        invalid = Some(Invalid { count: 1, first, error: error.to_string() });
                    }
                },
            }
        }
        Ok(Parsed { items, invalid })
    }
}

/// Deserializes the first `MAX` elements of an array; no elements for `null`.
fn few<'a, const MAX: usize, D: Deserializer<'a>, T: Deserialize<'a>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_option(Few::<MAX, T>(PhantomData))
}

struct Few<const MAX: usize, T>(PhantomData<T>);

impl<'a, const MAX: usize, T: Deserialize<'a>> Visitor<'a> for Few<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_none<E>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'a>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < MAX {
            let Some(element) = sequence.next_element()? else { return Ok(kept) };
            kept.push(element);
        }
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_items_and_what_is_said_of_all() {
        let text =
            r#"{"_meta":{"a":[1]},"resources":[{"uri":"x:a","name":"a","_meta":{"b": 1}}],"nextCursor":"2","ttlMs":5}"#;
        let answer = list::<Resource<'_>>(text, 10).unwrap();
        let items = answer.items.unwrap();
        assert_eq!((items[0].uri.as_ref(), items[0].meta.map(RawValue::get)), ("x:a", Some(r#"{"b": 1}"#)));
        assert_eq!((answer.next_cursor.as_deref(), answer.ttl), (Some("2"), Some(Duration::from_millis(5))));
        assert!(list::<Contents<'_>>(text, 10).unwrap_err().to_string().contains("contents"));
        let input = r#"{"resultType":"input_required","inputRequests":{}}"#;
        assert!(list::<Contents<'_>>(input, 10).unwrap().items.is_none());
    }

    #[test]
    fn a_list_has_at_most_so_many_items_and_an_item_so_many_parts() {
        let text = format!(r#"{{"contents":[{}]}}"#, [r#"{"uri":"x:a","text":""}"#; 3].join(","));
        assert_eq!(list::<Contents<'_>>(&text, 3).unwrap().items.unwrap().len(), 3);
        let error = list::<Contents<'_>>(&text, 2).unwrap_err().to_string();
        assert!(error.contains("`limits.response-items`"), "{error}");
        let icons = vec![r#"{"src":"https://a.example"}"#; 100].join(",");
        let text = format!(
            r#"{{"resources":[{{"uri":"x:a","name":"","icons":[{icons}]}},{{"uri":"x:b","name":"","icons":null}}]}}"#
        );
        let items = list::<Resource<'_>>(&text, 2).unwrap().items.unwrap();
        assert_eq!((items[0].icons.len(), items[1].icons.len()), (MAX_PARTS, 0));
    }

    #[test]
    fn an_invalid_item_of_a_listing_is_dropped_and_the_others_are_kept() {
        let text = r#"{"resources":[{"uri":"x:a","name":"a"},{"uri":"x:b","name":"b","size":"big"},{"uri":"x:c"},7,{"uri":"x:d","name":"d"}]}"#;
        let answer = list::<Resource<'_>>(text, 5).unwrap();
        let uris: Vec<_> = answer.items.unwrap().into_iter().map(|item| item.uri.into_owned()).collect();
        assert_eq!(uris, ["x:a", "x:d"]);
        let invalid = answer.invalid.unwrap();
        assert_eq!((invalid.count, invalid.first.as_str()), (3, r#"{"uri":"x:b","name":"b","size":"big"}"#));
        assert!(invalid.error.contains("u64"), "{}", invalid.error);
        assert!(list::<Resource<'_>>(text, 4).is_err(), "those that are dropped count");
        let text = r#"{"resourceTemplates":[{"uriTemplate":"x:{a}","name":"a","annotations":5},{"uriTemplate":"x:{b}","name":"b"}]}"#;
        assert_eq!(list::<Template<'_>>(text, 5).unwrap().items.unwrap().len(), 1);
        let text = r#"{"contents":[{"uri":"x:a","text":5},{"uri":"x:a","text":""}]}"#;
        assert!(list::<Contents<'_>>(text, 5).is_err(), "a part of a resource is not the resource");
    }

    #[test]
    fn an_invalid_member_beside_a_list_counts_as_absent() {
        let ttl_of = |members: &str| list::<Resource<'_>>(&format!(r#"{{"resources":[],{members}}}"#), 1).unwrap().ttl;
        for invalid in ["-1", "0.5", "1e308", "100000000000000000000", r#""5""#, "null", "{}", "[1]"] {
            assert_eq!(ttl_of(&format!(r#""ttlMs":{invalid},"resultType":{invalid}"#)), None, "{invalid}");
            let text = format!(r#"{{"contents":[],"ttlMs":{invalid}}}"#);
            assert_eq!(compared(&text).unwrap(), ("[]", None), "{invalid}");
        }
        assert_eq!(ttl_of(r#""ttlMs":18446744073709551615"#), Some(Duration::from_millis(u64::MAX)));
        let ttl = |scope: &str| {
            let members = format!(r#""ttlMs":5,"cacheScope":{scope}"#);
            let of_compared = compared(&format!(r#"{{"contents":[],{members}}}"#)).unwrap().1;
            assert_eq!(ttl_of(&members), of_compared, "{scope}");
            of_compared
        };
        assert_eq!(ttl("5"), Some(Duration::ZERO), "it may mean private");
        assert_eq!((ttl("null"), ttl(r#""public""#)), (Some(Duration::from_millis(5)), Some(Duration::from_millis(5))));
        assert!(list::<Resource<'_>>(r#"{"resources":[],"nextCursor":5}"#, 1).is_err(), "the listing would be cut");
        let text = r#"{"completion":{"values":["a"],"total":-5,"hasMore":"x"}}"#;
        let Completion { values, total, has_more } = completion(text).unwrap();
        assert_eq!((values, total, has_more), (vec!["a".to_owned()], None, None));
    }

    #[test]
    fn what_is_private_is_not_kept() {
        assert_eq!(ttl(Some(5), Some("public")), Some(Duration::from_millis(5)));
        assert_eq!(ttl(Some(5), Some("private")), Some(Duration::ZERO));
        assert_eq!((ttl(None, Some("private")), ttl(None, None)), (None, None));
    }

    #[test]
    fn what_is_watched_is_compared_by_its_text() {
        let text = r#"{"ttlMs":7,"contents":[{"uri":"x:a","text":"1"}],"_meta":{"time":1}}"#;
        let (compared, ttl) = compared(text).unwrap();
        assert_eq!((compared, ttl), (r#"[{"uri":"x:a","text":"1"}]"#, Some(Duration::from_millis(7))));
    }
}
