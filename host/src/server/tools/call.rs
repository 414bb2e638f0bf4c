//! Calling a tool.

use rmcp::ErrorData;

use super::definition::tool_named;
use super::next_step::next_step;
use super::output::{Forms, Output, Part, ToolError};
use crate::access::Principal;
use crate::config::Tool;
use crate::host::Host;
use crate::resource::{Error, MissingPlugin};
use crate::server::json::Encoder;
use crate::server::params::{TOOL_PARAMS, ToolParams};
use crate::server::revision::Revision;
use crate::server::wire;

/// The outcome of a call.
pub(in crate::server) struct ToolOutcome {
    /// The result.
    pub(in crate::server) result: Encoder,
    /// The approximate memory that it takes.
    pub(in crate::server) footprint: usize,
    /// The plugins that are missing from it.
    pub(in crate::server) missing: Vec<MissingPlugin>,
}

/// Calls a tool for that principal, in that revision.
pub(in crate::server) async fn call(
    host: &Host,
    principal: &Principal,
    params: ToolParams,
    revision: Revision,
) -> Result<ToolOutcome, ErrorData> {
    let ToolParams { name, arguments } = params;
    let Some(name) = name else {
        return Err(ErrorData::invalid_params(
            format!("tools/call: expected params `{TOOL_PARAMS}`: missing field `name`"),
            None,
        ));
    };
    let config = host.config();
    let Some(tool) = tool_named(&config.server.tools, &name) else {
        return Err(ErrorData::invalid_params(
            format!("there is no tool `{name}`; `tools/list` has those that exist"),
            None,
        ));
    };
    let (arguments, forms) = (arguments.as_deref(), Forms::new(&config.server, revision));
    let called = match tool {
        Tool::List => super::list::call(host, principal, arguments, forms).await,
        Tool::Read => super::read::call(host, principal, arguments, forms).await,
        #[cfg(feature = "search")]
        Tool::Search => super::search::call(host, principal, arguments, forms).await,
        #[cfg(feature = "search")]
        Tool::Context => super::context::call(host, principal, arguments, forms).await,
        #[cfg(not(feature = "search"))]
        Tool::Search | Tool::Context => Err(ToolError::Arguments("this build has no search".to_owned())),
    };
    let (mut output, is_error) = match called {
        Ok(output) => (output, false),
        Err(error) => {
            let message = match error {
                ToolError::Arguments(message) => format!("{name}: {message}"),
                ToolError::Host(Error::NotFound { uri }) => {
                    let next = next_step(host, principal, tool, &uri).await;
                    format!("{}{next}", Error::NotFound { uri })
                }
                ToolError::Host(error) => error.to_string(),
            };
            (Output::text(message), true)
        }
    };
    let (footprint, missing) = (output.footprint(), std::mem::take(&mut output.missing));
    Ok(ToolOutcome { result: encode(output, is_error, revision), footprint, missing })
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
