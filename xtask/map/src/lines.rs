//! Lines of a Rust source file by kind.

use std::ops::{Add, RangeInclusive};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// The number of lines of each kind. A line with code and a comment counts as code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Code outside of tests.
    pub(crate) production: usize,
    /// Documentation: `///` and `//!`.
    pub(crate) documentation: usize,
    /// Comments that are not documentation.
    pub(crate) comment: usize,
    /// Lines of items that are compiled for tests only, without blank lines.
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

/// Counts the lines of `text`. If `is_test` is set, all code counts as test code; otherwise only the items that are
/// compiled for tests only.
///
/// # Errors
///
/// When `text` is not Rust.
pub(crate) fn count(text: &str, is_test: bool) -> syn::Result<Lines> {
    let source: Vec<&str> = text.lines().collect();
    let mut kinds = vec![Kind::Comment; source.len()];
    mark_tokens(text.parse::<TokenStream>().map_err(syn::Error::from)?, &source, &mut kinds);
    TestItems { kinds: &mut kinds }.visit_file(&syn::parse_file(text)?);
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

/// Marks the items that are compiled for tests only, including items in an `impl`.
struct TestItems<'k> {
    kinds: &'k mut [Kind],
}

impl<'ast> Visit<'ast> for TestItems<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_only(attributes(item)) {
            mark(self.kinds, item.span(), Kind::Test);
        } else {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test_only(&item.attrs) {
            mark(self.kinds, item.span(), Kind::Test);
        }
    }
}

/// Counts the `cfg` and `cfg_attr` attributes and the `cfg!` macros that name a feature.
pub(crate) fn feature_cfgs(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut is_cfg = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if is_cfg && names_feature(group.stream()) => count += 1,
            TokenTree::Group(group) => count += feature_cfgs(group.stream()),
            TokenTree::Ident(ident) => is_cfg = ident == "cfg" || ident == "cfg_attr",
            // The `!` of `cfg!`.
            TokenTree::Punct(punct) if is_cfg && punct.as_char() == '!' => {}
            _ => is_cfg = false,
        }
    }
    count
}

/// Returns whether the predicate of a `cfg` contains `feature = "…"`.
fn names_feature(predicate: TokenStream) -> bool {
    predicate.into_iter().any(|token| match token {
        TokenTree::Group(group) => names_feature(group.stream()),
        TokenTree::Ident(ident) => ident == "feature",
        _ => false,
    })
}

/// Returns whether one of the attributes is a `cfg` that is true in tests only.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    cfgs.filter_map(|attribute| attribute.parse_args().ok()).any(|predicate| implies_test(&predicate))
}

fn implies_test(predicate: &syn::Meta) -> bool {
    let members = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated).unwrap_or_default()
    };
    match predicate {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => members(list).iter().any(implies_test),
        syn::Meta::List(list) if list.path.is_ident("any") => members(list).iter().all(implies_test),
        _ => false,
    }
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
        // The parser turns documentation into attributes, all of whose tokens have the span of the comment.
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
    use super::{Lines, count, feature_cfgs};

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

    #[test]
    fn what_is_compiled_without_tests_as_well_is_production() {
        let lines = |cfg: &str| count(&format!("impl A {{\n    #[cfg({cfg})]\n    fn f() {{}}\n}}\n"), false).unwrap();
        for (cfg, test) in [
            ("test", 2),
            ("all(unix, test)", 2),
            ("any(test, test)", 2),
            ("any(test, unix)", 0),
            ("all(unix, not(test))", 0),
        ] {
            assert_eq!((lines(cfg).test, lines(cfg).production), (test, 4 - test), "{cfg}");
        }
    }

    #[test]
    fn a_cfg_of_a_feature_counts_once_on_however_many_lines() {
        let text = "#[cfg(any(\n    feature = \"a\",\n    feature = \"b\",\n))]\nfn f() {\n    \
                    if cfg!(feature = \"a\") {}\n    #[cfg(unix)]\n    feature();\n}\n\
                    #[cfg_attr(not(feature = \"a\"), allow(dead_code))]\nmod m {\n    #![cfg(feature = \"a\")]\n}\n";
        assert_eq!(feature_cfgs(text.parse().unwrap()), 4);
    }
}
