//! The ids of the requests of one connection.
//!
//! rmcp counts the ids of requests from 0, so the requests of all identities would have equal ids. If a reverse proxy
//! confused responses of two identities, one would receive the content of the other. So a random number of the
//! connection is added to the ids of [asked](is_asked) requests.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, RequestId,
    ServerNotification,
};
use rmcp::service::RxJsonRpcMessage;

use crate::message::{is_asked, random_first_id};

/// The ids of the requests of one connection.
pub(super) struct Ids {
    /// The number that is added to the ids of [asked](is_asked) requests. It is greater than all ids of rmcp.
    first: i64,
    /// The pending requests whose ids are not replaced: requests of the handshake, checks, and streams, because
    /// notifications contain the id of their stream. A stream has the notifications that it was opened for.
    kept: HashMap<RequestId, Option<Filter>>,
    hasher: RandomState,
}

/// The notifications that a stream was opened for.
struct Filter {
    /// The hashes of the URIs.
    resources: HashSet<u64>,
    has_listing: bool,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { first: random_first_id(), kept: HashMap::new(), hasher: RandomState::new() }
    }

    /// Returns whether a notification belongs to no stream, or its stream was opened for it. For any other, rmcp would
    /// cancel the stream, and the host would notify of all resources when it has opened the stream again.
    pub(super) fn is_requested(&self, notification: &ServerNotification) -> bool {
        let stream = notification.get_meta().subscription_id().and_then(|id| self.kept.get(&id));
        let Some(Some(filter)) = stream else { return true };
        match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => {
                filter.resources.contains(&self.hasher.hash_one(updated.params.uri.as_str()))
            }
            ServerNotification::ResourceListChangedNotification(_) => filter.has_listing,
            _ => true,
        }
    }

    /// Replaces the id of an [asked](is_asked) request in the request, and in the notification that cancels it.
    pub(super) fn replace_in_sent(&mut self, message: &mut ClientJsonRpcMessage) {
        let is_asked = is_asked(message);
        let id = match message {
            JsonRpcMessage::Request(request) if is_asked => Some(&mut request.id),
            JsonRpcMessage::Request(request) => {
                let filter = match &request.request {
                    ClientRequest::SubscriptionsListenRequest(listen) => {
                        let wanted = &listen.params.notifications;
                        let uris = wanted.resource_subscriptions.iter().flatten();
                        let resources = uris.map(|uri| self.hasher.hash_one(uri.as_str())).collect();
                        Some(Filter { resources, has_listing: wanted.resources_list_changed == Some(true) })
                    }
                    _ => None,
                };
                self.kept.insert(request.id.clone(), filter);
                None
            }
            JsonRpcMessage::Notification(notification) => match &mut notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    cancelled.params.request_id.as_mut().filter(|id| self.kept.remove(*id).is_none())
                }
                _ => None,
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
        };
        if let Some(RequestId::Number(number)) = id {
            *number = number.saturating_add(self.first);
        }
    }

    /// Restores the id in the answer to an [asked](is_asked) request.
    pub(super) fn restore_in_received(&mut self, message: &mut RxJsonRpcMessage<RoleClient>) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.kept.remove(id);
                }
                None
            }
            JsonRpcMessage::Request(_) => None,
        };
        let Some(id) = id else { return };
        let number = match id {
            RequestId::Number(number) => Some(*number),
            // Some servers return ids as texts.
            RequestId::String(text) => text.parse().ok(),
        };
        let Some(number) = number else { return };
        match number.checked_sub(self.first).filter(|original| *original >= 0) {
            Some(original) => *id = RequestId::Number(original),
            None => drop(self.kept.remove(&RequestId::Number(number))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_asked_requests_begin_at_a_random_number() {
        let mut ids = Ids::new();
        let id_sent = |ids: &mut Ids, text: &str| {
            let mut message: ClientJsonRpcMessage = serde_json::from_str(text).unwrap();
            ids.replace_in_sent(&mut message);
            let sent = serde_json::to_value(&message).unwrap();
            sent.get("id").or_else(|| sent["params"].get("requestId")).and_then(serde_json::Value::as_i64).unwrap()
        };
        let id_received = |ids: &mut Ids, id: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            let mut message: RxJsonRpcMessage<RoleClient> = serde_json::from_str(&text).unwrap();
            ids.restore_in_received(&mut message);
            serde_json::to_value(&message).unwrap()["id"].clone()
        };
        let read = r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x:a"}}"#;
        let cancel = |id: i64| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let sent = id_sent(&mut ids, read);
        assert!(sent > 1 << 32 && sent != id_sent(&mut Ids::new(), read));
        assert_eq!(id_sent(&mut ids, &cancel(7)), sent);
        assert_eq!(id_received(&mut ids, &sent.to_string()), 7);
        assert_eq!(id_received(&mut ids, &format!(r#""{sent}""#)), 7);
        assert_eq!(id_sent(&mut ids, r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#), 8);
        assert_eq!(id_received(&mut ids, "8"), 8);
        let listen = r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{}}}"#;
        assert_eq!((id_sent(&mut ids, listen), id_sent(&mut ids, &cancel(9))), (9, 9));
        let ping = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!((id_sent(&mut ids, &ping(10)), id_sent(&mut ids, &cancel(10))), (10, 10));
        assert_eq!((id_sent(&mut ids, &ping(11)), id_received(&mut ids, r#""11""#)), (11, "11".into()));
        assert!(ids.kept.is_empty());
    }

    #[test]
    fn a_notification_that_its_stream_was_not_opened_for_is_dropped() {
        let mut ids = Ids::new();
        let listen = r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:a"]}}}"#;
        ids.replace_in_sent(&mut serde_json::from_str(listen).unwrap());
        let is_requested = |stream: u64, method: &str, uri: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/resources/{method}","params":{{"uri":"{uri}","_meta":{{"io.modelcontextprotocol/subscriptionId":{stream}}}}}}}"#
            );
            let message: RxJsonRpcMessage<RoleClient> = serde_json::from_str(&text).unwrap();
            let JsonRpcMessage::Notification(notification) = message else { panic!("{text}") };
            ids.is_requested(&notification.notification)
        };
        assert!(is_requested(9, "updated", "x:a") && is_requested(8, "updated", "x:b"));
        assert!(!is_requested(9, "updated", "x:b") && !is_requested(9, "list_changed", ""));
    }
}
