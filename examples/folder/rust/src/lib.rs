//! The files of a folder, and the first lines of each.

use mcp_provider::functions::{Args, Functions, Resource, files};
use mcp_provider::{Config, Info, Result, export, needs};
use std::path::PathBuf;

needs! { "dirs": [{ "guest": "/data", "why": "the files" }] }

struct Folder {
    dir: PathBuf,
}

impl Functions for Folder {
    fn info() -> Info {
        Info::new("folder", env!("CARGO_PKG_VERSION")).description("The files of a folder.")
    }

    fn new(config: &Config) -> Result<Self> {
        Ok(Self { dir: config.get("dir").unwrap_or("/data").into() })
    }

    fn resources() -> Vec<Resource<Self>> {
        vec![
            Resource::new("{name}", Self::file)
                .name("file")
                .description("A file of the folder.")
                .list(|folder| files(&folder.dir)),
            Resource::new("first/{name}{?lines}", Self::first_lines)
                .name("first-lines")
                .description("The first lines of a text file.")
                .mime_type("text/plain"),
        ]
    }
}

impl Folder {
    fn file(&self, of: &Args) -> Result<PathBuf> {
        of.file_in("name", &self.dir)
    }

    fn first_lines(&self, of: &Args) -> Result<String> {
        let (bytes, lines) = (std::fs::read(self.file(of)?)?, of.or("lines", 10)?);
        Ok(String::from_utf8_lossy(&bytes).split_inclusive('\n').take(lines).collect())
    }
}

export!(Folder);

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_provider::{Argument, Failure, Provider};
    use std::fs;

    #[test]
    fn files_are_listed_by_pages_read_completed_and_watched() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a b.md", "b.txt", "c.bin"] {
            fs::write(dir.path().join(name), "1\n2\n3\n").unwrap();
        }
        let folder = Folder::open(&Config::from_pairs([("dir", dir.path().to_str().unwrap())])).unwrap();
        let first = folder.list(None, None, 2).unwrap();
        let second = folder.list(None, first.next_cursor.as_deref(), 2).unwrap();
        let paths: Vec<_> = first.entries.iter().chain(&second.entries).map(|entry| entry.path.as_str()).collect();
        assert_eq!((paths.as_slice(), second.next_cursor), (["a%20b.md", "b.txt", "c.bin"].as_slice(), None));
        assert_eq!(folder.read("first/a%20b.md?lines=2").unwrap()[0].as_text(), Some("1\n2\n"));
        for path in ["missing", "first/missing", "first/..%2Fsecret"] {
            assert_eq!(folder.read(path), Err(Failure::NotFound), "{path}");
        }
        let completion = folder.complete("first/{name}{?lines}", &Argument::new("name", "a"), &[]).unwrap();
        assert_eq!(completion.values, ["a b.md"]);
        let watched = ["b.txt", "first/b.txt?lines=1", "c.bin"].map(str::to_owned);
        let start = folder.changes(&watched, None).unwrap();
        fs::write(dir.path().join("b.txt"), "changed\n").unwrap();
        let later = folder.changes(&watched, Some(&start.token)).unwrap();
        assert_eq!((later.changed.as_slice(), later.listing_changed), (&watched[..2], true));
    }
}
