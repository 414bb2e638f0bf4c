//! Conversion of front matter YAML to the metadata of a note.
//!
//! Every field is bounded, so an entry has at most a few kilobytes, whatever its note contains: [`MAX_TITLE`] and
//! [`MAX_DESCRIPTION`] truncate text, [`MAX_TAGS`] and [`MAX_WORD`] drop words, [`MAX_FAULTS`] bounds the reported
//! faults.

use super::yaml::Value;
use super::{FrontMatter, japanese};
use crate::route::is_expressible;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use mcp_provider::Role;
use std::collections::HashSet;
use unicode_normalization::UnicodeNormalization;

/// The maximum length of a title in characters. A longer title is truncated.
pub(super) const MAX_TITLE: usize = 300;

/// The maximum length of a description in characters. A longer one is truncated.
const MAX_DESCRIPTION: usize = 2000;

/// The maximum number of tags of a note. Further tags are dropped.
pub(super) const MAX_TAGS: usize = 200;

/// The maximum length of a tag or language in bytes. A longer one is dropped.
const MAX_WORD: usize = 200;

/// The maximum number of reported faults. The number of further faults is reported, too.
const MAX_FAULTS: usize = 8;

/// The maximum number of characters of the found value in a fault.
const MAX_SHOWN: usize = 40;

/// Reads the fields. Invalid ones are dropped and reported as faults.
pub(super) fn read(fields: Vec<(String, Value)>) -> FrontMatter {
    let mut read = FrontMatter::default();
    let mut seen: HashSet<String> = HashSet::new();
    for (name, value) in fields {
        let name = japanese::field_name(&name);
        if seen.contains(&name) {
            read.faults.push(format!("`{}`: duplicate; the first is used", truncate(&name, MAX_SHOWN)));
            continue;
        }
        if let Err(fault) = field(&mut read, &name, value) {
            read.faults.push(format!("`{}`: {fault}", truncate(&name, MAX_SHOWN)));
        }
        seen.insert(name);
    }
    if let Some(more) = read.faults.len().checked_sub(MAX_FAULTS).filter(|more| *more > 0) {
        read.faults.truncate(MAX_FAULTS);
        read.faults.push(format!("and {more} more"));
    }
    read
}

/// Truncates a text to a number of characters, with a mark if it was longer.
pub(super) fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn field(read: &mut FrontMatter, name: &str, value: Value) -> Result<(), String> {
    if value == Value::Null {
        return Ok(());
    }
    match name {
        "title" => read.title = text(value)?.map(|text| truncate(&text, MAX_TITLE)),
        "description" => read.description = text(value)?.map(|text| truncate(&text, MAX_DESCRIPTION)),
        "reading" => read.reading = text(value)?.map(|text| truncate(&text, MAX_TITLE)),
        "language" => read.language = text(value)?.map(check_expressible).transpose()?,
        "priority" => read.priority = text(value)?.map(|text| priority(&text)).transpose()?,
        "date" => read.date = text(value)?.map(|text| date(&text)).transpose()?,
        "tags" => tags(read, value)?,
        "audience" => each_word(read, name, value, |read, word| {
            for role in roles(&word)? {
                if !read.audience.contains(&role) {
                    read.audience.push(role);
                }
            }
            Ok(())
        })?,
        _ => {}
    }
    Ok(())
}

/// Reads the first [`MAX_TAGS`] different tags.
fn tags(read: &mut FrontMatter, value: Value) -> Result<(), String> {
    let mut known: HashSet<String> = HashSet::new();
    let mut dropped = 0_usize;
    each_word(read, "tags", value, |read, tag| {
        if known.contains(&tag) {
            return Ok(());
        }
        let tag = check_expressible(tag)?;
        if known.len() >= MAX_TAGS {
            dropped = dropped.saturating_add(1);
            return Ok(());
        }
        known.insert(tag.clone());
        read.tags.push(tag);
        Ok(())
    })?;
    if dropped > 0 { Err(format!("{dropped} of them are dropped: a note has at most {MAX_TAGS}")) } else { Ok(()) }
}

fn text(value: Value) -> Result<Option<String>, String> {
    match value {
        Value::Scalar(text) => Ok(Some(composed(text.trim())).filter(|text| !text.is_empty())),
        Value::Null => Ok(None),
        Value::List(_) => Err("expected text, found a list".to_owned()),
        Value::Other => Err("expected text, found a mapping or a nested list".to_owned()),
    }
}

/// Reads each word of a field. Invalid words are dropped with a fault.
fn each_word(
    read: &mut FrontMatter,
    name: &str,
    value: Value,
    mut take: impl FnMut(&mut FrontMatter, String) -> Result<(), String>,
) -> Result<(), String> {
    for word in words(value)? {
        if let Err(fault) = take(read, word) {
            read.faults.push(format!("`{name}`: {fault}"));
        }
    }
    Ok(())
}

/// Returns a text in NFC, so a tag typed in another normalization form is the same tag.
fn composed(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { text.nfc().collect() }
}

/// Returns the words of a list, or of a text separated by commas, including Japanese ones.
fn words(value: Value) -> Result<Vec<String>, String> {
    let words = match value {
        Value::Scalar(text) => text.split([',', '、', '，']).map(str::to_owned).collect(),
        Value::List(words) => words,
        Value::Null => Vec::new(),
        Value::Other => return Err("expected a list of words, found a mapping or a nested list".to_owned()),
    };
    Ok(words.iter().map(|word| composed(word.trim())).filter(|word| !word.is_empty()).collect())
}

fn check_expressible(word: String) -> Result<String, String> {
    if word.len() > MAX_WORD {
        return Err(format!("{:?} has {} bytes, expected at most {MAX_WORD}", truncate(&word, MAX_SHOWN), word.len()));
    }
    if is_expressible(&word) { Ok(word) } else { Err(format!("{word:?} cannot be part of a path")) }
}

fn priority(text: &str) -> Result<f64, String> {
    match japanese::nfkc(text).parse::<f64>() {
        Ok(priority) if (0.0..=1.0).contains(&priority) => Ok(priority),
        _ => Err(format!("expected a number from 0.0 to 1.0, found {:?}", truncate(text, MAX_SHOWN))),
    }
}

fn roles(word: &str) -> Result<Vec<Role>, String> {
    let word_of_role = word.to_ascii_lowercase();
    let names = japanese::roles(word).map_or_else(|| vec![word_of_role.as_str()], <[&str]>::to_vec);
    let role = |name: &str| match name {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => Err(format!("expected `user` or `assistant`, found {:?}", truncate(word, MAX_SHOWN))),
    };
    names.into_iter().map(role).collect()
}

/// Parses a date (Gregorian or Japanese), a date with a time, or a timestamp with an offset. Without an offset, it is
/// in UTC.
fn date(text: &str) -> Result<String, String> {
    let normalized = japanese::nfkc(text);
    let timestamp = normalized.parse::<Timestamp>().ok().or_else(|| {
        let date = || normalized.parse::<Date>().ok().or_else(|| japanese::date(text));
        let time = normalized.parse::<DateTime>().ok().or_else(|| date().map(|date| date.at(0, 0, 0, 0)))?;
        TimeZone::UTC.to_timestamp(time).ok()
    });
    // A year that RFC 3339 cannot represent is not a valid date of a note.
    let timestamp = timestamp.map(|timestamp| timestamp.to_string()).filter(|text| !text.starts_with(['-', '+']));
    timestamp.ok_or_else(|| {
        format!("expected a date such as `2025-01-12` or `2025-01-12T15:00:58Z`, found {:?}", truncate(text, MAX_SHOWN))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, text: &str) -> FrontMatter {
        read(vec![(name.to_owned(), Value::Scalar(text.to_owned()))])
    }

    fn list(name: &str, words: &[&str]) -> FrontMatter {
        read(vec![(name.to_owned(), Value::List(words.iter().map(|word| (*word).to_owned()).collect()))])
    }

    #[test]
    fn tags_may_be_a_list_or_words_between_commas_and_count_once() {
        for read in [list("tags", &["mcp", " wasm ", "mcp", ""]), one("tags", "mcp, wasm,,mcp")] {
            assert_eq!(read.tags, ["mcp", "wasm"]);
            assert!(read.faults.is_empty());
        }
        assert_eq!(one("tags", "日本 語").tags, ["日本 語"]);
        assert_eq!(one("ﾀｸﾞ", "計画、会議，か\u{3099}").tags, ["計画", "会議", "が"]);
    }

    #[test]
    fn a_tag_that_no_path_can_hold_is_a_fault() {
        assert_eq!(list("tags", &["..", "ok"]).tags, ["ok"]);
        assert_eq!(list("tags", &["..", "ok"]).faults, ["`tags`: \"..\" cannot be part of a path"]);
    }

    #[test]
    fn an_audience_is_one_role_or_both() {
        assert_eq!(one("audience", "User").audience, [Role::User]);
        assert_eq!(list("audience", &["assistant", "user"]).audience, [Role::Assistant, Role::User]);
        assert_eq!(one("対象", "利用者、ＡＩ").audience, [Role::User, Role::Assistant]);
        let read = list("audience", &["everybody", "user"]);
        assert_eq!(read.audience, [Role::User]);
        assert_eq!(read.faults, ["`audience`: expected `user` or `assistant`, found \"everybody\""]);
    }

    #[test]
    fn a_priority_out_of_range_is_dropped_with_a_fault() {
        assert_eq!(one("priority", "0.8").priority, Some(0.8));
        assert_eq!(one("優先度", "０．９").priority, Some(0.9));
        for text in ["7", "-0.1", "high", "nan", "inf"] {
            let read = one("priority", text);
            assert_eq!(read.priority, None, "{text}");
            assert_eq!(read.faults.len(), 1, "{text}");
        }
    }

    #[test]
    fn dates_of_all_usual_shapes_become_timestamps() {
        for (text, expected) in [
            ("2025-01-12", "2025-01-12T00:00:00Z"),
            ("2025-01-12 15:00", "2025-01-12T15:00:00Z"),
            ("2025-01-12T15:00:58", "2025-01-12T15:00:58Z"),
            ("2025-01-12T15:00:58Z", "2025-01-12T15:00:58Z"),
            ("2025-01-12T15:00:58+09:00", "2025-01-12T06:00:58Z"),
            ("2025-01-12 15:00:58+09:00", "2025-01-12T06:00:58Z"),
            ("２０２５-０１-１２", "2025-01-12T00:00:00Z"),
            ("令和7年1月12日（日）", "2025-01-12T00:00:00Z"),
        ] {
            assert_eq!(one("date", text).date.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_dropped_with_a_fault() {
        for text in ["yesterday", "2025-13-01", "2025-02-30", "12/01/2025", "-002025-01-12", "99999-01-01"] {
            let read = one("date", text);
            assert_eq!(read.date, None, "{text}");
            assert_eq!(read.faults.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_field_of_the_wrong_shape_is_dropped_with_a_fault_and_the_others_stay() {
        let read = read(vec![
            ("title".to_owned(), Value::Other),
            ("description".to_owned(), Value::List(Vec::new())),
            ("language".to_owned(), Value::Scalar(" ja ".to_owned())),
            ("unknown".to_owned(), Value::Other),
            ("tags".to_owned(), Value::Null),
        ]);
        assert_eq!((read.title, read.description), (None, None));
        assert_eq!(read.language.as_deref(), Some("ja"));
        assert_eq!(read.faults.len(), 2);
    }

    #[test]
    fn thousands_of_tags_are_dropped_but_for_the_first_with_one_fault() {
        let many: Vec<String> = (0..10_000).map(|n| format!("tag-{n}")).collect();
        let read = read(vec![("tags".to_owned(), Value::List(many.clone()))]);
        assert_eq!(read.tags, many[..MAX_TAGS]);
        assert_eq!(read.faults, ["`tags`: 9800 of them are dropped: a note has at most 200"]);
    }

    #[test]
    fn what_is_very_long_is_cut_or_dropped_and_a_fault_shows_only_its_beginning() {
        let long = "長".repeat(20_000);
        assert_eq!(one("title", &long).title.unwrap().chars().count(), MAX_TITLE + 1);
        assert_eq!(one("description", &long).description.unwrap().chars().count(), MAX_DESCRIPTION + 1);
        for name in ["tags", "language", "priority", "date", "audience"] {
            let read = one(name, &long);
            assert_eq!((read.tags.len(), read.language), (0, None), "{name}");
            assert!(read.faults[0].len() < 300, "{name}: {}", read.faults[0]);
        }
        let odd: Vec<String> = (0..5000).map(|n| format!("{n}")).collect();
        let read = read(vec![("audience".to_owned(), Value::List(odd))]);
        assert_eq!((read.faults.len(), read.faults.last().unwrap().as_str()), (MAX_FAULTS + 1, "and 4992 more"));
    }

    #[test]
    fn the_first_of_two_fields_of_one_name_counts() {
        let twice = ["one", "two"].map(|text| ("title".to_owned(), Value::Scalar(text.to_owned())));
        let read = read(twice.to_vec());
        assert_eq!(read.title.as_deref(), Some("one"));
        assert_eq!(read.faults, ["`title`: duplicate; the first is used"]);
    }
}
