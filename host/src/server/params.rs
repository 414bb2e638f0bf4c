//! What the parameters of each method must be.
//!
//! rmcp takes a request whose parameters it cannot read for one of an unknown method, or for one without parameters. They
//! are looked at before it does, so that what is wrong is said.

use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, InitializeRequestParams, PaginatedRequestParams,
    ReadResourceRequestParams, SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What is wrong with the parameters of a request, to go with it to where it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) String);

/// What is wrong with those parameters of that method, if anything is. Of a method that nobody knows, all are right.
pub(super) fn check(method: &str, params: Option<&Value>) -> Result<(), Malformed> {
    let none = Value::Object(Map::new());
    // Some libraries write out what is absent.
    let params = params.filter(|params| !params.is_null()).unwrap_or(&none);
    let fault = match params {
        Value::Object(members) if members.get("_meta").is_some_and(|meta| !meta.is_object()) => {
            Some("expected `_meta` to be an object".to_owned())
        }
        Value::Object(_) => of_method(method, params),
        _ => Some("expected params to be an object".to_owned()),
    };
    match fault {
        Some(fault) => Err(Malformed(format!("{method}: {fault}"))),
        None => Ok(()),
    }
}

#[allow(deprecated, reason = "the revisions that have it are still served")]
fn of_method(method: &str, params: &Value) -> Option<String> {
    match method {
        "initialize" => read::<InitializeRequestParams>(
            params,
            "{\"protocolVersion\": string, \"capabilities\": object, \"clientInfo\": {\"name\": string, \
             \"version\": string}}",
        ),
        "resources/list" | "resources/templates/list" | "prompts/list" | "tools/list" => {
            read::<PaginatedRequestParams>(params, "{\"cursor\"?: string}")
        }
        "resources/read" => read::<ReadResourceRequestParams>(params, "{\"uri\": string}"),
        "resources/subscribe" => read::<SubscribeRequestParams>(params, "{\"uri\": string}"),
        "resources/unsubscribe" => read::<UnsubscribeRequestParams>(params, "{\"uri\": string}"),
        "subscriptions/listen" => read::<SubscriptionsListenRequestParams>(
            params,
            "{\"notifications\": {\"resourcesListChanged\"?: boolean, \"resourceSubscriptions\"?: [string]}}",
        ),
        "completion/complete" => read::<CompleteRequestParams>(
            params,
            "{\"ref\": {\"type\": \"ref/resource\", \"uri\": string}, \"argument\": {\"name\": string, \"value\": string}, \
             \"context\"?: {\"arguments\"?: {NAME: string}}}",
        ),
        "logging/setLevel" => read::<rmcp::model::SetLevelRequestParams>(
            params,
            "{\"level\": string}`, one of `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency",
        ),
        "prompts/get" => read::<GetPromptRequestParams>(params, "{\"name\": string, \"arguments\"?: object}"),
        _ => None,
    }
}

fn read<'a, T: Deserialize<'a>>(params: &'a Value, expected: &str) -> Option<String> {
    T::deserialize(params).err().map(|error| format!("expected params `{expected}`: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_right_or_it_is_said_what_is_wrong() {
        let list = "resources/list";
        for params in [None, Some(json!(null)), Some(json!({})), Some(json!({"cursor": "x"})), Some(json!({"more": 1}))]
        {
            assert_eq!(check(list, params.as_ref()), Ok(()));
        }
        let fault = |method: &str, params: Value| check(method, Some(&params)).unwrap_err().0;
        assert_eq!(
            fault(list, json!({"cursor": 5})),
            "resources/list: expected params `{\"cursor\"?: string}`: invalid type: integer `5`, expected a string"
        );
        assert_eq!(fault(list, json!(["x"])), "resources/list: expected params to be an object");
        assert_eq!(fault("ping", json!(5)), "ping: expected params to be an object");
        assert_eq!(fault("ping", json!({"_meta": 5})), "ping: expected `_meta` to be an object");
        assert!(fault("resources/read", json!({})).ends_with("missing field `uri`"));
        assert_eq!(check("no/such", Some(&json!({"uri": 5}))), Ok(()));
    }
}
