//! A build without the feature `search`: the paths of search do not exist.

use std::collections::{BTreeMap, HashMap};

use axum::extract::Request;
use axum::response::Response;
use mcp_host_model::resource::Resource;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use super::types::SearchView;
use super::viewer::ApiClient;
use super::{AdminServer, Refusal};

impl AdminServer {
    pub(super) async fn browse_index(&self, _: &str, _: Request, _: &ApiClient<'_>) -> Result<Response, Refusal> {
        Err(Refusal::no_path())
    }
}

pub(super) async fn languages(_: &Host, _: &Principal, _: &[Resource]) -> HashMap<String, String> {
    HashMap::new()
}

pub(super) fn failures(_: &Host) -> BTreeMap<String, String> {
    BTreeMap::new()
}

pub(super) fn indexed(_: &Host) -> Vec<SearchView> {
    Vec::new()
}
