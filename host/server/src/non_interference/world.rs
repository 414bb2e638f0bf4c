//! Worlds, the providers that serve them, and the rules for the principal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use tempfile::TempDir;

use mcp_host_config::admin::{Admin, AdminAddress};
use mcp_host_config::search::PluginSearch;
use mcp_host_config::{
    Config, Extension, Operation, PrincipalSelector, Rule, TokenDigest, TokenDigests, TokenPrincipal, Tool,
};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::provider::{
    self, ChangeSet, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{Argument, Completion};
use mcp_host_model::uri::composed;
use mcp_resource_host::access::{Access, Policy};
use mcp_resource_host::host::Host;

use super::principal;

/// The tested principal, and one that may see everything. Their tokens are their names.
pub(super) const ADA: &str = "ada";
pub(super) const ROOT: &str = "root";
/// The plugin that the principal may see in part, by the rules.
pub(super) const PART: &str = "part";
/// The plugin that is completely hidden.
pub(super) const HIDDEN: &str = "hidden";
/// The plugin that the principal may see completely, unless it may see nothing at all.
const ALL: &str = "all";
/// A listable resource that is not a directory: its contents are the contents of all files.
pub(super) const COLLECTION: &str = "pub/collection";
const PLUGINS: [&str; 3] = [ALL, HIDDEN, PART];
/// The number of items on a provider's page.
const PAGE_SIZE: usize = 3;

/// The templates with their variables.
pub(super) const TEMPLATES: [(&str, &[&str]); 5] = [
    ("{+path}{?lines}", &["path", "lines"]),
    ("blob/{rev}/{+path}", &["rev", "path"]),
    ("blob/{rev}/{name}.{ext}", &["rev", "name", "ext"]),
    ("log/{rev}{/name}", &["rev", "name"]),
    ("pub{?of}", &["of"]),
];

/// Kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// The principal may see no plugin.
    Nothing,
    /// The principal may see everything but some names and folders.
    Deny,
    /// The principal may see some folders.
    Allow,
    /// The principal may see some folders, without some names in them.
    Both,
    /// Globs with choices and wildcards within a segment.
    Wildcards,
}

impl Rules {
    pub(super) const ALL: [Self; 5] = [Self::Nothing, Self::Deny, Self::Allow, Self::Both, Self::Wildcards];

    fn globs(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Nothing => (&[], &[]),
            Self::Deny => (
                &["all://h/**", "part://h/**"],
                &["**/.env", "part://h/secret/**", "part://h/*/secret/**", "part://h/Ä/**", "hidden://h/**"],
            ),
            Self::Allow => (&["all://h/**", "part://h/pub/**", "part://h/blob/main/**"], &[]),
            Self::Both => (
                &["all://h/**", "part://h/blob/**", "part://h/Ä/*"],
                &["part://h/**/b.txt", "part://h/blob/secret", "part://h/blob/secret/**"],
            ),
            Self::Wildcards => (
                &["all://h/**", "part://h/{pub,log,blob}/*", "part://h/blob/m*/**"],
                &["part://h/**/?.env", "part://h/*/*.txt"],
            ),
        }
    }
}

impl Rules {
    /// The rules for the principal.
    pub(super) fn rules(self) -> Vec<Rule> {
        let (allow, deny) = self.globs();
        let mut rule = Rule::new([PrincipalSelector::Named(ADA.to_owned())]);
        rule.allow = allow.iter().map(|glob| glob.parse().unwrap()).collect();
        rule.deny = deny.iter().map(|glob| glob.parse().unwrap()).collect();
        let mut all = Rule::new([PrincipalSelector::Named(ROOT.to_owned())]);
        all.groups = vec!["corp/all".to_owned()];
        all.allow = vec!["**".parse().unwrap()];
        vec![rule, all]
    }

    /// The policy of these rules for the principal.
    pub(super) fn policy(self) -> Arc<Policy> {
        Access::new(&Config { rules: self.rules(), ..Config::new() }).policy(&principal())
    }
}

/// Whether the policy lets the principal see a URI.
pub(super) fn is_allowed(policy: &Policy, uri: &str) -> bool {
    let uri = mcp_host_model::uri::UriPattern::text(uri);
    policy.allows_all(Operation::Read, &uri)
}

/// Random paths of some depth.
pub(super) fn paths(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    // Both Unicode compositions of a letter are the same name for the provider.
    let folder = prop::sample::select(vec!["pub", "secret", "blob", "blob", "main", "log", "%C3%84", "A%CC%88"]);
    let name = prop::sample::select(vec!["a.txt", "b.txt", "c.md", ".env", "x.env", "secret", "secret.md", "SKILL.md"]);
    let path = (prop::collection::vec(folder, 0..3), name);
    let path = path.prop_map(|(mut segments, name)| {
        segments.push(name);
        segments.join("/")
    });
    prop::collection::vec(path, count)
}

/// Returns the paths that two worlds have in common, those that only one of them has, all of these, and the
/// [URIs](pool) that a client uses.
pub(super) fn two_worlds() -> (Vec<String>, [Vec<String>; 2], Vec<String>, Vec<String>) {
    let common: Vec<String> = ["pub/a.txt", "pub/c.md", "blob/main/a.txt"].map(str::to_owned).into();
    let own = [&["secret/b.txt", "pub/.env", "blob/secret/b.txt", "A%CC%88/a.txt"][..], &["secret/secret.md"]];
    let own = own.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    let drawn: Vec<String> = [&common, &own[0], &own[1]].into_iter().flatten().cloned().collect();
    let pool = pool(&drawn);
    (common, own, drawn, pool)
}

/// The requested URIs: URIs of these paths and of their parent folders, and others.
pub(super) fn pool(drawn: &[String]) -> Vec<String> {
    let mut pool = BTreeSet::new();
    for path in drawn {
        pool.insert(format!("part://h/{path}"));
        pool.insert(format!("part://h/{path}?lines=x"));
        pool.insert(format!("hidden://h/{path}"));
        for (at, _) in path.match_indices('/') {
            let (folder, _) = path.split_at(at);
            pool.extend([format!("part://h/{folder}"), format!("part://h/{folder}/")]);
        }
        if let Some(other) = composed(path) {
            pool.insert(format!("part://h/{other}"));
        }
    }
    let more = [
        "part://h/",
        "part://h",
        "part://h/none",
        "part://h/%zz",
        "part://h/../x",
        "part://h/secret/%zz",
        "part://h/pub/%2E%2E/secret/b.txt",
        "PART://H/secret/",
        "hidden://h/",
        "hidden://h/%zz",
        "all://h/",
        "all://h/all.txt",
        "nobody://h/",
        "no uri",
        "",
    ];
    pool.extend(more.map(str::to_owned));
    pool.into_iter().collect()
}

/// The contents of the providers.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// The files of the partly visible plugin.
    part: BTreeSet<String>,
    /// The folders of that plugin, with a slash at the end.
    folders: BTreeSet<String>,
    /// The files of the hidden plugin.
    hidden: BTreeSet<String>,
    /// The number of edits of each file's text in the first plugin, which no entry shows.
    edits: BTreeMap<String, u32>,
}

impl Contents {
    /// A world of all visible drawn paths with all parent folders, and of its own hidden paths and folders.
    pub(super) fn new(drawn: &[String], common: &[String], own: &[String], is_visible: &dyn Fn(&str) -> bool) -> Self {
        let mut contents = Self::default();
        // The provider treats both compositions as the same name, so a principal that may see one of them sees the
        // file.
        let forms = |path: &str| [Some(path.to_owned()), composed(path)].into_iter().flatten().collect::<Vec<_>>();
        let may_see = |path: &str| forms(path).iter().any(|path| is_visible(&format!("part://h/{path}")));
        for path in drawn {
            let is_own = own.contains(path);
            if may_see(path) || is_own {
                contents.part.insert(path.clone());
            }
            for (at, _) in path.match_indices('/') {
                let (folder, _) = path.split_at(at + 1);
                if is_own || may_see(folder) {
                    contents.folders.insert(folder.to_owned());
                }
            }
        }
        contents.hidden.extend(own.iter().chain(common).cloned());
        contents
    }

    pub(super) fn with_file(mut self, path: &str) -> Self {
        self.part.insert(path.to_owned());
        self
    }

    /// Changes the text of a file.
    pub(super) fn with_edit(mut self, path: &str) -> Self {
        *self.edits.entry(path.to_owned()).or_default() += 1;
        self
    }

    pub(super) fn with_folder(mut self, path: &str) -> Self {
        self.folders.insert(path.to_owned());
        self
    }
}

/// The providers of a host.
pub(super) struct Providers {
    models: [(&'static str, Arc<Model>); 3],
}

/// Starts a host with these rules and no search, and returns it with its directory and its providers.
pub(super) async fn started(rules: Rules) -> (TempDir, Providers, Arc<Host>) {
    let (dir, providers) = (tempfile::tempdir().unwrap(), Providers::new());
    let host = providers.start(rules, dir.path(), false).await;
    (dir, providers, host)
}

impl Providers {
    pub(super) fn new() -> Self {
        Self { models: PLUGINS.map(|name| (name, Arc::new(Model { name, ..Model::default() }))) }
    }

    pub(super) fn set(&self, contents: Contents) {
        for (name, model) in &self.models {
            let (files, folders) = match *name {
                PART => (contents.part.clone(), contents.folders.clone()),
                HIDDEN => (contents.hidden.clone(), BTreeSet::new()),
                _ => (BTreeSet::from(["all.txt".to_owned(), "more.txt".to_owned()]), BTreeSet::new()),
            };
            let (edits, is_cached) = (contents.edits.clone(), model.is_cached.load(Ordering::SeqCst));
            *model.tree.lock() = Tree { files, folders, edits, is_cached };
            model.version.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Gives entries a time to live by their name, and makes a read of a file return its siblings, too.
    pub(super) fn cache(&self) {
        self.models.iter().for_each(|(_, model)| model.is_cached.store(true, Ordering::SeqCst));
    }

    /// The number of walks of the partly visible plugin's whole listing.
    pub(super) fn walks(&self) -> usize {
        self.models.iter().filter(|(name, _)| *name == PART).map(|(_, model)| model.walks.load(Ordering::SeqCst)).sum()
    }

    /// The number of calls so far.
    pub(super) fn calls(&self) -> usize {
        self.models.iter().map(|(_, model)| model.calls.load(Ordering::SeqCst)).sum()
    }

    /// The number of folder listings so far, each counted at its end.
    pub(super) fn folder_listings(&self) -> usize {
        self.models.iter().map(|(_, model)| model.folder_listings.load(Ordering::SeqCst)).sum()
    }

    /// Resets the counters of calls.
    pub(super) fn forget_calls(&self) {
        self.models.iter().for_each(|(_, model)| model.calls.store(0, Ordering::SeqCst));
    }

    /// Makes all listings of the plugin fail.
    pub(super) fn fail(&self, plugin: &str) {
        self.set_failing(plugin, true);
    }

    /// Sets whether all listings of the plugin fail.
    pub(super) fn set_failing(&self, plugin: &str, fails: bool) {
        for (_, model) in self.models.iter().filter(|(name, _)| *name == plugin) {
            model.fails.store(fails, Ordering::SeqCst);
        }
    }

    pub(super) fn calls_of(&self, plugin: &str) -> usize {
        let models = self.models.iter().filter(|(name, _)| *name == plugin);
        models.map(|(_, model)| model.calls.load(Ordering::SeqCst)).sum()
    }

    pub(super) async fn start(&self, rules: Rules, dir: &Path, has_search: bool) -> Arc<Host> {
        let mut config = Config::new();
        config.server.page_size = 3_usize.try_into().unwrap();
        config.server.extensions = Extension::ALL.to_vec();
        config.server.tools = if has_search { Tool::ALL.to_vec() } else { vec![Tool::List, Tool::Read] };
        config.rules = rules.rules();
        // For the console.
        let mut admin = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        admin.users = true;
        config.admin = Some(admin);
        config.http.limits.client_rate = "1000000/s".parse().unwrap();
        config.http.limits.rate = "1000000/s".parse().unwrap();
        config.principals = [ADA, ROOT]
            .map(|name| TokenPrincipal {
                name: name.parse().unwrap(),
                token_sha256: TokenDigests::new([TokenDigest::of(name)]),
            })
            .into();
        if has_search {
            let mut rule = Rule::new([PrincipalSelector::Any]);
            rule.allow = ["search:///**", "context:///**"].map(|glob| glob.parse().unwrap()).into();
            config.rules.push(rule);
        }
        let mut builder = Host::builder(config).cache_dir(dir.join("cache")).state_dir(dir.join("state"));
        for (name, model) in &self.models {
            let mount = format!("{name}://h/").parse().unwrap();
            let plugin = NativePlugin::new(name.parse().unwrap(), mount, model.clone());
            let plugin = plugin.watch_interval("100ms".parse().unwrap()).skills(["**".parse().unwrap()]);
            let plugin = if has_search { plugin.search(PluginSearch::default()) } else { plugin };
            builder = builder.native_plugin(plugin);
        }
        Arc::new(builder.start().await.unwrap())
    }
}

/// A provider of files and folders. Names that differ only in their Unicode composition are the same, and its errors
/// name the files.
#[derive(Default)]
struct Model {
    name: &'static str,
    tree: Mutex<Tree>,
    calls: AtomicUsize,
    /// The number of walks of the whole listing. A walk ends with the templates.
    walks: AtomicUsize,
    folder_listings: AtomicUsize,
    fails: AtomicBool,
    is_cached: AtomicBool,
    version: AtomicU64,
}

#[derive(Clone, Default)]
struct Tree {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
    edits: BTreeMap<String, u32>,
    is_cached: bool,
}

impl Tree {
    /// The file at a path, in either composition.
    fn file(&self, path: &str) -> Option<&String> {
        let same = |one: &str| composed(one).unwrap_or_else(|| one.to_owned());
        self.files.iter().find(|file| *file == path || same(file) == same(path))
    }

    fn entry(&self, path: &str) -> Result<Entry> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(Entry::directory(path, path).subscribable());
        }
        if path == COLLECTION {
            return Ok(Entry::new(path, path).listable().subscribable());
        }
        let file = self.file(path).ok_or(Failure::NotFound)?;
        let entry = Entry::new(path, file.as_str()).mime_type("text/plain").subscribable();
        Ok(match file.rsplit('/').next() {
            _ if !self.is_cached => entry,
            Some(".env") => entry,
            Some("secret") => entry.ttl(Duration::from_secs(1)),
            _ => entry.ttl(Duration::from_secs(3600)),
        })
    }

    fn text(&self, path: &str) -> String {
        let edits = self.edits.get(path).map(|count| format!("Edited {count} times.\n")).unwrap_or_default();
        format!("{}{edits}", text_of(path))
    }

    /// The children of a folder, or the members of the collection: all files.
    fn children(&self, folder: &str) -> Vec<String> {
        if folder == COLLECTION {
            return self.files.iter().cloned().collect();
        }
        let below = |path: &&String| {
            path.strip_prefix(folder).is_some_and(|rest| !rest.is_empty() && !rest.trim_end_matches('/').contains('/'))
        };
        self.files.iter().chain(&self.folders).filter(below).cloned().collect()
    }
}

impl Model {
    fn called(&self) -> Tree {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.tree.lock().clone()
    }
}

fn text_of(path: &str) -> String {
    if let Some(folder) = path.strip_suffix("/SKILL.md") {
        let name = folder.rsplit('/').next().unwrap_or_default();
        return format!("---\nname: {name}\ndescription: The skill {path}\n---\n");
    }
    format!("The text of {path}, which many words are about, in {} bytes.", path.len())
}

#[async_trait]
impl Provider for Model {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new(self.name, "1.0.0").watches(true)
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let tree = self.called();
        if self.fails.load(Ordering::SeqCst) {
            return Err(Failure::internal("it fails"));
        }
        let mut paths: Vec<String> = match parent {
            None => tree.files.iter().cloned().collect(),
            Some(parent) if tree.entry(parent)?.listable => tree.children(parent),
            Some(parent) => return Err(Failure::invalid(format!("a folder; {parent} is a file"))),
        };
        paths.sort();
        paths.retain(|path| cursor.is_none_or(|last| path.as_str() > last));
        let rest = paths.split_off(paths.len().min(limit.min(PAGE_SIZE)));
        let next_cursor = paths.last().filter(|_| !rest.is_empty()).cloned();
        if parent.is_some() && next_cursor.is_none() {
            self.folder_listings.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Page { entries: paths.iter().map(|path| tree.entry(path)).collect::<Result<_>>()?, next_cursor })
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let tree = self.called();
        let mut entry = tree.entry(path.split('?').next().unwrap_or(path))?;
        entry.path = path.to_owned();
        Ok(entry)
    }

    async fn read(&self, path: &str) -> Result<Vec<provider::Contents>> {
        let tree = self.called();
        let (name, query) = path.split_once('?').unwrap_or((path, ""));
        let entry = tree.entry(name)?;
        if !query.is_empty() {
            return Err(Failure::invalid(format!("other lines; {name} has {} bytes", text_of(name).len())));
        }
        let inner = match name.rsplit_once('/') {
            _ if entry.listable => tree.children(name),
            Some((folder, _)) if tree.is_cached => tree.children(&format!("{folder}/")),
            _ => Vec::new(),
        };
        // A collection has no content of its own.
        let own = (name != COLLECTION).then(|| provider::Contents::text(entry, tree.text(name)));
        let mut contents: Vec<_> = own.into_iter().collect();
        for path in inner {
            contents.push(provider::Contents::text(tree.entry(&path)?, tree.text(&path)));
        }
        Ok(contents)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        self.called();
        self.walks.fetch_add(1, Ordering::SeqCst);
        Ok(TEMPLATES.iter().map(|(template, _)| Template::new(*template, *template)).collect())
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let tree = self.called();
        let known = |name: &str| context.iter().find(|known| known.name == name).map(|known| known.value.as_str());
        let paths = tree.files.iter().chain(&tree.folders);
        let paths = paths.map(|path| percent_decode_str(path).decode_utf8_lossy().into_owned());
        let mut values = BTreeSet::new();
        match (template, argument.name.as_str()) {
            ("{+path}{?lines}", "path") => values.extend(paths.map(|path| match path.strip_prefix(&argument.value) {
                Some(rest) => format!("{}{}", argument.value, rest.split_inclusive('/').next().unwrap_or_default()),
                None => path,
            })),
            ("{+path}{?lines}", "lines") => {
                let path = known("path").ok_or_else(|| Failure::invalid("a path"))?;
                let file = tree.file(path).ok_or_else(|| Failure::invalid(format!("a file; {path} is none")))?;
                if argument.value.is_empty() {
                    return Err(Failure::invalid(format!("lines of {file}, which has {} bytes", file.len())));
                }
                values.insert(format!("{}-{}", argument.value, file.len()));
            }
            ("pub{?of}", "of") if paths.clone().any(|path| path == argument.value) => {
                return Err(Failure::invalid(format!("not {}, which is a file", argument.value)));
            }
            ("pub{?of}", "of") => values.extend(paths),
            (template, name) if !template.starts_with('{') => {
                for path in paths {
                    let mut segments = path.splitn(3, '/');
                    let (kind, rev, path) = (segments.next(), segments.next(), segments.next());
                    let (Some(kind), Some(rev)) = (kind, rev) else { continue };
                    let is_other = !template.starts_with(kind) || known("rev").is_some_and(|known| known != rev);
                    // A `blob/{rev}/…` must have a path; a `log/{rev}{/name}` need not have a name.
                    if is_other || (kind == "blob" && path.is_none()) {
                        continue;
                    }
                    let path = path.unwrap_or_default();
                    // A name is one segment.
                    let name_of_file = if path.contains('/') { "" } else { path };
                    let (stem, ext) = name_of_file.rsplit_once('.').unwrap_or(("", ""));
                    let value = match name {
                        "rev" => rev,
                        "path" => path,
                        "name" if template.contains("{/") => name_of_file,
                        "name" => stem,
                        "ext" if known("name").is_none_or(|known| known == stem) => ext,
                        _ => "",
                    };
                    values.insert(value.to_owned());
                }
            }
            _ => return Err(Failure::invalid(format!("a variable of one of {} files", tree.files.len()))),
        }
        Ok(Completion::matching(values.into_iter().filter(|value| !value.is_empty()), &argument.value))
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        self.called();
        let version = self.version.load(Ordering::SeqCst).to_string();
        Ok(match since {
            Some(since) if since != version => ChangeSet::all(version, watched).listing_changed(),
            _ => ChangeSet::none(version),
        })
    }
}
