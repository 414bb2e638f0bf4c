//! Values of the component model as JSON, which their types make unambiguous.
//!
//! | type | JSON |
//! |---|---|
//! | bool, integers, string, char | itself |
//! | float | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | list, tuple, map | an array |
//! | `list<u8>` | `{"text": "…"}` if it is UTF-8, otherwise `{"base64": "…"}` |
//! | record | an object |
//! | enum, variant without content | its name |
//! | variant with content | `{"name": …}` |
//! | option | `null`, or `{"some": …}` |
//! | result | `{"ok": …}` or `{"err": …}` |
//! | flags | an array of names |
//! | handle | `{"handle": 1}` |

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::types::Type;
use wasmtime::component::{ResourceAny, Val};

/// Writes a value. Handles are taken from `handles`, in the order of the value.
pub(super) fn to_json(value: &Val, handles: &mut impl Iterator<Item = u32>) -> wasmtime::Result<Value> {
    let content = |content: &Option<Box<Val>>, handles: &mut _| {
        content.as_ref().map_or(Ok(Value::Null), |value| to_json(value, handles))
    };
    Ok(match value {
        Val::Bool(value) => json!(value),
        Val::S8(value) => json!(value),
        Val::U8(value) => json!(value),
        Val::S16(value) => json!(value),
        Val::U16(value) => json!(value),
        Val::S32(value) => json!(value),
        Val::U32(value) => json!(value),
        Val::S64(value) => json!(value),
        Val::U64(value) => json!(value),
        Val::Float32(value) => float(f64::from(*value)),
        Val::Float64(value) => float(*value),
        Val::Char(value) => json!(value),
        Val::String(value) | Val::Enum(value) => json!(value),
        Val::List(items) if matches!(items.first(), Some(Val::U8(_))) => bytes(&collect_bytes(items)),
        Val::List(items) | Val::Tuple(items) | Val::FixedLengthList(items) => {
            Value::Array(items.iter().map(|item| to_json(item, handles)).collect::<Result<_, _>>()?)
        }
        Val::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| Ok(json!([to_json(key, handles)?, to_json(value, handles)?])));
            Value::Array(pairs.collect::<wasmtime::Result<_>>()?)
        }
        Val::Record(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), to_json(value, handles)?)));
            Value::Object(fields.collect::<wasmtime::Result<_>>()?)
        }
        Val::Variant(name, None) => json!(name),
        Val::Variant(name, Some(value)) => named(name, to_json(value, handles)?),
        Val::Option(None) => Value::Null,
        Val::Option(Some(value)) => named("some", to_json(value, handles)?),
        Val::Result(Ok(value)) => named("ok", content(value, handles)?),
        Val::Result(Err(value)) => named("err", content(value, handles)?),
        Val::Flags(names) => json!(names),
        Val::Resource(_) => match handles.next() {
            Some(number) => super::handle(number),
            None => return Err(wasmtime::Error::msg("a handle without a number")),
        },
        Val::Future(_) | Val::Stream(_) | Val::ErrorContext(_) => {
            return Err(wasmtime::Error::msg("futures and streams of WASI 0.3 are not recorded"));
        }
    })
}

fn named(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(
        || {
            let name = if value.is_nan() {
                "NaN"
            } else if value > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            };
            json!(name)
        },
        Value::Number,
    )
}

fn collect_bytes(items: &[Val]) -> Vec<u8> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Some(*byte) } else { None };
    items.iter().filter_map(byte).collect()
}

/// Encodes bytes, as text if they are UTF-8.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

/// The error for JSON that is not a value of a type.
fn mismatch(json: &Value, expected: &str) -> wasmtime::Error {
    let found: String = json.to_string().chars().take(80).collect();
    wasmtime::Error::msg(format!("the record has `{found}`, and the component imports {expected} there"))
}

/// Reads a value of this type. `resource` makes the resource of a handle.
pub(super) fn from_json(
    json: &Value,
    ty: &Type,
    resource: &mut impl FnMut(u32) -> wasmtime::Result<ResourceAny>,
) -> wasmtime::Result<Val> {
    macro_rules! integer {
        ($variant:ident, $as:ident) => {{
            let value = json.$as().and_then(|value| value.try_into().ok());
            Val::$variant(value.ok_or_else(|| mismatch(json, "an integer"))?)
        }};
    }
    Ok(match ty {
        Type::Bool => Val::Bool(json.as_bool().ok_or_else(|| mismatch(json, "a bool"))?),
        Type::S8 => integer!(S8, as_i64),
        Type::U8 => integer!(U8, as_u64),
        Type::S16 => integer!(S16, as_i64),
        Type::U16 => integer!(U16, as_u64),
        Type::S32 => integer!(S32, as_i64),
        Type::U32 => integer!(U32, as_u64),
        Type::S64 => integer!(S64, as_i64),
        Type::U64 => integer!(U64, as_u64),
        #[expect(clippy::cast_possible_truncation, reason = "it was one of 32 bits")]
        Type::Float32 => Val::Float32(read_float(json)? as f32),
        Type::Float64 => Val::Float64(read_float(json)?),
        Type::Char => {
            let mut characters = json.as_str().unwrap_or_default().chars();
            match (characters.next(), characters.next()) {
                (Some(one), None) => Val::Char(one),
                _ => return Err(mismatch(json, "a character")),
            }
        }
        Type::String => Val::String(text(json)?),
        Type::List(list) => {
            let ty = list.ty();
            match json {
                Value::Object(_) if matches!(ty, Type::U8) => {
                    Val::List(read_bytes(json)?.into_iter().map(Val::U8).collect())
                }
                _ => {
                    Val::List(items(json)?.iter().map(|item| from_json(item, &ty, resource)).collect::<Result<_, _>>()?)
                }
            }
        }
        Type::FixedLengthList(list) => {
            let ty = list.ty();
            let items = match json {
                Value::Object(_) if matches!(ty, Type::U8) => read_bytes(json)?.into_iter().map(Val::U8).collect(),
                _ => items(json)?.iter().map(|item| from_json(item, &ty, resource)).collect::<Result<_, _>>()?,
            };
            Val::FixedLengthList(items)
        }
        Type::Tuple(tuple) => {
            let (items, types) = (items(json)?, tuple.types());
            if items.len() != types.len() {
                return Err(mismatch(json, "a tuple of another length"));
            }
            let values = items.iter().zip(types).map(|(item, ty)| from_json(item, &ty, resource));
            Val::Tuple(values.collect::<Result<_, _>>()?)
        }
        Type::Record(record) => {
            let object = json.as_object().ok_or_else(|| mismatch(json, "a record"))?;
            let fields = record.fields().map(|field| {
                let value = object.get(field.name).ok_or_else(|| mismatch(json, "a record with other fields"))?;
                Ok((field.name.to_owned(), from_json(value, &field.ty, resource)?))
            });
            Val::Record(fields.collect::<wasmtime::Result<_>>()?)
        }
        Type::Variant(variant) => {
            let (name, content) = case(json).ok_or_else(|| mismatch(json, "a variant"))?;
            let known = variant.cases().find(|known| known.name == name);
            let known = known.ok_or_else(|| mismatch(json, "a variant with other cases"))?;
            let content = match (&known.ty, content) {
                (Some(ty), Some(content)) => Some(Box::new(from_json(content, ty, resource)?)),
                (None, None) => None,
                _ => return Err(mismatch(json, "a variant with another content")),
            };
            Val::Variant(name.to_owned(), content)
        }
        Type::Enum(_) => Val::Enum(text(json)?),
        Type::Option(option) => match json {
            Value::Null => Val::Option(None),
            _ => {
                let some = json.get("some").ok_or_else(|| mismatch(json, "an option"))?;
                Val::Option(Some(Box::new(from_json(some, &option.ty(), resource)?)))
            }
        },
        Type::Result(result) => {
            let mut content = |ty: Option<Type>, value: &Value| match ty {
                Some(ty) => Ok::<_, wasmtime::Error>(Some(Box::new(from_json(value, &ty, resource)?))),
                None => Ok(None),
            };
            match case(json) {
                Some(("ok", Some(value))) => Val::Result(Ok(content(result.ok(), value)?)),
                Some(("err", Some(value))) => Val::Result(Err(content(result.err(), value)?)),
                _ => return Err(mismatch(json, "a result")),
            }
        }
        Type::Flags(_) => Val::Flags(items(json)?.iter().map(text).collect::<Result<_, _>>()?),
        Type::Own(_) | Type::Borrow(_) => {
            let number = json.get("handle").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
            Val::Resource(resource(number.ok_or_else(|| mismatch(json, "a handle"))?)?)
        }
        Type::Map(_) | Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
            return Err(mismatch(json, "a type that is not recorded"));
        }
    })
}

/// The name of a case, and its content.
fn case(json: &Value) -> Option<(&str, Option<&Value>)> {
    match json {
        Value::String(name) => Some((name, None)),
        Value::Object(object) => {
            object.iter().next().filter(|_| object.len() == 1).map(|(name, value)| (name.as_str(), Some(value)))
        }
        _ => None,
    }
}

fn items(json: &Value) -> wasmtime::Result<&Vec<Value>> {
    json.as_array().ok_or_else(|| mismatch(json, "a list"))
}

fn text(json: &Value) -> wasmtime::Result<String> {
    json.as_str().map(str::to_owned).ok_or_else(|| mismatch(json, "a string"))
}

fn read_float(json: &Value) -> wasmtime::Result<f64> {
    match json.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        _ => json.as_f64().ok_or_else(|| mismatch(json, "a number")),
    }
}

fn read_bytes(json: &Value) -> wasmtime::Result<Vec<u8>> {
    if let Some(text) = json.get("text").and_then(Value::as_str) {
        return Ok(text.as_bytes().to_vec());
    }
    let encoded = json.get("base64").and_then(Value::as_str).ok_or_else(|| mismatch(json, "bytes"))?;
    BASE64_STANDARD.decode(encoded).map_err(|_| mismatch(json, "bytes"))
}
