//! Tools: what the server offers to clients that know only tools (`server.tools`).
//!
//! | tool | request | content | structured content |
//! |---|---|---|---|
//! | `list_resources` | `resources/list`, and with its first page `resources/templates/list` | a line and a link for each resource, a line for each template | the page, the templates |
//! | `read_resource` | `resources/read` | the text; other content as an embedded resource | the contents |
//! | `search_resources` | a search | a paragraph and a link for each hit | the result |
//! | `resource_context` | a selection within a budget | the passages, and a link for each | the selection |
//!
//! A tool calls the façade as the request for resources does: with the same principal, rules, limits and records. A client
//! that ignores one of both forms of the content misses nothing: the text has what a model needs, and structured content
//! conforms to the output schema. Links exist from 2025-06-18 on, and so do titles, output schemas and structured content;
//! annotations of tools exist from 2025-03-26 on.
//!
//! An argument that is not valid, and a resource that cannot be read, is an error of the tool, which a model sees. After a resource
//! that does not exist, it says what to do next. A tool that does not exist is an error of the request.

mod arguments;
mod call;
#[cfg(feature = "search")]
mod context;
mod definition;
#[cfg(feature = "search")]
mod integer;
mod list;
mod next_step;
mod output;
mod read;
mod schema;
#[cfg(feature = "search")]
mod search;

pub(super) use self::call::{ToolOutcome, call};
pub(super) use self::definition::{LIST_FOOTPRINT, list_result};
#[cfg(feature = "http")]
pub(super) use self::definition::{operations, requested_uri};
