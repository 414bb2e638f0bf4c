//! A build without the feature `search`: its tools do not exist.

use mcp_host_config::Tool;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use super::description::Description;
use super::output::{Forms, Output, ToolError};

pub(super) fn describe(_: Tool) -> Option<Description> {
    None
}

pub(super) async fn call(_: Tool, _: &Host, _: &Principal, _: Option<&str>, _: Forms) -> Result<Output, ToolError> {
    Err(ToolError::Arguments("this build has no search".to_owned()))
}
