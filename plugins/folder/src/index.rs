//! The content of a folder or collection: a Markdown list of links to its children.
//!
//! It has at most [`MAX_LINES`] lines, and notes when there are more, because it reads the front matter of each;
//! listing has pages for the rest.

use mcp_provider::{Contents, Entry};
use std::fmt::Write;

/// The maximum number of entries in an index.
pub const MAX_LINES: usize = 500;

/// Returns the index of `entry` with its `children`; `has_more` adds a note that there are others.
pub fn index(entry: Entry, children: &[Entry], has_more: bool) -> Contents {
    let mut text = format!("# {}\n\n", single_line(entry.title.as_deref().unwrap_or(&entry.name)));
    for child in children {
        let title = single_line(child.title.as_deref().unwrap_or(&child.name));
        // Writing to a string does not fail.
        let _ = write!(text, "- [{title}]({})", link(&entry.path, &child.path));
        if let Some(description) = &child.description {
            let _ = write!(text, ": {}", single_line(description));
        }
        text.push('\n');
    }
    if has_more {
        text.push_str("\nThere are more entries; list this resource to get all of them.\n");
    }
    Contents::text(entry.mime_type("text/markdown"), text)
}

/// Formats text for one line of Markdown, with brackets escaped so that they do not end a link's text.
fn single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if matches!(character, '[' | ']' | '\\' | '`' | '<') {
                line.push('\\');
            }
            line.push(character);
        }
    }
    line
}

/// Returns the relative reference from one path to another, independent of the mount.
fn link(from: &str, to: &str) -> String {
    let up = "../".repeat(from.bytes().filter(|byte| *byte == b'/').count());
    // Otherwise the part before a colon would be parsed as a scheme (RFC 3986, section 4.2).
    let here = if up.is_empty() { "./" } else { "" };
    // Angle brackets, because a path may contain parentheses.
    format!("<{here}{up}{to}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(entry: Entry, children: &[Entry], has_more: bool) -> String {
        index(entry, children, has_more).as_text().unwrap_or_default().to_owned()
    }

    #[test]
    fn links_lead_from_where_the_folder_is() {
        let children = [Entry::new("a/b/c(1).md", "c(1).md")];
        for (path, link) in [("a/b", "<../a/b/c(1).md>"), ("a", "<./a/b/c(1).md>"), ("", "<./a/b/c(1).md>")] {
            assert!(text(Entry::directory(path, "x"), &children, false).contains(link), "{path}");
        }
    }

    #[test]
    fn titles_and_descriptions_stay_on_their_line() {
        let child = Entry::new("a", "a").title("one\n[two]").description("x\n# y");
        let index = text(Entry::directory("", "notes"), &[child], false);
        assert_eq!(index, "# notes\n\n- [one \\[two\\]](<./a>): x # y\n");
    }

    #[test]
    fn an_index_that_is_not_whole_says_so() {
        assert!(text(Entry::directory("", "notes"), &[], true).contains("There are more"));
    }
}
