//! An upstream at which principals have their own identities: one client, with one connection, for each token.
//!
//! A call uses the first token of the config whose holder is the [caller](Caller) of its task or one of its groups.
//! There is no state besides these clients, so no answer reaches another identity: connections, spellings and metadata
//! of listings are separate, and cursors are bound to the identity. A caller without a token, and the host itself, see
//! nothing.
//!
//! Each client has subscriptions of its own. The host requests the changes of each identity, its listing included, on
//! behalf of a subscriber that has this identity at that time. So a change is only notified to subscribers whose token
//! has received it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::StreamExt as _;
use mcp_host_base::log_target;
use mcp_host_config::{IdentityToken, Plugin, TokenHolder};
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Outage, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{Argument, Completion};

use crate::connection::{self, ConnectError, Connector, Means};
use crate::provider::{Opening, UpstreamProvider, is_of_empty_server};

/// The maximum number of concurrent attempts to connect at the start.
const MAX_STARTING: usize = 8;
/// Separates the identity from the rest of a cursor.
const SEPARATOR: char = ':';

/// The clients of one upstream.
pub(crate) struct Identities {
    clients: Vec<Client>,
    info: ProviderInfo,
}

/// The client with the token of one holder.
struct Client {
    holder: TokenHolder,
    identity: Identity,
    provider: Arc<UpstreamProvider>,
}

impl Client {
    fn is_for(&self, caller: &Caller) -> bool {
        match &self.holder {
            TokenHolder::Principal(name) => caller.is_named(name),
            TokenHolder::Group(name) => caller.is_member_of(name),
        }
    }

    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        self.provider.connect().await.map_err(|error| error.to_string())?;
        self.provider.try_listing().await?;
        self.provider.check().await
    }

    /// Returns the prefix of this identity's cursors.
    fn mark(&self) -> String {
        mark(&self.holder)
    }
}

/// Returns a text that is unique to a holder. The order of the config does not matter.
fn mark(holder: &TokenHolder) -> String {
    match holder {
        TokenHolder::Principal(name) => format!("p{}{SEPARATOR}{name}{SEPARATOR}", name.len()),
        TokenHolder::Group(name) => format!("g{}{SEPARATOR}{name}{SEPARATOR}", name.len()),
    }
}

impl Identities {
    /// Opens the first connection of each client. A failed one is opened again at the next call of its principal. If
    /// all attempts fail, the upstream is not started.
    pub(crate) async fn start(
        plugin: &Plugin,
        tokens: &[IdentityToken],
        means: Means,
    ) -> std::result::Result<Self, ConnectError> {
        let number = NonZeroUsize::new(tokens.len()).unwrap_or(NonZeroUsize::MIN);
        let (mut clients, http) = (Vec::new(), connection::http_client(plugin).await?);
        for IdentityToken { holder, token, .. } in tokens {
            let credentials = connection::fixed(token)?;
            let connector =
                Connector::new(plugin, http.as_ref(), credentials.clone(), Some(name_of(holder)), means.clone())?;
            let opening = Opening::new(plugin, connector, http.as_ref(), credentials);
            let provider = Arc::new(UpstreamProvider::one_of(number, plugin, opening));
            // The token is not part of it: with another token, this is another provider.
            let identity = Identity::of(mark(holder).as_bytes());
            clients.push(Client { holder: holder.clone(), identity, provider });
        }
        let mut connecting = Vec::new();
        for client in &clients {
            let provider = client.provider.clone();
            connecting.push(async move { provider.connect().await });
        }
        let connected: Vec<_> = futures::stream::iter(connecting).buffered(MAX_STARTING).collect().await;
        let (mut info, mut watches, mut failed) = (None, false, None);
        for (Client { holder, .. }, connected) in clients.iter().zip(connected) {
            match connected {
                Ok(described) => {
                    watches |= described.watches;
                    info = info.or(Some(described));
                }
                Err(error) => {
                    let holder = name_of(holder);
                    tracing::warn!(target: log_target::PLUGIN, plugin = plugin.name.as_str(), %error, "the upstream cannot be connected to with the token of {holder}");
                    failed = failed.or(Some(error));
                }
            }
        }
        match (info, failed) {
            (Some(info), _) => Ok(Self { info: info.watches(watches).views(clients.len()), clients }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(ConnectError::no_upstream()),
        }
    }

    /// Returns the client for the caller of the current task.
    fn client(&self) -> Option<&Client> {
        self.client_of(&Caller::current()?)
    }

    fn client_of(&self, caller: &Caller) -> Option<&Client> {
        self.clients.iter().find(|client| client.is_for(caller))
    }
}

#[async_trait]
impl Provider for Identities {
    fn describe(&self) -> ProviderInfo {
        self.info.clone()
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let client = self.client().map(|client| (client.provider.clone(), client.mark()));
        list_as(client, parent, cursor, limit).await
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let client = self.client().ok_or(Failure::NotFound)?;
        let mut contents = client.provider.read(path).await?;
        contents.iter_mut().for_each(|one| not_shared(&mut one.entry));
        Ok(contents)
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let client = self.client().ok_or(Failure::NotFound)?;
        let mut entry = client.provider.stat(path).await?;
        not_shared(&mut entry);
        Ok(entry)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        match self.client() {
            Some(client) => client.provider.templates().await,
            None => Ok(Vec::new()),
        }
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let no_template = || Failure::invalid("the upstream has no such template");
        self.client().ok_or_else(no_template)?.provider.complete(template, argument, context).await
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        match self.client() {
            Some(client) => client.provider.changes(watched, since).await,
            None => Ok(ChangeSet::none("")),
        }
    }

    async fn changed(&self) {
        match self.client() {
            Some(client) => client.provider.changed().await,
            None => std::future::pending().await,
        }
    }

    fn identity(&self, caller: &Caller) -> Option<Identity> {
        self.client_of(caller).map(|client| client.identity)
    }

    fn reports_listing(&self, identity: &Identity) -> bool {
        self.clients.iter().any(|client| client.identity == *identity && client.provider.watches_listing())
    }

    fn end_view(&self, identity: &Identity) {
        let of_identity = self.clients.iter().filter(|client| client.identity == *identity);
        of_identity.for_each(|client| client.provider.release());
    }

    /// The upstream is reachable while any client that has ever been connected reaches it.
    fn outage(&self) -> Option<Outage> {
        let known = self.clients.iter().filter(|client| client.provider.health().is_known());
        let outages: Option<Vec<_>> = known.map(|client| client.provider.health().outage()).collect();
        outages?.into_iter().min_by_key(|outage| outage.since)
    }

    fn reset(&self) {
        for client in &self.clients {
            client.provider.reset();
        }
    }

    /// Checks the token of each holder: connects, and lists the first page.
    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        let checks: Vec<_> = self.clients.iter().map(Client::check).collect();
        let checked: Vec<_> = futures::stream::iter(checks).buffered(MAX_STARTING).collect().await;
        let (mut warnings, mut errors, mut is_empty_for_all) = (Vec::new(), Vec::new(), true);
        for (client, checked) in self.clients.iter().zip(checked) {
            match checked {
                Ok(found) => {
                    is_empty_for_all &= found.iter().any(|warning| is_of_empty_server(warning));
                    // Equal warnings apply to all clients.
                    for warning in found {
                        if !warnings.contains(&warning) {
                            warnings.push(warning);
                        }
                    }
                }
                Err(error) => errors.push(format!("the token of {}: {error}", name_of(&client.holder))),
            }
        }
        if !is_empty_for_all {
            warnings.retain(|warning| !is_of_empty_server(warning));
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors.join("; ")) }
    }
}

/// Returns the name of a token's holder, for messages.
fn name_of(holder: &TokenHolder) -> String {
    match holder {
        TokenHolder::Principal(name) => format!("the principal `{name}`"),
        TokenHolder::Group(name) => format!("the group `{name}`"),
    }
}

/// Lists with the client of the caller, if there is one. Its mark is the prefix of its cursors, which binds them to its
/// identity.
pub(crate) async fn list_as(
    client: Option<(Arc<UpstreamProvider>, String)>,
    parent: Option<&str>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let Some((client, mark)) = client else {
        return if parent.is_some() { Err(Failure::NotFound) } else { Ok(Page::last([])) };
    };
    let foreign = || Failure::invalid("the cursor does not belong to this listing");
    let cursor = cursor.map(|cursor| cursor.strip_prefix(mark.as_str()).ok_or_else(foreign)).transpose()?;
    let mut page = client.list(parent, cursor, limit).await?;
    page.entries.iter_mut().for_each(not_shared);
    page.next_cursor = page.next_cursor.map(|cursor| mark + &cursor);
    Ok(page)
}

/// Prevents caching of an identity's entry, because all callers share the cache.
pub(crate) fn not_shared(entry: &mut Entry) {
    entry.ttl = None;
}
