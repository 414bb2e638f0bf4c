use super::*;

/// Composes a path with a mount. Returns the URI, or the error.
fn compose(mount_text: &str, path: &str) -> Result<String, PathError> {
    let mount = mount(mount_text);
    let located = mount.compose(path)?;
    assert_eq!(located.uri.as_str(), [mount.as_str(), located.path.as_str()].concat());
    Ok(located.uri.into())
}

#[test]
fn a_path_is_composed_into_a_uri_in_normal_form() {
    for (mount, path, uri) in [
        ("git://linux/", "", "git://linux/"),
        ("git://linux/", "README.md", "git://linux/README.md"),
        ("git://linux/", "a/./b/../%63", "git://linux/a/c"),
        ("git://linux/", "a/..", "git://linux/"),
        ("git://linux/", ".", "git://linux/"),
        ("git://linux/", "./a", "git://linux/a"),
        ("git://linux/", "a/.", "git://linux/a/"),
        ("git://linux/", "a/b/..", "git://linux/a/"),
        ("git://linux/", "a/%2E%2e/b", "git://linux/b"),
        ("git://linux/", "a//b", "git://linux/a//b"),
        ("git://linux/", "a//../b", "git://linux/a/b"),
        ("git://linux/", "a///..", "git://linux/a//"),
        ("git://linux/", "a/", "git://linux/a/"),
        ("git://linux/", "...", "git://linux/..."),
        ("git://linux/", "?limit=3", "git://linux/?limit=3"),
        ("git://linux/", "log?path=/../a/./b&x=%2f%41", "git://linux/log?path=/../a/./b&x=%2FA"),
        ("git://linux/", "a?", "git://linux/a"),
        ("git://linux/", "?", "git://linux/"),
        ("git://linux/", "%61?", "git://linux/a"),
        ("web://", "H?", "web://h"),
        ("git://linux/", "a??", "git://linux/a??"),
        ("git://linux/", "a%2fb%5c%25", "git://linux/a%2Fb%5C%25"),
        ("git://linux/", "%252e%252e/x", "git://linux/%252e%252e/x"),
        ("git://linux/", "..%2f..%2fx", "git://linux/..%2F..%2Fx"),
        ("git://linux/", "%e6%97%a5%E6%9C%AC.md", "git://linux/%E6%97%A5%E6%9C%AC.md"),
        ("git://linux/", "%ff%C3", "git://linux/%FF%C3"),
        ("git://linux/", "git://linux/a", "git://linux/git://linux/a"),
        ("git://linux/", "http://h/x", "git://linux/http://h/x"),
        ("git://linux/", "me@h:80/X", "git://linux/me@h:80/X"),
        ("git://linux/", ":a/b", "git://linux/:a/b"),
        ("git://linux/", "~!$&'()*+,;=:@-._", "git://linux/~!$&'()*+,;=:@-._"),
        ("git://linux/", "%21%24%26%27%28%29%2A%2b%2C%3b%3D%3A%40", "git://linux/!$&'()*+,;=:@"),
        (
            "git://linux/",
            "%2F%3F%23%5B%5D%25%20%22%3C%5E%60%7B%7C",
            "git://linux/%2F%3F%23%5B%5D%25%20%22%3C%5E%60%7B%7C",
        ),
        ("git://linux/", "?q=%21%24%27%28%29%2A%3A%40", "git://linux/?q=!$'()*:@"),
        ("git://linux/", "?q=%26%2B%2C%3B%3D%2F%3F", "git://linux/?q=%26%2B%2C%3B%3D%2F%3F"),
        ("files://h/a/", "b/../c", "files://h/a/c"),
        ("notes:///", "Ideas/A.md", "notes:///Ideas/A.md"),
        ("notes:///", "a/../b", "notes:///b"),
    ] {
        assert_eq!(compose(mount, path).as_deref(), Ok(uri), "{path} at {mount}");
    }
}

#[test]
fn below_a_mount_without_a_host_the_first_segment_is_the_host() {
    for (path, uri) in [
        ("", "web://"),
        ("Docs.RS", "web://docs.rs"),
        ("Docs.RS/A", "web://docs.rs/A"),
        ("h:80/x", "web://h:80/x"),
        ("h:/x", "web://h/x"),
        ("http://h/x", "web://http//h/x"),
        ("h/a/../b", "web://h/b"),
        ("h/a/..", "web://h/"),
        ("h/.", "web://h/"),
        ("h?Q=/../x", "web://h?Q=/../x"),
        ("?Q", "web://?Q"),
        (":", "web://"),
        ("h//x", "web://h//x"),
        ("h/me@x", "web://h/me@x"),
        ("h/me%40x", "web://h/me@x"),
        ("a%2Cb%40c/x", "web://a%2Cb%40c/x"),
        ("[::1]:80/x", "web://[::1]:80/x"),
        ("%45%c3%A9T%C3%89/x", "web://e%C3%A9t%C3%89/x"),
        ("...", "web://..."),
    ] {
        assert_eq!(compose("web://", path).as_deref(), Ok(uri), "{path}");
    }
}

#[test]
fn a_path_with_dots_never_leaves_its_mount() {
    for (mount, paths) in [
        (
            "git://linux/",
            &["..", "../", "../x", "%2e%2E/x", ".%2e", "./../x", "a/../../x", "a/../..", "a/b/../../../linux/x"][..],
        ),
        ("files://h/a/", &["..", "../b/c", "../a/c", "x/../../a/x", "%2E./b"][..]),
        ("notes:///", &["..", "../x", "a/../../x"][..]),
        ("web://", &["..", "../x", "%2e%2e/x", "h/..", "h/../x", "h/../../x", "h/a/../../x", "h/%2e%2e/x"][..]),
    ] {
        for path in paths {
            assert_eq!(compose(mount, path), Err(PathError::LeavesMount), "{path} at {mount}");
        }
    }
}

#[test]
fn a_path_does_not_begin_with_a_slash() {
    for (mount, paths) in [
        ("git://linux/", &["/", "/x", "//x", "//evil/x", "a/..//b", ".//x", "a/..///", "/.", "/..x"][..]),
        ("notes:///", &["/x", "//h/x"][..]),
        ("web://", &["/", "/x", "//h/x", ":/x"][..]),
    ] {
        for path in paths {
            assert_eq!(compose(mount, path), Err(PathError::LeadingSlash), "{path} at {mount}");
        }
    }
}

#[test]
fn characters_that_no_path_has_are_refused_where_they_stand() {
    for mount in ["git://linux/", "files://h/a/b/", "notes:///", "web://"] {
        for (path, found, at) in [
            ("h/a b", ' ', 3),
            ("h/a\\..\\b", '\\', 3),
            ("h/\u{e4}", '\u{e4}', 2),
            ("h/\u{65e5}\u{672c}", '\u{65e5}', 2),
            ("h/\0", '\0', 2),
            ("h/a\n", '\n', 3),
            ("h/\u{202e}", '\u{202e}', 2),
            ("h/\u{ff0f}", '\u{ff0f}', 2),
            ("h/\"", '"', 2),
            ("h/<a>", '<', 2),
            ("h/{x}", '{', 2),
            ("h/a|b", '|', 3),
            ("h/^`", '^', 2),
            ("h/\u{7f}", '\u{7f}', 2),
            ("h/a[", '[', 3),
            ("h/?a[", '[', 4),
        ] {
            let error = PathError::Characters(CharacterError::Character { found, at });
            assert_eq!(compose(mount, path), Err(error), "{path} at {mount}");
        }
    }
}

#[test]
fn broken_percent_encoding_and_nul_are_refused_where_they_stand() {
    for mount in ["git://linux/", "notes:///", "web://"] {
        for path in ["h/%", "h/%2", "h/%zz", "h/%2g", "h/%+1", "h/%%20", "h/%\u{20ac}", "h/%a\u{20ac}", "h/%?%"] {
            let error = PathError::Characters(CharacterError::PercentEncoding { at: 2 });
            assert_eq!(compose(mount, path), Err(error), "{path} at {mount}");
        }
        for path in ["h/%00", "h/%00x", "h/%00/../x"] {
            let error = PathError::Characters(CharacterError::Nul { at: 2 });
            assert_eq!(compose(mount, path), Err(error), "{path} at {mount}");
        }
    }
}

#[test]
fn fragments_hosts_and_user_information_are_refused() {
    let host = |found: &str| Err(PathError::Host { found: found.to_owned() });
    assert_eq!(compose("git://linux/", "a#L1"), Err(PathError::Fragment { at: 1 }));
    assert_eq!(compose("git://linux/", "#"), Err(PathError::Fragment { at: 0 }));
    assert_eq!(compose("web://", "h/a#L1"), Err(PathError::Fragment { at: 3 }));
    assert_eq!(compose("web://", "#a"), Err(PathError::Fragment { at: 0 }));
    assert_eq!(compose("web://", "me@h/x"), Err(PathError::UserInfo));
    assert_eq!(compose("web://", "docs.rs@evil/x"), Err(PathError::UserInfo));
    assert_eq!(compose("web://", "@/x"), Err(PathError::UserInfo));
    assert_eq!(compose("web://", "h:x/y"), host("h:x"));
    assert_eq!(compose("web://", "[::1/y"), host("[::1"));
    assert_eq!(compose("web://", "a@b@c/y"), host("a@b@c"));
    assert_eq!(compose("web://", "./x"), host("."));
    assert_eq!(compose("web://", "%2e"), host("."));
}

#[test]
fn a_path_is_too_long_together_with_its_mount() {
    let room = MAX_URI_LEN - "git://linux/".len();
    let longest = "a".repeat(room);
    assert_eq!(compose("git://linux/", &longest).map(|uri| uri.len()), Ok(MAX_URI_LEN));
    let error = compose("git://linux/", &"a".repeat(room + 1));
    assert_eq!(error, Err(PathError::TooLong { len: MAX_URI_LEN + 1 }));
}

#[test]
fn messages_say_what_to_write_instead() {
    for (path, message) in [
        ("a b", "in the path, ` ` at byte 1 is not allowed there; percent-encode it: `%20`"),
        ("a\n", "in the path, `\\n` at byte 1 is not allowed there; percent-encode it: `%0A`"),
        ("\u{65e5}", "in the path, `\u{65e5}` at byte 0 is not allowed there; percent-encode it: `%E6%97%A5`"),
        ("100%", "in the path, `%` at byte 3 has no two hexadecimal digits behind it; write `%25` for a percent sign"),
        ("a%00", "in the path, `%00` at byte 1 is a NUL, which no name contains; remove it"),
    ] {
        assert_eq!(compose("git://linux/", path).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
fn uris_and_paths_are_serialised_as_their_text() {
    let located = mount("git://linux/").compose("a%2fb").expect("a path");
    assert_eq!(serde_json::to_string(&located.uri).expect("a string"), r#""git://linux/a%2Fb""#);
    assert_eq!(serde_json::to_string(&located.path).expect("a string"), r#""a%2Fb""#);
    assert_eq!(format!("{:>20}|{:>6}", located.uri, located.path), "   git://linux/a%2Fb| a%2Fb");
}
