//! Changes: a digest of what each watched path shows.
//!
//! The digest of rows is that of the very rows, read again: exact, whatever has changed them, and bounded as every read
//! is. A saved query may have a cheaper one, its `version`. The token has the digests of the watched paths and of the
//! listing, by digests of the paths.

use mcp_provider::{Changes, Failure, Result};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The key of the listing in a token.
const LISTING: &str = "";

/// Digests by path, each as hexadecimal digits.
#[derive(Debug, Default, PartialEq, Eq)]
struct Token(BTreeMap<String, String>);

impl Token {
    fn parse(text: &str) -> Option<Self> {
        let pairs = text.split(',').map(|pair| {
            let (path, digest) = pair.split_once(':')?;
            Some((path.to_owned(), digest.to_owned()))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    fn render(&self) -> String {
        self.0.iter().map(|(path, digest)| format!("{path}:{digest}")).collect::<Vec<_>>().join(",")
    }
}

/// Returns which of the watched paths changed. `show` reads what a path, or the listing, shows.
pub(crate) fn changes(
    watched: &[String],
    since: Option<&str>,
    show: impl Fn(Option<&str>) -> Result<String>,
) -> Result<Changes> {
    let before = since.and_then(Token::parse).unwrap_or_default();
    let mut now = Token::default();
    now.0.insert(digest(LISTING), digest(&show(None)?));
    let mut changed = Vec::new();
    for path in watched {
        let key = digest(path);
        // What is gone shows nothing, which is a change once.
        let shown = match show(Some(path)) {
            Ok(text) => digest(&text),
            Err(Failure::Unavailable(retry)) => return Err(Failure::Unavailable(retry)),
            Err(_) => "0".to_owned(),
        };
        if before.0.get(&key).is_some_and(|digest| *digest != shown) {
            changed.push(path.clone());
        }
        now.0.insert(key, shown);
    }
    let listing = digest(LISTING);
    let is_listing_changed = before.0.get(&listing).is_some_and(|digest| now.0.get(&listing) != Some(digest));
    let changes = changed.into_iter().fold(Changes::none(now.render()), Changes::changed);
    Ok(if is_listing_changed { changes.listing_changed() } else { changes })
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
        let show = |a: &str, listing: &str| {
            let (a, listing) = (a.to_owned(), listing.to_owned());
            move |path: Option<&str>| match path {
                None => Ok(listing.clone()),
                Some("a") => Ok(a.clone()),
                Some(_) => Err(Failure::NotFound),
            }
        };
        let first = changes(&watched, None, show("1", "x")).unwrap();
        assert!(first.changed.is_empty() && !first.listing_changed);
        let second = changes(&watched, Some(&first.token), show("2", "x")).unwrap();
        assert_eq!((second.changed.as_slice(), second.listing_changed), (&["a".to_owned()][..], false));
        let third = changes(&watched, Some(&second.token), show("2", "y")).unwrap();
        assert!(third.changed.is_empty() && third.listing_changed);
    }

    #[test]
    fn a_database_that_cannot_be_reached_is_no_change() {
        let show = |_: Option<&str>| Err(Failure::unavailable("down"));
        assert!(matches!(changes(&["a".to_owned()], None, show), Err(Failure::Unavailable(_))));
    }

    #[test]
    fn a_token_of_another_version_begins_anew() {
        let answer = changes(&["a".to_owned()], Some("x"), |_| Ok(String::new())).unwrap();
        assert!(answer.changed.is_empty() && !answer.listing_changed);
    }
}
