//! Results of an upstream, parsed from their text as what was asked for.
//!
//! Nothing becomes a tree: metadata (`_meta`) stays text, and what is not known is passed over. A list has at most the number of items that it
//! is parsed with, `limits.response-items`, and what an item has several of is cut at [`MAX_PARTS`]; so an answer takes a small multiple of its
//! text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The icons of an entry, the sizes of an icon and the roles of an audience that are kept.
const MAX_PARTS: usize = 32;
/// The values of a completion that are kept; the protocol allows 100.
const MAX_VALUES: usize = 1000;

/// An item of a list.
pub(crate) trait Item<'a>: Deserialize<'a> {
    /// The member of the result that has the list.
    const LIST: &'static str;
}

/// A result with a list.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// The list; none if the upstream asks for input of a user instead.
    pub(crate) items: Option<Vec<T>>,
    pub(crate) next_cursor: Option<String>,
    /// The time for which it may be kept; none if the upstream does not say.
    pub(crate) ttl: Option<Duration>,
}

/// A listed resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource<'a> {
    #[serde(borrow)]
    pub(crate) uri: Cow<'a, str>,
    pub(crate) name: String,
    pub(crate) size: Option<u64>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) mime_type: Option<String>,
    #[serde(default, deserialize_with = "few::<MAX_PARTS, _, _>")]
    pub(crate) icons: Vec<Icon>,
    pub(crate) annotations: Option<Annotations>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// A template.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Template<'a> {
    pub(crate) uri_template: String,
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
    pub(crate) total: Option<u32>,
    pub(crate) has_more: Option<bool>,
}

#[derive(Deserialize)]
struct Completed {
    completion: Completion,
}

/// What a watched resource, or the first page of a listing, is compared by.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Compared<'a> {
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    ttl_ms: Option<u64>,
    cache_scope: Option<Cow<'a, str>>,
}

impl<'a> Item<'a> for Resource<'a> {
    const LIST: &'static str = "resources";
}

impl<'a> Item<'a> for Template<'a> {
    const LIST: &'static str = "resourceTemplates";
}

impl<'a> Item<'a> for Contents<'a> {
    const LIST: &'static str = "contents";
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

/// The text that a watched resource or a listing is compared by, and its time to live.
pub(crate) fn compared(text: &str) -> Result<(&str, Option<Duration>), serde_json::Error> {
    let Compared { contents, resources, ttl_ms, cache_scope } = serde_json::from_str(text)?;
    let compared = contents.or(resources).map_or("", RawValue::get);
    Ok((compared, ttl(ttl_ms, cache_scope.as_deref())))
}

/// The time for which an answer may be kept. One that only the client of a single user may keep is not kept at all, as an answer of the
/// host may be for others.
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
        let (mut items, mut next_cursor, mut ttl_ms) = (None, None, None);
        let (mut scope, mut kind) = (None::<String>, None::<String>);
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            match key.as_ref() {
                key if key == T::LIST => items = Some(map.next_value_seed(Items { max: self.max, item: PhantomData })?),
                "nextCursor" => next_cursor = map.next_value()?,
                "ttlMs" => ttl_ms = map.next_value()?,
                "cacheScope" => scope = map.next_value()?,
                "resultType" => kind = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let wants_input = kind.as_deref() == Some("input_required");
        if items.is_none() && !wants_input {
            return Err(A::Error::missing_field(T::LIST));
        }
        let items = items.filter(|_| !wants_input);
        Ok(Answer { items, next_cursor, ttl: ttl(ttl_ms, scope.as_deref()) })
    }
}

/// A list of at most `max` items.
struct Items<T> {
    max: usize,
    item: PhantomData<T>,
}

impl<'a, T: Item<'a>> DeserializeSeed<'a> for Items<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, T: Item<'a>> Visitor<'a> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {}", T::LIST)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() >= self.max {
                return Err(A::Error::custom(format_args!(
                    "more than the {} {} of `limits.response-items`",
                    self.max,
                    T::LIST
                )));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// The first elements of an array, or of none.
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
