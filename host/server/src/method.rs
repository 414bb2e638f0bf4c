//! The table of methods, and the error for a method that does not exist.
//!
//! A new method is a row here, with the function that parses its parameters, and a branch in
//! [`respond`](super::respond) that executes its [`Request`].
//!
//! If two rows have the same name, the first is the extension's variant of the method, which is used while the
//! extension is enabled.

use std::borrow::Cow;

use mcp_host_config::{AdvertisedCapability, Config, Extension, Operation};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use serde_json::value::RawValue;

use super::error::{ErrorCode, RpcError};
use super::params::{InvalidParams, MAX_VERSION_NAME, Members, RequestMeta, ToolParams, truncate, without_position};
use super::request::{ExtensionRequest, Request};
use super::revision::Revision;
use super::tools;

/// The maximum length of a method's name in an error.
const MAX_QUOTED_METHOD: usize = 64;

/// A method.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Returns whether a revision has the method.
    is_in: fn(Revision) -> bool,
    /// A further condition for the method to exist.
    condition: Condition,
    /// Whether the method changes the state of a session, so that it has no effect outside of one.
    pub(super) needs_session: bool,
    /// Whether the method is about the protocol and not about resources. In an HTTP session such a method is answered
    /// by an event stream, and less is reserved for its answer.
    pub(super) is_protocol: bool,
    /// The operations on resources that the method always performs.
    operations: &'static [Operation],
    /// Whether `Mcp-Name` must repeat the name or URI in the parameters (SEP-2243).
    pub(super) has_name_header: bool,
    /// The parameters, as an error describes them.
    pub(super) params: &'static str,
    /// Parses the parameters, or returns their fault.
    pub(super) parse: fn(&Members<'_>) -> Result<Request, String>,
}

/// A condition for a method to exist, besides its revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    None,
    /// The extension is enabled.
    Extension(Extension),
    /// A plugin that is at least partly visible to the principal supports subscriptions, or the session was offered
    /// them.
    Subscriptions,
    /// The config announces prompts.
    Prompts,
    /// The config has tools or announces them.
    Tools,
    /// The skills extension is declared to the principal.
    Skills,
}

const NO_PARAMS: &str = "{}";
const PAGE_PARAMS: &str = "{\"cursor\"?: string}";
const RESOURCE_PARAMS: &str = "{\"uri\": string}";

/// The common values of most methods.
const RESOURCES: Method = Method {
    name: "",
    is_in: |_| true,
    condition: Condition::None,
    needs_session: false,
    is_protocol: false,
    operations: &[],
    has_name_header: false,
    params: NO_PARAMS,
    parse: |_| Err(String::new()),
};
const PROTOCOL: Method = Method { is_protocol: true, ..RESOURCES };
const SEP_2093: Method = Method { condition: Condition::Extension(Extension::Sep2093), ..RESOURCES };
const SKILLS: Method = Method {
    is_in: Revision::has_extensions,
    condition: Condition::Skills,
    operations: &[Operation::List, Operation::Read],
    ..RESOURCES
};
const SUBSCRIPTION: Method = Method {
    is_in: Revision::has_sessions,
    condition: Condition::Subscriptions,
    needs_session: true,
    has_name_header: true,
    params: RESOURCE_PARAMS,
    ..PROTOCOL
};
const PROMPTS: Method = Method { condition: Condition::Prompts, ..PROTOCOL };
const TOOLS: Method = Method { condition: Condition::Tools, ..RESOURCES };

/// The number of rows.
pub(super) const METHOD_COUNT: usize = 21;

static METHODS: [Method; METHOD_COUNT] = [
    Method {
        name: "initialize",
        is_in: Revision::has_sessions,
        params: "{\"protocolVersion\": string, \"capabilities\": object, \"clientInfo\": {\"name\": string, \"version\": \
                 string}}",
        parse: |members| members.initialize().map(Request::Initialize),
        ..PROTOCOL
    },
    Method { name: "ping", is_in: Revision::has_sessions, parse: |_| Ok(Request::Ping), ..PROTOCOL },
    Method {
        name: "server/discover",
        is_in: |revision| !revision.has_sessions(),
        parse: |_| Ok(Request::Discover),
        ..PROTOCOL
    },
    Method {
        name: "resources/list",
        operations: &[Operation::List],
        params: "{\"uri\"?: string, \"cursor\"?: string}",
        parse: |members| {
            let (uri, cursor) = (members.optional_uri()?, members.cursor()?);
            Ok(Request::Extension(ExtensionRequest::List { uri, cursor }))
        },
        ..SEP_2093
    },
    Method {
        name: "resources/list",
        operations: &[Operation::List],
        params: PAGE_PARAMS,
        parse: |members| members.cursor().map(Request::List),
        ..RESOURCES
    },
    Method {
        name: "resources/templates/list",
        operations: &[Operation::Templates],
        params: PAGE_PARAMS,
        parse: |members| members.cursor().map(Request::Templates),
        ..RESOURCES
    },
    Method {
        name: "resources/read",
        operations: &[Operation::Read],
        has_name_header: true,
        params: RESOURCE_PARAMS,
        parse: |members| members.uri().map(ExtensionRequest::Read).map(Request::Extension),
        ..SEP_2093
    },
    Method {
        name: "resources/read",
        operations: &[Operation::Read],
        has_name_header: true,
        params: RESOURCE_PARAMS,
        parse: |members| members.uri().map(Request::Read),
        ..RESOURCES
    },
    Method {
        name: "resources/metadata",
        operations: &[Operation::Metadata],
        params: RESOURCE_PARAMS,
        parse: |members| members.uri().map(ExtensionRequest::Metadata).map(Request::Extension),
        ..SEP_2093
    },
    Method {
        name: "resources/directory/read",
        operations: &[Operation::List],
        params: "{\"uri\": string, \"cursor\"?: string}",
        parse: |members| {
            let (uri, cursor) = (members.uri()?, members.cursor()?);
            Ok(Request::Extension(ExtensionRequest::Directory { uri, cursor }))
        },
        is_in: Revision::has_extensions,
        condition: Condition::Extension(Extension::Sep2640DirectoryRead),
        ..RESOURCES
    },
    Method {
        name: "skills/list",
        params: PAGE_PARAMS,
        parse: |members| members.cursor().map(ExtensionRequest::Skills).map(Request::Extension),
        ..SKILLS
    },
    Method {
        name: "skills/get",
        params: RESOURCE_PARAMS,
        parse: |members| members.uri().map(ExtensionRequest::Skill).map(Request::Extension),
        ..SKILLS
    },
    Method {
        name: "resources/subscribe",
        operations: &[Operation::Subscribe],
        parse: |members| members.uri().map(Request::Subscribe),
        ..SUBSCRIPTION
    },
    Method { name: "resources/unsubscribe", parse: |members| members.uri().map(Request::Unsubscribe), ..SUBSCRIPTION },
    Method {
        name: "subscriptions/listen",
        is_in: |revision| !revision.has_sessions(),
        operations: &[Operation::Subscribe],
        params: "{\"notifications\": {\"resourcesListChanged\"?: boolean, \"resourceSubscriptions\"?: [string]}}",
        parse: |members| members.listen().map(Request::Listen),
        ..RESOURCES
    },
    Method {
        name: "completion/complete",
        operations: &[Operation::Complete],
        params: "{\"ref\": {\"type\": \"ref/resource\", \"uri\": string}, \"argument\": {\"name\": string, \"value\": \
                 string}, \"context\"?: {\"arguments\"?: {NAME: string}}}",
        parse: |members| members.complete().map(Request::Complete),
        ..RESOURCES
    },
    Method {
        name: "logging/setLevel",
        is_in: Revision::has_logging,
        needs_session: true,
        params: "{\"level\": string}`, one of `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, \
                 `emergency",
        parse: |members| members.level().map(Request::SetLevel),
        ..PROTOCOL
    },
    Method {
        name: "prompts/list",
        params: PAGE_PARAMS,
        parse: |members| members.cursor().map(|_| Request::ListPrompts),
        ..PROMPTS
    },
    Method {
        name: "prompts/get",
        has_name_header: true,
        params: "{\"name\": string, \"arguments\"?: object}",
        parse: |members| members.prompt_name().map(Request::GetPrompt),
        ..PROMPTS
    },
    Method {
        name: "tools/list",
        params: PAGE_PARAMS,
        parse: |members| members.cursor().map(Request::ListTools),
        ..TOOLS
    },
    Method {
        name: "tools/call",
        has_name_header: true,
        params: ToolParams::EXPECTED,
        parse: |members| members.tool().map(Request::CallTool),
        ..TOOLS
    },
];

impl Method {
    /// Returns the method of this name with these extensions enabled.
    pub(super) fn named(name: &str, on: &[Extension]) -> Option<&'static Self> {
        METHODS.iter().find(|method| match method.condition {
            _ if method.name != name => false,
            Condition::Extension(extension) => on.contains(&extension),
            _ => true,
        })
    }

    /// Returns the number of the method's row. A method and its variant in an extension have the number of the first
    /// row.
    pub(super) fn number(&self) -> usize {
        let row = METHODS.iter().position(|method| std::ptr::eq(method, self)).unwrap_or(METHOD_COUNT);
        let before = row.checked_sub(1).filter(|before| METHODS.get(*before).is_some_and(|row| row.name == self.name));
        before.unwrap_or(row)
    }

    /// The name of each row.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        METHODS.iter().map(|method| method.name)
    }

    /// Returns whether the method exists for the principal in this revision. `may_subscribe` is whether its session was
    /// offered subscriptions: the capability holds for the lifetime of the session, even if a reload removes the
    /// plugin.
    pub(super) fn exists(
        &self,
        host: &Host,
        config: &Config,
        principal: &Principal,
        revision: Revision,
        may_subscribe: bool,
    ) -> bool {
        let server = &config.server;
        (self.is_in)(revision)
            && match self.condition {
                Condition::None => true,
                Condition::Extension(extension) => server.extensions.contains(&extension),
                Condition::Subscriptions => may_subscribe || host.supports_subscriptions(principal),
                Condition::Prompts => server.advertise.contains(&AdvertisedCapability::Prompts),
                Condition::Tools => server.advertise.contains(&AdvertisedCapability::Tools) || !server.tools.is_empty(),
                Condition::Skills => host.has_skills(principal),
            }
    }

    /// Returns the operations on resources that a request of this method performs. Methods of the protocol perform
    /// none.
    ///
    /// The resources of search and context consist of resources that the principal may list and read, so a request for
    /// one performs these operations, too.
    pub(super) fn operations(&self, host: &Host, request: Option<&Request>) -> Vec<Operation> {
        let of_method = match request {
            Some(Request::CallTool(call)) => tools::operations(call.name.as_deref().unwrap_or_default()),
            _ => self.operations,
        };
        let uris = request.filter(|_| !of_method.is_empty()).map(requested_uris).unwrap_or_default();
        performed_operations(host, of_method, uris.iter().map(|uri| &**uri))
    }
}

/// Returns the operations of a request for these URIs and templates: its own, and those that the built-in providers of
/// the URIs perform, each once. Each interface that checks the scopes of a token takes them from here.
pub(super) fn performed_operations<'a>(
    host: &Host,
    own: &[Operation],
    uris: impl IntoIterator<Item = &'a str>,
) -> Vec<Operation> {
    let mut operations = own.to_vec();
    for operation in uris.into_iter().flat_map(|uri| host.performed_operations(uri)) {
        if !operations.contains(operation) {
            operations.push(*operation);
        }
    }
    operations
}

/// Returns the URIs and templates that a request names.
fn requested_uris(request: &Request) -> Vec<Cow<'_, str>> {
    match request {
        Request::Listen(listen) => listen.subscriptions.iter().flatten().map(Cow::from).collect(),
        Request::CallTool(call) => tools::requested_uri(call).map(Cow::from).into_iter().collect(),
        request => request.uri().map(Cow::from).into_iter().collect(),
    }
}

/// The parsed parameters of a request.
#[derive(Debug)]
pub(super) struct ParsedParams {
    /// The request.
    pub(super) request: Result<Request, InvalidParams>,
    /// Its `_meta`.
    pub(super) meta: RequestMeta,
}

/// Parses the parameters of a request. The parameters of an unknown method are valid if they are an object.
pub(super) fn parse_params(name: &str, method: Option<&Method>, params: Option<&RawValue>) -> ParsedParams {
    // Some libraries send `null` for an absent value.
    let text = params.map(RawValue::get).filter(|params| *params != "null").unwrap_or("{}");
    let malformed = |meta, fault: String| {
        let fault = format!("{}: {fault}", truncate(name, MAX_VERSION_NAME));
        ParsedParams { request: Err(InvalidParams(fault)), meta }
    };
    if !text.starts_with('{') {
        return malformed(RequestMeta::default(), "expected params to be an object".to_owned());
    }
    let members: Members<'_> = match serde_json::from_str(text) {
        Ok(members) => members,
        Err(error) => return malformed(RequestMeta::default(), without_position(&error)),
    };
    let meta = match members.meta.map(RequestMeta::parse) {
        None => RequestMeta { is_valid: true, ..RequestMeta::default() },
        Some(Ok(meta)) => meta,
        Some(Err(fault)) => return malformed(RequestMeta::default(), fault),
    };
    let Some(method) = method else { return ParsedParams { request: Ok(Request::Unknown(name.to_owned())), meta } };
    match (method.parse)(&members) {
        Ok(request) => ParsedParams { request: Ok(request), meta },
        Err(fault) => malformed(meta, format!("expected params `{}`: {fault}", method.params)),
    }
}

/// Returns the error for a method that does not exist for the principal. The error lists the existing methods.
pub(super) fn method_not_found(
    host: &Host,
    config: &Config,
    principal: &Principal,
    revision: Revision,
    method: &str,
) -> RpcError {
    let (method, revision_name) = (truncate(method, MAX_QUOTED_METHOD), revision.name());
    let known = supported_methods(host, config, principal, revision).join(", ");
    let message = format!("method not found: `{method}`; in revision {revision_name} this server has {known}");
    RpcError::new(ErrorCode::METHOD_NOT_FOUND, message)
}

/// Returns the names of all methods that exist for the principal in this revision.
pub(super) fn supported_methods(
    host: &Host,
    config: &Config,
    principal: &Principal,
    revision: Revision,
) -> Vec<&'static str> {
    let methods = METHODS.iter().filter(|method| method.exists(host, config, principal, revision, false));
    let mut names: Vec<_> = methods.map(|method| method.name).collect();
    // A method and its variant in an extension are neighbors.
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::jsonrpc::{self, Incoming, Kind};
    use crate::params::InvalidParams;

    const EXTENDED: [&str; 6] = [
        "resources/list",
        "resources/read",
        "resources/metadata",
        "resources/directory/read",
        "skills/list",
        "skills/get",
    ];

    fn parse(on: &[Extension], method: &str, params: &Value) -> Result<Request, InvalidParams> {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        match jsonrpc::parse(text.as_bytes(), None, on) {
            Ok(Incoming::Single(jsonrpc::Message { kind: Kind::Request { request, .. }, .. })) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn rows_of_one_name_are_neighbors_and_the_last_of_them_is_of_no_extension() {
        let is_extended = |method: &Method| matches!(method.condition, Condition::Extension(_));
        for (at, method) in METHODS.iter().enumerate() {
            let same: Vec<_> = METHODS.iter().enumerate().filter(|(_, other)| other.name == method.name).collect();
            assert!(same.len() <= 2, "{}", method.name);
            if let [(first, extended), (second, plain)] = same[..] {
                assert!(first + 1 == second && is_extended(extended) && !is_extended(plain), "{} {at}", method.name);
            }
        }
    }

    /// With OAuth, a method without operations requires only the scopes of every request.
    #[test]
    fn a_method_of_resources_has_the_operations_that_it_performs() {
        for Method { name, operations, is_protocol, condition, .. } in &METHODS {
            let is_of_resources = !is_protocol && !matches!(condition, Condition::Tools);
            assert!(!is_of_resources || !operations.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_extension_parses_its_own_methods_alone() {
        let params = json!({ "uri": "a://x/y", "cursor": "c" });
        let extended = |on: &[Extension]| {
            let is_extended = |method: &&str| matches!(parse(on, method, &params), Ok(Request::Extension(_)));
            EXTENDED.iter().copied().filter(is_extended).collect::<Vec<_>>()
        };
        // A plugin declares the skills extension, too.
        assert_eq!(extended(&[]), EXTENDED[4..]);
        assert_eq!(extended(&[Extension::Sep2093]), [&EXTENDED[..3], &EXTENDED[4..]].concat());
        assert_eq!(extended(&[Extension::Sep2640DirectoryRead]), EXTENDED[3..]);
        assert_eq!(extended(&Extension::ALL), EXTENDED);
    }

    #[test]
    fn a_request_is_what_its_parameters_say() {
        let parsed = |method, params| match parse(&Extension::ALL, method, &params) {
            Ok(Request::Extension(request)) => request,
            other => panic!("{method}: {other:?}"),
        };
        let below = |uri: Option<&str>, cursor: Option<&str>| ExtensionRequest::List {
            uri: uri.map(str::to_owned),
            cursor: cursor.map(str::to_owned),
        };
        assert_eq!(parsed("resources/list", json!({})), below(None, None));
        assert_eq!(parsed("resources/list", json!(null)), below(None, None));
        assert_eq!(parsed("resources/list", json!({ "uri": null, "cursor": null })), below(None, None));
        assert_eq!(parsed("resources/list", json!({ "uri": "a", "cursor": "b" })), below(Some("a"), Some("b")));
        let metadata = ExtensionRequest::Metadata("a".to_owned());
        assert_eq!(parsed("resources/metadata", json!({ "uri": "a", "more": 1 })), metadata);
    }

    #[test]
    fn parameters_that_are_not_those_of_the_method_are_an_error_that_says_what_was_expected() {
        let fault = |on: &[Extension], method, params: &Value| parse(on, method, params).unwrap_err().0;
        assert_eq!(
            fault(&[Extension::Sep2093], "resources/list", &json!({ "uri": 5 })),
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
            assert!(fault(&Extension::ALL, method, &params).starts_with(method), "{params}");
        }
        assert_eq!(parse(&[], "resources/list", &json!({ "uri": 5 })), Ok(Request::List(None)));
        let unknown = Request::Unknown("resources/metadata".to_owned());
        assert_eq!(parse(&[], "resources/metadata", &json!({ "uri": 5 })), Ok(unknown));
    }

    #[test]
    fn directories_are_read_in_revisions_that_have_extensions() {
        for method in METHODS.iter().filter(|method| EXTENDED[3..].contains(&method.name)) {
            for revision in Revision::ALL {
                assert_eq!((method.is_in)(revision), revision.has_extensions(), "{revision:?} {}", method.name);
            }
        }
    }

    proptest! {
        #[test]
        fn without_extensions_no_request_is_one_of_them(method in ".{0,20}", uri in ".{0,20}") {
            for method in EXTENDED[..4].iter().copied().chain([method.as_str()]) {
                let parsed = parse(&[], method, &json!({ "uri": uri }));
                prop_assert!(!matches!(parsed, Ok(Request::Extension(_))));
            }
        }
    }
}
