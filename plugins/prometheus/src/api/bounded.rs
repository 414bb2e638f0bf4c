//! Bounds for parsed data.

use super::Refusal;
use mcp_provider::{Failure, http};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;

/// The maximum number of items in a list, which bounds the memory overhead of small items.
pub(crate) const MAX_ITEMS: usize = 10_000;

/// The maximum number of labels of a series, and of members of other objects.
const MAX_MEMBERS: usize = 200;

/// A body of bounded size.
pub(super) struct BoundedRead<'a> {
    body: Box<dyn Read>,
    left: usize,
    max: usize,
    refusal: &'a Refusal,
}

impl<'a> BoundedRead<'a> {
    pub(super) fn new(body: Box<dyn Read>, max: usize, refusal: &'a Refusal) -> Self {
        Self { body, left: max, max, refusal }
    }

    fn refuse(&self, failure: Failure) -> io::Error {
        let error: serde_json::Error = self.refusal.refuse(failure);
        io::Error::other(error)
    }
}

impl Read for BoundedRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read(buffer).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<http::Error>());
            self.refuse(Failure::from(cause.cloned().unwrap_or(http::Error::Host)))
        })?;
        self.left = self.left.checked_sub(read).ok_or_else(|| {
            self.refuse(Failure::invalid(format!(
                "the answer of the Prometheus server has more than {} bytes, the `max-body` of this plugin; {}",
                self.max,
                super::ADVICE
            )))
        })?;
        Ok(read)
    }
}

/// Deserializes an object of at most [`MAX_MEMBERS`] members.
pub(crate) fn bounded_map<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Members<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object of at most {MAX_MEMBERS} members")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                members.insert(name, value);
                if members.len() > MAX_MEMBERS {
                    return Err(Error::custom(format_args!("expected at most {MAX_MEMBERS} members, found more")));
                }
            }
            Ok(members)
        }
    }

    deserializer.deserialize_map(Members(PhantomData))
}

/// Labels with their values, sorted by label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Hash, serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Labels(pub(crate) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded_map(deserializer).map(Self)
    }
}

/// PromQL's notation: `up{job="api"}`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get("__name__").map_or("", String::as_str))?;
        let mut labels = self.0.iter().filter(|(label, _)| *label != "__name__").peekable();
        if labels.peek().is_none() && self.0.contains_key("__name__") {
            return Ok(());
        }
        f.write_str("{")?;
        for (n, (label, value)) in labels.enumerate() {
            let separator = if n == 0 { "" } else { "," };
            write!(f, "{separator}{label}={}", crate::matchers::quote(value))?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_as_in_promql() {
        for (json, text) in [
            (r#"{"__name__":"up","job":"a\"b","instance":"h:1"}"#, r#"up{instance="h:1",job="a\"b"}"#),
            (r#"{"__name__":"up"}"#, "up"),
            (r#"{"job":"a"}"#, r#"{job="a"}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(serde_json::from_str::<Labels>(json).unwrap().to_string(), text);
        }
        let many: BTreeMap<String, String> = (0..201).map(|n| (n.to_string(), String::new())).collect();
        assert!(serde_json::from_str::<Labels>(&serde_json::to_string(&many).unwrap()).is_err());
    }
}
