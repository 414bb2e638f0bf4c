//! The protocol: messages, listings, errors and access, in every revision.

mod access;
mod access_matrix;
mod bad_input;
pub(crate) mod conformance;
mod curl;
mod cursors;
mod extensions;
mod golden;
mod merged_listings;
mod revisions;
pub(crate) mod skills;
