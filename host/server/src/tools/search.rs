//! The tools that need the search index: `search_resources` and `resource_context`.

mod context;
mod resources;

use mcp_host_config::Tool;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use super::description::Description;
use super::output::{Forms, Output, ToolError};

/// Describes one of these tools. None for another tool.
pub(super) fn describe(tool: Tool) -> Option<Description> {
    match tool {
        Tool::Search => Some(resources::describe()),
        Tool::Context => Some(context::describe()),
        Tool::List | Tool::Read => None,
    }
}

/// Calls the tool `resource_context`, or else `search_resources`.
pub(super) async fn call(
    tool: Tool,
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    forms: Forms,
) -> Result<Output, ToolError> {
    match tool {
        Tool::Context => context::call(host, principal, arguments, forms).await,
        _ => resources::call(host, principal, arguments, forms).await,
    }
}
