//! Skills (SEP-2640): directories with a `SKILL.md`, below the mounts of plugins whose config names them (`skills`).
//!
//! A skill is found in the listing of its plugin, and consists of what the principal may list and read of it: a file that the
//! principal may not see is no part of the skill, neither named nor counted. The host stores no index. Each request walks the
//! listing ([`find`]), and reads the files of the skills that it returns, for their digests ([`build`]). Digests of files whose
//! modification time and size are known are kept ([`Digests`]).
//!
//! A skill that breaks a rule of the [Agent Skills specification](https://agentskills.io/specification) or a limit of SEP-2640 is
//! not served; `mcp-host check` says which ([`SkillProblem`]).
//!
//! # Bounds
//!
//! A walk keeps the first [`PAGE`] directories after a position, of [`MAX_FOUND`] bytes of URIs together, whatever the listing has:
//! pages of skills are in the order of URIs, and each has a walk of its own. The walk of one plugin ends after [`MAX_PAGES`] pages or
//! [`MAX_TIME`], and then nothing of the plugin is served. A skill has at most [`MAX_FILES`] files and [`MAX_BYTES`] bytes, as SEP-2640
//! recommends, and reading them takes at most [`MAX_TIME`]. Few requests walk the listing of a plugin at a time, with a share
//! for each client ([`MAX_WALKS`]).

mod front_matter;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::{Duration, SystemTime};

use mcp_host_base::text::truncated;
use mcp_host_config::UriGlob;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, Plugin};
use mcp_host_model::resource::{Footprint, Notice, NoticeKind, Resource, ResourceContents};
use mcp_host_model::uri::{Mount, Uri};
use mcp_host_sandbox::fair_semaphore::FairSemaphore;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

/// The name of the manifest of a skill.
const MANIFEST: &str = "SKILL.md";
/// The maximum number of files of a skill (SEP-2640, "Limits").
const MAX_FILES: usize = 512;
/// The maximum size of all files of a skill in bytes (SEP-2640, "Limits").
const MAX_BYTES: u64 = 16 << 20;
/// The number of directories that a walk returns.
pub(crate) const PAGE: usize = 32;
/// The maximum number of requests that walk the listing of a plugin at a time.
const MAX_WALKS: usize = 4;
/// The maximum number of requests that wait for that.
const MAX_WAITING: usize = 64;
/// The maximum number of pages of a plugin's listing that are searched for skills.
const MAX_PAGES: usize = 1024;
/// The number of entries that a page is requested with.
const PAGE_SIZE: u32 = 1000;
/// The maximum time for the walk of a plugin's listing, and for reading the files of a skill.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The maximum size of the URIs that a walk keeps.
const MAX_FOUND: usize = 2 << 20;
/// The number of directories above a file that may be skills: those at the top.
const MAX_DEPTH: usize = 32;
/// The number of skills, one within the other, that a file belongs to: the outer ones.
const MAX_NESTED: usize = 8;
/// The size of the digests that are kept of a plugin.
const MAX_DIGESTS: u64 = 1 << 20;
/// A file that was modified less than this ago may be modified again without another modification time.
const CLOCK_RESOLUTION: Duration = Duration::from_secs(2);
/// The time in which a check reads skills.
const CHECK_TIME: Duration = Duration::from_secs(30);
/// The maximum number of problems of a check.
const MAX_PROBLEMS: usize = 100;

/// A skill, as one principal sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skill {
    /// The URI of its `SKILL.md`.
    pub uri: Uri,
    /// The front matter of its `SKILL.md`: YAML as JSON.
    pub front_matter: Map<String, Value>,
    /// Its files, ordered by URI, with its `SKILL.md`.
    pub files: Vec<SkillFile>,
    /// The time for which it may be considered unchanged: the least of its files'.
    pub ttl: Duration,
}

/// A file of a skill.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillFile {
    /// Its URI.
    pub uri: Uri,
    /// The SHA-256 of what reading it returns: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The number of bytes that reading it returns.
    pub size: u64,
}

impl Footprint for Skill {
    fn footprint(&self) -> usize {
        let files = self.files.iter().map(|file| {
            size_of::<SkillFile>().saturating_add(file.uri.as_str().len()).saturating_add(file.digest.len())
        });
        let own = size_of::<Self>().saturating_add(self.uri.as_str().len());
        files.chain([footprint_of_members(&self.front_matter)]).fold(own, usize::saturating_add)
    }
}

/// Returns the approximate memory of a JSON value. Its depth is bounded by the parser.
fn footprint_of(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(footprint_of).fold(0, usize::saturating_add),
        Value::Object(members) => footprint_of_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>().saturating_add(inner)
}

fn footprint_of_members(members: &Map<String, Value>) -> usize {
    let members = members.iter().map(|(key, value)| key.len().saturating_add(footprint_of(value)));
    members.fold(0, usize::saturating_add)
}

/// What keeps a directory from being served as a skill. `Display` has the line, the rule and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillProblem {
    /// The line of its `SKILL.md`.
    pub line: Option<usize>,
    /// The rule that it breaks.
    pub rule: SkillRule,
}

impl fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.rule)
    }
}

/// A rule of the Agent Skills specification or of SEP-2640 that a directory breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillRule {
    /// `SKILL.md` does not begin with front matter.
    #[error("expected `---` as the first line, and front matter with `name` and `description` below it")]
    NoFrontMatter,
    /// The front matter has no end.
    #[error("the front matter has no end; write a line `---` below it")]
    Unterminated,
    /// The front matter is too long.
    #[error("the front matter has more than {0} bytes; move text below it")]
    FrontMatterTooLong(usize),
    /// The front matter is not YAML, has a key twice, or expands to too much.
    #[error("expected YAML with each key once, and text with `: ` or `#` in quotes")]
    Yaml,
    /// The front matter is not a mapping.
    #[error("expected `name: …` and `description: …`, found no mapping")]
    NotMapping,
    /// A required member is missing.
    #[error("the front matter has no `{0}`")]
    Missing(&'static str),
    /// A member is not a text.
    #[error("`{0}` is not a text; write it in quotes")]
    NotText(&'static str),
    /// A member is empty.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// A member is too long.
    #[error("`{key}` has {found} characters, and may have {max}")]
    TooLong {
        /// The member.
        key: &'static str,
        /// The maximum number of characters.
        max: usize,
        /// The number of characters.
        found: usize,
    },
    /// The name has characters that a name may not have.
    #[error("`name` is not of a-z, 0-9 and single `-` between them")]
    Name,
    /// The name is not that of the directory.
    #[error("`name` is `{name}`, and the directory `{directory}`; rename one of them")]
    NameOfDirectory {
        /// The name in the front matter.
        name: String,
        /// The name of the directory.
        directory: String,
    },
    /// The skill has too many files.
    #[error("it has {0} files, and may have {MAX_FILES}; move what agents do not need out of the directory")]
    Files(usize),
    /// The URIs of its files are too long.
    #[error("the URIs of its files have more than {MAX_FOUND} bytes; use shorter names")]
    Uris,
    /// Reading its files takes too long.
    #[error("reading its files takes longer than {} s", MAX_TIME.as_secs())]
    Time,
    /// The files of the skill are too large.
    #[error("its files have more than {MAX_BYTES} bytes; move what agents do not need out of the directory")]
    Bytes,
    /// `SKILL.md` is not text.
    #[error("`SKILL.md` is not text in UTF-8")]
    NotUtf8,
    /// What reading a file returns is not all of it, so that no client could compare its digest.
    #[error("reading {0} returns a part of the file; raise the limit of the provider, or make the file smaller")]
    Cut(Uri),
    /// A file cannot be read.
    #[error("{uri} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        uri: Uri,
        /// Why.
        reason: String,
    },
}

/// A directory that may be a skill: its files.
#[derive(Debug, Default)]
pub(crate) struct Candidate {
    /// The files, in the order of their URIs; no more than [`MAX_FILES`] and one.
    files: BTreeMap<Uri, ListedFile>,
    /// The number of files.
    count: usize,
    /// The size of the URIs of `files`.
    bytes: usize,
    /// Whether the URIs alone exceed what a walk keeps.
    is_too_large: bool,
}

/// What a listing has of a file.
#[derive(Clone, Debug)]
struct ListedFile {
    modified: Option<Box<str>>,
    size: Option<u64>,
    ttl: Duration,
}

/// Why no skill of a plugin can be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// Its listing fails.
    #[error("its listing fails: {0}")]
    Listing(#[from] Fault),
    /// The walk of its listing exceeds a bound.
    #[error("its listing is too long to find skills: more than {MAX_PAGES} pages or {} s", MAX_TIME.as_secs())]
    Bounds,
}

impl Candidate {
    /// Returns the URI of the manifest in a directory.
    pub(crate) fn manifest(&self, directory: &str) -> Option<&Uri> {
        let is_manifest = |uri: &&Uri| uri.as_str().strip_prefix(directory) == Some("/SKILL.md");
        self.files.keys().find(is_manifest)
    }
}

/// Returns the directory of a manifest: the URI without `/SKILL.md`.
pub(crate) fn directory_of(manifest: &str) -> Option<&str> {
    manifest.strip_suffix(MANIFEST)?.strip_suffix('/')
}

/// Returns whether the globs name a directory.
pub(crate) fn is_named(globs: &[UriGlob], directory: &str) -> bool {
    globs.iter().any(|glob| glob.matches(directory))
}

/// Returns the directories above a URI that the globs name, below the mount or the mount itself: the lengths of their URIs.
fn directories_above(globs: &[UriGlob], mount: &Mount, uri: &str) -> Vec<usize> {
    let begin = mount.as_str().len().saturating_sub(1);
    let slashes = uri.match_indices('/').map(|(index, _)| index).filter(|index| *index >= begin);
    let is_named = |length: &usize| uri.get(..*length).is_some_and(|directory| is_named(globs, directory));
    slashes.take(MAX_DEPTH).filter(is_named).take(MAX_NESTED).collect()
}

/// Which directories a walk looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// Those after this one, or all.
    After(Option<&'a str>),
    /// One.
    Only(&'a str),
}

impl Wanted<'_> {
    fn includes(self, directory: &str) -> bool {
        match self {
            Self::After(after) => after.is_none_or(|after| directory > after),
            Self::Only(only) => directory == only,
        }
    }
}

/// The directories that a walk found, of which each may be a skill.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The directories by their URIs, in this order.
    pub(crate) candidates: BTreeMap<String, Candidate>,
    /// Whether there are others after them.
    pub(crate) has_more: bool,
    bytes: usize,
}

impl Found {
    /// Returns the directory from which on nothing is kept.
    fn end(&self) -> Option<&str> {
        self.candidates.last_key_value().filter(|_| self.candidates.len() >= PAGE).map(|(last, _)| last.as_str())
    }

    fn add(&mut self, directory: &str, uri: &Uri, file: &ListedFile) {
        if self.end().is_some_and(|end| directory > end) {
            self.has_more = true;
            return;
        }
        if !self.candidates.contains_key(directory) {
            self.candidates.insert(directory.to_owned(), Candidate::default());
            self.bytes = self.bytes.saturating_add(directory.len());
        }
        if let Some(candidate) = self.candidates.get_mut(directory) {
            candidate.count = candidate.count.saturating_add(1);
            if candidate.files.len() <= MAX_FILES && !candidate.is_too_large {
                let bytes = uri.as_str().len();
                candidate.bytes = candidate.bytes.saturating_add(bytes);
                self.bytes = self.bytes.saturating_add(bytes);
                candidate.files.insert(uri.clone(), file.clone());
            }
        }
        // What is removed at the end is not added again, as the end only moves forward.
        while self.candidates.len() > PAGE || (self.bytes > MAX_FOUND && self.candidates.len() > 1) {
            let Some((directory, candidate)) = self.candidates.pop_last() else { break };
            self.bytes = self.bytes.saturating_sub(directory.len()).saturating_sub(candidate.bytes);
            self.has_more = true;
        }
        if self.bytes > MAX_FOUND
            && let Some((directory, candidate)) = self.candidates.iter_mut().next()
        {
            candidate.files.retain(|uri, _| uri.as_str().strip_prefix(directory.as_str()) == Some("/SKILL.md"));
            candidate.is_too_large = true;
            self.bytes = self.bytes.saturating_sub(candidate.bytes);
            candidate.bytes = 0;
        }
    }
}

/// Finds directories in the listing of a plugin that its globs name. `is_visible` decides which files exist.
pub(crate) async fn find(
    plugin: &Plugin,
    wanted: Wanted<'_>,
    is_visible: impl Fn(&Uri) -> bool + Clone + Send + 'static,
) -> Result<Found, FindError> {
    let begun = Instant::now();
    let mut found = Found::default();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let (globs, mount, is_visible) = (plugin.skills().clone(), plugin.mount().clone(), is_visible.clone());
        let keep = move |entry: Resource| {
            let uri = entry.uri.as_str();
            if entry.is_directory() || uri.contains('?') {
                return None;
            }
            let directories = directories_above(&globs, &mount, uri);
            (!directories.is_empty() && is_visible(&entry.uri)).then(|| {
                let modified = entry.annotations.last_modified.as_ref().map(|time| time.as_str().into());
                let file = ListedFile { modified, size: entry.size, ttl: entry.ttl.unwrap_or_default() };
                (directories, entry.uri, file)
            })
        };
        let page = plugin.list(CallOrigin::Client, None, cursor.as_deref(), PAGE_SIZE, keep).await?;
        for (_, (directories, uri, file)) in page.items {
            let directories = directories.into_iter().filter_map(|length| uri.as_str().get(..length));
            for directory in directories.filter(|directory| wanted.includes(directory)) {
                found.add(directory, &uri, &file);
            }
            // A page has any number of entries.
            tokio::task::consume_budget().await;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
        if begun.elapsed() > MAX_TIME {
            break;
        }
    }
    Err(FindError::Bounds)
}

/// What is kept of a plugin for its skills.
pub(crate) struct SkillState {
    /// The digests of its files.
    pub(crate) digests: Digests,
    /// Bounds the requests that walk its listing, with a share for each client.
    pub(crate) walks: FairSemaphore,
}

impl Default for SkillState {
    fn default() -> Self {
        Self { digests: Digests::default(), walks: FairSemaphore::new(MAX_WALKS, MAX_WAITING) }
    }
}

/// Digests of files of one plugin, by what its listing has of them.
#[derive(Debug)]
pub(crate) struct Digests(Cache<DigestKey, DigestOf, DigestWeight>);

/// The URI, the modification time and the size of a file.
type DigestKey = (Uri, Box<str>, u64);
/// Its digest, and the number of bytes that it is of.
type DigestOf = (Box<str>, u64);

#[derive(Clone, Debug)]
struct DigestWeight;

impl Weighter<DigestKey, DigestOf> for DigestWeight {
    fn weight(&self, (uri, modified, _): &DigestKey, (digest, _): &DigestOf) -> u64 {
        const OVERHEAD: usize = 128;
        let bytes =
            [modified.len(), digest.len(), OVERHEAD].into_iter().fold(uri.as_str().len(), usize::saturating_add);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Default for Digests {
    fn default() -> Self {
        Self(Cache::with_weighter(1024, MAX_DIGESTS, DigestWeight))
    }
}

impl Digests {
    /// The key of a file whose modification would change it: its time is known, and past.
    fn key(uri: &Uri, file: &ListedFile) -> Option<DigestKey> {
        let modified = file.modified.as_ref()?;
        let time: jiff::Timestamp = modified.parse().ok()?;
        let age = SystemTime::now().duration_since(SystemTime::from(time)).ok()?;
        (age > CLOCK_RESOLUTION).then(|| (uri.clone(), modified.clone(), file.size.unwrap_or(u64::MAX)))
    }
}

/// Reads files of skills.
pub(crate) trait ReadFile: Sync {
    /// Returns the contents of a file.
    fn read(&self, uri: &Uri) -> impl Future<Output = Result<Vec<ResourceContents>, Fault>> + Send;
}

/// Makes a skill of a directory; none if it has no manifest.
///
/// # Errors
///
/// The directory breaks a rule.
pub(crate) async fn build(
    directory: &str,
    candidate: Candidate,
    digests: &Digests,
    reader: &impl ReadFile,
) -> Result<Option<Skill>, SkillProblem> {
    let building = build_in_time(directory, candidate, digests, reader);
    let too_slow = |_| SkillProblem { line: None, rule: SkillRule::Time };
    timeout(MAX_TIME, building).await.map_err(too_slow)?
}

async fn build_in_time(
    directory: &str,
    candidate: Candidate,
    digests: &Digests,
    reader: &impl ReadFile,
) -> Result<Option<Skill>, SkillProblem> {
    let of_directory = |rule| SkillProblem { line: None, rule };
    let Some(manifest) = candidate.manifest(directory).cloned() else { return Ok(None) };
    if candidate.is_too_large {
        return Err(of_directory(SkillRule::Uris));
    }
    if candidate.count > MAX_FILES {
        return Err(of_directory(SkillRule::Files(candidate.count)));
    }
    let content = read_whole(reader, &manifest).await.map_err(of_directory)?;
    let bytes = content.body.as_bytes();
    let text = std::str::from_utf8(bytes).map_err(|_| of_directory(SkillRule::NotUtf8))?;
    let name = directory.rsplit('/').next().unwrap_or_default();
    let front_matter = front_matter::parse(text, name)?;
    let ttl = candidate.files.values().map(|file| file.ttl).min().unwrap_or_default();
    let (mut files, mut total) = (Vec::with_capacity(candidate.files.len()), 0_u64);
    for (uri, listed) in candidate.files {
        let (digest, size) = if uri == manifest {
            digest_of(bytes)
        } else {
            let key = Digests::key(&uri, &listed);
            match key.as_ref().and_then(|key| digests.0.get(key)) {
                Some((digest, size)) => (digest.into(), size),
                None => {
                    let content = read_whole(reader, &uri).await.map_err(of_directory)?;
                    let (digest, size) = digest_of(content.body.as_bytes());
                    if let Some(key) = key {
                        digests.0.insert(key, (digest.as_str().into(), size));
                    }
                    (digest, size)
                }
            }
        };
        total = total.saturating_add(size);
        if total > MAX_BYTES {
            return Err(of_directory(SkillRule::Bytes));
        }
        files.push(SkillFile { uri, digest, size });
    }
    Ok(Some(Skill { uri: manifest, front_matter, files, ttl }))
}

/// Returns the content of a file, if that is all of it.
async fn read_whole(reader: &impl ReadFile, uri: &Uri) -> Result<ResourceContents, SkillRule> {
    let unreadable = |reason: String| SkillRule::Unreadable { uri: uri.clone(), reason };
    let contents = reader.read(uri).await.map_err(|fault| unreadable(reason(&fault)))?;
    let content = contents.into_iter().find(|content| content.entry.uri == *uri);
    let content = content.ok_or_else(|| unreadable("reading it returns contents of other resources".to_owned()))?;
    let is_part = |notice: &Notice| matches!(notice.kind, NoticeKind::Cut | NoticeKind::Incomplete);
    match Notice::all_in(&content.entry.meta).iter().any(is_part) {
        true => Err(SkillRule::Cut(uri.clone())),
        false => Ok(content),
    }
}

/// The files of a plugin, without access rules.
struct AllFiles<'a>(&'a Plugin);

impl ReadFile for AllFiles<'_> {
    async fn read(&self, uri: &Uri) -> Result<Vec<ResourceContents>, Fault> {
        let mount = self.0.mount();
        match uri.as_str().strip_prefix(mount.as_str()).map(|path| mount.compose(path)) {
            Some(Ok(named)) => self.0.read(&named.path, |_| true).await,
            _ => Err(Fault::NotFound),
        }
    }
}

/// Returns why directories of a plugin are not served as skills, each with its manifest, as a check finds it: without access rules.
pub(crate) async fn problems(plugin: &Plugin) -> Vec<String> {
    let begun = Instant::now();
    let (digests, reader, mut problems) = (Digests::default(), AllFiles(plugin), Vec::new());
    let (mut last, mut has_skills) = (None::<String>, false);
    loop {
        let found = match find(plugin, Wanted::After(last.as_deref()), |_| true).await {
            Ok(found) => found,
            Err(error) => {
                problems.push(format!("no skill is served: {error}"));
                return problems;
            }
        };
        for (directory, candidate) in found.candidates {
            if begun.elapsed() > CHECK_TIME || problems.len() >= MAX_PROBLEMS {
                problems
                    .push(format!("the skills after {} were not checked: it takes too long", truncated(&directory)));
                return problems;
            }
            match build(&directory, candidate, &digests, &reader).await {
                Ok(skill) => has_skills |= skill.is_some(),
                Err(problem) => {
                    has_skills = true;
                    problems.push(format!("`{directory}/{MANIFEST}` is not served as a skill: {problem}"));
                }
            }
            last = Some(directory);
        }
        if !found.has_more {
            break;
        }
    }
    if !has_skills {
        problems
            .push("no skill is served: its listing has no `SKILL.md` in a directory that `skills` names".to_owned());
    }
    problems
}

/// The reason of a fault, for an administrator and for whoever may read the file.
fn reason(fault: &Fault) -> String {
    match fault {
        Fault::NotFound => "it does not exist any more".to_owned(),
        Fault::InvalidRequest(_) | Fault::Denied(_) | Fault::Unavailable { .. } => fault.to_string(),
        _ => "its plugin failed; the server's log says why".to_owned(),
    }
}

fn digest_of(bytes: &[u8]) -> (String, u64) {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to memory does not fail.
        let _ = write!(digest, "{byte:02x}");
    }
    (digest, u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_above_a_file_up_to_the_mount() {
        let globs: Vec<UriGlob> = vec!["**/skills/*".parse().unwrap()];
        let mount: Mount = "files:///".parse().unwrap();
        fn of<'a>(globs: &[UriGlob], mount: &Mount, uri: &'a str) -> Vec<&'a str> {
            directories_above(globs, mount, uri).into_iter().filter_map(|length| uri.get(..length)).collect()
        }
        assert_eq!(of(&globs, &mount, "files:///team/skills/pdf/SKILL.md"), ["files:///team/skills/pdf"]);
        assert_eq!(
            of(&globs, &mount, "files:///skills/pdf/a/skills/b/x"),
            ["files:///skills/pdf", "files:///skills/pdf/a/skills/b"]
        );
        assert_eq!(of(&globs, &mount, "files:///skills/SKILL.md"), [""; 0]);
        let whole: Vec<UriGlob> = vec!["skill://pdf".parse().unwrap()];
        let mount: Mount = "skill://pdf/".parse().unwrap();
        assert_eq!(of(&whole, &mount, "skill://pdf/SKILL.md"), ["skill://pdf"]);
        let everything: Vec<UriGlob> = vec!["**".parse().unwrap()];
        let deep = format!("files:///{}SKILL.md", "d/".repeat(1000));
        let mount: Mount = "files:///".parse().unwrap();
        assert_eq!(directories_above(&everything, &mount, &deep).len(), MAX_NESTED);
        assert_eq!(directory_of("skill://pdf/SKILL.md"), Some("skill://pdf"));
        assert_eq!(directory_of("skill://pdf/OTHER.md"), None);
    }

    fn add(found: &mut Found, directory: &str, name: &str) {
        let uri = "x:///".parse::<Mount>().unwrap().compose(&format!("{directory}/{name}")).unwrap().uri;
        found.add(&format!("x:///{directory}"), &uri, &ListedFile { modified: None, size: None, ttl: Duration::ZERO });
    }

    #[test]
    fn a_walk_keeps_the_first_directories_whole_in_whatever_order_they_are_listed() {
        let mut found = Found::default();
        let names: Vec<_> = (0..100).map(|n| format!("d{n:02}")).collect();
        for name in names.iter().rev().chain(&names) {
            let kept = found.candidates.len();
            add(&mut found, name, &format!("{kept}.md"));
            add(&mut found, name, "SKILL.md");
        }
        let kept: Vec<_> = found.candidates.keys().map(String::as_str).collect();
        assert_eq!(kept, names[..PAGE].iter().map(|name| format!("x:///{name}")).collect::<Vec<_>>());
        assert!(found.has_more && found.candidates.values().all(|candidate| candidate.count == 4));
    }

    #[test]
    fn a_walk_keeps_bounded_bytes_whatever_is_listed() {
        let mut found = Found::default();
        let long = "n".repeat(7000);
        for n in 0..10_000 {
            add(&mut found, &format!("d{:02}", n % 20), &format!("{n}{long}"));
        }
        assert!(found.bytes <= MAX_FOUND, "{}", found.bytes);
        assert!(found.has_more && !found.candidates.is_empty());
        let bytes: usize = found.candidates.iter().map(|(directory, one)| directory.len() + one.bytes).sum();
        assert_eq!(bytes, found.bytes);
        let mut found = Found::default();
        for n in 0..2000 {
            add(&mut found, "one", &format!("{n}{long}"));
        }
        let one = &found.candidates["x:///one"];
        assert!(one.files.len() <= MAX_FILES + 1 && one.count == 2000 && found.bytes <= MAX_FOUND);
    }
}
