use super::*;

/// Composes a path template with a mount.
fn compose(mount_text: &str, path_template: &str) -> Result<String, TemplateError> {
    let mount = mount(mount_text);
    let template = mount.compose_template(path_template)?;
    assert_eq!(template.as_str(), [mount.as_str(), template.path_template()].concat());
    Ok(template.path_template().to_owned())
}

#[test]
fn a_template_is_composed_with_its_literals_in_normal_form() {
    for (mount, template, normal) in [
        ("git://linux/", "", ""),
        ("git://linux/", "blob/{rev}/{+path}", "blob/{rev}/{+path}"),
        ("git://linux/", "log/{rev}{?path,limit:3}", "log/{rev}{?path,limit:3}"),
        ("git://linux/", "%7e%2f{%7e,a.b*}%2F", "~%2F{%7e,a.b*}%2F"),
        ("git://linux/", "{?q}", "{?q}"),
        ("git://linux/", "{;a}{&b}{.c}", "{;a}{&b}{.c}"),
        ("git://linux/", "a{/x,y*}/b", "a{/x,y*}/b"),
        ("git://linux/", ".{x}/..{x}/{x}..", ".{x}/..{x}/{x}.."),
        ("git://linux/", "a?b=/../{c}/../", "a?b=/../{c}/../"),
        ("git://linux/", "{x}?/../", "{x}?/../"),
        ("git://linux/", "A{x:9999}@B", "A{x:9999}@B"),
        ("web://", "{Host}/{+path}", "{Host}/{+path}"),
        ("web://", "Docs{X}.RS/A{Y}", "docs{X}.rs/A{Y}"),
        ("web://", "A{/B}C", "a{/B}C"),
        ("web://", "A%c3%A9{?B}C", "a%C3%A9{?B}C"),
        ("web://", "A?B@", "a?B@"),
        ("web://", "h/me@x", "h/me@x"),
        ("web://", "A{+B}C@", "a{+B}C@"),
        ("web://[::1]/", "{x}", "{x}"),
    ] {
        assert_eq!(compose(mount, template).as_deref(), Ok(normal), "{template} at {mount}");
    }
}

#[test]
fn a_template_that_no_path_can_come_of_is_refused() {
    use TemplateError::{DotSegment, Fragment, Host, LeadingSlash};
    let no_host = |found: &str| Host(PathError::Host { found: found.to_owned() });
    for (mount, template, error) in [
        ("git://linux/", "/a", LeadingSlash),
        ("git://linux/", "{/a}", LeadingSlash),
        ("notes:///", "/{a}", LeadingSlash),
        ("web://", "/{a}", LeadingSlash),
        ("git://linux/", "../{x}", DotSegment),
        ("git://linux/", "{x}/../a", DotSegment),
        ("git://linux/", "{x}/%2e%2E", DotSegment),
        ("git://linux/", "./{x}", DotSegment),
        ("git://linux/", "a/..{/x}", DotSegment),
        ("git://linux/", "a/..{?x}", DotSegment),
        ("web://", "../{x}", DotSegment),
        ("git://linux/", "a#{x}", Fragment),
        ("git://linux/", "a{#x}", Fragment),
        ("web://", "me@{host}/x", Host(PathError::UserInfo)),
        ("web://", "{user}@{host}", Host(PathError::UserInfo)),
        ("web://", "h:x/{y}", no_host("h:x")),
    ] {
        assert_eq!(compose(mount, template), Err(error), "{template} at {mount}");
    }
}

#[test]
fn what_is_no_template_is_refused() {
    let characters = |error| Err(TemplateError::Characters(error));
    let character = |found, at| characters(CharacterError::Character { found, at });
    for mount in ["git://linux/", "web://"] {
        for template in
            ["{", "a{x", "}", "{}", "{x y}", "{=x}", "{|x}", "{x:}", "{x*:3}", "a b", "a\\b", "%", "%zz", "{{x}}"]
        {
            assert!(matches!(compose(mount, template), Err(TemplateError::Syntax { .. })), "{template}");
        }
        for template in ["{x:0}", "{x:00001}", "{x:10000}", "{x:99999}", "{a,x:65536}"] {
            assert!(matches!(compose(mount, template), Err(TemplateError::Prefix { .. })), "{template}");
        }
        assert_eq!(compose(mount, "%\u{20ac}"), character('\u{20ac}', 1));
        assert_eq!(compose(mount, "%a\u{20ac}"), character('\u{20ac}', 2));
        assert_eq!(compose(mount, "{%\u{20ac}}"), character('\u{20ac}', 2));
        assert_eq!(compose(mount, "{x}a[0]"), character('[', 4));
        assert_eq!(compose(mount, "{x}%00"), characters(CharacterError::Nul { at: 3 }));
    }
    assert_eq!(
        compose("git://linux/", "a{x").unwrap_err().to_string(),
        "the template is not valid (RFC 6570): expression not closed (at 1-th byte)"
    );
    assert_eq!(
        compose("git://linux/", "{a,x:0}").unwrap_err().to_string(),
        "`{a,x:0}` has a prefix length that is not from 1 to 9999"
    );
    let room = MAX_URI_LEN - "git://linux/".len();
    assert_eq!(compose("git://linux/", &"a".repeat(room)).map(|text| text.len()), Ok(room));
    let error = compose("git://linux/", &"a".repeat(room + 1));
    assert_eq!(error, Err(TemplateError::TooLong { len: MAX_URI_LEN + 1 }));
}

#[test]
fn a_template_is_expanded_by_rfc_6570() {
    let expand = |path: &str, values: &[(&str, &str)]| {
        let template = mount("git://linux/").compose_template(path).unwrap();
        template.expand(values.iter().copied()).unwrap().strip_prefix("git://linux/").unwrap().to_owned()
    };
    let values = [("rev", "feature/x"), ("path", "docs/日本 語.md"), ("limit", "3"), ("empty", "")];
    for (path, expanded) in [
        ("blob/{rev}/{+path}", "blob/feature%2Fx/docs/%E6%97%A5%E6%9C%AC%20%E8%AA%9E.md"),
        ("log/{rev}{?path,limit}", "log/feature%2Fx?path=docs%2F%E6%97%A5%E6%9C%AC%20%E8%AA%9E.md&limit=3"),
        ("a?x{&limit}", "a?x&limit=3"),
        ("a{/rev,limit}", "a/feature%2Fx/3"),
        ("a{.limit}{;empty}", "a.3;empty="),
        ("{rev:4}", "feat"),
        ("a{?none}{none}", "a"),
    ] {
        assert_eq!(expand(path, &values), expanded, "{path}");
    }
}

#[test]
fn an_expansion_that_would_be_no_uri_is_not_made() {
    let mount = mount("git://linux/");
    let room = MAX_URI_LEN - mount.as_str().len();
    let template = mount.compose_template("{x}").unwrap();
    let expand = |value: &str| template.expand([("x", value)]).map(|expanded| expanded.len());
    assert_eq!(expand(&"a".repeat(room)), Some(MAX_URI_LEN));
    assert_eq!(expand(&"a".repeat(room + 1)), None);
    assert_eq!(expand(&" ".repeat(room / 3 + 1)), None, "it is encoded");
    assert_eq!(expand(&"ä".repeat(10_000_000)), None);
    let repeated = mount.compose_template(&"{x}".repeat(UriTemplate::MAX_VARIABLES)).unwrap();
    assert_eq!(repeated.expand([("x", "a".repeat(200).as_str())]), None);
    let prefix = mount.compose_template("{x:3}").unwrap();
    assert_eq!(prefix.expand([("x", "ä".repeat(100_000).as_str())]).as_deref(), Some("git://linux/%C3%A4%C3%A4%C3%A4"));
}

#[test]
fn a_template_has_so_many_variables_and_no_more() {
    let (mount, router) = (mount("git://linux/"), router(&["git://linux/"]));
    for (template, is_valid) in [
        ("{x}".repeat(UriTemplate::MAX_VARIABLES), true),
        ("{x}".repeat(UriTemplate::MAX_VARIABLES + 1), false),
        (format!("{{{}x}}", "x,".repeat(UriTemplate::MAX_VARIABLES - 1)), true),
        (format!("{{{}x}}", "x,".repeat(UriTemplate::MAX_VARIABLES)), false),
    ] {
        let refused = Err(TemplateError::TooManyVariables);
        assert_eq!(mount.compose_template(&template).map(drop), if is_valid { Ok(()) } else { refused });
        assert_eq!(router.route_template(&format!("git://linux/{template}")).is_ok(), is_valid);
    }
}

#[test]
fn the_variables_of_a_template_are_told_once_each_and_in_order() {
    let template = mount("git://linux/").compose_template("a{b}{+c,b:3}{?d*,%41}{c}").expect("a template");
    assert_eq!(template.variables().collect::<Vec<_>>(), ["b", "c", "d", "%41"]);
}

#[test]
fn the_path_template_of_a_clients_template_is_what_stands_behind_the_mount() {
    for (mount_text, template, path) in [
        ("git://linux/", "git://linux/blob/{rev}", Some("blob/{rev}")),
        ("git://linux/", "GIT://LINUX/%7e{rev}", Some("%7e{rev}")),
        ("git://linux/", "git://linux/", Some("")),
        ("files://h/a/", "files://h/%61/{x}/b", Some("{x}/b")),
        ("web://", "web://{host}/x", Some("{host}/x")),
        ("notes:///", "notes:///{x}", Some("{x}")),
        ("git://linux/", "git://linux{/x}", None),
        ("git://linux/", "git://linux2/{x}", None),
        ("git://linux/", "git://{host}/x", None),
        ("git://linux/", "git://linux", None),
        ("git://linux/", "{+uri}", None),
        ("files://h/a/", "files://h/{a}/x", None),
        ("web://", "webs://{host}/x", None),
        ("git://linux/", "", None),
    ] {
        assert_eq!(mount(mount_text).template_path(template), path, "{template}");
    }
}

#[test]
fn a_clients_template_leads_to_the_plugin_that_owns_it() {
    let router = router(&["files://h/a/", "files://h/b/", "git://linux/", "notes:///", "web://"]);
    for (template, mount, path) in [
        ("git://linux/blob/{rev}/{+path}", "git://linux/", "blob/{rev}/{+path}"),
        ("Git://LINUX/%7e{?Q}", "git://linux/", "~{?Q}"),
        ("git://linux/README.md", "git://linux/", "README.md"),
        ("files://h/%62/{x}", "files://h/b/", "{x}"),
        ("notes:///{x}", "notes:///", "{x}"),
        ("web://{host}/{+path}", "web://", "{host}/{+path}"),
        ("web://Docs.RS/{+path}", "web://", "docs.rs/{+path}"),
    ] {
        let (target, found) = router.route_template(template).expect("a template of a plugin");
        assert_eq!((*target, found.path_template()), (mount, path), "{template}");
    }
    for template in [
        "git://other/{x}",
        "git://{host}/x",
        "git://linux{/x}",
        "files://h/c/{x}",
        "urn:{x}/a/b",
        "x:/a/{b}",
        "{+uri}",
        "linux/{x}",
        "",
        "{scheme}://linux/x",
    ] {
        assert_eq!(router.route_template(template).unwrap_err(), RouteError::NoMount, "{template}");
    }
    let error = router.route_template("git://me@linux/{x}").unwrap_err();
    assert_eq!(error, UriError::UserInfo.into());
    for template in ["git://linux/{x", "git://\u{e4}/{x}"] {
        assert!(matches!(router.route_template(template), Err(RouteError::Template(_))), "{template}");
    }
    let error = router.route_template("git://linux/../{x}").unwrap_err();
    assert!(matches!(error, RouteError::PathTemplate { error: TemplateError::DotSegment, .. }), "{error}");
    assert_eq!(error.mount().map(Mount::as_str), Some("git://linux/"));
}
