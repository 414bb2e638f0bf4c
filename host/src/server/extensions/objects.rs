//! Objects with members that rmcp's have no room for.
//!
//! They are those of [`wire`], member for member, and what SEP-2093 adds.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::access::Principal;
use crate::config::Operation;
use crate::host::Host;
use crate::resource::{Body, Contents, Entry, Listing};
use crate::server::revision::Revision;
use crate::server::wire;

/// A JSON object.
type Object = Map<String, Value>;

/// Makes objects for one request.
pub(super) struct Objects<'a> {
    pub(super) host: &'a Host,
    pub(super) who: &'a Principal,
    pub(super) revision: Revision,
    /// Whether resources say what can be done with them.
    pub(super) shows_abilities: bool,
}

impl Objects<'_> {
    /// The result of a method that lists resources.
    pub(super) fn list_result(&self, listing: Listing<Entry>) -> Value {
        let ttl = wire::ttl_of(&listing);
        let missing = wire::missing_meta(&listing.missing);
        let resources = listing.items.into_iter().map(|entry| self.resource(entry).into()).collect();
        let mut result = Object::from_iter([("resources".to_owned(), Value::Array(resources))]);
        result.extend(listing.next_cursor.map(|cursor| ("nextCursor".to_owned(), cursor.into())));
        result.extend(missing.map(|missing| ("_meta".to_owned(), Value::Object(missing.0))));
        self.complete(result, ttl, self.is_same_for_all(Operation::List))
    }

    /// The result of `resources/read`: each content has the members of its resource.
    pub(super) fn read_result(&self, contents: Vec<Contents>) -> Value {
        let ttl = wire::least(contents.iter().map(|one| &one.entry));
        let contents = contents.into_iter().map(|one| self.contents(one).into()).collect();
        let result = Object::from_iter([("contents".to_owned(), Value::Array(contents))]);
        self.complete(result, ttl, self.is_same_for_all(Operation::Read))
    }

    /// The result of `resources/metadata`.
    pub(super) fn metadata_result(&self, entry: Entry) -> Value {
        let ttl = wire::least([&entry].into_iter());
        let result = Object::from_iter([("resource".to_owned(), Value::Object(self.resource(entry)))]);
        self.complete(result, ttl, self.is_same_for_all(Operation::Metadata))
    }

    fn contents(&self, contents: Contents) -> Object {
        let Contents { mut entry, body } = contents;
        // Whatever the provider says of the resource as a whole, this is the size of this representation.
        entry.size = u64::try_from(body.as_bytes().len()).ok();
        let mut object = self.resource(entry);
        let (member, body) = match body {
            Body::Text(text) => ("text", text),
            Body::Blob(bytes) => ("blob", STANDARD.encode(bytes)),
        };
        object.insert(member.to_owned(), Value::String(body));
        object
    }

    fn resource(&self, entry: Entry) -> Object {
        let abilities = self.shows_abilities.then(|| self.host.abilities(self.who, &entry));
        let priority = entry.annotations.priority;
        let mut object = object(&wire::resource(entry, self.revision));
        // rmcp has single precision, which as a JSON value would not be the number that was given.
        if let (Some(Value::Object(annotations)), Some(priority)) = (object.get_mut("annotations"), priority) {
            annotations.insert("priority".to_owned(), json!(priority.value()));
        }
        if let Some(abilities) = abilities {
            let capabilities = json!({ "list": abilities.list, "subscribe": abilities.subscribe });
            object.insert("capabilities".to_owned(), capabilities);
        }
        object
    }

    /// The result of `skills/list`: there are none, whoever asks.
    pub(super) fn no_skills(&self) -> Value {
        let result = Object::from_iter([("skills".to_owned(), Value::Array(Vec::new()))]);
        self.complete(result, Duration::ZERO, true)
    }

    /// Whether that operation gives every principal the same objects, by the rules.
    fn is_same_for_all(&self, operation: Operation) -> bool {
        // What can be done with a resource depends on what the rules say of other requests.
        let others = [Operation::List, Operation::Subscribe, Operation::Read];
        let others = others.into_iter().filter(|_| self.shows_abilities);
        others.chain([operation]).all(|operation| self.host.is_same_for_all(operation))
    }

    /// The result with what all results of the revision have.
    fn complete(&self, mut result: Object, ttl: Duration, is_public: bool) -> Value {
        if self.revision.has_cache_hints() {
            let (ttl_ms, scope) = wire::cache_hints(ttl, self.revision, is_public);
            result.insert("resultType".to_owned(), "complete".into());
            result.insert("ttlMs".to_owned(), json!(ttl_ms));
            result.insert("cacheScope".to_owned(), json!(scope));
        }
        Value::Object(result)
    }
}

/// The object that something is on the wire.
fn object(value: &impl Serialize) -> Object {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => Object::new(),
    }
}
