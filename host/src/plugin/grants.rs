//! What a plugin was granted, enforced.
//!
//! Grants have one shape. `config::grants::NAME` parses what the file says into a value that is right, and is the reference of
//! what may be written there; `grants::NAME` here enforces it for one plugin. It is built once per plugin from that value,
//! gives each call what the call needs, refuses everything else in the words of the standard interface that the guest
//! uses, and says so in the log, once a minute for each kind of refusal. `sandbox` puts a call's context together from all of
//! them.

pub(super) mod dirs;
pub(super) mod http;
pub(super) mod keyvalue;
mod throttled_warning;
