use super::*;

const MOUNTS: [&str; 7] =
    ["files://h/a/", "files://h/ab/", "files://h/b/", "git://linux/", "git://linux:9418/", "notes:///", "web://"];

/// Routes a URI. Returns the mount as given, and the path.
fn route(uri: &str) -> Result<(&'static str, String), RouteError> {
    let router = router(&MOUNTS);
    let routed = router.route(uri)?;
    assert_eq!(routed.mount.as_str(), *routed.target);
    assert_eq!(routed.uri.as_str(), [routed.mount.as_str(), routed.path.as_str()].concat());
    Ok((*routed.target, routed.path.into()))
}

#[test]
fn a_uri_leads_to_the_plugin_that_owns_it() {
    for (uri, mount, path) in [
        ("git://linux/a", "git://linux/", "a"),
        ("git://linux/", "git://linux/", ""),
        ("git://linux/?q", "git://linux/", "?q"),
        ("GIT://Linux/%7Ea/../%41", "git://linux/", "A"),
        ("git://linux:9418/a", "git://linux:9418/", "a"),
        ("git://linux:/a", "git://linux/", "a"),
        ("files://h/%61/x", "files://h/a/", "x"),
        ("files://H/ab/x", "files://h/ab/", "x"),
        ("files://h/x/../a/c", "files://h/a/", "c"),
        ("files://h/./a/c", "files://h/a/", "c"),
        ("files://h/a/x/../c", "files://h/a/", "c"),
        ("files://h/a/./", "files://h/a/", ""),
        ("notes:///x", "notes:///", "x"),
        ("notes:///", "notes:///", ""),
        ("web://Docs.RS/x", "web://", "docs.rs/x"),
        ("web://docs.rs", "web://", "docs.rs"),
        ("web://", "web://", ""),
        ("web://h/a/../b?c=..", "web://", "h/b?c=.."),
    ] {
        assert_eq!(route(uri), Ok((mount, path.to_owned())), "{uri}");
    }
}

#[test]
fn a_mount_without_its_last_slash_is_the_mount_itself() {
    for (uri, mount, path) in [
        ("git://linux", "git://linux/", ""),
        ("git://LINUX:", "git://linux/", ""),
        ("git://linux?q=/a", "git://linux/", "?q=/a"),
        ("files://h/a", "files://h/a/", ""),
        ("files://h/%61?q", "files://h/a/", "?q"),
        ("files://h/x/../a", "files://h/a/", ""),
        ("notes://", "notes:///", ""),
    ] {
        assert_eq!(route(uri), Ok((mount, path.to_owned())), "{uri}");
    }
}

#[test]
fn a_uri_of_no_plugin_is_told_apart_from_a_bad_one() {
    for uri in [
        "git://other/x",
        "git://linu/x",
        "git://linux2/x",
        "git://linux:80/x",
        "gits://linux/x",
        "a://b",
        "zzz://b/",
        "files://h/",
        "files://h/A/x",
        "files://h/abc/x",
        "files://h/a%2Fx",
        "files://h/x/../c",
        "notes://h/x",
        "mailto:me@h",
        "urn:isbn:1",
        "git:/linux/x",
        "git:linux/x",
        "web:/h/x",
    ] {
        assert_eq!(route(uri), Err(RouteError::NoMount), "{uri}");
    }
    assert_eq!(RouteError::NoMount.mount(), None);
}

#[test]
fn a_uri_that_leaves_its_mount_is_refused_even_if_another_plugin_owns_it_then() {
    for uri in [
        "files://h/a/../b/c",
        "files://h/a/%2e%2E/b/c",
        "files://H/%61/../b/c",
        "files://h/a/x/../../b/c",
        "files://h/a/../a/c",
        "files://h/a/..",
    ] {
        let error = route(uri).unwrap_err();
        assert_eq!(error.mount().map(Mount::as_str), Some("files://h/a/"), "{uri}");
        assert!(matches!(error, RouteError::Path { error: PathError::LeavesMount, .. }), "{uri}: {error:?}");
    }
}

#[test]
fn what_is_wrong_with_any_uri_does_not_depend_on_what_is_mounted() {
    let above_root = |uri: String| (uri, UriError::AboveRoot);
    for host in ["linux", "other", "h"] {
        for (uri, error) in [
            above_root(format!("git://{host}/..")),
            above_root(format!("git://{host}/../x")),
            above_root(format!("git://{host}/%2e%2E/x")),
            above_root(format!("git://{host}/a/../../{host}/x")),
            above_root(format!("files://{host}/a/../../a/x")),
            above_root(format!("web://{host}/../x")),
            (format!("git://me@{host}/x"), UriError::UserInfo),
            (format!("git://me:pw@{host}/x"), UriError::UserInfo),
            (format!("x://{host}/a#b"), UriError::Fragment { at: 6 + host.len() }),
            (format!("x://{host}/%00"), CharacterError::Nul { at: 5 + host.len() }.into()),
            (format!("x://{host}/%0"), CharacterError::PercentEncoding { at: 5 + host.len() }.into()),
            (format!("x://{host}/\\"), CharacterError::Character { found: '\\', at: 5 + host.len() }.into()),
            (format!("x://{host}/?]"), CharacterError::Character { found: ']', at: 6 + host.len() }.into()),
            (format!("x://[::1]/{host}["), CharacterError::Character { found: '[', at: 10 + host.len() }.into()),
            (format!("x:{host}["), CharacterError::Character { found: '[', at: 2 + host.len() }.into()),
            (format!("x://{host}:a/"), UriError::Host { found: format!("{host}:a") }),
            (format!("x://{host}:1:2/"), UriError::Host { found: format!("{host}:1:2") }),
            (format!("/{host}/x"), UriError::NoScheme),
            (format!("//{host}/x"), UriError::NoScheme),
            (format!("{host}/x:y"), UriError::NoScheme),
            (format!("{host}#x:y"), UriError::NoScheme),
            (format!("://{host}"), UriError::NoScheme),
            (format!("%67it://{host}/x"), UriError::NoScheme),
        ] {
            let found = route(&uri).unwrap_err();
            assert_eq!(found, RouteError::Uri(error), "{uri}");
            assert_eq!(found.mount(), None, "{uri}");
        }
    }
    assert_eq!(route(""), Err(UriError::NoScheme.into()));
}

#[test]
fn what_no_path_can_be_is_refused_below_a_mount() {
    for (uri, mount_text, error) in [
        ("git://linux//x", "git://linux/", PathError::LeadingSlash),
        ("git://linux/a/..//x", "git://linux/", PathError::LeadingSlash),
        ("notes:////x", "notes:///", PathError::LeadingSlash),
        ("web:///x", "web://", PathError::LeadingSlash),
        ("web://:/x", "web://", PathError::LeadingSlash),
        ("web://../x", "web://", PathError::LeavesMount),
        ("web://./x", "web://", PathError::Host { found: ".".to_owned() }),
    ] {
        let expected = RouteError::Path { mount: mount(mount_text), error };
        assert_eq!(route(uri), Err(expected), "{uri}");
    }
    assert_eq!(
        route("git://linux//x").unwrap_err().to_string(),
        "below `git://linux/`: the path begins with a slash, or does so without its dot segments; begin it with the \
         name of a segment"
    );
}

#[test]
fn a_uri_has_at_most_8192_bytes() {
    let longest = format!("git://linux/{}", "a".repeat(MAX_URI_LEN - 12));
    assert_eq!(route(&longest).map(|(mount, _)| mount), Ok("git://linux/"));
    let error = Err(UriError::TooLong { len: MAX_URI_LEN + 1 }.into());
    assert_eq!(route(&format!("{longest}a")), error);
    // The optional slash counts.
    let longest = format!("git://linux?{}", "a".repeat(MAX_URI_LEN - 12));
    assert!(matches!(route(&longest), Err(RouteError::Path { error: PathError::TooLong { len: 8193 }, .. })));
}

#[test]
fn a_thousand_mounts_are_told_apart() {
    let mounts: Vec<Mount> = (0..1000).map(|n| mount(&format!("files://h/{n}/"))).collect();
    let router = Router::new(mounts.iter().map(|mount| (mount.clone(), mount))).expect("no overlap");
    for owner in &mounts {
        let uri = owner.compose("a/b").expect("a path").uri;
        assert_eq!(*router.route(uri.as_str()).expect("a mount").target, owner);
    }
    assert_eq!(router.route("files://h/1000/x").unwrap_err(), RouteError::NoMount);
}

#[test]
fn a_router_without_mounts_knows_no_uri() {
    assert_eq!(router(&[]).route("git://linux/x").unwrap_err(), RouteError::NoMount);
}
