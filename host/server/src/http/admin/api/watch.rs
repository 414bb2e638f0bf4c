//! `POST browse/watch`: changes of what one principal sees, as server-sent events, so that a page shows them without asking again.
//!
//! | event | data |
//! |---|---|
//! | `updated` | `{"uri":"notes:///a"}`: that resource has changed, or may have; once of each when its subscription begins |
//! | `listing` | `{}`: the listing has changed |
//!
//! It is `subscriptions/listen` of `/mcp`, with the same subscriptions ([`Subscriptions`]): by the rules, the scopes and the memory of the
//! principal. A stream without resources and without the listing has no events; it ends as any other.
//!
//! A stream ends after [`STREAM_TIMEOUT`], and at once when its credentials or its session end. [`MAX_VIEWS`] of administrators are open at
//! a time, and those of users have [shares](super::user_streams): with the streams of the audit log and the requests of users there are fewer
//! than connections.

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use mcp_host_base::share_limiter::{LimitReached, ShareLimits, SharePermit};
use mcp_host_config::{Config, Operation};
use mcp_resource_host::audit::RequestContext;
use mcp_resource_host::watch::Update;

use super::super::AdminServer;
use super::super::authority::StreamCredentials;
use super::super::users::bearer_token;
use super::Refusal;
use super::browse::Asker;
use super::browse_types::{BrowseWatch, MAX_WATCHED};
use super::follow::{encoded, event_stream};
use super::types::{ListingChanged, UpdatedResource};
use super::user_streams::{self, UserStream};
use crate::http::authentication::Authenticated;
use crate::listen::Subscriptions;

/// The maximum number of streams at a time, of one administrator and of all.
const MAX_VIEWS: ShareLimits = ShareLimits { client: 8, overall: 8 };
/// The same of users.
const MAX_USER_STREAMS: ShareLimits = ShareLimits { client: user_streams::MAX_OF_USER, overall: user_streams::MAX };

/// An open stream, counted until this is dropped.
enum Permit {
    View(#[expect(dead_code, reason = "it is held")] SharePermit<String>),
    User(UserStream),
}

impl AdminServer {
    /// Answers with what changes from now on.
    pub(super) async fn browse_watch(
        &self,
        request: BrowseWatch,
        credentials: StreamCredentials,
        asker: &Asker<'_>,
    ) -> Result<Response, Refusal> {
        let BrowseWatch { viewer, uris, listing } = request;
        if uris.len() > MAX_WATCHED {
            return Err(Refusal::bad_request(format!(
                "`uris` has {} URIs; at most {MAX_WATCHED} are watched",
                uris.len()
            )));
        }
        let viewer = self.viewer(asker, viewer)?;
        let watches_nothing = uris.is_empty() && !listing;
        // As for `subscriptions/listen`.
        let required: &[Operation] = if watches_nothing { &[] } else { &[Operation::Subscribe] };
        asker.require_scopes(required)?;
        let listing = listing && asker.require_scopes(&[Operation::List]).is_ok();
        let permit = match asker {
            Asker::Administrator(administrator) => {
                let view = self.views.acquire(&administrator.name().to_owned(), MAX_VIEWS);
                Permit::View(view.map_err(|reached| too_many(reached, MAX_VIEWS))?)
            }
            Asker::User(user) => {
                let stream = self.user_streams.open(user.principal.name());
                Permit::User(stream.map_err(|reached| too_many(reached, MAX_USER_STREAMS))?)
            }
        };
        let replaced = match &permit {
            Permit::View(_) => None,
            Permit::User(stream) => Some(stream.replaced()),
        };
        let subscriptions = if watches_nothing {
            None
        } else {
            let context = match asker {
                Asker::Administrator(administrator) => Some(RequestContext::of_administrator(administrator.name())),
                Asker::User(_) => None,
            };
            let beginning = Subscriptions::begin(&self.host, uris, listing, true, &viewer, context);
            Some(self.view_as(asker, "", beginning).await?.0)
        };
        let events = stream::unfold((subscriptions, permit), async |(subscriptions, permit)| {
            let event = match &subscriptions {
                None => std::future::pending().await,
                Some(subscriptions) => event(subscriptions.next().await),
            };
            Some((event, (subscriptions, permit)))
        });
        Ok(match asker {
            Asker::Administrator(_) => {
                let (host, authority) = (self.host.clone(), self.authority.clone());
                event_stream(events, async move { authority.until_not_administrator(&host, &credentials).await })
            }
            Asker::User(user) => {
                let ended = self.until_user_ends((*user).clone(), credentials, required);
                event_stream(events, async move {
                    match replaced {
                        None => ended.await,
                        Some(replaced) => tokio::select! {
                            () = ended => {}
                            () = replaced => {}
                        },
                    }
                })
            }
        })
    }

    /// Waits until a user may not have a stream any more: its token is not accepted or lacks a scope, its session has ended, or there
    /// are no users.
    fn until_user_ends(
        &self,
        user: Authenticated,
        credentials: StreamCredentials,
        required: &[Operation],
    ) -> impl Future<Output = ()> + Send + use<> {
        let revoked = Box::pin(self.users.until_revoked(user, required));
        let (host, authority) = (self.host.clone(), self.authority.clone());
        let session_ended = Box::pin(async move {
            let StreamCredentials { method, headers, .. } = &credentials;
            let has_session =
                || bearer_token(headers).is_some() || authority.console.user_token(method, headers).is_some();
            let has_users = |config: &Config| config.admin.as_ref().is_some_and(|admin| admin.users);
            authority.until(&host, |config| has_users(config) && has_session()).await;
        });
        async move {
            tokio::select! {
                _ = revoked => {}
                () = session_ended => {}
            }
        }
    }
}

fn event(update: Update) -> Bytes {
    let (name, data) = match update {
        Update::Resource(uri) => ("updated", encoded(&UpdatedResource { uri })),
        Update::Listing => ("listing", encoded(&ListingChanged {})),
    };
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn too_many(reached: LimitReached, limits: ShareLimits) -> Refusal {
    let error = match reached {
        LimitReached::ClientShare => format!("{} views are followed already by this principal", limits.client),
        LimitReached::Overall => format!("{} views are followed already", limits.overall),
    };
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, Some("close one of them"))
}
