//! An upstream with one client for each caller, and so one connection or one program: `views = "principal"`, and token
//! exchange.
//!
//! | one client for each | credentials |
//! |---|---|
//! | principal (`views = "principal"`) | the credentials of the config |
//! | access token of a client (`auth.forward = "exchange"`) | another token, obtained in exchange for it (RFC 8693) |
//!
//! There is no state besides these clients, so no answer reaches another caller. A user with a new access token gets a
//! new client. An access token is sent only to the token endpoint of the config. Callers without a name, or without an
//! access token of an issuer, see nothing, and neither does the host itself. Each client has separate subscriptions at
//! the upstream.
//!
//! With `views`, the host has its own client, which determines whether the server is reachable. With an exchange, a
//! token is only used for requests of its user, so only a call determines whether the server is reachable.
//!
//! LRU: at most [`MAX_CLIENTS`] clients are kept, or [`MAX_PROGRAMS`] if they are programs, and the least recently used
//! one without subscribers is evicted. Half of them may have subscribers, so there is always one to evict, and no
//! number of requests ends a subscription. A principal with [`MAX_OF_PRINCIPAL`] access tokens evicts its own clients.
//!
//! A client is created by a call of its caller, or by a subscription to a resource. Changes of the listing are reported
//! for clients that exist: the host requests them without watched paths, which neither creates a client nor counts as
//! its use.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use mcp_host_config::grants::{AuthorizationGrant, OAuth};
use mcp_host_config::{Plugin, Secret, TokenExchange, UpstreamSource};
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Outage, Page, Programs, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{Argument, Completion};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::connection::{self, ConnectError, Connector, Means};
use crate::http::{Credentials, HttpClient};
use crate::identities::{list_as, not_shared};
use crate::provider::{Opening, UpstreamProvider};
use crate::tokens::TokenClient;

/// The maximum number of clients.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// The maximum number of clients of one principal, by different access tokens. Half of them may have subscribers.
const MAX_OF_PRINCIPAL: usize = 32;
/// The maximum number of programs, not counting the host's own.
pub(crate) const MAX_PROGRAMS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// The kind of callers that have their own clients, and the credentials.
enum Holder {
    /// One client for each principal.
    Principal(Credentials),
    /// One client for each access token of a client.
    Exchange(Box<TokenExchange>, Arc<TokenClient>),
}

/// The clients of one upstream.
pub(crate) struct CallerClients {
    plugin: Plugin,
    holder: Holder,
    means: Means,
    http: Option<HttpClient>,
    runtime: Handle,
    clients: Mutex<HashMap<Identity, Client>>,
    /// Notified when a client was added.
    added: Notify,
    /// The client of the host, if it has its own.
    own: Option<UpstreamProvider>,
    info: ProviderInfo,
}

struct Client {
    provider: Arc<UpstreamProvider>,
    /// The name of the principal.
    principal: String,
    used_at: Instant,
    /// Whether there are subscribers of resources with this identity.
    is_watched: bool,
}

impl CallerClients {
    /// Prepares clients for access tokens. There is no token yet to connect with.
    pub(crate) async fn of_access_tokens(
        plugin: &Plugin,
        exchange: &TokenExchange,
        tokens: Arc<TokenClient>,
        means: Means,
    ) -> std::result::Result<Self, ConnectError> {
        let mut clients = Self::new(plugin, Holder::Exchange(Box::new(exchange.clone()), tokens), means).await?;
        // Only each resource shows whether it can be subscribed to.
        clients.info = ProviderInfo::default().watches(true).views(clients.max_views());
        Ok(clients)
    }

    /// Opens the host's own connection with these credentials, which all principals share.
    pub(crate) async fn of_principals(
        plugin: &Plugin,
        credentials: Credentials,
        means: Means,
    ) -> std::result::Result<Self, ConnectError> {
        let mut clients = Self::new(plugin, Holder::Principal(credentials.clone()), means).await?;
        let own = clients.connected_with(credentials)?;
        clients.info = own.connect().await?.views(clients.max_views());
        clients.own = Some(own);
        Ok(clients)
    }

    async fn new(plugin: &Plugin, holder: Holder, means: Means) -> std::result::Result<Self, ConnectError> {
        Ok(Self {
            plugin: plugin.clone(),
            holder,
            means,
            http: connection::http_client(plugin).await?,
            runtime: Handle::current(),
            clients: Mutex::default(),
            added: Notify::new(),
            own: None,
            info: ProviderInfo::default(),
        })
    }

    /// Returns the client for the caller of the current task, and the prefix of its cursors.
    fn client(&self) -> Option<(Arc<UpstreamProvider>, String)> {
        let caller = Caller::current()?;
        let identity = self.identity_of(&caller)?;
        let mark = identity.bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some((self.client_of(&caller, identity, false)?, mark))
    }

    /// The digest of the access token, or of the name of the principal.
    fn identity_of(&self, caller: &Caller) -> Option<Identity> {
        let key = match &self.holder {
            Holder::Principal(_) => caller.name()?,
            Holder::Exchange(..) => caller.access_token()?.expose(),
        };
        Some(Identity::of(key.as_bytes()))
    }

    /// Returns the client of an identity, which this caller has. `is_watching` is whether it is for a subscriber.
    fn client_of(&self, caller: &Caller, identity: Identity, is_watching: bool) -> Option<Arc<UpstreamProvider>> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get_mut(&identity) {
            client.used_at = Instant::now();
            client.is_watched |= is_watching;
            return Some(client.provider.clone());
        }
        let provider = Arc::new(self.connected_with(self.credentials(caller)?).ok()?);
        let principal = caller.name().unwrap_or_default().to_owned();
        let is_own = |client: &Client| client.principal == principal;
        let has_many = clients.values().filter(|client| is_own(client)).count() >= MAX_OF_PRINCIPAL;
        if has_many || clients.len() >= self.max_clients().get() {
            let order = |(_, client): &(&Identity, &Client)| (client.is_watched, client.used_at);
            let evictable = clients.iter().filter(|(_, client)| !has_many || is_own(client));
            let oldest = evictable.min_by_key(order).map(|(identity, _)| *identity);
            oldest.and_then(|oldest| clients.remove(&oldest));
        }
        let client = Client { provider: provider.clone(), principal, used_at: Instant::now(), is_watched: is_watching };
        clients.insert(identity, client);
        self.added.notify_one();
        Some(provider)
    }

    /// Returns the client of an identity, if there is one, without a use of it.
    fn existing(&self, identity: &Identity) -> Option<Arc<UpstreamProvider>> {
        self.clients.lock().get(identity).map(|client| client.provider.clone())
    }

    /// Returns the client of the subscriber on whose behalf the current task watches, if there is one.
    fn watching(&self) -> Option<Arc<UpstreamProvider>> {
        self.existing(&self.identity_of(&Caller::current()?)?)
    }

    fn credentials(&self, caller: &Caller) -> Option<Credentials> {
        let (exchange, tokens) = match &self.holder {
            Holder::Principal(credentials) => return Some(credentials.clone()),
            Holder::Exchange(exchange, tokens) => (exchange, tokens),
        };
        let UpstreamSource::Url(url) = &self.plugin.upstream.as_ref()?.source else { return None };
        let grant = AuthorizationGrant::TokenExchange {
            subject: Secret::new(caller.access_token()?.expose().to_owned()),
            client: exchange.client.clone(),
            resource: url.clone(),
        };
        let mut source = OAuth::new(grant, exchange.oauth.token_uri.clone());
        (source.scopes, source.ca) = (exchange.oauth.scopes.clone(), exchange.oauth.ca.clone());
        Some(Credentials::Tokens(tokens(&source)))
    }

    /// Returns a client with these credentials, which connects at its first call.
    fn connected_with(&self, credentials: Credentials) -> std::result::Result<UpstreamProvider, ConnectError> {
        let (runtime, means) = (self.runtime.clone(), self.means.clone());
        let connector = Connector::on(runtime, &self.plugin, self.http.as_ref(), credentials.clone(), None, means)?;
        let opening = Opening::new(&self.plugin, connector, self.http.as_ref(), credentials);
        Ok(UpstreamProvider::one_of(self.max_clients(), &self.plugin, opening))
    }

    fn max_clients(&self) -> NonZeroUsize {
        if self.http.is_some() { MAX_CLIENTS } else { MAX_PROGRAMS }
    }

    /// The maximum number of clients with subscribers.
    fn max_views(&self) -> usize {
        self.max_clients().get().div_euclid(2)
    }
}

#[async_trait]
impl Provider for CallerClients {
    fn describe(&self) -> ProviderInfo {
        self.info.clone()
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        list_as(self.client(), parent, cursor, limit).await
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let (client, _) = self.client().ok_or(Failure::NotFound)?;
        let mut contents = client.read(path).await?;
        contents.iter_mut().for_each(|one| not_shared(&mut one.entry));
        Ok(contents)
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let (client, _) = self.client().ok_or(Failure::NotFound)?;
        let mut entry = client.stat(path).await?;
        not_shared(&mut entry);
        Ok(entry)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        match self.client() {
            Some((client, _)) => client.templates().await,
            None => Ok(Vec::new()),
        }
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let no_template = || Failure::invalid("the upstream has no such template");
        self.client().ok_or_else(no_template)?.0.complete(template, argument, context).await
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let client = if watched.is_empty() {
            self.watching()
        } else {
            Caller::current().and_then(|caller| {
                let identity = self.identity_of(&caller)?;
                self.client_of(&caller, identity, true)
            })
        };
        match client {
            Some(client) => client.changes(watched, since).await,
            None => Ok(ChangeSet::none("")),
        }
    }

    async fn changed(&self) {
        match self.watching() {
            Some(client) => client.changed().await,
            None => std::future::pending().await,
        }
    }

    fn identity(&self, caller: &Caller) -> Option<Identity> {
        self.identity_of(caller)
    }

    fn reports_listing(&self, identity: &Identity) -> bool {
        self.existing(identity).is_some_and(|client| client.watches_listing())
    }

    async fn identities_changed(&self) {
        self.added.notified().await;
    }

    fn end_subscriptions(&self, identity: &Identity) {
        if let Some(client) = self.clients.lock().get_mut(identity) {
            client.is_watched = false;
        }
    }

    fn end_view(&self, identity: &Identity) {
        if let Some(client) = self.clients.lock().get_mut(identity) {
            client.is_watched = false;
            client.provider.release();
        }
    }

    fn outage(&self) -> Option<Outage> {
        self.own.as_ref()?.outage()
    }

    fn reset(&self) {
        let clients: Vec<_> = self.clients.lock().values().map(|client| client.provider.clone()).collect();
        for client in self.own.iter().chain(clients.iter().map(|client| &**client)) {
            client.reset();
        }
    }

    /// Returns the memory of all programs.
    fn memory(&self) -> Option<u64> {
        let own = self.own.as_ref()?.memory()?;
        let clients: Vec<_> = self.clients.lock().values().map(|client| client.provider.clone()).collect();
        let others = clients.iter().filter_map(|client| client.memory());
        Some(others.fold(own, u64::saturating_add))
    }

    fn programs(&self) -> Option<Programs> {
        let own = self.own.as_ref()?.program()?;
        let clients: Vec<_> = self.clients.lock().values().map(|client| client.provider.clone()).collect();
        let mut programs: Vec<_> = clients.iter().filter_map(|client| client.program()).collect();
        programs.sort_by_key(|program| program.started);
        programs.insert(0, own);
        Some(self.means.ledger.programs(programs))
    }

    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        match &self.own {
            Some(own) => own.check().await,
            None => Ok(Vec::new()),
        }
    }
}
