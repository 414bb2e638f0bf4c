//! Extensions: methods and members outside all revisions of MCP. Each is enabled by `server.extensions`; a disabled one
//! has no effect on the wire.
//!
//! | extension | adds | in revisions |
//! |---|---|---|
//! | SEP-2093 | `capabilities` of resources; contents with all members of a resource; `uri` of `resources/list`; `resources/metadata` | all |
//! | SEP-2640, directory reading | `resources/directory/read` | 2026-07-28, the revision that SEP-2640 is written for |
//!
//! A request of an extension ([`parse`]) is a [request for resources](super::resource_requests) like any other. It is
//! executed ([`execute`]), and answered with the objects of [`wire`](super::wire) plus the members of the extension
//! ([`encode`]).
//!
//! SEP-2640 obliges a server with `resources/directory/read` to declare the extension of skills and to answer
//! `skills/list` and `skills/get`. There are no skills, so the list is empty, and no skill is found.

mod encode;
mod execute;
mod request;

pub(super) use self::execute::{ExtensionOutcome, execute};
pub(super) use self::request::{ExtensionRequest, parse};
