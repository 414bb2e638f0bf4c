//! The next parts that [notices](crate::resource::Notice) of contents name, for one principal.

use crate::access::Policy;
use crate::config::Operation;
use crate::resource::{Notice, ResourceContents};
use crate::uri::Mount;

/// Removes the URIs of next parts that the principal may not read: what does not exist for it is not named.
pub(super) fn hide_denied(contents: &mut [ResourceContents], mount: &Mount, policy: &Policy) {
    for one in contents {
        Notice::replace_in(&mut one.entry.meta, |mut notice| {
            let is_allowed =
                |uri: &String| mount.composed_uri(uri).is_some_and(|uri| policy.allows(Operation::Read, &uri));
            notice.next = notice.next.filter(is_allowed);
            notice
        });
    }
}
