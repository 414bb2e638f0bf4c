//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | the empty path | the directory |
//! | `docs/a.md`, `docs` | a file, a directory: its names below the directory, percent-encoded |
//! | `…?lines=a-b` | lines of a file, from 1, both included; `a-` to the end, `-n` the last `n` |
//! | `…?bytes=a-b` | bytes of a file, from 0, both included, with the same short forms |
//! | `…?as=text` | a document as text; with `&lines=a-b`, lines of the text |

use mcp_provider::{Failure, Result, path};

/// The template of files.
pub(crate) const FILE: &str = "{+path}";
/// The template of parts and forms of files.
pub(crate) const PART: &str = "{+path}{?lines,bytes,as}";

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The names below the directory, separated by `/`.
    pub(crate) names: String,
    /// The requested part or form.
    pub(crate) view: View,
    /// The query as requested.
    query: Option<String>,
}

/// A part or form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct View {
    /// Whether the file is converted to text.
    pub(crate) as_text: bool,
    /// The part of the file or of its text.
    pub(crate) part: Option<Part>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Lines, from 1.
    Lines(Span),
    /// Bytes, from 0.
    Bytes(Span),
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// From the first to the last, both included, or to the end.
    From(u64, Option<u64>),
    /// The last ones, of this number.
    Last(u64),
}

impl Route {
    /// Parses a path, whether or not the resource exists.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let (path, query) = path::split_query(path);
        let view = query.filter(|query| !query.is_empty()).map(View::parse).transpose()?.unwrap_or_default();
        Ok(Self { names: path::decode(path)?, view, query: query.map(str::to_owned) })
    }

    /// Returns the path of an item in the requested form.
    pub(crate) fn path_of(&self, names: &str) -> String {
        let path = path::encode(names);
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        }
    }
}

impl View {
    fn parse(query: &str) -> Result<Self> {
        let mut view = Self::default();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = path::decode_segment(value)?;
            let part = match key {
                "lines" => Part::Lines(Span::parse(&value, 1)?),
                "bytes" => Part::Bytes(Span::parse(&value, 0)?),
                "as" if value == "text" && !view.as_text => {
                    view.as_text = true;
                    continue;
                }
                _ => return Err(Failure::invalid("expected `lines=a-b`, `bytes=a-b` or `as=text` in the query")),
            };
            if view.part.replace(part).is_some() {
                return Err(Failure::invalid("expected one range, found several"));
            }
        }
        if view.as_text && matches!(view.part, Some(Part::Bytes(_))) {
            return Err(Failure::invalid(
                "expected `lines` with `as=text`: bytes are those of the file as it is stored",
            ));
        }
        Ok(view)
    }
}

impl Span {
    /// Parses an interval whose first number is at least `least`.
    fn parse(text: &str, least: u64) -> Result<Self> {
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
        };
        let span = match text.split_once('-') {
            Some(("", last)) => number(last).map(Self::Last),
            Some((first, "")) => number(first).map(|first| Self::From(first, None)),
            Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| Self::From(first, Some(last))),
            None => number(text).map(|only| Self::From(only, Some(only))),
        };
        let is_valid = |span: &Self| match span {
            Self::From(first, last) => *first >= least && last.is_none_or(|last| last >= *first),
            Self::Last(count) => *count > 0,
        };
        span.filter(is_valid).ok_or_else(|| {
            Failure::invalid(format!("expected a range such as `{least}-100`, `{least}-` or `-100`, found {text:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(query: &str) -> Result<View> {
        Route::parse(&format!("a%20b/c.txt?{query}")).map(|route| route.view)
    }

    fn part(part: Part) -> Result<View> {
        Ok(View { as_text: false, part: Some(part) })
    }

    #[test]
    fn a_file_has_its_own_path() {
        let route = Route::parse("a%20b/c.txt").unwrap();
        assert_eq!((route.names.as_str(), route.view), ("a b/c.txt", View::default()));
        assert_eq!(route.path_of("a b/c.txt"), "a%20b/c.txt");
        assert_eq!(Route::parse("x?lines=1-2").unwrap().path_of("x"), "x?lines=1-2");
    }

    #[test]
    fn ranges_have_the_forms_of_http() {
        assert_eq!(view("lines=1-9"), part(Part::Lines(Span::From(1, Some(9)))));
        assert_eq!(view("lines=5-"), part(Part::Lines(Span::From(5, None))));
        assert_eq!(view("lines=-20"), part(Part::Lines(Span::Last(20))));
        assert_eq!(view("lines=7"), part(Part::Lines(Span::From(7, Some(7)))));
        assert_eq!(view("bytes=0-0"), part(Part::Bytes(Span::From(0, Some(0)))));
        let huge = "9".repeat(40);
        assert_eq!(view(&format!("bytes=0-{huge}")), part(Part::Bytes(Span::From(0, Some(u64::MAX)))));
        let text = View { as_text: true, part: Some(Part::Lines(Span::From(1, None))) };
        assert_eq!(view("as=text&lines=1-"), Ok(text));
    }

    #[test]
    fn what_is_no_range_is_an_invalid_request() {
        for query in [
            "lines=0-5",
            "lines=5-4",
            "lines=",
            "lines=-",
            "lines=-0",
            "lines=a-b",
            "lines=1-2-3",
            "lines=+1-2",
            "bytes=-",
            "lines=1-2&bytes=0-1",
            "lines=1-2&lines=1-2",
            "as=html",
            "as=text&as=text",
            "as=text&bytes=0-1",
            "x=1",
            "lines",
            "lines=%zz",
        ] {
            assert!(matches!(view(query), Err(Failure::InvalidRequest(_))), "{query}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(path in ".{0,40}") {
            let _ = Route::parse(&path);
        }
    }
}
