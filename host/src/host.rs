//! The façade: everything that a host does, for one principal at a time, with no word of any protocol.
//!
//! The MCP server and the command line are two of its users; an application that embeds the host is another. A request goes
//! straight down: its URI is parsed and routed to a plugin, the principal's access is decided, the plugin's provider is called
//! in its sandbox; and straight back. No request waits here for a lock or in a queue.
//!
//! A host changes by [`Host::reload`] alone, and then as a whole: each request works with the *generation* of its beginning.

mod asked;
mod below;
mod builder;
mod dirs;
mod generation;
mod reload;
mod status;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

use self::asked::told;
use self::generation::Generation;
use crate::access::Principal;
use crate::catalog::{Catalog, Entries, PageRequest, Slot, Templates};
use crate::config::{Config, Operation};
use crate::plugin::{Fault, Plugins};
use crate::resource::{Argument, Completion, Contents, Entry, EntryTemplate, Error, Listing};
use crate::uri::{Mount, Path, RouteError, Template, Uri};
use crate::watch::{Hub, Subscriber, Watching};

pub use self::builder::{Builder, StartError};
pub use self::dirs::Dirs;
pub use self::reload::{ReloadError, Reloaded};
pub use self::status::{State, Status};

/// A host with its plugins loaded.
///
/// It is cheap to share behind an [`Arc`]; every method takes `&self` and may be called from any number of tasks. It needs a
/// tokio runtime. Dropping it ends the calls that are under way.
pub struct Host {
    /// What requests work with that begin now.
    generation: ArcSwap<Generation>,
    catalog: Catalog,
    watches: Arc<Hub>,
    plugins: Plugins,
    /// Held by the one reload that is under way.
    reloading: Mutex<()>,
}

/// A request to list: the whole catalog, or what is directly below one resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest<'a> {
    /// The URI of a listable resource whose children are asked for; without one, the catalog.
    pub parent: Option<&'a str>,
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<&'a str>,
}

/// A request to complete a variable of a template.
#[derive(Clone, Debug)]
pub struct CompleteRequest<'a> {
    /// The template, as [`Host::templates`] lists it.
    pub template: &'a str,
    /// The variable, and what has been typed of its value.
    pub argument: Argument,
    /// Variables that have values already.
    pub known: Vec<Argument>,
}

impl Host {
    /// Starts a host as the configuration says: [`Host::builder`] with nothing changed.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::builder(config).start().await
    }

    /// A host that is about to be started.
    pub fn builder(config: Config) -> Builder {
        Builder::new(config)
    }

    /// The configuration that it serves by now.
    pub fn config(&self) -> Arc<Config> {
        self.generation.load().config.clone()
    }

    /// The number of the generation that serves by now: 1 at first, and one more with each reload that changes something.
    pub fn generation(&self) -> u64 {
        self.generation.load().number
    }

    /// How each plugin is at this moment, in the order of their names.
    pub fn plugins(&self) -> Vec<Status> {
        self.generation.load().slots.iter().map(Status::of).collect()
    }

    /// One page of the merged listing, or of what is directly below a resource.
    ///
    /// A plugin that fails is left out of the merged listing and named in it; the listing below a resource fails with it. A
    /// resource that cannot be listed is an invalid request.
    pub async fn list(&self, who: &Principal, request: ListRequest<'_>) -> Result<Listing<Entry>, Error> {
        if let Some(parent) = request.parent {
            let check = |entry: &Entry| if entry.listable { Ok(()) } else { Err("cannot be listed") };
            return self.list_below(who, parent, request.cursor, check).await;
        }
        told(who, Operation::List, "", async {
            let now = self.generation.load_full();
            let entries = Entries { parent: None, access: &now.access, principal: who };
            self.catalog.page(&entries, &now.slots, now.page_request(who, request.cursor)).await
        })
        .await
    }

    /// One page of all templates.
    pub async fn templates(&self, who: &Principal, cursor: Option<&str>) -> Result<Listing<EntryTemplate>, Error> {
        told(who, Operation::Templates, "", async {
            let now = self.generation.load_full();
            let templates = Templates { access: &now.access, principal: who };
            self.catalog.page(&templates, &now.slots, now.page_request(who, cursor)).await
        })
        .await
    }

    /// Reads a resource: at least one content. Those with other URIs than the one asked for are of what is below it.
    pub async fn read(&self, who: &Principal, uri: &str) -> Result<Vec<Contents>, Error> {
        told(who, Operation::Read, uri, async {
            let now = self.generation.load_full();
            let target = now.resolve(who, Operation::Read, uri)?;
            let plugin = target.slot.loaded()?;
            let contents = plugin.read(&target.path).await.map_err(|fault| fault.answer(plugin.name(), uri))?;
            now.readable(who, uri, contents)
        })
        .await
    }

    /// Tells about a resource without reading it.
    pub async fn metadata(&self, who: &Principal, uri: &str) -> Result<Entry, Error> {
        told(who, Operation::Metadata, uri, async {
            let now = self.generation.load_full();
            now.resolve(who, Operation::Metadata, uri)?.stat(uri).await
        })
        .await
    }

    /// Completes a variable of a template. A template that is not there, or not for this principal, is not found.
    pub async fn complete(&self, who: &Principal, request: CompleteRequest<'_>) -> Result<Completion, Error> {
        told(who, Operation::Complete, request.template, self.completed(who, &request)).await
    }

    async fn completed(&self, who: &Principal, request: &CompleteRequest<'_>) -> Result<Completion, Error> {
        let now = self.generation.load_full();
        let template = request.template;
        let (slot, routed) = now.router.route_template(template).map_err(|error| refused(&error, template))?;
        let not_found = || Error::NotFound { uri: template.to_owned() };
        let slot = now.slots.get(*slot).ok_or_else(not_found)?;
        if !now.access.allows_template(who, Operation::Complete, &routed) {
            return Err(not_found());
        }
        let plugin = slot.loaded()?;
        let asked = (request.argument.clone(), request.known.clone());
        let mut completion = plugin
            .complete(routed.path_template(), asked.0, asked.1)
            .await
            .map_err(|fault| fault.answer(plugin.name(), template))?;
        let offered = completion.values.len();
        completion.values.retain(|value| now.may_know(who, &routed, request, value));
        if completion.values.len() < offered {
            completion.total = None;
        }
        Ok(completion)
    }

    /// A subscriber that is told of nothing yet.
    pub fn subscriber(&self, who: &Principal) -> Subscriber {
        self.watches.subscriber(who)
    }

    /// How much is being watched at this moment, by all subscribers together.
    pub fn watching(&self) -> Watching {
        self.watches.watching()
    }

    /// Whether any plugin can tell what changes.
    pub fn is_watching(&self) -> bool {
        self.watches.is_watching()
    }

    /// Whether that operation gives every principal the same answers, by the rules.
    pub fn is_same_for_all(&self, operation: Operation) -> bool {
        self.generation.load().access.is_same_for_all(operation)
    }

    /// Whether a URI is one, and a plugin owns it.
    pub fn serves(&self, uri: &str) -> bool {
        self.generation.load().router.route(uri).is_ok()
    }

    /// Subscribes to a resource. When this returns, every change from then on is told at least once.
    pub async fn subscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        let who = subscriber.principal();
        told(who, Operation::Subscribe, uri, self.subscribed(who, subscriber, uri)).await
    }

    async fn subscribed(&self, who: &Principal, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        let now = self.generation.load_full();
        let target = now.resolve(who, Operation::Subscribe, uri)?;
        if !now.access.allows(who, Operation::Read, &target.uri) {
            return Err(Error::NotFound { uri: uri.to_owned() });
        }
        let plugin = target.slot.loaded()?;
        let answer = |fault: Fault| fault.answer(plugin.name(), uri);
        let entry = plugin.stat(&target.path).await.map_err(answer)?;
        if !entry.subscribable {
            return Err(Error::InvalidRequest { message: format!("{uri} cannot be subscribed to") });
        }
        self.watches.subscribe(subscriber, uri, &target.uri).await.map_err(answer)
    }

    /// Takes a subscription back. That there is none is no error.
    pub fn unsubscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        match self.generation.load().router.route(uri) {
            Ok(routed) => subscriber.unsubscribe(&routed.uri),
            // Its plugin may be gone since; nobody can say any more how else it may be spelled.
            Err(RouteError::NoMount) if subscriber.unsubscribe_as(uri) => {}
            Err(error) => return Err(refused(&error, uri)),
        }
        Ok(())
    }
}

impl Generation {
    /// Whether a value that completes a template tells the principal of nothing that does not exist for it.
    fn may_know(&self, who: &Principal, template: &Template, request: &CompleteRequest<'_>, value: &str) -> bool {
        let known = || request.known.iter().map(|one| (one.name.as_str(), one.value.as_str()));
        let completed = (request.argument.name.as_str(), value);
        let expanded = template.expand(known().chain([completed]));
        let Ok(routed) = self.router.route(&expanded) else { return true };
        let is_whole = template.variables().all(|name| name == completed.0 || known().any(|(known, _)| known == name));
        match is_whole {
            true => self.access.allows(who, Operation::Read, &routed.uri),
            false => !self.access.denies(who, Operation::Read, &routed.uri),
        }
    }

    fn page_request<'a>(&self, who: &'a Principal, cursor: Option<&'a str>) -> PageRequest<'a> {
        let server = &self.config.server;
        let bytes = usize::try_from(server.page_bytes.bytes()).unwrap_or(usize::MAX);
        PageRequest { principal: who, scope: "", cursor, size: server.page_size.get(), bytes }
    }

    /// Where a URI leads, if it is one and the principal may do that there.
    fn resolve(&self, who: &Principal, operation: Operation, uri: &str) -> Result<Target<'_>, Error> {
        let routed = self.router.route(uri).map_err(|error| match error.mount() {
            // That there is such a mount is nothing that everyone may know.
            Some(mount) if !self.may_enter(who, operation, mount) => Error::NotFound { uri: uri.to_owned() },
            _ => refused(&error, uri),
        })?;
        let slot = self.slots.get(*routed.target).filter(|_| self.access.allows(who, operation, &routed.uri));
        let slot = slot.ok_or_else(|| Error::NotFound { uri: uri.to_owned() })?;
        Ok(Target { slot, uri: routed.uri, path: routed.path })
    }

    fn may_enter(&self, who: &Principal, operation: Operation, mount: &Mount) -> bool {
        mount.compose("").is_ok_and(|root| self.access.allows(who, operation, &root.uri))
    }
}

/// Where a URI leads.
struct Target<'a> {
    slot: &'a Slot,
    uri: Uri,
    path: Path,
}

/// The answer to a URI or template that cannot be routed.
fn refused(error: &RouteError, asked: &str) -> Error {
    match error {
        RouteError::NoMount => Error::NotFound { uri: asked.to_owned() },
        _ => Error::InvalidRequest { message: error.to_string() },
    }
}
