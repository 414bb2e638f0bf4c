//! Resolution: from the URI of a request to a plugin, and the access decision on the way.
//!
//! Everything here works on one [`Generation`], so routing, rules and plugins of one request always belong together.
//! A URI that the principal may not access is answered exactly as one that does not exist, and a malformed URI below a
//! mount tells only those about the mount who may access it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::generation::Generation;
use crate::access::Principal;
use crate::catalog::{PageRequest, Viewer};
use crate::config::Operation;
use crate::plugin::PluginSlot;
use crate::resource::{Contents, Entry, Error};
use crate::text;
use crate::uri::{Mount, Path, RouteError, Template, Uri};
