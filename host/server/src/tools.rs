//! Tools: what the server offers to clients that know only tools (`server.tools`).
//!
//! | tool | request | text |
//! |---|---|---|
//! | `list_resources` | `resources/list`, and with its first page `resources/templates/list` | a line for each resource and template |
//! | `read_resource` | `resources/read` | the text; images as such; a line for other binary content |
//! | `search_resources` | a search | a paragraph for each hit |
//! | `resource_context` | a selection within a budget | the passages |
//!
//! A tool calls the façade as the request for resources does: with the same principal, rules, limits and records. Its result is text for
//! models, whose last lines say what was left out, why, and how to get it. Links and structured content are off unless the config switches
//! them on; they exist from 2025-06-18 on, and so do titles and output schemas; annotations of tools exist from 2025-03-26 on. MCP asks for
//! text beside structured content ("SHOULD"), not for structured content beside text, so a result without it conforms to each revision.
//!
//! An argument that is not valid, and a resource that cannot be read, is an error of the tool, which a model sees. After a resource
//! that does not exist, it says what to do next. A tool that does not exist is an error of the request.

mod arguments;
mod call;
mod definition;
mod description;
mod integer;
mod list;
mod output;
mod read;
#[cfg(feature = "search")]
mod search;
#[cfg(not(feature = "search"))]
#[path = "tools/search/absent.rs"]
mod search;

pub(super) use self::call::call;
pub(super) use self::definition::list_result;
pub(super) use self::definition::{known_name, operations, requested_uri};
