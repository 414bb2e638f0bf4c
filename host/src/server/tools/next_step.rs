//! What a model can do after a resource that does not exist for it: the tools that find others, and the nearest mount. It follows from the
//! URI, the rules and the config, so it is the same whether the resource exists and is hidden, or does not exist.

use super::definition::tool_name;
use crate::access::Principal;
use crate::config::{Operation, Tool};
use crate::host::Host;

/// Returns what to do next, as the end of a sentence; nothing if nothing helps.
pub(super) fn next_step(host: &Host, principal: &Principal, tool: Tool, uri: &str) -> String {
    let config = host.config();
    let tools = [(Tool::List, "lists those that exist"), (Tool::Search, "finds them by words")];
    let tools = tools.iter().filter(|(tool, _)| config.server.tools.contains(tool));
    let tools = tools.map(|(tool, does)| format!("`{}` {does}", tool_name(*tool)));
    let operation = if tool == Tool::List { Operation::List } else { Operation::Read };
    let mount = host.nearest_mount(principal, operation, uri);
    let mount = mount.map(|mount| format!("the nearest mount is `{mount}`"));
    mount.into_iter().chain(tools).map(|part| format!("; {part}")).collect()
}
