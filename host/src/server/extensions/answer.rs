//! Answering what an extension is asked.

use rmcp::ErrorData;
use serde_json::Value;

use super::asked::{Asked, Below, One, Onward};
use super::objects::Objects;
use crate::access::Principal;
use crate::config::Extension;
use crate::host::{Host, ListRequest};
use crate::resource::{Error, Missing};
use crate::server::error::to_rpc;
use crate::server::methods;
use crate::server::revision::Revision;

/// An answer.
pub(in crate::server) struct Answer {
    /// The result.
    pub(in crate::server) result: Value,
    /// The plugins that are missing from it.
    pub(in crate::server) missing: Vec<Missing>,
}

/// The answer to what that principal asks, with the members that there are in that revision.
pub(in crate::server) async fn answer(
    host: &Host,
    who: &Principal,
    asked: Asked,
    revision: Revision,
) -> Result<Answer, ErrorData> {
    let to_rpc = |error: Error| to_rpc(&error, revision);
    let shows_abilities = host.config().server.extensions.contains(&Extension::Sep2093);
    let objects = Objects { host, who, revision, shows_abilities };
    let listing = match asked {
        Asked::List(Below { uri, cursor }) => {
            host.list(who, ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() }).await.map_err(to_rpc)?
        }
        Asked::Directory(Below { uri, cursor }) => {
            host.directory(who, &uri, cursor.as_deref()).await.map_err(to_rpc)?
        }
        Asked::Read(One { uri }) => {
            let contents = host.read_strictly(who, &uri).await.map_err(to_rpc)?;
            return Ok(Answer { result: objects.read_result(contents), missing: Vec::new() });
        }
        Asked::Metadata(One { uri }) => {
            let entry = host.metadata(who, &uri).await.map_err(to_rpc)?;
            return Ok(Answer { result: objects.metadata_result(entry), missing: Vec::new() });
        }
        Asked::Skills(Onward { cursor: None }) => {
            return Ok(Answer { result: objects.no_skills(), missing: Vec::new() });
        }
        Asked::Unknown(method) => return Err(methods::unknown(host, revision, &method)),
        // There is one page of them, and nothing on it.
        Asked::Skills(Onward { cursor: Some(_) }) => return Err(to_rpc(Error::InvalidCursor)),
        Asked::Skill(One { uri }) => {
            return Err(to_rpc(Error::InvalidRequest { message: format!("there is no skill {uri}") }));
        }
    };
    let missing = listing.missing.clone();
    Ok(Answer { result: objects.list_result(listing), missing })
}
