//! The files of a folder: one resource per file, and a template for the first lines of each.

use std::fs;
use std::path::PathBuf;

use mcp_provider::functions::{Args, Functions, Resource, files};
use mcp_provider::{Config, Info, Result, export, needs};

// What it would like to be granted: `mcp-host inspect` shows it.
needs! {
    "dirs": [{ "guest": "/data", "why": "the files" }],
    "config": {
        "dir": { "type": "string", "default": "/data", "why": "the folder, at its guest path" },
        "lines": { "type": "integer", "default": 10, "why": "the number of lines of `first/NAME`" }
    }
}

struct Files {
    folder: PathBuf,
    lines: usize,
}

impl Functions for Files {
    fn info() -> Info {
        Info::new("{{name}}", env!("CARGO_PKG_VERSION")).description("The files of a folder.")
    }

    fn new(config: &Config) -> Result<Self> {
        Ok(Self {
            folder: config.get("dir").unwrap_or("/data").into(),
            lines: config.parse("lines")?.unwrap_or(10),
        })
    }

    fn resources() -> Vec<Resource<Self>> {
        vec![
            Resource::new("{name}", Self::file)
                .name("file")
                .description("A file of the folder.")
                .list(|this| files(&this.folder)),
            Resource::new("first/{name}", Self::first_lines)
                .name("first-lines")
                .title("First lines of a file")
                .description("The first lines of a text file.")
                .mime_type("text/plain"),
        ]
    }
}

impl Files {
    fn file(&self, of: &Args) -> Result<PathBuf> {
        of.file_in("name", &self.folder)
    }

    fn first_lines(&self, of: &Args) -> Result<String> {
        let text = fs::read(self.file(of)?)?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.split_inclusive('\n').take(self.lines).collect())
    }
}

export!(Files);

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_provider::{Argument, Failure, Provider};

    #[test]
    fn files_are_listed_read_and_watched() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("a.md", b"one\ntwo\nthree\n");
        write("b.bin", b"\xff\x00");
        let config = [("dir", folder.path().to_str().unwrap()), ("lines", "2")];
        let files = Files::open(&Config::from_pairs(config)).unwrap();

        let page = files.list(None, None, 10).unwrap();
        let names: Vec<_> = page.entries.iter().map(|entry| &entry.name).collect();
        assert_eq!(names, ["a.md", "b.bin"]);
        assert_eq!(files.read("b.bin").unwrap()[0].as_bytes(), b"\xff\x00");
        let first = files.read("first/a.md").unwrap();
        assert_eq!(first[0].as_text(), Some("one\ntwo\n"));
        assert_eq!(files.read("c.md"), Err(Failure::NotFound));

        let typed = Argument::new("name", "a");
        let completed = files.complete("first/{name}", &typed, &[]).unwrap();
        assert_eq!(completed.values, ["a.md"]);

        let watched = ["first/a.md".to_owned(), "b.bin".to_owned()];
        let start = files.changes(&watched, None).unwrap();
        assert_eq!(files.changes(&watched, Some(&start.token)).unwrap(), start);
        write("a.md", b"changed\n");
        let later = files.changes(&watched, Some(&start.token)).unwrap();
        assert_eq!(later.changed, ["first/a.md"]);
        assert!(later.listing_changed);
    }

    #[test]
    fn a_folder_that_is_not_granted_is_a_fault_of_the_config() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let config = Config::from_pairs([("dir", missing.to_str().unwrap())]);
        let failure = Files::open(&config)
            .unwrap()
            .list(None, None, 10)
            .unwrap_err();
        assert!(failure.to_string().contains("grants.dirs"), "{failure}");
    }
}
