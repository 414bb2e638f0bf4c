//! Extensions: what no revision of MCP has, each switched on by `server.extensions`. Off, nothing of it shows.
//!
//! | extension | what it adds | in |
//! |---|---|---|
//! | SEP-2093 | `capabilities` of resources; contents with all members of a resource; `uri` of `resources/list`; `resources/metadata` | every revision |
//! | SEP-2640, directory reading | `resources/directory/read` | 2026-07-28, which SEP-2640 is written for |
//!
//! A request that an extension answers ([`parse`]) is a [request for resources](super::resource_requests) like any other, answered
//! ([`execute`]) with objects of our own ([`encode`]): rmcp's have no room for members that rmcp does not know.
//!
//! SEP-2640 obliges a server with `resources/directory/read` to declare the extension of skills and to answer `skills/list`
//! and `skills/get`. There are no skills, which is what those say.

mod encode;
mod execute;
mod request;

pub(super) use self::execute::{ExtensionOutcome, execute};
pub(super) use self::request::{ExtensionRequest, parse};
