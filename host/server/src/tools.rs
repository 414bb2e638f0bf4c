//! Tools for clients that support only tools (`server.tools`).
//!
//! | tool | request | text |
//! |---|---|---|
//! | `list_resources` | `resources/list`, and with its first page `resources/templates/list` | a line for each resource and template |
//! | `read_resource` | `resources/read` | the text; images as such; a line for other binary content |
//! | `search_resources` | a search | a paragraph for each hit |
//! | `resource_context` | a selection within a budget | the passages |
//!
//! A tool makes the same calls of the façade as the corresponding request: with the same principal, rules, limits and
//! audit records. Its result is text for models. The last lines of the text list omissions, their reasons, and how to
//! get the omitted parts. Links and structured content are off unless the config switches them on. They exist from
//! 2025-06-18 on, and so do titles and output schemas; annotations of tools exist from 2025-03-26 on. MCP recommends
//! text in addition to structured content ("SHOULD"), not structured content in addition to text, so a result of text
//! only conforms to each revision.
//!
//! An invalid argument and an unreadable resource are errors of the tool, which a model sees. For a resource that does
//! not exist, the error suggests a next step. An unknown tool is an error of the request.

mod arguments;
mod call;
mod definition;
mod description;
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
