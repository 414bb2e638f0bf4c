//! An upstream that gets, for each access token of a client, another one that was exchanged for it (RFC 8693): one client, with one
//! connection, for each of them.
//!
//! The access token of a client goes to the token endpoint of the config alone. It is the identity: nothing is kept beside its client, so no
//! answer reaches another token, and a user who has a new one begins anew. A caller without an access token of an issuer, and the host
//! itself, see nothing; nothing can be subscribed to.
//!
//! At most [`MAX_CLIENTS`] are kept, the ones that were used last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use mcp_host_config::grants::{AuthorizationGrant, OAuth};
use mcp_host_config::{Plugin, Secret, TokenExchange, UpstreamSource};
use mcp_host_model::caller::Caller;
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{Argument, Completion};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::connection::{self, ConnectError, Connector};
use crate::http::{Credentials, HttpClient};
use crate::identities::not_shared;
use crate::process::Launcher;
use crate::provider::UpstreamProvider;
use crate::tokens::TokenClient;

/// The identities that are kept at once.
const MAX_CLIENTS: usize = 256;

/// The digest of an access token.
type Identity = [u8; 32];

/// The clients of one upstream.
pub(crate) struct ExchangedIdentities {
    plugin: Plugin,
    exchange: TokenExchange,
    tokens: Arc<TokenClient>,
    launcher: Arc<dyn Launcher>,
    http: Option<HttpClient>,
    runtime: Handle,
    clients: Mutex<HashMap<Identity, Client>>,
}

struct Client {
    provider: Arc<UpstreamProvider>,
    used_at: Instant,
}

impl ExchangedIdentities {
    /// Prepares clients. There is no token to connect with yet.
    pub(crate) async fn new(
        plugin: &Plugin,
        exchange: &TokenExchange,
        tokens: Arc<TokenClient>,
        launcher: Arc<dyn Launcher>,
    ) -> std::result::Result<Self, ConnectError> {
        Ok(Self {
            plugin: plugin.clone(),
            exchange: exchange.clone(),
            tokens,
            launcher,
            http: connection::http_client(plugin).await?,
            runtime: Handle::current(),
            clients: Mutex::default(),
        })
    }

    /// The client for whoever the current task calls for, and what its cursors begin with.
    fn client(&self) -> Option<(Arc<UpstreamProvider>, String)> {
        let caller = Caller::current()?;
        let token = caller.access_token()?.expose();
        let identity: Identity = Sha256::digest(token.as_bytes()).into();
        let mark = identity.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get_mut(&identity) {
            client.used_at = Instant::now();
            return Some((client.provider.clone(), mark));
        }
        let provider = Arc::new(self.new_client(token)?);
        if clients.len() >= MAX_CLIENTS {
            let oldest = clients.iter().min_by_key(|(_, client)| client.used_at).map(|(identity, _)| *identity);
            oldest.and_then(|oldest| clients.remove(&oldest));
        }
        clients.insert(identity, Client { provider: provider.clone(), used_at: Instant::now() });
        Some((provider, mark))
    }

    fn new_client(&self, token: &str) -> Option<UpstreamProvider> {
        let UpstreamSource::Url(url) = &self.plugin.upstream.as_ref()?.source else { return None };
        let TokenExchange { client, oauth, .. } = &self.exchange;
        let grant = AuthorizationGrant::TokenExchange {
            subject: Secret::new(token.to_owned()),
            client: client.clone(),
            resource: url.clone(),
        };
        let mut source = OAuth::new(grant, oauth.token_uri.clone());
        (source.scopes, source.ca) = (oauth.scopes.clone(), oauth.ca.clone());
        let credentials = Credentials::Tokens((self.tokens)(&source));
        let (runtime, launcher) = (self.runtime.clone(), self.launcher.clone());
        let connector = Connector::on(runtime, &self.plugin, self.http.as_ref(), credentials, launcher).ok()?;
        Some(UpstreamProvider::new(&self.plugin, connector, ProviderInfo::default()))
    }
}

#[async_trait]
impl Provider for ExchangedIdentities {
    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let Some((client, mark)) = self.client() else {
            return if parent.is_some() { Err(Failure::NotFound) } else { Ok(Page::last([])) };
        };
        let foreign = || Failure::invalid("the cursor is none of this listing");
        let cursor = cursor.map(|cursor| cursor.strip_prefix(mark.as_str()).ok_or_else(foreign)).transpose()?;
        let mut page = client.list(parent, cursor, limit).await?;
        page.entries.iter_mut().for_each(not_shared);
        page.next_cursor = page.next_cursor.map(|cursor| mark + &cursor);
        Ok(page)
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

    async fn changes(&self, _watched: &[String], _since: Option<&str>) -> Result<ChangeSet> {
        Ok(ChangeSet::none(""))
    }
}
