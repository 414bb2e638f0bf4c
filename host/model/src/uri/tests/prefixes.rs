//! Mounts that are a prefix in front of URIs.

use super::*;

#[test]
fn a_prefix_is_a_name_and_a_plus() {
    for (written, normal) in [("github+", "github+"), ("GitHub+", "github+"), ("a+", "a+"), ("a1-b.c+", "a1-b.c+")] {
        assert_eq!(mount(written).as_str(), normal, "{written}");
        assert!(mount(written).is_prefix() && !mount(written).owns_all_hosts());
    }
    for text in ["+", "1a+", "-a+", "a_b+", "a+b+", "a/+", "a:+", "ä+", "git://linux+"] {
        let error = text.parse::<Mount>();
        assert_eq!(error, Err(MountError::Prefix { text: text.to_owned() }), "{text}");
    }
    assert!(!mount("coap+tcp://h/").is_prefix());
}

#[test]
fn below_a_prefix_paths_are_uris_of_any_kind() {
    for (path, uri) in [
        ("repo://x/y", "up+repo://x/y"),
        ("Repo://X/Y", "up+repo://x/Y"),
        ("repo://x", "up+repo://x"),
        ("repo://", "up+repo://"),
        ("file:///a/./b/../c", "up+file:///a/c"),
        ("urn:isbn:1", "up+urn:isbn:1"),
        ("URN:a%40b?=c", "up+urn:a@b?=c"),
        ("file:/a/b", "up+file:/a/b"),
        ("mailto:A@B", "up+mailto:A@B"),
        ("data:,a%20b", "up+data:,a%20b"),
        ("postgres://Me:x@DB/t/%73", "up+postgres://Me:x@db/t/s"),
        ("a+b://c", "up+a+b://c"),
        ("up+a:b", "up+up+a:b"),
    ] {
        let located = mount("up+").compose(path).unwrap();
        assert_eq!(located.uri.as_str(), uri, "{path}");
        let router = router(&["up+", "web://"]);
        let routed = router.route(uri).unwrap();
        assert_eq!((&routed.uri, &routed.path, *routed.target), (&located.uri, &located.path, "up+"), "{path}");
    }
}

#[test]
fn what_is_no_uri_has_no_place_below_a_prefix() {
    for path in ["", "a", "/a", "1a:b", ":b", "a b:c", "a:b#c", "a:%zz", "a:/..//b", "a:b/..//c", "a:..", "a://b/../c"]
    {
        assert!(matches!(mount("up+").compose(path), Err(PathError::NoUri(_))), "{path}");
        assert!(router(&["up+"]).route(&format!("up+{path}")).is_err(), "{path}");
    }
}

#[test]
fn a_prefix_overlaps_the_mounts_whose_scheme_begins_with_it() {
    for (other, overlaps) in
        [("git+ssh://h/", true), ("git+", true), ("git://h/", false), ("gitx+", false), ("gi+", false)]
    {
        assert_eq!(mount("git+").overlaps(&mount(other)), overlaps, "{other}");
        assert_eq!(Router::new([(mount("git+"), ()), (mount(other), ())]).is_err(), overlaps, "{other}");
    }
}

#[test]
fn user_information_is_refused_by_the_text_alone_unless_a_prefix_owns_it() {
    let router = router(&["up+", "a+b://", "git://h/"]);
    assert_eq!(router.route("git://me@h/x"), Err(UriError::UserInfo.into()));
    assert_eq!(router.route("nowhere://me@h/x"), Err(UriError::UserInfo.into()));
    assert_eq!(router.route("no+where://me@h/x"), Err(RouteError::NoMount));
    assert!(router.route("a+b://me@h/x").is_err());
    assert_eq!(router.route("up+x://me@H/x").unwrap().path.as_str(), "x://me@h/x");
}

#[test]
fn templates_of_uris_are_composed_and_found_by_their_scheme() {
    let router = router(&["up+", "git://linux/"]);
    for (template, composed) in [
        ("repo://{owner}/{name}/contents{/path*}", "up+repo://{owner}/{name}/contents{/path*}"),
        ("Repo://H/%7Ea/{x}", "up+repo://h/~a/{x}"),
        ("urn:isbn:{n}", "up+urn:isbn:{n}"),
        ("x:{+all}", "up+x:{+all}"),
        ("x:/a/{b}?c={d}", "up+x:/a/{b}?c={d}"),
        ("x://{+h}{?q}", "up+x://{+h}{?q}"),
    ] {
        let made = mount("up+").compose_template(template).unwrap();
        assert_eq!(made.as_str(), composed, "{template}");
        assert_eq!(router.route_template(composed), Ok((&"up+", made.clone())), "{template}");
        assert_eq!(router.route_template(&composed.replace("up+", "UP+")), Ok((&"up+", made)), "{template}");
    }
    for template in ["{scheme}://a", "a/{b}", "{+all}", "x://me@h/{a}", "x://h/../{a}", "x:{#a}"] {
        assert!(mount("up+").compose_template(template).is_err(), "{template}");
    }
}
