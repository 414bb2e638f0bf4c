//! Lookups for hints of the command line and of tools after a failed request. They are not requests of the principal,
//! so the access log does not have them. They reveal only what the principal may know.

use mcp_host_config::Operation;
use mcp_host_config::nearest_mount;
use mcp_host_model::resource::ResourceTemplate;
use mcp_host_model::uri::Mount;

use super::Host;
use crate::access::Principal;
use crate::audit::Facts;
use crate::catalog::{PageRequest, Templates};

impl Host {
    /// Returns the mount that is most similar to the beginning of a URI, among the mounts below which the principal may
    /// perform the operation; none if one of them owns the URI.
    pub fn nearest_mount(&self, principal: &Principal, operation: Operation, uri: &str) -> Option<Mount> {
        let now = self.generation.load_full();
        let policy = now.access.policy(principal);
        let mounts = now.slots.iter().map(|slot| &slot.mount);
        let mounts: Vec<_> = mounts.filter(|mount| policy.may_allow_below(operation, mount)).collect();
        let has_uri = now.route_for(&policy, operation, uri).is_ok_and(|routed| mounts.contains(&routed.mount));
        nearest_mount(uri, mounts).filter(|_| !has_uri).cloned()
    }

    /// Returns the mount that owns a URI.
    pub fn mount_of(&self, uri: &str) -> Option<Mount> {
        self.generation.load().router.route(uri).ok().map(|routed| routed.mount.clone())
    }

    /// Returns whether a resource is listable, if it exists for the principal.
    pub async fn is_listable(&self, principal: &Principal, uri: &str) -> Option<bool> {
        let now = self.generation.load_full();
        let target = now.resolve(principal, Operation::Metadata, uri, &Facts::default()).ok()?;
        Some(target.stat(uri).await.ok()?.listable)
    }

    /// Returns the name of the plugin whose mount owns a URI, with the first of its templates that the principal may
    /// see.
    pub async fn templates_at(
        &self,
        principal: &Principal,
        uri: &str,
        limit: usize,
    ) -> Option<(String, Vec<ResourceTemplate>)> {
        let now = self.generation.load_full();
        let viewer = now.viewer(principal);
        let slot = now.slots.get(*now.route_for(&viewer.policy, Operation::Templates, uri).ok()?.target)?;
        let request = PageRequest { size: limit, ..now.page_request(&viewer, None) };
        let page = self.catalog.page(&Templates, std::slice::from_ref(slot), request).await.ok()?;
        Some((slot.name.clone(), page.items))
    }
}

/// Returns whether [`slash_hint`] may have a hint for a URI below a mount, as far as the text of the URI says. Without
/// it no templates need be requested. It does not depend on whether the resource exists or is denied.
pub fn may_have_slash_hint(mount: &Mount, uri: &str) -> bool {
    // The variable is followed by a slash, and its value has one more.
    let path = uri.strip_prefix(mount.as_str()).and_then(|rest| rest.split(['?', '#']).next());
    path.is_some_and(|path| path.matches('/').count() >= 2)
}

/// Returns the encoding of slashes in a value, if the URI may contain unencoded ones: it has more segments than one of
/// the templates, in which a variable is one segment among others (`blob/{rev}/{+path}`). The hint follows from both
/// texts, so it does not reveal which resources exist.
pub fn slash_hint(uri: &str, templates: &[ResourceTemplate]) -> Option<String> {
    templates.iter().find_map(|template| {
        let template = template.uri_template.as_str();
        let variable = segment_variable(uri, template)?;
        Some(format!("a slash within `{{{variable}}}` of `{template}` is written `%2F`"))
    })
}

/// Returns the first variable of a template that is one segment before others, if the URI begins like the template and
/// has more segments.
fn segment_variable<'a>(uri: &str, template: &'a str) -> Option<&'a str> {
    let (literal, rest) = template.split_once('{')?;
    let (variable, behind) = rest.split_once('}')?;
    let behind = behind.split("{?").next()?;
    let value = uri.strip_prefix(literal)?.split(['?', '#']).next()?;
    let is_simple = variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_one_of_several = literal.ends_with('/') && behind.starts_with('/');
    let slashes = |text: &str| text.matches('/').count();
    (is_simple && is_one_of_several && slashes(value) > slashes(behind)).then_some(variable)
}

#[cfg(test)]
mod tests {
    use super::{may_have_slash_hint, segment_variable};

    #[test]
    fn a_slash_may_belong_to_a_variable_that_is_one_segment_among_others() {
        let blob = "git://this/blob/{rev}/{+path}";
        for (uri, template, expected) in [
            ("git://this/blob/feature/x/README", blob, Some("rev")),
            ("git://this/blob/main/README", blob, None),
            ("git://this/tree/feature/x/README", blob, None),
            ("git://this/blame/a/b/c?lines=1-2", "git://this/blame/{rev}/{+path}{?lines}", Some("rev")),
            ("db://shop/public/a/b/rows", "db://shop/{schema}/{table}/rows{?limit}", Some("schema")),
            ("db://shop/public/a/rows?order=a/b/c", "db://shop/{schema}/{table}/rows{?limit}", None),
            ("files://f/a/b/c", "files://f/{+path}", None),
            ("files://f/a/b/c", "files://f/plain", None),
        ] {
            assert_eq!(segment_variable(uri, template), expected, "{uri}");
            let (scheme, rest) = uri.split_once("://").unwrap();
            let mount = format!("{scheme}://{}/", rest.split('/').next().unwrap()).parse().unwrap();
            assert!(expected.is_none() || may_have_slash_hint(&mount, uri), "{uri}");
        }
    }

    #[test]
    fn no_templates_are_requested_for_a_uri_that_is_too_short_for_a_hint() {
        let mount = "git://this/".parse().unwrap();
        for (uri, may_have) in [
            ("git://this/README", false),
            ("git://this/blob/README", false),
            ("git://this/blob/README?lines=a/b/c", false),
            ("git://this/feature/x/README", true),
            ("notes:///a/b/c", false),
        ] {
            assert_eq!(may_have_slash_hint(&mount, uri), may_have, "{uri}");
        }
    }
}
