//! The resources of context: the built-in mount `context:`, which exists while any plugin is searched.
//!
//! `context:///?q=QUESTION`, with `budget` and `audience`, has the best selection for a question within a budget of
//! tokens: several contents, each with the URI of its resource, or of its lines where the provider has lines. `_meta`
//! of each has the reason for its choice. Without `q`, passages are selected by priority alone.
//!
//! Like [searches](super::search_resources), these resources are a [built-in
//! provider](mcp_host_engine::plugin::BuiltIn).

use std::sync::Arc;

use mcp_host_config::{Config, Operation, PluginName};
use mcp_host_engine::plugin::{BuiltIn, BuiltInContents, NativePlugin, Plugin};
use mcp_host_model::principal::Principal;
use mcp_host_model::provider::{Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait};
use mcp_host_model::resource::{
    Argument, Completion, Error, Meta, NOTICES_META_KEY, Resource, ResourceBody, ResourceContents, Role,
};
use mcp_host_model::uri::{Mount, Path, Uri};

use super::context::{ContextPassage, ContextRequest, ContextSelection};
use super::parameters::{self, parameters};
use super::service::{SearchService, has_search};

/// The name of the plugin in messages.
const NAME: &str = "mcp-host.context";
/// Its mount.
const MOUNT: &str = "context:///";
/// The template of selections.
const TEMPLATE: &str = "{?q,budget,audience}";
/// The keys in `_meta` of a content: the reason for its choice, its lines and its tokens; and in the first content, the
/// omitted passages.
const REASON: &str = "mcp-host/reason";
const LINES: &str = "mcp-host/lines";
const TOKENS: &str = "mcp-host/tokens";
const LEFT_OUT: &str = "mcp-host/left-out";

/// The provider of selections.
pub(super) struct ContextResources(Arc<SearchService>);

impl ContextResources {
    /// The plugin that mounts the provider.
    pub(super) fn plugin(service: Arc<SearchService>) -> Option<NativePlugin> {
        let (name, mount): (PluginName, Mount) = (NAME.parse().ok()?, MOUNT.parse().ok()?);
        Some(NativePlugin::built_in(name, mount, Arc::new(Self(service))))
    }
}

fn parse(path: &str) -> Result<ContextRequest> {
    let mut request = ContextRequest::new(ContextRequest::DEFAULT_BUDGET);
    let query = match path.strip_prefix('?') {
        Some(query) => query,
        None if path.is_empty() => "",
        None => return Err(Failure::NotFound),
    };
    for (name, value) in parameters(query) {
        match name {
            // A template expression without a value.
            _ if value.is_empty() => {}
            "q" => request.query = Some(value),
            "budget" => request.budget = parameters::integer(name, &value, ContextRequest::MAX_BUDGET)?,
            "audience" => request.audience = Some(parse_audience(&value)?),
            _ => return Err(parameters::unknown(name, &["q", "budget", "audience"])),
        }
    }
    Ok(request)
}

fn parse_audience(text: &str) -> Result<Role> {
    match text {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => Err(parameters::wrong("audience", "`user` or `assistant`", text)),
    }
}

#[async_trait]
impl Provider for ContextResources {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("context", env!("CARGO_PKG_VERSION"))
            .title("Context")
            .description("The best selection from the resources of this server within a budget of tokens.")
    }

    async fn list(&self, parent: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        match parent {
            None => Ok(Page::default()),
            Some(_) => Err(Failure::invalid("a URI of a plugin; selections have no children")),
        }
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let request = parse(path)?;
        Ok(Entry::new(path, request.query.unwrap_or_else(|| "context".to_owned())).mime_type("text/plain"))
    }

    /// Reads need a principal: [`read_for`](BuiltIn::read_for).
    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        parse(path).and(Err(Failure::internal("a context was read without a principal")))
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let description = "The best passages for a question within a budget of tokens, each with the URI of its resource. `q`: \
                           the question, without which the selection is by priority; `budget`: the number of tokens; \
                           `audience`: `user` or `assistant`.";
        Ok(vec![Template::new(TEMPLATE, "context").title("Context").description(description)])
    }
}

#[async_trait]
impl BuiltIn for ContextResources {
    fn is_mounted(&self, config: &Config, native: &[&Plugin]) -> bool {
        has_search(config, native.iter().copied())
    }

    fn performed_operations(&self) -> &'static [Operation] {
        &[Operation::List, Operation::Read]
    }

    async fn read_for(
        &self,
        principal: &Principal,
        uri: &Uri,
        path: &Path,
    ) -> std::result::Result<BuiltInContents, Error> {
        let request = parse(path.as_str()).map_err(|failure| match failure {
            Failure::InvalidRequest(message) => Error::InvalidRequest { message },
            _ => Error::NotFound { uri: uri.to_string() },
        })?;
        let Self(service) = self;
        let selection = service.context(principal, request).await?;
        let returned = selection.passages.iter().map(|passage| passage.resource.uri.to_string()).collect();
        Ok(BuiltInContents { contents: to_contents(selection, uri), returned })
    }

    async fn complete_for(&self, _: &Principal, argument: &Argument) -> std::result::Result<Completion, Error> {
        match argument.name.as_str() {
            "audience" => Ok(Completion::matching(["assistant", "user"], &argument.value)),
            "q" | "budget" => Ok(Completion::default()),
            _ => {
                let message = "the template has the variables `q`, `budget` and `audience`".to_owned();
                Err(Error::InvalidRequest { message })
            }
        }
    }
}

/// The passages as contents, or an empty content of the selection itself if there are none.
fn to_contents(selection: ContextSelection, uri: &Uri) -> Vec<ResourceContents> {
    let left_out = serde_json::json!({
        "overBudget": selection.over_budget,
        "nearCopies": selection.near_copies,
        "partial": selection.is_partial,
        "incomplete": selection.incomplete,
    });
    let mut contents: Vec<_> = selection.passages.into_iter().map(to_content).collect();
    if contents.is_empty() {
        let entry = Resource { mime_type: Some("text/plain".to_owned()), ..Resource::named(uri.clone(), "context") };
        contents.push(ResourceContents { entry, body: ResourceBody::Text(String::new()) });
    }
    if let Some(first) = contents.first_mut() {
        first.entry.meta.insert(LEFT_OUT.to_owned(), left_out);
    }
    contents
}

fn to_content(passage: ContextPassage) -> ResourceContents {
    let ContextPassage { resource, lines_uri, text, lines, tokens, reason } = passage;
    let mut meta = Meta::from_iter([
        (REASON.to_owned(), reason.into()),
        (LINES.to_owned(), vec![lines.0, lines.1].into()),
        (TOKENS.to_owned(), tokens.into()),
    ]);
    let notices = resource.meta.get(NOTICES_META_KEY).cloned();
    meta.extend(notices.map(|notices| (NOTICES_META_KEY.to_owned(), notices)));
    let size = u64::try_from(text.len()).ok();
    let entry = Resource { uri: lines_uri.unwrap_or_else(|| resource.uri.clone()), size, meta, ..resource };
    ResourceContents { entry, body: ResourceBody::Text(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_its_parameters() {
        let request = ContextRequest::new(100).query("a b").audience(Role::User);
        assert_eq!(parse("?q=a%20b&budget=100&audience=user"), Ok(request));
        assert_eq!(parse(""), Ok(ContextRequest::new(ContextRequest::DEFAULT_BUDGET)));
        for invalid in ["?budget=0", "?budget=x", "?audience=all", "?other=1"] {
            assert!(matches!(parse(invalid), Err(Failure::InvalidRequest(_))), "{invalid}");
        }
        assert_eq!(parse("x"), Err(Failure::NotFound));
    }

    #[test]
    fn its_own_plugin_is_valid() {
        assert!(ContextResources::plugin(SearchService::new(None, None)).is_some());
    }
}
