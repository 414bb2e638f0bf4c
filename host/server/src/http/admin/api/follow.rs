//! `GET audit?follow`: the lines of the audit log as they are queued, as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `audit` | a line of the audit log |
//! | `missed` | `{"lines":3}`: that number of lines came faster than the client read |
//!
//! A comment every [`KEEP_ALIVE`] shows that the stream is open. It ends after [`STREAM_TIMEOUT`], and when a reload takes the token
//! away from the administrator. [`MAX_STREAMS`] are open at a time.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use mcp_resource_host::audit::{AuditFollower, DECISIONS, FollowedAudit, OUTCOMES};
use mcp_resource_host::host::Host;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::super::authority::Authority;
use super::super::{AdminServer, Connection};
use super::Refusal;

/// The maximum number of streams at a time.
pub(in crate::http::admin) const MAX_STREAMS: usize = 16;
/// The time for a stream.
pub(super) const STREAM_TIMEOUT: Duration = Duration::from_hours(1);
/// The interval of comments on a stream without lines.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which lines are sent: those whose members have these values.
#[derive(Debug, Default)]
struct Filter {
    principal: Option<String>,
    plugin: Option<String>,
    operation: Option<String>,
    decision: Option<String>,
    outcome: Option<String>,
}

/// The members of a line that a filter looks at.
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

/// A stream.
struct Following {
    follower: AuditFollower,
    filter: Filter,
    host: Arc<Host>,
    authority: Authority,
    headers: HeaderMap,
    from: Connection,
    _permit: OwnedSemaphorePermit,
}

impl AdminServer {
    /// Answers with the lines of the audit log from now on.
    pub(super) fn follow_audit(
        &self,
        query: Option<&str>,
        headers: &HeaderMap,
        from: Connection,
    ) -> Result<Response, Refusal> {
        let filter = Filter::parse(query)?;
        let follower = self.host.follow_audit().ok_or_else(|| {
            let help = "add `[audit]` with `file = \"audit.jsonl\"` to the config, and reload";
            Refusal::new(StatusCode::CONFLICT, "the config has no audit log", Some(help))
        })?;
        let permit = self.streams.clone().try_acquire_owned().map_err(|_| {
            let error = format!("{MAX_STREAMS} clients follow the audit log already");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, Some("end one of them"))
        })?;
        let (host, authority, headers) = (self.host.clone(), self.authority.clone(), headers.clone());
        let following = Following { follower, filter, host, authority, headers, from, _permit: permit };
        let events = futures::stream::unfold(following, |mut following| async {
            following.next_event().await.map(|event| (Ok::<_, Infallible>(event), following))
        });
        let mut response = Response::new(Body::from_stream(events));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

impl Following {
    /// Waits for the next event or comment. None at the end of the stream.
    async fn next_event(&mut self) -> Option<Bytes> {
        loop {
            let followed = timeout(KEEP_ALIVE, self.follower.next()).await;
            let config = self.host.config();
            self.authority.administrator(&config, &Method::GET, &self.headers, self.from)?;
            match followed {
                Err(_) => return Some(Bytes::from_static(b": \n\n")),
                Ok(None) => return None,
                Ok(Some(FollowedAudit::Line(line))) if self.filter.matches(&line) => {
                    return Some(format!("event: audit\ndata: {line}\n\n").into());
                }
                Ok(Some(FollowedAudit::Line(_))) => {}
                Ok(Some(FollowedAudit::Missed(lines))) => {
                    return Some(format!("event: missed\ndata: {{\"lines\":{lines}}}\n\n").into());
                }
            }
        }
    }
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
                "operation" => &mut filter.operation,
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
            "send `GET /api/v1/audit?follow` for the lines from now on; those of before are in the file `audit.file`";
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

/// Refuses a value that no line has: a filter with it would wait without end.
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
