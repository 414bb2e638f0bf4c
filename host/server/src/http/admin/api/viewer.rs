//! The view of one principal: which principal the client of a request may view as, and requests on its behalf.

use axum::http::StatusCode;
use mcp_host_config::{ANONYMOUS, Config, LOCAL, Operation};
use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::audit::RequestContext;
use mcp_resource_host::host::{AdminAction, AdminSubject};

use super::browse_types::Viewer;
use super::{AdminServer, MAX_NAMES, Refusal, users};
use crate::http::authentication::Authenticated;

/// The authenticated client of a request.
pub(super) enum ApiClient<'a> {
    /// An administrator, who may take any view.
    Administrator(&'a Principal),
    /// A client of `/mcp`, which may take only its own view.
    User(&'a Authenticated),
}

impl ApiClient<'_> {
    /// Requires an access token with the scopes of these operations.
    pub(super) fn require_scopes(&self, operations: &[Operation]) -> Result<(), Refusal> {
        match self {
            Self::Administrator(_) => Ok(()),
            Self::User(user) => user.require_scopes(operations).map_err(|error| users::refusal(&error)),
        }
    }
}

impl AdminServer {
    /// Returns the principal whose view is requested.
    pub(super) fn viewer(&self, client: &ApiClient<'_>, viewer: Option<Viewer>) -> Result<Principal, Refusal> {
        match (client, viewer) {
            (ApiClient::User(user), None) => Ok(user.principal.clone()),
            (ApiClient::User(_), Some(_)) => {
                let help = "leave `as` out: only administrators see the views of others";
                Err(Refusal::new(StatusCode::FORBIDDEN, "the view of a client is its own", Some(help)))
            }
            (ApiClient::Administrator(_), None) => Ok(Principal::LOCAL),
            (ApiClient::Administrator(_), Some(Viewer { principal, groups })) => {
                named_principal(&self.host.config(), &principal, &groups)
            }
        }
    }

    /// Runs a request of a client for itself, or of an administrator for another principal. The latter is recorded in
    /// the audit log.
    pub(super) async fn view_as<T>(
        &self,
        client: &ApiClient<'_>,
        uri: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Refusal> {
        let answer = match client {
            ApiClient::User(user) => user.scopes().scope(request).await,
            ApiClient::Administrator(administrator) => {
                let context = RequestContext::of_administrator(administrator.name());
                let viewing = context.scope(request);
                let about = AdminSubject::View { uri };
                self.host.administer(administrator, AdminAction::View, about, viewing, Error::kind).await?
            }
        };
        answer.map_err(|error| {
            let status = match &error {
                Error::NotFound { .. } => StatusCode::NOT_FOUND,
                Error::InvalidRequest { .. } | Error::InvalidCursor => StatusCode::BAD_REQUEST,
                Error::Denied { .. } => StatusCode::FORBIDDEN,
                Error::Internal { .. } => StatusCode::BAD_GATEWAY,
                Error::Unavailable { .. } | Error::AuditUnavailable | Error::ShuttingDown => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            Refusal::new(status, error.to_string(), None)
        })
    }
}

/// Returns a principal of the config in these groups.
pub(super) fn named_principal(config: &Config, name: &str, groups: &[String]) -> Result<Principal, Refusal> {
    let principal = match name {
        LOCAL => Principal::LOCAL,
        ANONYMOUS => Principal::ANONYMOUS,
        name if config.has_principal(name) => Principal::new(name),
        name => return Err(no_principal(config, name)),
    };
    Ok(principal.with_groups(groups.iter().map(String::as_str)))
}

/// The refusal for an unknown principal, with the one that was probably meant, or the first ones.
fn no_principal(config: &Config, name: &str) -> Refusal {
    let help = config.nearest_principal(name).map(|meant| format!("did you mean `{meant}`?"));
    let help = help.unwrap_or_else(|| {
        let mut known: Vec<_> = config.principal_names().take(MAX_NAMES).map(str::to_owned).collect();
        let others = config.principal_names().count().saturating_sub(known.len());
        if others > 0 {
            known.push(format!("{others} others"));
        }
        let known = known.join(", ");
        format!(
            "it has {known}; one that an issuer, a client CA or an application authenticates is named `ISSUER/NAME`"
        )
    });
    let name = mcp_host_base::text::quote(name);
    Refusal::new(StatusCode::BAD_REQUEST, format!("the config has no principal {name}"), Some(&help))
}
