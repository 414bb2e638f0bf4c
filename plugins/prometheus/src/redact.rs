//! Redaction of addresses in the server's texts: URLs of scrapes and of remote storage may contain secrets.
//!
//! Two rules, by the value of the text. The reason why a *scrape* failed is reduced to a cause from a list, because
//! every part of that text may be configured: Prometheus quotes the URL with its query, and the address to which it
//! resolves ([`scrape_error`]). Other errors describe the mistakes in a query, so they are kept, except for words that
//! look like addresses ([`without_addresses`]).

use serde::{Deserialize, Deserializer};

/// Texts in the error of a scrape, and the cause shown for each. The first match counts.
const CAUSES: [(&str, &str); 16] = [
    ("context deadline exceeded", "the scrape timed out"),
    ("timeout", "the scrape timed out"),
    ("connection refused", "connection refused"),
    ("connection reset", "connection reset"),
    ("no such host", "the host name cannot be resolved"),
    ("server misbehaving", "the host name cannot be resolved"),
    ("no route to host", "no route to the host"),
    ("network is unreachable", "the network is unreachable"),
    ("x509:", "the TLS certificate is not valid"),
    ("tls:", "the TLS handshake failed"),
    ("server gave HTTP response to HTTPS client", "the target does not speak TLS"),
    ("body size limit exceeded", "the body is larger than the limit"),
    ("sample limit exceeded", "there are more samples than the limit"),
    ("label", "a label exceeds a limit or is not valid"),
    ("expected", "the body cannot be parsed"),
    ("EOF", "the connection ended early"),
];

/// The prefix of the error for a status. Three digits follow.
const STATUS: &str = "server returned HTTP status ";

/// Deserializes the reason why a scrape failed, as a cause.
pub(crate) fn scrape_error<'d, D: Deserializer<'d>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| scrape_cause(&text))
}

/// Deserializes the text of an error, without addresses.
pub(crate) fn error<'d, D: Deserializer<'d>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| without_addresses(&text))
}

/// Returns the cause of a failed scrape. It contains nothing of the text except a status.
fn scrape_cause(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let status = text.split_once(STATUS).and_then(|(_, rest)| rest.get(..3));
    if let Some(status) = status.filter(|status| status.bytes().all(|byte| byte.is_ascii_digit())) {
        return format!("HTTP status {status}");
    }
    let cause = CAUSES.iter().find(|(part, _)| text.contains(part));
    cause.map_or("the scrape failed", |(_, cause)| cause).to_owned()
}

/// Returns a text with `<address>` in place of each word that contains a URL, `user@host`, or an IP address with a
/// port.
pub(crate) fn without_addresses(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ',' | ';');
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        kept.push_str(if is_address(word) { "<address>" } else { word });
        let mut characters = behind.chars();
        kept.extend(characters.next());
        rest = characters.as_str();
    }
    kept
}

fn is_address(word: &str) -> bool {
    let ip =
        word.trim_matches(|c: char| matches!(c, '(' | ')' | '=' | ':' | '.')).rsplit("->").next().unwrap_or_default();
    word.contains("://")
        || word.contains('@') && !word.starts_with('@')
        || ip.parse::<std::net::SocketAddr>().is_ok()
        || ip.parse::<std::net::IpAddr>().is_ok()
}

/// Returns a text without its quotations, because the message of a parser quotes the answer.
pub(crate) fn without_quotes(text: &str) -> String {
    let mut parts = text.split('"');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        kept.push_str(if number.is_multiple_of(2) { "…" } else { part });
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    #[test]
    fn the_error_of_a_scrape_is_a_cause_and_nothing_that_it_quotes() {
        let url = format!("http://user:{SECRET}@10.0.0.7:9100/metrics?token={SECRET}");
        for (text, cause) in [
            (format!("Get \"{url}\": dial tcp 10.0.0.7:9100: connect: connection refused"), "connection refused"),
            (format!("Get \"{url}\": context deadline exceeded"), "the scrape timed out"),
            (format!("server returned HTTP status 403 {SECRET}"), "HTTP status 403"),
            (format!("Get \"{url}\": tls: {SECRET}"), "the TLS handshake failed"),
            (format!("{SECRET} is something new"), "the scrape failed"),
            (String::new(), ""),
        ] {
            assert_eq!(scrape_cause(&text), cause);
        }
    }

    #[test]
    fn other_errors_are_kept_without_addresses() {
        let text = format!(
            "remote_read: Post \"https://u:{SECRET}@store/api?key={SECRET}\": dial tcp 10.0.0.7:9100: i/o timeout, [::1]:80"
        );
        let kept = without_addresses(&text);
        assert_eq!(kept, "remote_read: Post \"<address>\": dial tcp <address> i/o timeout, <address>");
        let promql = "1:5: parse error: unexpected \"@\" in up{job=\"a:b\"} @ 5 [5m:1m]";
        assert_eq!(without_addresses(promql), promql);
    }

    #[test]
    fn what_a_parser_quotes_is_left_out() {
        let text = format!("invalid type: string \"{SECRET}\", expected a list at line 1");
        assert_eq!(without_quotes(&text), "invalid type: string …, expected a list at line 1");
    }
}
