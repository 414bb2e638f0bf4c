//! Answering what an extension is asked.

use rmcp::ErrorData;

use super::asked::{Asked, Below, One, Onward};
use super::objects::Objects;
use crate::access::Principal;
use crate::config::Extension;
use crate::host::{Host, ListRequest};
use crate::resource::{Error, Footprint, MissingPlugin};
use crate::server::error::to_rpc;
use crate::server::json::Encoder;
use crate::server::methods;
use crate::server::revision::Revision;

/// An answer.
pub(in crate::server) struct Answer {
    /// The result.
    pub(in crate::server) result: Encoder,
    /// About how much memory it takes.
    pub(in crate::server) footprint: usize,
    /// The plugins that are missing from it.
    pub(in crate::server) missing: Vec<MissingPlugin>,
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
            host.list_directory(who, &uri, cursor.as_deref()).await.map_err(to_rpc)?
        }
        Asked::Read(One { uri }) => {
            let contents = host.read_strict(who, &uri).await.map_err(to_rpc)?;
            let footprint = contents.footprint();
            return Ok(Answer { result: objects.read_result(contents), footprint, missing: Vec::new() });
        }
        Asked::Metadata(One { uri }) => {
            let entry = host.metadata(who, &uri).await.map_err(to_rpc)?;
            let footprint = entry.footprint();
            return Ok(Answer { result: objects.metadata_result(entry), footprint, missing: Vec::new() });
        }
        Asked::Skills(Onward { cursor: None }) => {
            return Ok(Answer { result: objects.no_skills(), footprint: 0, missing: Vec::new() });
        }
        Asked::Unknown(method) => return Err(methods::unknown(host, revision, &method)),
        // There is one page of them, and nothing on it.
        Asked::Skills(Onward { cursor: Some(_) }) => return Err(to_rpc(Error::InvalidCursor)),
        Asked::Skill(One { uri }) => {
            return Err(to_rpc(Error::InvalidRequest { message: format!("there is no skill {uri}") }));
        }
    };
    let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
    Ok(Answer { result: objects.list_result(listing), footprint, missing })
}
