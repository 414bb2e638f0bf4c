//! Which texts are origins or patterns of origins, and what patterns match.

use super::*;

fn pattern(text: &str) -> OriginPattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn matches(pattern: &str, origin: &str) -> bool {
    self::pattern(pattern).matches(&origin.parse().unwrap_or_else(|error| panic!("{origin}: {error}")))
}

#[test]
fn an_origin_has_one_form() {
    for (text, form) in [
        ("https://docs.rs", "https://docs.rs"),
        ("HTTPS://Docs.RS:443", "https://docs.rs"),
        ("http://docs.rs:80", "http://docs.rs"),
        ("http://docs.rs:443", "http://docs.rs:443"),
        ("https://docs.rs.", "https://docs.rs"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://例え.テスト:8443", "https://xn--r8jz45g.xn--zckzah:8443"),
        ("https://*.Example.com:8443", "https://*.example.com:8443"),
        ("https://_x.a-b.example", "https://_x.a-b.example"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[0:0::1]:8080", "http://[::1]:8080"),
        ("http://[::ffff:127.0.0.1]", "http://127.0.0.1"),
    ] {
        assert_eq!(pattern(text).to_string(), form, "{text}");
    }
}

#[test]
fn a_host_matches_itself_with_its_scheme_and_port() {
    assert!(matches("https://docs.rs", "https://DOCS.rs:443"));
    for other in
        ["http://docs.rs", "http://docs.rs:443", "https://docs.rs:8443", "https://a.docs.rs", "https://docs.rss"]
    {
        assert!(!matches("https://docs.rs", other), "{other}");
    }
}

#[test]
fn a_wildcard_matches_what_is_below_and_never_the_domain_itself() {
    for below in ["https://a.example.com", "https://a.b.example.com", "https://A.EXAMPLE.COM."] {
        assert!(matches("https://*.example.com", below), "{below}");
    }
    for other in [
        "https://example.com",
        "https://badexample.com",
        "https://example.com.evil.org",
        "https://a.example.com:8443",
        "http://a.example.com",
        "https://10.0.0.1",
    ] {
        assert!(!matches("https://*.example.com", other), "{other}");
    }
}

#[test]
fn an_address_matches_only_itself() {
    assert!(matches("http://127.0.0.1", "http://[::ffff:7f00:1]"));
    for other in ["http://localhost", "http://127.0.0.2", "http://[::1]"] {
        assert!(!matches("http://127.0.0.1", other), "{other}");
    }
}

#[test]
fn what_a_resolver_would_take_for_an_address_is_no_name() {
    for text in
        ["2130706433", "127.1", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "1.2.3.4.5", "256.1.1.1", "0x7f000001", "a.1"]
    {
        assert_eq!(format!("http://{text}").parse::<Origin>(), Err(OriginError::Address(text.into())), "{text}");
    }
}

#[test]
fn everything_else_is_refused() {
    type Case = fn(&OriginError) -> bool;
    let cases: [(&[&str], Case); 9] = [
        (&["", "docs.rs", "docs.rs:443", "https:docs.rs", "*"], |error| matches!(error, OriginError::NoScheme(_))),
        (&["ftp://docs.rs", "wss://docs.rs", "://docs.rs"], |error| matches!(error, OriginError::Scheme(_))),
        (&["https://me:secret@docs.rs", "https://docs.rs@evil.org/"], |error| matches!(error, OriginError::UserInfo)),
        (
            &["https://docs.rs/", "https://docs.rs/a", "https://docs.rs?a", "https://docs.rs#a", "https://docs.rs\\a"],
            |error| matches!(error, OriginError::UnexpectedPart { .. }),
        ),
        (
            &[
                "https://docs.rs:",
                "https://docs.rs:0",
                "https://docs.rs:65536",
                "https://docs.rs:+1",
                "https://docs.rs:x",
            ],
            |error| matches!(error, OriginError::Port(_)),
        ),
        (&["https://", "https://:443", "https://*."], |error| matches!(error, OriginError::NoHost)),
        (
            &[
                "https://*",
                "https://*.com",
                "https://*example.com",
                "https://a.*.com",
                "https://*.*.com",
                "https://*.10.0.0.1",
            ],
            |error| matches!(error, OriginError::Wildcard(_) | OriginError::Address(_)),
        ),
        (
            &[
                "https://docs .rs",
                "https://docs..rs",
                "https://-docs.rs",
                "https://docs.rs..",
                "https://do%63s.rs",
                "https://.rs",
            ],
            |error| matches!(error, OriginError::Name(_)),
        ),
        (
            &[
                "https://::1",
                "https://[::1",
                "https://[::1]x",
                "https://[::1%25eth0]",
                "https://[docs.rs]",
                "https://[]",
            ],
            |error| matches!(error, OriginError::Address(_)),
        ),
    ];
    for (texts, is_right) in cases {
        for text in texts {
            let error = text.parse::<OriginPattern>().unwrap_err();
            assert!(is_right(&error), "{text}: {error:?}");
        }
    }
}
