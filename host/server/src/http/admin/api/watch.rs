//! `POST browse/watch`: changes in the view of one principal as server-sent events, so that a page does not have to
//! poll.
//!
//! | event | data |
//! |---|---|
//! | `updated` | `{"uri":"notes:///a"}`: this resource has changed, or may have changed; sent once for each resource when its subscription begins |
//! | `listing` | `{}`: the listing has changed |
//!
//! The request is equivalent to `subscriptions/listen` of `/mcp` and uses the same subscriptions ([`Subscriptions`]),
//! with the rules, scopes and memory limits of the principal. A stream without resources and without the listing has no
//! events, and ends like any other stream.
//!
//! A stream ends after [`STREAM_TIMEOUT`], and immediately when its credentials or its session end. Administrators have
//! at most [`MAX_VIEWS`] open streams, and users have [shares](super::user_streams). The limits of streams, including
//! the audit log's, and of user requests add up to less than the limit of connections.

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
use super::browse_types::{BrowseWatch, MAX_WATCHED};
use super::follow::{encoded, event_stream};
use super::types::{ListingChanged, UpdatedResource};
use super::user_streams::{self, UserStream};
use super::viewer::ApiClient;
use crate::http::authentication::Authenticated;
use crate::listen::Subscriptions;
use crate::method::performed_operations;

/// The maximum number of open streams, for one administrator and for all.
const MAX_VIEWS: ShareLimits = ShareLimits { client: 8, overall: 8 };
/// The maximum number of open streams, for one user and for all.
const MAX_USER_STREAMS: ShareLimits = ShareLimits { client: user_streams::MAX_OF_USER, overall: user_streams::MAX };

/// The permit of an open stream.
enum Permit {
    View(#[expect(dead_code, reason = "it is held")] SharePermit<String>),
    User(UserStream),
}

impl AdminServer {
    /// Answers with the changes from now on.
    pub(super) async fn browse_watch(
        &self,
        request: BrowseWatch,
        credentials: StreamCredentials,
        client: &ApiClient<'_>,
    ) -> Result<Response, Refusal> {
        let BrowseWatch { viewer, uris, listing } = request;
        if uris.len() > MAX_WATCHED {
            return Err(Refusal::bad_request(format!(
                "`uris` has {} URIs; at most {MAX_WATCHED} are watched",
                uris.len()
            )));
        }
        let viewer = self.viewer(client, viewer)?;
        let watches_nothing = uris.is_empty() && !listing;
        // The requirement is the same as for `subscriptions/listen`.
        if !watches_nothing {
            let uris = uris.iter().map(String::as_str);
            client.require_scopes(&performed_operations(&self.host, &[Operation::Subscribe], uris))?;
        }
        let listing = listing && client.require_scopes(&[Operation::List]).is_ok();
        let permit = match client {
            ApiClient::Administrator(administrator) => {
                let view = self.views.acquire(&administrator.name().to_owned(), MAX_VIEWS);
                Permit::View(view.map_err(|reached| too_many(reached, MAX_VIEWS))?)
            }
            ApiClient::User(user) => {
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
            let context = match client {
                ApiClient::Administrator(administrator) => Some(RequestContext::of_administrator(administrator.name())),
                ApiClient::User(_) => None,
            };
            let beginning = Subscriptions::begin(&self.host, uris, listing, true, &viewer, context);
            Some(self.view_as(client, "", beginning).await?.0)
        };
        let events = stream::unfold((subscriptions, permit), async |(subscriptions, permit)| {
            let event = match &subscriptions {
                None => std::future::pending().await,
                Some(subscriptions) => event(subscriptions.next().await),
            };
            Some((event, (subscriptions, permit)))
        });
        Ok(match client {
            ApiClient::Administrator(_) => {
                let (host, authority) = (self.host.clone(), self.authority.clone());
                event_stream(events, async move { authority.until_not_administrator(&host, &credentials).await })
            }
            ApiClient::User(user) => {
                let ended = self.until_user_ends((*user).clone(), credentials);
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

    /// Waits until a user loses the right to a stream: the token is rejected or loses a scope, the session has ended,
    /// or users are disabled.
    fn until_user_ends(
        &self,
        user: Authenticated,
        credentials: StreamCredentials,
    ) -> impl Future<Output = ()> + Send + use<> {
        let revoked = Box::pin(self.users.until_revoked(user));
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
