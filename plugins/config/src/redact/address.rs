//! Passwords in addresses: in URLs, and in the address formats of databases.
//!
//! | address | |
//! |---|---|
//! | `scheme://user:password@host/`, `//user:password@host/` | the password may contain an unencoded `/`, `?` or `#` |
//! | `https://TOKEN@host/` | a user with a digit, or a long user |
//! | `user:password@tcp(host:3306)/name` | Go's MySQL driver |
//! | `jdbc:oracle:thin:user/password@host` | Oracle's JDBC driver |

use super::PLACEHOLDER;

/// The maximum length of user and password, in bytes. It bounds the search for their ends.
const MAX_USER_INFO: usize = 512;
/// The minimum length of a user without a digit that counts as a token.
const MIN_TOKEN: usize = 16;

/// Finds the password in a URL.
pub(super) fn in_url(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let at = from.saturating_add(text.get(from..)?.find("//")?);
        let start = at.saturating_add(2);
        from = start;
        let rest = text.get(start..)?;
        let url = upto(rest, |c| matches!(c, '"' | '\'') || c.is_whitespace());
        let authority = upto(url, |c| matches!(c, '/' | '?' | '#'));
        let is_web = text.get(..at).is_some_and(|scheme| scheme.ends_with("http:") || scheme.ends_with("https:"));
        let (user_start, len) = match authority.rsplit_once('@') {
            Some((user_info, _)) => match user_info.split_once(':') {
                Some((user, password)) => (user.len().saturating_add(1), password.len()),
                None if is_web && is_token(user_info) => (0, user_info.len()),
                None => continue,
            },
            // The apparent port is the beginning of an unencoded password.
            None => match (authority.split_once(':'), url.rfind('@')) {
                (Some((user, port)), Some(end)) if !authority.starts_with('[') && !is_port(port) => {
                    let start = user.len().saturating_add(1);
                    (start, end.saturating_sub(start))
                }
                _ => continue,
            },
        };
        let start = start.saturating_add(user_start);
        if len > 0 && !text.get(start..)?.starts_with(PLACEHOLDER) {
            return Some((start, start.saturating_add(len)));
        }
    }
}

/// Finds the password in a database address in the format of Go's MySQL driver.
pub(super) fn in_go_dsn(text: &str, from: usize) -> Option<(usize, usize)> {
    let done = from;
    let mut from = from;
    loop {
        let at = from.saturating_add(text.get(from..)?.find('@')?);
        from = at.saturating_add(1);
        if !["tcp(", "unix("].iter().any(|network| text.get(from..).is_some_and(|rest| rest.starts_with(network))) {
            continue;
        }
        let before = text.get(text.floor_char_boundary(done.max(at.saturating_sub(MAX_USER_INFO)))..at)?;
        let user_info =
            before.rsplit(|c: char| matches!(c, '"' | '\'') || c.is_whitespace()).next().unwrap_or_default();
        if let Some((_, password)) = user_info.split_once(':')
            && !password.is_empty()
            && !password.starts_with(PLACEHOLDER)
        {
            return Some((at.saturating_sub(password.len()), at));
        }
    }
}

/// Finds the password in a database address in the format of Oracle's JDBC driver.
pub(super) fn in_oracle(text: &str, from: usize) -> Option<(usize, usize)> {
    const SCHEME: &str = "jdbc:oracle:";
    let mut from = from;
    loop {
        let start = from.saturating_add(text.get(from..)?.find(SCHEME)?).saturating_add(SCHEME.len());
        from = start;
        let address = upto(text.get(start..)?, |c| matches!(c, '"' | '\'') || c.is_whitespace());
        if let Some((user_info, _)) = address.rsplit_once('@')
            && let Some((user, password)) = user_info.split_once('/')
            && !password.is_empty()
        {
            let start = start.saturating_add(user.len()).saturating_add(1);
            return Some((start, start.saturating_add(password.len())));
        }
    }
}

/// Returns the text before the first character that fulfils a condition, at most [`MAX_USER_INFO`] bytes.
fn upto(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    let text = text.get(..text.floor_char_boundary(MAX_USER_INFO)).unwrap_or_default();
    text.split(is_end).next().unwrap_or_default()
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a user without a password looks like a token.
fn is_token(user: &str) -> bool {
    user.len() >= MIN_TOKEN || user.contains(|c: char| c.is_ascii_digit())
}
