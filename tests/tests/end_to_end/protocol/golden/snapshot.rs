//! Comparison of records with a golden file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use snapbox::assert::{Action, Assert, DEFAULT_ACTION_ENV};
use snapbox::data::DataFormat;
use snapbox::{Data, IntoData};

/// Returns the difference between the file and the records: first the names of the cases, then the lines. Without
/// records, the file must not exist.
pub(super) fn difference(file: &Path, records: &[Value]) -> String {
    if records.is_empty() {
        return stale(file);
    }
    let text = serde_json::to_string_pretty(records).expect("it is JSON") + "\n";
    let expected = Data::read_from(file, Some(DataFormat::Text)).raw();
    match Assert::new().action_env(DEFAULT_ACTION_ENV).try_eq(None, text.into_data(), expected) {
        Ok(()) => String::new(),
        Err(error) => format!("{}\n{error}\n", cases_that_differ(file, records)),
    }
}

/// Removes the file, or reports it.
fn stale(file: &Path) -> String {
    if !file.exists() {
        return String::new();
    }
    if Action::with_env_var(DEFAULT_ACTION_ENV) == Some(Action::Overwrite) {
        fs::remove_file(file).expect("the file can be removed");
        return String::new();
    }
    format!("{}: no exchange differs from the base any longer\n", file.display())
}

fn cases_that_differ(file: &Path, records: &[Value]) -> String {
    let golden = fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok());
    let golden: Vec<Value> = golden.unwrap_or_default();
    let same_case = |records: &[Value], record: &Value| records.iter().any(|other| other["case"] == record["case"]);
    let mut text = String::new();
    for record in records.iter().filter(|record| !golden.contains(record)) {
        let kind = if same_case(&golden, record) { "changed" } else { "new" };
        let _ = writeln!(text, "{kind}: case {} in {}", record["case"], file.display());
    }
    for record in golden.iter().filter(|record| !same_case(records, record)) {
        let _ = writeln!(text, "gone: case {} in {}", record["case"], file.display());
    }
    text
}
