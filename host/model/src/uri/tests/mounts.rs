use super::*;

#[test]
fn a_mount_is_brought_into_normal_form() {
    for (written, normal) in [
        ("git://linux/", "git://linux/"),
        ("GIT://Linux/Docs/", "git://linux/Docs/"),
        ("notes:///", "notes:///"),
        ("notes:///a/", "notes:///a/"),
        ("web://", "web://"),
        ("WEB://", "web://"),
        ("files://h/%61%2f%7E/", "files://h/a%2F~/"),
        ("files://h:80/a/", "files://h:80/a/"),
        ("files://h:/a/", "files://h/a/"),
        ("files://[2001:DB8::1]/", "files://[2001:db8::1]/"),
        ("files://%C3%a9T%C3%A9/", "files://%C3%A9t%C3%A9/"),
        ("coap+tcp://h/", "coap+tcp://h/"),
    ] {
        assert_eq!(mount(written).as_str(), normal, "{written}");
        assert_eq!(mount(normal).as_str(), normal, "{normal}");
    }
}

#[test]
fn what_is_almost_a_mount_is_refused_with_what_to_write_instead() {
    for (text, should, instead) in [
        ("git://linux", "end with a slash", "git://linux/"),
        ("git://linux/a", "end with a slash", "git://linux/a/"),
        ("git://linux?q", "have no query", "git://linux/"),
        ("web://?", "have no query", "web://"),
        ("git:/linux/", "have two slashes behind the scheme", "git:///linux/"),
        ("git:linux", "have two slashes behind the scheme", "git://linux/"),
        ("git://h/a/../b", "have no `.` or `..` segments", "git://h/b/"),
        ("git://h/%2E%2e/", "have no `.` or `..` segments", "git://h/"),
        ("git://h//a/", "have no empty segments", "git://h/a/"),
        ("git://h/a//", "have no empty segments", "git://h/a/"),
        ("notes:////", "have no empty segments", "notes:///"),
    ] {
        let error = text.parse::<Mount>().map_err(|error| error.to_string());
        assert_eq!(error, Err(format!("`{text}` should {should}: `{instead}`")));
        assert_eq!(mount(instead).as_str(), instead);
    }
}

#[test]
fn what_is_no_uri_is_no_mount() {
    let host = |found: &str| UriError::Host { found: found.to_owned() };
    for (text, error) in [
        ("linux/", UriError::NoScheme),
        ("1git://linux/", UriError::NoScheme),
        ("", UriError::NoScheme),
        ("git://linux/#", UriError::Fragment { at: 12 }),
        ("git://me@linux/", UriError::UserInfo),
        ("git://h:x/", host("h:x")),
        ("git://:80/", host(":80")),
        ("git://h/{x}/", CharacterError::Character { found: '{', at: 8 }.into()),
        ("git://ü/", CharacterError::Character { found: 'ü', at: 6 }.into()),
        ("git://h/%00/", CharacterError::Nul { at: 8 }.into()),
    ] {
        assert_eq!(text.parse::<Mount>(), Err(MountError::Uri { text: text.to_owned(), error }), "{text}");
    }
    assert_eq!(
        "linux/".parse::<Mount>().unwrap_err().to_string(),
        "`linux/` is not a mount: the URI does not begin with a scheme; it should look \
         like `scheme://host/path`"
    );
}

#[test]
fn a_mount_of_more_than_1024_bytes_is_refused() {
    let longest = format!("git://{}/", "a".repeat(Mount::MAX_LEN - 7));
    assert_eq!(mount(&longest).as_str(), longest);
    let error = format!("{longest}/").parse::<Mount>();
    assert_eq!(error, Err(MountError::TooLong { len: 1025 }));
}

#[test]
fn mounts_overlap_when_one_is_a_prefix_of_the_other() {
    for (a, b, overlap) in [
        ("git://linux/", "git://linux/", true),
        ("git://linux/", "GIT://Linux/docs/", true),
        ("web://", "web://docs.rs/", true),
        ("web://", "web:///", true),
        ("git://linux/", "git://linux2/", false),
        ("files://h/a/", "files://h/ab/", false),
        ("files://h/a/", "files://h/A/", false),
        ("git://linux/", "git://linux:80/", false),
        ("web://", "webs://", false),
    ] {
        assert_eq!(mount(a).overlaps(&mount(b)), overlap, "{a} {b}");
        assert_eq!(mount(b).overlaps(&mount(a)), overlap, "{b} {a}");
    }
}

#[test]
fn a_router_refuses_overlapping_mounts_and_names_both() {
    let mounts = ["git://b/x/", "git://a/", "git://b/", "git://c/"];
    let error = Router::new(mounts.iter().map(|text| (mount(text), ()))).unwrap_err();
    assert_eq!((error.first.as_str(), error.first_index), ("git://b/x/", 0));
    assert_eq!((error.second.as_str(), error.second_index), ("git://b/", 2));
    assert_eq!(
        error.to_string(),
        "the mounts `git://b/x/` and `git://b/` overlap: a URI could belong to both; give each a prefix of its own"
    );
}

#[test]
fn a_router_lists_its_mounts_in_order() {
    let router = router(&["web://", "git://linux/", "notes:///"]);
    let mounts: Vec<_> = router.iter().map(|(mount, _)| mount.as_str()).collect();
    assert_eq!(mounts, ["git://linux/", "notes:///", "web://"]);
}
