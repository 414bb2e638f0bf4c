//! Change detection by a digest of the content of each watched path.
//!
//! The digest of rows is computed from the rows, which are read again: it is exact for every kind of change, and
//! bounded like every read. A saved query may have a cheaper digest, its `version`. The listing consists of schemas and
//! of the config's saved queries, so it does not change. The token maps the digest of each watched path to the digest
//! of its content.

use mcp_provider::{Changes, Failure, Result};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The beginning of every token.
const VERSION: &str = "1|";
/// The digest of unreadable content, such as a deleted table.
const NOTHING: &str = "-";

/// Digests of content by digests of paths, in hexadecimal.
#[derive(Debug, Default, PartialEq, Eq)]
struct Token(BTreeMap<String, String>);

impl Token {
    /// Parses a token; `None` if this provider did not issue it.
    fn parse(text: &str) -> Option<Self> {
        let pairs = text.strip_prefix(VERSION)?.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (path, digest) = pair.split_once(':')?;
            Some((path.to_owned(), digest.to_owned()))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    fn render(&self) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(path, digest)| format!("{path}:{digest}")).collect();
        format!("{VERSION}{}", pairs.join(","))
    }
}

/// Returns which of the watched paths changed. `show` reads the content of a path.
pub(crate) fn changes(
    watched: &[String],
    since: Option<&str>,
    show: impl Fn(&str) -> Result<String>,
) -> Result<Changes> {
    let before = since.map(Token::parse);
    let is_foreign = before == Some(None);
    let before = before.flatten().unwrap_or_default();
    let (mut now, mut changed) = (Token::default(), Vec::new());
    for path in watched {
        let key = digest(path);
        let shown = match show(path) {
            Ok(text) => digest(&text),
            Err(Failure::Unavailable(retry)) => return Err(Failure::Unavailable(retry)),
            Err(_) => NOTHING.to_owned(),
        };
        if before.0.get(&key).is_some_and(|digest| *digest != shown) {
            changed.push(path.clone());
        }
        now.0.insert(key, shown);
    }
    if is_foreign {
        return Ok(Changes::all(now.render(), watched));
    }
    Ok(changed.into_iter().fold(Changes::none(now.render()), Changes::changed))
}

fn digest(text: &str) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    format!("{:x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_something_else_has_changed_once() {
        let watched = ["a".to_owned(), "b".to_owned()];
        let show =
            |a: &'static str| move |path: &str| if path == "a" { Ok(a.to_owned()) } else { Err(Failure::NotFound) };
        let first = changes(&watched, None, show("1")).unwrap();
        assert!(first.changed.is_empty() && !first.listing_changed);
        let second = changes(&watched, Some(&first.token), show("2")).unwrap();
        assert_eq!(second.changed, ["a"]);
        let third = changes(&watched, Some(&second.token), show("2")).unwrap();
        assert!(third.changed.is_empty() && !third.listing_changed);
        let gone = changes(&watched, Some(&third.token), |_| Err(Failure::NotFound)).unwrap();
        assert_eq!(gone.changed, ["a"]);
    }

    #[test]
    fn what_is_watched_from_now_on_has_not_changed() {
        let first = changes(&[], None, |_| Ok(String::new())).unwrap();
        let second = changes(&["a".to_owned()], Some(&first.token), |_| Ok(String::new())).unwrap();
        assert!(second.changed.is_empty());
    }

    #[test]
    fn a_database_that_cannot_be_reached_is_no_change() {
        let show = |_: &str| Err(Failure::unavailable("down"));
        assert!(matches!(changes(&["a".to_owned()], None, show), Err(Failure::Unavailable(_))));
    }

    #[test]
    fn after_a_foreign_token_everything_has_changed() {
        for token in ["", "x", "x:y", "1|x"] {
            let answer = changes(&["a".to_owned()], Some(token), |_| Ok(String::new())).unwrap();
            assert!(answer.changed == ["a"] && answer.listing_changed, "{token}");
        }
    }
}
