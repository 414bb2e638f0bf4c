//! Extensions: what no revision of MCP has, each switched on by `server.extensions`. Off, nothing of it shows.
//!
//! | extension | what it adds | in |
//! |---|---|---|
//! | SEP-2093 | `capabilities` of resources; contents with all members of a resource; `uri` of `resources/list`; `resources/metadata` | every revision |
//! | SEP-2640, directory reading | `resources/directory/read` | 2026-07-28, which SEP-2640 is written for |
//!
//! rmcp drops parameters that it does not know, and its objects have no room for members that it does not know. So what an
//! extension answers is looked at before rmcp sees it ([`look`]): it goes through rmcp as a request of an unknown method,
//! with [`Asked`] beside it, and is answered ([`answer`]) with objects of our own ([`objects`]). All that rmcp checks of a
//! request is checked of it as well.
//!
//! SEP-2640 obliges a server with `resources/directory/read` to declare the extension of skills and to answer `skills/list`
//! and `skills/get`. There are no skills, which is what those say.

mod answer;
mod asked;
mod objects;

pub(super) use self::answer::answer;
pub(super) use self::asked::{Asked, look};
