//! What a request asks that an extension answers.

use crate::config::Extension;
use crate::server::message::{Kind, Message};
use crate::server::params::{Malformed, Params};
use crate::server::revision::Revision;

/// What a request asks that an extension answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Asked {
    /// `resources/list`, as SEP-2093 has it.
    List(Below<Option<String>>),
    /// `resources/read`, as SEP-2093 has it.
    Read(One),
    /// `resources/metadata` of SEP-2093.
    Metadata(One),
    /// `resources/directory/read` of SEP-2640.
    Directory(Below<String>),
    /// `skills/list` of SEP-2640.
    Skills(Onward),
    /// `skills/get` of SEP-2640.
    Skill(One),
    /// One of the methods of SEP-2640 in a revision that it is not for. There is no such method, though rmcp has it in all.
    Unknown(String),
}

/// The parameters of a method that lists what is below a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Below<U> {
    /// The resource.
    pub(in crate::server) uri: U,
    /// Where to go on.
    pub(in crate::server) cursor: Option<String>,
}

/// The parameters of a method that lists what there is none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Onward {
    /// Where to go on; as there is one page, nobody was told.
    pub(in crate::server) cursor: Option<String>,
}

/// The parameters of a method that is about one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct One {
    /// The resource.
    pub(in crate::server) uri: String,
}

/// What of a message of that revision those extensions answer, if anything.
pub(in crate::server) fn look(
    on: &[Extension],
    revision: Revision,
    message: &Message,
) -> Option<Result<Asked, Malformed>> {
    let Kind::Request { method, params, .. } = &message.kind else { return None };
    let (sep_2093, directories) = (on.contains(&Extension::Sep2093), on.contains(&Extension::Sep2640DirectoryRead));
    let asked: fn(Params) -> Option<Asked> = match method.as_str() {
        "resources/list" if sep_2093 => |params| match params {
            Params::Page { uri, cursor } => Some(Asked::List(Below { uri, cursor })),
            _ => None,
        },
        "resources/read" if sep_2093 => |params| one(params).map(Asked::Read),
        "resources/metadata" if sep_2093 => |params| one(params).map(Asked::Metadata),
        "resources/directory/read" | "skills/list" | "skills/get" if directories && !revision.has_extensions() => {
            return Some(Ok(Asked::Unknown(method.clone())));
        }
        "resources/directory/read" if directories => |params| match params {
            Params::Resource { uri, cursor } => Some(Asked::Directory(Below { uri, cursor })),
            _ => None,
        },
        "skills/list" if directories => |params| match params {
            Params::Page { cursor, .. } => Some(Asked::Skills(Onward { cursor })),
            _ => None,
        },
        "skills/get" if directories => |params| one(params).map(Asked::Skill),
        _ => return None,
    };
    // If the extension has been switched on since the message was read, it is for the next one.
    params.clone().map(asked).transpose()
}

fn one(params: Params) -> Option<One> {
    match params {
        Params::Resource { uri, .. } => Some(One { uri }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::server::message::{self, Sent};

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

    fn looked_at(on: &[Extension], method: &str, params: &Value) -> Option<Result<Asked, Malformed>> {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let Ok(Sent::One(message)) = message::read(text.as_bytes(), None, on) else { panic!("{text}") };
        look(on, Revision::NEWEST, &message)
    }

    #[test]
    fn an_extension_answers_its_own_methods_alone() {
        let params = json!({ "uri": "a://x/y", "cursor": "c" });
        let answered = |on: &[Extension]| {
            let asked =
                METHODS.map(|method| looked_at(on, method, &params).map(|asked| asked.map(|_| method).unwrap()));
            asked.into_iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(answered(&[]), [""; 0]);
        assert_eq!(answered(&[Extension::Sep2093]), METHODS[..3]);
        assert_eq!(answered(&[Extension::Sep2640DirectoryRead]), METHODS[3..6]);
        assert_eq!(answered(&Extension::ALL), METHODS[..6]);
    }

    #[test]
    fn what_is_asked_is_what_the_parameters_say() {
        let asked = |method, params| looked_at(&Extension::ALL, method, &params).unwrap().unwrap();
        let below = |uri: Option<&str>, cursor: Option<&str>| {
            Asked::List(Below { uri: uri.map(str::to_owned), cursor: cursor.map(str::to_owned) })
        };
        assert_eq!(asked("resources/list", json!({})), below(None, None));
        assert_eq!(asked("resources/list", json!(null)), below(None, None));
        assert_eq!(asked("resources/list", json!({ "uri": null, "cursor": null })), below(None, None));
        assert_eq!(asked("resources/list", json!({ "uri": "a", "cursor": "b" })), below(Some("a"), Some("b")));
        let one = One { uri: "a".to_owned() };
        assert_eq!(asked("resources/metadata", json!({ "uri": "a", "more": 1 })), Asked::Metadata(one));
    }

    #[test]
    fn parameters_that_are_not_those_of_the_method_are_an_error_that_says_what_was_expected() {
        let fault = |on: &[Extension], method, params| looked_at(on, method, &params).unwrap().unwrap_err().0;
        assert_eq!(
            fault(&[Extension::Sep2093], "resources/list", json!({ "uri": 5 })),
            "resources/list: expected params `{\"uri\"?: string, \"cursor\"?: string}`: invalid type: integer `5`, \
             expected a string"
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
        assert_eq!(looked_at(&[], "resources/list", &json!({ "uri": 5 })), None);
        assert_eq!(looked_at(&[], "resources/metadata", &json!({ "uri": 5 })), None);
    }

    #[test]
    fn directories_are_read_in_revisions_that_have_extensions() {
        let params = json!({ "uri": "a://x/y" });
        for (revision, method) in
            Revision::ALL.into_iter().flat_map(|revision| METHODS.map(|method| (revision, method)))
        {
            let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
            let on = [Extension::Sep2640DirectoryRead];
            let Ok(Sent::One(message)) = message::read(text.as_bytes(), None, &on) else { panic!("{text}") };
            let asked = look(&on, revision, &message).map(Result::unwrap);
            let is_unknown = matches!(asked, Some(Asked::Unknown(_)));
            assert_eq!(asked.is_some(), METHODS[3..6].contains(&method), "{revision:?} {method}");
            assert_eq!(is_unknown, asked.is_some() && !revision.has_extensions(), "{revision:?} {method}");
        }
    }

    proptest! {
        #[test]
        fn with_nothing_switched_on_nothing_is_answered(method in ".{0,20}", uri in ".{0,20}") {
            for method in METHODS.into_iter().chain([method.as_str()]) {
                prop_assert_eq!(looked_at(&[], method, &json!({ "uri": uri })), None);
            }
        }
    }
}
