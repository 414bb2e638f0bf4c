//! Metadata in the head of an HTML page.

use super::parse::{attribute, name, parse_head, text, walk};

/// The maximum length of a title or description in characters.
const MAX_TEXT_CHARS: usize = 300;

/// The metadata of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HeadMetadata {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
}

/// Reads the metadata of a page.
pub(crate) fn head_metadata(html: &str) -> HeadMetadata {
    let mut about = HeadMetadata::default();
    for node in walk(&parse_head(html)) {
        match name(&node) {
            Some("title") if about.title.is_none() => about.title = single_line(&text(&node)),
            Some("meta") if about.description.is_none() && is_description(attribute(&node, "name")) => {
                about.description = attribute(&node, "content").as_deref().and_then(single_line);
            }
            // `title` elements in the body belong to pictures.
            Some("body") => break,
            _ => {}
        }
    }
    about
}

fn is_description(name: Option<String>) -> bool {
    name.is_some_and(|name| name.eq_ignore_ascii_case("description"))
}

/// Formats a text as one bounded line; `None` if it is empty.
fn single_line(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let short: String = line.chars().take(MAX_TEXT_CHARS).collect();
    let line = if short.len() < line.len() { format!("{short}…") } else { line };
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(html: &str) -> Option<String> {
        head_metadata(html).title
    }

    #[test]
    fn a_page_says_its_title_and_description_in_its_head() {
        let html = "<!doctype html><html><head><title>\n A &amp;  b\n</title>\
                    <meta NAME=Description content='What it is'></head><body>";
        let expected = HeadMetadata { title: Some("A & b".to_owned()), description: Some("What it is".to_owned()) };
        assert_eq!(head_metadata(html), expected);
    }

    #[test]
    fn the_title_of_a_picture_is_not_the_page_s() {
        assert_eq!(title("<body><svg><title>Icon</title></svg>"), None);
        assert_eq!(title("<title>Page</title><svg><title>Icon</title></svg>").as_deref(), Some("Page"));
    }

    #[test]
    fn a_title_without_words_is_none_and_a_very_long_one_is_cut() {
        assert_eq!(title("<title> \n </title>"), None);
        assert_eq!(title("no HTML at all"), None);
        let long = title(&format!("<title>{}</title>", "長".repeat(1000))).unwrap();
        assert_eq!(long.chars().count(), MAX_TEXT_CHARS + 1);
    }

    #[test]
    fn a_head_of_many_chunks_is_read_to_its_end_and_the_body_is_not() {
        let html = format!("<style>{}</style><title>T</title><body>{}", "é{}".repeat(9000), "<p>".repeat(1_000_000));
        assert_eq!(title(&html).as_deref(), Some("T"));
    }
}
