//! Lines of a Rust source file by kind.

use std::ops::{Add, RangeInclusive};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;

/// The number of lines of each kind. A line with code and a comment counts as code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Code outside of tests.
    pub(crate) production: usize,
    /// Documentation: `///` and `//!`.
    pub(crate) documentation: usize,
    /// Other comments.
    pub(crate) comment: usize,
    /// Lines of items that are compiled for tests only, blank ones aside.
    pub(crate) test: usize,
    /// Blank lines.
    pub(crate) blank: usize,
}

impl Add for Lines {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            production: self.production + other.production,
            documentation: self.documentation + other.documentation,
            comment: self.comment + other.comment,
            test: self.test + other.test,
            blank: self.blank + other.blank,
        }
    }
}

/// Counts the lines of `text`. All code is test code if `is_test`, else what has `#[cfg(test)]`.
///
/// # Errors
///
/// It is not Rust.
pub(crate) fn count(text: &str, is_test: bool) -> syn::Result<Lines> {
    let source: Vec<&str> = text.lines().collect();
    let mut kinds = vec![Kind::Comment; source.len()];
    let tokens: TokenStream = text.parse().map_err(syn::Error::from)?;
    mark_tokens(tokens, &source, &mut kinds);
    for item in &syn::parse_file(text)?.items {
        if is_test_only(attributes(item)) {
            mark(&mut kinds, item.span(), Kind::Test);
        }
    }
    let mut lines = Lines::default();
    for (line, kind) in source.iter().zip(kinds) {
        let counter = match kind {
            _ if line.trim().is_empty() => &mut lines.blank,
            _ if is_test => &mut lines.test,
            Kind::Test => &mut lines.test,
            Kind::Code => &mut lines.production,
            Kind::Documentation => &mut lines.documentation,
            Kind::Comment => &mut lines.comment,
        };
        *counter += 1;
    }
    Ok(lines)
}

/// Returns whether one of the attributes is `#[cfg(test)]` or a `cfg` of `all` with `test` in it.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        attribute.meta.require_list().is_ok_and(|list| {
            let text = list.tokens.to_string();
            text == "test" || (text.starts_with("all") && text.contains("test"))
        })
    })
}

/// Returns the attributes of an item.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Documentation,
    Comment,
    Test,
}

fn mark_tokens(tokens: TokenStream, source: &[&str], kinds: &mut [Kind]) {
    for token in tokens {
        let start = token.span().start();
        let begins = source.get(start.line.saturating_sub(1)).map(|line| line.chars().skip(start.column));
        // The parser makes attributes of documentation; all of their tokens have the span of the comment.
        let is_documentation =
            begins.is_some_and(|mut rest| rest.next() == Some('/') && matches!(rest.next(), Some('/' | '*')));
        match token {
            _ if is_documentation => mark(kinds, token.span(), Kind::Documentation),
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::None {
                    mark(kinds, group.span_open(), Kind::Code);
                    mark(kinds, group.span_close(), Kind::Code);
                }
                mark_tokens(group.stream(), source, kinds);
            }
            other => mark(kinds, other.span(), Kind::Code),
        }
    }
}

fn mark(kinds: &mut [Kind], span: proc_macro2::Span, kind: Kind) {
    let lines: RangeInclusive<usize> = span.start().line..=span.end().line;
    for line in lines {
        if let Some(marked) = kinds.get_mut(line.saturating_sub(1))
            && (*marked != Kind::Code || kind == Kind::Test)
        {
            *marked = kind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, count};

    const TEXT: &str = "//! Module.\n\n// Why.\nfn f() -> u8 {\n    /* inside */\n    1 / 2 // code\n}\n\n#[cfg(test)]\nmod tests {\n    /// Doc.\n\n    fn g() {}\n}\n";

    #[test]
    fn each_line_has_one_kind() {
        let lines = count(TEXT, false).unwrap();
        assert_eq!(lines, Lines { production: 3, documentation: 1, comment: 2, test: 5, blank: 3 });
    }

    #[test]
    fn a_file_of_tests_has_no_production_lines() {
        assert_eq!(count(TEXT, true).unwrap(), Lines { test: 11, blank: 3, ..Lines::default() });
    }
}
