use super::*;
use proptest::prelude::*;

/// Returns the values of the variables of `template` in `path`, in order.
fn values(template: &str, path: &str) -> Option<Vec<String>> {
    let template = PathTemplate::parse(template).unwrap();
    let captures = template.matches(path)?;
    Some(template.variables().filter_map(|name| captures.get(name)).map(str::to_owned).collect())
}

fn some(values: &[&str]) -> Option<Vec<String>> {
    Some(values.iter().map(|value| (*value).to_owned()).collect())
}

#[test]
fn a_literal_matches_itself_and_nothing_else() {
    assert_eq!(values("refs", "refs"), some(&[]));
    for path in ["", "ref", "refs/", "refsx", "refs?x=1", "Refs"] {
        assert_eq!(values("refs", path), None, "{path}");
    }
}

#[test]
fn a_variable_is_within_one_segment_and_not_empty() {
    assert_eq!(values("tag/{tag}", "tag/mcp"), some(&["mcp"]));
    for path in ["tag/", "tag/a/b", "tag", "tag/a/"] {
        assert_eq!(values("tag/{tag}", path), None, "{path}");
    }
}

#[test]
fn a_rest_takes_any_number_of_segments() {
    for (path, expected) in [("tree/main/", ""), ("tree/main/a", "a"), ("tree/main/a/b.md", "a/b.md")] {
        assert_eq!(values("tree/{rev}/{+path}", path), some(&["main", expected]), "{path}");
    }
}

#[test]
fn a_rest_can_be_followed_by_more() {
    assert_eq!(values("{+path}/raw/{name}", "a/raw/b/raw/c"), some(&["a/raw/b", "c"]));
    assert_eq!(values("{+path}/raw", "a/b/raw"), some(&["a/b"]));
    assert_eq!(values("{+path}/raw", "a/b"), None);
}

#[test]
fn earlier_variables_take_as_much_as_they_can() {
    assert_eq!(values("{name}.{ext}", "a.tar.gz"), some(&["a.tar", "gz"]));
    assert_eq!(values("{a}-{b}-{c}", "1-2-3-4"), some(&["1-2", "3", "4"]));
}

#[test]
fn captures_are_percent_decoded() {
    assert_eq!(values("blob/{rev}/{+path}", "blob/feature%2Fx/%E6%97%A5/a%20b.md"), some(&["feature/x", "日/a b.md"]));
}

#[test]
fn an_encoded_slash_is_a_slash_in_a_segment_and_nothing_in_a_rest() {
    assert_eq!(values("{rev}", "a%2Fb"), some(&["a/b"]));
    assert_eq!(values("{+path}", "a%2Fb"), None);
}

#[test]
fn a_value_never_ends_within_a_percent_encoding() {
    assert_eq!(values("{a}0{b}", "x%20y0z"), some(&["x y", "z"]));
    assert_eq!(values("{a}0{b}", "x%20y"), None);
}

#[test]
fn nul_and_malformed_percent_encodings_match_nothing() {
    for path in ["a%00", "a%", "a%2", "a%zz", "a%2?x=1"] {
        assert_eq!(values("{a}{?x}", path), None, "{path}");
    }
    assert_eq!(values("{a}{?x}", "a?x=%00"), None);
}

#[test]
fn a_value_that_is_no_text_is_there_in_bytes() {
    let captures = PathTemplate::parse("{+path}").unwrap().matches("%FF/a").unwrap();
    assert_eq!(captures.get("path"), None);
    assert_eq!(captures.get_bytes("path"), Some(b"\xff/a".as_slice()));
}

#[test]
fn a_query_matches_in_any_order_or_not_at_all() {
    let template = "log/{rev}{?path,limit}";
    assert_eq!(values(template, "log/main"), some(&["main"]));
    assert_eq!(values(template, "log/main?"), some(&["main"]));
    assert_eq!(values(template, "log/main?limit=3"), some(&["main", "3"]));
    assert_eq!(values(template, "log/main?limit=3&path=a/b?c"), some(&["main", "a/b?c", "3"]));
    assert_eq!(values(template, "log/main?path"), some(&["main", ""]));
}

#[test]
fn a_query_with_unknown_or_repeated_names_does_not_match() {
    for path in ["log?x=1", "log?limit=1&limit=2", "log?limit=1&", "log?limit=1&x"] {
        assert_eq!(values("log{?limit}", path), None, "{path}");
    }
}

#[test]
fn literals_of_a_query_must_be_there() {
    let template = "log?all=true{&limit}";
    assert_eq!(values(template, "log?all=true"), some(&[]));
    assert_eq!(values(template, "log?limit=3&all=true"), some(&["3"]));
    assert_eq!(values(template, "log?limit=3"), None);
    assert_eq!(values(template, "log?all=true&all=true"), None);
}

#[test]
fn what_is_no_template_or_cannot_be_matched_says_why() {
    for (template, reason) in [
        ("{a", "is not a URI template"),
        ("a b", "is not a URI template"),
        ("日本/{a}", "percent-encoded"),
        ("{a*}", "modifier"),
        ("{a:3}", "modifier"),
        ("{#a}", "is not supported"),
        ("{/a}", "is not supported"),
        ("{&a}", "is not supported"),
        ("{?a}{?b}", "is not supported"),
        ("x?a={a}", "is not supported"),
        ("a#b", "fragment"),
        ("{a,b}", "several variables"),
        ("{a}{+b}", "directly follows another variable"),
        ("{a}/{a}", "twice"),
    ] {
        let error = PathTemplate::parse(template).unwrap_err().to_string();
        assert!(error.contains(reason), "{template}: {error}");
    }
}

#[test]
fn expanding_needs_every_variable_of_the_path_and_none_of_the_query() {
    let template = PathTemplate::parse("log/{rev}{?limit}").unwrap();
    assert_eq!(template.expand(&[("rev", "main")]).unwrap(), "log/main");
    for values in [&[][..], &[("rev", "")], &[("limit", "3")]] {
        assert!(matches!(template.expand(values), Err(TemplateError::Missing { .. })), "{values:?}");
    }
}

#[test]
fn a_name_with_characters_of_a_uri_survives_expansion() {
    let template = PathTemplate::parse("blob/{+path}").unwrap();
    let path = template.expand(&[("path", "a?b/50%25#c.md")]).unwrap();
    assert_eq!(path, "blob/a%3Fb/50%2525%23c.md");
    assert_eq!(template.matches(&path).unwrap().get("path"), Some("a?b/50%25#c.md"));
}

#[test]
fn an_expansion_is_in_the_normal_form_of_the_host() {
    let delimiters = "@:!$&'()*+,;=";
    let template = PathTemplate::parse("{name}/{+path}{?q}").unwrap();
    let path = template.expand(&[("name", delimiters), ("path", delimiters), ("q", delimiters)]).unwrap();
    assert_eq!(path, format!("{delimiters}/{delimiters}?q=@:!$%26'()*%2B%2C%3B%3D"));
    let captures = template.matches(&path).unwrap();
    assert!(["name", "path", "q"].into_iter().all(|name| captures.get(name) == Some(delimiters)));
}

#[test]
fn a_match_of_a_hostile_path_ends() {
    // Backtracking over all ways to divide the path would take years.
    let template = PathTemplate::parse("{+a}-{+b}-{+c}-{+d}-{+e}x").unwrap();
    assert!(template.matches(&"-".repeat(2000)).is_none());
}

proptest! {
    #[test]
    fn what_was_expanded_matches_with_the_same_values(
        rev in "[^\0]{1,10}", path in "[^\0]{0,20}", limit in proptest::option::of("[^\0]{0,8}"),
    ) {
        let template = PathTemplate::parse("blob/{rev}/{+path}{?limit}").unwrap();
        let mut values = vec![("rev", rev.as_str()), ("path", path.as_str())];
        values.extend(limit.as_deref().map(|limit| ("limit", limit)));
        let expanded = template.expand(&values).unwrap();
        let captures = template.matches(&expanded).unwrap();
        prop_assert_eq!(captures.get("rev"), Some(rev.as_str()));
        prop_assert_eq!(captures.get("path"), Some(path.as_str()));
        prop_assert_eq!(captures.get("limit"), limit.as_deref());
    }

    #[test]
    fn matching_and_parsing_never_panic(template in "[a-z{}+?&,/%.=]{0,20}", path in ".{0,30}") {
        if let Ok(template) = PathTemplate::parse(&template) {
            let _ = template.matches(&path);
        }
        let _ = PathTemplate::parse("{a}-{+b}/{c}{?d,e}").unwrap().matches(&path);
    }
}
