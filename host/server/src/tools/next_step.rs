//! What a model can do after a resource that does not exist for it: the tools that find others, the nearest mount, and how a
//! [slash](super::super::slash) within a variable is written. It follows from the URI, the rules, the config and those templates, so it
//! is the same whether the resource exists and is hidden, or does not exist.

use mcp_host_config::{Operation, Tool};

use super::definition::tool_name;
use crate::request::RequestContext;
use crate::slash;

/// Returns what to do next, as the end of a sentence; nothing if nothing helps.
pub(super) async fn next_step(context: &RequestContext, tool: Tool, uri: &str) -> String {
    let RequestContext { host, config, principal, .. } = context;
    let tools = [(Tool::List, "lists those that exist"), (Tool::Search, "finds them by words")];
    let tools = tools.iter().filter(|(tool, _)| config.server.tools.contains(tool));
    let tools = tools.map(|(tool, does)| format!("`{}` {does}", tool_name(*tool)));
    let operation = if tool == Tool::List { Operation::List } else { Operation::Read };
    let mount = host.nearest_mount(principal, operation, uri);
    let mount = mount.map(|mount| format!("the nearest mount is `{mount}`"));
    let slash = slash::hint(host, principal, uri).await;
    mount.into_iter().chain(slash).chain(tools).map(|part| format!("; {part}")).collect()
}
