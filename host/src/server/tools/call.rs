//! Calling a tool.

use rmcp::ErrorData;
use serde_json::{Value, json};

use super::definition::tool_named;
use super::next_step::next_step;
use super::output::{Output, ToolError};
use crate::access::Principal;
use crate::config::Tool;
use crate::host::Host;
use crate::resource::{Error, MissingPlugin};
use crate::server::json::Encoder;
use crate::server::params::{TOOL_PARAMS, ToolParams};
use crate::server::revision::Revision;
use crate::server::wire;

/// A value of a resource is in the result up to so many times: as text, as structured content, and as a link.
const COPIES: usize = 3;

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
    let ToolParams { name, arguments, omits_templates } = params;
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
    let arguments = arguments.as_deref();
    let called = match tool {
        Tool::List => super::list::call(host, principal, arguments, omits_templates, revision).await,
        Tool::Read => super::read::call(host, principal, arguments).await,
        #[cfg(feature = "search")]
        Tool::Search => super::search::call(host, principal, arguments, revision).await,
        #[cfg(feature = "search")]
        Tool::Context => super::context::call(host, principal, arguments, revision).await,
        #[cfg(not(feature = "search"))]
        Tool::Search | Tool::Context => Err(ToolError::Arguments("this build has no search".to_owned())),
    };
    Ok(match called {
        Ok(Output { text, items, structured, footprint, missing }) => {
            let result = encode(text, items, structured.filter(|_| revision.has_titles()), false, revision);
            ToolOutcome { result, footprint: footprint.saturating_mul(COPIES), missing }
        }
        Err(error) => {
            let message = match error {
                ToolError::Arguments(message) => format!("{name}: {message}"),
                ToolError::Host(Error::NotFound { uri }) => {
                    let next = next_step(host, principal, tool, &uri);
                    format!("{}{next}", Error::NotFound { uri })
                }
                ToolError::Host(error) => error.to_string(),
            };
            let footprint = message.len();
            ToolOutcome { result: encode(message, Vec::new(), None, true, revision), footprint, missing: Vec::new() }
        }
    })
}

fn encode(text: String, items: Vec<Value>, structured: Option<Value>, is_error: bool, revision: Revision) -> Encoder {
    Encoder::new(move |writer| {
        writer.object(|members| {
            wire::result_type(members, revision);
            let text = (!text.is_empty() || items.is_empty()).then(|| json!({ "type": "text", "text": text }));
            let content: Vec<_> = text.into_iter().chain(items).collect();
            members.member("content").array(content, |writer, item| writer.value(item));
            if let Some(structured) = structured {
                members.member("structuredContent").value(structured);
            }
            if is_error {
                members.serialize("isError", &true);
            }
        });
    })
}
