//! Properties that hold for any input. The random inputs are the same in every run.

use iri_string::format::ToDedicatedString;
use iri_string::spec::UriSpec;
use iri_string::template::UriTemplateStr;
use iri_string::template::simple_context::SimpleContext;
use iri_string::types::UriAbsoluteStr;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use super::*;

const MOUNTS: [&str; 9] = [
    "files://h/a/",
    "files://h/b/a/",
    "files://h/%2F/",
    "files://[::1]:80/",
    "git://linux/",
    "git://linux:80/",
    "notes:///",
    "up+",
    "web://",
];

/// Fragments that are likely to confuse: separators, dots, encodings of both, hosts, names of mounts, and
/// characters that no URI has.
const FRAGMENTS: [&str; 60] = [
    "/", "/", "/", "//", ".", "..", "..", "../", "/..", "/./", "%2e", "%2E%2e", "%2f", "%2F", "%41", "%7e", "a", "a",
    "B", "h", "H", "~", "x", "?", "#", "@", ":", "[", "]", "[::1]", ":80", "%5c", "\\", "%00", "%", "%zz", "%25",
    "%c3%A9", "%C3%89", "%ff", "%61", "%2", "&", "=", "'", " ", "\n", "\0", "ä", "日", "\u{202e}", "linux", "git:",
    "h/a/", "web://", "%40", "%2c", "%3D", "%27", "%26",
];

const TEMPLATE_FRAGMENTS: [&str; 20] = [
    "{a}", "{+b}", "{/a}", "{/a,b*}", "{;a}", "{?a}", "{?b,c}", "{&c}", "{.a}", "{#a}", "{a:3}", "{c:0}", "{", "}",
    "{a", "{%41}", "{=a}", "{a,b}", "{+a,b:2}", "{}",
];

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 4096,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3986),
        ..ProptestConfig::default()
    }
}

/// Any string, but usually one that is likely to confuse.
fn hostile() -> impl Strategy<Value = String> {
    let confusing = vec(select(&FRAGMENTS[..]), 0..10).prop_map(|parts| parts.concat());
    let plausible = vec(select(&FRAGMENTS[..23]), 0..8).prop_map(|parts| parts.concat());
    prop_oneof![4 => confusing, 4 => plausible.clone(), 1 => any::<String>(), 1 => "[ -~]{0,40}"]
}

/// A text that is probably a path.
fn path() -> impl Strategy<Value = String> {
    let segment = "(\\.|\\.\\.|%2e|[a-zA-Z0-9~:@!$&'()*+,;=_-]{0,3}|%[0-9a-fA-F]{2}|%c3%a9|h:80|h:)";
    let path = vec(segment, 0..6).prop_map(|segments| segments.join("/"));
    (path, "(\\?[a-z/.?=&%]{0,3}(%2e)?)?").prop_map(|(path, query)| path + &query)
}

fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![path(), hostile()]
}

fn any_mount() -> impl Strategy<Value = &'static str> {
    select(&MOUNTS[..])
}

fn client_uri() -> impl Strategy<Value = String> {
    let mount = any_mount().prop_flat_map(|mount| select(vec![mount.to_owned(), mount.to_ascii_uppercase()]));
    let below = (mount, any_path()).prop_map(|(mount, path)| mount + &path);
    prop_oneof![3 => below, 1 => hostile(), 1 => hostile().prop_map(|rest| format!("files://{rest}"))]
}

fn template() -> impl Strategy<Value = String> {
    let literal = prop_oneof![select(&FRAGMENTS[..]), select(&["a", "B/", "%7e", "/c", "."][..])];
    let fragment = prop_oneof![literal, select(&TEMPLATE_FRAGMENTS[..])];
    vec(fragment, 0..7).prop_map(|parts| parts.concat())
}

/// Returns the normal form of RFC 3986 with delimiters decoded that have no special meaning.
fn with_decoded_delimiters(normal: &str) -> String {
    let authority = normal.find("://").map_or(0, |at| at.saturating_add("://".len()));
    let mut characters = normal.char_indices().skip(authority);
    let root = characters.find(|(_, c)| matches!(c, '/' | '?')).map_or(normal.len(), |(at, _)| at);
    let (root, below) = normal.split_at(root);
    let (path, query) = below.split_at(below.find('?').unwrap_or(below.len()));
    let decode = |text: &str, delimiters: &str| {
        delimiters
            .chars()
            .fold(text.to_owned(), |text, c| text.replace(&format!("%{:02X}", u32::from(c)), &c.to_string()))
    };
    [root, &decode(path, "@:!$&'()*+,;="), &decode(query, "@:!$'()*")].concat()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_spelling_of_a_delimiter_in_a_path_has_the_same_uri(
        at in any_mount(),
        names in vec("[a-z@:!$&'()*+,;=]{1,8}", 2..4),
        is_encoded in vec(any::<bool>(), 32),
    ) {
        let at = mount(at);
        // The first segment is a host below `web://`, and after a scheme.
        let scheme = if at.is_prefix() { "x://" } else { "" };
        let plain = format!("h/{}", names.join("/"));
        let mut choices = is_encoded.iter().cycle();
        let spelled: String = plain
            .chars()
            .map(|c| match c {
                '/' => "/".to_owned(),
                c if *choices.next().expect("it cycles") => format!("%{:02x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        let (spelled, plain) = (format!("{scheme}{spelled}"), format!("{scheme}{plain}"));
        prop_assert_eq!(at.compose(&spelled), at.compose(&plain));
        prop_assert_eq!(at.compose(&plain).map(|located| located.path.to_string()), Ok(plain));
    }

    #[test]
    fn composing_then_routing_gives_back_plugin_and_path(at in any_mount(), path in any_path()) {
        let Ok(located) = mount(at).compose(&path) else { return Ok(()) };
        let router = router(&MOUNTS);
        let routed = router.route(located.uri.as_str()).expect("a composed URI has an owner");
        prop_assert_eq!(*routed.target, at);
        prop_assert_eq!(&routed.uri, &located.uri);
        prop_assert_eq!(&routed.path, &located.path);
    }

    #[test]
    fn a_uri_of_any_kind_comes_back_from_below_a_prefix(
        start in select(&["x://", "X://H", "x:", "x:/", "urn:a:", "a+B.c-1:", "x://Me:p@h:80/"][..]),
        rest in any_path(),
    ) {
        let uri = [start, &rest].concat();
        let Ok(located) = mount("up+").compose(&uri) else { return Ok(()) };
        prop_assert_eq!(located.uri.as_str(), ["up+", located.path.as_str()].concat());
        let router = router(&["up+", "x://", "git://linux/"]);
        let routed = router.route(&format!("Up+{uri}")).expect("the prefix owns it");
        prop_assert_eq!((&routed.uri, &routed.path), (&located.uri, &located.path));
        // The text after the prefix is a URI of the same kind, in its own normal form.
        let (written, normal) = (UriAbsoluteStr::new(&uri).expect("a URI"), UriAbsoluteStr::new(located.path.as_str()));
        let normal = normal.expect("a URI in normal form");
        prop_assert_eq!(written.authority_str().is_some(), normal.authority_str().is_some());
        prop_assert_eq!(written.path_str().starts_with('/'), normal.path_str().starts_with('/'));
        prop_assert_eq!(mount("up+").compose(normal.as_str()), Ok(located.clone()));
    }

    #[test]
    fn composing_a_composed_path_changes_nothing(at in any_mount(), path in any_path()) {
        let at = mount(at);
        if let Ok(located) = at.compose(&path) {
            prop_assert_eq!(at.compose(located.path.as_str()), Ok(located));
        }
    }

    #[test]
    fn no_path_leaves_its_mount(at in any_mount(), path in any_path()) {
        let Ok(ResourceId { uri, path }) = mount(at).compose(&path) else { return Ok(()) };
        prop_assert!(uri.as_str().starts_with(at));
        prop_assert_eq!(uri.as_str(), [at, path.as_str()].concat());
        prop_assert!(uri.as_str().len() <= MAX_URI_LEN && uri.as_str().is_ascii());
        prop_assert!(!path.as_str().starts_with('/') && !path.as_str().contains(['#', '\\', ' ']));
        prop_assert!(["%00", "%2E", "%2e"].iter().all(|encoded| !path.as_str().contains(encoded)));
        let segments = path.as_str().split('?').next().unwrap_or_default();
        prop_assert!(segments.split('/').all(|segment| segment != "." && segment != ".."));
    }

    #[test]
    fn no_uri_leaves_the_mount_that_it_begins_with(at in any_mount(), path in any_path()) {
        // A URI that begins with a mount routes to that mount or fails. A provider's path and a client's URI
        // are treated alike.
        let uri = [at, &path].concat();
        let composed = mount(at).compose(&path);
        match router(&MOUNTS).route(&uri) {
            Ok(routed) => {
                prop_assert_eq!(*routed.target, at);
                prop_assert_eq!(composed, Ok(ResourceId { uri: routed.uri, path: routed.path }));
            }
            Err(error) => {
                prop_assert!(composed.is_err());
                prop_assert!(error.mount().is_none_or(|mount| mount.as_str() == at));
                prop_assert_ne!(error, RouteError::NoMount);
            }
        }
    }

    #[test]
    fn routing_a_routed_uri_changes_nothing(uri in client_uri()) {
        let router = router(&MOUNTS);
        let Ok(routed) = router.route(&uri) else { return Ok(()) };
        prop_assert!(routed.uri.as_str().starts_with(routed.mount.as_str()));
        prop_assert_eq!(router.route(routed.uri.as_str()), Ok(routed));
    }

    #[test]
    fn the_normal_form_is_that_of_rfc_3986(uri in client_uri()) {
        let router = router(&MOUNTS);
        let Ok(routed) = router.route(&uri) else { return Ok(()) };
        let normal = UriAbsoluteStr::new(&uri).expect("a URI").normalize().to_dedicated_string();
        // Only an empty query is removed.
        let normal = with_decoded_delimiters(normal.as_str());
        let normal = match normal.split_once('?') {
            Some((before, "")) => before.to_owned(),
            _ => normal,
        };
        let host = routed.uri.as_str().split('/').nth(2).unwrap_or_default();
        // `iri-string` keeps the capitals of hosts that are not ASCII.
        let uri = routed.uri.as_str();
        let is_normal = if host.contains('%') { normal.eq_ignore_ascii_case(uri) } else { normal == uri };
        // The only other difference is the trailing slash of a mount.
        let (place, query) = uri.split_at(routed.mount.as_str().len());
        let without_slash = [place.trim_end_matches('/'), query].concat();
        prop_assert!(is_normal || normal == without_slash || normal == "notes://", "{uri} is not {normal}");
    }

    #[test]
    fn routing_finds_what_looking_at_every_mount_finds(
        hosts in proptest::collection::btree_set("[ab]{1,4}", 0..12),
        host in "[ab]{0,4}",
    ) {
        let mounts: Vec<Mount> = hosts.iter().map(|host| mount(&format!("x://{host}/"))).collect();
        let uri = format!("x://{host}/a");
        let router = Router::new(mounts.iter().map(|mount| (mount.clone(), ()))).expect("hosts do not overlap");
        let expected = mounts.iter().find(|mount| uri.starts_with(mount.as_str()));
        prop_assert_eq!(router.route(&uri).ok().map(|routed| routed.mount), expected);
    }

    #[test]
    fn a_mount_is_its_own_normal_form(text in hostile(), tail in select(&["", "/"][..])) {
        let text = format!("x://{text}{tail}");
        let Ok(mount) = text.parse::<Mount>() else { return Ok(()) };
        prop_assert_eq!(mount.as_str().parse::<Mount>(), Ok(mount.clone()));
        prop_assert_eq!(mount.compose("").map(|located| located.uri.to_string()), Ok(mount.to_string()));
        prop_assert!(mount.compose("a/b").is_ok());
    }

    #[test]
    fn templates_stay_templates(
        at in any_mount(),
        path_template in template(),
        values in ("[a-z/.%]{0,3}", "[ -~]{0,5}", ".{0,2}"),
    ) {
        let at = mount(at);
        let Ok(template) = at.compose_template(&path_template) else { return Ok(()) };
        let mut context = SimpleContext::new();
        for (name, value) in [("a", values.0), ("b", values.1), ("c", values.2)] {
            context.insert(name, value);
        }
        let expand = |template: &str| {
            let template = UriTemplateStr::new(template).expect("a template");
            template.expand::<UriSpec, _>(&context).expect("strings expand").to_string()
        };
        let expanded = expand(template.path_template());
        prop_assert_eq!(expand(template.as_str()), [at.as_str(), &expanded].concat());
        // Normalizing the literals has not changed the resources of the template.
        prop_assert_eq!(at.compose(&expand(&path_template)).ok(), at.compose(&expanded).ok());
        prop_assert_eq!(at.compose_template(template.path_template()), Ok(template.clone()));
        let names = UriTemplateStr::new(template.as_str()).expect("a template");
        let mut names: Vec<_> = names.variables().map(|name| name.as_str()).collect();
        let mut found: Vec<_> = template.variables().collect();
        names.sort_unstable();
        names.dedup();
        found.sort_unstable();
        prop_assert_eq!(names, found);
    }

    #[test]
    fn a_composed_template_routes_back_to_its_plugin(at in any_mount(), path_template in template()) {
        let Ok(template) = mount(at).compose_template(&path_template) else { return Ok(()) };
        let router = router(&MOUNTS);
        prop_assert_eq!(router.route_template(template.as_str()), Ok((&at, template.clone())));
        prop_assert_eq!(mount(at).template_path(template.as_str()), Some(template.path_template()));
    }

    #[test]
    fn no_text_makes_anything_panic(text in prop_oneof![any::<String>(), hostile(), template()]) {
        let router = router(&MOUNTS);
        for text in [text.clone(), format!("web://{text}"), format!("files://h/a/{text}")] {
            let _ = (router.route(&text).is_ok(), router.route_template(&text).is_ok(), text.parse::<Mount>().is_ok());
            for (mount, _) in router.iter() {
                let _ = (mount.compose(&text).is_ok(), mount.compose_template(&text).is_ok());
                let _ = mount.template_path(&text);
            }
        }
    }
}
