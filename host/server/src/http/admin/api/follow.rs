//! `GET audit?follow`: the lines of the audit log as they are queued, and `GET updates?follow`: the updates that are
//! sent to subscribers; as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `audit` | a line of the audit log |
//! | `missed` | `{"lines":3}`: the number of lines that were dropped because the client read too slowly |
//! | `update` | an [update](SentUpdateView) that was sent to a subscriber |
//!
//! A comment every [`KEEP_ALIVE`] shows that the stream is open. A stream ends after [`STREAM_TIMEOUT`], and
//! immediately when a reload revokes the administrator's token or when the session ends. At most [`MAX_STREAMS`] are
//! open at the same time.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt as _};
use mcp_resource_host::audit::{DECISIONS, Followed, Follower, OPERATIONS, OUTCOMES};
use mcp_resource_host::watch::{SentUpdate, Update};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

use super::super::AdminServer;
use super::super::authority::StreamCredentials;
use super::Refusal;
use super::types::{MissedLines, SentUpdateView};
use super::views::time;
use crate::http::response::{sse_response, with_keep_alive};

/// The maximum number of open streams.
pub(in crate::http::admin) const MAX_STREAMS: usize = 16;
/// The maximum duration of a stream.
pub(super) const STREAM_TIMEOUT: Duration = Duration::from_hours(1);
/// The interval of comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A filter of lines: the members of a line must have these values.
#[derive(Debug, Default)]
struct Filter {
    principal: Option<String>,
    plugin: Option<String>,
    operation: Option<String>,
    decision: Option<String>,
    outcome: Option<String>,
}

/// The members of a line that a filter compares.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    principal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    plugin: Option<Cow<'a, str>>,
    #[serde(borrow)]
    operation: Option<Cow<'a, str>>,
    #[serde(borrow)]
    decision: Option<Cow<'a, str>>,
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

impl AdminServer {
    /// Answers with the lines of the audit log from now on.
    pub(super) fn follow_audit(
        &self,
        query: Option<&str>,
        credentials: StreamCredentials,
    ) -> Result<Response, Refusal> {
        let filter = Filter::parse(query)?;
        let follower = self.host.follow_audit().ok_or_else(|| {
            let help = "add `[audit]` with `file = \"audit.jsonl\"` to the config, and reload";
            Refusal::new(StatusCode::CONFLICT, "the config has no audit log", Some(help))
        })?;
        let permit = self.begin_following()?;
        let audited = move |line: &str| filter.matches(line).then(|| format!("event: audit\ndata: {line}\n\n").into());
        Ok(self.following(follower, audited, permit, credentials))
    }

    /// Answers with the updates that are sent to subscribers from now on; with `principal` in the query only updates to
    /// its subscribers.
    pub(super) fn follow_updates(
        &self,
        query: Option<&str>,
        credentials: StreamCredentials,
    ) -> Result<Response, Refusal> {
        let principal = parse_updates_query(query)?;
        let permit = self.begin_following()?;
        let sent = move |sent: &SentUpdate| {
            let is_wanted = principal.as_ref().is_none_or(|wanted| *wanted == sent.principal);
            is_wanted.then(|| format!("event: update\ndata: {}\n\n", encoded(&SentUpdateView::from(sent))).into())
        };
        Ok(self.following(self.host.follow_updates(), sent, permit, credentials))
    }

    /// Acquires the permit of one of the [`MAX_STREAMS`] streams.
    fn begin_following(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            let error = format!("{MAX_STREAMS} clients follow the audit log or the updates already");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, Some("end one of them"))
        })
    }

    /// A response with the events that `show` makes from the items of a follower.
    fn following<T: ?Sized + Send + Sync + 'static>(
        &self,
        follower: Follower<T>,
        show: impl Fn(&T) -> Option<Bytes> + Send + 'static,
        permit: OwnedSemaphorePermit,
        credentials: StreamCredentials,
    ) -> Response {
        let events = stream::unfold((follower, show, permit), async |(mut follower, show, permit)| {
            let event = loop {
                match follower.next().await? {
                    Followed::Event(event) => {
                        if let Some(shown) = show(&event) {
                            break shown;
                        }
                    }
                    Followed::Missed(lines) => {
                        break format!("event: missed\ndata: {}\n\n", encoded(&MissedLines { lines })).into();
                    }
                }
            };
            Some((event, (follower, show, permit)))
        });
        let (host, authority) = (self.host.clone(), self.authority.clone());
        event_stream(events, async move { authority.until_not_administrator(&host, &credentials).await })
    }
}

/// Returns the principal of `updates?follow&principal=NAME`.
fn parse_updates_query(query: Option<&str>) -> Result<Option<String>, Refusal> {
    let (mut principal, mut follows) = (None, false);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*key {
            "follow" => follows = true,
            "principal" => principal = Some(value.into_owned()),
            _ => {
                return Err(Refusal::bad_request(format!(
                    "there is no parameter `{key}`; there are `follow` and `principal`"
                )));
            }
        }
    }
    if follows {
        return Ok(principal);
    }
    let help = "write `GET /api/v1/updates?follow`; `/api/v1/subscriptions` has their number";
    Err(Refusal::new(
        StatusCode::BAD_REQUEST,
        "updates are only followed: the parameter `follow` is missing",
        Some(help),
    ))
}

impl From<&SentUpdate> for SentUpdateView {
    fn from(sent: &SentUpdate) -> Self {
        let uri = match &sent.update {
            Update::Resource(uri) => Some(uri.clone()),
            Update::Listing => None,
        };
        Self { time: time(sent.time), principal: sent.principal.clone(), uri }
    }
}

/// The data of an event.
pub(super) fn encoded(data: &impl Serialize) -> String {
    // The types of the API have only text keys, so this does not fail.
    serde_json::to_string(data).unwrap_or_default()
}

/// A response with events. It ends with the events, or when the client loses the right to receive them. An idle stream
/// has a comment every [`KEEP_ALIVE`].
pub(super) fn event_stream(
    events: impl Stream<Item = Bytes> + Send + 'static,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> Response {
    // The revocation is checked before each event.
    let events = events.take_until(Box::pin(revoked));
    sse_response(Body::from_stream(with_keep_alive(events, KEEP_ALIVE).map(Ok::<_, Infallible>)))
}

impl Filter {
    fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let (mut filter, mut follows) = (Self::default(), false);
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let member = match &*key {
                "follow" => {
                    follows = true;
                    continue;
                }
                "principal" => &mut filter.principal,
                "plugin" => &mut filter.plugin,
                "operation" => {
                    check_value("operation", &value, &OPERATIONS)?;
                    &mut filter.operation
                }
                "decision" => {
                    check_value("decision", &value, &DECISIONS)?;
                    &mut filter.decision
                }
                "outcome" => {
                    check_value("outcome", &value, &OUTCOMES)?;
                    &mut filter.outcome
                }
                _ => {
                    return Err(Refusal::bad_request(format!(
                        "there is no parameter `{key}`; there are `follow`, `principal`, `plugin`, `operation`, `decision` \
                         and `outcome`"
                    )));
                }
            };
            *member = Some(value.into_owned());
        }
        if follows {
            return Ok(filter);
        }
        let help =
            "send `GET /api/v1/audit?follow` for the lines from now on; earlier lines are in the file `audit.file`";
        Err(Refusal::new(StatusCode::BAD_REQUEST, "the parameter `follow` is missing", Some(help)))
    }

    fn matches(&self, line: &str) -> bool {
        let Self { principal, plugin, operation, decision, outcome } = self;
        let wanted = [principal, plugin, operation, decision, outcome];
        if wanted.iter().all(|wanted| wanted.is_none()) {
            return true;
        }
        // A line of the log is JSON.
        let Ok(members) = serde_json::from_str::<Members<'_>>(line) else { return false };
        let Members { principal, plugin, operation, decision, outcome } = members;
        let found = [principal, plugin, operation, decision, outcome];
        wanted.into_iter().zip(found).all(|(wanted, found)| wanted.is_none() || wanted.as_deref() == found.as_deref())
    }
}

/// Refuses a value that no line can have, because a filter with it would never match.
fn check_value(parameter: &str, value: &str, values: &[&str]) -> Result<(), Refusal> {
    if values.contains(&value) {
        return Ok(());
    }
    let help = (value == "denied" || value == "allowed").then_some("requests that the rules deny have `decision=deny`");
    let message = format!("no line has the {parameter} `{value}`; there are `{}`", values.join("`, `"));
    Err(Refusal::new(StatusCode::BAD_REQUEST, message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_compares_whole_members() {
        let line = r#"{"time":"x","principal":"ali\u0063e","operation":"read","outcome":"ok"}"#;
        let matches = |query| Filter::parse(Some(query)).unwrap().matches(line);
        for query in ["follow", "follow=1&principal=alice", "follow&principal=alice&operation=read&outcome=ok"] {
            assert!(matches(query), "{query}");
        }
        for query in
            ["follow&principal=ali", "follow&plugin=x", "follow&decision=deny", "follow&principal=alice&outcome=denied"]
        {
            assert!(!matches(query), "{query}");
        }
        for wrong in [
            None,
            Some(""),
            Some("principal=alice"),
            Some("follow&uri=x"),
            Some("follow&outcome=refuse"),
            Some("follow&decision=denied"),
        ] {
            assert!(Filter::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
