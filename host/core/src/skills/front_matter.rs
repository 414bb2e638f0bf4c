//! The front matter of a `SKILL.md`: YAML, as a JSON object, and the rules of the
//! [Agent Skills specification](https://agentskills.io/specification) for it.

use serde_json::{Map, Value};
use serde_saphyr::{MergeKeyPolicy, NonFiniteFloatPolicy, Options};

use super::{SkillProblem, SkillRule};

/// The maximum size of front matter in bytes.
const MAX_LEN: usize = 64 << 10;
/// The maximum number of scalars, lists and mappings, after aliases are expanded.
const MAX_NODES: usize = 4096;

/// The members with a length limit: the name, and the maximum number of characters.
const TEXTS: [(&str, usize); 3] = [("name", 64), ("description", 1024), ("compatibility", 500)];

/// Returns the front matter of a manifest in the directory with this name.
///
/// # Errors
///
/// The front matter breaks a rule; the problem has its line in the manifest.
pub(super) fn parse(manifest: &str, directory: &str) -> Result<Map<String, Value>, SkillProblem> {
    let yaml = extract(manifest)?;
    let value: Value = serde_saphyr::from_str_with_options(yaml, options()).map_err(|error| {
        // The first line of the front matter is the second one of the manifest.
        let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
        SkillProblem { line: Some(line.map_or(2, |line| line.saturating_add(1))), rule: SkillRule::Yaml }
    })?;
    let Value::Object(members) = value else {
        return Err(SkillProblem { line: Some(2), rule: SkillRule::NotMapping });
    };
    check(&members, directory).map_err(|(key, rule)| SkillProblem { line: Some(line_of(yaml, key)), rule })?;
    Ok(members)
}

/// Returns the text between the first line, `---`, and the next line that is `---`.
fn extract(manifest: &str) -> Result<&str, SkillProblem> {
    let manifest = manifest.strip_prefix('\u{feff}').unwrap_or(manifest);
    let begin = manifest.strip_prefix("---\n").or_else(|| manifest.strip_prefix("---\r\n"));
    let body = begin.ok_or(SkillProblem { line: Some(1), rule: SkillRule::NoFrontMatter })?;
    let mut length: usize = 0;
    for line in body.split_inclusive('\n') {
        if line.strip_prefix("---").is_some_and(|rest| rest.trim_matches([' ', '\t', '\r', '\n']).is_empty()) {
            return Ok(body.get(..length).unwrap_or_default());
        }
        length = length.saturating_add(line.len());
        if length > MAX_LEN {
            return Err(SkillProblem { line: Some(1), rule: SkillRule::FrontMatterTooLong(MAX_LEN) });
        }
    }
    Err(SkillProblem { line: Some(1), rule: SkillRule::Unterminated })
}

/// The core schema of YAML 1.2.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MAX_NODES.saturating_mul(2),
            max_nodes: MAX_NODES,
            max_depth: 32,
            max_documents: 1,
            max_total_scalar_bytes: MAX_LEN,
            max_recorded_anchor_bytes: MAX_LEN,
        },
        strict_booleans: true,
        merge_keys: MergeKeyPolicy::Merge,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn check(members: &Map<String, Value>, directory: &str) -> Result<(), (&'static str, SkillRule)> {
    for (key, max) in TEXTS {
        let is_required = key != "compatibility";
        match members.get(key) {
            None if is_required => return Err((key, SkillRule::Missing(key))),
            None => {}
            Some(Value::String(text)) if text.trim().is_empty() => return Err((key, SkillRule::Empty(key))),
            Some(Value::String(text)) => {
                let found = text.chars().count();
                if found > max {
                    return Err((key, SkillRule::TooLong { key, max, found }));
                }
            }
            Some(_) => return Err((key, SkillRule::NotText(key))),
        }
    }
    let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(is_valid) || name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(("name", SkillRule::Name));
    }
    if name != directory {
        return Err(("name", SkillRule::NameOfDirectory { name: name.to_owned(), directory: directory.to_owned() }));
    }
    Ok(())
}

/// Returns the line of a manifest that has this member of its front matter.
fn line_of(yaml: &str, key: &str) -> usize {
    let is_member = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    yaml.lines().position(is_member).map_or(1, |index| index.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_in_pdf(front_matter: &str) -> Result<Map<String, Value>, SkillProblem> {
        parse(&format!("---\n{front_matter}---\n# PDF\n"), "pdf")
    }

    #[test]
    fn front_matter_is_json_as_it_stands() {
        let text = "name: pdf\ndescription: >-\n  Reads\n  PDF.\nlicense: MIT\nallowed-tools: Read Bash\nmetadata:\n  version: '1.0'\n  since: 2026-01-01\n  n: 3\n";
        let expected = json!({
            "name": "pdf", "description": "Reads PDF.", "license": "MIT", "allowed-tools": "Read Bash",
            "metadata": { "version": "1.0", "since": "2026-01-01", "n": 3 },
        });
        assert_eq!(parse_in_pdf(text).map(Value::Object), Ok(expected));
        let windows = "\u{feff}---\r\nname: pdf\r\ndescription: x\r\n---  \r\n";
        assert_eq!(parse(windows, "pdf").map(Value::Object), Ok(json!({ "name": "pdf", "description": "x" })));
        assert_eq!(parse("---\nname: pdf\ndescription: x\n---", "pdf").map(|members| members.len()), Ok(2));
    }

    #[test]
    fn a_broken_rule_has_its_line() {
        let long = "x".repeat(1025);
        for (text, line, rule) in [
            ("description: x\n", 1, SkillRule::Missing("name")),
            ("name: pdf\n", 1, SkillRule::Missing("description")),
            ("description: x\nname: 3\n", 3, SkillRule::NotText("name")),
            ("name: pdf\ndescription: ' '\n", 3, SkillRule::Empty("description")),
            ("name: PDF\ndescription: x\n", 2, SkillRule::Name),
            ("name: p--df\ndescription: x\n", 2, SkillRule::Name),
            (
                "name: pdfs\ndescription: x\n",
                2,
                SkillRule::NameOfDirectory { name: "pdfs".to_owned(), directory: "pdf".to_owned() },
            ),
            (
                &format!("name: pdf\n\ndescription: {long}\n"),
                4,
                SkillRule::TooLong { key: "description", max: 1024, found: 1025 },
            ),
            ("name: pdf\ndescription: [\n", 3, SkillRule::Yaml),
            ("name: pdf\nname: pdf\ndescription: x\n", 3, SkillRule::Yaml),
            ("- a\n", 2, SkillRule::NotMapping),
        ] {
            assert_eq!(parse_in_pdf(text), Err(SkillProblem { line: Some(line), rule }), "{text}");
        }
        for (manifest, rule) in [
            ("# PDF\n", SkillRule::NoFrontMatter),
            ("", SkillRule::NoFrontMatter),
            ("---\nname: pdf\n", SkillRule::Unterminated),
        ] {
            assert_eq!(parse(manifest, "pdf"), Err(SkillProblem { line: Some(1), rule }), "{manifest}");
        }
    }

    #[test]
    fn what_expands_without_end_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let alias = format!("*a{}", n - 1);
            text += &format!("a{n}: &a{n} [{}]\n", vec![alias; 8].join(", "));
        }
        assert_eq!(parse_in_pdf(&text).unwrap_err().rule, SkillRule::Yaml);
        let long = format!("name: pdf\n# {}\n", "x".repeat(MAX_LEN));
        assert_eq!(parse_in_pdf(&long).unwrap_err().rule, SkillRule::FrontMatterTooLong(MAX_LEN));
    }
}
