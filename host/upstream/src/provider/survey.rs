//! Statistics of the first pages of listings, for the warnings of `mcp-host check`: an upstream may answer correctly,
//! and yet none of its resources is served.

use mcp_host_base::text::Excerpt;

use super::Shared;

/// The warning about a server without resources.
const NO_RESOURCES: &str = "the server has no resources, so nothing of it is served: its capabilities have no `resources`, and tools \
                            and prompts of an upstream are not served; remove this upstream, or mount a server that has resources";
/// The warning about a server that lists nothing.
const NOTHING_LISTED: &str = "nothing of the server is served: it lists neither a valid resource nor a valid template, and tools and \
                              prompts of an upstream are not served; remove this upstream, unless its resources come later";

/// Returns whether this is a warning that the server has nothing. With another token it may have something.
pub(crate) fn is_of_empty_server(warning: &str) -> bool {
    [NO_RESOURCES, NOTHING_LISTED].contains(&warning)
}

/// The number of listed URIs, and of those that have a path.
#[derive(Debug, Default)]
pub(super) struct Survey {
    listed: u64,
    mapped: u64,
    /// The first URI without a path.
    unmapped: Option<String>,
    /// Whether a listing has reached its end.
    has_ended: bool,
}

impl Survey {
    /// Records an entry of a listing.
    pub(super) fn record(&mut self, uri: &str, is_mapped: bool) {
        self.listed = self.listed.saturating_add(1);
        if is_mapped {
            self.mapped = self.mapped.saturating_add(1);
        } else if self.unmapped.is_none() {
            self.unmapped = Some(Excerpt(uri).to_string());
        }
    }

    /// Records that a listing has reached its end.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether a whole listing had no resource.
    fn is_empty(&self) -> bool {
        self.listed == 0 && self.has_ended
    }
}

impl Shared {
    /// Returns the reasons why nothing of the upstream is served, after its first page was listed.
    pub(super) async fn warnings(&self) -> Vec<String> {
        let Ok(link) = self.connector.link().await else { return Vec::new() };
        if !link.has_resources() {
            return vec![NO_RESOURCES.to_owned()];
        }
        let templates = self.templates().await;
        let has_no_template = templates.as_ref().is_ok_and(Vec::is_empty);
        let templates = templates.unwrap_or_default();
        let survey = self.survey.lock();
        if has_no_template && survey.is_empty() {
            return vec![NOTHING_LISTED.to_owned()];
        }
        let Some(unmapped) = survey.unmapped.as_ref().filter(|_| survey.mapped == 0 && templates.is_empty()) else {
            return Vec::new();
        };
        let (listed, mount) = (survey.listed, self.mapping.mount());
        vec![match self.mapping.prefix() {
            Some(prefix) => format!(
                "nothing of the server is served: of the {listed} URIs that it lists first none begins with `prefix = \"{prefix}\"`, and the \
                 first is {unmapped}; write the beginning that its URIs have, or remove `prefix` and put the mount in front of them, such as \
                 `mount = \"{name}+\"`",
                name = self.name.replace('_', "-"),
            ),
            None => format!(
                "nothing of the server is served: none of the {listed} URIs that it lists first can be put behind `{mount}`, and the first is \
                 {unmapped}; URIs have a scheme (RFC 3986)"
            ),
        }]
    }
}
