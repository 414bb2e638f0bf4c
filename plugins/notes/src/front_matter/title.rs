//! The title of a note without front matter: the heading at the beginning of its text.

use super::split::{first_line, heading};
use crate::markup::Markup;

/// The maximum number of lines searched.
const MAX_LINES: usize = 200;

/// Returns the title; `None` if more of the text is needed.
pub(super) fn title(markup: Markup, body: &[u8], is_all: bool) -> Option<Option<String>> {
    if markup == Markup::Markdown {
        return first_line(body, is_all).map(heading);
    }
    let mut lines = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).split_inclusive(|byte| *byte == b'\n');
    let whole: Vec<&str> = lines
        .by_ref()
        .take(MAX_LINES)
        .take_while(|line| is_all || line.ends_with(b"\n"))
        .map(|line| std::str::from_utf8(line).unwrap_or_default().trim_end())
        .collect();
    let found = match markup {
        Markup::Markdown | Markup::AsciiDoc => asciidoc(&whole),
        Markup::ReStructuredText => restructured_text(&whole),
    };
    match found {
        // Later lines may decide.
        Found::Undecided if !is_all && whole.len() < MAX_LINES => None,
        Found::Undecided | Found::None => Some(None),
        Found::Title(title) => Some(Some(title.to_owned())),
    }
}

/// The result of searching lines.
enum Found<'a> {
    Title(&'a str),
    None,
    /// The lines end before the title, or within it.
    Undecided,
}

/// Finds `= Title`, or a line above a line of `=`. Comments and attributes may precede it.
fn asciidoc<'a>(lines: &[&'a str]) -> Found<'a> {
    let mut rest = lines.iter();
    while let Some(line) = rest.next() {
        if *line == "////" {
            // A comment block.
            if !rest.by_ref().any(|line| *line == "////") {
                return Found::Undecided;
            }
            continue;
        }
        let is_attribute = line.strip_prefix(':').is_some_and(|line| line.contains(':'));
        if line.is_empty() || line.starts_with("//") || is_attribute {
            continue;
        }
        if let Some(title) = line.strip_prefix("= ").or_else(|| line.strip_prefix("# ")).map(str::trim) {
            return if title.is_empty() { Found::None } else { Found::Title(title) };
        }
        return match rest.next() {
            Some(below) if is_adornment(below, line) && below.starts_with('=') => Found::Title(line.trim()),
            Some(_) => Found::None,
            None => Found::Undecided,
        };
    }
    Found::Undecided
}

/// Finds a line above, or between, lines of one punctuation mark. Comments, directives and fields may precede it.
fn restructured_text<'a>(lines: &[&'a str]) -> Found<'a> {
    let mut rest = lines.iter().peekable();
    let mut is_in_markup = false;
    while let Some(line) = rest.next() {
        if line.is_empty() || is_in_markup && line.starts_with([' ', '\t']) {
            continue;
        }
        let is_field = line.strip_prefix(':').is_some_and(|line| line.contains(':'));
        is_in_markup = *line == ".." || line.starts_with(".. ") || is_field;
        if is_in_markup {
            continue;
        }
        let Some(below) = rest.next() else { return Found::Undecided };
        if !is_adornment(line, "") {
            return if is_adornment(below, line) { Found::Title(line.trim()) } else { Found::None };
        }
        return match rest.next() {
            Some(under) if under == line && !below.trim().is_empty() => Found::Title(below.trim()),
            Some(_) => Found::None,
            None => Found::Undecided,
        };
    }
    Found::Undecided
}

/// Returns whether a line repeats one punctuation mark: at least twice, and at least four times or as often as the
/// title has characters.
fn is_adornment(line: &str, title: &str) -> bool {
    let Some(mark) = line.chars().next().filter(char::is_ascii_punctuation) else { return false };
    line.chars().all(|c| c == mark) && line.len() >= title.chars().count().clamp(1, 4) && line.len() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(markup: Markup, text: &str) -> Option<String> {
        title(markup, text.as_bytes(), true).unwrap()
    }

    #[test]
    fn the_title_of_asciidoc_is_its_first_line_but_for_comments_and_attributes() {
        for text in [
            "= 就業規則\n著者\n",
            "\u{feff}= 就業規則",
            "// comment\n:toc:\n:lang: ja\n\n= 就業規則\r\n",
            "////\n= no\n////\n= 就業規則\n",
            "# 就業規則\n",
            "就業規則\n========\n",
        ] {
            assert_eq!(all(Markup::AsciiDoc, text).as_deref(), Some("就業規則"), "{text}");
        }
        for text in ["", "text\nmore\n", "== Section\n", "=\n", "////\n= never closed\n", "text\n--------\n"] {
            assert_eq!(all(Markup::AsciiDoc, text), None, "{text}");
        }
    }

    #[test]
    fn the_title_of_restructured_text_is_adorned() {
        for text in [
            "就業規則\n========\n",
            "就業規則\n----\n\ntext",
            "========\n就業規則\n========\n",
            "====\n 就業規則\n====\n",
            ".. comment\n   goes on\n\n.. _label:\n\n:orphan:\n\n就業規則\n~~~~~~~~\n",
        ] {
            assert_eq!(all(Markup::ReStructuredText, text).as_deref(), Some("就業規則"), "{text}");
        }
        for text in ["", "text\n", "text\nmore\n", "long title\n==\n", "====\ntext\n----\n", "====\n\n====\n"] {
            assert_eq!(all(Markup::ReStructuredText, text), None, "{text}");
        }
    }

    #[test]
    fn more_is_needed_while_a_title_may_still_come() {
        for (markup, text) in [
            (Markup::AsciiDoc, "// comment\n\n"),
            (Markup::AsciiDoc, "= Tit"),
            (Markup::ReStructuredText, "Title\n====="),
            (Markup::ReStructuredText, "=====\nTitle\n"),
        ] {
            assert_eq!(title(markup, text.as_bytes(), false), None, "{text}");
        }
        assert_eq!(title(Markup::AsciiDoc, "//\n".repeat(300).as_bytes(), false), Some(None));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it_and_a_part_says_nothing_else_than_the_whole(text in "([=.:/ \\n~a日-]){0,30}", cut in 0_usize..30) {
            for markup in [Markup::Markdown, Markup::AsciiDoc, Markup::ReStructuredText] {
                let whole = title(markup, text.as_bytes(), true).unwrap();
                let part = text.as_bytes().get(..cut).unwrap_or_default();
                if let Some(part) = title(markup, part, false) {
                    prop_assert_eq!(part, whole);
                }
            }
        }
    }
}
