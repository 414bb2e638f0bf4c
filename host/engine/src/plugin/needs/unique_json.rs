//! JSON in which no object has two members with the same name, because parsers differ in which one they use.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A JSON value without repeated members, at any depth.
pub(super) struct UniqueJson(pub(super) Value);

impl<'d> Deserialize<'d> for UniqueJson {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'d> Visitor<'d> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(UniqueJson(entry)) = entries.next_element()? {
            array.push(entry);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'d>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(de::Error::custom(format_args!("an object has `{name}` twice")));
            }
            let UniqueJson(member) = members.next_value()?;
            object.insert(name, member);
        }
        Ok(object.into())
    }
}
