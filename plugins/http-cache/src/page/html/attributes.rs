//! Protection against tags with too many attributes, applied before parsing.
//!
//! The parser compares each attribute of a tag with all previous ones, so a tag of 100,000 attributes takes seconds. It
//! has no configurable bound, and only the parser knows whether a `<` begins a tag. This module therefore counts, for
//! each position where a tag *could* begin, the attributes that it would have, with the tokenizer states of the HTML
//! standard inside of a tag (section 13.2.5, from "tag name state" on). Where the count exceeds [`MAX_ATTRIBUTES`], the
//! `<` is replaced by a space. A false positive, as in a script, does no harm; a real tag becomes text.
//!
//! The page is scanned once, from its end to its beginning: for every position, the number of following attributes is
//! known for each tokenizer state. The cost is therefore linear in the size of the page, whatever its content.

use std::borrow::Cow;

/// The maximum number of attributes of a tag.
pub(super) const MAX_ATTRIBUTES: u16 = 128;

/// The number of following attributes, by tokenizer state.
#[derive(Debug, Clone, Copy, Default)]
struct AttributeCounts {
    tag_name: u16,
    before_name: u16,
    name: u16,
    after_name: u16,
    before_value: u16,
    double_quoted: u16,
    single_quoted: u16,
    unquoted: u16,
    after_quoted: u16,
    self_closing: u16,
}

impl AttributeCounts {
    /// Returns the counts for the position before this byte.
    fn prepend(self, byte: u8) -> Self {
        // Any byte that starts an attribute's name.
        let begun = self.name.saturating_add(1);
        let other = Self {
            before_name: begun,
            after_name: begun,
            before_value: self.unquoted,
            after_quoted: begun,
            self_closing: begun,
            ..self
        };
        match byte {
            b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' => Self {
                tag_name: self.before_name,
                name: self.after_name,
                unquoted: self.before_name,
                after_quoted: self.before_name,
                self_closing: self.before_name,
                ..self
            },
            b'/' => Self {
                tag_name: self.self_closing,
                before_name: self.self_closing,
                name: self.self_closing,
                after_name: self.self_closing,
                before_value: self.unquoted,
                after_quoted: self.self_closing,
                self_closing: self.self_closing,
                ..self
            },
            b'>' => Self { double_quoted: self.double_quoted, single_quoted: self.single_quoted, ..Self::default() },
            b'=' => Self { name: self.before_value, after_name: self.before_value, ..other },
            b'"' => Self { before_value: self.double_quoted, double_quoted: self.after_quoted, ..other },
            b'\'' => Self { before_value: self.single_quoted, single_quoted: self.after_quoted, ..other },
            _ => other,
        }
    }
}

/// Returns the page without tags that exceed [`MAX_ATTRIBUTES`], and whether there were any.
pub(super) fn limit_attributes(html: &str) -> (Cow<'_, str>, bool) {
    let mut to_come = AttributeCounts::default();
    // The number of attributes of a tag whose name starts at the current byte, and of an end tag whose slash is there.
    let (mut behind, mut behind_slash) = (0_u16, 0_u16);
    let mut cut: Vec<usize> = Vec::new();
    for (at, byte) in html.bytes().enumerate().rev() {
        let mut byte = byte;
        if byte == b'<' && behind.max(behind_slash) > MAX_ATTRIBUTES {
            cut.push(at);
            byte = b' ';
        }
        behind_slash = if byte == b'/' { behind } else { 0 };
        // A tag's name starts with a letter; the state after it is the tag name state.
        behind = if byte.is_ascii_alphabetic() { to_come.tag_name } else { 0 };
        to_come = to_come.prepend(byte);
    }
    if cut.is_empty() {
        return (Cow::Borrowed(html), false);
    }
    let mut bytes = html.as_bytes().to_vec();
    for at in cut {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = b' ';
        }
    }
    // An ASCII character is replaced by another, so the bytes are valid UTF-8.
    (Cow::Owned(String::from_utf8(bytes).unwrap_or_default()), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use html5ever::buffer_queue::BufferQueue;
    use html5ever::tendril::StrTendril;
    use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// The maximum number of attributes in one tag, as the parser counts them: each once.
    struct AttributeCounter(Cell<usize>);

    impl TokenSink for AttributeCounter {
        type Handle = ();

        fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
            if let Token::TagToken(tag) = token {
                self.0.set(self.0.get().max(tag.attrs.len()));
            }
            TokenSinkResult::Continue
        }
    }

    fn max_attributes(html: &str) -> usize {
        let tokenizer = Tokenizer::new(AttributeCounter(Cell::new(0)), TokenizerOpts::default());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from_slice(html));
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        tokenizer.sink.0.get()
    }

    #[test]
    fn a_tag_of_very_many_attributes_is_none_however_they_are_written() {
        let many = |one: &dyn Fn(usize) -> String| (0..1000).map(one).collect::<String>();
        for (begin, attributes) in [
            ("<p", many(&|n| format!(" a{n}"))),
            ("<p", many(&|n| format!("/a{n}"))),
            ("</p", many(&|n| format!("\na{n}='>'"))),
            ("<p x=\"\"", many(&|n| format!("a{n}=\"<p y='>\""))),
            ("<p x=''", many(&|n| format!("a{n}=' \" '"))),
            ("<p", many(&|n| format!(" =a{n}=b>").replace('>', ""))),
            ("<script></script", many(&|n| format!(" a{n}"))),
            ("<!-- <p x=' --><p", many(&|n| format!(" a{n}"))),
        ] {
            let html = format!("before{begin}{attributes}>after");
            assert!(max_attributes(&html) >= 1000, "{begin}");
            let (bounded, is_cut) = limit_attributes(&html);
            assert!(is_cut && max_attributes(&bounded) <= usize::from(MAX_ATTRIBUTES), "{begin}");
        }
    }

    #[test]
    fn pages_as_they_are_stay_as_they_are() {
        for html in [
            "<p a b c=d e='f' g=\"h\"/>".to_owned(),
            format!("<p {}>", "a ".repeat(usize::from(MAX_ATTRIBUTES))),
            format!("<script>if (a < b) {}</script><p title=x>", "word ".repeat(1000)),
            format!("<img src='data:{}' alt=x>", "ab/+ =".repeat(10_000)),
        ] {
            assert_eq!(limit_attributes(&html), (Cow::Borrowed(html.as_str()), false));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_tag_has_more_whatever_the_page(
            parts in proptest::collection::vec("<[a/!]?|>|[ =/\"'a-c]{1,4}|-->|<!--", 0..40), times in 1usize..40,
        ) {
            // Attributes are distinguished by name, so each gets a unique name.
            let mut html = String::new();
            for (number, character) in parts.concat().repeat(times).char_indices() {
                html.push(character);
                if character == 'b' {
                    html.push_str(&number.to_string());
                }
            }
            let (bounded, is_cut) = limit_attributes(&html);
            prop_assert!(max_attributes(&bounded) <= usize::from(MAX_ATTRIBUTES));
            prop_assert!(is_cut || max_attributes(&html) <= usize::from(MAX_ATTRIBUTES));
        }
    }
}
