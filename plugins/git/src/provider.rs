//! The provider: dispatches each call to the module that implements it.

use crate::error::Result;
use crate::paths::{self, Address};
use crate::repo::Repository;
use crate::settings::Settings;
use crate::{changes, complete, list, view};
use mcp_provider::keyvalue::LazyBucket;
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Grants, Info, Page, Provider, Template,
};
use std::rc::Rc;

/// The bucket for the results of history walks; optional.
const BUCKET: &str = "histories";

/// A provider of a git repository.
pub struct Git {
    settings: Settings,
    repository: Repository,
}

impl Git {
    fn begin_call(&self) -> &Repository {
        self.repository.begin_call();
        &self.repository
    }
}

impl Provider for Git {
    fn describe() -> Info {
        Info::new("git", env!("CARGO_PKG_VERSION"))
            .title("Git repository")
            .description(
                "A git repository at any revision. `blob/REV/PATH` is a file and `tree/REV/PATH` a directory of it, \
                 `commit/REV` a commit with its diff, `diff/A..B?path=PATH` the differences of two revisions, \
                 `log/REV?path=PATH&limit=N` a history (`log/A..B`: what B has and A has not), \
                 `blame/REV/PATH?lines=1-20` the commit that each line of a file comes from, `refs` all branches and \
                 tags. REV is `HEAD`, a branch, a tag or the id of a commit (its beginning will do), with operators such \
                 as `main~2`; slashes and `^` in it are percent-encoded, as in `blob/feature%2Fx/README.md`.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self, Failure> {
        let settings = Settings::parse(config)?;
        let mut repository = Repository::open(&settings.dir, settings.max_object(), settings.refs.clone())?;
        if Grants::current().allows_keyvalue(BUCKET) == Some(true) {
            repository.keep_learned_in(Rc::new(LazyBucket::new(BUCKET)));
        }
        Ok(Self { settings, repository })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page, Failure> {
        let Some(parent) = parent else {
            let repository = self.begin_call();
            // `mcp-host check` lists the first page.
            if cursor.is_none() && repository.lacks_commit_graph() {
                let bucket = match repository.learned().is_kept() {
                    true => "",
                    false => {
                        ", or grant the bucket `histories` in a config, so that each request goes on where the last one \
                         ended"
                    }
                };
                log::warn!(
                    "the repository has no commit-graph, so histories of a path and blames may end early: run \
                     `git commit-graph write --reachable --changed-paths` in it{bucket}"
                );
            }
            return Ok(list::default_files(repository, &self.settings, cursor, limit)?);
        };
        match Address::parse(parent)? {
            Address::Tree { rev, path } => {
                Ok(list::children(self.begin_call(), rev.as_ref(), path.as_ref(), cursor, limit)?)
            }
            _ => {
                // A missing resource is reported as not found, not as a resource that cannot be listed.
                self.stat(parent)?;
                Err(Failure::invalid(format!(
                    "expected a directory, {{mount}}{} or {{mount}}tree/{{rev}}, as the parent",
                    paths::TREE
                )))
            }
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>, Failure> {
        let address = Address::parse(path)?;
        let repository = self.begin_call();
        let contents = view::read(repository, &self.settings, &address);
        repository.end_call();
        let mut contents = contents?;
        contents.entry.path = path.to_owned();
        Ok(vec![contents])
    }

    fn stat(&self, path: &str) -> Result<Entry, Failure> {
        let mut entry = view::stat(self.begin_call(), &Address::parse(path)?)?;
        entry.path = path.to_owned();
        Ok(entry)
    }

    fn templates(&self) -> Vec<Template> {
        let rev = "`rev` is `HEAD`, a branch (its slashes percent-encoded: `feature%2Fx`), a tag or the id of a commit, also \
                   as `main~2`";
        vec![
            Template::new(paths::BLOB, "blob")
                .title("A file at a revision")
                .description(format!("The content of a file. {rev}; `path` is the file's path from the root.")),
            Template::new(paths::TREE, "tree")
                .title("A directory at a revision")
                .description(format!("The entries of a directory. {rev}; `path` is its path, empty for the root."))
                .mime_type("inode/directory"),
            Template::new(paths::COMMIT, "commit")
                .title("A commit")
                .description(format!("Author, message and the diff to the first parent. {rev}."))
                .mime_type(view::COMMIT),
            Template::new(paths::LOG, "log")
                .title("The history of a revision")
                .description(format!(
                    "Its commits, newest first, one per line: id, date, author, subject. {rev}, or a range `v1..v2`; with \
                     `path`, those that changed it, and with `follow=true` also under the former names of that file; \
                     `limit` is the number of commits, 50 by default and at most 1000, after the first `skip`."
                ))
                .mime_type("text/plain"),
            Template::new(paths::DIFF, "diff")
                .title("The differences of two revisions")
                .description(
                    "The changed files, and their diff from `a` to `b`, which are revisions; with `path`, of that file or \
                     directory only.",
                )
                .mime_type(view::DIFF),
            Template::new(paths::BLAME, "blame")
                .title("Where the lines of a file come from")
                .description(format!(
                    "One line per line of the file: the commit that it comes from, date, author, number, text. {rev}; \
                     `lines` is a range such as `1-20`."
                ))
                .mime_type("text/plain"),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion, Failure> {
        Ok(complete::complete(self.begin_call(), &self.settings, template, argument, known)?)
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes, Failure> {
        Ok(changes::changes(self.begin_call(), &self.settings, watched, since)?)
    }
}
