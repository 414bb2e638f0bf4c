//! The links and anchors of a generated HTML page: attributes are in double quotes, and `<` in texts is escaped.

use std::collections::BTreeSet;

/// The parts of a page for a check of links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The values of `href` and `src`, decoded.
    pub(super) links: BTreeSet<String>,
    /// The values of `id`, decoded.
    pub(super) anchors: BTreeSet<String>,
}

impl Page {
    pub(super) fn parse(html: &str) -> Self {
        let mut page = Self::default();
        for tag in html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or(rest)) {
            page.links.extend(["href", "src"].iter().filter_map(|name| attribute(tag, name)));
            page.anchors.extend(attribute(tag, "id"));
        }
        page
    }
}

/// Returns the value of an attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(decode(value))
}

/// Decodes the character references that mdbook writes in attributes, and percent-encoding.
fn decode(value: &str) -> String {
    let value = value.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">");
    percent_decode(&value.replace("&amp;", "&"))
}

fn percent_decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let encoded = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_those_of_tags() {
        let page = Page::parse(
            "<h2 id=\"a-b\"><a class=\"header\" href=\"#a-b\">A</a></h2> href=\"no\" <code>&lt;a href=\"x\"</code>\
             <img src=\"p%C3%A4.svg?a&amp;b\">",
        );
        assert_eq!(page.links.into_iter().collect::<Vec<_>>(), ["#a-b", "pä.svg?a&b"]);
        assert_eq!(page.anchors.into_iter().collect::<Vec<_>>(), ["a-b"]);
    }

    #[test]
    fn what_is_no_encoding_stays() {
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%41"), "%zzA");
    }
}
