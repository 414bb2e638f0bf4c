//! The overrides of a revision: its exchanges, compared with the base.

use serde_json::{Value, json};

/// Replaces the revision by a placeholder. The placeholder must not occur in the records, so no information is lost.
pub(super) fn redact_revision(records: &[Value], revision: &super::Revision) -> Vec<Value> {
    const PLACEHOLDER: &str = "<revision>";
    let text = Value::from(records.to_vec()).to_string();
    assert!(!text.contains(PLACEHOLDER), "{PLACEHOLDER} is in an exchange");
    serde_json::from_str(&text.replace(revision.as_str(), PLACEHOLDER)).expect("the records are still JSON")
}

/// Returns the records that differ from the base, in order, then the cases that only the base has. Base and overrides
/// together determine all records of the revision.
pub(super) fn between(base: &[Value], own: Vec<Value>, has_http: bool) -> Vec<Value> {
    let base: Vec<_> =
        base.iter().filter_map(|record| if has_http { Some(record.clone()) } else { stdio_part(record) }).collect();
    let is_only_in_base = |record: &&Value| own.iter().all(|own| own["case"] != record["case"]);
    let absent: Vec<_> =
        base.iter().filter(is_only_in_base).map(|record| json!({ "absent": true, "case": record["case"] })).collect();
    own.into_iter().filter(|record| !base.contains(record)).chain(absent).collect()
}

/// Returns the record for a revision without HTTP; `None` if the exchange is over HTTP only.
fn stdio_part(record: &Value) -> Option<Value> {
    let mut record = record.as_object()?.clone();
    record.remove("http");
    record.remove("http-request");
    record.contains_key("stdio").then(|| record.into())
}
