//! YAML.

use super::Fault;
use serde_json::Value;
use serde_saphyr::{Error, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

/// The maximum number of scalars, lists and mappings, after aliases are expanded.
const MAX_NODES: usize = 100_000;
/// The maximum size of all scalars, after aliases are expanded.
const MAX_SCALARS: usize = 4 << 20;

/// Parses YAML: the value of the only document, or a list of the values of several documents.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| fault(&error))?;
    match documents.len() {
        0 => Ok(Value::Null),
        1 => Ok(documents.remove(0)),
        _ => Ok(Value::Array(documents)),
    }
}

/// The core schema of YAML 1.2, where `yes` is text, plus two features of YAML 1.1: merge keys, and underscores in
/// integers (`1_000`).
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MAX_NODES.saturating_mul(2),
            max_nodes: MAX_NODES,
            max_depth: 64,
            max_documents: 100,
            max_total_scalar_bytes: MAX_SCALARS,
            max_recorded_anchor_bytes: MAX_SCALARS,
        },
        strict_booleans: true,
        merge_keys: MergeKeyPolicy::Merge,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// Returns the position and the kind of an error. The parser's messages may quote the file, so only messages that
/// cannot are used.
fn fault(error: &Error) -> Fault {
    let line = error.location().map_or(1, |location| location.line());
    let mut cause = error;
    while let Error::AliasError { error, .. } = cause {
        cause = error;
    }
    let reason = match cause {
        Error::Budget { .. } => format!(
            "expected at most {MAX_NODES} values, 64 levels and 4 MiB of text after aliases are expanded, found more"
        ),
        Error::DuplicateMappingKey { .. } => "expected each key once in a mapping, found one twice".to_owned(),
        Error::UnknownAnchor { .. } => "expected an alias of an anchor above, found another one".to_owned(),
        _ => "expected valid YAML".to_owned(),
    };
    format!("line {line}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_those_of_the_core_schema() {
        let text = "a: 1\nb: yes\nc: 1.5\nd: null\ne: ~\nf: 2024-01-01\ng: '1'\nh: true\ni: .nan\nj: [x, {y: z}]\n1: one\nk: 1_000\n";
        let expected = json!({
            "a": 1, "b": "yes", "c": 1.5, "d": null, "e": null, "f": "2024-01-01", "g": "1", "h": true, "i": null,
            "j": ["x", { "y": "z" }], "1": "one", "k": 1000,
        });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn aliases_and_merge_keys_are_expanded() {
        let text = "base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3\nsame: *base\n";
        let expected = json!({ "base": { "a": 1, "b": 2 }, "other": { "a": 1, "b": 3 }, "same": { "a": 1, "b": 2 } });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn documents_are_a_list_unless_there_is_only_one() {
        assert_eq!(parse("a: 1\n---\nb: 2\n"), Ok(json!([{ "a": 1 }, { "b": 2 }])));
        assert_eq!(parse("--- {a: 1}\n...\n"), Ok(json!({ "a": 1 })));
        assert_eq!(parse("# nothing\n"), Ok(Value::Null));
    }

    #[test]
    fn aliases_that_expand_to_billions_are_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        let fault = parse(&text).unwrap_err();
        assert!(fault.contains("after aliases are expanded"), "{fault}");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(", "));
        let fault = parse(&long).unwrap_err();
        assert!(fault.contains("after aliases are expanded"), "{fault}");
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        assert_eq!(parse("a: 1\na: 2\n").unwrap_err(), "line 2: expected each key once in a mapping, found one twice");
    }
}
