//! Resources that change in a cluster with faults: files, tables of a database, and pages of a web server.
//!
//! | kind | URI | how a change is found |
//! |---|---|---|
//! | file | `files://f/N.txt` | an event of the directory, or a poll each 500 ms |
//! | table | `db://t/main/tN/rows` | a poll each 500 ms |
//! | page | `web://127.0.0.1:PORT/pN` | a poll each second |
//!
//! One resource of each kind is `secret`: it changes as often as the others of its kind, and no client may see it.

use std::time::Instant;

use rusqlite::Connection;

use crate::change_check::Change;
use crate::{Folder, MockOrigin, Plugin, Reply, Rule, component};

/// The kinds of resources.
const KINDS: [Kind; 3] = [Kind::File, Kind::Table, Kind::Page];

/// A number of resources: of 20, 17 are files, two are tables, and one is a page.
#[derive(Debug)]
pub(crate) struct ChangingResources {
    folder: Folder,
    database: Connection,
    database_folder: Folder,
    pages: MockOrigin,
    count: usize,
    /// The number of changes so far.
    written: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Table,
    Page,
}

impl Kind {
    fn of(number: usize) -> Self {
        match number % 20 {
            8 | 18 => Self::Table,
            19 => Self::Page,
            _ => Self::File,
        }
    }

    /// The name of a resource; of the secret one without a number.
    fn name(self, number: Option<usize>) -> String {
        let prefix = match self {
            Self::File => "",
            Self::Table => "t",
            Self::Page => "p",
        };
        number.map_or_else(|| "secret".to_owned(), |number| format!("{prefix}{number}"))
    }
}

impl ChangingResources {
    /// Creates `count` resources.
    pub(crate) async fn new(count: usize) -> Self {
        let database_folder = Folder::with_files::<&str, &str>([]);
        let database = Connection::open(database_folder.path().join("t.db")).expect("a database");
        database.pragma_update(None, "journal_mode", "WAL").expect("a log for the writer");
        database.pragma_update(None, "synchronous", "OFF").expect("no test survives a power failure");
        let folder = Folder::with_files::<&str, &str>([]);
        let resources = Self { folder, database, database_folder, pages: MockOrigin::http().await, count, written: 0 };
        let numbered = (0..count).map(|number| (Kind::of(number), Some(number)));
        for (kind, number) in numbered.chain(KINDS.map(|kind| (kind, None))) {
            let name = kind.name(number);
            if kind == Kind::Table {
                let sql = format!("CREATE TABLE {name} (value INTEGER); INSERT INTO {name} VALUES (0)");
                resources.database.execute_batch(&sql).expect("a table");
            }
            resources.write(kind, &name, 0);
        }
        resources
    }

    /// The plugins that serve them.
    pub(crate) fn plugins(&self) -> [Plugin; 3] {
        let database = format!("sqlite://{}", self.database_folder.path().join("t.db").display());
        // A page has no freshness lifetime, so it is polled each second. The default rate is for servers of others.
        let rate = toml::Table::from_iter([("rate".to_owned(), "1000/s".into())]);
        let pages = Plugin::new("w", &component("http-cache"), "web://")
            .origin(&self.pages.origin())
            .bucket("pages")
            .config("plain-http", vec![self.page_host()])
            .config("check-seconds", 1)
            .limit("http", rate)
            .limit("cpu", "10s")
            .limit("deadline", "1m")
            .limit("queue-timeout", "1m");
        let plugins = [Plugin::files("f", self.folder.path()), Plugin::database("t", database), pages];
        plugins.map(|plugin| plugin.set("polling", "shared").set("watch-interval", "500ms"))
    }

    /// The rule for all clients.
    pub(crate) fn rule() -> Rule {
        Rule::for_principal("*").allow(["**"]).deny(["**/secret.txt", "**/secret/rows", "**/secret"])
    }

    /// The URI of a resource.
    pub(crate) fn uri(&self, number: usize) -> String {
        self.uri_of(Kind::of(number), Some(number))
    }

    /// The resources that are hidden from all clients.
    pub(crate) fn secrets(&self) -> Vec<String> {
        KINDS.map(|kind| self.uri_of(kind, None)).to_vec()
    }

    /// Whether a change of that resource is found within a fraction of a second.
    pub(crate) fn is_found_soon(uri: &str) -> bool {
        !uri.starts_with("web:")
    }

    /// Changes the next resource, in turn, and the secret one of its kind.
    pub(crate) fn change(&mut self) -> Change {
        let number = self.written % self.count;
        self.written += 1;
        let kind = Kind::of(number);
        let change = Change { uri: self.uri(number), at: Instant::now() };
        for name in [kind.name(Some(number)), kind.name(None)] {
            self.write(kind, &name, self.written);
        }
        change
    }

    fn uri_of(&self, kind: Kind, number: Option<usize>) -> String {
        let name = kind.name(number);
        match kind {
            Kind::File => format!("files://f/{name}.txt"),
            Kind::Table => format!("db://t/main/{name}/rows"),
            Kind::Page => format!("web://{}/{name}", self.page_host()),
        }
    }

    fn page_host(&self) -> String {
        format!("127.0.0.1:{}", self.pages.port())
    }

    /// Writes new content; files get different lengths.
    fn write(&self, kind: Kind, name: &str, content: usize) {
        match kind {
            Kind::File => {
                self.folder.write(format!("{name}.txt"), format!("{content:0width$}", width = 1 + content % 50));
            }
            Kind::Table => {
                let written = self.database.execute(&format!("UPDATE {name} SET value = ?1"), [content]);
                assert_eq!(written.expect("a row can be written"), 1);
            }
            Kind::Page => {
                let page = Reply::ok("text/plain", content.to_string());
                self.pages.serve(&format!("/{name}"), page.cache_control("max-age=0").etag(&format!("\"{content}\"")));
            }
        }
    }
}
