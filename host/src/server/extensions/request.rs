//! The requests of extensions.

use crate::config::Extension;
use crate::server::jsonrpc::{Kind, Message};
use crate::server::params::{InvalidParams, Params};
use crate::server::revision::Revision;

/// A request of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum ExtensionRequest {
    /// `resources/list`, as SEP-2093 has it.
    List(ListParams<Option<String>>),
    /// `resources/read`, as SEP-2093 has it.
    Read(UriParams),
    /// `resources/metadata` of SEP-2093.
    Metadata(UriParams),
    /// `resources/directory/read` of SEP-2640.
    Directory(ListParams<String>),
    /// `skills/list` of SEP-2640.
    Skills(PageParams),
    /// `skills/get` of SEP-2640.
    Skill(UriParams),
    /// A method of SEP-2640 in a revision without it. The method does not exist there, although rmcp has it in all
    /// revisions.
    Unknown(String),
}

/// The parameters of a method that lists the children of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct ListParams<U> {
    /// The resource.
    pub(in crate::server) uri: U,
    /// The position to continue from.
    pub(in crate::server) cursor: Option<String>,
}

/// The parameters of a method whose list is always empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct PageParams {
    /// The position to continue from. No result has such a cursor, as there is one page.
    pub(in crate::server) cursor: Option<String>,
}

/// The parameters of a method with one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct UriParams {
    /// The resource.
    pub(in crate::server) uri: String,
}

impl ExtensionRequest {
    /// Returns the method, and the URI if the request has one.
    pub(in crate::server) fn method_and_uri(&self) -> (&'static str, Option<&String>) {
        match self {
            Self::List(params) => ("resources/list", params.uri.as_ref()),
            Self::Read(params) => ("resources/read", Some(&params.uri)),
            Self::Metadata(params) => ("resources/metadata", Some(&params.uri)),
            Self::Directory(params) => ("resources/directory/read", Some(&params.uri)),
            Self::Skills(_) => ("skills/list", None),
            Self::Skill(params) => ("skills/get", Some(&params.uri)),
            Self::Unknown(_) => ("unknown", None),
        }
    }
}

/// Parses a message as a request of one of those extensions; none if it is not one in that revision.
pub(in crate::server) fn parse(
    on: &[Extension],
    revision: Revision,
    message: &Message,
) -> Option<Result<ExtensionRequest, InvalidParams>> {
    let Kind::Request { method, params, .. } = &message.kind else { return None };
    let (sep_2093, directories) = (on.contains(&Extension::Sep2093), on.contains(&Extension::Sep2640DirectoryRead));
    let to_request: fn(Params) -> Option<ExtensionRequest> = match method.as_str() {
        "resources/list" if sep_2093 => |params| match params {
            Params::Page { uri, cursor } => Some(ExtensionRequest::List(ListParams { uri, cursor })),
            _ => None,
        },
        "resources/read" if sep_2093 => |params| uri_params(params).map(ExtensionRequest::Read),
        "resources/metadata" if sep_2093 => |params| uri_params(params).map(ExtensionRequest::Metadata),
        "resources/directory/read" | "skills/list" | "skills/get" if directories && !revision.has_extensions() => {
            return Some(Ok(ExtensionRequest::Unknown(method.clone())));
        }
        "resources/directory/read" if directories => |params| match params {
            Params::Resource { uri, cursor } => Some(ExtensionRequest::Directory(ListParams { uri, cursor })),
            _ => None,
        },
        "skills/list" if directories => |params| match params {
            Params::Page { cursor, .. } => Some(ExtensionRequest::Skills(PageParams { cursor })),
            _ => None,
        },
        "skills/get" if directories => |params| uri_params(params).map(ExtensionRequest::Skill),
        _ => return None,
    };
    // If the extension was enabled after the message had been parsed, it applies from the next message on.
    params.clone().map(to_request).transpose()
}

fn uri_params(params: Params) -> Option<UriParams> {
    match params {
        Params::Resource { uri, .. } => Some(UriParams { uri }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::server::jsonrpc::{self, Incoming};

    const METHODS: [&str; 8] = [
        "resources/list",
        "resources/read",
        "resources/metadata",
        "resources/directory/read",
        "skills/list",
        "skills/get",
        "resources/templates/list",
        "nonsense",
    ];

    fn parse_request(
        on: &[Extension],
        method: &str,
        params: &Value,
    ) -> Option<Result<ExtensionRequest, InvalidParams>> {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let Ok(Incoming::Single(message)) = jsonrpc::parse(text.as_bytes(), None, on) else { panic!("{text}") };
        parse(on, Revision::LATEST, &message)
    }

    #[test]
    fn an_extension_answers_its_own_methods_alone() {
        let params = json!({ "uri": "a://x/y", "cursor": "c" });
        let answered = |on: &[Extension]| {
            let asked =
                METHODS.map(|method| parse_request(on, method, &params).map(|asked| asked.map(|_| method).unwrap()));
            asked.into_iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(answered(&[]), [""; 0]);
        assert_eq!(answered(&[Extension::Sep2093]), METHODS[..3]);
        assert_eq!(answered(&[Extension::Sep2640DirectoryRead]), METHODS[3..6]);
        assert_eq!(answered(&Extension::ALL), METHODS[..6]);
    }

    #[test]
    fn what_is_asked_is_what_the_parameters_say() {
        let asked = |method, params| parse_request(&Extension::ALL, method, &params).unwrap().unwrap();
        let below = |uri: Option<&str>, cursor: Option<&str>| {
            ExtensionRequest::List(ListParams { uri: uri.map(str::to_owned), cursor: cursor.map(str::to_owned) })
        };
        assert_eq!(asked("resources/list", json!({})), below(None, None));
        assert_eq!(asked("resources/list", json!(null)), below(None, None));
        assert_eq!(asked("resources/list", json!({ "uri": null, "cursor": null })), below(None, None));
        assert_eq!(asked("resources/list", json!({ "uri": "a", "cursor": "b" })), below(Some("a"), Some("b")));
        let one = UriParams { uri: "a".to_owned() };
        assert_eq!(asked("resources/metadata", json!({ "uri": "a", "more": 1 })), ExtensionRequest::Metadata(one));
    }

    #[test]
    fn parameters_that_are_not_those_of_the_method_are_an_error_that_says_what_was_expected() {
        let fault = |on: &[Extension], method, params| parse_request(on, method, &params).unwrap().unwrap_err().0;
        assert_eq!(
            fault(&[Extension::Sep2093], "resources/list", json!({ "uri": 5 })),
            "resources/list: expected params `{\"uri\"?: string, \"cursor\"?: string}`: `uri`: expected a string, found 5"
        );
        for (method, params) in [
            ("resources/metadata", json!({})),
            ("resources/metadata", json!({ "uri": null })),
            ("resources/directory/read", json!({ "cursor": "c" })),
            ("skills/get", json!({})),
            ("resources/list", json!(["x", "y"])),
            ("resources/list", json!({ "_meta": 5 })),
        ] {
            assert!(fault(&Extension::ALL, method, params.clone()).starts_with(method), "{params}");
        }
        assert_eq!(parse_request(&[], "resources/list", &json!({ "uri": 5 })), None);
        assert_eq!(parse_request(&[], "resources/metadata", &json!({ "uri": 5 })), None);
    }

    #[test]
    fn directories_are_read_in_revisions_that_have_extensions() {
        let params = json!({ "uri": "a://x/y" });
        for (revision, method) in
            Revision::ALL.into_iter().flat_map(|revision| METHODS.map(|method| (revision, method)))
        {
            let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
            let on = [Extension::Sep2640DirectoryRead];
            let Ok(Incoming::Single(message)) = jsonrpc::parse(text.as_bytes(), None, &on) else { panic!("{text}") };
            let asked = parse(&on, revision, &message).map(Result::unwrap);
            let is_unknown = matches!(asked, Some(ExtensionRequest::Unknown(_)));
            assert_eq!(asked.is_some(), METHODS[3..6].contains(&method), "{revision:?} {method}");
            assert_eq!(is_unknown, asked.is_some() && !revision.has_extensions(), "{revision:?} {method}");
        }
    }

    proptest! {
        #[test]
        fn with_nothing_switched_on_nothing_is_answered(method in ".{0,20}", uri in ".{0,20}") {
            for method in METHODS.into_iter().chain([method.as_str()]) {
                prop_assert_eq!(parse_request(&[], method, &json!({ "uri": uri })), None);
            }
        }
    }
}
