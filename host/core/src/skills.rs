//! Skills (SEP-2640): directories with a `SKILL.md`, below the mounts of plugins whose config names them (`skills`).
//!
//! A skill is found in the listing of its plugin, and consists of the files that the principal may list and read: a
//! hidden file is not part of the skill, neither named nor counted. The host stores no index. Each request walks the
//! listing ([`walk`]), and reads the files of the skills that it returns, to compute their digests ([`build`]). Digests
//! of files with a known modification time and size are cached ([`Digests`]).
//!
//! A skill that breaks a rule of the [Agent Skills specification](https://agentskills.io/specification) or a limit of
//! SEP-2640 is not served; `mcp-host check` reports the rule ([`SkillProblem`]).
//!
//! # Bounds
//!
//! Pages of skills are in the order of URIs, and each page has its own walk. A walk keeps the first [`walk::PAGE`]
//! directories after a position, with at most [`MAX_FOUND`] bytes of URIs, however long the listing is. The walk of one
//! plugin ends after [`walk::MAX_PAGES`] pages or [`MAX_TIME`]; then none of the plugin's skills is served. A skill has
//! at most [`MAX_FILES`] files and [`MAX_BYTES`] bytes, as SEP-2640 recommends, and reading them takes at most
//! [`MAX_TIME`]. A semaphore bounds the concurrent walks of one plugin, with a fair share for each client
//! ([`SkillState`]).

mod front_matter;
mod state;
mod walk;

use std::fmt::{self, Write};
use std::time::Duration;

use mcp_host_base::text::truncated;
use mcp_host_engine::plugin::{Fault, Plugin};
use mcp_host_model::resource::{Footprint, Notice, NoticeKind, ResourceContents};
use mcp_host_model::uri::Uri;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

pub(crate) use self::state::{Digests, SkillState};
pub(crate) use self::walk::{Candidate, FindError, Wanted, directory_of, find, is_named};

/// The name of the manifest of a skill.
const MANIFEST: &str = "SKILL.md";
/// The maximum number of files of a skill (SEP-2640, "Limits").
const MAX_FILES: usize = 512;
/// The maximum size of all files of a skill in bytes (SEP-2640, "Limits").
const MAX_BYTES: u64 = 16 << 20;
/// The maximum time for the walk of a plugin's listing, and for reading the files of a skill.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The maximum size of the URIs that a walk keeps.
const MAX_FOUND: usize = 2 << 20;
/// The maximum time in which a check reads skills.
const CHECK_TIME: Duration = Duration::from_secs(30);
/// The maximum number of problems of a check.
const MAX_PROBLEMS: usize = 100;

/// A skill, as visible to one principal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skill {
    /// The URI of its `SKILL.md`.
    pub uri: Uri,
    /// The front matter of its `SKILL.md`: YAML as JSON.
    pub front_matter: Map<String, Value>,
    /// Its files, ordered by URI, including `SKILL.md`.
    pub files: Vec<SkillFile>,
    /// The time for which it may be considered unchanged: the minimum of its files' times.
    pub ttl: Duration,
}

/// A file of a skill.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillFile {
    /// Its URI.
    pub uri: Uri,
    /// The SHA-256 of the content that a read returns: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The size of the content that a read returns, in bytes.
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

/// Why a directory is not served as a skill. `Display` has the line, the rule and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillProblem {
    /// The line of `SKILL.md`.
    pub line: Option<usize>,
    /// The violated rule.
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
    /// The name has invalid characters.
    #[error("`name` is not of a-z, 0-9 and single `-` between them")]
    Name,
    /// The name differs from the name of the directory.
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
    /// The files of the skill are too large.
    #[error("its files have more than {MAX_BYTES} bytes; move what agents do not need out of the directory")]
    Bytes,
    /// `SKILL.md` is not text.
    #[error("`SKILL.md` is not text in UTF-8")]
    NotUtf8,
    /// Reading a file returns only a part of it, so no client could verify its digest.
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

/// Why a directory does not become a skill.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// It breaks a rule.
    #[error("{0}")]
    Problem(SkillProblem),
    /// Its plugin fails to read its files, perhaps temporarily.
    #[error("its files cannot be read: {0}")]
    Fault(Fault),
    /// Reading its files takes too long.
    #[error("reading its files takes longer than {} s", MAX_TIME.as_secs())]
    Time,
}

impl From<SkillRule> for BuildError {
    fn from(rule: SkillRule) -> Self {
        Self::Problem(SkillProblem { line: None, rule })
    }
}

/// Reads files of skills.
pub(crate) trait ReadFile: Sync {
    /// Returns the contents of a file.
    fn read(&self, uri: &Uri) -> impl Future<Output = Result<Vec<ResourceContents>, Fault>> + Send;
}

/// Creates the skill of a directory; none if it has no manifest.
///
/// # Errors
///
/// The directory breaks a rule, or its files cannot be read.
pub(crate) async fn build(
    directory: &str,
    candidate: Candidate,
    digests: &Digests,
    reader: &impl ReadFile,
) -> Result<Option<Skill>, BuildError> {
    let building = build_in_time(directory, candidate, digests, reader);
    timeout(MAX_TIME, building).await.map_err(|_| BuildError::Time)?
}

async fn build_in_time(
    directory: &str,
    candidate: Candidate,
    digests: &Digests,
    reader: &impl ReadFile,
) -> Result<Option<Skill>, BuildError> {
    let Some(manifest) = candidate.manifest(directory).cloned() else { return Ok(None) };
    if candidate.is_too_large {
        return Err(SkillRule::Uris.into());
    }
    if candidate.count > MAX_FILES {
        return Err(SkillRule::Files(candidate.count).into());
    }
    let content = read_whole(reader, &manifest).await?;
    let bytes = content.body.as_bytes();
    let text = std::str::from_utf8(bytes).map_err(|_| SkillRule::NotUtf8)?;
    let name = directory.rsplit('/').next().unwrap_or_default();
    let front_matter = front_matter::parse(text, name).map_err(BuildError::Problem)?;
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
                    let content = read_whole(reader, &uri).await?;
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
            return Err(SkillRule::Bytes.into());
        }
        files.push(SkillFile { uri, digest, size });
    }
    Ok(Some(Skill { uri: manifest, front_matter, files, ttl }))
}

/// Returns the content of a file, if it is complete.
async fn read_whole(reader: &impl ReadFile, uri: &Uri) -> Result<ResourceContents, BuildError> {
    let unreadable = |reason: String| SkillRule::Unreadable { uri: uri.clone(), reason };
    let contents = reader.read(uri).await.map_err(|fault| match fault {
        Fault::NotFound => unreadable("it does not exist any more".to_owned()).into(),
        Fault::InvalidRequest(_) | Fault::Denied(_) => unreadable(fault.to_string()).into(),
        fault => BuildError::Fault(fault),
    })?;
    let content = contents.into_iter().find(|content| content.entry.uri == *uri);
    let content = content.ok_or_else(|| unreadable("reading it returns contents of other resources".to_owned()))?;
    let is_part = |notice: &Notice| matches!(notice.kind, NoticeKind::Cut | NoticeKind::Incomplete);
    match Notice::all_in(&content.entry.meta).iter().any(is_part) {
        true => Err(SkillRule::Cut(uri.clone()).into()),
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

/// Returns why directories of a plugin are not served as skills, each with its manifest, for a check: without access
/// rules.
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
                Err(BuildError::Problem(problem)) => {
                    has_skills = true;
                    problems.push(format!("`{directory}/{MANIFEST}` is not served as a skill: {problem}"));
                }
                // For example a rate limit, which the next skills exceed as well.
                Err(error @ (BuildError::Fault(_) | BuildError::Time)) => {
                    let from = truncated(&directory);
                    problems.push(format!("the skills from `{from}/{MANIFEST}` on were not checked: {error}"));
                    return problems;
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mcp_host_model::resource::{Resource, ResourceBody};
    use mcp_host_model::uri::Mount;

    use super::walk::ListedFile;
    use super::*;

    /// Manifests, and other files of 1 MiB. Counts the reads.
    struct Files(AtomicUsize);

    impl ReadFile for Files {
        async fn read(&self, uri: &Uri) -> Result<Vec<ResourceContents>, Fault> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let text = match uri.as_str().ends_with(MANIFEST) {
                true => "---\nname: s\ndescription: x\n---\n".to_owned(),
                false => "x".repeat(1 << 20),
            };
            Ok(vec![ResourceContents { entry: Resource::named(uri.clone(), "x"), body: ResourceBody::Text(text) }])
        }
    }

    /// A directory with a manifest and other files, which were modified long ago.
    fn directory(others: usize) -> Candidate {
        let mount: Mount = "x:///".parse().unwrap();
        let uri = |name: &str| mount.compose(name).unwrap().uri;
        let listed = ListedFile { modified: Some("2026-01-01T00:00:00Z".into()), size: None, ttl: Duration::ZERO };
        let mut candidate = Candidate::default();
        candidate.files.extend((0..others).map(|number| (uri(&format!("s/{number}")), listed.clone())));
        candidate.files.insert(uri("s/SKILL.md"), listed);
        candidate.count = candidate.files.len();
        candidate
    }

    #[tokio::test]
    async fn a_skill_has_a_maximum_size_and_known_digests_are_not_computed_again() {
        let (digests, reader) = (Digests::default(), Files(AtomicUsize::new(0)));
        let built = build("x:///s", directory(17), &digests, &reader).await;
        assert!(matches!(&built, Err(BuildError::Problem(problem)) if problem.rule == SkillRule::Bytes), "{built:?}");
        let built = build("x:///s", directory(15), &digests, &reader).await;
        assert_eq!(built.unwrap().unwrap().files.len(), 16);
        reader.0.store(0, Ordering::Relaxed);
        let built = build("x:///s", directory(15), &digests, &reader).await;
        assert_eq!(built.unwrap().unwrap().files.len(), 16);
        assert_eq!(reader.0.load(Ordering::Relaxed), 1, "only the manifest is read again");
    }
}
