//! Calling a tool.

use mcp_host_config::{Operation, Tool};
use mcp_host_model::resource::Error;

use super::definition::{tool_name, tool_named};
use super::output::{Forms, Output, Part, ToolError};
use crate::error::{RpcError, slash_hint};
use crate::json::Encoder;
use crate::params::ToolParams;
use crate::request_context::{Outcome, RequestContext};
use crate::revision::Revision;
use crate::wire;

/// Calls a tool.
pub(crate) async fn call(context: &RequestContext, params: ToolParams) -> Result<Outcome, RpcError> {
    let RequestContext { host, config, principal, revision, .. } = context;
    let revision = *revision;
    let ToolParams { name, arguments } = params;
    let Some(name) = name else {
        let fault = format!("tools/call: expected params `{}`: missing field `name`", ToolParams::EXPECTED);
        return Err(RpcError::invalid_params(fault));
    };
    let Some(tool) = tool_named(&config.server.tools, &name) else {
        let fault = format!("there is no tool `{name}`; `tools/list` has those that exist");
        return Err(RpcError::invalid_params(fault));
    };
    let (arguments, forms) = (arguments.as_deref(), Forms::new(&config.server, revision));
    let called = match tool {
        Tool::List => super::list::call(host, principal, arguments, forms).await,
        Tool::Read => super::read::call(host, principal, arguments, forms).await,
        Tool::Search | Tool::Context => super::search::call(tool, host, principal, arguments, forms).await,
    };
    let (mut output, is_error) = match called {
        Ok(output) => (output, false),
        Err(error) => {
            let message = match error {
                ToolError::Arguments(message) => format!("{name}: {message}"),
                ToolError::Host(Error::NotFound { uri }) => {
                    let next = next_step(context, tool, &uri).await;
                    format!("{}{next}", Error::NotFound { uri })
                }
                ToolError::Host(error) => error.to_string(),
            };
            (Output::text(message), true)
        }
    };
    let (footprint, missing) = (output.footprint(), std::mem::take(&mut output.missing));
    Ok(Outcome { result: encode(output, is_error, revision), footprint, missing })
}

fn encode(output: Output, is_error: bool, revision: Revision) -> Encoder {
    let Output { content, structured, missing: _ } = output;
    Encoder::new(move |writer| {
        writer.object(|members| {
            wire::result_type(members, revision);
            members.member("content").array(content, |writer, part: Part| part.write(writer));
            if let Some(structured) = structured {
                (structured.write)(members.member("structuredContent"));
            }
            if is_error {
                members.serialize("isError", &true);
            }
        });
    })
}

/// Returns the next step to suggest, as the end of a sentence. Empty if there is none.
pub(super) async fn next_step(context: &RequestContext, tool: Tool, uri: &str) -> String {
    let RequestContext { host, config, principal, .. } = context;
    let tools = [(Tool::List, "lists those that exist"), (Tool::Search, "finds them by words")];
    let tools = tools.iter().filter(|(tool, _)| config.server.tools.contains(tool));
    let tools = tools.map(|(tool, does)| format!("`{}` {does}", tool_name(*tool)));
    let operation = if tool == Tool::List { Operation::List } else { Operation::Read };
    let mount = host.nearest_mount(principal, operation, uri);
    let mount = mount.map(|mount| format!("the nearest mount is `{mount}`"));
    let slash = slash_hint(host, principal, uri).await;
    mount.into_iter().chain(slash).chain(tools).map(|part| format!("; {part}")).collect()
}
